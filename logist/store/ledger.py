"""The ledger of a project: what its jobs have spent, and what their running calls may still spend.

It is a directory with a history file of its own, `ledger.json`: append-only, chained, durable, one line for each
reservation and settlement. `totals.json` has the sums and the open reservations up to some entry, so that a
reservation doesn't read the past; it is only a cache, and is computed again if it is missing or doesn't fit.

A call reserves its worst-case cost before it is sent and settles its actual cost when its answer is collected, by
whoever collects it. A reservation that nobody settles stays booked: its call may have been paid.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from logist.core.text.json_object import JsonObject
from logist.digests import compute_sha256
from logist.errors import StorageError
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple
from logist.regular_files import read_regular
from logist.store import files, history
from logist.store.entries import Position

LEDGER = "ledger.json"
TOTALS = "totals.json"
ROTATE_AT = 16_000_000
"""Bytes at which `ledger.json` is compressed and a new one is begun."""
KEPT_DAYS = 40
"""Days whose sums are in the cache; the sums of earlier ones are computed from the entries."""

_LOCKING = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Cost(NamedTuple):
    """An amount of everything that budgets limit."""

    microcents: int = 0
    tokens: int = 0
    calls: int = 0

    def plus(self, other: Cost) -> Cost:
        return Cost(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def minus(self, other: Cost) -> Cost:
        return Cost(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))


NOTHING = Cost()


class Account(NamedTuple):
    """What one sum is about: a scope such as `project`, `model gpt-5` or `tag nightly`, and a period.

    The period is a day (`2026-11-26`), a month (`2026-11`), or empty for all time.
    """

    scope: str
    period: str = ""


class Sums(NamedTuple):
    """What was spent, and what is reserved for calls that have no known outcome."""

    spent: Cost = NOTHING
    reserved: Cost = NOTHING

    def total(self) -> Cost:
        return self.spent.plus(self.reserved)


class Cap(NamedTuple):
    """A limit of an account; None for what is not limited."""

    name: str
    account: Account
    microcents: int | None = None
    tokens: int | None = None
    calls: int | None = None

    def admits(self, cost: Cost) -> bool:
        return all(limit is None or used <= limit for used, limit in zip(cost, self[2:], strict=True))


@dataclass(frozen=True)
class Call:
    """A call that costs something, as the ledger names it."""

    id: str
    """The same for whoever reserves, sends, or collects it: the job, its entry, and the number of the exchange."""
    job: str
    day: str
    """The local date when it was reserved: to this day it is booked, whenever its answer comes."""
    provider: str = ""
    model: str = ""
    run: str = ""
    tags: tuple[str, ...] = ()

    def list_accounts(self) -> Iterator[Account]:
        """Yield the accounts that it is booked to."""
        for scope in self._list_scopes():
            yield Account(scope)
            yield Account(scope, self.day[:7])
            yield Account(scope, self.day)

    def _list_scopes(self) -> Iterator[str]:
        yield "project"
        for kind in ("provider", "model", "run"):
            if value := getattr(self, kind):
                yield f"{kind} {value}"
        for tag in self.tags:
            yield f"tag {tag}"


class Refusal(NamedTuple):
    """A reservation that would exceed a cap; nothing was reserved."""

    cap: Cap
    sums: Sums


class Ledger:
    """The ledger in a directory; several processes may use it at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def reserve(self, call: Call, cost: Cost, caps: Sequence[Cap], at: str) -> Refusal | None:
        """Reserve the worst-case cost of a call, durably; return the first cap that doesn't allow it.

        An open reservation of the same call is replaced. `at`: the time, UTC.
        """
        with self._open_book() as book:
            book.remove_reservation(call.id)
            for cap in caps:
                sums = book.sums.get(cap.account, Sums())
                if not cap.admits(sums.total().plus(cost)):
                    return Refusal(cap, sums)
            book.append({"kind": "reserve", "at": at, **_dump_call(call), "cost": list(cost)})
        return None

    def settle(self, call_id: str, cost: Cost, at: str) -> bool:
        """Book what a call has cost, and release its reservation; False if no reservation of it is open."""
        with self._open_book() as book:
            if call_id not in book.open:
                return False
            book.append({"kind": "settle", "at": at, "id": call_id, "cost": list(cost)})
        return True

    def read_sums(self) -> dict[Account, Sums]:
        """Return the sums of all accounts; those of days are kept for the last KEPT_DAYS only."""
        with self._open_book() as book:
            return dict(book.sums)

    def read_open(self) -> dict[str, tuple[Call, Cost]]:
        """Return the calls whose outcome is not settled, with what is reserved for each."""
        with self._open_book() as book:
            return dict(book.open)

    @contextmanager
    def _open_book(self) -> Iterator[_Book]:
        files.ensure_directory(self.folder)
        fd = os.open(self.folder, _LOCKING)
        try:
            # The kernel queues those who wait, and frees the lock when its holder dies.
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield _load_book(self.folder)
        finally:
            os.close(fd)


class _Book:
    """The ledger in memory, as of one entry; only under the lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.position: Position | None = None
        self.torn = b""
        self.sums: dict[Account, Sums] = {}
        self.open: dict[str, tuple[Call, Cost]] = {}

    def append(self, entry: JsonObject) -> None:
        """Write an entry durably, and then the totals; these are not flushed, because they can be computed again."""
        assert self.position is not None
        appended = history.append_entries(
            self.folder / LEDGER,
            self.position,
            [entry],
            torn=self.torn,
            logs=self.folder / "logs",
            replace_below=0,
            rotate_at=ROTATE_AT,
        )
        self.apply_entries(appended.entries)
        self.position = appended.position
        self._save_totals()

    def apply_entries(self, entries: Iterable[JsonObject]) -> None:
        for entry in entries:
            if entry["kind"] == "reserve":
                call, cost = _parse_call(entry), Cost(*entry["cost"])
                self.remove_reservation(call.id)
                self.open[call.id] = (call, cost)
                self._add(call, reserved=cost)
            else:
                reservation = self.remove_reservation(entry["id"])
                if reservation is not None:
                    self._add(reservation, spent=Cost(*entry["cost"]))

    def remove_reservation(self, call_id: str) -> Call | None:
        call, cost = self.open.pop(call_id, (None, NOTHING))
        if call is not None:
            self._add(call, reserved=NOTHING.minus(cost))
        return call

    def _add(self, call: Call, spent: Cost = NOTHING, reserved: Cost = NOTHING) -> None:
        for account in call.list_accounts():
            sums = self.sums.get(account, Sums())
            self.sums[account] = Sums(sums.spent.plus(spent), sums.reserved.plus(reserved))

    def _save_totals(self) -> None:
        """Write the totals; if that fails, the next process computes them from the entries."""
        assert self.position is not None
        data: JsonObject = {
            "head": list(self.position),
            "sums": [[*account, *sums.spent, *sums.reserved] for account, sums in self._list_recent()],
            "open": [{**_dump_call(call), "cost": list(cost)} for call, cost in self.open.values()],
        }
        body = files.dump_json(data)
        temporary = f"{self.folder / TOTALS}{files.TEMPORARY}"
        with suppress(OSError, StorageError):
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                files.write_all(fd, compute_sha256(body).encode() + b"\n" + body, 0)
            finally:
                os.close(fd)
            os.replace(temporary, self.folder / TOTALS)

    def _list_recent(self) -> list[tuple[Account, Sums]]:
        """Return the sums without days that have long passed; an account with an open reservation is always kept."""
        days = sorted({account.period for account in self.sums if len(account.period) == _DAY})
        old = set(days[:-KEPT_DAYS])
        return [
            (account, sums)
            for account, sums in self.sums.items()
            if account.period not in old or sums.reserved != NOTHING
        ]


_DAY = len("2026-11-26")


def _load_book(folder: Path) -> _Book:
    path = folder / LEDGER
    if not path.exists():
        history.create_history(path)
    book = _load_totals(folder)
    entries, book.position, book.torn = history.read_entries_after(path, book.position)
    book.apply_entries(entries)
    return book


def _load_totals(folder: Path) -> _Book:
    """Return the book as of the last totals; an empty one if they can't be used."""
    book = _Book(folder)
    with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        digest, _, body = read_regular(str(folder / TOTALS)).partition(b"\n")
        if digest.decode() == compute_sha256(body):
            data = json.loads(body)
            position = Position(*data["head"])
            if history.has_entry(folder / LEDGER, position):
                book.position = position
                for scope, period, *numbers in data["sums"]:
                    book.sums[Account(scope, period)] = Sums(Cost(*numbers[:3]), Cost(*numbers[3:]))
                for each in data["open"]:
                    call = _parse_call(each)
                    book.open[call.id] = (call, Cost(*each["cost"]))
    return book


def _dump_call(call: Call) -> JsonObject:
    return {
        "id": call.id,
        "job": call.job,
        "day": call.day,
        **{name: value for name in ("provider", "model", "run") if (value := getattr(call, name))},
        **({"tags": list(call.tags)} if call.tags else {}),
    }


def _parse_call(entry: JsonObject) -> Call:
    return Call(
        entry["id"],
        entry["job"],
        entry["day"],
        entry.get("provider", ""),
        entry.get("model", ""),
        entry.get("run", ""),
        tuple(entry.get("tags", ())),
    )
