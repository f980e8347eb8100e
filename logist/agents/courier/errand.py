"""Runs an agent program for the courier: starts it in the sandbox,
and reads its output when it has ended.
"""

from __future__ import annotations

import json
import secrets as random_secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from logist.agents import sandbox
from logist.agents.courier import booking
from logist.agents.courier.gate_records import GateRecords
from logist.agents.courier.gated_run import LAST_SECONDS, GatedRun
from logist.agents.courier.reporting import ProgressReport, redact_window
from logist.agents.courier.reservations import ExchangeLedger, settle_saved_reply
from logist.agents.programs import live_output
from logist.agents.programs.finding import load_errand_program
from logist.agents.programs.protocol import Finished, Invocation, Profile, Program, Result, Run
from logist.agents.protocol import Ask
from logist.agents.workplace import ARCHIVE, Workplace, read_gate_proxies, read_proxies
from logist.core.model import ErrorKind, JsonObject, Permissions, Provider, Reply, TransportError, Usage
from logist.core.money import money
from logist.core.secrets.redact import redact
from logist.core.text.surrogates import replace_surrogates
from logist.errors import Damaged, LogistError
from logist.store import JobDir
from logist.store.call_rates import CallRates
from logist.store.progress import Activity

HEARD = 1 << 14
"""Bytes at the end of a program's output that are read while it works, to report what it does."""
KEPT = 4 << 20
"""Bytes that are kept from the end of each output and result file of a program."""
LONGEST_SESSION = 256
"""Maximum characters of a session name."""
FREE = frozenset({ErrorKind.AUTH, ErrorKind.REFUSED, ErrorKind.BAD_REQUEST})
"""Errors that mean that no model was called."""
UNTOLD = "the program reported no usage: recorded the highest possible cost of one exchange"
NOTHING_BOOKED = "the program reported no usage: no cost recorded"


class ProgramErrand:
    """One run of an agent program."""

    def __init__(
        self,
        job: JobDir,
        ask: Ask,
        api_key: str | None,
        secrets: list[str],
        place: Workplace,
        ledger: ExchangeLedger | None = None,
        rates: CallRates | None = None,
    ) -> None:
        self.job, self.ask, self.api_key, self.place, self.ledger = job, ask, api_key, place, ledger
        self.rates = rates
        self.token = random_secrets.token_urlsafe(32)
        """The program's key to the gate; a secret, because programs print their environment."""
        self.secrets = [*secrets, self.token, *([api_key] if api_key else [])]
        self.stopped = self.sent = False
        self.redactions = 0
        self.progress = ProgressReport(job.inflight, ask.role, self.secrets)
        self.gated: GatedRun | None = None
        self.said = live_output.Said()

    def run(self) -> None:
        """Run until the outcome is on disk. If the program can't be started, nothing is marked as sent."""
        try:
            agent = load_errand_program(self.ask.agent, self.ask.work.program)
            run = self._build_run()
            invocation = agent.invocation(run)
            if self.ask.provider is not None:
                invocation = self._open_gate(self.ask.provider).build_invocation(agent, run)
            self._write_files(invocation)
        except LogistError as error:
            self._close_gate()
            self._save_record(self._build_record(_make_failed_reply(str(error))))
            return
        if self.stopped:
            return
        self.job.mark_sent(1)
        self.sent = True
        self.progress.report_request(0, self.ask.reserved_microcents)
        began = time.monotonic()
        try:
            ended = self._start_program(invocation)
        except LogistError as error:  # it never ran, unless its requests say otherwise
            self._close_gate(LAST_SECONDS)
            self._save_record(
                self._build_record(self._make_unstarted_reply(str(error), time.monotonic() - began))
            )
            return
        self._close_gate(LAST_SECONDS)
        seconds = time.monotonic() - began
        finished = self._collect_output(invocation, ended)
        self._archive_output(invocation, finished)
        record = self._read_output(agent, finished, round(seconds, 3))
        self.place.clear_home()
        self._save_record(record)

    def stop(self, *_: object) -> None:
        """End the program, and record what is known about its run."""
        self.stopped = True

    def record_failure(self, error: Exception) -> None:
        """Record that the courier itself failed; if the program was started without a gate, the ask stays in doubt."""
        with suppress(LogistError):
            self._close_gate()
        if not self.sent:
            self._save_record(self._build_record(_make_failed_reply(f"{type(error).__name__}: {error}")))

    def _build_run(self) -> Run:
        ask, environment, has_gate = self.ask, self.place.environment, self.ask.provider is not None
        proxies = (
            read_gate_proxies(environment, network=ask.work.network)
            if has_gate
            else read_proxies(environment)
        )
        return Run(
            prompt=ask.request.prompt,
            workspace=self.place.workspace,
            home=self.place.home,
            model=ask.model,
            api_key=self.api_key,
            profile=choose_profile(ask.work.permissions),
            deadline_seconds=ask.deadline_seconds,
            name=self.job.id,
            role=ask.role,
            # With the gate, the program needs no limit of its own: it may use other prices, and stop too early.
            allowance_microcents=None if has_gate else ask.allowance_microcents,
            path=environment.get("PATH", "/usr/bin:/bin"),
            proxies=proxies,
        )

    def _open_gate(self, provider: Provider) -> GatedRun:
        """Open the gate; from now on, each request is reserved and booked separately."""
        if self.ledger is not None:
            with suppress(Damaged):  # the gate refuses the first request
                self.ledger.release(1)
        records = GateRecords(self.job, self.ask, self.ledger, self.secrets, self.progress, self.rates)
        self.gated = GatedRun(self.ask, provider, self.api_key, self.token, records)
        return self.gated

    def _close_gate(self, seconds: float = 0.0) -> None:
        """Close the gate, if there is one, after its last answers have arrived, at most after `seconds`."""
        if self.gated is not None:
            self.gated.close(seconds, lambda: self.stopped)

    def _write_files(self, invocation: Invocation) -> None:
        for name, data in invocation.files.items():
            path = self.place.home / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o600)

    def _start_program(self, invocation: Invocation) -> sandbox.ProgramEnd:
        access = self.gated.access if self.gated else None
        confinement = self.place.confine_agent(self.ask.work, invocation.environment, access)
        argv: Sequence[str] = invocation.argv
        if self.ask.work.code.programs:  # an agent may have put a program with this name there
            argv, confinement = sandbox.pin_program(argv, confinement, self.place.path)
        return sandbox.run_program(
            argv,
            confinement,
            stdin=invocation.stdin,
            stdout=self.place.scratch / "stdout",
            stderr=self.place.scratch / "stderr",
            deadline_seconds=self.ask.deadline_seconds,
            marker=self.ask.work.marker,
            stop=self._report_and_check_stop,
        )

    def _report_and_check_stop(self) -> bool:
        """Report what the program printed last, at most once a second; return whether to end it."""
        if self.progress.is_due():
            said = live_output.find_last_said(*map(self._read_complete_lines, ("stdout", "stderr")))
            if said is not None and said != self.said:
                self.said = said
                self.progress.report(Activity.WORKING, tool=said.tool, target=said.target, words=said.words)
        return self.stopped or (self.gated is not None and self.gated.must_end)

    def _read_complete_lines(self, name: str) -> str:
        """Return the last complete lines of an output, without secrets."""
        data = _read_tail(self.place.scratch / name, HEARD) or b""
        lines = data[: data.rfind(b"\n") + 1]
        if len(data) == HEARD:
            lines = lines.partition(b"\n")[2]  # the first one has lost its beginning
        text = booking.repair_surrogates(lines.decode("utf-8", "replace"))
        return redact_window(text, self.secrets)

    def _collect_output(self, invocation: Invocation, ended: sandbox.ProgramEnd) -> Finished:
        files = {name: self._redact_text(self.place.read_tail(name, KEPT)) for name in invocation.results}
        return Finished(
            status=ended.status,
            how=ended.how,
            stdout=self._redact_text(_read_tail(self.place.scratch / "stdout", KEPT)) or "",
            stderr=self._redact_text(_read_tail(self.place.scratch / "stderr", KEPT)) or "",
            files={name: text for name, text in files.items() if text is not None},
            signal=ended.signal,
            cut=ended.output_cut,
        )

    def _redact_text(self, data: bytes | None) -> str | None:
        """Decode a file's bytes as text without secrets."""
        if data is None:
            return None
        text, count = redact(booking.repair_surrogates(data.decode("utf-8", "replace")), self.secrets)
        self.redactions += count
        return text

    def _archive_output(self, invocation: Invocation, finished: Finished) -> None:
        """Store the input of `read`, so that it can be read again."""
        kept = {"program": self.ask.agent, "argv": list(invocation.argv), **vars(finished)}
        kept["files"] = dict(finished.files)
        text, _ = redact(json.dumps(kept, ensure_ascii=False), self.secrets)
        (self.place.scratch / ARCHIVE).write_text(text, "utf-8")

    def _read_output(self, agent: Program, finished: Finished, seconds: float) -> JsonObject:
        """Return the record of a run, even if the `read` of another package fails or returns a wrong value."""
        try:
            record = self._build_record(self._build_reply(agent, agent.read(finished), seconds))
            json.dumps(record, ensure_ascii=False, allow_nan=False).encode()
            Reply.model_validate(record)
        except BaseException as error:  # noqa: BLE001  SystemExit too: the program ran, and that is recorded
            message = " ".join(str(error).split())
            reply = _make_failed_reply(f"can't read the agent's output: {type(error).__name__}: {message}")
            usage = self.gated.build_usage(None, seconds) if self.gated else Usage(seconds=seconds)
            return self._build_record(reply.model_copy(update={"usage": usage}))
        return record

    def _build_reply(self, agent: Program, result: Result, seconds: float) -> Reply:
        error = result.error
        if self.gated is None:
            usage, warnings = _book_usage(self.ask, result, agent.metered, seconds)
        else:
            error = self.gated.choose_error(result)
            usage = self.gated.build_usage(result.reported_microcents, seconds)
            warnings = self.gated.find_warnings(usage)
        denied = tuple(f"{agent.name} refused: {line}" for line in result.denials)
        return Reply(
            text=result.text,
            usage=usage,
            finish=result.finish or (None if error else "stop"),
            error=error,
            redactions=self.redactions + (self.gated.records.redactions if self.gated else 0),
            warnings=(*result.warnings, *denied, *warnings),
            session=result.session,
        )

    def _make_unstarted_reply(self, message: str, seconds: float) -> Reply:
        """Return the reply of a program that could not be started, or whose sandbox was killed while it worked."""
        if self.gated is None or not self.gated.records.count:
            return _make_failed_reply(message)
        error = TransportError(kind=ErrorKind.TRANSIENT, message=message)
        return Reply(error=error, usage=self.gated.build_usage(None, round(seconds, 3)))

    def _build_record(self, reply: Reply) -> JsonObject:
        """Return the reply as it may be written to a file: valid text without
        secrets, and messages of limited length.
        """
        error = reply.error
        if error is not None:
            message = self._make_safe(error.message)[: booking.LONGEST_MESSAGE]
            error = error.model_copy(update={"message": message})
        safe = {
            "text": self._make_safe(reply.text),
            "warnings": tuple(map(self._make_safe, reply.warnings)),
            "error": error,
            "finish": reply.finish and self._make_safe(reply.finish)[: booking.LONGEST_REASON],
            "session": reply.session and self._make_safe(reply.session)[:LONGEST_SESSION],
        }
        return reply.model_copy(update=safe).model_dump(mode="json")

    def _make_safe(self, text: str) -> str:
        return redact(replace_surrogates(text)[0], self.secrets)[0]

    def _save_record(self, record: JsonObject) -> None:
        self.job.save_response(1, record)
        if self.gated is None:
            settle_saved_reply(self.ledger, 1, Reply.model_validate(record))


def choose_profile(permissions: Permissions) -> Profile:
    """Return the program's permission mode that is closest to what a role may do, but never allows more."""
    if permissions.can_execute_commands:
        return "full"
    if permissions.can_write_files or permissions.can_create_files:
        return "edit"
    return "read"


def _book_usage(ask: Ask, result: Result, metered: bool, seconds: float) -> tuple[Usage, tuple[str, ...]]:
    """Return the usage to record for a run: its tokens at the prices of the config, and the program's own
    figure.

    If a metered program reports neither, its cost is unknown, most likely because it was ended. Then the highest
    possible cost of one exchange with its model is recorded, within what the job may spend. Recording all that the
    job may spend would halt the job after one failure; recording nothing would make cost limits useless.
    """
    reported = None if result.reported_microcents is None else max(0, result.reported_microcents)
    spent = result.spent
    if spent is None and reported is None and metered:
        return _book_unreported(ask, result.error, seconds)
    if spent is None:
        cents, fraction = money.split_cents(reported or 0)
        usage = Usage(
            cost_cents=cents,
            cost_microcents=fraction,
            seconds=seconds,
            source="provider" if reported is not None else "none",
            reported_microcents=reported,
        )
        return usage, ()
    read = spent.uncached + spent.cached
    # The program made many requests and reports only their sum: almost all of them are short.
    cost = money.compute_cost(
        ask.model, read, spent.output, spent.cached, cache_write_tokens=spent.cache_write, longest_input=0
    )
    cents, fraction = money.split_cents(cost if cost is not None else reported or 0)
    usage = Usage(
        input_tokens=read,
        cached_tokens=spent.cached,
        cache_write_tokens=spent.cache_write,
        output_tokens=spent.output,
        cost_cents=cents,
        cost_microcents=fraction,
        seconds=seconds,
        source="provider",
        reported_microcents=reported,
    )
    return usage, booking.find_price_warnings(ask, reported, cost)


def _book_unreported(ask: Ask, error: TransportError | None, seconds: float) -> tuple[Usage, tuple[str, ...]]:
    worst = money.compute_worst_case(ask.model, ask.request.prompt, ask.max_output_tokens)
    if worst is None or (error is not None and error.kind in FREE):
        return Usage(seconds=seconds), (NOTHING_BOOKED,)
    allowed = [most for most in (ask.allowance_microcents, ask.reserved_microcents) if most is not None]
    return booking.book_worst_case(max(0, min([worst, *allowed])), seconds), (UNTOLD,)


def _make_failed_reply(message: str) -> Reply:
    return Reply(error=TransportError(kind=ErrorKind.BAD_REQUEST, message=message))


def _read_tail(path: Path, most: int) -> bytes | None:
    """Return the end of a file that only Logist writes."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - most))
            return file.read(most)
    except OSError:
        return None
