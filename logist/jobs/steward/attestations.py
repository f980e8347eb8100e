"""Attestations of jobs: a statement in a file, its signature in another one beside it, and what both prove about a history.

The signature is one of `ssh-keygen -Y sign` over the bytes of the statement, so that `ssh-keygen -Y verify` checks it without Logist, and every
in-toto tool reads the statement as it is. Attestations are kept outside of the job directories: who cuts off the end of a history together
with state.json doesn't reach them there, and they can be committed.
"""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logist.core.model import Kind
from logist.core.model.commands import ScrubCommand
from logist.core.share.attestation import AttestedHistory, NotAStatement, build_statement, read_statement
from logist.core.text.counts import format_count
from logist.errors import Damaged, InvalidFile, UsageError
from logist.jobs.base.job_reader import read_interactions
from logist.jobs.steward import signed_decisions
from logist.quick_tuple import NamedTuple
from logist.regular_files import read_regular
from logist.store.files import make_directory, replace_file

if TYPE_CHECKING:
    from logist.core.model import JsonObject
    from logist.jobs.base.project import ProjectContext
    from logist.store import JobDir

NAMESPACE = "logist-attestation"
"""So that the signature of a decision is not accepted here, and the other way round."""
ENDING, SIGNATURE_ENDING = ".intoto.json", ".sig"
FOLDER = "attestations"
MOST_BYTES = 16 << 20
MOST_SIGNATURE = 1 << 16


class Attestation(NamedTuple):
    """An attestation in a file."""

    path: Path
    text: bytes
    history: AttestedHistory
    signature: str | None


class AttestedSigner(NamedTuple):
    """What is known of the signature of an attestation."""

    signer: str | None = None
    """Who has signed it; None if nobody has, or it was not checked."""
    problem: str | None = None
    note: str | None = None
    """Why the signature says nothing, if there is no problem."""


def find_attestation_path(home: Path, job_id: str) -> Path:
    """Return where the attestation of a job is kept: in `.logist/attestations`."""
    return home / FOLDER / f"{job_id}{ENDING}"


def write_attestation(path: Path, job: JobDir) -> JsonObject:
    """Write the statement about a job, and return it; a signature of the old content is removed.

    Raises Damaged if the history is.
    """
    try:
        statement = build_statement(job.id, read_interactions(job))
    except NotAStatement as error:
        raise Damaged(f"can't attest {job.id}: {error}", where=str(job.path)) from error
    make_directory(path.parent)
    _find_signature(path).unlink(
        missing_ok=True
    )  # before the content changes: it never stands beside another one
    replace_file(path, json.dumps(statement, indent=1).encode() + b"\n", mode=0o644)
    return statement


def sign_attestation(project: ProjectContext, path: Path, key: Path | None) -> Path:
    """Sign the statement in a file; return the file of the signature. Raises NotSigned, InvalidFile."""
    signature = signed_decisions.sign_text(project, path.read_bytes(), NAMESPACE, "the attestation", key)
    replace_file(_find_signature(path), signature.encode(), mode=0o644)
    return _find_signature(path)


def read_attestation(path: Path) -> Attestation:
    """Read an attestation and its signature, which may be from a stranger. Raises UsageError if there is none, and InvalidFile."""
    try:
        text = read_regular(path, MOST_BYTES)
        history = read_statement(json.loads(text, object_pairs_hook=_refuse_repeated))
    except FileNotFoundError as error:
        raise UsageError(
            "attestation not found", where=str(path), fix="to write one: logist attest JOB"
        ) from error
    except OSError as error:
        raise InvalidFile(
            f"can't read the attestation: {error.strerror or error}", where=str(path)
        ) from error
    except (ValueError, RecursionError) as error:
        why = error if isinstance(error, NotAStatement) else f"it is not valid JSON: {error}"
        raise InvalidFile(f"not an attestation of a job: {why}", where=str(path)) from error
    try:
        signature = read_regular(_find_signature(path), MOST_SIGNATURE).decode("ascii", "replace")
    except FileNotFoundError:
        return Attestation(path, text, history, None)
    except OSError as error:
        where = str(_find_signature(path))
        what = "too large" if error.errno == errno.EFBIG else error.strerror or error
        raise InvalidFile(f"can't read the signature: {what}", where=where) from error
    return Attestation(path, text, history, signature)


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two readers may take different ones of two values with the same name."""
    if len(dict(pairs)) != len(pairs):
        raise NotAStatement("a name occurs twice in an object")
    return dict(pairs)


def check_signer(project: ProjectContext, attestation: Attestation, allowed: Path | None) -> AttestedSigner:
    """Check the signature of an attestation. `allowed`: the file of the keys that may sign; by default that of the user's config.

    Raises InvalidFile for an invalid file of signers.
    """
    is_required = allowed is not None or project.settings.steward.require is not None
    signers = allowed or signed_decisions.find_allowed_signers(project)
    if attestation.signature is None:
        why = "the attestation is not signed"
        return AttestedSigner(problem=why) if is_required else AttestedSigner(note=why)
    if signers is None:
        why = "the signature was not checked; name the keys that may sign with --allowed-signers FILE"
        return AttestedSigner(note=why)
    if not signers.is_file():
        raise InvalidFile("file of allowed signers not found", where=str(signers))
    found = signed_decisions.find_signer(
        project, signers, attestation.signature, attestation.text, "", NAMESPACE
    )
    if found is None:
        return AttestedSigner(problem="the signature is not valid, or not by an allowed signer")
    return AttestedSigner(found)


class AttestedComparison(NamedTuple):
    """How the history of a job fits to an attestation of it."""

    problem: str | None = None
    note: str | None = None
    interactions: int = 0
    """How many interactions the history has now."""


def compare_history(attestation: Attestation, job: JobDir) -> AttestedComparison:
    """Compare the history of a job with its attestation: it must begin with what was attested. Raises Damaged."""
    attested = attestation.history
    if attested.job != job.id:
        return AttestedComparison(f"the attestation is of the job {attested.job}, not of {job.id}")
    count, found, scrub = 0, None, None
    for entry in read_interactions(job):
        count = entry.sequence
        if count == attested.interactions:
            found = entry.checksum
        if entry.kind == Kind.SCRUB and ScrubCommand.read(entry.command).old_head is not None:
            scrub = count
    if count < attested.interactions:
        missing = format_count(attested.interactions, "interaction")
        return AttestedComparison(
            f"{missing} were attested, and the history has {count}: its end was cut off", None, count
        )
    if found == attested.head:
        return AttestedComparison(None, None, count)
    if scrub is not None and scrub > attested.interactions:
        note = f"the job was scrubbed (interaction {scrub}) after it was attested, so its history can't be compared; attest it again"
        return AttestedComparison(None, note, count)
    return AttestedComparison(
        f"interaction {attested.interactions} is not the one that was attested: the history was rewritten",
        None,
        count,
    )


def _find_signature(path: Path) -> Path:
    return path.with_name(path.name + SIGNATURE_ENDING)
