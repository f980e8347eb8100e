"""The courier: a process of its own that pays for answers and brings each to disk itself.

`python -m logist.agents.courier JOBDIR LOCK_FD`, private values as one JSON object on stdin. It holds
the job's lock by the inherited descriptor, so whoever started it may die.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NoReturn, TextIO

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from logist.agents import booking
from logist.agents.exchange import Errand
from logist.agents.protocol import COURIER, Ask
from logist.core.model import (
    EffectiveSpec,
    ErrorKind,
    JsonObject,
    Model,
    Phase,
    Reply,
    Request,
    TransportError,
)
from logist.core.redact import redact
from logist.errors import StorageError
from logist.store import Exchange, Exchanges, JobDir, Lock, inflight

LOG = "courier.log"
EMPTY = Reply()


@dataclass(frozen=True)
class Collected:
    """What is on disk of an ask."""

    kind: Literal["none", "not_sent", "answered", "in_doubt"]
    envelope: JsonObject | None = None
    """The content of `1.request`."""
    reply: Reply = EMPTY
    """The last response, with the usage of all exchanges; in doubt, the last one at its worst case."""


def _known(phase: Phase) -> Phase:
    if not phase.known:
        raise ValueError("only a newer Logist knows this phase: use that one")
    return phase


class Concluding(BaseModel):
    """What concluding needs of an envelope, beside the ask."""

    sequence: Annotated[int, Field(ge=1, strict=True)]
    spec: EffectiveSpec
    phase: Annotated[Phase, AfterValidator(_known)]
    role: str
    step: str
    attempt: Annotated[int, Field(ge=0, strict=True)]
    checkpoint_before: str | None


def launch(
    job: JobDir, lock: Lock, envelope: JsonObject, private: JsonObject, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Starts the courier for the envelope that `begin_exchange(1, ...)` made durable, and notes its pid.

    `private`: {"api_key": str|null, "secrets": [str]}; it travels through a pipe, so it is in no argv,
    environment or file. `environment` is complete: nothing is added but the way to this package.
    """
    ask_from(envelope)  # what cannot be read back must not be started
    log = _log(job)
    reading, writing = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", COURIER, str(job.path.absolute()), str(lock.fd)],
            stdin=reading,
            stdout=log,
            stderr=log,
            cwd="/",
            env=_with_path(environment),
            pass_fds=(lock.fd,),
            start_new_session=True,
        )
    except OSError:
        os.close(writing)
        raise
    finally:
        os.close(log)
        os.close(reading)
    _hand_over(writing, private)
    lock.note_courier(process.pid)
    return process


def ask_from(envelope: JsonObject) -> Ask:
    """The ask an envelope describes."""
    return Ask(
        request=Request.model_validate(envelope["request"]),
        model=Model.model_validate(envelope["model"]),
        role=envelope["role"],
        index=envelope.get("index", 0),
        temperature=envelope.get("temperature"),
        max_output_tokens=envelope["max_output_tokens"],
        deadline_seconds=envelope["deadline_seconds"],
        max_tries=envelope["max_tries"],
        backoff_seconds=envelope["backoff_seconds"],
        reserved_microcents=envelope.get("reserved_microcents"),
    )


def collect(exchanges: Sequence[Exchange]) -> Collected:
    """What the files of an ask say; only to be believed while its lock is free, or held by us alone.

    Damaged if they could not have been written by an ask.
    """
    if not exchanges:
        return Collected("none")
    try:
        envelope = _sound_envelope(exchanges)
        replies = [Reply.model_validate(each.response) for each in exchanges if each.response is not None]
    except (KeyError, ValueError, TypeError) as error:
        folder = exchanges.folder if isinstance(exchanges, Exchanges) else None
        message = f"the record of an exchange makes no sense: {_in_short(error)}"
        raise inflight.damaged(folder, message) from error
    last = exchanges[-1]
    if last.response is None and last.sent:
        return Collected("in_doubt", envelope, _in_doubt(envelope, replies))
    if not replies:
        return Collected("not_sent", envelope)
    return Collected("answered", envelope, _summed(replies))


def _sound_envelope(exchanges: Sequence[Exchange]) -> JsonObject:
    """What was asked; KeyError, ValueError or TypeError if that, or the order of the calls, is not as we write it."""
    for place, exchange in enumerate(exchanges, 1):
        if exchange.k != place or exchange.request is None:
            raise ValueError(f"the request of call {place} is missing")
    if any(earlier.response is None for earlier in exchanges[:-1]):
        raise ValueError("a call without an answer is followed by another")
    envelope = exchanges[0].request
    assert envelope is not None
    ask_from(envelope)
    Concluding.model_validate(envelope)
    booking.worst_case(envelope.get("reserved_microcents"))
    return envelope


def _in_short(error: Exception) -> str:
    """Without what was in the files: that may be long, or private."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return ".".join(map(str, first["loc"])) + f": {first['msg']}"
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)


def _in_doubt(envelope: JsonObject, replies: list[Reply]) -> Reply:
    message = "the request was sent, and no answer reached the disk: it may have been paid"
    unknown = Reply(
        error=TransportError(kind=ErrorKind.TRANSIENT, message=message),
        usage=booking.worst_case(envelope.get("reserved_microcents")),
    )
    return _summed([*replies, unknown])


def _summed(replies: list[Reply]) -> Reply:
    usage = booking.total([reply.usage for reply in replies])
    return replies[-1].model_copy(update={"usage": usage})


def _log(job: JobDir) -> int:
    job.logs.mkdir(mode=0o700, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(job.logs / LOG, flags, 0o600)


def _with_path(environment: dict[str, str]) -> dict[str, str]:
    """The environment, with this package importable when it runs from a checkout."""
    root = str(Path(__file__).resolve().parents[2])
    if root in sysconfig.get_paths().values():
        return environment
    path = [entry for entry in (environment.get("PYTHONPATH"), root) if entry]
    return environment | {"PYTHONPATH": os.pathsep.join(path)}


def _hand_over(pipe: int, private: JsonObject) -> None:
    try:
        with open(pipe, "wb") as writing:
            writing.write(json.dumps(private).encode())
    except BrokenPipeError:
        return  # it died at once; what it left on disk says so


def main(arguments: list[str]) -> NoReturn:
    """Runs the courier of a job; ends the process without waiting for litellm's threads."""
    directory, descriptor = Path(arguments[0]), int(arguments[1])
    Lock.inherited(descriptor)
    private = json.loads(sys.stdin.buffer.read())
    log = _quiet()
    status = _run(_job(directory, descriptor), private, log)
    log.flush()
    # The lock goes first: while litellm's threads end, the process looks dead and still has its descriptors.
    os.close(descriptor)
    os._exit(status)


def _job(directory: Path, descriptor: int) -> JobDir:
    """The job by its open directory, which it stays when somebody moves it while the agent is out."""
    held = Path(f"/proc/self/fd/{descriptor}")
    return JobDir(held, directory.name) if held.is_dir() else JobDir.open(directory.parent, directory.name)


def _run(job: JobDir, private: JsonObject, log: TextIO) -> int:
    errand: Errand | None = None
    try:
        envelope = job.exchanges()[0].request or {}
        errand = Errand(job, ask_from(envelope), private["api_key"], private["secrets"])
        signal.signal(signal.SIGTERM, errand.stop)
        errand.run()
    except Exception as error:  # noqa: BLE001  nobody else is there to tell, and money may have been spent
        secrets = [secret for secret in (*private["secrets"], private["api_key"]) if secret]
        log.write(redact(booking.whole(traceback.format_exc()), secrets)[0])
        log.flush()
        if errand is not None and not isinstance(error, StorageError):  # a failed fsync is final
            errand.abandon(error)
        return 1
    return 0


def _quiet() -> TextIO:
    """Our own way to the log; what libraries print may hold prompts and keys, and goes nowhere."""
    log = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    return log


if __name__ == "__main__":
    main(sys.argv[1:])
