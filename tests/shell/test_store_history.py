"""jobHistory.json: its format, durable appends, and what is left when one is cut anywhere."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logist.errors import Damaged, Refused, StorageError
from logist.store import REPLACE_BELOW, JobDir, LoadedJob, Position, entries
from tests import support

pytestmark = pytest.mark.disk

HEADER = b'{"version":1,"segment":1,"first_sequence":1,"previous":null,"interactions": [\n'
IN_PLACE = 0
STRANGE = 'a\u2028b\u2029c\x00\x1b\x7f\x85\r\n\t"\\]}\n,{ \U0001f600'


@pytest.fixture
def job(tmp_path: Path) -> JobDir:
    return make(tmp_path)


def make(folder: Path, name: str = "job") -> JobDir:
    with JobDir.create_job(folder, name) as job:
        pass
    return job


def commit(job: JobDir, *texts: str, below: int = REPLACE_BELOW, state: bool = True) -> Position:
    """What a command does: load, append, write the state (or crash before that)."""
    loaded = job.load()
    entries = [{"kind": "ask", "text": text} for text in texts]
    position = job.append_entries(loaded.position, entries, loaded.torn, replace_below=below).position
    if state:
        job.write_state({"version": 1, "head": position._asdict()})
    return position


def texts(job: JobDir) -> list[str]:
    return [entry["text"] for entry in job.read_entries()]


def after_state(loaded: LoadedJob) -> list[str]:
    return [entry["text"] for entry in loaded.entries]


def lines(job: JobDir) -> list[bytes]:
    return job.history_file.read_bytes().split(b"\n")


def test_an_empty_history_is_a_header_and_a_closing_line(job: JobDir) -> None:
    assert job.history_file.read_bytes() == HEADER + b"]}\n"
    assert job.load() == LoadedJob(None, [], Position(0, None, len(HEADER)), b"")
    assert list(job.read_entries()) == []


@pytest.mark.parametrize("below", [REPLACE_BELOW, IN_PLACE])
def test_the_format_is_the_documented_one(job: JobDir, below: int) -> None:
    for text in ("one", "two", "three"):
        commit(job, text, below=below)
    first, *entries, last, nothing = lines(job)
    assert (first + b"\n", last, nothing) == (HEADER, b"]}", b"")
    assert [line[:1] for line in entries] == [b"{", b",", b","]
    previous = None
    for number, line in enumerate((line.removeprefix(b",") for line in entries), start=1):
        entry = json.loads(line)
        assert list(entry) == ["sequence", "kind", "text", "previous", "checksum"]
        assert (entry["sequence"], entry["previous"]) == (number, previous)
        assert line == json.dumps(entry, separators=(",", ":")).encode()
        without = line.replace(b',"checksum":"%b"' % entry["checksum"].encode(), b"")
        assert entry["checksum"] == hashlib.sha256(without).hexdigest()
        previous = entry["checksum"]
    whole = json.loads(job.history_file.read_bytes())
    assert whole["interactions"] == list(job.read_entries())


def test_both_ways_to_append_write_the_same_bytes(tmp_path: Path) -> None:
    replaced, in_place = make(tmp_path, "a"), make(tmp_path, "b")
    for text in ("one", STRANGE, "three"):
        commit(replaced, text)
        commit(in_place, text, below=IN_PLACE)
    assert replaced.history_file.read_bytes() == in_place.history_file.read_bytes()


def test_an_append_in_place_keeps_the_file_and_a_replacing_one_does_not(job: JobDir) -> None:
    before = job.history_file.stat().st_ino
    commit(job, "one", below=IN_PLACE)
    assert job.history_file.stat().st_ino == before
    with job.history_file.open("rb"):  # kept open, so that its number is not given away again
        commit(job, "two")
        assert job.history_file.stat().st_ino != before


def test_it_is_the_size_after_the_append_that_decides(job: JobDir) -> None:
    commit(job, "x" * 500)
    with job.history_file.open("rb") as kept:
        number = os.fstat(kept.fileno()).st_ino
        commit(job, "y" * 500, below=1000)
        assert job.history_file.stat().st_ino == number
        commit(job, "z", below=100_000)
        assert job.history_file.stat().st_ino != number


def test_earlier_lines_never_change(job: JobDir) -> None:
    seen: list[bytes] = []
    for number in range(6):
        commit(job, f"entry {number}", below=IN_PLACE if number % 2 else REPLACE_BELOW)
        now = lines(job)[:-2]
        assert now[: len(seen)] == seen
        seen = now


def test_unknown_fields_and_strange_text_come_back_as_they_were(job: JobDir) -> None:
    entry = {"text": STRANGE, "future": {"深": [1.5, None, True, 10**30]}, "": STRANGE}
    loaded = job.load()
    [written] = job.append_entries(loaded.position, [entry]).entries
    [read] = job.load().entries
    assert read == written
    assert {key: read[key] for key in entry} == entry
    assert len(job.history_file.read_bytes().split(b"\n")) == 4


def test_sequence_and_chain_are_the_stores_to_give(job: JobDir) -> None:
    forged = {"checksum": "x", "previous": "y", "sequence": 7, "text": "t"}
    [entry] = job.append_entries(job.load().position, [forged]).entries
    assert (entry["sequence"], entry["previous"], len(entry["checksum"])) == (1, None, 64)


@pytest.mark.parametrize("below", [REPLACE_BELOW, IN_PLACE])
def test_several_entries_are_one_append(job: JobDir, below: int) -> None:
    commit(job, "one", below=below)
    loaded = job.load()
    done = job.append_entries(loaded.position, [{"text": "two"}, {"text": "three"}], replace_below=below)
    data = job.history_file.read_bytes()
    assert [entry["sequence"] for entry in done.entries] == [2, 3]
    assert [data[offset : offset + 14] for offset in done.offsets] == [b',{"sequence":2', b',{"sequence":3']
    assert done.position == Position(3, done.entries[-1]["checksum"], done.offsets[-1])
    assert "offset" not in done.entries[0]
    assert after_state(job.load()) == ["two", "three"]
    assert job.load().position == done.position


def test_several_entries_never_go_in_place(job: JobDir) -> None:
    """The later one could reach the disk without the earlier one, which would look like damage."""
    with job.history_file.open("rb") as kept:
        commit(job, "one", "two", below=IN_PLACE)
        assert job.history_file.stat().st_ino != os.fstat(kept.fileno()).st_ino


@pytest.mark.parametrize("value", ["\ud800", float("nan"), float("inf"), 10**5000], ids="abcd")
def test_what_cannot_be_read_back_is_not_written(job: JobDir, value: object) -> None:
    before = support.tree(job.path)
    with pytest.raises(StorageError, match="can't store"):
        job.append_entries(job.load().position, [{"text": value}])
    assert support.tree(job.path) == before


def test_a_history_that_went_on_refuses_an_append_to_its_old_end(job: JobDir) -> None:
    old = job.load().position
    commit(job, "one")
    before = support.tree(job.path)
    for position in (old, Position(1, "0" * 64, len(HEADER)), Position(9, "0" * 64, 10**6)):
        with pytest.raises(Refused, match="has changed"):
            job.append_entries(position, [{"text": "two"}])
    with pytest.raises(Refused, match="has changed"):
        job.append_entries(job.load().position, [{"text": "two"}], b"a tail that is not there")
    assert support.tree(job.path) == before


def test_a_crash_between_append_and_state_leaves_the_entry_to_be_folded(job: JobDir) -> None:
    commit(job, "one")
    commit(job, "two", state=False)
    commit(job, "three", state=False)
    loaded = job.load()
    assert loaded.state is not None
    assert loaded.state["head"]["sequence"] == 1
    assert after_state(loaded) == ["two", "three"]
    commit(job, "four")
    assert job.load().entries == []
    assert texts(job) == ["one", "two", "three", "four"]


def test_without_a_state_the_history_is_read_from_the_start(job: JobDir) -> None:
    commit(job, "one")
    commit(job, "two")
    job.state_file.unlink()
    assert after_state(job.load()) == ["one", "two"]


def test_a_state_that_has_seen_nothing_gets_everything(job: JobDir) -> None:
    commit(job, "one", state=False)
    job.write_state({"head": None})
    assert after_state(job.load()) == ["one"]


def cut_appends(before: bytes, after: bytes, part: int) -> bytes:
    """The file when an in-place append was cut after `part` bytes."""
    end = len(before) - len(b"]}\n")
    written = after[end : end + part]
    return before[:end] + written + before[end + part :]


@pytest.mark.deep_beyond(2)
@pytest.mark.parametrize("with_state", [True, False])
@pytest.mark.parametrize("below", [REPLACE_BELOW, IN_PLACE])
@pytest.mark.parametrize("acknowledged", [0, 2])
def test_an_append_cut_at_any_byte_loses_nothing_and_invents_nothing(
    job: JobDir, acknowledged: int, below: int, with_state: bool
) -> None:
    kept = [f"kept {number}" for number in range(acknowledged)]
    for text in kept:
        commit(job, text, state=with_state)
    before = job.history_file.read_bytes()
    commit(job, "cut", state=False)
    after = job.history_file.read_bytes()
    complete = len(after) - len(before)
    state = job.state_file.read_bytes() if acknowledged and with_state else None
    for part in range(complete + len(b"]}\n") + 1):
        torn = cut_appends(before, after, part)
        job.history_file.write_bytes(torn)
        restore(job.state_file, state)
        expected = kept + ["cut"] * (part >= complete - 1)
        assert check_recovery(job, expected, below), f"cut after {part} bytes: {torn!r}"


def restore(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(data)


def check_recovery(job: JobDir, expected: list[str], below: int) -> bool:
    """Reads what is expected without writing a byte, and the next append makes the file whole."""
    torn_file = job.history_file.read_bytes()
    loaded = job.load()
    assert texts(job) == expected
    assert job.history_file.read_bytes() == torn_file
    assert not job.logs.is_dir() or not list(job.logs.iterdir())
    position = job.append_entries(
        loaded.position, [{"text": "next"}], loaded.torn, replace_below=below
    ).position
    job.write_state({"head": position._asdict()})
    saved = b"".join(path.read_bytes() for path in job.logs.iterdir())
    assert saved == loaded.torn
    for path in job.logs.iterdir():
        path.unlink()
    json.loads(job.history_file.read_bytes())
    assert job.verify() == []
    return texts(job) == [*expected, "next"]


def test_a_replacement_cut_at_any_byte_is_as_if_it_had_not_begun(job: JobDir) -> None:
    commit(job, "one")
    before = job.history_file.read_bytes()
    commit(job, "two", state=False)
    after = job.history_file.read_bytes()
    job.history_file.write_bytes(before)
    half = job.path / ".jobHistory.json.0123456789ab.new"
    for part in range(len(after) + 1):
        half.write_bytes(after[:part])
        assert job.load().entries == []
    with job.hold_lock(command="job step", since="2026-01-02T03:04:05Z"):
        assert not half.exists()
    assert texts(job) == ["one"]


@pytest.mark.deep
@pytest.mark.parametrize("with_state", [True, False])
def test_pages_of_an_append_that_reached_the_disk_in_any_order_are_a_torn_tail(
    job: JobDir, with_state: bool
) -> None:
    """A power cut during one big append in place: each page is old, new, or a hole."""
    page, text = 64, "two " + "x" * 40
    commit(job, "one", state=with_state)
    before = job.history_file.read_bytes()
    commit(job, text, state=False)
    after = job.history_file.read_bytes()
    end, line = len(before) - len(b"]}\n"), lines(job)[2] + b"\n"
    for shift in range(page):
        inner = [cut for cut in range(shift, len(after), page) if cut > end]
        pieces = list(itertools.pairwise([end, *inner, len(after)]))
        for arrived in itertools.product([True, False], repeat=len(pieces)):
            old = before.ljust(len(after), b"\0")
            parts = [(after if new else old)[a:b] for (a, b), new in zip(pieces, arrived, strict=True)]
            job.history_file.write_bytes(after[:end] + b"".join(parts))
            loaded, history = job.load(), texts(job)
            assert history == (["one", text] if b"".join(parts).startswith(line) else ["one"])
            assert loaded.position.sequence == len(history)


def test_a_torn_tail_is_kept_before_it_is_cut_and_never_over_another(job: JobDir) -> None:
    commit(job, "one")
    whole = job.history_file.read_bytes()
    for tail in (b',{"sequence":2,"te', b',{"sequence":2,"ot', b',{"sequence":2,"te'):
        job.history_file.write_bytes(whole[:-3] + tail)
        loaded = job.load()
        assert loaded.torn == tail
        job.append_entries(loaded.position, [{"text": "two"}], loaded.torn, replace_below=IN_PLACE)
    assert support.tree(job.logs) == {
        "torn-2-2.txt": b',{"sequence":2,"ot',
        "torn-2.txt": b',{"sequence":2,"te',
    }
    assert texts(job) == ["one", "two"]


def test_a_torn_tail_longer_than_the_next_append_leaves_nothing_behind(job: JobDir) -> None:
    commit(job, "one")
    whole = job.history_file.read_bytes()
    job.history_file.write_bytes(whole[:-3] + b',{"sequence":2,"text":"' + b"long " * 200)
    commit(job, "two", below=IN_PLACE)
    assert json.loads(job.history_file.read_bytes())["interactions"][-1]["text"] == "two"
    assert job.verify() == []


@pytest.mark.parametrize("closing", [b"", b"]", b"]}", b"\n", b"]}\n\n", b"\n]}", b"]}\r\n"])
@pytest.mark.parametrize("below", [REPLACE_BELOW, IN_PLACE])
def test_a_closing_line_that_is_not_whole_is_mended_by_the_next_append(
    job: JobDir, closing: bytes, below: int
) -> None:
    commit(job, "one")
    whole = job.history_file.read_bytes()
    job.history_file.write_bytes(whole[:-3] + closing)
    assert job.load().torn == b""
    assert texts(job) == ["one"]
    commit(job, "two", below=below)
    assert job.verify() == []
    assert texts(job) == ["one", "two"]
    assert list(job.logs.iterdir()) == []


@pytest.mark.parametrize("below", [REPLACE_BELOW, IN_PLACE])
def test_an_entry_whose_newline_is_gone_is_kept(job: JobDir, below: int) -> None:
    commit(job, "one")
    job.history_file.write_bytes(job.history_file.read_bytes()[: -len(b"\n]}\n")])
    assert job.load().entries == []
    commit(job, "two", below=below)
    assert job.verify() == []
    assert texts(job) == ["one", "two"]


def damage(job: JobDir, before: bytes, after: bytes) -> None:
    data = job.history_file.read_bytes()
    assert data.count(before) == 1
    job.history_file.write_bytes(data.replace(before, after))


@pytest.mark.parametrize("with_state", [True, False])
def test_damage_in_the_middle_is_not_taken_for_a_torn_tail(job: JobDir, with_state: bool) -> None:
    commit(job, "one", state=with_state)
    for text in ("two", "three"):
        commit(job, text, state=False)
    damage(job, b'"two"', b'"owt"')
    before = support.tree(job.path)
    with pytest.raises(Damaged, match=r"interaction 2 .* a complete interaction follows"):
        job.load()
    with pytest.raises(Damaged):
        list(job.read_entries())
    with pytest.raises(Damaged):
        job.append_entries(
            Position(1, json.loads(lines(job)[1])["checksum"], len(HEADER)), [{"text": "four"}]
        )
    assert support.tree(job.path) == before


def test_an_entry_of_another_history_is_damage(job: JobDir, tmp_path: Path) -> None:
    other = make(tmp_path, "other")
    for target, first in ((job, "one"), (other, "eno")):
        commit(target, first, state=False)
        commit(target, "two", state=False)
    own, foreign = lines(job), lines(other)
    job.history_file.write_bytes(b"\n".join([*own[:2], foreign[2], *own[3:]]))
    with pytest.raises(Damaged, match="interaction 2"):
        job.load()
    assert [problem.sequence for problem in job.verify()] == [2, None]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_line_that_was_taken_out_is_damage(job: JobDir, number: int) -> None:
    for text in ("one", "two", "three", "four"):
        commit(job, text, state=False)
    kept = [line for at, line in enumerate(lines(job)) if at != number]
    job.history_file.write_bytes(b"\n".join(kept))
    with pytest.raises(Damaged):
        job.load()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"two"', b'"owt"'),
        (b'\n,{"sequence":2', b'\n-{"sequence":2'),
        (b'\n,{"sequence":2', b' ,{"sequence":2'),
    ],
)
def test_a_head_that_does_not_verify_is_damage(job: JobDir, before: bytes, after: bytes) -> None:
    commit(job, "one")
    commit(job, "two")
    damage(job, before, after)
    with pytest.raises(Damaged, match="interaction 2") as caught:
        job.load()
    assert caught.value.where == str(job.history_file)
    assert caught.value.fix


def test_a_state_ahead_of_the_history_is_damage(job: JobDir) -> None:
    commit(job, "one")
    whole = job.history_file.read_bytes()
    commit(job, "two")
    job.history_file.write_bytes(whole)
    with pytest.raises(Damaged, match="interaction 2"):
        job.load()
    with pytest.raises(Damaged, match="interaction 2"):
        list(job.read_entries())
    assert [problem.sequence for problem in job.verify()] == [2]


@pytest.mark.parametrize("head", [{"sequence": 2}, {"hash": "0" * 64}, {"offset": 3}, {"offset": 0}])
def test_a_state_that_names_another_place_is_damage(job: JobDir, head: dict[str, Any]) -> None:
    position = commit(job, "one")
    job.write_state({"head": position._asdict() | head})
    with pytest.raises(Damaged):
        job.load()
    assert job.verify() != []


@pytest.mark.parametrize("data", [b"", b"\n", b"[]", b'{"interactions": []}\n', HEADER[:-1], b"\xff\x00"])
def test_a_history_without_its_first_line_is_damage(job: JobDir, data: bytes) -> None:
    job.history_file.write_bytes(data)
    before = support.tree(job.path)
    for read in (job.load, lambda: list(job.read_entries())):
        with pytest.raises(Damaged, match="first line"):
            read()
    assert job.verify() != []
    assert support.tree(job.path) == before


def test_a_missing_history_is_damage(job: JobDir) -> None:
    commit(job, "one")
    job.history_file.unlink()
    with pytest.raises(Damaged, match="missing"):
        job.load()
    assert [problem.message for problem in job.verify()] == ["the history is missing"]


def test_a_history_of_a_later_version_says_so(job: JobDir) -> None:
    damage(job, b'{"version":1', b'{"version":2')
    with pytest.raises(Refused, match="job format 2") as caught:
        job.load()
    assert caught.value.fix is not None
    assert "newer" in caught.value.fix


def test_a_later_segment_goes_on_where_the_one_before_ended(job: JobDir) -> None:
    position = commit(job, "one")
    header = HEADER.replace(b'"segment":1,"first_sequence":1', b'"segment":2,"first_sequence":2')
    header = header.replace(b"null", b'"%b"' % str(position.hash).encode())
    job.history_file.write_bytes(header + b"]}\n")
    assert job.load().position == Position(1, position.hash, len(header))
    commit(job, "two")
    assert job.history_file.read_bytes().startswith(header + b'{"sequence":2,')
    job.write_state({"head": {**position._asdict(), "hash": "0" * 64}})
    with pytest.raises(Damaged):
        job.load()


def test_a_symbolic_link_in_the_place_of_the_history_is_not_followed(job: JobDir, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    job.history_file.rename(target)
    job.history_file.symlink_to(target)
    with pytest.raises(Damaged, match="is a symbolic link") as caught:
        job.load()
    when, _, command = str(caught.value.fix).partition(": ")
    assert when == "if the link leads to the right file, put the file in its place"
    assert " -" not in command  # macOS has few of the options of GNU
    subprocess.run(["sh", "-c", command], check=True)
    assert not job.history_file.is_symlink()
    job.load()
    job.history_file.unlink()
    job.history_file.symlink_to("nowhere")
    with pytest.raises(Damaged, match="is a symbolic link") as caught:
        job.load()
    assert str(caught.value.fix).startswith("restore jobHistory.json from a backup")


A_FEW_BUFFERS = 4 * io.DEFAULT_BUFFER_SIZE + 60_000
"""Bytes, of a history of five million. A buffer has 8 KiB up to Python 3.13, and 128 KiB from 3.14 on."""


def read_by_this_process() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def test_loading_reads_only_the_end_of_a_long_history(job: JobDir) -> None:
    commit(job, *(f"entry {number} {'x' * 500}" for number in range(10_000)))
    commit(job, "last", state=False)
    assert job.history_file.stat().st_size > REPLACE_BELOW
    before = read_by_this_process()
    loaded = job.load()
    assert read_by_this_process() - before < A_FEW_BUFFERS
    assert after_state(loaded) == ["last"]
    assert loaded.position.sequence == 10_001


def test_appending_to_a_long_history_does_not_read_or_write_it_again(job: JobDir) -> None:
    commit(job, *(f"entry {number} {'x' * 500}" for number in range(10_000)))
    before = read_by_this_process()
    commit(job, "last")
    assert read_by_this_process() - before < A_FEW_BUFFERS
    assert job.verify() == []


FULL = """
import resource, sys
from pathlib import Path
from logist.errors import StorageError
from logist.store import JobDir
job = JobDir.open(Path(sys.argv[1]), "job")
room, below = int(sys.argv[2]), int(sys.argv[3])
loaded = job.load()
size = job.history_file.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, resource.RLIM_INFINITY))
try:
    job.append_entries(loaded.position, [{"text": "x" * 300}], loaded.torn, replace_below=below)
except StorageError as error:
    print(error.where, error.fix, sep="\\n")
"""


@pytest.mark.parametrize("below", [REPLACE_BELOW, IN_PLACE])
@pytest.mark.parametrize("room", [0, 1, 2, 100, 400])
def test_a_write_that_finds_no_room_leaves_the_history_as_it_was(
    job: JobDir, tmp_path: Path, room: int, below: int
) -> None:
    commit(job, "one")
    before = support.tree(job.path)
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path), str(room), str(below)],
        env=support.process_environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=support.CRASHED,
    )
    where, fix = done.stdout.splitlines()
    assert where == str(job.history_file)
    assert "ulimit" in fix
    assert support.tree(job.path) == before
    commit(job, "two", below=below)
    assert texts(job) == ["one", "two"]


READER = """
import json, sys
path, reads = sys.argv[1], 0
print("ready", flush=True)
while True:
    with open(path, "rb") as file:
        data = file.read()
    count = len(json.loads(data)["interactions"])
    reads += 1
    if count == int(sys.argv[2]):
        break
print(reads)
"""


def test_readers_without_the_lock_always_see_valid_json(job: JobDir) -> None:
    command = [sys.executable, "-c", READER, str(job.history_file), "60"]
    env = support.process_environment()
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        for number in range(60):
            commit(job, f"entry {number}")
        out, _ = reader.communicate(timeout=support.CRASHED)
    assert reader.returncode == 0
    assert int(out) > 0


SYNCS = """
import os, sys
from pathlib import Path
from logist.store import JobDir
counted = []
def watch(frame, event, what):
    if event == "c_call" and what is os.fsync:
        counted.append(1)
def fsyncs(call, *args, **options):
    counted.clear()
    sys.setprofile(watch)
    call(*args, **options)
    sys.setprofile(None)
    return len(counted)
job = JobDir.open(Path(sys.argv[1]), "job")
print(fsyncs(job.append_entries, job.load().position, [{"text": "one"}]))
print(fsyncs(job.append_entries, job.load().position, [{"text": "two"}], replace_below=0))
print(fsyncs(job.write_state, {"head": job.load().position._asdict()}))
print(fsyncs(job.begin_exchange, 1, {}))
print(fsyncs(job.begin_exchange, 2, {}))
print(fsyncs(job.mark_sent, 1))
print(fsyncs(job.save_response, 1, {}))
print(fsyncs(lambda: (job.load(), list(job.read_entries()), job.verify(), job.read_exchanges(), job.find_lock_holder())))
"""


def test_each_write_costs_no_more_flushes_than_it_must(job: JobDir, tmp_path: Path) -> None:
    command = [sys.executable, "-c", SYNCS, str(tmp_path)]
    env = support.process_environment()
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "1", "2", "3", "2", "1", "2", "0"]


@pytest.mark.parametrize("damage", ["an entry in the middle", "the first line behind a closing"])
def test_what_stands_behind_a_bad_entry_is_not_held_in_memory(job: JobDir, damage: str) -> None:
    commit(job, "one")
    whole = job.history_file.read_bytes()
    bad = b"]}\n" if damage.startswith("the first") else b',{"sequence":2,"text":"changed"}\n'
    more = b"".join(b',{"sequence":%d,"text":"%b"}\n' % (n, b"x" * 3000) for n in range(3, 800))
    _, line = entries.seal_entry({"text": "whole"}, 800, None)
    job.history_file.write_bytes(whole[:-3] + bad + more + b"," + line + b"\n]}\n")
    readers: list[Callable[[], object]] = [lambda: list(job.read_entries()), job.load]
    tracemalloc.start()
    try:
        for read in readers:
            with pytest.raises(Damaged, match="a complete interaction follows it"):
                read()
        assert tracemalloc.get_traced_memory()[1] < 1_000_000 < len(more)
    finally:
        tracemalloc.stop()


def test_a_reader_does_not_hold_what_was_cut_off(job: JobDir) -> None:
    commit(job, "one")
    whole = job.history_file.read_bytes()
    job.history_file.write_bytes(whole[:-3] + b"\0" * 100 + (b"torn" * 250 + b"\n") * 2_000)
    tracemalloc.start()
    try:
        assert texts(job) == ["one"]
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()
    assert len(job.load().torn) == 2_002_100


def test_more_than_an_append_writes_is_damage_and_no_torn_tail(
    job: JobDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "MOST_TORN", 2_000)
    commit(job, "one")
    whole = job.history_file.read_bytes()[:-3]
    job.history_file.write_bytes(whole + b"\0" * 2_000)
    assert job.examine_history().faults == ()
    job.history_file.write_bytes(whole + b"\0" * 2_001)
    for read in (job.load, lambda: list(job.read_entries())):
        with pytest.raises(Damaged, match="2,001 more bytes follow, too many for one interrupted write"):
            read()
    assert [problem.sequence for problem in job.examine_history().faults] == [2]


def test_an_entry_that_could_not_be_read_again_is_not_written(
    job: JobDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "LONGEST", 2_000)
    commit(job, "one", "x" * 1_700)
    before = job.history_file.read_bytes()
    with pytest.raises(StorageError, match="2,115 bytes, the limit is 2,000 bytes"):
        commit(job, "x" * 2_000)
    assert job.history_file.read_bytes() == before
    assert len(texts(job)) == 2
