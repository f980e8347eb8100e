"""`logist job verify`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import job_options
from logist.cli.shell_values import complete_file
from logist.cli.show.output import Diagnostic, Output, make_notes
from logist.config.environment import Environment
from logist.core.text.counts import format_count
from logist.errors import Damaged, LogistError, UsageError
from logist.quick_tuple import NamedTuple

if TYPE_CHECKING:
    from logist.core.model import JsonObject
    from logist.jobs.base.job_reader import Edits, Verified
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.steward.signed_decisions import CheckedSignature
    from logist.store import HistoryProblem, JobDir
    from logist.store.verification import Proof

SHOWN = 20
"""Changes of the workspace that are printed; --json has more."""


@click.command("verify")
@click.option(
    "--secrets", is_flag=True, help="Search for keys and passwords instead, in every file of the job."
)
@click.option("--all", "every", is_flag=True, help="With --secrets: search every job.")
@click.option(
    "--attestation",
    metavar="FILE",
    shell_complete=complete_file,
    help="Compare the history with this attestation of the job  [default: the one in .logist/attestations, if there is one]",
)
@job_options
@click.pass_obj
def verify(
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    secrets: bool,
    every: bool,
    attestation: str | None,
) -> Output:
    """Verify the history and the state of a job.

    Checks the checksum of every interaction, their chain and numbering, and that the state matches the history.
    Reports the first invalid interaction, and which ones can still be trusted. Repairs nothing. Exit code 10 if
    something is invalid, if a checkpoint or the workspace is missing, or if other files (checkpoints, logs, child
    jobs, the parent, forks, a merge) show that the end of the history is missing. A state.json that is missing or
    older than the history does no harm: the next change creates it again.

    Also lists changes in the workspace since the last checkpoint. Such changes are allowed. Checks the signatures of
    decisions against the file `steward.allowed_signers`; with `steward.require`, each approval must have one.

    If the job was attested (`logist attest`), the history must begin with what was attested. So it is noticed if its end was cut off
    together with state.json.

    With --secrets, exit code 3 if a file written by Logist contains a secret. A secret in the workspace, or in a
    checkpoint of it, is only a warning. Logist never prints a secret, only its kind, length and first characters.
    """
    if every and not secrets:
        fix = "to verify every job: logist doctor --deep"
        raise UsageError("--all requires --secrets", where="--all", fix=fix)
    if secrets and attestation:
        raise UsageError("can't use --secrets and --attestation together", where="--attestation")
    if secrets:
        from logist.cli.commands.job import leaked

        return leaked.report_leaks(environment, None if every else (job_argument, job_option), jobs_dir)
    from logist.cli.context import open_job, open_plain_project
    from logist.jobs.base import job_reader
    from logist.store.cleaned import build_removal_data

    job = open_job(environment, job_argument, job_option, jobs_dir)
    plain_project = open_plain_project(environment, jobs_dir)
    signed: set[object] = set()
    scrubbed: dict[int, JsonObject] = {}
    verified = job_reader.verify_job(
        plain_project or _open_surroundings(environment, jobs_dir),
        job,
        each=lambda entry: _look_at(entry, signed, scrubbed),
    )
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
        "removed_files": build_removal_data(str(job.path)),
    }
    diagnostics = make_notes(verified.notes)
    signatures: Sequence[CheckedSignature] = ()
    if not verified.problems and (signed or plain_project is None):  # a plain project requires no signatures
        signatures = _check_signatures(environment, jobs_dir, job)
    data["scrubs"] = [_build_scrub_row(entry) for entry in scrubbed.values()]
    data["signatures"] = [_build_signature_row(each) for each in signatures]
    invalid = tuple(_make_signature_error(job, each) for each in signatures if each.problem)
    data["ok"] = data["ok"] and not invalid
    diagnostics += _note_unchecked(signatures)
    attested = (
        _Attested() if verified.problems else _compare_attestation(environment, jobs_dir, job, attestation)
    )
    data["attestation"] = attested.row
    data["ok"] = data["ok"] and not attested.errors
    diagnostics += make_notes(attested.notes)
    invalid += attested.errors
    if invalid:
        lines = (*_signature_lines(signatures), *_scrub_lines(scrubbed.values()))
        return Output(data, lines, (*invalid, *diagnostics), Damaged.exit_code)
    if not verified.problems:
        state = "" if verified.notes else ", state matches"
        verdict = f"{job.id}: OK, {format_count(count, 'interaction')} verified{state}"
        removal = (verified.removal,) if verified.removal else ()
        lines = (
            verdict,
            *removal,
            *_scrub_lines(scrubbed.values()),
            *_signature_lines(signatures),
            *attested.lines,
            *_edit_lines(verified.edits),
        )
        return Output(data, lines, diagnostics)
    errors = tuple(_make_diagnostic(job, problem) for problem in verified.problems)
    advice = _advise_repair(job, verified)
    return Output(
        data, tuple(_extent_lines(verified.proof)), (*errors, *diagnostics, advice), Damaged.exit_code
    )


def _look_at(entry: JsonObject, signed: set[object], scrubbed: dict[int, JsonObject]) -> None:
    """Collect the interactions with a signature, and the scrubs; called several times if the history grows."""
    command = entry.get("command")
    if isinstance(command, dict) and command.get("signature") is not None:
        signed.add(entry["sequence"])
    if entry.get("kind") == "scrub":
        scrubbed[entry["sequence"]] = entry


def _build_scrub_row(entry: JsonObject) -> JsonObject:
    from logist.core.model.commands import ScrubCommand

    command, steward = ScrubCommand.read(entry.get("command") or {}), entry.get("steward")
    return {
        "sequence": entry["sequence"],
        "timestamp": entry["timestamp"],
        "by": steward.get("name") if isinstance(steward, dict) else None,
        "reason": command.reason,
        "places": command.places,
        "old_head": command.old_head,
    }


def _scrub_lines(scrubs: Iterable[JsonObject]) -> Iterator[str]:
    """Yield when and by whom text was erased from the history."""
    for entry in scrubs:
        row = _build_scrub_row(entry)
        reason = f" ({row['reason']})" if row["reason"] else ""
        last = row["sequence"] - 1
        earlier = "interaction 1 is" if last == 1 else f"interactions 1 to {last:,} are"
        yield (
            f"scrubbed {row['timestamp']} by {row['by'] or 'unknown'}{reason}: "
            f"{format_count(row['places'] or 0, 'place')}; {earlier} in a new chain"
        )


def _check_signatures(
    environment: Environment, jobs_dir: str | None, job: JobDir
) -> Sequence[CheckedSignature]:
    from logist.jobs.base.job_reader import read_interactions
    from logist.jobs.steward import signed_decisions

    project = _open_surroundings(environment, jobs_dir)
    return signed_decisions.check_signatures(project, job.id, read_interactions(job))


class _Attested(NamedTuple):
    """What the attestation of the job has shown; nothing, if there is none."""

    row: JsonObject | None = None
    lines: tuple[str, ...] = ()
    errors: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()


def _compare_attestation(
    environment: Environment, jobs_dir: str | None, job: JobDir, named: str | None
) -> _Attested:
    """Compare the history with the attestation that is named, or the one in its place; that need not be there."""
    home = environment.home_name(get_current_directory())[0]
    path = named or os.path.join(home, "attestations", f"{job.id}.intoto.json")
    if not named and not os.path.lexists(path):
        return _Attested()
    from logist.jobs.steward import attestations

    project = _open_surroundings(environment, jobs_dir)
    attestation = attestations.read_attestation(Path(path))
    signed = attestations.check_signer(project, attestation, None)
    compared = attestations.compare_history(attestation, job)
    problems = [each for each in (signed.problem, compared.problem) if each]
    count = format_count(attestation.history.interactions, "interaction")
    by = f", signed by {signed.signer}" if signed.signer else ""
    return _Attested(
        {"path": path, "interactions": attestation.history.interactions, "signer": signed.signer},
        () if compared.note else (f"as attested: {count}{by}",),
        tuple(Diagnostic("error", Damaged.code, each, path) for each in problems),
        tuple(each for each in (signed.note, compared.note) if each),
    )


def _open_surroundings(environment: Environment, jobs_dir: str | None) -> ProjectContext:
    from logist.cli.checkup.surroundings import surroundings

    return surroundings(environment, jobs_dir)


def _build_signature_row(checked: CheckedSignature) -> JsonObject:
    return {
        "sequence": checked.sequence,
        "kind": str(checked.kind),
        "signed": checked.is_signed,
        "signer": checked.signer,
        "problem": checked.problem,
        "scrub": checked.scrub,
    }


def _make_signature_error(job: JobDir, checked: CheckedSignature) -> Diagnostic:
    message = f"interaction {checked.sequence} ({checked.kind}): {checked.problem}"
    return Diagnostic("error", Damaged.code, message, str(job.path))


def _signature_lines(signatures: Sequence[CheckedSignature]) -> Iterator[str]:
    """Yield who has signed which decisions."""
    by_signer: dict[str, list[str]] = {}
    before = [each for each in signatures if each.scrub is not None]
    for each in signatures:
        if each.signer is not None:
            by_signer.setdefault(each.signer, []).append(f"#{each.sequence} {each.kind}")
    for signer, decisions in by_signer.items():
        yield f"signed by {signer}: {', '.join(decisions)}"
    for each in before:
        who = f"by {each.signed_by} " if each.signed_by else ""
        yield f"signed {who}before the scrub (interaction {each.scrub}), which changed it: #{each.sequence} {each.kind}"


def _note_unchecked(signatures: Sequence[CheckedSignature]) -> tuple[Diagnostic, ...]:
    unchecked = [
        each for each in signatures if each.signer is None and each.problem is None and not each.scrub
    ]
    if not unchecked:
        return ()
    count = format_count(len(unchecked), "signature")
    fix = "to check them: logist config set --user steward.allowed_signers FILE"
    return make_notes([f"{count} not checked, because steward.allowed_signers is not set; {fix}"])


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
    from logist.jobs.base.stored_records import build_current_state
    from logist.store import ProblemKind

    if not any(each.kind is ProblemKind.STATE_FIELD for each in found.problems):
        return False
    try:
        build_current_state(job, job.load())
    except LogistError:
        return False
    return True
