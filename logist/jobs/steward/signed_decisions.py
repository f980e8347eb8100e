"""Signs the decisions of stewards with `ssh-keygen -Y sign`, and verifies signatures. A replay does neither."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from logist.config.layering import require_owner
from logist.core.history import fold
from logist.core.machine import kinds
from logist.core.model import Interaction, JsonObject, Kind
from logist.core.model.commands import CreateCommand, ScrubCommand, Signature
from logist.digests import compute_sha256
from logist.errors import InvalidFile, LogistError, Refused
from logist.jobs.base.session import Session
from logist.jobs.base.stored_records import dump_interaction
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    import subprocess

    from logist.jobs.base.project import ProjectContext

NAMESPACE = "logist"
"""So that a signature for another purpose, such as a commit, is not accepted here."""
VERIFY_SECONDS = 30
SIGN_SECONDS = 20
"""How long signing may take without a person at a terminal: a key in hardware waits to be touched."""


class NotSigned(Refused):
    """A decision that must be signed can't be signed here; nothing was recorded. Exit code 8."""


@dataclass(frozen=True)
class CheckedSignature:
    """What is known of the signature of a decision."""

    sequence: int
    kind: str
    signer: str | None = None
    """Who has signed, by the file of allowed signers; None if the signature is missing, invalid or was not checked."""
    problem: str | None = None
    is_signed: bool = True
    signed_by: str | None = None
    """Who had signed before a scrub, as the scrub says; None if it was not checked then."""
    scrub: int | None = None
    """The interaction that has changed what was signed; its signature was valid before, so this is no problem."""

    @property
    def was_signed_before_scrub(self) -> bool:
        """Whether a scrub says so, and is itself trusted."""
        return self.scrub is not None


def sign_decision(session: Session, entry: Interaction, revision: int) -> Interaction:
    """Return the decision with a signature, if the user's config wants one. `revision`: what was decided about.

    Raises NotSigned if an approval must be signed by an allowed signer, and is not, or if signing fails; InvalidFile if
    the key or the file of signers is not found.
    """
    project, rules = session.project, session.project.settings.steward
    # A scrub says which signatures were valid before it, so without its own it could hide a forged approval.
    must_sign = rules.require is not None and entry.kind in kinds.MUST_BE_SIGNED
    if rules.sign is None:
        if must_sign:
            fix = "to sign your decisions: logist config set --user steward.sign ssh"
            what = "not approved: approvals" if entry.kind is Kind.APPROVE else "not scrubbed: scrubs"
            raise NotSigned(f"{what} must be signed (steward.require)", fix=fix)
        return entry
    if not project.may_sign:
        fix = "decide in a terminal, as the user with that key"
        raise NotSigned(f"can't sign the decision: the key is not that of {project.steward}", fix=fix)
    if must_sign and find_allowed_signers(project) is None:  # before the person is asked for a passphrase
        fix = "name the file of the keys that may sign: logist config set --user steward.allowed_signers FILE"
        raise InvalidFile("steward.require needs steward.allowed_signers", fix=fix)
    command = dump_interaction(entry)["command"]
    accepted = entry.checkpoint_after or session.state.checkpoint if entry.kind is Kind.APPROVE else None
    unsigned = Signature(job=session.job.id, revision=revision, checkpoint=accepted or "")
    text = build_signed_text(unsigned, entry.kind, command)
    signature = unsigned.model_copy(update={"ssh": sign_text(project, text)})
    signed = entry.model_copy(update={"command": {**command, "signature": signature.model_dump()}})
    if must_sign:
        checked = _check_signature(project, signed, session.job.id, accepted)
        if checked.problem or checked.signer is None:
            fix = f"add your public key to {find_allowed_signers(project)}"
            what = "approved" if entry.kind is Kind.APPROVE else "scrubbed"
            raise NotSigned(f"not {what}: {checked.problem or 'the signer is not known'}", fix=fix)
    return signed


def build_signed_text(signature: Signature, kind: str, command: JsonObject) -> bytes:
    """Return what is signed: the job, its revision, the decision with all options, and what an approval accepts."""
    unsigned = {name: value for name, value in command.items() if name != "signature"}
    canonical = json.dumps(unsigned, sort_keys=True, separators=(",", ":"))
    digest = compute_sha256(canonical.encode("ascii"))
    lines = ["Logist decision", f"job {signature.job}", f"revision {signature.revision}", str(kind)]
    lines += [f"review {command.get('review_hash')}", f"command sha256:{digest}"]
    if signature.checkpoint:
        lines.append(f"checkpoint {signature.checkpoint}")
    return "\n".join(lines).encode("utf-8", "backslashreplace") + b"\n"


def check_signatures(
    project: ProjectContext, job_id: str, history: Iterable[Interaction]
) -> list[CheckedSignature]:
    """Check the signature of each decision, and find approvals without one where the user's config requires it.

    A fork and an imported history have the decisions of their origin, with their signatures. Raises InvalidFile for an invalid file of signers.
    """
    is_required = project.settings.steward.require is not None
    history = list(history)
    decisions = [entry for entry in history if entry.kind in kinds.MAY_BE_SIGNED]
    origins = {job_id, *_list_origins(history), *_list_imported_ids(history)}
    checked: list[CheckedSignature] = []
    for entry in decisions:
        signature = kinds.command_of(entry).signature
        if signature is not None:
            known = signature.job if signature.job in origins else job_id
            # The rest of the history is not signed: what is merged must be what the approval accepts.
            recorded = (
                fold.fold_before(history, entry.sequence + 1).checkpoint if signature.checkpoint else None
            )
            checked.append(_check_signature(project, entry, known, recorded))
        elif is_required and entry.kind in kinds.MUST_BE_SIGNED:
            what = "approval" if entry.kind is Kind.APPROVE else "scrub"
            problem = f"the {what} is not signed, but steward.require is set"
            checked.append(CheckedSignature(entry.sequence, entry.kind, problem=problem, is_signed=False))
    return _excuse_scrubbed(project, history, checked)


def _excuse_scrubbed(
    project: ProjectContext, history: Sequence[Interaction], checked: Sequence[CheckedSignature]
) -> list[CheckedSignature]:
    """Accept signatures that were valid before a scrub, as far as the scrub can be trusted.

    A scrub names the checksum of the interaction before it, which covers all earlier ones: so its own signature covers
    every decision that it excuses. A later scrub has begun another chain; then that one must say that this one was
    valid. If signatures are required, or this scrub has one, only a valid signature counts.
    """
    by_sequence = {each.sequence: each for each in checked}
    for entry in reversed(history):
        if entry.kind is not Kind.SCRUB:
            continue
        own, command = by_sequence.get(entry.sequence), kinds.command_of(entry)
        if not isinstance(command, ScrubCommand):
            continue
        is_excused = own is not None and own.was_signed_before_scrub
        if not is_excused and command.head != entry.previous:
            continue
        if own is not None and own.problem is not None:
            continue
        for each in command.signed or []:
            before = by_sequence.get(each.sequence)
            if before is None or each.sequence >= entry.sequence or before.was_signed_before_scrub:
                continue
            if each.signer is None and project.settings.steward.require is not None:
                continue  # nobody has checked it then
            by_sequence[each.sequence] = replace(
                before, signer=None, problem=None, scrub=entry.sequence, signed_by=each.signer
            )
    return [by_sequence[each.sequence] for each in checked]


def read_signed_text(entry: Interaction) -> bytes | None:
    """Return what the signature of an interaction covers; None if it has none."""
    signature = kinds.command_of(entry).signature
    return None if signature is None else build_signed_text(signature, entry.kind, entry.command)


def require_signed_approval(session: Session) -> None:
    """Raise Refused if the user's config requires signatures, and the last approval has no valid one."""
    if session.project.settings.steward.require is None:
        return
    history = session.load_history()
    checked = check_signatures(session.project, session.job.id, history)
    approvals = [each for each in checked if each.kind == Kind.APPROVE]
    if approvals and approvals[-1].signer is None:
        last = approvals[-1]
        if last.scrub is not None:
            last = replace(last, problem=f"the scrub, interaction {last.scrub}, has changed what was signed")
        fix = f"check the work, then: logist job restep --job {session.job.id} --to {last.sequence}, and approve it"
        raise Refused(f"can't merge: interaction {last.sequence}: {last.problem}", fix=fix)


def _list_origins(history: Iterable[Interaction]) -> Iterator[str]:
    for entry in history:
        origin = entry.command.get("from") if entry.kind is Kind.FORK else None
        if isinstance(origin, str):
            yield origin


def _list_imported_ids(history: Sequence[Interaction]) -> Iterator[str]:
    """Yield the ids that an imported history had before, as its requests name them."""
    created = kinds.command_of(history[0]) if history else None
    if isinstance(created, CreateCommand) and created.imported:
        for entry in history:
            origin = (entry.request.command or {}).get("job_id")
            if isinstance(origin, str):
                yield origin


def _check_signature(
    project: ProjectContext, entry: Interaction, job_id: str, recorded: str | None
) -> CheckedSignature:
    """Check one signature. `recorded`: the checkpoint after the decision by the history; an import has none."""
    signature = kinds.command_of(entry).signature or Signature()
    checked = CheckedSignature(entry.sequence, entry.kind)
    # Only a changed job.yaml is recorded between what the steward saw and the decision.
    if signature.job != job_id or entry.sequence - signature.revision not in (1, 2):
        problem = f"the signature is for {signature.job or 'no job'}, revision {signature.revision}"
        return CheckedSignature(entry.sequence, entry.kind, problem=problem)
    if signature.checkpoint and recorded is not None and recorded != signature.checkpoint:
        problem = (
            f"the signature accepts the files of checkpoint {signature.checkpoint[:12]}, not {recorded[:12]}"
        )
        return CheckedSignature(entry.sequence, entry.kind, problem=problem)
    allowed = find_allowed_signers(project)
    if allowed is None:
        if project.settings.steward.require is None:
            return checked
        return CheckedSignature(entry.sequence, entry.kind, problem="steward.allowed_signers is not set")
    text = build_signed_text(signature, entry.kind, entry.command)
    signer = find_signer(project, allowed, signature.ssh, text, entry.timestamp)
    invalid = None if signer else "the signature is invalid, or not by an allowed signer"
    return CheckedSignature(entry.sequence, entry.kind, signer, invalid)


def find_allowed_signers(project: ProjectContext) -> Path | None:
    """Return the file of the user's config with the keys that may sign; None if it names none. Raises InvalidFile."""
    name = project.settings.steward.allowed_signers
    if name is None:
        return None
    path = _resolve(project, name)
    if not path.is_file():
        fix = "create it, with one line for each key: NAME ssh-ed25519 AAAA..."
        raise InvalidFile("steward.allowed_signers: file not found", where=str(path), fix=fix)
    require_owner(path)
    return path


def _resolve(project: ProjectContext, name: str) -> Path:
    return project.environment.user_config_dir() / project.environment.expand_home(name)


def sign_text(
    project: ProjectContext,
    text: bytes,
    namespace: str = NAMESPACE,
    what: str = "the decision",
    key: Path | None = None,
) -> str:
    """Sign a text with a key, by default that of the user's config (`steward.key`); return the armored signature.

    `what`: what is signed, for messages. Raises NotSigned if that fails, InvalidFile if there is no key.
    """
    key = key or _resolve(project, project.settings.steward.key)
    if not key.is_file():
        fix = "set the file of your key: logist config set --user steward.key PATH"
        raise InvalidFile(f"can't sign {what}: key not found", where=str(key), fix=fix)
    may_ask = project.via != "page" and not project.environment.is_input_off()
    if project.via == "terminal" and may_ask:
        project.say(f"signing with {key}: enter its passphrase, or touch it, if it asks")
    import subprocess  # noqa: PLC0415 - most decisions are not signed

    try:
        ended = _run(
            project,
            None if may_ask else SIGN_SECONDS,
            *("-Y", "sign", "-n", namespace, "-f", str(key)),
            stdin=text,
            may_ask=may_ask,
        )
    except subprocess.TimeoutExpired as error:
        message = f"can't sign {what}: no signature after {SIGN_SECONDS} s"
        raise NotSigned(message, where=str(key), fix="nothing was recorded; unlock the key first") from error
    if ended.returncode != 0:
        said = ended.stderr.decode("utf-8", "replace").strip().splitlines()
        raise NotSigned(
            f"can't sign {what}: {said[-1] if said else 'ssh-keygen failed'}",
            where=str(key),
            fix="nothing was recorded; unlock the key, or check steward.key, then decide again",
        )
    return ended.stdout.decode("ascii", "replace")


def find_signer(
    project: ProjectContext,
    allowed: Path,
    signature: str,
    text: bytes,
    timestamp: str,
    namespace: str = NAMESPACE,
) -> str | None:
    """Return who has signed a text, by the file of allowed signers; None if the signature is not valid.

    `timestamp`: when the key had to be valid; "" for now.
    """
    import subprocess  # noqa: PLC0415 - most decisions are not signed

    try:
        return _find_signer(project, allowed, signature, text, timestamp, namespace)
    except subprocess.TimeoutExpired as error:
        raise LogistError(f"ssh-keygen failed: {error}") from error


def _find_signer(
    project: ProjectContext, allowed: Path, signature: str, text: bytes, timestamp: str, namespace: str
) -> str | None:
    import tempfile  # noqa: PLC0415 - most decisions are not signed

    at = "".join(character for character in timestamp if character.isdigit())
    valid_at = [f"-Overify-time={at}"] if at else []
    common = ("-n", namespace, "-f", str(allowed), *valid_at)
    with tempfile.TemporaryDirectory(prefix="logist-signature-") as folder:
        file = Path(folder, "signature")
        file.write_text(signature, "utf-8", "backslashreplace")
        found = _run(
            project, VERIFY_SECONDS, "-Y", "find-principals", "-s", str(file), "-f", str(allowed), *valid_at
        )
        names = found.stdout.decode("utf-8", "replace").splitlines() if found.returncode == 0 else []
        for name in names:
            ended = _run(
                project, VERIFY_SECONDS, "-Y", "verify", *common, "-I", name, "-s", str(file), stdin=text
            )
            if ended.returncode == 0:
                return name
    return None


def _run(
    project: ProjectContext,
    seconds: float | None,
    *arguments: str,
    stdin: bytes = b"",
    may_ask: bool = True,
) -> subprocess.CompletedProcess[bytes]:
    """Run ssh-keygen. `may_ask`: whether it may ask the person at the terminal for a passphrase. Raises TimeoutExpired."""
    import shutil  # noqa: PLC0415 - most decisions are not signed
    import subprocess  # noqa: PLC0415

    # The times in a history are UTC, and ssh-keygen reads them as local time.
    environment = project.environment.build_signing_environment() | {"TZ": "UTC", "LC_ALL": "C"}
    if not may_ask:
        # ssh-keygen asks on the terminal of its session, or with a window. Without a session's terminal it would read
        # the passphrase from standard input, which has the text to sign, unless it has to use a program that fails.
        environment |= {"SSH_ASKPASS": "false", "SSH_ASKPASS_REQUIRE": "force"}
    program = shutil.which("ssh-keygen", path=environment.get("PATH", os.defpath))
    if program is None:
        raise Refused("ssh-keygen not found", fix="install OpenSSH, or remove `steward` from your config")
    try:
        return subprocess.run(
            [program, *arguments],
            input=stdin,
            capture_output=True,
            env=environment,
            timeout=seconds,
            check=False,
            start_new_session=not may_ask,
        )
    except OSError as error:
        raise LogistError(f"ssh-keygen failed: {error}") from error
