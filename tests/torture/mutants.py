"""Deliberate bugs in the protocol, to show that the simulator detects them; and harmless variants.

`python -m tests.torture.mutants NAME,NAME ARGS...` is `logist ARGS...` with these variants.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from logist.agents.courier import process
from logist.core.history import fold
from logist.jobs.base import session as sessions
from logist.jobs.base import stored_records
from logist.store import JobDir, entries, files, flushing, history, inflight, segments
from logist.workspace import git
from tests.torture.recording import ANSWERED

Swap = tuple[Any, str, Any]
"""An object, the name of one of its attributes, and the replacement."""


def in_place() -> list[Swap]:
    """Not a bug: every append is made in place, as in a history above the threshold."""
    return [(JobDir.append_entries, "__kwdefaults__", {"replace_below": 0, "rotate_at": 0})]


def rotating() -> list[Swap]:
    """Not a bug: every append closes the history and begins a new file."""
    append = JobDir.append_entries

    def closing(self: JobDir, position: Any, added: Any, torn: bytes = b"", **more: Any) -> Any:
        return append(self, position, added, torn, **more | {"rotate_at": 1})

    return [(JobDir, "append_entries", closing)]


def own_courier() -> list[Swap]:
    """Not a bug: the courier runs inside the command, so that the variants affect it too."""

    def launch(job: JobDir, lock: Any, private: Any, environment: Any, server: Any = None) -> Any:
        status = process._run_errand(job, private, io.StringIO())
        os.write(1, ANSWERED)
        return SimpleNamespace(exit_status=status, has_ended=lambda seconds: True)

    return [(process, "launch_courier", launch)]


def flushed_at_once() -> list[Swap]:
    """Not a bug: a new job is flushed by one call, however much other programs have written."""
    return [(flushing, "_is_one_flush_quicker", lambda folder, bulk: True)]


def flushed_one_by_one() -> list[Swap]:
    """Not a bug: each file and directory of a new job is flushed separately, as on a busy machine."""
    return [(flushing, "_is_one_flush_quicker", lambda folder, bulk: False)]


def new_job_not_flushed() -> list[Swap]:
    """A new job gets its name before it is flushed."""
    return [(flushing, "flush_tree", lambda folder, bulk: None)]


def new_job_half_flushed() -> list[Swap]:
    """Before a new job gets its name, its files are flushed, but not its directories."""
    flush, one_by_one = flushing._flush_path, flushed_one_by_one()
    return [*one_by_one, (flushing, "_flush_path", lambda path: None if path.is_dir() else flush(path))]


def no_file_sync() -> list[Swap]:
    """A file is renamed into place without being flushed."""
    return [(files, "fsync", _only(stat.S_ISDIR))]


def no_sync_in_place() -> list[Swap]:
    """An append in place is not flushed."""
    return [(files, "fsync", _only(stat.S_ISDIR))]


def no_directory_sync() -> list[Swap]:
    """A rename is not flushed."""
    return [(files, "fsync", _only(stat.S_ISREG))]


def _only(kind: Callable[[int], bool]) -> Callable[[int, Path], None]:
    def fsync(fd: int, path: Path) -> None:
        if kind(os.fstat(fd).st_mode):
            os.fsync(fd)

    return fsync


def trailing_comma() -> list[Swap]:
    """An entry gets its comma when the next one is appended: a finished line is written again."""
    whole, block_of = history._write_in_place, history._seal_block

    def content(line: bytes, sequence: int, first_sequence: int) -> bytes | None:
        bare = line.removesuffix(b"\n").removesuffix(b",")
        return bare if bare.startswith(b'{"sequence":%d,' % sequence) else None

    def block(added: Any, after: Any, offset: int, first_sequence: int) -> Any:
        comma = after.sequence >= first_sequence
        data, done = block_of(added, after, offset + comma, after.sequence + 1)
        return data.replace(b"\n,", b",\n") if len(added) > 1 else data, done

    def write_in_place(path: Path, end: int, lead: bytes, data: bytes, **more: Any) -> None:
        first = data.startswith(b'{"sequence":1,')
        whole(path, end if first else end - 1, lead, data if first else b",\n" + data, **more)

    return [
        (entries, "extract_sealed_bytes", content),
        (history, "extract_sealed_bytes", content),
        (history, "_seal_block", block),
        (history, "_write_in_place", write_in_place),
    ]


def no_checksum() -> list[Swap]:
    """A line that looks complete is accepted without verification."""

    def checksum_of(line: bytes) -> str | None:
        seal = line[-entries._SEAL :]
        whole = seal.startswith(entries._MEMBER) and seal.endswith(b'"}')
        return seal[len(entries._MEMBER) : -2].decode("ascii", "replace") if whole else None

    return [(entries, "verify_line", checksum_of), (history, "verify_line", checksum_of)]


def no_chain() -> list[Swap]:
    """An entry is accepted whatever previous entry it names."""
    read = entries.read_entry

    def read_entry(line: bytes, before: entries.Position, first_sequence: int) -> Any:
        marker = b'"previous":"'
        start = line.rfind(marker) + len(marker)
        told = line[start : start + 64].decode("ascii", "replace") if start >= len(marker) else before.hash
        return read(line, before._replace(hash=told), first_sequence)

    return [(history, "read_entry", read_entry)]


def segment_last() -> list[Swap]:
    """The new file of a history replaces the old one before the segment is created from it."""
    waiting: list[Callable[[], None]] = []
    write, replace = segments.write_segment, files.replace_file

    def later(path: Path, number: int, chunks: Any) -> None:
        data = list(chunks)
        waiting.append(lambda: write(path, number, data))

    def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
        replace(path, data, mode)
        while path.name == "jobHistory.json" and waiting:
            waiting.pop()()

    return [
        (segments, "write_segment", later),
        (history, "_require_end", lambda segment, expected: None),
        (files, "replace_file", replace_file),
    ]


def state_first() -> list[Swap]:
    """state.json is written before the history that it is built from."""

    def record(self: sessions.Session, *added: Any, back: Any = None) -> Any:
        raw = [stored_records.dump_interaction(entry) for entry in added]
        path = self.job.history_file
        with history.open_history(path) as file:
            first = entries.read_header(file, path).first_sequence
            end, _, lead = history._confirm_end(file, path, self.position, self.torn)
            _, done = history._seal_block(raw, self.position, end + len(lead), first)
        for entry in done.entries:
            self.state = fold.apply_interaction(self.state, stored_records.parse_interaction(entry), back)
        before, self.position = self.position, done.position
        self.write_state()
        self.job.append_entries(before, raw, self.torn)
        self.torn = b""
        return [stored_records.parse_interaction(entry) for entry in done.entries]

    return [(sessions.Session, "record", record)]


def state_in_place() -> list[Swap]:
    """state.json is truncated and written again, instead of being replaced."""
    replace = files.replace_file

    def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
        if path.name != "state.json":
            return replace(path, data, mode)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        files.write_all(fd, data, 0)
        os.fsync(fd)
        return os.close(fd)

    return [(files, "replace_file", replace_file)]


def sent_not_durable() -> list[Swap]:
    """The request is sent before the mark `sent` is flushed."""

    def mark_sent(folder: Path, k: int) -> None:
        os.close(os.open(folder / f"{k}.sent", os.O_WRONLY | os.O_CREAT, 0o600))

    return [(inflight, "mark_exchange_sent", mark_sent)]


def answer_not_durable() -> list[Swap]:
    """An answer is renamed into place without being flushed."""

    def save_response(folder: Path, k: int, response: Any) -> None:
        (folder / "answer.new").write_bytes(files.dump_json(response))
        os.rename(folder / "answer.new", folder / f"{k}.response")

    return [(inflight, "save_response", save_response)]


def inflight_first() -> list[Swap]:
    """The files in `inflight/` are removed before the history contains the answer."""
    record = sessions.Session.record

    def forgetful(self: sessions.Session, *added: Any, back: Any = None) -> Any:
        self.job.end_exchanges()
        return record(self, *added, back=back)

    return [(sessions.Session, "record", forgetful)]


def objects_not_durable() -> list[Swap]:
    """git flushes nothing before the history names the checkpoint."""
    settings = tuple("core.fsync=none" if "core.fsync=" in each else each for each in git.SETTINGS)
    return [(git, "SETTINGS", settings)]


def object_names_not_durable() -> list[Swap]:
    """The directories of git's files are not flushed."""
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if "/git" not in os.readlink(f"/proc/self/fd/{descriptor}"):
            real(descriptor)

    return [(os, "fsync", fsync)]


def end_assumed() -> list[Swap]:
    """An append overwrites the last three bytes without a check that they are the closing."""
    confirm = history._confirm_end

    def confirm_end(file: Any, path: Path, expected: Any, torn: bytes) -> Any:
        _, tail, lead = confirm(file, path, expected, torn)
        tail.closing = entries.CLOSING
        return max(file.seek(0, os.SEEK_END) - len(entries.CLOSING), 0), tail, lead

    return [(history, "_confirm_end", confirm_end)]


class _One(list[Any]):
    """A list that says it has one element."""

    def __len__(self) -> int:
        return 1


def several_in_place() -> list[Swap]:
    """Several entries are appended in place by one write."""
    append = JobDir.append_entries

    def unguarded(self: JobDir, position: Any, added: Any, torn: bytes = b"", **more: Any) -> Any:
        return append(self, position, _One(added), torn, **more | {"replace_below": 0})

    return [(JobDir, "append_entries", unguarded)]


VARIANTS: dict[str, Callable[[], list[Swap]]] = {
    make.__name__: make
    for make in (
        in_place,
        rotating,
        own_courier,
        flushed_at_once,
        flushed_one_by_one,
        new_job_not_flushed,
        new_job_half_flushed,
        no_file_sync,
        no_sync_in_place,
        no_directory_sync,
        trailing_comma,
        no_checksum,
        no_chain,
        segment_last,
        state_first,
        state_in_place,
        sent_not_durable,
        answer_not_durable,
        inflight_first,
        objects_not_durable,
        object_names_not_durable,
        end_assumed,
        several_in_place,
    )
}
"""By name."""

HARMLESS = ("in_place", "rotating", "own_courier", "flushed_at_once", "flushed_one_by_one")


@contextmanager
def applied(names: Sequence[str]) -> Iterator[None]:
    """Apply these variants inside the block."""
    with ExitStack() as stack:
        for name in names:
            for owner, attribute, value in VARIANTS[name]():
                stack.callback(setattr, owner, attribute, getattr(owner, attribute))
                setattr(owner, attribute, value)
        yield


def main() -> None:
    """Run logist with the variants that the first argument names."""
    from logist.cli import main as logist

    sys.path.insert(0, str(Path(__file__).with_name("standin")))
    with applied(sys.argv[1].split(",")):
        logist(sys.argv[2:])


if __name__ == "__main__":
    main()
