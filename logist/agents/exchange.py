"""The courier's loop: the exchanges of one ask, each on disk before the next begins.

How an exchange that was sent may end. Here it is tried again only where nothing can have been billed;
all the rest is for the stepper, which records it with what it may have cost before anybody pays again.

| End                                              | Saved as    | Booked     | Again here |
| ------------------------------------------------ | ----------- | ---------- | ---------- |
| a whole answer                                   | the answer  | as counted | no         |
| status 425, 429, 500, 502, 503 or 529 at once    | transient   | nothing    | yes        |
| nobody there: no name, no connection             | refused     | nothing    | no         |
| status 401, 402, 403                             | auth        | nothing    | no         |
| any other status below 500 but 408               | bad_request | nothing    | no         |
| status 408, 504, 524; nothing more was heard     | timeout     | worst case | no         |
| any other status from 500 on                     | transient   | worst case | no         |
| an answer that was cut, garbled or without end   | transient   | worst case | no         |
| the deadline                                     | timeout     | worst case | no         |
| told to end (SIGTERM), or a fault of the courier | not at all  | in doubt   | no         |

Told to end before anything was sent, it leaves no trace; between two tries, the last one counts.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from logist.agents import booking, litellm
from logist.agents.litellm import Answer, Failure
from logist.agents.protocol import Ask
from logist.core.model import ErrorKind, TransportError
from logist.core.redact import redact
from logist.store import JobDir

LOAD_SECONDS = 120.0
"""How long litellm may take to load; the deadline of the ask starts after it."""
LONGEST_PAUSE = 60.0
"""Seconds between two tries; a provider that wants longer is asked by a later step."""
GRACE = 3.0
"""Seconds that one who is told to end still listens: the end of an answer may have come already."""


@dataclass(frozen=True)
class Loaded:
    """litellm, ready to call."""

    litellm: Any


@dataclass(frozen=True)
class Ended:
    """An exchange is over."""

    answer: Answer


@dataclass(frozen=True)
class Stop:
    """The courier is told to end."""


Event = Loaded | Ended | Stop | str
"""From the calling thread, or from a signal; text is a piece of the answer."""


def pause_after(tries: int, failure: Failure, backoff: float, left: float, chance: float) -> float | None:
    """Seconds to wait after a failed try; None when there is no sense in another.

    `left`: seconds to the deadline. `chance`: 0 to 1, spreads couriers that failed together.
    """
    if not failure.again:
        return None
    pause = min(backoff * 2 ** min(tries - 1, 16), LONGEST_PAUSE) * (0.5 + chance / 2)
    pause = max(pause, failure.retry_after or 0.0)
    return pause if pause <= LONGEST_PAUSE and pause < left else None


class Errand:
    """One ask: its exchanges one after the other. Only this thread touches the disk."""

    def __init__(self, job: JobDir, ask: Ask, api_key: str | None, secrets: list[str]) -> None:
        self.job, self.ask, self.api_key = job, ask, api_key
        self.secrets = [*secrets, api_key] if api_key else secrets
        self.events: SimpleQueue[Event] = SimpleQueue()
        self.k = 1
        self.sent = self.over = self.stopped = False

    def run(self) -> None:
        """Until an answer, or a failure that ends the ask, is on disk; or until `stop`."""
        loaded = self._loaded()
        if isinstance(loaded, Ended):
            self._save(loaded, "", 0.0)
        elif isinstance(loaded, Loaded):
            self._try(loaded, time.monotonic() + self.ask.deadline_seconds)

    def _try(self, loaded: Loaded, deadline: float) -> None:
        while not self.stopped:
            failure = self._exchange(loaded, deadline)
            pause = self._pause(failure, deadline)
            if pause is None or not self._sleep(pause):
                return
            self.job.begin_exchange(self.k + 1, {"retry_of": self.k})
            self.k += 1
            self.sent = self.over = False

    def stop(self, *_: object) -> None:
        """Ends the ask; safe in a signal handler, as a SimpleQueue is reentrant.

        An exchange that was sent gets `GRACE` to bring its answer, and is left in doubt without one.
        """
        self.stopped = True
        self.events.put(Stop())

    def abandon(self, error: Exception) -> None:
        """Records that the courier itself failed; not where money may have been spent: that stays in doubt."""
        if not (self.sent or self.over):
            message = f"the courier failed: {type(error).__name__}: {error}"
            self._save(_ending(ErrorKind.BAD_REQUEST, message), "", 0.0)

    def _loaded(self) -> Loaded | Ended | Stop:
        refusal = litellm.no_key(self.ask, self.api_key)
        if refusal is not None:
            return Ended(Answer(failure=refusal))
        Thread(target=self._load, daemon=True).start()
        event = self._next(LOAD_SECONDS)
        if isinstance(event, (Loaded, Ended, Stop)):
            return event
        return _ending(ErrorKind.TIMEOUT, f"litellm did not load within {LOAD_SECONDS:g} s")

    def _load(self) -> None:
        try:
            self.events.put(Loaded(litellm.load()))
        except ImportError as error:
            self.events.put(Ended(Answer(failure=litellm.missing(error))))
        except Exception as error:  # noqa: BLE001  it runs thousands of foreign modules
            failed = ImportError(f"{type(error).__name__}: {error}")
            self.events.put(Ended(Answer(failure=litellm.missing(failed))))

    def _exchange(self, loaded: Loaded, deadline: float) -> Failure | None:
        """One exchange, on disk when this returns; unless it was stopped, for then it is in doubt."""
        pieces: list[str] = []
        self.job.mark_sent(self.k)
        self.sent = True
        started = time.monotonic()
        Thread(target=self._call, args=(loaded, deadline - started), daemon=True).start()
        ended = self._until_ended(pieces, deadline)
        if ended is None:
            self._keep("".join(pieces))
            return None
        self._save(ended, "".join(pieces), time.monotonic() - started)
        return ended.answer.failure

    def _call(self, loaded: Loaded, left: float) -> None:
        answer = litellm.call(loaded.litellm, self.ask, self.api_key, max(left, 1.0) + 5, self.events.put)
        self.events.put(Ended(answer))

    def _until_ended(self, pieces: list[str], deadline: float) -> Ended | None:
        """Collects the pieces; None when told to end before the end has come."""
        while True:
            event = self._next(deadline - time.monotonic())
            if isinstance(event, Ended):
                return event
            if isinstance(event, Stop):
                deadline = min(deadline, time.monotonic() + GRACE)
            elif isinstance(event, str):
                pieces.append(event)
            elif event is None:
                return None if self.stopped else self._too_late()

    def _too_late(self) -> Ended:
        message = f"no whole answer within {self.ask.deadline_seconds:g} seconds"
        return _ending(ErrorKind.TIMEOUT, message)

    def _next(self, seconds: float) -> Event | None:
        """The next event; None once the time is over, even if a slow stream never pauses."""
        if seconds <= 0:
            return None
        try:
            return self.events.get(timeout=seconds)
        except Empty:
            return None

    def _sleep(self, seconds: float) -> bool:
        """Waits before another try; False when told to stop."""
        return not self.stopped and self._next(seconds) is None and not self.stopped

    def _pause(self, failure: Failure | None, deadline: float) -> float | None:
        if failure is None or self.k >= self.ask.max_tries:
            return None
        left = deadline - time.monotonic()
        chance = random.random()  # noqa: S311  no secret: it only spreads retries
        return pause_after(self.k, failure, self.ask.backoff_seconds, left, chance)

    def _save(self, ended: Ended, text: str, seconds: float) -> None:
        reply = booking.reply_of(self.ask, ended.answer, text, seconds, self.secrets, sent=self.sent)
        self.job.save_response(self.k, reply.model_dump(mode="json"))
        self.over = True

    def _keep(self, text: str) -> None:
        """What came of an answer that is in doubt: in the logs, where no one takes it for an answer."""
        cleaned, _ = redact(booking.whole(text), self.secrets)
        self.job.write_log(f"cut-answer-{self.ask.index}-{self.k}.txt", cleaned.encode())


def _ending(kind: ErrorKind, message: str) -> Ended:
    """The courier ends the exchange itself; the provider may be at work."""
    return Ended(Answer(failure=Failure(TransportError(kind=kind, message=message), billed=True)))
