"""The ledger of a project: what its jobs have spent, and what their running calls may still spend.

It is a directory with a history file, `ledger.json`: append-only, chained, durable, one line for each reservation
and settlement. `totals.json` has the sums and the open reservations up to some entry, so that a reservation doesn't
read the past. It is only a cache: if it is missing or unreadable, it is computed again.

A call reserves its worst-case cost before it is sent. The process that collects its answer settles the actual cost. A
reservation without a settlement stays booked: its call may have been paid.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from logist.core.money.budgets import NOTHING, Account, BookedCall, Cap, Cost, Sums
from logist.core.text.json_object import JsonObject
from logist.digests import compute_sha256
from logist.errors import Damaged, LogistError, NewerFormat, StorageError
from logist.quick_tuple import NamedTuple
from logist.regular_files import read_regular
from logist.store import files, history
from logist.store.entries import Position, read_lines, verify_line

FOLDER = "ledger"
"""The directory of the ledger, in the home of a project."""
LEDGER = "ledger.json"
TOTALS = "totals.json"
DRAFT = "draft"
"""A directory in which a repair writes the ledger, before it replaces the damaged one."""
REPAIR = "to restore what the histories of the jobs prove: logist doctor --fix"
ROTATE_AT = 16_000_000
"""Bytes at which `ledger.json` is compressed and a new one is begun."""
KEPT_DAYS = 8
"""Days whose sums are in `totals.json`; the sums of earlier ones are computed from the entries."""

RESERVE, SETTLE, BOOK = "reserve", "settle", "book"
"""The kinds of entries. `book`: a cost that was never reserved, such as one that a person supplies."""

_OVERWRITING = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DAY = len("2026-11-26")


class OpenCall(NamedTuple):
    """A call whose outcome is not settled."""

    call: BookedCall
    cost: Cost
    """What is reserved for it."""
    at: str
    """When it was reserved, UTC."""


class LedgerEntry(NamedTuple):
    """One line of the ledger."""

    sequence: int
    kind: str
    at: str
    """When it was written, UTC."""
    call_id: str
    cost: Cost
    call: BookedCall | None
    """None for a settlement: its reservation names the call."""


class BudgetRefusal(NamedTuple):
    """A limit that doesn't allow a reservation; nothing was reserved."""

    cap: Cap
    sums: Sums
    """Of the account of the limit."""
    needed: Cost

    def describe(self) -> str:
        """Return it for people: which budget, how much of it is used, and what the call needs."""
        used = f"budget {self.cap.budget}: {self.cap.describe_use(self.sums.get_total())} used"
        if self.sums.reserved != NOTHING:
            used += f" ({self.cap.describe_amounts(self.sums.reserved)} of it reserved for calls without an answer)"
        needed = self.cap._replace(calls=None).describe_amounts(self.needed)
        return f"{used}; the next call can use up to {needed}" if needed else used

    @property
    def is_temporary(self) -> bool:
        """Whether only calls without a known outcome prevent it: when they are settled, enough may be left."""
        return self.cap.admits(self.sums.spent.plus(self.needed))


class LedgerView(NamedTuple):
    """What the ledger says at one moment."""

    sums: Mapping[Account, Sums]
    """Of all accounts; those of days for the last KEPT_DAYS only."""
    open: Mapping[str, OpenCall]
    """The calls without a known outcome, by id."""


class Ledger:
    """The ledger in a directory, which the first reservation creates; several processes may use it at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def exists(self) -> bool:
        """Whether anything was ever booked."""
        return os.path.lexists(self.folder)

    def reserve(
        self,
        call: BookedCall,
        cost: Cost,
        caps: Sequence[Cap],
        at: str,
        on_written: Callable[[], None] = lambda: None,
    ) -> BudgetRefusal | None:
        """Reserve the worst-case cost of a call, durably; return the first limit that doesn't allow it.

        An open reservation of the same call is replaced. `at`: the time, UTC. `on_written` is called, at most once, when the
        entry is written and only its flush is left.
        """
        files.create_ignored_directory(self.folder)
        with self._open_book([cap.account for cap in caps]) as book:
            open_call = book.remove_reservation(call.id)
            for cap in caps:
                sums = book.sums.get(cap.account, Sums())
                if not cap.admits(sums.get_total().plus(cost)):
                    return BudgetRefusal(cap, sums, cost)
            if open_call is not None:
                book.add_reservation(open_call)  # the new entry removes it
            entry: JsonObject = {"kind": RESERVE, "at": at, **_dump_call(call), "cost": cost._asdict()}
            book.append(entry, on_written=on_written)
        return None

    def settle(self, costs: Mapping[str, Cost], at: str) -> int:
        """Book what calls have cost, by id, and release their reservations; return how many were open."""
        if not self.exists():
            return 0
        with self._open_book() as book:
            settled = [call_id for call_id in costs if call_id in book.open]
            for call_id in settled:
                cost = costs[call_id]._asdict()
                book.append({"kind": SETTLE, "at": at, "id": call_id, "cost": cost})
        return len(settled)

    def book(self, call: BookedCall, cost: Cost, at: str) -> None:
        """Book a cost that was never reserved; no limit prevents it, because it is spent already."""
        files.create_ignored_directory(self.folder)
        with self._open_book() as book:
            book.append({"kind": BOOK, "at": at, **_dump_call(call), "cost": cost._asdict()})

    def read(self, accounts: Iterable[Account] = ()) -> LedgerView:
        """Return the sums, which include those of `accounts` in any case, and the calls without a known outcome."""
        if not self.exists():
            return LedgerView({}, {})
        with self._open_book(accounts, creates=False) as book:
            return LedgerView(book.sums, book.open)

    def read_entries(self) -> Iterator[LedgerEntry]:
        """Yield all entries, each verified. Raises Damaged, which names the entry, at the first bad one."""
        path = self.folder / LEDGER
        if not self.exists():
            return
        with _explain_damage(self.folder):
            if _is_new(self.folder):
                return
            for entry in history.read_all_entries(path):
                yield _parse_entry(entry, path)

    def read_intact_entries(self) -> list[LedgerEntry]:
        """Return the entries of a damaged ledger whose own checksum verifies, also those after the damage."""
        intact: list[LedgerEntry] = []
        with suppress(LogistError):
            intact.extend(self.read_entries())
        last = intact[-1].sequence if intact else 0
        with suppress(OSError), open(self.folder / LEDGER, "rb", opener=open_unfollowed) as file:
            for line in read_lines(file):
                body = line[max(line.find(b"{"), 0) :].removesuffix(b"\n")
                if verify_line(body) is not None:
                    with suppress(ValueError, RecursionError, Damaged):
                        entry = _parse_entry(json.loads(body), self.folder / LEDGER)
                        intact += [entry] if entry.sequence > last else []
        return intact

    def verify(self) -> int:
        """Verify all entries and the totals; return the number of entries. Raises Damaged."""
        if not self.exists():
            return 0
        with files.lock_directory(self.folder):
            with _explain_damage(self.folder):
                if _is_new(self.folder):
                    return 0
            book, count = _Book(self.folder), 0
            with _explain_damage(self.folder):
                totals = _load_totals(self.folder)
                _require_included_entry(totals)
            for entry in self.read_entries():
                count += 1
                book.apply_entries([entry])
                if totals.position is not None and totals.position.sequence == count:
                    self._compare_totals(totals, book)
        return count

    def _compare_totals(self, totals: _Book, book: _Book) -> None:
        """Raise Damaged if the totals are not those of the entries, `book`, that they include."""
        accounts = [each for each in {**book.sums, **totals.sums} if not totals.may_lack_sums(each)]
        if totals.open == book.open and all(
            totals.sums.get(account, Sums()) == book.sums.get(account, Sums()) for account in accounts
        ):
            return
        message = f"the ledger is damaged: the sums in {TOTALS} are not those of the entries"
        raise Damaged(message, where=str(self.folder / TOTALS), fix=REPAIR)

    def list_files(self) -> list[Path]:
        """Return its files, without what an interrupted append has left."""
        with files.convert_os_errors(self.folder):
            names = sorted(os.listdir(self.folder))
        stem = Path(LEDGER).stem
        return [self.folder / name for name in names if name.startswith(f"{stem}.") or name == TOTALS]

    def replace(self, entries: Iterable[LedgerEntry]) -> int:
        """Write a new ledger in place of the old one, for a repair; return the number of entries."""
        written = [_dump_entry(entry) for entry in entries]
        files.create_ignored_directory(self.folder)
        with files.lock_directory(self.folder):
            # Complete in another directory first: if this is interrupted, the damaged ledger is still there.
            draft = self.folder / DRAFT
            files.remove_tree(draft)
            files.ensure_directory(draft)
            history.create_history(draft / LEDGER)
            if written:
                _load_book(draft).append(*written)
            with files.convert_os_errors(self.folder):
                with suppress(FileNotFoundError):
                    os.unlink(self.folder / TOTALS)
                os.replace(draft / LEDGER, self.folder / LEDGER)
                for path in self.list_files():
                    if path.name not in (LEDGER, TOTALS):
                        os.unlink(path)
            files.sync_directory(self.folder)
            files.remove_tree(draft)
        return len(written)

    @contextmanager
    def _open_book(self, accounts: Iterable[Account] = (), *, creates: bool = True) -> Iterator[_Book]:
        with files.lock_directory(self.folder), _explain_damage(self.folder):
            if not creates and _is_new(self.folder):
                yield _Book(self.folder)
                return
            book = _load_book(self.folder)
            if any(map(book.may_lack_sums, accounts)):
                book = _load_book(self.folder, is_complete=True)
            yield book


class _Book:
    """The ledger in memory, as of one entry; only under the lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.position: Position | None = None
        self.torn = b""
        self.since = ""
        """The first day whose sums are complete; those of earlier days and months may be missing."""
        self.sums: dict[Account, Sums] = {}
        self.open: dict[str, OpenCall] = {}

    def may_lack_sums(self, account: Account) -> bool:
        """Whether the sums of an account may be missing, although it was used."""
        begin = _find_begin(account)
        return bool(begin) and begin < self.since[: len(begin)]

    def append(self, *entries: JsonObject, on_written: Callable[[], None] = lambda: None) -> None:
        """Write entries durably, then the totals; these are not flushed, because they can be computed again."""
        assert self.position is not None
        appended = history.append_entries(
            self.folder / LEDGER,
            self.position,
            list(entries),
            torn=self.torn,
            logs=self.folder / "logs",
            replace_below=0,  # readers take the lock, so an append in place is enough
            rotate_at=ROTATE_AT,
            on_written=on_written,
        )
        self.apply_entries(_parse_entry(entry, self.folder / LEDGER) for entry in appended.entries)
        self.position, self.torn = appended.position, b""
        self._save_totals()

    def apply_entries(self, entries: Iterable[LedgerEntry]) -> None:
        for entry in entries:
            before = self.remove_reservation(entry.call_id) if entry.kind in (RESERVE, SETTLE) else None
            if entry.kind == RESERVE and entry.call is not None:
                self.add_reservation(OpenCall(entry.call, entry.cost, entry.at))
            elif entry.kind == SETTLE and before is not None:
                self._add(before.call, spent=entry.cost)
            elif entry.kind == BOOK and entry.call is not None:
                self._add(entry.call, spent=entry.cost)

    def add_reservation(self, open_call: OpenCall) -> None:
        self.open[open_call.call.id] = open_call
        self._add(open_call.call, reserved=open_call.cost)

    def remove_reservation(self, call_id: str) -> OpenCall | None:
        open_call = self.open.pop(call_id, None)
        if open_call is not None:
            self._add(open_call.call, reserved=NOTHING.minus(open_call.cost))
        return open_call

    def _add(self, call: BookedCall, spent: Cost = NOTHING, reserved: Cost = NOTHING) -> None:
        for account in call.list_accounts():
            sums = self.sums.get(account, Sums())
            self.sums[account] = Sums(sums.spent.plus(spent), sums.reserved.plus(reserved))

    def _save_totals(self) -> None:
        """Write the totals; if that fails, the next process computes them from the entries."""
        assert self.position is not None
        days = sorted({account.period for account in self.sums if len(account.period) == _DAY})
        self.since = max([self.since, *days[-KEPT_DAYS:][:1]])
        data: JsonObject = {
            "head": list(self.position),
            "since": self.since,
            "sums": [
                [*account, *sums.spent, *sums.reserved]
                for account, sums in self.sums.items()
                if not self.may_lack_sums(account)
            ],
            "open": [
                {**_dump_call(each.call), "cost": each.cost._asdict(), "at": each.at}
                for each in self.open.values()
            ],
        }
        body = files.dump_json(data)
        text = compute_sha256(body).encode() + b"\n" + body
        # In place: a rename over an existing file makes ext4 flush the new one, which takes as long as the entry itself.
        # The digest tells a write that was cut off.
        with suppress(OSError, StorageError):
            fd = os.open(self.folder / TOTALS, _OVERWRITING, 0o600)
            try:
                files.write_all(fd, text, 0)
                os.ftruncate(fd, len(text))
            finally:
                os.close(fd)


def open_unfollowed(path: str, flags: int) -> int:
    """Open a file, but no link or pipe in its place."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _find_begin(account: Account) -> str:
    """Return the day or month from which on an account can be used; empty if that is not known.

    The name of a run begins with its day.
    """
    return account.scope[len("run ") :][:_DAY] if account.scope.startswith("run ") else account.period


def _is_new(folder: Path) -> bool:
    """Whether the ledger was not begun yet. Raises Damaged if its file is missing, although it was begun."""
    if os.path.lexists(folder / LEDGER):
        return False
    with files.convert_os_errors(folder):
        was_begun = any(
            name == TOTALS or name.startswith(f"{Path(LEDGER).stem}.") for name in os.listdir(folder)
        )
    if was_begun:
        raise Damaged(f"{LEDGER} is missing", where=str(folder / LEDGER))
    return True


def _load_book(folder: Path, *, is_complete: bool = False) -> _Book:
    """Load the ledger; `is_complete`: from all entries, with the sums of all days."""
    path = folder / LEDGER
    if _is_new(folder):
        history.create_history(path)
    book = _load_totals(folder)
    if is_complete:
        book = _Book(folder)
    try:
        entries, book.position, book.torn = history.read_entries_after(path, book.position)
    except Damaged:
        _require_included_entry(book)  # names the entry, if that is what is missing
        raise
    book.apply_entries(_parse_entry(entry, path) for entry in entries)
    return book


def _load_totals(folder: Path) -> _Book:
    """Return the book as of the last totals; an empty one if they can't be read."""
    try:
        digest, _, body = read_regular(str(folder / TOTALS)).partition(b"\n")
        if digest.decode() != compute_sha256(body):
            return _Book(folder)
        return _parse_totals(folder, json.loads(body))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return _Book(folder)


def _require_included_entry(totals: _Book) -> None:
    """Raise Damaged if the totals include an entry that the ledger doesn't have: it was durable before they were written."""
    path, position = totals.folder / LEDGER, totals.position
    if position is not None and not history.has_entry(path, position):
        message = f"entry {position.sequence} is missing, although {TOTALS} includes it"
        raise Damaged(message, where=str(path))


def _parse_totals(folder: Path, data: Any) -> _Book:
    book = _Book(folder)
    sequence, digest, offset = data["head"]
    book.position = Position(int(sequence), str(digest), int(offset))
    book.since = str(data["since"])
    for scope, period, *numbers in data["sums"]:
        if len(numbers) != 2 * len(Cost._fields) or not all(
            type(each) is int and each >= 0 for each in numbers
        ):
            raise ValueError("not amounts")
        book.sums[Account(scope, period)] = Sums(Cost(*numbers[:3]), Cost(*numbers[3:]))
    for each in data["open"]:
        call = _parse_call(each)
        book.open[call.id] = OpenCall(call, _parse_cost(each["cost"]), str(each["at"]))
    return book


def _parse_cost(cost: Any) -> Cost:
    """Return an amount; raise ValueError for a negative one, which would allow to spend more than a limit."""
    amounts = [cost[name] for name in Cost._fields]
    if not all(type(amount) is int and amount >= 0 for amount in amounts):
        raise ValueError("not an amount")
    return Cost(*amounts)


@contextmanager
def _explain_damage(folder: Path) -> Iterator[None]:
    """Turn the error about a history into one about the ledger."""
    try:
        yield
    except Damaged as error:
        message = f"the ledger is damaged: {error.message.replace('interaction', 'entry')}"
        raise Damaged(message, where=error.where or str(folder / LEDGER), fix=REPAIR) from error
    except NewerFormat as error:
        message = error.message.replace("the history", "the ledger").replace("job format", "ledger format")
        raise NewerFormat(message, where=error.where, fix=error.fix) from error


def _dump_entry(entry: LedgerEntry) -> JsonObject:
    named: JsonObject = _dump_call(entry.call) if entry.call is not None else {"id": entry.call_id}
    return {"kind": entry.kind, "at": entry.at, **named, "cost": entry.cost._asdict()}


def _parse_entry(entry: JsonObject, path: Path) -> LedgerEntry:
    try:
        call = None if entry["kind"] == SETTLE else _parse_call(entry)
        cost = _parse_cost(entry["cost"])
        return LedgerEntry(
            entry["sequence"], str(entry["kind"]), str(entry["at"]), str(entry["id"]), cost, call
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"entry {entry.get('sequence')} is invalid", where=str(path)) from error


def _dump_call(call: BookedCall) -> JsonObject:
    return {
        "id": call.id,
        "job": call.job,
        "day": call.day,
        **{name: value for name in ("provider", "model", "run") if (value := getattr(call, name))},
        **({"tags": list(call.tags)} if call.tags else {}),
    }


def _parse_call(entry: Any) -> BookedCall:
    return BookedCall(
        str(entry["id"]),
        str(entry["job"]),
        str(entry["day"]),
        str(entry.get("provider", "")),
        str(entry.get("model", "")),
        str(entry.get("run", "")),
        tuple(map(str, entry.get("tags", ()))),
    )
