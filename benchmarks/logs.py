"""Four ways to keep a log on disk, each with one durable `append`: what durability.py sets side by side."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from logist.store import JobDir, Position
from logist.store.entries import CLOSING, format_header, seal_entry

Json = dict[str, Any]

ENTRY = {"kind": "ask", "text": "An interaction of one kilobyte, more or less. " * 17}


def lines(entries: Iterable[Json]) -> Iterator[tuple[bytes, str]]:
    """The lines of a history and their checksums, chained as the product chains them."""
    previous: str | None = None
    for sequence, entry in enumerate(entries, 1):
        complete, line = seal_entry(entry, sequence, previous)
        previous = complete["checksum"]
        yield (b"," if sequence > 1 else b"") + line + b"\n", complete["checksum"]


def write_history(path: Path, entries: Iterable[Json]) -> Position:
    """A whole history at once; where it ends."""
    offset, position = len(format_header()), Position(0, None, 0)
    with open(path, "wb") as file:
        file.write(format_header())
        for line, checksum in lines(entries):
            position = Position(position.sequence + 1, checksum, offset)
            offset += file.write(line)
        file.write(CLOSING)
        file.flush()
        os.fsync(file.fileno())
    return position


class Logist:
    """The product: by rename below the threshold, in place above."""

    def __init__(self, place: Path, count: int) -> None:
        self.job = JobDir(place, "j")
        self.position = write_history(self.job.history_file, (ENTRY for _ in range(count)))

    def append(self) -> None:
        self.position = self.job.append_entries(self.position, [ENTRY]).position


class Rewrite:
    """A JSON file that is read, added to, and put back by rename."""

    def __init__(self, place: Path, count: int) -> None:
        self.path = place / "whole.json"
        self.path.write_text(json.dumps([ENTRY] * count), "utf-8")

    def append(self) -> None:
        entries = json.loads(self.path.read_bytes())
        entries.append(ENTRY)
        beside = self.path.with_suffix(".new")
        with open(beside, "wb") as file:
            file.write(json.dumps(entries).encode())
            file.flush()
            os.fsync(file.fileno())
        beside.rename(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


class JsonLines:
    """A line for each entry, at the end of a file that stays open."""

    def __init__(self, place: Path, count: int) -> None:
        self.path = place / "log.jsonl"
        self.line = json.dumps(ENTRY).encode() + b"\n"
        with open(self.path, "wb") as file:
            file.writelines(self.line for _ in range(count))
        self.fd = os.open(self.path, os.O_WRONLY | os.O_APPEND)

    def append(self) -> None:
        os.write(self.fd, self.line)
        os.fsync(self.fd)


class Sqlite:
    """A row for each entry, over a connection that stays open: WAL, synchronous=FULL."""

    def __init__(self, place: Path, count: int) -> None:
        self.base = sqlite3.connect(place / "log.sqlite")
        self.base.execute("PRAGMA journal_mode=WAL")
        self.base.execute("PRAGMA synchronous=FULL")
        self.base.execute("CREATE TABLE log (sequence INTEGER PRIMARY KEY, entry TEXT)")
        text = json.dumps(ENTRY)
        with self.base:
            self.base.executemany("INSERT INTO log (entry) VALUES (?)", ((text,) for _ in range(count)))
        self.base.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def append(self) -> None:
        with self.base:
            self.base.execute("INSERT INTO log (entry) VALUES (?)", (json.dumps(ENTRY),))


OTHERS = {"whole-file rewrite": Rewrite, "JSON Lines, fsync": JsonLines, "SQLite, WAL, full": Sqlite}
