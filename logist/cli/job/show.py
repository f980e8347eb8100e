"""`logist job show`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import job_options
from logist.cli.output import Line, Output, Span
from logist.config.environment import Environment

if TYPE_CHECKING:
    from logist.store import JobDir


@click.command("show")
@job_options
@click.pass_obj
def show(
    environment: Environment, job_argument: str | None, job_option: str | None, jobs_dir: str | None
) -> Output:
    """Show what was asked, what was answered, what came out, and where it lies."""
    from logist.cli.context import open_job
    from logist.cli.view import entry_row
    from logist.jobs import specs
    from logist.jobs.looking import interactions
    from logist.jobs.session import state_of

    job = open_job(environment, job_argument, job_option, jobs_dir)
    state = state_of(job, job.load())
    spec = specs.read(job, draft=True).model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    answers = [entry_row(entry) for entry in interactions(job) if entry.kind == "ask"]
    data = {
        "job": job.id,
        "status": state.status.value,
        "title": state.title,
        "spec": spec,
        "answers": answers,
        "artefacts": state.artefacts,
        "outputs": state.outputs,
        "paths": _paths(job),
    }
    return Output(data, _lines(data))


def _paths(job: JobDir) -> dict[str, str]:
    return {
        "job": str(job.path),
        "spec": str(job.spec_file),
        "history": str(job.history_file),
        "workspace": str(job.workspace),
        "logs": str(job.logs),
    }


def _lines(data: dict[str, Any]) -> list[Line]:
    from logist.cli.glance import status_span

    lines: list[Line] = [
        (Span(data["job"], "bold"), ": ", data["title"], " (", status_span(data["status"]), ")")
    ]
    lines += [line for key, value in data["spec"].items() for line in _field(key, value)]
    lines += [line for answer in data["answers"] for line in _answer(answer)]
    lines += [f"artefacts: {', '.join(data['artefacts'])}"] if data["artefacts"] else []
    lines += [f"output of {step}: {_flat(value)}" for step, value in data["outputs"].items()]
    return lines + [f"{name}: {path}" for name, path in data["paths"].items()]


def _field(key: str, value: Any) -> list[Line]:
    if isinstance(value, str) and "\n" in value:
        return [f"{key}:", *(f"  {line}" for line in value.splitlines())]
    return [f"{key}: {_flat(value)}"]


def _answer(answer: dict[str, Any]) -> list[Line]:
    from logist.cli.view import told

    what = ", ".join(answer["actions"]) or "no valid answer"
    head: Line = (Span(f"#{answer['sequence']}", "dim"), " ", Span(answer["role"] or "", "bold"), f": {what}")
    said = told(answer["summary"], answer["reason"])
    return [head, *(f"   {line}" for text in said for line in text.splitlines())]


def _flat(value: Any) -> str:
    """One line: what an agent wrote can't pass for a line of ours."""
    return " ".join(value.splitlines()) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
