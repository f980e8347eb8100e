"""Durable replacement: all or nothing, private, and errors that name the path."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from logist.errors import Damaged, StorageError
from logist.store import JobDir, dump_json, replace_file
from logist.store.files import make_directory, read_bytes, remove_tree
from logist.store.listing import read_glances
from logist.store.settled_state import load_settled_state
from tests import support

pytestmark = pytest.mark.disk


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
@pytest.mark.parametrize("wanted", [0o600, 0o644])
def test_a_file_has_its_mode_under_any_umask(tmp_path: Path, umask: int, wanted: int) -> None:
    os.umask(umask)
    replace_file(tmp_path / "file", b"data", wanted)
    make_directory(tmp_path / "folder")
    assert (mode(tmp_path / "file"), mode(tmp_path / "folder")) == (wanted, 0o700)


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    replace_file(tmp_path / "file", b"one")
    replace_file(tmp_path / "file", b"")
    replace_file(tmp_path / "file", b"two")
    assert support.tree(tmp_path) == {"file": b"two"}


def test_a_link_is_replaced_and_what_it_pointed_to_stays(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "file").symlink_to("target")
    replace_file(tmp_path / "file", b"new")
    assert not (tmp_path / "file").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"old"


def test_links_are_not_read_through(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"secret")
    (tmp_path / "file").symlink_to("target")
    with pytest.raises(StorageError) as caught:
        read_bytes(tmp_path / "file")
    assert "symbolic link" in (caught.value.fix or "")
    assert read_bytes(tmp_path / "none") is None


def test_what_stands_in_the_way_stays_and_the_path_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    before = support.tree(tmp_path)
    for path in (tmp_path / "folder", tmp_path / "missing" / "file"):
        with pytest.raises(StorageError, match="can't read or write") as caught:
            replace_file(path, b"data")
        assert caught.value.where == str(path)
        assert caught.value.fix
    assert support.tree(tmp_path) == before


LIMITED = """
import resource, sys
from pathlib import Path
from logist.errors import StorageError
from logist.store import replace_file
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    replace_file(Path("file"), b"x" * 101)
except StorageError as error:
    print(error)
replace_file(Path("other"), b"y" * 100)
"""


def test_a_write_cut_short_leaves_the_old_file_and_the_next_may_succeed(tmp_path: Path) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 100
    (tmp_path / "file").write_bytes(b"old")
    assert "file: can't read or write: File too large" in child(LIMITED)
    assert support.tree(tmp_path) == {"file": b"old", "other": b"y" * 100}


UNSYNCED = """
import os
from pathlib import Path
from logist.errors import StorageError
from logist.store import JobDir, files, replace_file
from logist.store.files import fsync
with JobDir.create_job(Path("jobs"), "job") as job:
    pass
job.begin_exchange(1, {})
end = job.load().position
_, pipe = os.pipe()
try:
    fsync(pipe, Path("what-cannot-be-flushed"))
except OSError as error:
    print(error.strerror)
for write in (
    lambda: replace_file(Path("file"), b"data"),
    lambda: job.append_entries(end, [{"text": "one"}]),
    lambda: job.append_entries(end, [{"text": "one"}], replace_below=0),
    lambda: job.write_state({}),
    lambda: job.mark_sent(1),
    lambda: job.save_response(1, {}),
):
    try:
        write()
    except StorageError as error:
        print(error.message)
"""


def test_a_failed_flush_is_final_for_the_process(tmp_path: Path) -> None:
    first, *others = child(UNSYNCED).splitlines()
    assert first == "Invalid argument"
    message = "refusing to write: flushing what-cannot-be-flushed to disk has failed"
    assert others == [message] * 6
    job = tmp_path / "jobs" / "job"
    assert sorted(path.name for path in job.rglob("*")) == sorted(
        ["1.request", "inflight", "jobHistory.json", "lock", "logs"]
    )
    assert (job / "jobHistory.json").read_bytes().endswith(b"[\n]}\n")
    assert not (tmp_path / "file").exists()


def child(program: str) -> str:
    command = [sys.executable, "-c", program]
    env = support.process_environment()
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return done.stdout


def test_json_is_compact_and_keeps_every_character() -> None:
    assert dump_json({"a": [1, "ü\u2028\n\x00"]}) == '{"a":[1,"ü\u2028\\n\\u0000"]}'.encode()


def test_what_is_no_json_is_refused_with_a_reason() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in ("\ud800", {"\udfff": 1}, float("nan"), deep):
        with pytest.raises(StorageError, match="can't store a value as JSON"):
            dump_json(value)
    while deep:  # taken apart by hand: dropping it at once would nest as deep
        deep = deep[0]  # type: ignore[assignment]


def test_a_tree_is_removed_without_following_its_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"kept")
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "file").write_bytes(b"")
    (tree / "a" / "link").symlink_to(outside)
    (tree / "dangling").symlink_to("nowhere")
    remove_tree(tree)
    remove_tree(tree)
    assert support.tree(tmp_path) == {"outside": None, "outside/kept": b"kept"}


def as_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, as_socket])
def test_what_is_no_file_neither_hangs_nor_crashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    with JobDir.create_job(tmp_path, "job") as job:
        pass
    monkeypatch.chdir(job.path)  # the name of a socket must be short
    make(Path("state.json"))
    for read in (job.read_state, job.load):
        with pytest.raises(Damaged, match="not a regular file") as raised:
            read()
        assert raised.value.where == str(job.state_file)
        assert "mv " in (raised.value.fix or "")
    assert next(read_glances(str(tmp_path))).problem
    assert load_settled_state(str(job.path)) is None


def test_a_pipe_in_the_place_of_the_history_does_not_hang(tmp_path: Path) -> None:
    with JobDir.create_job(tmp_path, "job") as job:
        pass
    job.history_file.unlink()
    os.mkfifo(job.history_file)
    job.write_state({"head": {"sequence": 1, "hash": "0", "offset": 3}})
    with pytest.raises(Damaged, match="not a regular file"):
        job.load()
    assert load_settled_state(str(job.path)) is None
