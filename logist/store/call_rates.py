"""How often, and how many at the same time, the jobs of a project call a provider: one limit for all processes.

A directory has a directory of slots for each limit, and `state.json`. Who makes a call holds the lock of a slot until the
call is over; the kernel frees it when its holder dies, so that no killed process takes a place for ever. `state.json` has
the token buckets, and until when a provider accepts no calls (`Retry-After`). Nothing is flushed to the disk: without the
file, the next minute is only slower.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from logist import systems
from logist.core.model import JsonObject
from logist.core.money.token_bucket import TokenBucket, compute_burst
from logist.core.text.counts import format_count
from logist.digests import compute_sha256
from logist.formats import CALL_RATES
from logist.quick_tuple import NamedTuple
from logist.regular_files import read_regular
from logist.store import files
from logist.timestamps import read_boot_clock

FOLDER = "rates"
"""The directory, in the home of a project."""
STATE = "state.json"
LONGEST_PAUSE = 3600.0
"""Seconds that a `Retry-After` applies to all callers; then the server is asked again."""
PAUSED = "the provider asked another call to wait"
"""Why a call is not sent while its server accepts none."""
LOOK_SECONDS, MOST_LOOK_SECONDS = 0.2, 1.0
"""Seconds between two looks whether a call may begin: few at first, so that a hundred waiting couriers cost little later."""
_MOST_BYTES = 1 << 20
_LOCKING = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITING = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class CallRate(NamedTuple):
    """A limit for the calls of one provider, or of one model."""

    of: str
    """The provider, or PROVIDER/MODEL."""
    concurrent: int | None = None
    calls_per_minute: int | None = None

    def divide(self, part: int, of: int) -> CallRate:
        """Return the limit for a part of those that make calls; at least one call."""
        counts = (None if each is None else max(1, each * part // of) for each in self[1:])
        return CallRate(self.of, *counts)


class CallWait(NamedTuple):
    """Why a call may not begin now."""

    seconds: float
    """Until a call may begin, if that is known; a running call may end sooner or later."""
    words: str
    """What it waits for: `openai: 4 of 4 calls running`."""
    asked_by: str = ""
    """The status with which the provider asked to wait, such as `429`; empty if a limit prevents the call."""


class Permit:
    """A call may be made. Whoever has it must release it when the call is over; the kernel does, if it dies."""

    def __init__(self, slots: Sequence[int] = ()) -> None:
        self._slots = list(slots)

    def release(self) -> None:
        """Let another call begin; may be called again, and from any thread."""
        while self._slots:
            os.close(self._slots.pop())


class CallRates:
    """The limits that apply to the calls of one ask; several processes and threads may use them at once."""

    def __init__(
        self,
        folder: Path,
        server: str,
        limits: Sequence[CallRate] = (),
        now: Callable[[], float] = read_boot_clock,
    ) -> None:
        """`server`: who may ask to wait: a provider, with its address if it is not the usual one.

        `now`: a clock that all processes share, is never set and counts while the machine sleeps.
        """
        self.folder, self.server, self.limits, self._now = folder, server, tuple(limits), now

    def to_json(self) -> JsonObject:
        """Return it as JSON for the courier."""
        return {
            "folder": str(self.folder),
            "server": self.server,
            "limits": [list(each) for each in self.limits],
        }

    @classmethod
    def from_json(cls, data: JsonObject) -> CallRates:
        """Read what `to_json` returned."""
        return cls(Path(data["folder"]), data["server"], [CallRate(*each) for each in data["limits"]])

    def wait_for_permit(
        self,
        sleep: Callable[[float], bool],
        report: Callable[[str], None],
        longest_pause: float = math.inf,
    ) -> Permit | CallWait | None:
        """Wait until the next call may begin.

        Returns None as soon as `sleep` returns False, because the caller was stopped; and a CallWait if the provider accepts
        no calls for more than `longest_pause` seconds. `report` gets what it waits for before each sleep.
        """
        longest_sleep = LOOK_SECONDS
        while True:
            outcome = self.try_begin()
            if isinstance(outcome, Permit) or (outcome.asked_by and outcome.seconds > longest_pause):
                return outcome
            report(outcome.words)
            if not sleep(min(outcome.seconds, longest_sleep)):
                return None
            longest_sleep = min(longest_sleep * 1.5, MOST_LOOK_SECONDS)

    def try_begin(self) -> Permit | CallWait:
        """Return a permit for one call now, or why there is none."""
        if not self.limits and not self._is_used():
            return Permit()
        slots: list[int] = []
        try:
            with self._open_state() as state:
                outcome = self._find_wait(state, slots)
        except BaseException:
            Permit(slots).release()
            raise
        if outcome is not None:
            Permit(slots).release()
            return outcome
        return Permit(slots)

    def ask_to_wait(self, seconds: float, status: str) -> None:
        """Let no caller of this server begin a call for so many seconds, because the server has asked for that."""
        if not seconds > 0:
            return
        with self._open_state() as state:
            until = self._now() + min(seconds, LONGEST_PAUSE)
            known = state.pauses.get(self.server)
            if known is None or known[0] < until:
                state.pauses[self.server] = (until, status)
                state.is_changed = True

    def find_pause(self) -> CallWait | None:
        """Return for how long the server accepts no calls; None if it accepts them.

        Raises StorageError if the limits can't be kept, so that a command reports that before it starts a courier.
        """
        if not self.limits and not self._is_used():
            return None
        with self._open_state() as state:
            return self._find_pause(state)

    def _is_used(self) -> bool:
        """Whether any call of this project was ever limited; others create no directory."""
        return os.path.lexists(self.folder / STATE)

    def _find_wait(self, state: _State, slots: list[int]) -> CallWait | None:
        """Take a slot of each limit and a token of each bucket; return why that is not possible, and then take no token."""
        pause = self._find_pause(state)
        if pause is not None:
            return pause
        for limit in self.limits:
            if limit.concurrent is not None:
                taken, running = _take_slot(self._find_slots(limit), limit.concurrent)
                if taken is None:
                    words = f"{limit.of}: {running} of {format_count(limit.concurrent, 'call')} running"
                    return CallWait(MOST_LOOK_SECONDS, words)
                slots.append(taken)
        now, buckets = self._now(), dict(state.buckets)
        for limit in self.limits:
            if limit.calls_per_minute is not None:
                bucket, seconds = state.get_bucket(limit, now).take(limit.calls_per_minute, now)
                if seconds > 0:
                    words = f"{limit.of}: at most {format_count(limit.calls_per_minute, 'call')} a minute"
                    return CallWait(seconds, words)
                buckets[limit.of] = bucket
        state.is_changed |= buckets != state.buckets
        state.buckets = buckets
        return None

    def _find_pause(self, state: _State) -> CallWait | None:
        until, status = state.pauses.get(self.server, (0.0, ""))
        seconds = until - self._now()
        if seconds <= 0:
            return None
        words = f"{self.server}, which accepts no calls for {math.ceil(seconds)} s ({status})"
        return CallWait(seconds, words, status)

    def _find_slots(self, limit: CallRate) -> Path:
        return self.folder / compute_sha256(limit.of.encode()).removeprefix("sha256:")[:16]

    @contextmanager
    def _open_state(self) -> Iterator[_State]:
        """Read the state under a lock on which waiters queue, and write it at the end if it has changed."""
        files.create_ignored_directory(self.folder)
        with files.lock_directory(self.folder):
            state = _load_state(self.folder / STATE, self._now())
            yield state
            if state.is_changed:
                _save_state(self.folder / STATE, state)


class _State:
    """What `state.json` has; only under the lock."""

    def __init__(self, *, is_known: bool) -> None:
        self.buckets: dict[str, TokenBucket] = {}
        self.pauses: dict[str, tuple[float, str]] = {}
        """For each server that accepts no calls: until when, and the status of its answer."""
        self.is_known = is_known
        """Whether it has all earlier calls. If not, the buckets are empty: some calls may have begun just now."""
        self.is_changed = not is_known

    def limit_times(self, now: float) -> None:
        """Replace times that this clock can't have had, as in a container with another start: nobody waits for them."""
        before = self.buckets, self.pauses
        self.buckets = {name: each._replace(at=min(each.at, now)) for name, each in self.buckets.items()}
        self.pauses = {
            name: (min(until, now + LONGEST_PAUSE), status)
            for name, (until, status) in self.pauses.items()
            if until > now
        }
        self.is_changed |= before != (self.buckets, self.pauses)

    def get_bucket(self, limit: CallRate, now: float) -> TokenBucket:
        """Return the bucket of a limit; a full one if no call has begun yet."""
        full = compute_burst(limit.calls_per_minute or 1) if self.is_known else 0
        return self.buckets.setdefault(limit.of, TokenBucket(float(full), now))


def _take_slot(folder: Path, most: int) -> tuple[int | None, int]:
    """Return the locked file of a free slot, or None; and how many calls running.

    All slots are counted, also those above the limit: it may have been higher when their calls began.
    """
    with files.convert_os_errors(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
        directory = os.open(folder, _LOCKING)
        try:
            names = os.listdir(directory)
            slots = [_lock_slot(directory, name) for name in sorted(names)]
            free = [slot for slot in slots if slot is not None]
            running = len(slots) - len(free)
            if not free and running < most:
                name = next(name for name in map(str, range(len(names) + 1)) if name not in names)
                free = [slot for slot in [_lock_slot(directory, name)] if slot is not None]
        finally:
            os.close(directory)
    taken = free.pop() if free and running < most else None
    for slot in free:
        os.close(slot)
    return taken, running


def _lock_slot(directory: int, name: str) -> int | None:
    """Return the file of a slot, locked; None if a call has it."""
    slot = os.open(name, _WRITING, 0o600, dir_fd=directory)
    try:
        fcntl.flock(slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(slot)
        return None
    return slot


def _load_state(path: Path, now: float) -> _State:
    """Return the state; an unknown one if the file is damaged, or from another start of the machine or another machine."""
    if not os.path.lexists(path):
        state = _State(is_known=True)
        state.is_changed = True
        return state
    try:
        return _parse_state(json.loads(read_regular(path, _MOST_BYTES)), now)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return _State(is_known=False)


def _parse_state(data: Any, now: float) -> _State:
    if data["version"] != CALL_RATES.version or data["boot"] != systems.read_boot_id():
        raise ValueError("of another start of the machine, or another version")
    state = _State(is_known=True)
    for name, (tokens, at) in data["buckets"].items():
        state.buckets[str(name)] = TokenBucket(_check_number(tokens), _check_number(at))
    for name, (until, status) in data["pauses"].items():
        state.pauses[str(name)] = (_check_number(until), " ".join(str(status).split())[:40])
    state.limit_times(now)
    return state


def _check_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("not a number")
    if not math.isfinite(value) or value < 0:
        raise ValueError("out of range")
    return float(value)


def _save_state(path: Path, state: _State) -> None:
    data = {
        "version": CALL_RATES.version,
        "boot": systems.read_boot_id(),
        "buckets": {name: list(bucket) for name, bucket in state.buckets.items()},
        "pauses": {name: list(pause) for name, pause in state.pauses.items()},
    }
    text = files.dump_json(data) + b"\n"
    with files.convert_os_errors(path):
        # In place: everyone who reads it has the lock, and a torn one only makes the next minute slower.
        fd = os.open(path, _WRITING, 0o600)
        try:
            files.write_all(fd, text, 0)
            os.ftruncate(fd, len(text))
        finally:
            os.close(fd)
