"""`logist job activate|approve|reject|suspend|resume|cancel|fail`: one decision each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from logist.cli.options import note_option, wait_option
from logist.cli.project import on_jobs
from logist.cli.show import render
from logist.cli.show.output import Output
from logist.errors import Busy, UsageError

if TYPE_CHECKING:
    from logist.cli.options import ChosenJobs
    from logist.core.model.commands import RecordedCommand
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.base.result import CommandResult


def run_decision(
    kind: str,
    project: ProjectContext,
    jobs: ChosenJobs,
    wait: float,
    note: str | None,
    command: RecordedCommand | None = None,
    *,
    seen: str | None = None,
    ends_agent: Callable[[str], bool] = lambda job_id: False,
) -> Output:
    """Make a decision about each job, and return the new status of it.

    `ends_agent`: whether an agent that works on a job may be stopped.
    """
    from logist.cli.show.view import build_decisions_output, build_result_output
    from logist.core.model import Kind
    from logist.jobs.steward.steward_decisions import record_decision

    def decide(job_id: str) -> CommandResult:
        return record_decision(
            project,
            job_id,
            Kind(kind),
            note=note,
            command=command,
            wait=wait,
            ends_agent=ends_agent(job_id),
            revision=jobs.revision,
            seen=seen,
        )

    if jobs.is_single:
        return build_result_output(decide(jobs.ids[0]))
    from logist.jobs.job_queue import choose_exit_code, decide_jobs

    decided = decide_jobs(jobs.ids, decide)
    return build_decisions_output(decided, choose_exit_code([each.exit_code for each in decided]))


READ = ("approve", "reject", "resume")
"""Decisions whose note the next agent reads; logist.core.machine.kinds.PROMPTS_NOTE lists all such kinds."""


def _create_command(kind: str, text: str, *, note_required: bool = False) -> click.Command:
    """Create the command that makes one decision."""

    @click.command(kind, help=text)
    @on_jobs
    @wait_option
    @note_option(required=note_required, read=kind in READ)
    def command(project: ProjectContext, jobs: ChosenJobs, wait: float, note: str | None) -> Output:
        return run_decision(kind, project, jobs, wait, note)

    return command


activate = _create_command("activate", "Start a draft job.")


@click.command("approve")
@click.option("--output", metavar="JSON", help="Result of the step, for later steps; or @FILE.")
@click.option(
    "--override", metavar="REASON", help="Approve despite the review, or without one; give the reason."
)
@click.option(
    "--seen",
    metavar="HASH",
    help="The review hash of the work that you have seen; refuse if it has changed since. Only for one job.",
)
@on_jobs
@wait_option
@note_option(read=True)
def approve(
    project: ProjectContext,
    jobs: ChosenJobs,
    wait: float,
    note: str | None,
    output: str | None,
    override: str | None,
    seen: str | None,
) -> Output:
    """Approve jobs that wait for approval.

    `logist job diff JOB` shows the work and its review hash. With --seen HASH, exactly this work is approved. Without
    it, the approval is refused if files have changed since the last checkpoint, so that no check has seen the
    changes.

    This also completes a manual step: `logist job show` prints its task, and --output sets its result.
    --override accepts work that a review sent back or has not judged yet; the reason is saved in the history and
    added to the next prompt.

    A plan is written by a role that may not change files. If another role does the work now (`logist job
    role`), the next step carries out the plan; otherwise the job ends with the plan.
    """
    from logist.cli.given_spec import parse_json_option
    from logist.core.model.commands import ApproveCommand

    command = ApproveCommand()
    if output is not None:
        command = ApproveCommand(output=parse_json_option(output, "--output"))
    if override is not None:
        note = _require_one_reason(override, note)
        command = command.model_copy(update={"override": True})
    if seen is not None:
        jobs.require_single("--seen")
    return run_decision("approve", project, jobs, wait, note, command, seen=seen)


def _require_one_reason(override: str, note: str | None) -> str:
    """Return why a review is overridden. Raises UsageError where two reasons are given."""
    if note is not None:
        raise UsageError("--override already gives the reason", where="--note", fix="remove --note")
    return override


reject = _create_command(
    "reject", "Send the work back with a note: the doer reads it and tries again.", note_required=True
)


def _create_ending_command(kind: str, text: str) -> click.Command:
    """Create a command that stops a job, and the agent that may be working on it."""

    @click.command(
        kind, help=f"{text} If an agent is working on the job, Logist asks before it stops the agent."
    )
    @on_jobs
    @wait_option
    @note_option(read=False)
    @click.option("--yes", is_flag=True, help="Stop a working agent without asking.")
    def command(
        project: ProjectContext, jobs: ChosenJobs, wait: float, note: str | None, yes: bool
    ) -> Output:
        def ends_agent(job_id: str) -> bool:
            if jobs.revision is not None:
                return False
            return confirm_ending_agent(project, job_id, kind, yes=yes, waits=wait > 0)

        if yes and jobs.revision is not None:
            fix = "remove --revision: stopping an agent changes the job"
            raise UsageError("can't use --yes and --revision together", where="--revision", fix=fix)
        return run_decision(kind, project, jobs, wait, note, ends_agent=ends_agent)

    return command


def confirm_ending_agent(
    project: ProjectContext, job_id: str, kind: str, *, yes: bool, waits: bool, words: str = ""
) -> bool:
    """Return whether a working agent may be stopped: by --yes, or because the person at the terminal agrees.

    Raises Busy without either. With --wait, the command waits for the agent instead. `words`: further arguments
    for the command that the error suggests.
    """
    job = project.open_job(job_id)
    holder = job.find_lock_holder()
    if holder is None or (waits and not yes):
        return False
    if holder.courier is None and holder.stepper is not None:
        return yes
    if yes or render.ask_to_confirm(
        f"{job.id}: {holder}; stop it and interrupt its work?", project.environment
    ):
        return True
    command = f"logist job {kind} --job {job.id}{words} --yes"
    fix = f"to stop the agent, and leave its request in doubt: {command}"
    raise Busy(f"the job is busy: {holder}", where=str(job.path), fix=fix)


suspend = _create_ending_command("suspend", "Suspend a job; to continue it: `logist job resume`.")
resume = _create_command(
    "resume", "Resume a suspended job, or a halted one whose limit was raised (`logist job config --set`)."
)
cancel = _create_ending_command(
    "cancel", "Cancel a job that is no longer needed. Files and history are kept."
)
fail = _create_ending_command("fail", "Mark a job as FAILED. Files and history are kept.")
