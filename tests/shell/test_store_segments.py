"""A history in several files: what a rotation leaves at every moment, and that every reader sees one history."""

from __future__ import annotations

import errno
import gzip
import json
import os
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.errors import Damaged, NewerFormat, StorageError
from logist.store import JobDir, Position, files, segments
from logist.store.settled_state import load_settled_state
from tests import support
from tests.support import examples

pytestmark = pytest.mark.disk

Json = dict[str, Any]
NOW = 1
"""Bytes at which whatever there is gets closed."""


class Killed(BaseException):
    """As a SIGKILL: nobody catches it."""


@pytest.fixture
def job(tmp_path: Path) -> JobDir:
    return make(tmp_path)


def make(folder: Path, name: str = "job") -> JobDir:
    with JobDir.create_job(folder, name) as job:
        pass
    return job


def commit(job: JobDir, *texts: str, at: int = NOW, state: bool = True, **how: Any) -> Position:
    """What a command does: load, append, write the state (or be killed before that)."""
    loaded = job.load()
    entries = [{"kind": "ask", "text": text} for text in texts]
    position = job.append_entries(loaded.position, entries, loaded.torn, rotate_at=at, **how).position
    if state:
        job.write_state({"version": 1, "head": position._asdict()})
    return position


def long(folder: Path, name: str = "job", files: int = 4) -> JobDir:
    """Two entries in each of so many files."""
    job = make(folder, name)
    for number in range(files):
        commit(job, f"{name} {2 * number + 1}")
        commit(job, f"{name} {2 * number + 2}", at=0)
    return job


def texts(job: JobDir) -> list[str]:
    return [entry["text"] for entry in job.read_entries()]


def segment(job: JobDir, number: int) -> Path:
    return job.path / f"jobHistory.{number}.json.gz"


def names(job: JobDir) -> list[str]:
    """The files of the history."""
    return sorted(path.name for path in job.path.iterdir() if "History" in path.name)


def numbered(count: int, name: str = "job") -> list[str]:
    return [f"{name} {number}" for number in range(1, count + 1)]


def test_a_rotation_closes_the_file_and_begins_the_next_one_with_the_entry(job: JobDir) -> None:
    first = commit(job, "one")
    live = job.history_file.read_bytes()
    second = commit(job, "two")
    assert gzip.decompress(segment(job, 1).read_bytes()) == live
    header = f'{{"version":1,"segment":2,"first_sequence":2,"previous":"{first.hash}","interactions": [\n'
    whole = job.history_file.read_bytes()
    assert whole.startswith(header.encode() + b'{"sequence":2,')
    assert second == Position(2, second.hash, len(header))
    assert json.loads(whole)["interactions"][0]["previous"] == first.hash
    assert names(job) == ["jobHistory.1.json.gz", "jobHistory.json"]
    assert segment(job, 1).stat().st_mode & 0o777 == 0o600


def test_a_person_reads_each_segment_with_zcat_and_jq(tmp_path: Path) -> None:
    job = long(tmp_path)
    read = [json.loads(gzip.decompress(segment(job, number).read_bytes())) for number in (1, 2, 3)]
    read.append(json.loads(job.history_file.read_bytes()))
    assert [document["segment"] for document in read] == [1, 2, 3, 4]
    assert [entry for document in read for entry in document["interactions"]] == list(job.read_entries())


def test_all_readers_see_one_history(tmp_path: Path) -> None:
    job = long(tmp_path)
    before = support.tree(job.path)
    entries = list(job.read_entries())
    assert [entry["text"] for entry in entries] == numbered(8)
    assert [entry["sequence"] for entry in entries] == list(range(1, 9))
    assert [entry["previous"] for entry in entries] == [None, *(e["checksum"] for e in entries[:-1])]
    proven: list[Json] = []
    found = job.examine_history(proven.append)
    assert (found.problems, found.trusted, proven) == ((), (1, 8), entries)
    assert (job.verify(), job.load().entries) == ([], [])
    assert load_settled_state(str(job.path)) == job.read_state()
    assert support.tree(job.path) == before


def test_the_same_history_gives_the_same_segments(tmp_path: Path) -> None:
    one, other = long(tmp_path / "a"), long(tmp_path / "b")
    assert support.tree(one.path) | {"lock": b""} == support.tree(other.path) | {"lock": b""}


@pytest.mark.parametrize(("at", "closed"), [(0, False), (1, True), (-1, True), (1_000_000, False)])
def test_it_is_the_size_before_the_append_that_decides(job: JobDir, at: int, closed: bool) -> None:
    commit(job, "one")
    size = job.history_file.stat().st_size - len("]}\n")
    commit(job, "two", at=at if at >= 0 else size)
    assert segment(job, 1).exists() == closed
    commit(job, "three", at=job.history_file.stat().st_size + 1)
    assert len(names(job)) == 1 + closed
    assert texts(job) == ["one", "two", "three"]


def test_an_append_of_nothing_and_one_to_an_empty_file_close_nothing(job: JobDir) -> None:
    commit(job, state=False)
    commit(job, "one")
    commit(job)
    assert names(job) == ["jobHistory.json"]


def test_several_entries_of_one_append_stay_together(job: JobDir) -> None:
    commit(job, "one", "two")
    commit(job, "three", "four", "five", replace_below=0)
    live = json.loads(job.history_file.read_bytes())
    assert [entry["text"] for entry in live["interactions"]] == ["three", "four", "five"]
    assert (texts(job), job.verify()) == (["one", "two", "three", "four", "five"], [])


@pytest.mark.parametrize("end", [b'\n,{"sequence":2,"te', b"", b"\n", b"\n]", b"\n]}\n\n"])
def test_an_end_that_was_cut_off_is_kept_apart_and_the_segment_is_whole(job: JobDir, end: bytes) -> None:
    commit(job, "one")
    whole = job.history_file.read_bytes()
    job.history_file.write_bytes(whole[: -len(b"\n]}\n")] + end)
    commit(job, "two")
    assert gzip.decompress(segment(job, 1).read_bytes()) == whole
    assert list(support.tree(job.logs).values()) == ([end[1:]] if b"seq" in end else [])
    assert (texts(job), job.verify()) == (["one", "two"], [])


@pytest.mark.parametrize("seen", range(9))
def test_a_state_of_whatever_age_is_brought_up_to_the_end(tmp_path: Path, seen: int) -> None:
    job = long(tmp_path)
    end = job.load().position
    places = list(positions(job))
    job.write_state({"version": 1, "head": places[seen - 1]._asdict() if seen else None})
    loaded = job.load()
    assert [entry["text"] for entry in loaded.entries] == numbered(8)[seen:]
    assert loaded.position == end
    assert job.verify() == []
    assert (load_settled_state(str(job.path)) is None) == (seen < 8)
    job.state_file.unlink()
    assert len(job.load().entries) == 8


def positions(job: JobDir) -> Iterator[Position]:
    """Where each entry lies in its own file."""
    for number in (1, 2, 3, None):
        data = gzip.decompress(segment(job, number).read_bytes()) if number else job.history_file.read_bytes()
        offset = 0
        for line in data.splitlines(keepends=True):
            if b'"checksum"' in line:
                entry = json.loads(line.removeprefix(b","))
                yield Position(entry["sequence"], entry["checksum"], offset)
            offset += len(line)


@pytest.mark.parametrize(
    ("seen", "wrong"),
    [
        *((seen, {"hash": "0" * 64}) for seen in (1, 4, 6)),
        *((seen, {"offset": 5}) for seen in (1, 4)),
        *((4, {"sequence": sequence}) for sequence in (0, -3, 2, 5)),
    ],
)
def test_a_state_that_has_seen_another_entry_of_a_segment_is_damage(
    tmp_path: Path, seen: int, wrong: Json
) -> None:
    job = long(tmp_path)
    place = list(positions(job))[seen - 1]._asdict()
    job.write_state({"version": 1, "head": place | wrong})
    with pytest.raises(Damaged):
        job.load()
    assert len(job.verify()) == 1


def test_a_load_reads_no_segment(tmp_path: Path) -> None:
    job = long(tmp_path)
    for number in (1, 2, 3):
        segment(job, number).unlink()
    assert job.load().entries == []
    commit(job, "more", at=0)
    assert job.load().position.sequence == 9


# Killed, without room, failing


def killed_at(
    monkeypatch: pytest.MonkeyPatch, name: str, nth: int, error: BaseException
) -> Callable[[], int]:
    """The nth call of os.NAME raises from now on; returns how many calls were made."""
    real, count = getattr(os, name), 0

    def call(*args: Any, **more: Any) -> Any:
        nonlocal count
        count += 1
        if count == nth:
            raise error
        return real(*args, **more)

    monkeypatch.setattr(os, name, call)
    return lambda: count


CALLS = [("rename", 1), ("rename", 2), *(("fsync", n) for n in range(1, 5)), *(("pwrite", n) for n in (1, 2))]


@pytest.mark.parametrize(("name", "nth"), CALLS)
def test_a_rotation_that_is_killed_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, nth: int
) -> None:
    """Before each call that makes something durable; the fourth fsync is that of the new file's name."""
    job = long(tmp_path)
    with monkeypatch.context() as patch:
        killed_at(patch, name, nth, Killed())
        with pytest.raises(Killed):
            commit(job, "job 9")
    done = (name, nth) == ("fsync", 4)
    expected = numbered(8 + done)
    loaded = job.load()
    assert (texts(job), len(loaded.entries), job.verify()) == (expected, int(done), [])
    with job.hold_lock(command="job step", since="2026-01-02T03:04:05Z"):
        commit(job, f"job {len(expected) + 1}")
    commit(job, f"job {len(expected) + 2}")
    assert (texts(job), job.verify()) == (numbered(len(expected) + 2), [])
    assert not [name for name in os.listdir(job.path) if name.startswith(".")]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG])
@pytest.mark.parametrize(("name", "nth"), [("pwrite", 1), ("pwrite", 2), ("rename", 1), ("rename", 2)])
def test_without_room_for_a_rotation_the_entry_goes_to_the_end_of_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, nth: int, error: int
) -> None:
    job = long(tmp_path)
    with monkeypatch.context() as patch:
        killed_at(patch, name, nth, OSError(error, os.strerror(error)))
        commit(job, "job 9")
    assert (texts(job), job.verify()) == (numbered(9), [])
    assert names(job) == [*(segment(job, number).name for number in (1, 2, 3)), "jobHistory.json"]
    commit(job, "job 10")
    assert segment(job, 4).exists()
    assert (texts(job), job.verify()) == (numbered(10), [])


@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_a_flush_that_fails_is_final_and_nothing_told_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    job = long(tmp_path)
    monkeypatch.setattr(files, "_unsynced", [])
    with monkeypatch.context() as patch:
        killed_at(patch, "fsync", nth, OSError(errno.EIO, "I/O error"))
        with pytest.raises(StorageError):
            commit(job, "job 9")
    with pytest.raises(StorageError, match=r"refusing to write: flushing .* has failed"):
        commit(job, "job 10")
    files._unsynced.clear()
    assert texts(job) == numbered(8 + (nth == 4))
    assert job.verify() == []


def test_what_does_not_verify_is_not_put_away(tmp_path: Path) -> None:
    """It would be out of reach for whoever mends it; a command that only appends goes on."""
    job = long(tmp_path)
    data = job.history_file.read_bytes()
    job.history_file.write_bytes(data.replace(b"job 7", b"job x"))
    commit(job, "job 9")
    assert not segment(job, 4).exists()
    assert [problem.sequence for problem in job.verify()] == [7]


def test_a_left_over_of_a_rotation_is_written_again_by_the_next_one(tmp_path: Path) -> None:
    job = long(tmp_path)
    segment(job, 4).write_bytes(segment(job, 1).read_bytes())
    assert (texts(job), job.verify()) == (numbered(8), [])
    commit(job, "job 9")
    assert (texts(job), job.verify()) == (numbered(9), [])


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.booleans(), st.booleans()), max_size=8))
@settings(max_examples=examples(12), deadline=None)
def test_wherever_it_is_rotated_the_history_is_the_same(moves: list[tuple[int, bool, bool, bool]]) -> None:
    with TemporaryDirectory() as name:
        place = Path(name)
        rotated, plain = make(place, "rotated"), make(place, "plain")
        made = 0
        for count, close, in_place, state in moves:
            some = [f"entry {made + number}" for number in range(count)]
            made += count
            commit(
                rotated, *some, at=NOW if close else 0, state=state, replace_below=0 if in_place else 10**6
            )
            commit(plain, *some, at=0)
        assert list(rotated.read_entries()) == list(plain.read_entries())
        assert rotated.examine_history().faults == ()
        assert rotated.load().position[:2] == plain.load().position[:2]


# Readers that hold no lock


@pytest.mark.parametrize("read", [0, 1, 3, 6, 8])
def test_a_reader_without_the_lock_sees_one_history_whatever_is_closed_meanwhile(
    tmp_path: Path, read: int
) -> None:
    job = long(tmp_path)
    reader = job.read_entries()
    seen = [next(reader)["text"] for _ in range(read)]
    for number in range(9, 12):
        commit(job, f"job {number}")
    seen += [entry["text"] for entry in reader]
    assert seen == numbered(8 if read else 11)


def test_a_reader_meets_a_writer_between_state_and_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has read the state and then finds a file that begins after it."""
    job, other = long(tmp_path), JobDir(tmp_path / "job", "job")
    real = files.read_bytes
    added: list[int] = []

    def read(path: Path) -> bytes | None:
        data = real(path)
        if path == job.state_file and not added:
            added.extend((9, 10))
            for number in added:
                commit(other, f"job {number}")
        return data

    monkeypatch.setattr(files, "read_bytes", read)
    loaded = job.load()
    assert [entry["text"] for entry in loaded.entries] == ["job 9", "job 10"]
    assert loaded.position == other.load().position


def test_a_verify_meets_a_writer_of_the_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads the file once: another one may lie there a moment later."""
    job, real, count = long(tmp_path), files.read_bytes, 0

    def read(path: Path) -> bytes | None:
        nonlocal count
        data, count = real(path), count + 1
        job.write_state({"version": 1, "head": head, "count": count})
        return data

    head = (job.read_state() or {})["head"]
    monkeypatch.setattr(files, "read_bytes", read)
    assert job.verify() == []
    assert count > 0


# Damage


def flipped(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def bomb() -> bytes:
    """A line without an end: 32 MB in 140 KB."""
    press = zlib.compressobj(1, zlib.DEFLATED, 31)
    block = b"x" * (1 << 20)
    return b"".join(press.compress(block) for _ in range(32)) + press.flush()


def rewritten(data: bytes, old: bytes, new: bytes) -> bytes:
    text = gzip.decompress(data)
    assert old in text
    return gzip.compress(text.replace(old, new, 1))


WRONG: dict[str, Callable[[bytes, JobDir], bytes]] = {
    "is cut off": lambda data, other: data[: len(data) // 2],
    "has lost its last byte": lambda data, other: data[:-1],
    "is empty": lambda data, other: b"",
    "is no gzip": lambda data, other: b"not a gzip file at all",
    "is not packed": lambda data, other: gzip.decompress(data),
    "is followed by a byte": lambda data, other: data + b"\0",
    "is followed by another": lambda data, other: data + data,
    "is another segment": lambda data, other: segment(other, 3).read_bytes(),
    "is of another job": lambda data, other: segment(other, 2).read_bytes(),
    "has another text": lambda data, other: rewritten(data, b"job 3", b"job x"),
    "has another first line": lambda data, other: rewritten(data, b'"segment":2', b'"segment":3'),
    "has a worse first line": lambda data, other: rewritten(data, b'"segment":2', b'"segmend":2'),
    "has no end": lambda data, other: rewritten(data, b"\n]}\n", b"\n"),
    "has a longer end": lambda data, other: rewritten(data, b"\n]}\n", b"\n]}\n\n"),
    "lacks an entry": lambda data, other: gzip.compress(
        b"".join(gzip.decompress(data).splitlines(keepends=True)[:2]) + b"]}\n"
    ),
    "has no entry": lambda data, other: gzip.compress(
        gzip.decompress(data).splitlines(keepends=True)[0] + b"]}\n"
    ),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_a_segment_that_is_not_as_it_was_is_damage_that_names_it(
    tmp_path: Path, change: Callable[[bytes, JobDir], bytes]
) -> None:
    job, other = long(tmp_path), long(tmp_path, "oth")
    path = segment(job, 2)
    path.write_bytes(change(path.read_bytes(), other))
    before = support.tree(job.path)
    with pytest.raises((Damaged, StorageError)) as caught:
        list(job.read_entries())
    assert "jobHistory.2.json.gz" in caught.value.message + str(caught.value.where)
    assert "jobHistory.2.json.gz" in str(caught.value.fix)
    found = job.examine_history()
    assert any("jobHistory.2.json.gz" in problem.message for problem in found.problems)
    assert found.trusted is not None
    assert found.trusted.first == 1
    assert found.trusted.last in (2, 3, 4)
    assert found.first_bad is not None
    assert found.first_bad.sequence == found.trusted.last + 1
    assert str(found.whole[-1]) in ("5 to 8", "6 to 8", "7 to 8")
    assert support.tree(job.path) == before
    assert job.load().entries == []


@pytest.mark.parametrize("kind", ["nothing", "a directory", "a pipe", "a link"])
def test_what_is_no_file_is_not_read(tmp_path: Path, kind: str) -> None:
    job = long(tmp_path)
    path = segment(job, 2)
    aside = path.rename(tmp_path / "aside.gz")
    if kind == "a directory":
        path.mkdir()
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a link":
        path.symlink_to(aside)
    with pytest.raises(Damaged, match=r"jobHistory\.2\.json\.gz") as caught:
        list(job.read_entries())
    wanted = (
        "if the link leads to the right file, put the file in its place: "
        if kind == "a link"
        else "restore jobHistory.2.json.gz"
    )
    assert str(caught.value.fix).startswith(wanted)
    assert (job.examine_history().trusted, *map(str, job.examine_history().whole)) == ((1, 2), "5 to 8")


@pytest.mark.deep
def test_every_bit_of_a_segment_is_guarded(tmp_path: Path) -> None:
    """But for those that unpack to the same bytes, behind the header: what fills the last byte, mostly."""
    job = long(tmp_path, files=2)
    path, silent = segment(job, 1), []
    data = path.read_bytes()
    for at in range(len(data)):
        for bit in range(8):
            path.write_bytes(flipped(data, at, bit))
            if not job.examine_history().problems:
                silent.append(at)
    assert [at for at in silent if at < 10] == []
    assert len([at for at in silent if at != len(data) - 9]) < 4


@pytest.mark.parametrize("field", ["flags", "time", "level", "system"])
def test_a_changed_gzip_header_is_damage_and_the_interactions_are_still_proven(
    tmp_path: Path, field: str
) -> None:
    job = long(tmp_path)
    path, entries = segment(job, 2), list(job.read_entries())
    path.write_bytes(flipped(path.read_bytes(), {"flags": 3, "time": 4, "level": 8, "system": 9}[field], 0))
    found = job.examine_history()
    assert [problem.message for problem in found.problems] == [
        "jobHistory.2.json.gz: the gzip header was changed; the interactions in it are intact"
    ]
    assert (found.trusted, found.first_bad, found.whole) == ((1, 8), None, ())
    assert list(job.read_entries()) == entries


def test_a_segment_is_written_as_zlib_wrote_it_in_earlier_versions(tmp_path: Path) -> None:
    path = segment(long(tmp_path), 1)
    press = zlib.compressobj(6, zlib.DEFLATED, 31)
    assert path.read_bytes() == press.compress(gzip.decompress(path.read_bytes())) + press.flush()


def test_a_segment_of_a_later_version_says_so(tmp_path: Path) -> None:
    job = long(tmp_path)
    path = segment(job, 2)
    path.write_bytes(rewritten(path.read_bytes(), b'"version":1', b'"version":2'))
    with pytest.raises(
        NewerFormat, match=r"jobHistory\.2\.json\.gz: the history was written by a newer Logist"
    ):
        list(job.read_entries())
    assert "job format 2" in job.verify()[0].message


def test_a_live_file_that_does_not_follow_its_segments_is_damage(tmp_path: Path) -> None:
    job, other = long(tmp_path), long(tmp_path, "other")
    for theirs in (other.history_file.read_bytes(), gzip.decompress(segment(job, 3).read_bytes())):
        whole = job.history_file.read_bytes()
        job.history_file.write_bytes(theirs)
        assert job.verify()
        with pytest.raises(Damaged):
            list(job.read_entries())
        job.history_file.write_bytes(whole)
    assert job.verify() == []


def test_several_faults_are_told_at_once_and_what_is_whole_between_them(tmp_path: Path) -> None:
    job = long(tmp_path, files=8)
    for number in (2, 3, 6):
        segment(job, number).unlink()
    segment(job, 5).write_bytes(rewritten(segment(job, 5).read_bytes(), b"job 10", b"job xx"))
    found = job.examine_history()
    assert [problem.message for problem in found.problems] == [
        "jobHistory.2.json.gz to jobHistory.3.json.gz are missing",
        "jobHistory.5.json.gz: interaction 10 failed verification",
        "jobHistory.6.json.gz is missing",
    ]
    assert [problem.sequence for problem in found.problems] == [3, 10, None]
    assert (found.trusted, [str(each) for each in found.whole]) == ((1, 2), ["7 to 9", "13 to 16"])


def test_a_first_line_that_claims_a_billion_segments_is_damage_at_once(tmp_path: Path) -> None:
    job = long(tmp_path)
    data = job.history_file.read_bytes()
    job.history_file.write_bytes(data.replace(b'"segment":4', b'"segment":4000000000', 1))
    job.state_file.unlink()
    assert [problem.message for problem in job.examine_history().problems] == [
        "jobHistory.4.json.gz to jobHistory.3999999999.json.gz are missing"
    ]
    with pytest.raises(Damaged, match=r"jobHistory\.4\.json\.gz is missing"):
        job.load()


def test_what_unpacks_without_end_is_given_up(job: JobDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "LONGEST", 1 << 20)
    commit(job, "one")
    commit(job, "two")
    segment(job, 1).write_bytes(bomb())
    tracemalloc.start()
    try:
        with pytest.raises(Damaged, match=r"jobHistory\.1\.json\.gz"):
            list(job.read_entries())
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_history(job: JobDir) -> None:
    chance = Random(7)
    for _ in range(8):
        commit(job, *(chance.randbytes(1500).hex() for _ in range(100)))
    assert len(names(job)) == 8
    tracemalloc.start()
    try:
        assert sum(1 for _ in job.read_entries()) == 800
        assert job.verify() == []
        loaded = job.load()
        job.append_entries(loaded.position, [{"text": "last"}], rotate_at=NOW)
        assert tracemalloc.get_traced_memory()[1] < 1_500_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("behind", [1, 2])
def test_where_an_older_file_was_put_back_no_segment_is_written_over(tmp_path: Path, behind: int) -> None:
    job = long(tmp_path)
    older = segment(job, 4 - behind)
    kept = {name: (job.path / name).read_bytes() for name in names(job) if name.endswith(".gz")}
    job.history_file.write_bytes(gzip.decompress(older.read_bytes())[: -len(b"]}\n")])
    lines = job.history_file.read_bytes().splitlines(keepends=True)
    job.history_file.write_bytes(b"".join(lines[:-1]) + b"]}\n")
    job.state_file.unlink()
    commit(job, "elsewhere", at=1)
    assert {name: (job.path / name).read_bytes() for name in kept} == kept
    assert texts(job)[-1] == "elsewhere"
    told = [problem.message for problem in job.verify()]
    assert told == [] if behind == 1 else "an older copy without the later interactions" in told[0]
