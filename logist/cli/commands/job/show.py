"""`logist job show`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import job_options
from logist.cli.show.output import Line, Output, StyledText
from logist.config.environment import Environment
from logist.core.answer import plans
from logist.errors import Refused

if TYPE_CHECKING:
    from logist.cli.show.workflow_lines import Followed
    from logist.core.model import Interaction, State
    from logist.store import JobDir

PATHS = 20
"""Paths printed for each list of files of an answer; --json has all."""


@click.command("show")
@click.option(
    "--graph", is_flag=True, help="Show the workflow instead, with the progress of each step and child job."
)
@click.option("--mermaid", is_flag=True, help="Show the workflow as a mermaid diagram.")
@job_options
@click.pass_obj
def show(
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    graph: bool,
    mermaid: bool,
) -> Output:
    """Show the task, answers, results and paths of a job.

    With --graph or --mermaid, show the progress of its workflow instead.
    """
    from logist.cli.checkup.surroundings import surroundings
    from logist.cli.context import open_job
    from logist.cli.show import glance
    from logist.cli.show.view import build_decision_row, build_entry_row, format_decision
    from logist.core.machine.kinds import DECISIONS
    from logist.core.machine.waiting import find_assignee
    from logist.jobs.base import specs
    from logist.jobs.base.job_reader import read_interactions
    from logist.jobs.base.session import build_current_state
    from logist.jobs.steward.review_hash import find_review_hash

    job = open_job(environment, job_argument, job_option, jobs_dir)
    state = build_current_state(job, job.load())
    job_spec = specs.read_job_spec(job, draft=True, accept_slips=True)
    spec = job_spec.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    entries = [entry for entry in read_interactions(job) if entry.kind in ("ask", "note", *DECISIONS)]
    answers = [build_entry_row(entry) for entry in entries if entry.kind == "ask"]
    notes = [_build_note(entry) for entry in entries if entry.kind == "note"]
    decided = [entry for entry in entries if entry.kind in DECISIONS]
    data = {
        "job": job.id,
        "status": state.status.value,
        "title": state.title,
        "spec": spec,
        "answers": answers,
        "notes": notes,
        "decisions": [build_decision_row(entry) for entry in decided],
        "artefacts": state.artefacts,
        "outputs": state.outputs,
        "forked": state.forked.model_dump(mode="json") if state.forked else None,
        "paths": _list_paths(job),
        "review_hash": find_review_hash(surroundings(environment, jobs_dir), job, state),
        "setup": glance.read_last_setup(str(job.path)),
        "assignee": find_assignee(state.model_dump(mode="json")),
        "workflow": None,
        "mermaid": None,
    }
    decisions = [line for entry in decided for line in format_decision(entry)]
    followed = _read_followed(job, state)
    if followed is None:
        if graph or mermaid:
            raise _make_undrawn_error(job, state)
        return Output(data, _format_job(data, decisions=decisions))
    from logist.cli.show import workflow_lines, workflow_standing

    data["workflow"] = workflow_lines.build_workflow_data(followed)
    data["mermaid"] = workflow_standing.build_diagram(followed) if mermaid else None
    if mermaid:
        return Output(data, raw=workflow_standing.build_diagram(followed, spoken=True))
    if graph:
        return Output(data, workflow_standing.draw_progress(followed))
    progress = [_remove_indent(line) for line in workflow_standing.progress_lines(followed)]
    return Output(data, _format_job(data, progress, decisions))


def _build_note(entry: Interaction) -> dict[str, Any]:
    """Return a note without a decision (`logist inbox note`) as JSON."""
    return {
        "sequence": entry.sequence,
        "timestamp": entry.timestamp,
        "steward": entry.steward.name if entry.steward else None,
        "note": entry.steward.note if entry.steward else None,
    }


def _read_followed(job: JobDir, state: State) -> Followed | None:
    """Return the workflow of a job that does not follow the built-in one, if this Logist can read it."""
    if state.workflow is None:
        return None
    from logist.cli.show import workflow_lines

    running = workflow_lines.is_running(job, state.status.value)
    try:
        return workflow_lines.read_followed(job, state.model_dump(mode="json"), running=running)
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
    spec = {key: value for key, value in data["spec"].items() if not (followed and key == "workflow")}
    lines += [line for key, value in spec.items() for line in _format_field(key, value)]
    lines += followed
    lines += [line for answer in data["answers"] for line in _format_answer(answer)]
    lines += [
        f"#{each['sequence']} note by {each['steward']}: {_to_one_line(each['note'])}"
        for each in data["notes"]
    ]
    lines += decisions
    lines += [f"artefacts: {', '.join(data['artefacts'])}"] if data["artefacts"] else []
    lines += [line for step, value in data["outputs"].items() for line in _format_output(step, value)]
    lines += [glance.format_setup(data["setup"])] if data["setup"] else []
    return lines + [f"{name}: {path}" for name, path in data["paths"].items()]


def _format_output(step: str, value: Any) -> list[Line]:
    """Return a plan as readable text, any other output on one line."""
    if not plans.is_plan(value):
        return [f"output of {step}: {_to_one_line(value)}"]
    return [f"output of {step}, a plan:", *(f"   {line}" for line in plans.render_plan_lines(value))]


def _remove_indent(line: Line) -> Line:
    """Return a line of `job status` without its indentation."""
    if isinstance(line, str):
        return line.removeprefix("  ")
    first = line[0]
    if isinstance(first, str):
        return first.removeprefix("  "), *line[1:]
    return first._replace(text=first.text.removeprefix("  ")), *line[1:]


def _format_field(key: str, value: Any) -> list[Line]:
    if isinstance(value, str) and "\n" in value:
        return [f"{key}:", *(f"  {line}" for line in value.splitlines())]
    return [f"{key}: {_to_one_line(value)}"]


def _format_answer(answer: dict[str, Any]) -> list[Line]:
    from logist.cli.show.view import UNCHANGED, combine_reasons

    what = ", ".join(answer["actions"]) or "no valid answer"
    head: Line = (
        StyledText(f"#{answer['sequence']}", "dim"),
        " ",
        StyledText(answer["role"] or "", "bold"),
        f": {what}",
    )
    details = [
        *combine_reasons(answer["summary"], answer["reason"]),
        *([UNCHANGED] if answer["unchanged"] else []),
    ]
    details += _format_files("evidence", answer["evidence_files"])
    details += _format_files("changed", answer["changed_files"])
    details += _format_files("changed, but not listed as evidence", answer["unnamed_changes"])
    return [head, *(f"   {line}" for text in details for line in text.splitlines())]


def _format_files(title: str, paths: Sequence[str]) -> list[str]:
    more = len(paths) - PATHS
    first = [_to_one_line(path) for path in paths[:PATHS]] + (
        [f"and {more} more, see --json"] if more > 0 else []
    )
    return [f"{title}: {', '.join(first)}"] if first else []


def _to_one_line(value: Any) -> str:
    """Return the value on one line, so that an agent's text can't look like a line of Logist."""
    return " ".join(value.splitlines()) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
