"""What `job verify` finds in the files: every bit that changed, every tail that was cut."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from logist.errors import Damaged
from logist.store import JobDir
from tests import support


@pytest.fixture
def job(tmp_path: Path) -> JobDir:
    """Three entries, and a state that has seen them all."""
    with JobDir.creating(tmp_path, "job") as job:
        loaded = job.load()
        entries = [{"text": text} for text in ("one", "t\u2028w\x01o", "three")]
        position = job.append(loaded.position, entries).position
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


def test_every_bit_of_the_history_is_guarded(job: JobDir) -> None:
    for at, flipped in bit_flips(job.history_file.read_bytes()):
        job.history_file.write_bytes(flipped)
        assert job.verify(), f"a bit of byte {at}"


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


def test_a_torn_tail_is_told_and_left_alone(job: JobDir) -> None:
    data = job.history_file.read_bytes()
    job.history_file.write_bytes(data[:-3] + b',{"sequence":4,')
    [problem] = job.verify()
    assert (problem.sequence, problem.offset) == (4, len(data) - 3)
    assert "15 bytes of an append that was cut off" in problem.message
    assert job.history_file.read_bytes() == data[:-3] + b',{"sequence":4,'


def test_a_missing_state_is_told(job: JobDir) -> None:
    job.state_file.unlink()
    [problem] = job.verify()
    assert "state.json is missing" in problem.message


def test_a_state_that_was_only_laid_out_anew_is_told_but_still_good(job: JobDir) -> None:
    job.state_file.write_text(json.dumps(json.loads(job.state_file.read_bytes())))
    assert job.load().entries == []
    [problem] = job.verify()
    assert "not as Logist wrote it" in problem.message


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_a_state_that_does_not_read_is_damage_with_a_way_out(job: JobDir, data: bytes) -> None:
    job.state_file.write_bytes(data)
    for read in (job.read_state, job.load, lambda: list(job.entries())):
        with pytest.raises(Damaged, match=r"state\.json is not") as caught:
            read()
        assert caught.value.where == str(job.state_file)
        assert f"mv {job.state_file}" in (caught.value.fix or "")
    job.state_file.rename(job.path / "state.json.damaged")
    assert len(job.load().entries) == 3


@pytest.mark.parametrize("change", [{"version": 2}, {"extra": 1}, {"text": "\ud800"}, {"checksum": None}])
def test_a_state_that_was_edited_is_damage(job: JobDir, change: dict[str, object]) -> None:
    state = json.loads(job.state_file.read_bytes()) | change
    job.state_file.write_text(json.dumps(state))
    assert job.read_state() == state
    with pytest.raises(Damaged, match="does not verify"):
        job.load()


@pytest.mark.parametrize("head", [{}, [], 7, {"sequence": "1", "hash": "x", "offset": 1}])
def test_a_state_without_a_readable_head_is_damage(job: JobDir, head: object) -> None:
    job.write_state({"head": head})
    with pytest.raises(Damaged, match="does not say"):
        job.load()
