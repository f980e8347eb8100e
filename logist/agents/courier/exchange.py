"""The courier's loop: the exchanges of one ask, each on disk before the next begins.

How an exchange that was sent can end. The courier tries again only if the exchange can't have been billed;
otherwise the step command records it with its possible cost before it makes another paid call.

| End                                              | Saved as    | Booked     | Again here |
| ------------------------------------------------ | ----------- | ---------- | ---------- |
| a complete answer                                | the answer  | as counted | no         |
| status 425, 429, 500, 502, 503 or 529 at once    | outage      | nothing    | yes        |
| server not reached: no name, no connection       | outage      | nothing    | no         |
| certificate not trusted, refused by a proxy      | refused     | nothing    | no         |
| status 401, 402, 403                             | auth        | nothing    | no         |
| any other status below 500 except 408            | bad_request | nothing    | no         |
| status 408, 504, 524; no further response        | timeout     | worst case | no         |
| any other status from 500 on                     | transient   | worst case | no         |
| an answer that was cut, garbled or without end   | transient   | worst case | no         |
| the deadline                                     | timeout     | worst case | no         |
| stopped (SIGTERM), or a fault of the courier     | not at all  | in doubt   | no         |

After an outage, nothing is recorded: the job waits for its provider (`jobs/turn/outages.py`). An exchange that a budget
doesn't allow is saved in the same way, as an outage that was not sent, and names the budget.
If the courier is stopped before anything was sent, nothing is recorded; between two tries, the last one counts;
between two turns of a model that works with tools, the next courier continues from there.
"""

from __future__ import annotations

import os
import random
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import NoReturn

from logist.agents import tools
from logist.agents.clients import loading
from logist.agents.clients.answers import Client, ExchangeFailure, ModelAnswer, find_missing_key
from logist.agents.courier import booking, follow_ups, shared_limits
from logist.agents.courier.ask_files import ERRORS, Ending
from logist.agents.courier.reporting import ProgressReport
from logist.agents.courier.reservations import (
    ExchangeLedger,
    build_refusal_error,
    read_changed_limits,
    settle_saved_reply,
)
from logist.agents.courier.tool_turns import AskProgress
from logist.agents.courier.toolbox import Toolbox, end_by_fault, end_for_unknown_tools, end_out_of_turns
from logist.agents.protocol import GRACE, Ask, Sending, ToolTurn
from logist.agents.workplace import Workplace
from logist.core.model import Call, ErrorKind, JsonObject, TransportError
from logist.core.money import money
from logist.core.secrets.redact import redact
from logist.core.text.counts import format_count
from logist.errors import Damaged, StorageError
from logist.quick_dataclass import dataclass
from logist.store import JobDir
from logist.store.call_rates import PAUSED, CallRates, CallWait, Permit
from logist.store.ledger import BudgetRefusal
from logist.store.progress import Activity

LOAD_SECONDS = 120.0
"""How long a client may take to load; the deadline of the ask starts after it."""
LOOK_SECONDS = 0.2
"""Seconds between two checks whether calls of other jobs have left enough of a shared limit."""
REFUSED_FORM = (400, 422)
"""The statuses with which servers refuse a form that they don't support; others have other reasons."""
LONGEST_PAUSE = 60.0
"""Maximum seconds between two tries; if a provider wants longer, a later step tries again."""


@dataclass(frozen=True)
class LoadedClient:
    """The client is ready to call the model."""

    client: Client


@dataclass(frozen=True)
class ExchangeEnd:
    """An exchange is over."""

    answer: ModelAnswer


@dataclass(frozen=True)
class Stop:
    """The courier was asked to end."""


Event = LoadedClient | ExchangeEnd | Stop | str
"""An event from the calling thread or from a signal; a text is a piece of the answer."""


class _BudgetUsedUp(Exception):
    """A budget doesn't allow the next exchange; it is on disk as one that was not sent."""


def compute_pause(
    tries: int, failure: ExchangeFailure, backoff: float, left: float, chance: float
) -> float | None:
    """Return the seconds to wait after a failed try; None if another try is useless.

    `left`: seconds to the deadline. `chance`: 0 to 1, so that couriers that failed together don't retry together.
    """
    if not failure.again:
        return None
    pause = min(backoff * 2 ** min(tries - 1, 16), LONGEST_PAUSE) * (0.5 + chance / 2)
    pause = max(pause, failure.retry_after or 0.0)
    return pause if pause <= LONGEST_PAUSE and pause < left else None


class Errand:
    """One ask: its exchanges one after the other, and the tools between
    them. Only this thread writes to the disk.
    """

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
        self.job, self.ask, self.api_key, self.ledger, self.rates = job, ask, api_key, ledger, rates
        self.secrets = [*secrets, api_key] if api_key else secrets
        self.toolbox = Toolbox(
            ask,
            place,
            lambda text: redact(booking.repair_surrogates(text), self.secrets),
            self._run_reported_tool,
        )
        self.events: SimpleQueue[Event] = SimpleQueue()
        self.at = AskProgress.from_exchanges(job.read_exchanges())
        self.coming = self.at.plan_next(ask)
        self.progress = ProgressReport(job.inflight, ask.role, self.secrets, self.at.usage)
        self.tries = 1
        self.sent = self.over = self.stopped = False
        self.deadline = time.monotonic() + ask.deadline_seconds

    def run(self) -> None:
        """Run until an answer, or a failure that ends the ask, is on disk; or until `stop`."""
        loaded = self._wait_for_client()
        if isinstance(loaded, ExchangeEnd):
            self._save_reply(loaded, "", 0.0)
        elif isinstance(loaded, LoadedClient):
            with suppress(_BudgetUsedUp):
                self.deadline = time.monotonic() + self.ask.deadline_seconds - self.at.seconds
                self._run_turns(loaded)
        if not self.stopped:
            self.toolbox.place.clear_home()

    def _run_turns(self, loaded: LoadedClient) -> None:
        """Alternate the model's turns and the tools it calls, until it calls none."""
        # An earlier courier of this ask may have been killed after the last answer: then run the tool calls of
        # that answer first.
        if self.at.has_outage():
            if self._begin_exchange(self.at.k + 1, {"retry_of": self.at.k}) is not None or self.stopped:
                return  # a limit that another job used up: the turns so far stay as they are
            self._run_turn(loaded)
        elif self.at.reply is None and (self._is_reserved() or self._reserve_again()):
            self._run_turn(loaded)
        while not self.stopped and (
            (self._run_called_tools() and self._begin_next()) or self._begin_follow_up()
        ):
            self._run_turn(loaded)

    def _begin_follow_up(self) -> bool:
        """Begin to ask the model again, if its answer is not valid and it may be asked again."""
        at, reply = self.at, self.at.reply
        if reply is None or reply.error or reply.calls or self.stopped or time.monotonic() >= self.deadline:
            return False
        has_form = self.ask.form is not None and not at.is_form_refused
        follow_up = follow_ups.choose_follow_up(self.ask, reply, at.follow_ups, has_form=has_form)
        if follow_up is None:
            return False
        before = at.turns, at.follow_ups, self.coming
        at.follow_ups = [*at.follow_ups, follow_up]
        if follow_up.text:
            at.turns = [*at.turns, ToolTurn(reply.text, (), (), follow_up.text)]
        if self._begin_exchange(at.k + 1, follow_up.to_request()) is None and not self.stopped:
            return True
        at.turns, at.follow_ups, self.coming = before
        return False

    def _begin_without_form(self, failure: ExchangeFailure | None) -> bool:
        """Begin the same exchange without the form, if the provider may have refused it: that costs nothing."""
        has_form = self.coming is not None and self.coming.sending.form is not None
        is_refused = failure is not None and not failure.billed and failure.error.http_status in REFUSED_FORM
        if not (has_form and is_refused) or self.stopped:
            return False
        self.at.is_form_refused = True
        self.progress.report(Activity.RETRYING, words="without the schema of the answer, which was refused")
        return self._begin_exchange(self.at.k + 1, {"retry_of": self.at.k, "form": False}) is None

    def _is_reserved(self) -> bool:
        """Whether cost is already reserved for the current exchange: the step command did so, or nothing is shared."""
        return self.at.k == 1 or (self.ask.shares_limits_of is None and self.ledger is None)

    def _reserve_again(self) -> bool:
        """Reserve the cost of an exchange again after a courier was killed:
        another job may have used the shared limit since.
        """
        end = self._begin_exchange(self.at.k, {})
        if end is not None and not self.stopped:
            self._save_reply(_make_failed_end(ERRORS[end], self._describe_limit(end)), "", 0.0)
        return end is None and not self.stopped

    def _begin_next(self) -> bool:
        """Begin the next turn, or end the ask if a limit doesn't allow it."""
        end = self._begin_exchange(self.at.k + 1, {})
        if end is not None and self.at.done is not None:
            ending = {"kind": end.value, "message": self._describe_limit(end)}
            self.at.done = self.at.done | {"end": ending}
            self.job.save_tool_results(self.at.k, self.at.done)
        return end is None and not self.stopped

    def _run_called_tools(self) -> bool:
        """Run the tools that the model called.

        Returns False if it called none, if that ends the ask, or if the courier was stopped.
        """
        reply, done = self.at.reply, self.at.done
        if reply is None or not reply.calls:
            return False
        if done is None or "end" not in done:
            done = self._use_tools(reply.calls, done)
        elif done["end"] is None and (end := self._find_limit()):  # a later courier may have less to spend
            done = done | {"end": end}
            self.job.save_tool_results(self.at.k, done)
        return done is not None and done["end"] is None

    def _use_tools(self, calls: tuple[Call, ...], done: JsonObject | None) -> JsonObject | None:
        """Return the tool results, on disk, with the reason for the ask's end (`end`), if it ends."""
        k, reply = self.at.k, self.at.reply
        assert reply is not None
        if len(self.at.turns) + 1 < self.ask.work.rules.max_turns:
            save = partial(self.job.save_tool_results, k)
            used = self.toolbox.run_calls(calls, done, self.deadline, lambda: self.stopped, save)
            if used is None:
                return None
        else:
            used = end_out_of_turns(self.ask, calls)
        self.at.turns.append(ToolTurn(reply.text, calls, used["results"]))
        used["end"] = used["end"] or end_for_unknown_tools(self.ask, self.at.turns) or self._find_limit()
        self.job.save_tool_results(k, used)
        self.at.done = used
        return used

    def _run_reported_tool(self, call: Call, context: tools.Context) -> tools.ToolOutcome:
        self.progress.report_call(call)
        return tools.run_tool(call, context)

    def _find_limit(self) -> JsonObject | None:
        """Return the limit that prevents the next exchange: the deadline, or the cost limit."""
        if time.monotonic() >= self.deadline:
            message = f"not finished within {self.ask.deadline_seconds:g} seconds"
            return {"kind": Ending.TIME.value, "message": message}
        shares_limits = (
            self.ask.shares_limits_of is not None
        )  # then `_begin_exchange` checks all limits together
        if not shares_limits and self.at.plan_next(self.ask) is None:
            message = f"after {format_count(len(self.at.turns), 'turn')}, the next exchange could cost more than the job has left"
            return {"kind": Ending.COST.value, "message": message}
        return None

    def _begin_exchange(self, k: int, request: JsonObject) -> Ending | None:
        """Record exchange `k` durably before any of it is sent; or return the limit that doesn't allow it.

        Waits if it would fit once the running calls of other jobs have ended. Begins nothing after `stop`.
        """
        ask, at = self.ask, self.at
        self._read_changed_limits()
        while not self.stopped:
            # Reading what is left of the limits and recording the reservation happen under one lock for all
            # jobs of the family. Otherwise two jobs could both reserve the last dollar.
            with shared_limits.reserve_shared_limits(
                self._jobs_dir(), self.job.id, ask.shares_limits_of
            ) as shared:
                if self._is_dropped():
                    return Ending.SHARED_COST  # no job would count its cost
                room = min((each.remaining_microcents for each in shared), default=None)
                self.coming = at.plan_next(ask, room)
                if self.coming is not None and (refusal := self._reserve_in_ledger(k, room)):
                    self._record_refusal(k, request, refusal)
                if self.coming is not None:
                    reserved = self.coming.reserved_microcents
                    self.job.begin_exchange(k, {**request, "reserved_microcents": reserved})
                    at.k, at.reply, at.done = k, None, None
                    self.sent = self.over = False
                    return None
                room = min((each.remaining_after_calls for each in shared), default=None)
            unlimited = replace(ask, allowance_microcents=None)
            if shared and at.plan_next(unlimited, room) is None:
                return Ending.SHARED_COST
            if at.plan_next(ask) is None:
                return Ending.COST
            if time.monotonic() >= self.deadline:
                return Ending.SHARED_COST
            if self.progress.is_due():
                self.progress.report(Activity.WAITING, words="calls of other jobs that share its cost limit")
            self._sleep_unless_stopped(LOOK_SECONDS)
        return None

    def _read_changed_limits(self) -> None:
        """Use the budgets and rate limits of the config as it is now; those of before if what is written is not valid."""
        changed = read_changed_limits(self.job.inflight) if self.ledger is not None else None
        if changed is not None:
            self.ledger, self.rates = changed

    def _reserve_in_ledger(self, k: int, room: int | None) -> BudgetRefusal | None:
        """Reserve the exchange that comes next in the ledger of the project; with less output, if that is necessary."""
        ledger, at = self.ledger, self.at
        if ledger is None or self.coming is None:
            return None
        try:
            refusal = ledger.reserve(k, self.coming.reserved_microcents, self.coming.sending)
            if refusal is None or refusal.cap.microcents is None:
                return refusal
            left = (ledger.find_room(k) or 0) + at.spent  # `room` is for all exchanges of the ask
            fitted = at.plan_next(self.ask, left if room is None else min(room, left))
            if fitted is None:
                return refusal
            refusal = ledger.reserve(k, fitted.reserved_microcents, fitted.sending)
        except Damaged as error:
            # Nothing can be reserved until a person has repaired it: the turns so far stay as they are.
            raise StorageError(error.message, where=error.where, fix=error.fix) from error
        self.coming = fitted
        return refusal

    def _record_refusal(self, k: int, request: JsonObject, refusal: BudgetRefusal) -> NoReturn:
        """Record an exchange that a budget doesn't allow as one that was not sent; a later courier begins it again."""
        self.job.begin_exchange(k, {**request, "reserved_microcents": 0})
        self.at.k, self.at.reply, self.at.done = k, None, None
        self.sent = self.over = False
        failure = ExchangeFailure(build_refusal_error(refusal), billed=False)
        self._save_reply(ExchangeEnd(ModelAnswer(failure=failure)), "", 0.0)
        raise _BudgetUsedUp

    def _jobs_dir(self) -> Path:
        return Path(os.path.realpath(self.job.path)).parent

    def _is_dropped(self) -> bool:
        return shared_limits.is_dropped(self._jobs_dir(), self.job.id, self.ask.shares_limits_of)

    def _describe_limit(self, end: Ending) -> str:
        if end is Ending.SHARED_COST and self._is_dropped():
            turns = format_count(len(self.at.turns), "turn")
            return f"after {turns}, {self.ask.shares_limits_of} no longer waits for this job"
        text = f"after {format_count(len(self.at.turns), 'turn')}, the next exchange could cost more than"
        above = self.ask.shares_limits_of
        return f"{text} the job has left" if end is Ending.COST else f"{text} {above} and its jobs have left"

    def _run_turn(self, loaded: LoadedClient) -> None:
        """Get one answer, with retries where these can't cost anything."""
        self.tries = 1
        while not self.stopped:
            failure = self._run_exchange(loaded)
            if self._begin_without_form(failure):
                continue
            pause = self._choose_pause(failure)
            if pause is not None and failure is not None:
                self.progress.report(Activity.RETRYING, words=f"in {pause:.0f} s: {failure.error.message}")
            if pause is None or not self._sleep_unless_stopped(pause):
                return
            if self._begin_exchange(self.at.k + 1, {"retry_of": self.at.k}) is not None:
                return  # the result of the last try counts
            self.tries += 1

    def stop(self, *_: object) -> None:
        """End the ask; safe in a signal handler, because a SimpleQueue is reentrant.

        An exchange that was sent has `GRACE` seconds left for its answer; without an answer it is in doubt.
        """
        self.stopped = True
        self.events.put(Stop())

    def record_failure(self, error: Exception) -> None:
        """Record that the courier itself failed, except where money may have
        been spent: that stays in doubt.
        """
        message = f"the courier failed: {type(error).__name__}: {error}"
        reply = self.at.reply
        if reply is not None and reply.calls and not (self.at.done and "end" in self.at.done):
            # Each tool result is written to disk at once, so after a fault the disk has more results than this
            # object.
            done = self.job.read_exchanges()[-1].tools  # newer than self.at.done
            self.job.save_tool_results(self.at.k, end_by_fault(reply.calls, done, self._clean_text(message)))
        elif not (self.sent or self.over):
            self._save_reply(_make_failed_end(ErrorKind.BAD_REQUEST, message), "", 0.0)

    def _wait_for_client(self) -> LoadedClient | ExchangeEnd | Stop:
        refusal = find_missing_key(self.ask, self.api_key)
        if refusal is not None:
            return ExchangeEnd(ModelAnswer(failure=refusal))
        Thread(target=self._load_client, daemon=True).start()
        event = self._next_event(LOAD_SECONDS)
        if isinstance(event, (LoadedClient, ExchangeEnd, Stop)):
            return event
        return _make_failed_end(ErrorKind.TIMEOUT, f"the client didn't load within {LOAD_SECONDS:g} s")

    def _load_client(self) -> None:
        try:
            self.events.put(LoadedClient(loading.load_client(self.ask)))
        except Exception as error:  # noqa: BLE001  litellm runs thousands of third-party modules
            self.events.put(ExchangeEnd(ModelAnswer(failure=loading.explain_missing(error))))

    def _run_exchange(self, loaded: LoadedClient) -> ExchangeFailure | None:
        """Run one exchange; it is on disk when this returns, unless it was stopped: then it is in doubt."""
        pieces: list[str] = []
        coming = self.coming
        assert coming is not None  # otherwise it would not have begun
        permit = self._wait_for_permit()
        if not isinstance(permit, Permit):
            return permit
        # Durable before the first byte is sent. After a crash: without this file, nothing was sent and a retry
        # is free; with this file but without an answer, the call is in doubt and a steward or a rule decides.
        self.job.mark_sent(self.at.k)
        self.sent = True
        self.progress.report_request(len(self.at.turns) + 1, coming.reserved_microcents)
        started = time.monotonic()
        arguments = (loaded, coming.sending, self.deadline - started, permit)
        # In another thread, because clients can't be interrupted. This thread enforces the deadline, handles
        # signals, and is the only one that writes to disk. An answer after the deadline is dropped.
        Thread(target=self._call_model, args=arguments, daemon=True).start()
        ended = self._wait_for_end(pieces, self.deadline)
        if ended is None:
            self._log_cut_answer("".join(pieces))
            return None
        self._save_reply(ended, "".join(pieces), time.monotonic() - started)
        return ended.answer.failure

    def _wait_for_permit(self) -> Permit | ExchangeFailure | None:
        """Wait until the rate limits allow the next exchange, without using the time of the answer.

        Returns None if the courier was stopped; or a failure, on disk as an exchange that was not sent, if the provider
        accepts no calls for so long that a later courier has to make this one.
        """
        if self.rates is None:
            return Permit()
        began = time.monotonic()
        outcome = self.rates.wait_for_permit(self._sleep_unless_stopped, self._report_wait, LONGEST_PAUSE)
        self.deadline += time.monotonic() - began
        if not isinstance(outcome, CallWait):
            return outcome
        failure = build_pause_failure(outcome)
        self._save_reply(ExchangeEnd(ModelAnswer(failure=failure)), "", 0.0)
        return failure

    def _report_wait(self, words: str) -> None:
        if self.progress.is_due():
            self.progress.report(Activity.WAITING, words=words)

    def _call_model(self, loaded: LoadedClient, sending: Sending, left: float, permit: Permit) -> None:
        # A little longer than our own deadline, so that our deadline ends it and our message is recorded.
        seconds = max(left, 1.0) + 5
        try:
            answer = loaded.client.call_model(self.ask, sending, self.api_key, seconds, self.events.put)
            failure = answer.failure
            if self.rates is not None and failure is not None and failure.again:
                with suppress(StorageError):  # then each caller is asked to wait by itself
                    self.rates.ask_to_wait(failure.retry_after or 0.0, str(failure.error.http_status or ""))
        finally:
            permit.release()  # not before: a call that is given up at the deadline may still be at work
        self.events.put(ExchangeEnd(answer))

    def _wait_for_end(self, pieces: list[str], deadline: float) -> ExchangeEnd | None:
        """Collect the pieces of the answer; None if the courier was stopped before the end arrived."""
        while True:
            event = self._next_event(deadline - time.monotonic())
            if isinstance(event, ExchangeEnd):
                return event
            if isinstance(event, Stop):
                deadline = min(deadline, time.monotonic() + GRACE)
            elif isinstance(event, str):
                pieces.append(event)
                self.progress.report_words(pieces)
            elif event is None:
                return None if self.stopped else self._make_timeout()

    def _make_timeout(self) -> ExchangeEnd:
        message = f"no complete answer within {self.ask.deadline_seconds:g} seconds"
        return _make_failed_end(ErrorKind.TIMEOUT, message)

    def _next_event(self, seconds: float) -> Event | None:
        """Return the next event; None once the time is over, even if a slow stream never pauses."""
        if seconds <= 0:
            return None
        try:
            return self.events.get(timeout=seconds)
        except Empty:
            return None

    def _sleep_unless_stopped(self, seconds: float) -> bool:
        """Wait; return False if stopped or interrupted by an event."""
        return not self.stopped and self._next_event(seconds) is None and not self.stopped

    def _choose_pause(self, failure: ExchangeFailure | None) -> float | None:
        if failure is None or self.tries >= self.ask.max_tries:
            return None
        left = self.deadline - time.monotonic()
        chance = random.random()  # noqa: S311  no secret: it only spreads retries in time
        return compute_pause(self.tries, failure, self.ask.backoff_seconds, left, chance)

    def _save_reply(self, ended: ExchangeEnd, text: str, seconds: float) -> None:
        reserved = self.coming.reserved_microcents if self.coming else None
        reply = booking.build_reply(
            self.ask, ended.answer, text, seconds, self.secrets, reserved=reserved, sent=self.sent
        )
        self.job.save_response(self.at.k, reply.model_dump(mode="json"))
        self.at.reply, self.over = reply, True
        settle_saved_reply(self.ledger, self.at.k, reply)
        self.progress.report_answer(reply.usage, is_failed=reply.error is not None)
        self.at.spent += money.join_cents(reply.usage.cost_cents, reply.usage.cost_microcents)

    def _clean_text(self, text: str) -> str:
        return redact(booking.repair_surrogates(text), self.secrets)[0]

    def _log_cut_answer(self, text: str) -> None:
        """Write the text of an incomplete answer to the logs, where nothing treats it as an answer."""
        self.job.write_log(f"cut-answer-{self.ask.index}-{self.at.k}.txt", self._clean_text(text).encode())


def build_pause_failure(wait: CallWait) -> ExchangeFailure:
    """Return the failure of a call that was not sent, because its provider has asked another call to wait."""
    status = int(wait.asked_by) if wait.asked_by.isdecimal() else None
    error = TransportError(
        kind=ErrorKind.OUTAGE, message=PAUSED, http_status=status, retry_after=wait.seconds
    )
    return ExchangeFailure(error, billed=False, retry_after=wait.seconds)


def _make_failed_end(kind: ErrorKind, message: str) -> ExchangeEnd:
    """Return the end of an exchange that the courier ends itself; the provider may still be at work."""
    return ExchangeEnd(
        ModelAnswer(failure=ExchangeFailure(TransportError(kind=kind, message=message), billed=True))
    )
