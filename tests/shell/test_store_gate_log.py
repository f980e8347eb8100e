"""The log of the gate's requests: durable when it says so, and readable whatever a crash has left."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from logist.errors import Damaged, StorageError
from logist.store import files, inflight
from logist.store.gate_log import LOG, GateLog, read_gate_log

FIRST = b'{"k":1,"request":{"a":1}}\n'
SENT = b'{"k":1,"sent":{}}\n'
ENDED = b'{"k":1,"response":{"b":2}}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The directory of a gate; `inflight/` exists."""
    (tmp_path / "inflight").mkdir()
    return tmp_path / "inflight" / "gate"


@pytest.fixture
def flushes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is flushed from now on."""
    names: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda fd: names.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
    )
    return names


def fail(*_: object) -> int:
    raise OSError(errno.EIO, "Input/output error")


def test_a_request_is_one_flush_before_it_is_sent_and_one_at_its_end(
    folder: Path, flushes: list[str]
) -> None:
    log = GateLog(folder)
    assert flushes == ["gate", "inflight"]  # the names of the log and of its directory
    flushes.clear()
    log.append(1, "request", {"a": 1})
    log.append(1, "sent", {})
    log.flush()
    log.append(1, "response", {"b": 2})
    log.flush()
    log.flush()  # nothing new
    assert flushes == [LOG, LOG]
    log.close()
    assert (folder / LOG).read_bytes() == FIRST + SENT + ENDED
    assert read_gate_log(folder) == {1: {"request": {"a": 1}, "sent": {}, "response": {"b": 2}}}


def test_threads_that_wait_at_the_same_time_share_a_flush(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, may_end, count = GateLog(folder), threading.Event(), [0]

    def fsync(fd: int) -> None:
        count[0] += 1
        may_end.wait()

    monkeypatch.setattr(os, "fsync", fsync)
    for k in range(1, 9):
        log.append(k, "request", {})
    written = threading.Barrier(9)

    def send(k: int) -> None:
        log.append(k, "sent", {})
        written.wait()
        log.flush()

    with ThreadPoolExecutor(8) as pool:
        sending = [pool.submit(send, k) for k in range(1, 9)]
        written.wait()
        may_end.set()
        for each in sending:
            each.result()
    log.close()
    assert count == [1]


def test_a_line_that_does_not_fit_on_the_disk_leaves_the_log_as_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, write = GateLog(folder), os.write
    log.append(1, "request", {"a": 1})

    def write_some(fd: int, data: bytes) -> int:
        if len(data) < 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data[:-9])

    with monkeypatch.context() as full:
        full.setattr(os, "write", write_some)
        with pytest.raises(StorageError, match="No space left"):
            log.append(1, "sent", {})
    assert (folder / LOG).read_bytes() == FIRST
    log.append(1, "sent", {})
    assert (folder / LOG).read_bytes() == FIRST + SENT


def test_nothing_is_written_after_half_a_line_that_could_not_be_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = GateLog(folder)
    with monkeypatch.context() as broken:
        broken.setattr(os, "write", fail)
        broken.setattr(os, "ftruncate", fail)
        with pytest.raises(StorageError, match="Input/output error"):
            log.append(1, "request", {})
    with pytest.raises(StorageError, match="an earlier write has failed"):
        log.append(1, "request", {})


def test_after_a_flush_that_failed_nothing_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = GateLog(folder)
    log.append(1, "request", {})
    monkeypatch.setattr(files, "_unsynced", [])
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match="Input/output error"):
        log.flush()
    with pytest.raises(StorageError, match="has failed"):
        log.append(1, "sent", {})


def test_a_log_with_requests_is_not_continued(folder: Path) -> None:
    GateLog(folder).close()
    GateLog(folder).append(1, "request", {})
    with pytest.raises(StorageError, match="another run"):
        GateLog(folder)


@pytest.mark.parametrize("end", range(len(ENDED)))
def test_a_last_line_that_was_cut_off_does_not_count(folder: Path, end: int) -> None:
    folder.mkdir()
    (folder / LOG).write_bytes(FIRST + SENT + ENDED[:end])
    assert read_gate_log(folder) == {1: {"request": {"a": 1}, "sent": {}}}


def test_a_last_line_with_a_page_that_never_reached_the_disk_does_not_count(folder: Path) -> None:
    folder.mkdir()
    (folder / LOG).write_bytes(FIRST + bytes(4096) + ENDED[-5:])
    assert read_gate_log(folder) == {1: {"request": {"a": 1}}}
    (folder / LOG).write_bytes(FIRST + bytes(4096) + b"\n" + SENT)
    with pytest.raises(Damaged, match="line 2 of the log of the gate is damaged"):
        read_gate_log(folder)


@pytest.mark.parametrize(
    "data",
    [
        FIRST + b"{}\n",
        FIRST + b"not JSON\n" + ENDED,
        FIRST + SENT.replace(b"sent", b"gone"),
        FIRST + SENT.replace(b"1", b"true"),
        FIRST + SENT.replace(b"1", b"2"),
        FIRST + b'{"k":1,"sent":[]}\n',
        FIRST + FIRST,
        FIRST + SENT + SENT,
        FIRST + ENDED + SENT,
        b'{"k":0,"request":{}}\n',
        b'{"k":2,"request":{}}\n',
        SENT,
        b"[" * 100_000 + b"\n",
    ],
)
def test_a_line_that_no_courier_writes_is_damage(folder: Path, data: bytes) -> None:
    folder.mkdir()
    (folder / LOG).write_bytes(data)
    with pytest.raises(Damaged, match="of the log of the gate is damaged") as caught:
        inflight.read_exchanges(folder.parent)
    assert caught.value.where == str(folder / LOG)
    assert f"mv {folder.parent} " in str(caught.value.fix)


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/dev/null"), lambda path: path.mkdir()])
def test_a_log_that_is_no_file_is_damage(folder: Path, make: Callable[[Path], object]) -> None:
    folder.mkdir()
    make(folder / LOG)
    with pytest.raises(Damaged):
        read_gate_log(folder)


def test_a_request_that_was_given_up_before_it_was_sent_has_an_end(folder: Path) -> None:
    log = GateLog(folder)
    log.append(1, "request", {})
    log.append(2, "request", {})
    log.append(1, "response", {})
    log.append(2, "sent", {})
    log.close()
    first, second = inflight.read_exchanges(folder.parent).gate
    assert (first.sent, first.response, second.sent, second.response) == (False, {}, True, None)


def test_the_flush_of_another_file_that_fails_meanwhile_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_unsynced", [])
    monkeypatch.setattr(os, "fsync", fail)
    path = tmp_path / "1.stream"
    with path.open("wb") as file:
        with (
            pytest.raises(StorageError, match="Input/output error"),
            files.flush_meanwhile(file.fileno(), path),
        ):
            pass
        with pytest.raises(StorageError, match="has failed"):
            files.require_trust(path)
