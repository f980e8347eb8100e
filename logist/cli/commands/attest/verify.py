"""`logist attest verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from logist.cli.options import jobs_dir_option, json_option
from logist.cli.shell_values import complete_file
from logist.cli.show.output import Diagnostic, Output, make_notes
from logist.config.environment import Environment
from logist.core.text.counts import format_count
from logist.errors import Damaged, UsageError

if TYPE_CHECKING:
    from logist.jobs.steward.attestations import AttestedComparison
    from logist.store import JobDir


@click.command("verify")
@click.argument("file", metavar="FILE", type=click.Path(), shell_complete=complete_file)
@click.option(
    "--allowed-signers",
    metavar="FILE",
    shell_complete=complete_file,
    help="The keys that may sign, as ssh-keygen wants them; then a signature is required  [default: the setting "
    "steward.allowed_signers]",
)
@jobs_dir_option
@json_option
@click.pass_obj
def verify(environment: Environment, file: str, allowed_signers: str | None, jobs_dir: str | None) -> Output:
    """Verify an attestation: its signature, and the history of its job if that is here.

    The history may have more interactions than were attested. Exit code 10 if the signature is not valid, if a required one is missing, or if
    the history is not the one that was attested.
    """
    from logist.cli.checkup.surroundings import surroundings
    from logist.jobs.steward import attestations

    attestation = attestations.read_attestation(Path(file))
    attested = attestation.history
    project = surroundings(environment, jobs_dir)
    signed = attestations.check_signer(
        project, attestation, None if allowed_signers is None else Path(allowed_signers)
    )
    job = _find_job(project.jobs_dir, attested.job)
    compared: AttestedComparison | None = (
        None if job is None else attestations.compare_history(attestation, job)
    )
    problems = [each for each in (signed.problem, compared and compared.problem) if each]
    notes = [each for each in (signed.note, compared and compared.note) if each]
    if compared is None:
        notes.append(f"the job {attested.job} is not here, so only the attestation was verified")
    data = {
        "job": attested.job,
        "ok": not problems,
        "signer": signed.signer,
        "interactions": attested.interactions,
        "head": attested.head,
        "commit": attested.commit,
        "compared": compared is not None and compared.note is None,
        "interactions_now": None if compared is None else compared.interactions,
        "problems": problems,
    }
    errors = tuple(Diagnostic("error", Damaged.code, each, file) for each in problems)
    if problems:
        return Output(data, (), (*errors, *make_notes(notes)), Damaged.exit_code)
    by = (
        f"signed by {signed.signer}"
        if signed.signer
        else "not signed"
        if attestation.signature is None
        else "signed"
    )
    count = format_count(attested.interactions, "interaction")
    lines = [
        f"{attested.job}: OK, {by}: {count}{f', merged as {attested.commit[:12]}' if attested.commit else ''}"
    ]
    if compared is not None and compared.interactions > attested.interactions:
        lines.append(f"the history has grown since, to {format_count(compared.interactions, 'interaction')}")
    return Output(data, lines, make_notes(notes))


def _find_job(jobs: Path, job_id: str) -> JobDir | None:
    from logist.store import JobDir

    try:
        return JobDir.open(jobs, job_id)
    except UsageError:
        return None
