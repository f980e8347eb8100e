"""Verifies a history line by line, in constant memory: how much is
proven, and what is damaged. Writes nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from logist.core.text.counts import format_count
from logist.core.text.json_object import JsonObject
from logist.errors import Damaged, Refused
from logist.quick_tuple import NamedTuple
from logist.store.entries import (
    CLOSING,
    CLOSINGS,
    Header,
    Position,
    describe_excess,
    is_complete_entry,
    read_closing,
    read_entry,
    read_header,
    read_lines,
    seek_afresh,
    verify_line,
)
from logist.store.history import HistoryProblem, ProblemKind, open_history
from logist.store.segments import (
    HistorySegment,
    broken_link_error,
    find_later_segments,
    find_missing_segments,
    has_own_header,
    segment_path,
)

NAMED = 20
"""The most problems and stretches that are listed: a damaged history may have a million."""

_BAD = "the entry failed verification"
_OUT_OF_PLACE = "the entry is complete, but does not follow the previous one"


class Stretch(NamedTuple):
    """Interactions from `first` to `last`, both included."""

    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first} to {self.last}"


class Proof(NamedTuple):
    """Which part of a history verifies, and which does not."""

    problems: tuple[HistoryProblem, ...] = ()
    trusted: Stretch | None = None
    """The entries from the first one on that verify and form a chain; None if there are none."""
    first_bad: HistoryProblem | None = None
    """The first entry that does not verify; its sequence is None if the first line of the file is damaged."""
    whole: tuple[Stretch, ...] = ()
    """Entries after the first bad one: complete, but not proven to belong to the chain."""
    position: Position | None = None
    """The last proven entry."""
    end: int = 0
    """Byte after it."""
    ending: HistoryProblem | None = None
    """What the next append repairs: an interrupted append, or an incomplete closing."""

    @property
    def faults(self) -> tuple[HistoryProblem, ...]:
        """The problems that the next append does not repair."""
        return tuple(problem for problem in self.problems if problem != self.ending)

    @property
    def next_sequence(self) -> int:
        """The number of the entry after the proven ones."""
        return self.trusted.last + 1 if self.trusted else 1


def lost_entries_problem(head: Position, found: Proof) -> HistoryProblem:
    """The problem that the state covers entries which its history does not have."""
    if head.sequence < found.next_sequence:
        message = f"state.json belongs to a different history: its interaction {head.sequence} differs from this one"
        return HistoryProblem(message, head.sequence, head.offset, ProblemKind.STATE_FILE)
    lost = Stretch(found.next_sequence, head.sequence)
    message = f"{'interaction' if lost.first == lost.last else 'interactions'} {lost} not found,"
    return HistoryProblem(f"{message} but included in state.json", found.next_sequence, found.end)


def _ignore_entry(entry: JsonObject) -> None:
    """The default for `each`: do nothing."""


def examine_history(path: Path, each: Callable[[JsonObject], None] = _ignore_entry) -> Proof:
    """Verify the history at `path` and return all findings; `each` is called with every proven entry, in order.

    The segments below the live file come first. After a damaged segment, entries can only be complete, not
    proven.
    """
    try:
        with open_history(path) as file:
            try:
                header = read_header(file, path)
            except (Damaged, Refused) as error:
                return _examine_without_header(file, HistoryProblem(error.message, offset=0))
            segments_proof = _examine_segments(path, header, each)
            if not segments_proof.problems:
                proven = _join_proofs(segments_proof, _examine_live_file(file, header, each))
                others = (*_find_later_segments(path, header), *_find_changed_headers(path, header))
                return proven._replace(problems=(*proven.problems, *others))
            return _extend_broken_proof(segments_proof, _examine_live_file(file, header, _ignore_entry))
    except Damaged as error:
        return Proof((HistoryProblem(error.message, offset=0),))


def _examine_segments(path: Path, live: Header, each: Callable[[JsonObject], None]) -> Proof:
    """Verify the segments below the live file, all that exist."""
    proven = Position(0, None, 0)
    problems: list[HistoryProblem] = []
    whole: tuple[Stretch, ...] = ()
    gaps = (
        {first: (last, message) for first, last, message in find_missing_segments(path, live)}
        if live.segment > 1
        else {}
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
        damage = _read_segment(segment, each if intact else _ignore_entry)
        end = segment.position or Position(0, None, 0)
        if intact:
            proven = end
        elif 0 < segment.first <= end.sequence:
            whole = _add_stretch(whole, Stretch(segment.first, end.sequence))
        if damage:
            problems.append(HistoryProblem(damage, end.sequence + 1 if intact or segment.first else None))
        number += 1
    if live.segment > 1 and not problems and proven[:2] != live.start_position()[:2]:
        error = broken_link_error(path, segment_path(path, live.segment - 1), live.start_position(), proven)
        problems = [HistoryProblem(error.message, proven.sequence + 1)]
    trusted, position = (Stretch(1, proven.sequence), proven) if proven.sequence else (None, None)
    return Proof(tuple(problems), trusted, problems[0] if problems else None, whole, position)


def _find_later_segments(path: Path, live: Header) -> Iterator[HistoryProblem]:
    """Detect that the live file is an older one put in place: there are segments above it.

    The live file is read again first, because a writer may close segments meanwhile.
    """
    if numbers := find_later_segments(path, live.segment):
        with open_history(path) as file:
            current = read_header(file, path).segment
        if numbers := [number for number in numbers if number > current]:
            name = segment_path(path, numbers[-1]).name
            yield HistoryProblem(
                f"{name} exists, but {path.name} is only segment {current}: it is an older copy without the later interactions"
            )


def _find_changed_headers(path: Path, live: Header) -> Iterator[HistoryProblem]:
    """Find segments with a gzip header that Logist did not write.

    Every interaction in them verifies, but the file was changed.
    """
    for number in range(1, live.segment):
        if not has_own_header(path, number):
            name = segment_path(path, number).name
            yield HistoryProblem(f"{name}: the gzip header was changed; the interactions in it are intact")


def _read_segment(segment: HistorySegment, each: Callable[[JsonObject], None]) -> str | None:
    """Read a segment to its end; return its problem, None if there is none."""
    try:
        for entry in segment:
            each(entry)
    except (Damaged, Refused) as error:
        return error.message
    return None


def _join_proofs(older: Proof, live: Proof) -> Proof:
    """What is proven from the first entry on, when no segment is damaged."""
    if older.trusted is None:
        return live
    if live.trusted is None:
        return live._replace(trusted=older.trusted, position=older.position)
    return live._replace(trusted=Stretch(older.trusted.first, live.trusted.last))


def _extend_broken_proof(older: Proof, live: Proof) -> Proof:
    """Add the live file to a proof with a damaged segment: its entries count as complete, not as proven."""
    whole = older.whole
    for stretch in (*filter(None, [live.trusted]), *live.whole):
        whole = _add_stretch(whole, stretch)
    problems = (*older.problems, *live.problems)[: NAMED + 1]
    return older._replace(problems=problems, whole=whole, ending=live.ending)


def _add_stretch(whole: tuple[Stretch, ...], more: Stretch) -> tuple[Stretch, ...]:
    if whole and whole[-1].last + 1 == more.first:
        return (*whole[:-1], Stretch(whole[-1].first, more.last))
    return (*whole, more) if len(whole) < NAMED else whole


def _examine_live_file(file: BinaryIO, header: Header, each: Callable[[JsonObject], None]) -> Proof:
    before, end, size = header.start_position(), header.size, -1
    # The file may be in the middle of an append; if it has grown since, read on.
    while size != (size := os.fstat(file.fileno()).st_size):
        seek_afresh(file, end)
        for line in read_lines(file):
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
    closing = read_closing(file, end)
    if closing == CLOSING:
        return proven
    if closing is not None:
        message = "the closing line is incomplete; the next append repairs it"
        ending = HistoryProblem(message, before.sequence + 1, end)
        return proven._replace(problems=(ending,), ending=ending)
    return _examine_rest(proven, file, _Rest(before, end, header.first_sequence))


def _examine_rest(proven: Proof, file: BinaryIO, rest: _Rest) -> Proof:
    seek_afresh(file, proven.end)
    for line in read_lines(file):
        rest.check_line(line)
    size = file.tell() - proven.end
    if rest.holds_an_entry or describe_excess(size):
        problems = rest.list_problems()
        return proven._replace(problems=problems, first_bad=problems[0], whole=tuple(rest.whole))
    message = f"{format_count(size, 'byte')} of an incomplete append; the next append saves a copy in logs/"
    torn = rest.start._replace(message=message)
    return proven._replace(problems=(torn,), ending=torn)


def _examine_without_header(file: BinaryIO, problem: HistoryProblem) -> Proof:
    """Collect complete entries of a history without a valid first line; nothing of it is proven."""
    rest = _Rest(Position(0, None, 0), 0, 1)
    file.seek(0)
    for line in read_lines(file):
        rest.check_line(line)
    return Proof((problem,), first_bad=problem, whole=tuple(rest.whole))


class _Rest:
    """What follows the last proven entry."""

    def __init__(self, before: Position, offset: int, first: int) -> None:
        self.holds_an_entry = False
        """A complete entry: then this is damage, not an interrupted append (see history.HistoryScan)."""
        self.whole: list[Stretch] = []
        self._before, self._offset, self._first = before, offset, first
        self.start = HistoryProblem(_BAD, before.sequence + 1, offset)
        self._problems: list[HistoryProblem] = []
        self._more = 0
        self._lines = 0

    def check_line(self, line: bytes) -> None:
        """Check the next line."""
        bare = line.removeprefix(b",").removesuffix(b"\n")
        entry = _parse_sealed_entry(bare)
        self._lines += 1
        if read_entry(line, self._before, self._first) is None and line.strip() not in CLOSINGS:
            self._add_problem(entry)
        self.holds_an_entry |= is_complete_entry(line, next_one=self._lines == 1)
        if entry:
            self._extend_complete_stretches(entry["sequence"])
            self._before = Position(entry["sequence"], entry["checksum"], self._offset)
        else:
            # A good next line refers to the checksum that this line claims.
            claimed = bare[-66:-2].decode("ascii", "replace")
            self._before = Position(self._before.sequence + 1, claimed, self._offset)
        self._offset += len(line)

    def _add_problem(self, entry: JsonObject | None) -> None:
        if len(self._problems) == NAMED:
            self._more += 1
            return
        self._problems.append(
            HistoryProblem(_OUT_OF_PLACE if entry else _BAD, self._before.sequence + 1, self._offset)
        )

    def _extend_complete_stretches(self, sequence: int) -> None:
        if self.whole and sequence == self.whole[-1].last + 1:
            self.whole[-1] = Stretch(self.whole[-1].first, sequence)
        elif len(self.whole) < NAMED:
            self.whole.append(Stretch(sequence, sequence))

    def list_problems(self) -> tuple[HistoryProblem, ...]:
        """The entries that do not verify or do not follow; of many, the first
        ones and the number of the rest.
        """
        more = [
            HistoryProblem(f"{format_count(self._more, 'more entry')}: verification failed, or out of order")
        ] * bool(self._more)
        return (*(self._problems or [self.start]), *more)


def _parse_sealed_entry(bare: bytes) -> JsonObject | None:
    """Parse the entry of a line whose checksum is correct, whatever its number."""
    if verify_line(bare) is None:
        return None
    try:
        entry = json.loads(bare)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) and isinstance(entry.get("sequence"), int) else None
