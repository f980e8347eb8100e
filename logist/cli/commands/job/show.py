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
    from logist.core.model import State
    from logist.store import JobDir

PATHS = 20
"""Of each list of files of an answer."""


@click.command("show")
@click.option("--graph", is_flag=True, help="The workflow instead: how each step and each child stands.")
@click.option("--mermaid", is_flag=True, help="The same as a diagram, as text for mermaid.")
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
    """Show what was asked, what was answered, what came out, and where it lies.

    With --graph or --mermaid, how a job stands that follows a workflow.
    """
    from logist.cli.context import open_job
    from logist.cli.show import glance
    from logist.cli.show.view import entry_row
    from logist.jobs.base import specs
    from logist.jobs.base.job_reader import interactions
    from logist.jobs.base.session import state_of

    job = open_job(environment, job_argument, job_option, jobs_dir)
    state = state_of(job, job.load())
    asked = specs.read(job, draft=True, accept_slips=True)
    spec = asked.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    answers = [entry_row(entry) for entry in interactions(job) if entry.kind == "ask"]
    data = {
        "job": job.id,
        "status": state.status.value,
        "title": state.title,
        "spec": spec,
        "answers": answers,
        "artefacts": state.artefacts,
        "outputs": state.outputs,
        "forked": state.forked.model_dump(mode="json") if state.forked else None,
        "paths": _paths(job),
        "setup": glance.setup_of(str(job.path)),
        "assignee": glance.assignee(state.model_dump(mode="json")),
        "workflow": None,
        "mermaid": None,
    }
    found = _followed(job, state)
    if found is None:
        if graph or mermaid:
            raise _undrawn(job, state)
        return Output(data, _lines(data))
    from logist.cli.show import workflow_lines, workflow_standing

    data["workflow"] = workflow_lines.data(found)
    data["mermaid"] = workflow_standing.mermaid(found) if mermaid else None
    if mermaid:
        return Output(data, raw=workflow_standing.mermaid(found, spoken=True))
    if graph:
        return Output(data, workflow_standing.drawing(found))
    return Output(data, _lines(data, [_outward(line) for line in workflow_standing.lines(found)]))


def _followed(job: JobDir, state: State) -> Followed | None:
    """The workflow of a job that has one of its own, if this Logist can read it."""
    if state.workflow is None:
        return None
    from logist.cli.show import workflow_lines

    running = workflow_lines.is_running(job, state.status.value)
    try:
        return workflow_lines.followed(job, state.model_dump(mode="json"), running=running)
    except ValueError:  # a newer Logist's
        return None


def _undrawn(job: JobDir, state: State) -> Refused:
    """Why there is nothing to draw."""
    what = "has the built-in workflow, a single step" if state.workflow is None else "has a newer workflow"
    return Refused(f"{job.id} {what}: there is nothing to draw", fix=f"logist job show --job {job.id}")


def _paths(job: JobDir) -> dict[str, str]:
    return {
        "job": str(job.path),
        "spec": str(job.spec_file),
        "history": str(job.history_file),
        "workspace": str(job.workspace),
        "logs": str(job.logs),
    }


def _lines(data: dict[str, Any], followed: Sequence[Line] = ()) -> list[Line]:
    from logist.cli.show import glance

    lines: list[Line] = [
        (StyledText(data["job"], "bold"), ": ", data["title"], " (", glance.status_span(data["status"]), ")")
    ]
    lines += glance.fork_lines(data["forked"])
    spec = {key: value for key, value in data["spec"].items() if not (followed and key == "workflow")}
    lines += [line for key, value in spec.items() for line in _field(key, value)]
    lines += followed
    lines += [line for answer in data["answers"] for line in _answer(answer)]
    lines += [f"artefacts: {', '.join(data['artefacts'])}"] if data["artefacts"] else []
    lines += [line for step, value in data["outputs"].items() for line in _output(step, value)]
    lines += [glance.setup_line(data["setup"])] if data["setup"] else []
    return lines + [f"{name}: {path}" for name, path in data["paths"].items()]


def _output(step: str, value: Any) -> list[Line]:
    """A plan as a text to read, any other output on a line."""
    if not plans.is_plan(value):
        return [f"output of {step}: {_flat(value)}"]
    return [f"output of {step}, a plan:", *(f"   {line}" for line in plans.lines(value))]


def _outward(line: Line) -> Line:
    """A line of `job status`, where all stand further in."""
    if isinstance(line, str):
        return line.removeprefix("  ")
    first = line[0]
    if isinstance(first, str):
        return first.removeprefix("  "), *line[1:]
    return first._replace(text=first.text.removeprefix("  ")), *line[1:]


def _field(key: str, value: Any) -> list[Line]:
    if isinstance(value, str) and "\n" in value:
        return [f"{key}:", *(f"  {line}" for line in value.splitlines())]
    return [f"{key}: {_flat(value)}"]


def _answer(answer: dict[str, Any]) -> list[Line]:
    from logist.cli.show.view import UNCHANGED, told

    what = ", ".join(answer["actions"]) or "no valid answer"
    head: Line = (
        StyledText(f"#{answer['sequence']}", "dim"),
        " ",
        StyledText(answer["role"] or "", "bold"),
        f": {what}",
    )
    said = [*told(answer["summary"], answer["reason"]), *([UNCHANGED] if answer["unchanged"] else [])]
    said += _files("evidence", answer["evidence_files"])
    said += _files("changed", answer["changed_files"])
    said += _files("changed, but not named as evidence", answer["unnamed_changes"])
    return [head, *(f"   {line}" for text in said for line in text.splitlines())]


def _files(title: str, paths: Sequence[str]) -> list[str]:
    more = len(paths) - PATHS
    shown = [_flat(path) for path in paths[:PATHS]] + (
        [f"and {more} more, which --json has"] if more > 0 else []
    )
    return [f"{title}: {', '.join(shown)}"] if shown else []


def _flat(value: Any) -> str:
    """One line: what an agent wrote can't pass for a line of ours."""
    return " ".join(value.splitlines()) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
