"""`logist job verify`."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import TYPE_CHECKING

import click

from logist.cli.options import job_options
from logist.cli.show.output import Diagnostic, Output, make_notes
from logist.config.environment import Environment
from logist.core.text.counts import format_count
from logist.errors import Damaged, LogistError, UsageError

if TYPE_CHECKING:
    from logist.core.model import JsonObject
    from logist.jobs.base.job_reader import Edits, Verified
    from logist.store import HistoryProblem, JobDir
    from logist.store.verification import Proof

SHOWN = 20
"""Changes of the workspace that are printed; --json has more."""


@click.command("verify")
@click.option(
    "--secrets", is_flag=True, help="Search for keys and passwords instead, in every file of the job."
)
@click.option("--all", "every", is_flag=True, help="With --secrets: search every job.")
@job_options
@click.pass_obj
def verify(
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    secrets: bool,
    every: bool,
) -> Output:
    """Verify the history and the state of a job.

    Checks the checksum of every interaction, their chain and numbering, and that the state matches the history.
    Reports the first invalid interaction, and which ones can still be trusted. Repairs nothing. Exit code 10 if
    something is invalid, if a checkpoint or the workspace is missing, or if other files (checkpoints, logs, child
    jobs, the parent, forks, a merge) show that the end of the history is missing. A state.json that is missing or
    older than the history does no harm: the next change creates it again.

    Also lists changes in the workspace since the last checkpoint. Such changes are allowed.

    With --secrets, exit code 3 if a file written by Logist contains a secret. A secret in the workspace, or in a
    checkpoint of it, is only a warning. Logist never prints a secret, only its kind, length and first characters.
    """
    if every and not secrets:
        fix = "to verify every job: logist doctor --deep"
        raise UsageError("--all requires --secrets", where="--all", fix=fix)
    if secrets:
        from logist.cli.commands.job import leaked

        return leaked.report_leaks(environment, None if every else (job_argument, job_option), jobs_dir)
    from logist.cli.checkup.surroundings import surroundings
    from logist.cli.context import open_job
    from logist.jobs.base import job_reader

    job = open_job(environment, job_argument, job_option, jobs_dir)
    verified = job_reader.verify_job(surroundings(environment, jobs_dir), job)
    trusted, first_bad = verified.proof.trusted, verified.proof.first_bad
    count = trusted.last - trusted.first + 1 if trusted else 0
    data = {
        "job": job.id,
        "ok": not verified.problems,
        "interactions": count,
        "trustworthy": trusted and trusted._asdict(),
        "first_bad": first_bad and {"sequence": first_bad.sequence, "offset": first_bad.offset},
        "problems": [_build_problem_row(problem) for problem in verified.problems],
        "notes": list(verified.notes),
        "workspace": verified.edits and _build_edits_data(verified.edits),
    }
    diagnostics = make_notes(verified.notes)
    if not verified.problems:
        state = "" if verified.notes else ", state matches"
        verdict = f"{job.id}: OK, {format_count(count, 'interaction')} verified{state}"
        return Output(data, (verdict, *_edit_lines(verified.edits)), diagnostics)
    errors = tuple(_make_diagnostic(job, problem) for problem in verified.problems)
    advice = _advise_repair(job, verified)
    return Output(
        data, tuple(_extent_lines(verified.proof)), (*errors, *diagnostics, advice), Damaged.exit_code
    )


def _build_problem_row(problem: HistoryProblem) -> JsonObject:
    return {"message": problem.message, "sequence": problem.sequence, "offset": problem.offset}


def _build_edits_data(edits: Edits) -> JsonObject:
    changes = [{"path": change.path, "kind": change.kind} for change in edits.changes]
    return {"checkpoint": edits.checkpoint, "changes": changes, "omitted": edits.omitted}


def _edit_lines(edits: Edits | None) -> Iterator[str]:
    """Yield the manual changes in the workspace, one line each."""
    if edits is None or not edits.changes:
        return
    count = len(edits.changes) + edits.omitted
    yield f"the workspace has {format_count(count, 'change')} since the last checkpoint:"
    for change in edits.changes[:SHOWN]:
        yield f"  {change.kind} {change.path}"
    if count > SHOWN:
        yield f"  and {count - SHOWN} more"


def _extent_lines(proof: Proof) -> Iterator[str]:
    """Yield which interactions are valid, and which are not."""
    if not proof.trusted:
        yield "no valid interaction found"
    elif proof.trusted.first == proof.trusted.last:
        yield f"interaction {proof.trusted} is valid"
    else:
        yield f"interactions {proof.trusted} are valid"
    bad = proof.first_bad
    if bad and bad.sequence:
        place = "" if bad.offset is None else f" (byte {bad.offset:,})"
        yield f"interaction {bad.sequence}{place} is invalid"
    elif bad:
        yield "the first line of the history is invalid"
    elif proof.ending:
        yield f"the rest (from byte {proof.ending.offset:,}) is an incomplete interaction"
    if proof.whole:
        many = ", ".join(map(str, proof.whole))
        each = "checksum" if many.isdigit() else "checksums"
        yield f"{many}: {each} valid, but not linked to the interactions before"


def _make_diagnostic(job: JobDir, problem: HistoryProblem) -> Diagnostic:
    number = "" if problem.sequence is None else f"interaction {problem.sequence}: "
    return Diagnostic("error", Damaged.code, number + problem.message, str(job.path))


def _advise_repair(job: JobDir, found: Verified) -> Diagnostic:
    """Return what to do next; never a command that deletes data."""
    from logist.jobs.doctor.checks import FIX, FIX_DEEP

    ending = found.proof.ending
    if all(each == ending or _is_repaired_by_doctor(each) for each in found.problems):
        return Diagnostic("info", "note", f"to repair it: {FIX_DEEP if _needs_deep(job, found) else FIX}")
    copy = f"cp -a {quote(str(job.path))} {quote(str(job.path))}.copy"
    return Diagnostic("info", "note", f"before you repair anything by hand, make a copy: {copy}")


def _is_repaired_by_doctor(problem: HistoryProblem) -> bool:
    from logist.store import ProblemKind

    return problem.is_about_state or problem.kind is ProblemKind.WORKSPACE


def _needs_deep(job: JobDir, found: Verified) -> bool:
    """Return whether `doctor` needs --deep: state.json is valid by itself, but differs from the history."""
    from logist.jobs.base.session import build_current_state
    from logist.store import ProblemKind

    if not any(each.kind is ProblemKind.STATE_FIELD for each in found.problems):
        return False
    try:
        build_current_state(job, job.load())
    except LogistError:
        return False
    return True
