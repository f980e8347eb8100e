"""`logist job activate|approve|reject|suspend|resume|cancel|fail`: one decision each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logist.cli.options import note_option, wait_option
from logist.cli.project import on_job
from logist.cli.show import render
from logist.cli.show.output import Output
from logist.errors import Busy, UsageError

if TYPE_CHECKING:
    from logist.core.model.commands import RecordedCommand
    from logist.jobs.base.project import ProjectContext


def run_decision(
    kind: str,
    project: ProjectContext,
    job_id: str,
    wait: float,
    note: str | None,
    command: RecordedCommand | None = None,
    *,
    ends_agent: bool = False,
) -> Output:
    """Make a decision, and return the new status of the job."""
    from logist.cli.show.view import build_result_output
    from logist.core.model import Kind
    from logist.jobs.steward.steward_decisions import record_decision

    result = record_decision(
        project,
        job_id,
        Kind(kind),
        note=note,
        command=command,
        wait=wait,
        ends_agent=ends_agent,
    )
    return build_result_output(result)


READ = ("approve", "reject", "resume")
"""Decisions after which an agent may be asked; logist.core.machine.kinds.PROMPTS_NOTE says so of all."""


def _create_command(kind: str, text: str, *, note_required: bool = False) -> click.Command:
    """Create the command that makes one decision."""

    @click.command(kind, help=text)
    @on_job
    @wait_option
    @note_option(required=note_required, read=kind in READ)
    def command(project: ProjectContext, job_id: str, wait: float, note: str | None) -> Output:
        return run_decision(kind, project, job_id, wait, note)

    return command


activate = _create_command("activate", "Start a draft.")


@click.command("approve")
@click.option("--output", metavar="JSON", help="What came of it, for the steps after it; or @FILE.")
@click.option("--override", metavar="REASON", help="Accept it against its review, or before one; say why.")
@on_job
@wait_option
@note_option(read=True)
def approve(
    project: ProjectContext,
    job_id: str,
    wait: float,
    note: str | None,
    output: str | None,
    override: str | None,
) -> Output:
    """Accept what waits for approval; a step that a person does is done with that.

    `logist job show` has what such a step asks for. --output gives its result. --override accepts work that a
    review sent back, or has not judged yet; the reason is kept in the history, and the next agent reads it.

    A plan is the work of a role that may not change files. If another role is the doer by now (`logist job
    role`), the next step carries the plan out; else the job ends with it.
    """
    from logist.cli.given_spec import parse_json_option
    from logist.core.model.commands import ApproveCommand

    command = ApproveCommand()
    if output is not None:
        command = ApproveCommand(output=parse_json_option(output, "--output"))
    if override is not None:
        note = _require_one_reason(override, note)
        command = command.model_copy(update={"override": True})
    return run_decision("approve", project, job_id, wait, note, command)


def _require_one_reason(override: str, note: str | None) -> str:
    """Return why a review is overridden. Raises UsageError where two reasons are given."""
    if note is not None:
        raise UsageError("--override says why already", where="--note", fix="leave out --note")
    return override


reject = _create_command(
    "reject", "Send it back: the doer works again, and reads the note.", note_required=True
)


def _create_ending_command(kind: str, text: str) -> click.Command:
    """Create a command that takes a job away from the agent that may be at work on it."""

    @click.command(kind, help=f"{text} An agent at work on it is ended, if you say so.")
    @on_job
    @wait_option
    @note_option(read=False)
    @click.option("--yes", is_flag=True, help="End an agent that is at work, without asking.")
    def command(project: ProjectContext, job_id: str, wait: float, note: str | None, yes: bool) -> Output:
        ends_agent = confirm_ending_agent(project, job_id, kind, yes=yes, waits=wait > 0)
        return run_decision(kind, project, job_id, wait, note, ends_agent=ends_agent)

    return command


def confirm_ending_agent(
    project: ProjectContext, job_id: str, kind: str, *, yes: bool, waits: bool, words: str = ""
) -> bool:
    """Whether an agent that is at work may be ended: by --yes, or because a person at the terminal agrees.

    Raises Busy without either. With --wait the agent is waited for instead. `words`: further words of the
    command, for the one that the error suggests.
    """
    job = project.open_job(job_id)
    holder = job.find_lock_holder()
    if holder is None or (waits and not yes):
        return False
    if holder.courier is None and holder.stepper is not None:
        return yes
    if yes or render.ask_to_confirm(
        f"{job.id}: {holder}; end it? What it is doing stops", project.environment
    ):
        return True
    fix = f"logist job {kind} --job {job.id}{words} --yes ends the agent; what was sent is in doubt then"
    raise Busy(f"the job is busy: {holder}", where=str(job.path), fix=fix)


suspend = _create_ending_command("suspend", "Set a job aside; `logist job resume` takes it up where it was.")
resume = _create_command(
    "resume", "Take up a suspended job, or a halted one whose limit was raised (`logist job config --set`)."
)
cancel = _create_ending_command("cancel", "End a job: it is not wanted any more. Files and history stay.")
fail = _create_ending_command("fail", "End a job: it failed. Files and history stay.")
