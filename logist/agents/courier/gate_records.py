"""Records the requests that an agent program makes through the gate, and reserves the cost of each before it is sent.

A request is reserved in the limit of the job, in the limits of the jobs above it and in the ledger, as the exchanges of
a model are (`exchange.py`). Unlike those, several requests may be open at once, and none of them is ever made again:
whether to repeat a request is up to the program.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from threading import Condition, Event
from typing import Any

from logist.agents.clients.answers import ExchangeFailure, ModelAnswer
from logist.agents.courier import booking, shared_limits
from logist.agents.courier.reporting import ProgressReport
from logist.agents.courier.request_texts import RequestTexts
from logist.agents.courier.reservations import (
    ExchangeLedger,
    name_gate_call,
    read_changed_limits,
    settle_saved_reply,
)
from logist.agents.gate.recorder import Admission, GateEnd, GateRefusal, GateRequest, Reason
from logist.agents.protocol import GRACE, Ask
from logist.core.model import ErrorKind, Reply, TransportError, Usage
from logist.core.money import money
from logist.core.money.budgets import Cost
from logist.core.secrets.redact import redact
from logist.core.text.counts import format_count
from logist.errors import LogistError, StorageError
from logist.quick_dataclass import dataclass
from logist.store import JobDir, inflight
from logist.store.call_rates import CallRates, CallWait, Permit
from logist.store.gate_log import GateLog
from logist.store.ledger import BudgetRefusal
from logist.store.progress import Activity

WAIT_SECONDS = 30.0
"""How long a request waits if only running calls prevent it; after that, the program gets an error that asks it to try again."""
PAUSE_SECONDS = 2.0
"""How long a program waits for the refusal while its provider wants no calls, so that it can't ask without end."""
LOOK_SECONDS = 0.2
"""Seconds between two checks whether calls of other jobs have left enough."""
SETTLE_SECONDS = 0.05
"""How long after its end the cost of a request is settled, so that this doesn't slow down the end of the answer."""
MOST_REFUSALS = 20
"""Refusals in a row after which the program is ended: it ignores them."""
NOTHING = Usage()

_Reserving = Future[BudgetRefusal | None]


@dataclass
class _OpenRequest:
    reserved_microcents: int | None
    """None: the price of the model is unknown."""
    reserving: _Reserving | None
    """Done when its reservation in the ledger is durable; None without a ledger."""
    is_sent: bool = False
    permit: Permit = field(default_factory=Permit)
    """Its place among the calls that the rate limits allow at once."""


@dataclass(frozen=True)
class _Room:
    """What may still be spent, in microcents; None: no limit."""

    own: int | None
    shared: int | None

    @property
    def least(self) -> int | None:
        return min((each for each in (self.own, self.shared) if each is not None), default=None)

    def minus(self, spent: int) -> _Room:
        return _Room(*(None if each is None else each - spent for each in (self.own, self.shared)))


class GateRecords:
    """The requests of one run, for the gate: implements `GateRecorder`."""

    def __init__(
        self,
        job: JobDir,
        ask: Ask,
        ledger: ExchangeLedger | None,
        secrets: list[str],
        progress: ProgressReport,
        rates: CallRates | None = None,
    ) -> None:
        """Create the log of the run, durably. Raises StorageError."""
        self.job, self.ask, self.ledger, self.secrets, self.progress = job, ask, ledger, secrets, progress
        self.rates = rates
        self.folder = job.inflight / inflight.GATE
        self._jobs_dir = Path(os.path.realpath(job.path)).parent
        self.usage = NOTHING
        """Of all requests that have ended."""
        self.count = 0
        """The number of requests that were recorded."""
        self.redactions = 0
        self.warnings: list[str] = []
        self.refusal: GateRefusal | None = None
        """The limit that ends the run: once it is reached, nothing more is admitted."""
        self.budget = ""
        """The name of the budget, if it is one."""
        self.refusals_in_a_row = 0
        self.last_refusal: GateRefusal | None = None
        self._texts = RequestTexts(lambda text: redact(text, self.secrets))
        self._log = GateLog(self.folder)
        self._reserver = ThreadPoolExecutor(1)
        self._settler = ThreadPoolExecutor(1)
        self._settling: list[Future[None]] = []
        self._is_settling_urgent = Event()
        self._open: dict[int, _OpenRequest] = {}
        self._closed = False
        self._changed = Condition()

    def admit(self, request: GateRequest, build: Callable[[int], bytes]) -> Admission | GateRefusal:
        """Reserve the highest possible cost durably and record the request, or refuse it.

        Waits for calls that are running, if only they prevent it.
        """
        if (pause := self._find_long_pause()) is not None:
            # Nothing is recorded, and a program that does not wait can't ask many times a second.
            self._sleep_unless_closed(PAUSE_SECONDS)
            return self._refuse_for_now(pause)
        until = time.monotonic() + WAIT_SECONDS
        with self._changed:
            while True:
                result = self._refuse_early() or self._try_admit(request, build)
                if isinstance(result, GateRefusal):
                    return result
                if isinstance(result, Admission):
                    break
                left = until - time.monotonic()
                if left <= 0:
                    return GateRefusal("busy", f"{result}; try again in some seconds")
                self._changed.wait(min(left, LOOK_SECONDS))
        return self._wait_for_permit(result)

    def _find_long_pause(self) -> CallWait | None:
        """Return the pause that the provider has asked for, if it is too long for a program to wait for an answer."""
        pause = self.rates.find_pause() if self.rates is not None else None
        return pause if pause is not None and pause.seconds > WAIT_SECONDS else None

    def _refuse_for_now(self, wait: CallWait) -> GateRefusal:
        return GateRefusal("busy", f"not sent: {wait.words}", retry_after=wait.seconds)

    def _wait_for_permit(self, admission: Admission) -> Admission | GateRefusal:
        """Wait until the rate limits allow the request, or give it up."""
        if self.rates is None:
            return admission
        k = admission.k
        outcome = self.rates.wait_for_permit(self._sleep_unless_closed, self._report_wait, WAIT_SECONDS)
        with self._changed:
            if isinstance(outcome, Permit) and k in self._open:
                self._open[k].permit = outcome
                return admission
            if isinstance(outcome, Permit):
                outcome.release()
            words = outcome.words if isinstance(outcome, CallWait) else "the run of this program is over"
            if k in self._open:
                error = TransportError(kind=ErrorKind.OUTAGE, message=f"not sent: {words}")
                answer = ModelAnswer(failure=ExchangeFailure(error, billed=False))
                self._settle_later(k, self._save_end(k, GateEnd(answer, "", 0.0)))
        if isinstance(outcome, CallWait):
            return self._refuse_for_now(outcome)
        return GateRefusal("stopped", f"not sent: {words}")

    def _sleep_unless_closed(self, seconds: float) -> bool:
        with self._changed:
            return not self._changed.wait_for(lambda: self._closed, seconds)

    def _report_wait(self, words: str) -> None:
        if self.progress.is_due():
            self.progress.report(Activity.WAITING, words=words)

    def mark_sent(self, k: int) -> None:
        """Record durably the request, and that it is about to be sent."""
        with self._changed:
            if k not in self._open:
                raise LogistError("the gate is closed: the request was not sent")
            request = self._open[k]
            self._log.append(k, "sent", {})
            request.is_sent = True
            self.progress.report_request(k, self._sum_reserved())
        # Both files are flushed at the same time, which takes about as long as one. If the power fails in between, there may be
        # a request in doubt that has no reservation: it was never sent.
        self._log.flush()
        if request.reserving is not None:
            request.reserving.result()

    def end(self, k: int, end: GateEnd) -> None:
        """Record the end durably, and settle what it cost; nothing, if it was given up already."""
        with self._changed:
            if k not in self._open:
                return
            reply = self._save_end(k, end)
        self._log.flush()
        self._settle_later(k, reply)

    def count_refusal(self, refusal: GateRefusal) -> None:
        """Count how often the program asked in a row for what it can't get."""
        with self._changed:
            if refusal.reason != "busy":
                self.refusals_in_a_row += 1
                self.last_refusal = refusal

    def wait_until_idle(self, seconds: float, is_stopped: Callable[[], bool]) -> None:
        """Wait until no request is open, at most so long; not longer than `GRACE` after a stop."""
        until = time.monotonic() + seconds
        with self._changed:
            while self._open and time.monotonic() < until:
                if is_stopped():
                    until = min(until, time.monotonic() + GRACE)
                    is_stopped = _never
                self._changed.wait(LOOK_SECONDS)

    def close(self) -> None:
        """Record all requests that have no end, at their highest cost if they were sent; admit none any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            replies: list[tuple[int, Reply]] = []
            for k in sorted(self._open):
                kind, message = ErrorKind.TIMEOUT, "the run ended before the answer was complete"
                failure = ExchangeFailure(TransportError(kind=kind, message=message), billed=True)
                replies.append((k, self._save_end(k, GateEnd(ModelAnswer(failure=failure), "", 0.0))))
        try:
            self._log.flush()
            for k, reply in replies:
                self._settle_later(k, reply)
        finally:
            self._log.close()
            self.wait_until_settled()
            self._settler.shutdown()
            self._reserver.shutdown()

    def _refuse_early(self) -> GateRefusal | None:
        if self._closed:
            return GateRefusal("stopped", "the run of this program is over: nothing more is sent")
        return self.refusal

    def _try_admit(
        self, request: GateRequest, build: Callable[[int], bytes]
    ) -> Admission | GateRefusal | str:
        """Admit or refuse a request; or return which running calls prevent it."""
        above = self.ask.shares_limits_of
        changed = read_changed_limits(self.job.inflight) if self.ledger is not None else None
        if changed is not None:
            self.ledger, self.rates = changed
        # One lock for all jobs of the family, from reading what is left until the request is on disk.
        with shared_limits.reserve_shared_limits(self._jobs_dir, self.job.id, above) as shared:
            if shared_limits.is_dropped(self._jobs_dir, self.job.id, above):
                return self._end_run("shared_limit", f"{above} no longer waits for this job")
            room = _Room(
                self.ask.allowance_microcents,
                min((each.remaining_microcents for each in shared), default=None),
            )
            spent = money.join_cents(self.usage.cost_cents, self.usage.cost_microcents)
            fitted = self._fit(request, room.minus(spent + self._sum_reserved()).least)
            if fitted is None:
                later = _Room(room.own, min((each.remaining_after_calls for each in shared), default=None))
                return self._explain_limit(request, later.minus(spent))
            reserving, fitted = self._reserve_in_ledger(request, fitted)
            if isinstance(reserving, BudgetRefusal):
                if reserving.is_temporary:
                    return f"{reserving.describe()}: calls that are running have reserved it"
                self.budget = reserving.cap.budget
                return self._end_run("budget", reserving.describe())
            return self._record(request, fitted, build(fitted), reserving)

    def _fit(self, request: GateRequest, room: int | None) -> int | None:
        """Return how long the answer may be, in tokens; None if the request doesn't fit into the room."""
        model, wanted = self.ask.model, request.max_output_tokens
        if room is None or not money.has_known_price(model):
            return wanted
        least = self.ask.min_output_tokens
        return money.fit_output_to_tokens(model, request.input_tokens, wanted, room, least)

    def _explain_limit(self, request: GateRequest, room: _Room) -> GateRefusal | str:
        """Return the limit that doesn't allow a request; or, if it fits once the running calls have ended, what to wait for.

        `room`: what is left if running calls cost no more than they have cost so far.
        """
        if self._fit(request, room.least) is not None:
            return "calls that are running have reserved what is left of the cost limit"
        requests = format_count(self.count, "request")
        text = f"after {requests} of {self.ask.agent}, the next one could cost more than"
        if self._fit(request, room.shared) is None:
            return self._end_run("shared_limit", f"{text} {self.ask.shares_limits_of} and its jobs have left")
        return self._end_run("limit", f"{text} the job has left")

    def _end_run(self, reason: Reason, message: str) -> GateRefusal:
        """Refuse this request and all later ones of the run."""
        self.refusal = GateRefusal(reason, message)
        self._changed.notify_all()
        return self.refusal

    def _reserve_in_ledger(
        self, request: GateRequest, fitted: int
    ) -> tuple[_Reserving | BudgetRefusal | None, int]:
        """Reserve the request in the ledger, with a shorter answer if that is necessary; return its length, too."""
        ledger = self.ledger
        if ledger is None:
            return None, fitted
        reserving = self._begin_reservation(ledger, self._bound_cost(request, fitted))
        if isinstance(reserving, BudgetRefusal) and self._settling:
            self.wait_until_settled()  # calls that have ended may still have their reservation
            reserving = self._begin_reservation(ledger, self._bound_cost(request, fitted))
        if not isinstance(reserving, BudgetRefusal) or reserving.cap.microcents is None:
            return reserving, fitted
        shorter = self._fit(request, ledger.find_room(name_gate_call(self.count + 1)))
        if shorter is None or shorter >= fitted:
            return reserving, fitted
        return self._begin_reservation(ledger, self._bound_cost(request, shorter)), shorter

    def _begin_reservation(self, ledger: ExchangeLedger, cost: Cost) -> _Reserving | BudgetRefusal:
        """Write the reservation of the next request; return what is done when it is durable, or the limit that it exceeds.

        Another thread flushes it: meanwhile, the request is recorded.
        """
        written = Future[None]()
        reserving = self._reserver.submit(
            ledger.reserve_cost,
            name_gate_call(self.count + 1),
            cost,
            on_written=lambda: written.set_result(None),
        )
        either: tuple[Future[Any], ...] = (written, reserving)
        wait(either, return_when=FIRST_COMPLETED)
        refusal = reserving.result() if reserving.done() else None
        return reserving if refusal is None else refusal

    def _bound_cost(self, request: GateRequest, most: int) -> Cost:
        highest = money.compute_highest_cost(self.ask.model, request.input_tokens, most)
        return Cost(highest or 0, request.input_tokens + most, 1)

    def _record(
        self, request: GateRequest, fitted: int, body: bytes, reserving: _Reserving | None
    ) -> Admission:
        k = self.count + 1
        reserved = money.compute_highest_cost(self.ask.model, request.input_tokens, fitted)
        record = {
            "format": request.format,
            "stream": request.stream,
            "max_output_tokens": fitted,
            "reserved_microcents": reserved,
            "body": self._texts.shorten(k, body.decode("utf-8", "replace")).to_json(),
        }
        # Not flushed yet: other jobs of the family see it now, and nothing is sent before `mark_sent`.
        self._log.append(k, "request", record)
        self.count, self.refusals_in_a_row = k, 0
        self._open[k] = _OpenRequest(reserved, reserving)
        return Admission(k, fitted, self.folder / f"{k}.stream")

    def _save_end(self, k: int, end: GateEnd) -> Reply:
        request = self._open[k]
        # In this order: otherwise another caller could begin a call before it learns of the pause.
        self._keep_pause(end.answer.failure)
        request.permit.release()
        reply = booking.build_reply(
            self.ask,
            end.answer,
            end.text,
            end.seconds,
            self.secrets,
            reserved=request.reserved_microcents,
            sent=request.is_sent,
        )
        self._log.append(k, "response", reply.model_dump(mode="json"))
        del self._open[k]
        self.usage = booking.sum_usages([self.usage, reply.usage])
        self.redactions += reply.redactions
        self.warnings += [warning for warning in reply.warnings if warning not in self.warnings]
        self.progress.report_answer(
            reply.usage, is_failed=reply.error is not None, in_flight_microcents=self._sum_reserved()
        )
        self._changed.notify_all()
        return reply

    def _settle_later(self, k: int, reply: Reply) -> None:
        """Settle the cost shortly after the program got its answer.

        Until then, the highest cost stays reserved. If this process dies first, the process that collects the run settles it.
        """
        at = time.monotonic() + SETTLE_SECONDS
        with self._changed, suppress(RuntimeError):  # the pool was shut down, or can't start a thread
            self._settling = [each for each in self._settling if not each.done()]
            self._settling.append(self._settler.submit(self._settle, k, reply, at))

    def _settle(self, k: int, reply: Reply, at: float) -> None:
        self._is_settling_urgent.wait(max(0.0, at - time.monotonic()))
        with suppress(StorageError):  # the next reservation says so
            settle_saved_reply(self.ledger, name_gate_call(k), reply)

    def wait_until_settled(self) -> None:
        """Wait until the ledger has the cost of all requests that have ended."""
        self._is_settling_urgent.set()
        wait(self._settling)
        self._is_settling_urgent.clear()

    def _keep_pause(self, failure: ExchangeFailure | None) -> None:
        """Let all jobs wait as long as the provider has asked to."""
        if self.rates is not None and failure is not None and failure.again:
            with suppress(StorageError):  # then each caller is asked to wait by itself
                self.rates.ask_to_wait(failure.retry_after or 0.0, str(failure.error.http_status or ""))

    def _sum_reserved(self) -> int:
        return sum(each.reserved_microcents or 0 for each in self._open.values())

    def find_run_error(self) -> TransportError | None:
        """Return the limit that ended the run; None without one."""
        if self.refusal is None:
            return None
        kinds = {"limit": ErrorKind.LIMIT, "shared_limit": ErrorKind.SHARED_LIMIT, "budget": ErrorKind.OUTAGE}
        kind = kinds.get(self.refusal.reason, ErrorKind.BAD_REQUEST)
        return TransportError(kind=kind, message=self.refusal.message, budget=self.budget or None)


def _never() -> bool:
    return False
