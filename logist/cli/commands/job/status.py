"""`logist job status`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import choose_job_id, job_options
from logist.cli.show import answer_details, glance
from logist.cli.show.output import Command, Diagnostic, Line, Output, StyledText, make_warnings
from logist.config.environment import Environment
from logist.core.answer import plans
from logist.core.answer.failed_calls import FailedCall
from logist.core.machine import advice
from logist.core.machine.job_row import DOER, RUNNING, build_job_row
from logist.core.machine.predecessors import Unmet, describe_unmet
from logist.core.money import amounts
from logist.core.text.counts import format_count
from logist.core.text.ids import is_job_id
from logist.errors import LogistError
from logist.store.cleaned import build_removal_data
from logist.store.listing import is_unpublished
from logist.store.settled_state import load_settled_state
from logist.timestamps import format_local

if TYPE_CHECKING:
    from logist.store.provider_wait import ProviderWait

State = dict[str, Any]

ENDED = ("SUCCESS", "FAILED", "CANCELED")

FINDINGS = 10
"""Findings of a review that are printed; --json has all."""
PLAN_LINES = 60
"""Lines of a plan that are printed; `job show` has all."""
NEAR, REACHED = 75, 100
"""Percent of a limit from which it is printed in yellow, and in red."""


@click.command("status")
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Also show the role's description, paths, times, tokens and artefacts.",
)
@job_options
@click.pass_obj
def status(
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    verbose: bool,
) -> Output:
    """Show the status of a job, what it has used, and the next command."""
    chosen = choose_job_id(environment, job_argument, job_option)
    above = environment.jobs_dir_name(jobs_dir, get_current_directory())
    folder = os.path.join(above, chosen)
    is_known = is_job_id(chosen) and not is_unpublished(above, chosen)
    state = load_settled_state(folder) if is_known else None
    if state is not None:
        try:
            return _show_status(environment, chosen, folder, state, (), verbose)
        except (AttributeError, KeyError, TypeError, ValueError):
            pass  # the checksum is valid, but Logist did not write it: rebuilding the state reports why

    from logist.cli.rebuilt_state import rebuild_state

    state, notes = rebuild_state(os.path.dirname(folder), chosen)
    return _show_status(environment, chosen, folder, state, notes, verbose)


def _show_status(
    environment: Environment,
    chosen: str,
    folder: str,
    state: State,
    notes: tuple[str, ...],
    verbose: bool,
) -> Output:
    holder = _read_holder(folder, chosen) if os.path.exists(os.path.join(folder, "inflight")) else None
    data = _build_data(chosen, folder, state, holder)
    if verbose:
        data["role_description"] = _read_role_description(environment, data["role"])
    followed, unread = _read_followed(data, folder, chosen, state)
    diagnostics = make_warnings(notes, "state_rebuilt") + unread + _warn_left_over(data, folder, holder)
    wait = glance.read_provider_wait(folder, state) if data["provider_wait"] else None
    if wait is not None:
        diagnostics = tuple(each for each in diagnostics if each.code != "in_flight")
    return Output(data, _format_status(data, verbose, followed, wait), diagnostics)


def _read_followed(
    data: State, folder: str, chosen: str, state: State
) -> tuple[list[Line] | None, tuple[Diagnostic, ...]]:
    """Return the progress of the workflow, unless it is the built-in one; also add it to `data`."""
    if state.get("workflow") is None:
        return None, ()
    from pathlib import Path

    from logist.cli.show import workflow_lines, workflow_standing
    from logist.jobs.followed_workflow import read_followed
    from logist.store import JobDir

    running = data["status"] in RUNNING.values()
    try:
        workflow_progress = read_followed(JobDir(Path(folder), chosen), state, running=running)
    except (LogistError, ValueError, KeyError, TypeError, AttributeError) as error:
        fix = f"logist job verify --job {chosen}"
        message = f"can't read the workflow: {str(error).splitlines()[0]}"
        return None, (Diagnostic("warning", "unreadable", message, folder, fix),)
    if workflow_progress is None:
        return None, ()
    data["workflow"] = workflow_lines.build_workflow_data(workflow_progress)
    data["next_command"] = workflow_lines.suggest_next_command(workflow_progress, data["next_command"])
    return list(workflow_standing.progress_lines(workflow_progress, answered=True)), ()


def _read_role_description(environment: Environment, role: str) -> str | None:
    """Return the description of a role from its current file; None if there is no valid role with that name."""
    from logist.cli.context import load_known_roles

    try:
        return load_known_roles(environment).get(role).description
    except LogistError:
        return None


def _read_holder(folder: str, chosen: str) -> dict[str, Any] | None:
    """Return the process that is working on the job, as JSON."""
    from pathlib import Path

    from logist.store import JobDir

    job_holder = JobDir(Path(folder), chosen).find_lock_holder()
    if job_holder is None:
        return None
    process = job_holder.stepper or job_holder.courier
    return {
        "text": str(job_holder),
        "pid": process.pid if process else None,
        "since": process.since if process else None,
        "courier_alone": job_holder.is_courier_alone,
    }


def _read_progress(folder: str) -> dict[str, Any] | None:
    """Return what the agent does at the moment, as JSON; None if its courier has not reported it."""
    import time
    from pathlib import Path

    from logist.cli.show.agent_progress import build_progress_data
    from logist.store.progress import read_last_record

    return build_progress_data(read_last_record(Path(folder, "inflight")), time.time())


def _format_progress(progress: dict[str, Any]) -> str:
    from logist.store.progress import ActivityRecord
    from logist.store.progress_text import format_progress

    return format_progress(ActivityRecord(**progress), progress["seconds"])


def _warn_left_over(data: State, folder: str, holder: object) -> tuple[Diagnostic, ...]:
    if holder or not os.path.exists(os.path.join(folder, "inflight", "1.request")):
        return ()
    if (away := glance.read_errand(folder)) is not None:
        data["next_command"] = glance.advise_collecting(away, os.path.basename(folder))
        return (
            Diagnostic("warning", "in_flight", glance.describe_errand(away), folder, data["next_command"]),
        )
    message = "a command was killed while an agent was working; the next step records what is left of it"
    return (Diagnostic("warning", "in_flight", message, folder, data["next_command"]),)


def _find_unmet(jobs_dir: str, state: Any, job_id: str) -> list[Unmet]:
    """Return the predecessors that the job must still wait for."""
    if not state.get("after"):
        return []
    from logist.jobs.base.predecessors import find_unmet

    return find_unmet(jobs_dir, state, job_id)


def _build_data(chosen: str, folder: str, state: State, holder: State | None) -> State:
    resting = state["status"]
    is_asked = holder and resting in RUNNING and os.path.exists(os.path.join(folder, "inflight", "1.request"))
    wait = glance.read_provider_wait(folder, state)
    unmet = _find_unmet(os.path.dirname(folder), state, chosen)
    job_row = build_job_row(chosen, state, running=bool(is_asked), wait=wait and wait.to_json(), unmet=unmet)
    if (
        is_asked and holder and holder["courier_alone"]
    ):  # the terminal is gone: the next step waits for the courier, and records the answer
        job_row["next_command"] = advice.advise_next_command(state, chosen)
    removed_files = build_removal_data(folder)
    if removed_files is not None:
        job_row["next_command"] = f"logist job show --job {chosen}"
    answered, failed_calls = _read_last_answer(folder, state)
    kind = job_row["stuck_kind"]
    return {
        **job_row,
        "resting": resting,
        "held_by": holder,
        "progress": _read_progress(folder) if is_asked else None,
        "reason": state["reason"],
        "stuck": state["stuck"],
        "role_source": state.get("agent_role_source", DOER["agent_role_source"]),
        "role_description": None,
        "switch_command": None if resting in ENDED else f"logist job role --job {chosen} NAME",
        "step": state["step"],
        "attempts": state["attempts"],
        "limits": _build_limits(state["limits"], state["usage"]),
        "shares_limits_of": state.get("parent") if state.get("shares_limits") else None,
        "usage": state["usage"],
        "last": state["last"],
        "plan": state.get("plan"),
        "note": state["note"],
        "checks": state.get("checks"),
        "findings": state.get("findings"),
        "artefacts": state["artefacts"],
        "revision": state["revision"],
        "path": folder,
        "forked": state.get("forked"),
        "setup": glance.read_last_setup(folder),
        "removed_files": removed_files,
        "answered": answered,
        "failed_calls": [each._asdict() for each in failed_calls],
        "read_command": answer_details.read_command(kind, chosen, answered),
        "poststep_command": answer_details.poststep_command(kind, chosen, folder),
        "workflow": None,
    }


def _read_last_answer(folder: str, state: State) -> tuple[int | None, list[FailedCall]]:
    """Return the number of the last answer, and its failed tool calls; only for a job where something went wrong,
    so that the status of the others is as quick as it was.
    """
    if state["status"] in ENDED or not (state["stuck"] or state["attempts"] or state.get("unchanged")):
        return None, []
    from logist.store.last_answer import read_last_answer

    entry = read_last_answer(folder, str((state.get("head") or {}).get("hash"))) or {}
    sequence, response = entry.get("sequence"), entry.get("response")
    if not isinstance(sequence, int) or not isinstance(response, dict):
        return None, []
    failed = response.get("tools_failed")
    return sequence, answer_details.read_failed_calls(folder, sequence) if failed else []


def _build_limits(limits: State, usage: State) -> list[State]:
    """Return how much of each limit is used; `level` is ok, near or reached."""
    spent = (
        amounts.join_cents(usage["cumulative_cost"], usage["cumulative_cost_microcents"]) / amounts.MICROCENTS
    )
    used = (
        ("cost_threshold", spent, "cents"),
        ("time_threshold_minutes", usage["cumulative_time_seconds"] / 60, "minutes"),
        ("max_allowed_iterations", usage["current_action_count"], "runs"),
    )
    return [_build_limit(name, value, limits[name], unit) for name, value, unit in used]


def _build_limit(name: str, used: float, limit: float, unit: str) -> State:
    percent = int(100 * used / limit) if limit else REACHED
    level = "reached" if percent >= REACHED else "near" if percent >= NEAR else "ok"
    return {
        "name": name,
        "used": round(used, 6),
        "limit": limit,
        "unit": unit,
        "percent": percent,
        "level": level,
    }


def _format_status(
    data: State, verbose: bool, followed: list[Line] | None, wait: ProviderWait | None
) -> list[Line]:
    lines: list[Line] = [
        _format_first_line(data),
        ("  ", StyledText(data["title"], "bold")),
        *_role_lines(data),
    ]
    lines += [f"  {line}" for line in glance.fork_lines(data["forked"])]
    lines += [f"  {line}" for line in glance.removal_lines(data["removed_files"])]
    if data["reason"] and data["reason"] != data["note"]:  # the note is printed below
        lines.append(f"  reason: {_to_one_line(data['reason'])}")
    if data["held_by"]:
        lines.append(f"  running: {data['held_by']['text']}")
    if wait is not None:
        tries = format_count(wait.tries, "try")
        lines.append(f"  waiting for {wait.describe()}; {tries} so far: {_to_one_line(wait.message)}")
    if data["waits_for"]:
        lines.append(f"  {describe_unmet([Unmet(**each) for each in data['waits_for']])}")
    if data["progress"]:
        lines.append(f"  progress: {_format_progress(data['progress'])}")
    lines += _question_lines(data)
    lines += answer_details.command_lines(data["read_command"], data["poststep_command"], "    ")
    failed = f"failed attempts: {data['attempts']}" if data["attempts"] else ""
    if followed is None:
        lines.append(f"  step: {data['step']}" + (f", {failed}" if failed else ""))
    else:
        lines += [*followed, *([f"  {failed}"] if failed else [])]
    lines += [line for limit in data["limits"] for line in _limit_lines(limit, data["id"])]
    if data["shares_limits_of"]:
        above = data["shares_limits_of"]
        lines.append(f"  shares the limits of its parent {above}: logist job status --job {above}")
    if data["last"]:
        last = data["last"]
        lines.append(
            f"  last: #{last['sequence']} {last['role']} {last['action']}: {_to_one_line(last['summary'])}"
        )
    lines += _review_lines(data)
    lines += _failed_call_lines(data)
    lines += _plan_lines(data)
    setup = data["setup"]
    lines += [f"  {glance.format_setup(setup)}"] if setup and (setup["failed"] or verbose) else []
    if data["note"]:
        lines.append(f"  note for the next agent: {_to_one_line(data['note'])}")
    lines += _verbose_lines(data) if verbose else []
    return [*lines, (Command(f"next: {data['next_command']}", "dim"),)]


def _review_lines(data: State) -> Iterator[Line]:
    """Yield the failed checks and the findings of the last review."""
    from logist.core.answer import findings

    recorded_findings = data["findings"] or []
    results = [each for each in data["checks"] or [] if findings.is_failed_check(each.get("outcome"))]
    named_checks = {each.get("check") for each in recorded_findings}
    for result in results:
        if result.get("check") not in named_checks:
            how = findings.format_check_result(
                str(result.get("outcome")), result.get("exit_code"), result.get("reason")
            )
            yield f"  check {_to_one_line(str(result.get('check')))}: {_to_one_line(how)}"
    yield from (f"  finding: {findings.format_finding(each)}" for each in recorded_findings[:FINDINGS])
    if len(recorded_findings) > FINDINGS:
        yield f"  and {len(recorded_findings) - FINDINGS} more findings"
    if data["resting"] not in ENDED:
        yield from answer_details.check_output_lines(results, data["id"])
    last = data["last"] or {}
    against = last.get("phase") == "reviewer" and last.get("verdict") == "FAIL" and data["attempts"]
    if against and data["resting"] == "PENDING":  # for STUCK, the next command includes it
        yield "    ", Command(f'to override: logist job approve --job {data["id"]} --override "..."', "dim")


def _failed_call_lines(data: State) -> Iterator[Line]:
    """Yield the failed tool calls of the last answer."""
    calls = [FailedCall(**each) for each in data["failed_calls"]]
    return answer_details.failed_call_lines(calls, data["answered"] or 0)


def _plan_lines(data: State) -> Iterator[Line]:
    """Yield a plan that waits for approval; for an approved plan, only the command that prints it."""
    plan = data["plan"]
    if not isinstance(plan, dict) or not plans.is_plan(plan.get("output")):
        return
    title = f"plan of {plan['role']} (#{plan['sequence']}"
    if plan["approved"]:
        yield f"  {title}, approved): logist job history --job {data['id']}"
        return
    yield (StyledText(f"  {title}):", "bold"),)
    lines_of_plan = plans.render_plan_lines(plan["output"])
    yield from (f"    {line}" for line in lines_of_plan[:PLAN_LINES])
    if len(lines_of_plan) > PLAN_LINES:
        yield f"    ... and {len(lines_of_plan) - PLAN_LINES} more lines: logist job show --job {data['id']}"


def _format_first_line(data: State) -> Line:
    unmerged = data["resting"] == "SUCCESS" and " merge " in data["next_command"]
    what = data["stuck_kind"] or data["awaiting"] or ("not merged" if unmerged else None)
    return (
        StyledText(data["id"], "bold"),
        " is ",
        glance.status_span(data["status"]),
        f" ({what})" if what else "",
    )


def _role_lines(data: State) -> Iterator[Line]:
    """Yield the role that does the work, why, its description, and the command that switches to another role."""
    role = glance.role_span(data["role"], data["badge"], data["color"])
    yield "  role: ", role, f" ({data['role_source']})"
    if data["role_description"]:
        yield f"    {_to_one_line(data['role_description'])}"
    if data["switch_command"]:
        yield "    ", Command(f"to switch: {data['switch_command']}", "dim")


def _question_lines(data: State) -> Iterator[Line]:
    """Yield the question of a STUCK agent."""
    last, stuck = data["last"], data["stuck"]
    question = last["output"] if last and stuck else None
    if not isinstance(question, dict):
        return
    reason = stuck["reason"]  # a later answer that was no question has another reason
    reasons = (last["summary"], last.get("reason"), question.get("question"))
    if reason in reasons or reason.startswith("invalid question: "):
        yield from answer_details.question_lines(question)


def _limit_lines(limit: State, job: str) -> list[Line]:
    style = {"ok": "", "near": "yellow", "reached": "red"}[limit["level"]]
    lines: list[Line] = [("  ", StyledText(f"{_format_used(limit)} ({limit['percent']} %)", style))]
    if limit["level"] == "reached":
        advised = f"logist job config --job {job} --set limits.{limit['name']}=..."
        lines.append(("    ", Command(f"to raise it: {advised}", "red")))
    return lines


def _format_used(limit: State) -> str:
    used, most, unit = limit["used"], limit["limit"], limit["unit"]
    if unit == "cents":
        shown = [amounts.format_money(round(value * amounts.MICROCENTS)) for value in (used, most)]
        return f"cost: {shown[0]} of {shown[1]}"
    return f"time: {used:.1f} of {most:g} minutes" if unit == "minutes" else f"runs: {used} of {most}"


def _verbose_lines(data: State) -> list[Line]:
    usage = data["usage"]
    return [
        f"  tokens: {usage['input_tokens']} in, {usage['output_tokens']} out",
        f"  rank: {data['rank']}, tags: {', '.join(data['tags']) or 'none'}",
        f"  created: {format_local(data['created_at'])}, changed: {format_local(data['updated_at'])}, interactions: {data['revision']}",
        f"  artefacts: {', '.join(data['artefacts']) or 'none'}",
        f"  directory: {data['path']}",
        f"  workspace: {os.path.join(data['path'], 'workspace')}",
    ]


def _to_one_line(text: str) -> str:
    return " ".join(text.split())
