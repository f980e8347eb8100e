"""`logist job show`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import job_options
from logist.cli.show import render
from logist.cli.show.output import DrawnText, Line, Output, Screen, StyledText
from logist.config.environment import Environment
from logist.core.answer import findings, plans, questions
from logist.core.answer.failed_calls import FailedCall
from logist.core.model.words import TERMINAL
from logist.core.money import amounts
from logist.errors import Refused

if TYPE_CHECKING:
    from logist.core.model import Interaction, State
    from logist.jobs.followed_workflow import Followed
    from logist.store import JobDir

ENDED = ("SUCCESS", "FAILED", "CANCELED")
PATHS = 20
"""Paths printed for each list of files of an answer; --json has all."""


@click.command("show")
@click.option(
    "--graph", is_flag=True, help="Show the workflow instead, with the progress of each step and child job."
)
@click.option("--mermaid", is_flag=True, help="Show the workflow as a mermaid diagram.")
@click.option("--checks", is_flag=True, help="Show only the results of the last checks, with their output.")
@job_options
@click.pass_context
def show(
    ctx: click.Context,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    graph: bool,
    mermaid: bool,
    checks: bool,
) -> Output:
    """Show the task, answers, results and paths of a job.

    With --graph or --mermaid, show the progress of its workflow instead. For the last answer, failed checks and
    failed tool calls are shown with the end of their output; with --checks, everything that was recorded of it.
    """
    from logist.cli.context import open_job
    from logist.cli.show import answer_details, glance
    from logist.cli.show.view import build_decision_row, build_entry_row, format_decision
    from logist.core.machine.kinds import DECISIONS
    from logist.core.machine.waiting import find_assignee
    from logist.jobs.base.plain_reader import read_interactions, read_job_spec, read_state
    from logist.store.cleaned import build_removal_data

    environment: Environment = ctx.obj
    is_json = ctx.get_parameter_source("as_json") is click.core.ParameterSource.COMMANDLINE
    job = open_job(environment, job_argument, job_option, jobs_dir)
    state = read_state(job)
    job_spec = read_job_spec(job)
    spec = job_spec.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    entries = [
        entry for entry in read_interactions(job) if entry.kind in ("ask", "note", "update", *DECISIONS)
    ]
    asked = [entry for entry in entries if entry.kind == "ask"]
    answers = [build_entry_row(entry) for entry in asked]
    notes = [_build_note(entry) for entry in entries if entry.kind == "note"]
    decided = [entry for entry in entries if entry.kind == "update" or entry.kind in DECISIONS]
    decisions = [line for entry in decided for line in format_decision(entry)]
    kind = state.place.stuck.kind if state.place.stuck else None
    last = asked[-1] if asked else None
    has_failed_calls = last is not None and last.response.tools_failed
    failed_calls = (
        answer_details.read_failed_calls(job.path, last.sequence) if last and has_failed_calls else []
    )
    results = [each.model_dump(mode="json") for each in state.checks or ()]
    data = {
        "job": job.id,
        "status": state.status.value,
        "title": state.title,
        "spec": spec,
        "answers": answers,
        "notes": notes,
        "decisions": [build_decision_row(entry) for entry in decided],
        "checks": results,
        "failed_calls": [each._asdict() for each in failed_calls],
        "question": last.response.output
        if last and kind and questions.is_question(last.response.output)
        else None,
        "read_command": answer_details.read_command(kind, job.id, last.sequence if last else None),
        "poststep_command": answer_details.poststep_command(kind, job.id, str(job.path)),
        "artefacts": state.artefacts,
        "outputs": state.outputs,
        "forked": state.forked.model_dump(mode="json") if state.forked else None,
        "adopted": state.adopted,
        "paths": _list_paths(job),
        "review_hash": _find_review_hash(environment, jobs_dir, job, state) if is_json else None,
        "setup": glance.read_last_setup(str(job.path)),
        "removed_files": build_removal_data(str(job.path)),
        "assignee": find_assignee(state.model_dump(mode="json")),
        "workflow": None,
        "mermaid": None,
    }
    if checks:
        return Output(data, list(_format_checks(results, job.id)))
    followed = _read_followed(job, state)
    if followed is None:
        if graph or mermaid:
            raise _make_undrawn_error(job, state)
        return Output(
            data, _format_job(data, decisions=decisions), on_terminal=partial(_draw_job, data, [], decisions)
        )
    from logist.cli.show import workflow_lines, workflow_standing

    data["workflow"] = workflow_lines.build_workflow_data(followed)
    data["mermaid"] = workflow_standing.build_diagram(followed) if mermaid else None
    if mermaid:
        return Output(data, raw=workflow_standing.build_diagram(followed, spoken=True))
    if graph:
        return Output(data, workflow_standing.draw_progress(followed))
    progress = [_remove_indent(line) for line in workflow_standing.progress_lines(followed)]
    return Output(
        data,
        _format_job(data, progress, decisions),
        on_terminal=partial(_draw_job, data, progress, decisions),
    )


def _find_review_hash(
    environment: Environment, jobs_dir: str | None, job: JobDir, state: State
) -> str | None:
    """Return the review hash, which only --json has; None if the job has ended or its workspace can't be read."""
    if state.status in TERMINAL:
        return None
    from logist.cli.context import open_plain_project
    from logist.jobs.steward.review_hash import find_review_hash

    project = open_plain_project(environment, jobs_dir)
    if project is not None:
        return find_review_hash(project, job, state)
    from logist.cli.checkup.surroundings import surroundings

    return find_review_hash(surroundings(environment, jobs_dir), job, state)


def _build_note(entry: Interaction) -> dict[str, Any]:
    """Return a note without a decision (`logist inbox note`) as JSON."""
    return {
        "sequence": entry.sequence,
        "timestamp": entry.timestamp,
        "steward": entry.steward.name if entry.steward else None,
        "note": entry.steward.note if entry.steward else None,
    }


def _format_checks(results: Sequence[dict[str, Any]], job: str) -> Iterator[Line]:
    """Yield the results with everything that was recorded of their output."""
    if not results:
        yield f"{job}: no check has run since the last step began"
    for result in results:
        outcome = findings.format_check_result(
            str(result.get("outcome")), result.get("exit_code"), result.get("reason")
        )
        style = "red bold" if findings.is_failed_check(result.get("outcome")) else "green bold"
        yield StyledText(_to_one_line(str(result.get("check"))), style), f": {_to_one_line(outcome)}"
        yield from (f"  | {line}".rstrip() for line in str(result.get("output") or "").rstrip().splitlines())


def _read_followed(job: JobDir, state: State) -> Followed | None:
    """Return the workflow of a job that does not follow the built-in one, if this Logist can read it."""
    if state.workflow is None:
        return None
    from logist.jobs import followed_workflow

    running = followed_workflow.is_running(job, state.status.value)
    try:
        return followed_workflow.read_followed(job, state.model_dump(mode="json"), running=running)
    except ValueError:  # a newer Logist's
        return None


def _make_undrawn_error(job: JobDir, state: State) -> Refused:
    """Return why there is nothing to draw."""
    what = (
        "has the built-in workflow with a single step"
        if state.workflow is None
        else "has a workflow from a newer Logist"
    )
    return Refused(f"no workflow to draw: {job.id} {what}", fix=f"logist job show --job {job.id}")


def _list_paths(job: JobDir) -> dict[str, str]:
    return {
        "job": str(job.path),
        "spec": str(job.spec_file),
        "history": str(job.history_file),
        "workspace": str(job.workspace),
        "logs": str(job.logs),
    }


def _format_job(
    data: dict[str, Any], followed: Sequence[Line] = (), decisions: Sequence[Line] = ()
) -> list[Line]:
    from logist.cli.show import glance

    lines: list[Line] = [
        (StyledText(data["job"], "bold"), ": ", data["title"], " (", glance.status_span(data["status"]), ")")
    ]
    lines += glance.fork_lines(data["forked"])
    lines += glance.adoption_lines(data["adopted"])
    lines += glance.removal_lines(data["removed_files"])
    spec = {key: value for key, value in data["spec"].items() if not (followed and key == "workflow")}
    lines += [line for key, value in spec.items() for line in _format_field(key, value)]
    lines += followed
    lines += [line for answer in data["answers"] for line in _format_answer(answer)]
    lines += _format_notes(data)
    lines += decisions
    lines += _format_last_answer(data)
    lines += [f"artefacts: {', '.join(data['artefacts'])}"] if data["artefacts"] else []
    lines += [line for step, value in data["outputs"].items() for line in _format_output(step, value)]
    lines += [glance.format_setup(data["setup"])] if data["setup"] else []
    return lines + [f"{name}: {path}" for name, path in data["paths"].items()]


def _format_notes(data: dict[str, Any]) -> list[Line]:
    return [
        f"#{each['sequence']} note by {each['steward']}: {_to_one_line(each['note'])}"
        for each in data["notes"]
    ]


def _draw_job(
    data: dict[str, Any], followed: Sequence[Line], decisions: Sequence[Line], screen: Screen
) -> list[Line]:
    """Return the same for a terminal: the task and the answers in panels, what agents wrote as Markdown."""
    if not screen.can_draw:
        return _format_job(data, followed, decisions)
    from logist.cli.show import glance, rich_text

    title: Line = (
        StyledText(data["job"], "bold"),
        " is ",
        glance.status_span(data["status"]),
        ": ",
        data["title"],  # last, because only the end of the line is cut
    )
    spec = {
        key: value
        for key, value in data["spec"].items()
        if key not in ("id", "title", "prompt") and not (followed and key == "workflow")
    }
    lines: list[Line] = [render.cut_line(title, screen), *glance.fork_lines(data["forked"])]
    lines += glance.adoption_lines(data["adopted"])
    lines += glance.removal_lines(data["removed_files"])
    lines += [line for key, value in spec.items() for line in _format_field(key, value)]
    if prompt := data["spec"].get("prompt"):
        lines.append(rich_text.draw_panel("task", "", [rich_text.build_markdown(prompt, screen)], screen))
    lines += followed
    lines += [_draw_answer(answer, screen) for answer in data["answers"]]
    lines += _format_notes(data)
    lines += decisions
    lines += _format_last_answer(data)
    lines += [f"artefacts: {', '.join(data['artefacts'])}"] if data["artefacts"] else []
    for step, value in data["outputs"].items():
        content = (
            rich_text.build_lines(plans.render_plan_lines(value))
            if plans.is_plan(value)
            else rich_text.build_json(value)
        )
        lines.append(rich_text.draw_panel(f"output of {step}", "", [content], screen))
    lines += [glance.format_setup(data["setup"])] if data["setup"] else []
    return lines + [f"{name}: {path}" for name, path in data["paths"].items()]


def _draw_answer(answer: dict[str, Any], screen: Screen) -> DrawnText:
    """Return the panel of an answer."""
    from logist.cli.show import rich_text
    from logist.cli.show.view import combine_reasons

    head, *_ = _format_answer(answer)
    summary, *reason = combine_reasons(answer["summary"], answer["reason"]) or [""]
    content = [rich_text.build_markdown(summary, screen)] if summary else []
    if rest := [*reason, *_list_details(answer)]:
        content.append(rich_text.build_lines([line for text in rest for line in text.splitlines()]))
    usage = answer["usage"]
    cost = amounts.format_money(amounts.join_cents(usage["cost_cents"], usage["cost_microcents"]))
    facts = ", ".join(filter(None, (f"{usage['seconds']:.1f} s", cost, answer["model"])))
    border = "red" if answer["state_after"] == "STUCK" or answer["verdict"] == "FAIL" else "dim"
    return rich_text.draw_panel(head, facts, content, screen, border)


def _format_output(step: str, value: Any) -> list[Line]:
    """Return a plan as readable text, any other output on one line."""
    if not plans.is_plan(value):
        return [f"output of {step}: {_to_one_line(value)}"]
    return [f"output of {step}, a plan:", *(f"   {line}" for line in plans.render_plan_lines(value))]


def _remove_indent(line: Line) -> Line:
    """Return a line of `job status` without its indentation."""
    if isinstance(line, str):
        return line.removeprefix("  ")
    if isinstance(line, StyledText):
        return line._replace(text=line.text.removeprefix("  "))
    first = line[0]
    if isinstance(first, str):
        return first.removeprefix("  "), *line[1:]
    return first._replace(text=first.text.removeprefix("  ")), *line[1:]


def _format_field(key: str, value: Any) -> list[Line]:
    if isinstance(value, str) and "\n" in value:
        return [f"{key}:", *(f"  {line}" for line in value.splitlines())]
    return [f"{key}: {_to_one_line(value)}"]


def _format_answer(answer: dict[str, Any]) -> list[Line]:
    from logist.cli.show.view import combine_reasons

    what = ", ".join(answer["actions"]) or "no valid answer"
    outcome: StyledText | str = what
    if answer["verdict"] == "FAIL" and what == "COMPLETED":
        outcome = StyledText("FAIL", "red bold")
    head: Line = (
        StyledText(f"#{answer['sequence']}", "dim"),
        " ",
        StyledText(answer["role"] or "", "bold"),
        ": ",
        outcome,
    )
    details = [*combine_reasons(answer["summary"], answer["reason"]), *_list_details(answer)]
    return [head, *(f"   {line}" for text in details for line in text.splitlines())]


def _list_details(answer: dict[str, Any]) -> list[str]:
    """Return what was observed of an answer: failed checks and files."""
    from logist.cli.show.view import UNCHANGED

    details = [UNCHANGED] if answer["unchanged"] else []
    details += [
        _format_check(each) for each in answer["checks"] if findings.is_failed_check(each.get("outcome"))
    ]
    details += _format_files("evidence", answer["evidence_files"])
    details += _format_files("changed", answer["changed_files"])
    details += _format_files("changed, but not listed as evidence", answer["unnamed_changes"])
    return details


def _format_last_answer(data: dict[str, Any]) -> Iterator[Line]:
    """Yield what went wrong with the last answer, and how to read and answer it."""
    from logist.cli.show import answer_details

    if not data["answers"]:
        return
    if data["status"] not in ENDED:
        yield from answer_details.check_output_lines(data["checks"], data["job"], "   ")
    calls = [FailedCall(**each) for each in data["failed_calls"]]
    yield from answer_details.failed_call_lines(calls, data["answers"][-1]["sequence"], "   ")
    yield from answer_details.question_lines(data["question"], "   ")
    yield from answer_details.command_lines(data["read_command"], data["poststep_command"], "   ")


def _format_check(result: dict[str, Any]) -> str:
    """Return a failed check on one line."""
    how = findings.format_check_result(
        str(result.get("outcome")), result.get("exit_code"), result.get("reason")
    )
    return f"check {_to_one_line(str(result.get('check')))}: {_to_one_line(how)}"


def _format_files(title: str, paths: Sequence[str]) -> list[str]:
    more = len(paths) - PATHS
    first = [_to_one_line(path) for path in paths[:PATHS]] + (
        [f"and {more} more, see --json"] if more > 0 else []
    )
    return [f"{title}: {', '.join(first)}"] if first else []


def _to_one_line(value: Any) -> str:
    """Return the value on one line, so that an agent's text can't look like a line of Logist."""
    return " ".join(value.splitlines()) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
