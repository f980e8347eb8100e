"""`logist job activate|approve|reject|suspend|resume|cancel|fail`: one decision each."""

from __future__ import annotations

from typing import Any

import click

from logist.cli.options import job_id, job_options, note_option, wait_option
from logist.cli.output import Output
from logist.config.environment import Environment


def decided(
    kind: str,
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    wait: float,
    note: str | None,
    command: dict[str, Any] | None = None,
) -> Output:
    """Makes a decision, and shows what became of the job."""
    from logist.cli.context import project
    from logist.cli.view import result_output
    from logist.core.model import Kind
    from logist.jobs.deciding import decide

    chosen = job_id(environment, job_argument, job_option)
    made = decide(project(environment, jobs_dir), chosen, Kind(kind), note=note, command=command, wait=wait)
    return result_output(made)


READ = ("approve", "reject", "resume")
"""Decisions after which an agent may be asked; logist.core.fold.NOTED says so of all."""


def _command(kind: str, text: str, *, note_required: bool = False) -> click.Command:
    """The command that makes one decision."""

    @click.command(kind, help=text)
    @job_options
    @wait_option
    @note_option(required=note_required, read=kind in READ)
    @click.pass_obj
    def command(
        environment: Environment,
        job_argument: str | None,
        job_option: str | None,
        jobs_dir: str | None,
        wait: float,
        note: str | None,
    ) -> Output:
        return decided(kind, environment, job_argument, job_option, jobs_dir, wait, note)

    return command


activate = _command("activate", "Start a draft.")
approve = _command("approve", "Accept what waits for approval.")
reject = _command("reject", "Send it back: the doer works again, and reads the note.", note_required=True)
suspend = _command("suspend", "Set a job aside; `logist job resume` takes it up where it was.")
resume = _command(
    "resume", "Take up a suspended job, or a halted one whose limit was raised (`logist job config --set`)."
)
cancel = _command("cancel", "End a job: it is not wanted any more. Files and history stay.")
fail = _command("fail", "End a job: it failed. Files and history stay.")
