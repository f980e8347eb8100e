"""The courier's errand with an agent program: started once, confined, and read when it has ended."""

from __future__ import annotations

import json
import time
from pathlib import Path

from logist.agents import booking, sandbox
from logist.agents.place import ARCHIVE, Place
from logist.agents.programs.finding import handed
from logist.agents.programs.protocol import Finished, Invocation, Profile, Program, Result, Run
from logist.agents.protocol import Ask
from logist.core import money
from logist.core.exit_command import clean
from logist.core.model import ErrorKind, Permissions, Reply, TransportError, Usage
from logist.core.redact import redact
from logist.errors import LogistError
from logist.store import JobDir

KEPT = 4 << 20
"""Bytes that are kept of each of a program's outputs and result files, from its end."""


class ProgramErrand:
    """One run of an agent program."""

    def __init__(self, job: JobDir, ask: Ask, api_key: str | None, secrets: list[str], place: Place) -> None:
        self.job, self.ask, self.api_key, self.place = job, ask, api_key, place
        self.secrets = [*secrets, api_key] if api_key else secrets
        self.stopped = self.sent = False
        self.redactions = 0

    def run(self) -> None:
        """Until what came of it is on disk. Nothing is sent when it can't be started."""
        try:
            agent = handed(self.ask.agent, self.ask.work.program)
            invocation = agent.invocation(self._run())
            self._write(invocation)
        except LogistError as error:
            self._save(Reply(error=_error(ErrorKind.BAD_REQUEST, str(error))))
            return
        if self.stopped:
            return
        self.job.mark_sent(1)
        self.sent = True
        began = time.monotonic()
        try:
            ended = self._start(invocation)
        except LogistError as error:  # it never ran
            self._save(Reply(error=_error(ErrorKind.BAD_REQUEST, str(error))))
            return
        finished = self._finished(invocation, ended)
        self._archive(invocation, finished)
        result = agent.read(finished)
        self.place.clear_home()
        self._save(self._reply(agent, result, time.monotonic() - began))

    def stop(self, *_: object) -> None:
        """Ends the program, and records what is known of it."""
        self.stopped = True

    def abandon(self, error: Exception) -> None:
        """Records that the courier itself failed; once the program was started, it stays in doubt."""
        if not self.sent:
            self._save(Reply(error=_error(ErrorKind.BAD_REQUEST, f"{type(error).__name__}: {error}")))

    def _run(self) -> Run:
        ask = self.ask
        return Run(
            prompt=ask.request.prompt,
            workspace=self.place.workspace,
            home=self.place.home,
            model=ask.model,
            api_key=self.api_key,
            profile=profile(ask.work.permissions),
            deadline_seconds=ask.deadline_seconds,
            name=self.job.id,
            role=ask.role,
            allowance_microcents=ask.allowance_microcents,
            path=self.place.environment.get("PATH", "/usr/bin:/bin"),
        )

    def _write(self, invocation: Invocation) -> None:
        for name, data in invocation.files.items():
            path = self.place.home / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o600)

    def _start(self, invocation: Invocation) -> sandbox.Ended:
        confinement = self.place.confinement(self.ask.work, dict(invocation.environment))
        return sandbox.run(
            invocation.argv,
            confinement,
            stdin=invocation.stdin,
            stdout=self.place.scratch / "stdout",
            stderr=self.place.scratch / "stderr",
            deadline_seconds=self.ask.deadline_seconds,
            marker=self.ask.work.marker,
            stop=lambda: self.stopped,
        )

    def _finished(self, invocation: Invocation, ended: sandbox.Ended) -> Finished:
        files = {name: self._text(self.place.read(name, KEPT)) for name in invocation.results}
        return Finished(
            status=ended.status,
            how=ended.how,
            stdout=self._text(_tail(self.place.scratch / "stdout", KEPT)) or "",
            stderr=self._text(_tail(self.place.scratch / "stderr", KEPT)) or "",
            files={name: text for name, text in files.items() if text is not None},
            signal=ended.signal,
            cut=ended.output_cut,
        )

    def _text(self, data: bytes | None) -> str | None:
        """What a file holds as text without secrets."""
        if data is None:
            return None
        text, count = redact(booking.whole(data.decode("utf-8", "replace")), self.secrets)
        self.redactions += count
        return text

    def _archive(self, invocation: Invocation, finished: Finished) -> None:
        """What `read` was given, so that it can be read again."""
        kept = {"program": self.ask.agent, "argv": list(invocation.argv), **vars(finished)}
        kept["files"] = dict(finished.files)
        text, _ = redact(json.dumps(kept, ensure_ascii=False), self.secrets)
        (self.place.scratch / ARCHIVE).write_text(text, "utf-8")

    def _reply(self, agent: Program, result: Result, seconds: float) -> Reply:
        usage, warnings = _booked(self.ask, result, agent.metered, round(seconds, 3))
        denied = tuple(f"{agent.name} refused: {line}" for line in result.denials)
        error = result.error
        if error is not None:
            error = error.model_copy(update={"message": error.message[: booking.LONGEST_MESSAGE]})
        return Reply(
            text=result.text,
            usage=usage,
            finish=result.finish or (None if error else "stop"),
            error=error,
            redactions=self.redactions,
            warnings=(*result.warnings, *denied, *warnings),
            session=result.session,
        )

    def _save(self, reply: Reply) -> None:
        text, _ = redact(clean(reply.text)[0], self.secrets)
        warnings = tuple(redact(clean(line)[0], self.secrets)[0] for line in reply.warnings)
        error = reply.error
        if error is not None:
            message = redact(clean(error.message)[0], self.secrets)[0]
            error = error.model_copy(update={"message": message})
        whole = reply.model_copy(update={"text": text, "warnings": warnings, "error": error})
        self.job.save_response(1, whole.model_dump(mode="json"))


def profile(permissions: Permissions) -> Profile:
    """The program's own mode that comes nearest to what a role may do; never more."""
    if permissions.can_execute_commands:
        return "full"
    if permissions.can_write_files or permissions.can_create_files:
        return "edit"
    return "read"


def _booked(ask: Ask, result: Result, metered: bool, seconds: float) -> tuple[Usage, tuple[str, ...]]:
    """What is booked for a run: its tokens at the prices of the config, beside its own figure."""
    reported = result.reported_microcents
    spent = result.spent
    if spent is None:
        cents, fraction = money.split(reported or 0)
        usage = Usage(
            cost_cents=cents,
            cost_microcents=fraction,
            seconds=seconds,
            source="provider" if reported is not None else "none",
            reported_microcents=reported,
        )
        told = reported is not None or not metered
        return usage, () if told else ("the program told no usage: nothing is booked",)
    read = spent.uncached + spent.cached
    cost = money.cost_of(ask.model, read, spent.output, spent.cached)
    cents, fraction = money.split(cost if cost is not None else reported or 0)
    usage = Usage(
        input_tokens=read,
        cached_tokens=spent.cached,
        output_tokens=spent.output,
        cost_cents=cents,
        cost_microcents=fraction,
        seconds=seconds,
        source="provider",
        reported_microcents=reported,
    )
    if cost is None and reported is None:
        return usage, (f"the price of {ask.model.name} is unknown: no cost is booked",)
    return usage, ()


def _error(kind: ErrorKind, message: str) -> TransportError:
    return TransportError(kind=kind, message=message)


def _tail(path: Path, most: int) -> bytes | None:
    """The end of a file that only we write."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - most))
            return file.read(most)
    except OSError:
        return None
