"""How far a history is proven: line by line, in constant memory. Nothing is written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from logist.core.text.json_object import JsonObject
from logist.errors import Damaged, Refused
from logist.store.entries import (
    CLOSING,
    CLOSINGS,
    Header,
    Position,
    checksum_of,
    closing_at,
    is_whole,
    lines,
    read_entry,
    read_header,
    seek_afresh,
    too_long,
)
from logist.store.history import HistoryProblem, opened
from logist.store.segments import HistorySegment, above, detached, has_own_header, lacking, path_of

NAMED = 20
"""Problems and stretches that are named one by one: a damaged history may hold a million."""

_BAD = "the entry does not verify"
_OUT_OF_PLACE = "the entry is whole but does not follow the one before it"


class Stretch(NamedTuple):
    """Interactions from `first` to `last`, both included."""

    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first} to {self.last}"


class Proof(NamedTuple):
    """What of a history holds, and what does not."""

    problems: tuple[HistoryProblem, ...] = ()
    trusted: Stretch | None = None
    """What verifies and chains from the first entry on; None if nothing does."""
    first_bad: HistoryProblem | None = None
    """The first entry that does not; its sequence is None where the first line of the file is damaged."""
    whole: tuple[Stretch, ...] = ()
    """Behind the first bad one: whole in themselves, but no longer proven to follow."""
    position: Position | None = None
    """The last proven entry."""
    end: int = 0
    """Byte after it."""
    ending: HistoryProblem | None = None
    """What the next append repairs: an append that was cut off, a closing that is not whole."""

    @property
    def faults(self) -> tuple[HistoryProblem, ...]:
        """The problems that nothing repairs by itself."""
        return tuple(problem for problem in self.problems if problem != self.ending)

    @property
    def after(self) -> int:
        """The number of the entry that follows the proven ones, or would."""
        return self.trusted.last + 1 if self.trusted else 1


def not_held(head: Position, found: Proof) -> HistoryProblem:
    """The state has seen what its history does not hold."""
    if head.sequence < found.after:
        message = (
            f"state.json is of another history: this interaction {head.sequence} is not the one it has seen"
        )
        return HistoryProblem(message, head.sequence, head.offset)
    lost = Stretch(found.after, head.sequence)
    message = f"{'interaction' if lost.first == lost.last else 'interactions'} {lost}, seen by state.json,"
    return HistoryProblem(f"{message} can't be found", found.after, found.end)


def _ignored(entry: JsonObject) -> None:
    """Nobody wants to be told."""


def examine(path: Path, each: Callable[[JsonObject], None] = _ignored) -> Proof:
    """All that is to say about the history at `path`; `each` is told every entry that is proven, in order.

    The segments below the live file come first. Of one that is damaged, what follows is only whole in itself.
    """
    try:
        with opened(path) as file:
            try:
                header = read_header(file, path)
            except (Damaged, Refused) as error:
                return _headless(file, HistoryProblem(error.message, offset=0))
            older = _older(path, header, each)
            if not older.problems:
                proven = _joined(older, _examined(file, header, each))
                others = (*_put_back(path, header), *_changed_headers(path, header))
                return proven._replace(problems=(*proven.problems, *others))
            return _broken(older, _examined(file, header, _ignored))
    except Damaged as error:
        return Proof((HistoryProblem(error.message, offset=0),))


def _older(path: Path, live: Header, each: Callable[[JsonObject], None]) -> Proof:
    """What of the segments below the live file holds; as many are looked at as there are."""
    proven = Position(0, None, 0)
    problems: list[HistoryProblem] = []
    whole: tuple[Stretch, ...] = ()
    gaps = (
        {first: (last, message) for first, last, message in lacking(path, live)} if live.segment > 1 else {}
    )
    number = 1
    while number < live.segment:
        if number in gaps:
            last, message = gaps[number]
            problems.append(HistoryProblem(message, None if problems else proven.sequence + 1))
            number = last + 1
            continue
        intact = not problems
        segment = HistorySegment(path, number, proven if intact else None)
        problem = _read(segment, each if intact else _ignored)
        end = segment.position or Position(0, None, 0)
        if intact:
            proven = end
        elif 0 < segment.first <= end.sequence:
            whole = _with(whole, Stretch(segment.first, end.sequence))
        if problem:
            problems.append(HistoryProblem(problem, end.sequence + 1 if intact or segment.first else None))
        number += 1
    if live.segment > 1 and not problems and proven[:2] != live.start()[:2]:
        wrong = detached(path, path_of(path, live.segment - 1), live.start(), proven)
        problems = [HistoryProblem(wrong.message, proven.sequence + 1)]
    trusted, position = (Stretch(1, proven.sequence), proven) if proven.sequence else (None, None)
    return Proof(tuple(problems), trusted, problems[0] if problems else None, whole, position)


def _put_back(path: Path, live: Header) -> Iterator[HistoryProblem]:
    """What shows that the live file is an older one: segments above it. A writer may close some meanwhile."""
    if numbers := above(path, live.segment):
        with opened(path) as file:
            now = read_header(file, path).segment
        if numbers := [number for number in numbers if number > now]:
            name = path_of(path, numbers[-1]).name
            yield HistoryProblem(
                f"{name} is there, yet {path.name} is only segment {now}: it is older, and lacks what follows"
            )


def _changed_headers(path: Path, live: Header) -> Iterator[HistoryProblem]:
    """Segments with another gzip header: every interaction in them verifies, yet somebody changed the file."""
    for number in range(1, live.segment):
        if not has_own_header(path, number):
            name = path_of(path, number).name
            yield HistoryProblem(f"{name}: its gzip header has changed; the interactions in it verify")


def _read(segment: HistorySegment, each: Callable[[JsonObject], None]) -> str | None:
    """Reads a segment; what is wrong with it, if anything is."""
    try:
        for entry in segment:
            each(entry)
    except (Damaged, Refused) as error:
        return error.message
    return None


def _joined(older: Proof, live: Proof) -> Proof:
    """What is proven from the first entry on, where all segments are."""
    if older.trusted is None:
        return live
    if live.trusted is None:
        return live._replace(trusted=older.trusted, position=older.position)
    return live._replace(trusted=Stretch(older.trusted.first, live.trusted.last))


def _broken(older: Proof, live: Proof) -> Proof:
    """Behind a bad segment: what the live file holds is whole in itself, and no more."""
    whole = older.whole
    for stretch in (*filter(None, [live.trusted]), *live.whole):
        whole = _with(whole, stretch)
    problems = (*older.problems, *live.problems)[: NAMED + 1]
    return older._replace(problems=problems, whole=whole, ending=live.ending)


def _with(whole: tuple[Stretch, ...], more: Stretch) -> tuple[Stretch, ...]:
    if whole and whole[-1].last + 1 == more.first:
        return (*whole[:-1], Stretch(whole[-1].first, more.last))
    return (*whole, more) if len(whole) < NAMED else whole


def _examined(file: BinaryIO, header: Header, each: Callable[[JsonObject], None]) -> Proof:
    before, end, seen = header.start(), header.size, -1
    # An append in place may be met half way; then the file has grown, and reads on.
    while seen != (seen := os.fstat(file.fileno()).st_size):
        seek_afresh(file, end)
        for line in lines(file):
            entry = read_entry(line, before, header.first_sequence)
            if entry is None:
                break
            each(entry)
            before = Position(entry["sequence"], entry["checksum"], end)
            end += len(line)
    trusted = Stretch(header.first_sequence, before.sequence)
    proven = Proof(end=end)
    if trusted.last >= trusted.first:
        proven = Proof(trusted=trusted, position=before, end=end)
    closing = closing_at(file, end)
    if closing == CLOSING:
        return proven
    if closing is not None:
        message = "the closing line is not whole; the next append repairs it"
        ending = HistoryProblem(message, before.sequence + 1, end)
        return proven._replace(problems=(ending,), ending=ending)
    return _with_rest(proven, file, _Rest(before, end, header.first_sequence))


def _with_rest(proven: Proof, file: BinaryIO, rest: _Rest) -> Proof:
    seek_afresh(file, proven.end)
    for line in lines(file):
        rest.take(line)
    size = file.tell() - proven.end
    if rest.holds_an_entry or too_long(size):
        named = rest.named()
        return proven._replace(problems=named, first_bad=named[0], whole=tuple(rest.whole))
    message = f"{size} bytes of an append that was cut off; the next one keeps a copy in logs/"
    torn = rest.start._replace(message=message)
    return proven._replace(problems=(torn,), ending=torn)


def _headless(file: BinaryIO, problem: HistoryProblem) -> Proof:
    """Without its first line nothing of a history is proven; entries may still be whole."""
    rest = _Rest(Position(0, None, 0), 0, 1)
    file.seek(0)
    for line in lines(file):
        rest.take(line)
    return Proof((problem,), first_bad=problem, whole=tuple(rest.whole))


class _Rest:
    """What stands behind the last proven entry."""

    def __init__(self, before: Position, offset: int, first: int) -> None:
        self.holds_an_entry = False
        """A complete one: then this is damage, and no append that was cut off (as Scan has it)."""
        self.whole: list[Stretch] = []
        self._before, self._offset, self._first = before, offset, first
        self.start = HistoryProblem(_BAD, before.sequence + 1, offset)
        self._problems: list[HistoryProblem] = []
        self._more = 0
        self._lines = 0

    def take(self, line: bytes) -> None:
        """Judges the next line."""
        bare = line.removeprefix(b",").removesuffix(b"\n")
        entry = _sealed(bare)
        self._lines += 1
        if read_entry(line, self._before, self._first) is None and line.strip() not in CLOSINGS:
            self._name(entry)
        self.holds_an_entry |= is_whole(line, next_one=self._lines == 1)
        if entry:
            self._stretch(entry["sequence"])
            self._before = Position(entry["sequence"], entry["checksum"], self._offset)
        else:
            # What a good next line would follow: the checksum that this one claims.
            claimed = bare[-66:-2].decode("ascii", "replace")
            self._before = Position(self._before.sequence + 1, claimed, self._offset)
        self._offset += len(line)

    def _name(self, entry: JsonObject | None) -> None:
        if len(self._problems) == NAMED:
            self._more += 1
            return
        self._problems.append(
            HistoryProblem(_OUT_OF_PLACE if entry else _BAD, self._before.sequence + 1, self._offset)
        )

    def _stretch(self, sequence: int) -> None:
        if self.whole and sequence == self.whole[-1].last + 1:
            self.whole[-1] = Stretch(self.whole[-1].first, sequence)
        elif len(self.whole) < NAMED:
            self.whole.append(Stretch(sequence, sequence))

    def named(self) -> tuple[HistoryProblem, ...]:
        """What does not verify or does not follow; of many the first, and how many more."""
        more = [HistoryProblem(f"{self._more} more entries do not verify, or do not follow")] * bool(
            self._more
        )
        return (*(self._problems or [self.start]), *more)


def _sealed(bare: bytes) -> JsonObject | None:
    """The entry of a line that is whole in itself, wherever it belongs."""
    if checksum_of(bare) is None:
        return None
    try:
        entry = json.loads(bare)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) and isinstance(entry.get("sequence"), int) else None
