"""What `job verify` finds in the files: every bit that changed, every tail that was cut."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from logist.errors import Damaged
from logist.store import JobDir
from tests import support

pytestmark = pytest.mark.disk


@pytest.fixture
def job(tmp_path: Path) -> JobDir:
    """Three entries, and a state that has seen them all."""
    with JobDir.create_job(tmp_path, "job") as job:
        loaded = job.load()
        entries = [{"text": text} for text in ("one", "t\u2028w\x01o", "three")]
        position = job.append_entries(loaded.position, entries).position
        job.write_state({"version": 1, "cost": 1e16, "text": "a\x1fb", "head": position._asdict()})
    return job


def bit_flips(data: bytes) -> Iterator[tuple[int, bytes]]:
    for at in range(len(data)):
        for bit in range(8):
            yield at, data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def test_a_whole_job_has_no_problems(job: JobDir) -> None:
    before = support.tree(job.path)
    assert job.verify() == []
    assert support.tree(job.path) == before


@pytest.mark.deep
def test_every_bit_of_the_history_is_guarded(job: JobDir) -> None:
    for at, flipped in bit_flips(job.history_file.read_bytes()):
        job.history_file.write_bytes(flipped)
        assert job.verify(), f"a bit of byte {at}"


@pytest.mark.deep
def test_every_bit_of_the_state_is_guarded(job: JobDir) -> None:
    for at, flipped in bit_flips(job.state_file.read_bytes()):
        job.state_file.write_bytes(flipped)
        assert job.verify(), f"a bit of byte {at}"


@pytest.mark.parametrize("name", ["jobHistory.json", "state.json"])
def test_every_truncation_is_noticed(job: JobDir, name: str) -> None:
    path = job.path / name
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        assert job.verify(), f"cut to {size} bytes"


def test_every_bad_line_is_named_with_its_place(job: JobDir) -> None:
    data = job.history_file.read_bytes()
    job.history_file.write_bytes(data.replace(b"one", b"eno").replace(b"t\xe2\x80\xa8w", b"w\xe2\x80\xa8t"))
    places = [(problem.sequence, data[problem.offset or 0 :][:15]) for problem in job.verify()]
    assert places == [(1, b'{"sequence":1,"'), (2, b',{"sequence":2,')]


def test_a_missing_line_shows_where_the_chain_is_broken(job: JobDir) -> None:
    lines = job.history_file.read_bytes().split(b"\n")
    job.history_file.write_bytes(b"\n".join(lines[:2] + lines[3:]))
    first, *others = job.verify()
    assert (first.sequence, "does not follow" in first.message) == (2, True)
    assert len(others) == 1  # the state's head


def spoil(job: JobDir, number: int, old: bytes, new: bytes) -> bytes:
    """Line `number` (0 is the first of the file) changed; returns all that was before."""
    lines = job.history_file.read_bytes().split(b"\n")
    before = b"\n".join(lines)
    assert old in lines[number]
    lines[number] = lines[number].replace(old, new, 1)
    job.history_file.write_bytes(b"\n".join(lines))
    return before


def test_what_is_still_trustworthy_is_told(tmp_path: Path) -> None:
    job = long(tmp_path, 60)
    before = spoil(job, 42, b"text", b"tixt")
    found = job.examine_history()
    assert found.trusted == (1, 41)
    assert found.first_bad is not None
    assert found.first_bad[1:3] == (42, before.index(b',{"sequence":42,'))
    assert [str(stretch) for stretch in found.whole] == ["43 to 60"]
    assert len(found.problems) == 1


def test_what_verifies_around_several_faults_is_told(tmp_path: Path) -> None:
    job = long(tmp_path, 30)
    for number in (5, 6, 20):
        spoil(job, number, b"text", b"tixt")
    found = job.examine_history()
    assert (found.trusted, [str(stretch) for stretch in found.whole]) == ((1, 4), ["7 to 19", "21 to 30"])
    assert [problem.sequence for problem in found.problems] == [5, 6, 20]


def test_of_a_million_faults_the_first_are_named(tmp_path: Path) -> None:
    job = long(tmp_path, 100)
    for number in range(10, 90):
        spoil(job, number, b"text", b"tixt")
    found = job.examine_history()
    assert [problem.sequence for problem in found.problems[:20]] == list(range(10, 30))
    assert found.problems[20].message == "60 more entries: verification failed, or out of order"


def test_without_its_first_line_nothing_is_proven_but_entries_are_whole(tmp_path: Path) -> None:
    job = long(tmp_path, 9)
    spoil(job, 0, b"segment", b"sigment")
    found = job.examine_history()
    assert (found.trusted, [str(stretch) for stretch in found.whole]) == (None, ["1 to 9"])
    assert found.first_bad is not None
    assert (found.first_bad.sequence, found.first_bad.offset) == (None, 0)


def test_a_line_that_begins_like_the_closing_hides_no_damage(tmp_path: Path) -> None:
    job = long(tmp_path, 9)
    spoil(job, 5, b",{", b"]{")
    with pytest.raises(Damaged):
        list(job.read_entries())
    assert job.examine_history().first_bad is not None


def test_the_old_closing_before_a_new_entry_is_a_cut_append(tmp_path: Path) -> None:
    """Its first page did not reach the disk, all others did: nobody was told of it."""
    job = long(tmp_path, 9)
    spoil(job, 9, b",{", b"]{")
    assert len(list(job.read_entries())) == 8
    found = job.examine_history()
    assert (found.trusted, found.faults) == ((1, 8), ())
    assert found.ending is not None


def test_entries_that_the_state_has_seen_and_the_history_has_not(job: JobDir) -> None:
    lines = job.history_file.read_bytes().split(b"\n")
    job.history_file.write_bytes(b"\n".join([*lines[:2], *lines[4:]]))
    found = job.examine_history()
    assert (found.trusted, found.first_bad) == ((1, 1), found.problems[0])
    assert found.problems[0].message == "interactions 2 to 3 not found, but included in state.json"
    assert found.problems[0].sequence == 2


def test_a_state_of_another_history_is_told(job: JobDir) -> None:
    job.write_state({"head": {"sequence": 2, "hash": "0" * 64, "offset": 90}})
    [problem] = job.verify()
    assert "state.json belongs to a different history" in problem.message


@pytest.mark.parametrize("offset", [-1, 2**63 - 1, 10**30])
def test_a_place_that_no_file_has_is_damage_and_no_fault_of_the_disk(job: JobDir, offset: int) -> None:
    last = list(job.read_entries())[-1]
    job.write_state({"head": {"sequence": 3, "hash": last["checksum"], "offset": offset}})
    assert "state.json belongs to a different history" in job.verify()[0].message
    with pytest.raises(Damaged, match="not found at byte"):
        job.load()


@pytest.mark.deep
@pytest.mark.parametrize("spoiled", [False, True])
def test_the_memory_it_takes_does_not_grow_with_the_history(tmp_path: Path, spoiled: bool) -> None:
    job = long(tmp_path, 20_000)
    if spoiled:
        spoil(job, 10_000, b"text", b"tixt")
    size = job.history_file.stat().st_size
    tracemalloc.start()
    found = job.examine_history()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.first_bad is not None) is spoiled
    assert peak < size / 5


@pytest.mark.parametrize("seed", range(40))
def test_it_agrees_with_what_reading_takes_for_damage(tmp_path: Path, seed: int) -> None:
    """Whatever bytes are spoiled or cut: entries are read on if and only if nothing but the end is wrong."""
    job = long(tmp_path, 6)
    random = Random(seed)
    data = bytearray(job.history_file.read_bytes())
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(data))
        data[at : at + random.randint(1, 40)] = random.choice([b"", b"]", b"\n", b"\0" * 20, b"]}\n", b",{"])
    job.history_file.write_bytes(data)
    found = job.examine_history()
    assert found.problems
    try:
        entries = list(job.read_entries())
    except Damaged:
        assert found.faults
    else:
        assert found.faults == ()
        assert len(entries) == (found.trusted.last if found.trusted else 0)


def long(folder: Path, count: int) -> JobDir:
    """A job with so many entries, and no state."""
    with JobDir.create_job(folder, "long") as job:
        job.append_entries(job.load().position, [{"text": f"text {number}"} for number in range(count)])
    return job


def test_a_torn_tail_is_told_and_left_alone(job: JobDir) -> None:
    data = job.history_file.read_bytes()
    job.history_file.write_bytes(data[:-3] + b',{"sequence":4,')
    [problem] = job.verify()
    assert (problem.sequence, problem.offset) == (4, len(data) - 3)
    assert "15 bytes of an incomplete append" in problem.message
    assert job.history_file.read_bytes() == data[:-3] + b',{"sequence":4,'


def test_a_missing_state_is_told(job: JobDir) -> None:
    job.state_file.unlink()
    [problem] = job.verify()
    assert "state.json is missing" in problem.message


def test_a_state_that_was_only_laid_out_anew_is_told_but_still_good(job: JobDir) -> None:
    job.state_file.write_text(json.dumps(json.loads(job.state_file.read_bytes())))
    assert job.load().entries == []
    [problem] = job.verify()
    assert "changed after Logist wrote it" in problem.message


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_a_state_that_does_not_read_is_damage_with_a_way_out(job: JobDir, data: bytes) -> None:
    job.state_file.write_bytes(data)
    for read in (job.read_state, job.load, lambda: list(job.read_entries())):
        with pytest.raises(Damaged, match=r"state\.json is not") as caught:
            read()
        assert caught.value.where == str(job.state_file)
        assert caught.value.fix == "logist doctor --fix"
    job.state_file.rename(job.path / "state.json.damaged")
    assert len(job.load().entries) == 3


@pytest.mark.parametrize("change", [{"revision": 7}, {"extra": 1}, {"text": "\ud800"}, {"checksum": None}])
def test_a_state_that_was_edited_is_damage(job: JobDir, change: dict[str, object]) -> None:
    state = json.loads(job.state_file.read_bytes()) | change
    job.state_file.write_text(json.dumps(state))
    assert job.read_state() == state
    with pytest.raises(Damaged, match=r"state.json failed verification: it was changed"):
        job.load()


def test_a_version_that_was_edited_is_damage_and_no_newer_format(job: JobDir) -> None:
    job.state_file.write_text(json.dumps(json.loads(job.state_file.read_bytes()) | {"version": 2}))
    with pytest.raises(Damaged, match=r"state.json failed verification: it was changed"):
        job.load()


@pytest.mark.parametrize("head", [{}, [], 7, {"sequence": "1", "hash": "x", "offset": 1}])
def test_a_state_without_a_readable_head_is_damage(job: JobDir, head: object) -> None:
    job.write_state({"head": head})
    with pytest.raises(Damaged, match=r"state.json has no valid `head`"):
        job.load()
