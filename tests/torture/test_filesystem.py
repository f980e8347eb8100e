"""The model of a file system: what it may keep, what it must keep, and that it detects a careless writer."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.torture import mutants, recording
from tests.torture.filesystem import Disk, Tree
from tests.torture.lab import World
from tests.torture.recording import Entry, Promise, Recorder, points
from tests.torture.shelf import Shelf, digest, read
from tests.torture.tracer import Call
from tests.torture.versions import SECTOR, Write, versions

OLD, NEW = b"old", b"all new"


def left(disk: Disk, most: int = 64) -> list[Tree]:
    return list(disk.states(Random(0), most))


def contents(disk: Disk, name: str = "file") -> set[object]:
    return {tree.get(name, "nothing") for tree in left(disk)}


def careless(disk: Disk) -> None:
    disk.resize("file", 0)
    disk.write("file", 0, NEW)


def careful(disk: Disk, *without: str) -> None:
    disk.make("new", b"")
    disk.write("new", 0, NEW)
    if "file" not in without:
        disk.sync("new")
    disk.rename("new", "file")
    if "directory" not in without:
        disk.sync("")


def test_what_is_not_flushed_is_there_in_part() -> None:
    disk = Disk({"file": OLD})
    careless(disk)
    assert {OLD, b"", NEW, b"a", b"all ne", b"\0" * 7} <= contents(disk)


def test_what_is_flushed_is_there() -> None:
    disk = Disk({"file": OLD})
    careless(disk)
    disk.sync("file")
    assert contents(disk) == {NEW}


def test_a_careful_writer_leaves_the_old_or_the_new_and_then_only_the_new() -> None:
    disk = Disk({"file": OLD})
    steps: list[Callable[[], None]] = [
        lambda: disk.make("new", b""),
        lambda: disk.write("new", 0, NEW),
        lambda: disk.sync("new"),
        lambda: disk.rename("new", "file"),
    ]
    for step in steps:
        step()
        assert contents(disk) <= {OLD, NEW}
    disk.sync("")
    assert contents(disk) == {NEW}


def test_each_flush_that_is_left_out_shows() -> None:
    unflushed = Disk({"file": OLD})
    careful(unflushed, "file")
    assert {b"", b"a"} <= contents(unflushed)
    unnamed = Disk({"file": OLD})
    careful(unnamed, "directory")
    assert contents(unnamed) == {OLD, NEW}


def test_a_flushed_file_may_have_no_name_yet() -> None:
    disk = Disk()
    disk.make("file", b"")
    disk.write("file", 0, NEW)
    disk.sync("file")
    assert contents(disk) == {NEW, "nothing"}
    disk.sync("")
    assert contents(disk) == {NEW}


def test_names_are_kept_in_any_combination_and_a_rename_is_never_half_done() -> None:
    disk = Disk({"a": b"1", "b": b"2"})
    disk.rename("a", "c")
    disk.remove("b")
    disk.make("d", None)
    kept = {frozenset(tree) for tree in left(disk)}
    assert len(kept) == 8
    assert all(("a" in names) != ("c" in names) for names in kept)


def test_a_directory_that_is_lost_takes_along_what_is_in_it() -> None:
    disk = Disk()
    disk.make("d", None)
    disk.make("d/file", b"")
    disk.sync("d")
    assert {frozenset(tree) for tree in left(disk)} == {frozenset(), frozenset({"d", "d/file"})}


def test_a_later_name_may_be_durable_before_an_earlier_one() -> None:
    disk = Disk({"a": b"", "d": None})
    disk.rename("a", "b")
    disk.make("d/file", b"")
    disk.sync("d")
    assert {frozenset(tree) for tree in left(disk)} == {
        frozenset({"a", "d", "d/file"}),
        frozenset({"b", "d", "d/file"}),
    }


def test_the_same_name_twice_is_kept_in_order() -> None:
    disk = Disk({"file": OLD, "d": None})
    disk.rename("file", "d/file")
    disk.make("file", b"")
    disk.sync("d")
    assert contents(disk) == {b"", "nothing"}
    assert contents(disk, "d/file") == {OLD}


def test_a_size_may_be_lost_and_the_bytes_after_it_kept() -> None:
    disk = Disk({"file": b"header, torn tail"})
    disk.resize("file", 7)
    disk.write("file", 7, b"!")
    assert {b"header,", b"header,!", b"header,!torn tail"} <= contents(disk)


def test_later_pages_without_earlier_ones_and_what_lay_there() -> None:
    write = Write(0, b"a" * SECTOR + b"b" * SECTOR)
    found = set(versions(b"", [write], Random(0), b"x" * 2 * SECTOR))
    assert b"\0" * SECTOR + b"b" * SECTOR in found
    assert b"a" * SECTOR + b"x" * SECTOR in found
    assert b"a" * SECTOR in found


def test_not_anew_only_repeats_are_left_out() -> None:
    whole, brief = Disk({"a": b"", "b": b""}), Disk({"a": b"", "b": b""})
    everything: set[bytes] = set()
    seen: set[bytes] = set()
    for old, new in (("a", "c"), ("b", "d"), ("c", "e"), ("d", "f")):
        for disk, found, anew in ((whole, everything, True), (brief, seen, False)):
            disk.rename(old, new)
            found |= {digest(tree) for tree in disk.states(Random(0), 0, anew=anew)}
    assert seen == everything


def test_a_tree_is_known_by_all_that_is_in_it() -> None:
    trees: list[Tree] = [
        {},
        {"a": b""},
        {"a": None},
        {"a": "b"},
        {"a": b"b"},
        {"ab": b""},
        {"a": b"", "b": b""},
    ]
    assert len({digest(tree) for tree in trees}) == len(trees)


def test_the_shelf_holds_one_tree_after_the_other_whatever_is_done_to_it(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    first: Tree = {"d": None, "d/file": b"1", "link": "d/file", "same": b"2"}
    shelf.put(first)
    assert read(tmp_path) == first
    (tmp_path / "same").write_bytes(b"3")
    (tmp_path / "d" / "more").mkdir()
    (tmp_path / "d" / "file").rename(tmp_path / "moved")
    shelf.put(first)
    assert read(tmp_path) == first
    second: Tree = {"d": b"a file now", "link": b"no link", "same": None}
    shelf.put(second)
    assert read(tmp_path) == second


def call(name: str, *paths: str, data: bytes | None = None, result: int = 0, **detail: int) -> Call:
    return Call(0, 0, name, tuple(f"/w/{path}" for path in paths), detail, data, result)


def test_calls_do_to_the_model_what_they_do_to_a_disk() -> None:
    disk = Disk({"a": b"12345"})
    for each in (
        call("openat", "b", flags=os.O_CREAT | os.O_WRONLY),
        call("write", "b", data=b"PACK....", result=8),
        call("write", "b", data=b"PACK12", result=6),
        call("write", "b", data=b"tail", result=2),
        call("pwrite64", "a", data=b"x", result=1, offset=1),
        call("ftruncate", "a", size=3),
        call("mkdir", "d"),
        call("renameat", "a", "d/a"),
        call("link", "b", "c"),
        call("unlink", "b"),
        call("symlink", "s", data=b"d"),
        call("unlink", "gone", result=-2),
    ):
        recording.see(disk, each, Path("/w"))
    assert disk.tree() == {"d": None, "d/a": b"1x3", "c": b"PACK12..ta", "s": "d"}
    with pytest.raises(AssertionError, match="does not know"):
        recording.see(disk, call("fallocate", "c"), Path("/w"))


def test_a_recorded_command_is_promised_once_it_has_printed(tmp_path: Path) -> None:
    world = World.made(tmp_path / "w", ["nothing"]).create()
    told = tuple(recording.entries(world.job.history_file.read_bytes()))
    recorder = Recorder("x", world, promise=Promise(told, frozenset(told)))
    recorder.run("job", "suspend", "j")
    promises: list[tuple[Entry, ...]] = [promise.acknowledged for _, _, promise in points(recorder.recording)]
    assert promises[0] == told
    assert len(promises[-1]) == 2
    assert recorder.disk.tree() == read(world.place)


def test_a_variant_is_gone_after_its_block() -> None:
    before = [
        (owner, name, getattr(owner, name)) for make in mutants.VARIANTS.values() for owner, name, _ in make()
    ]
    with mutants.applied(list(mutants.VARIANTS)):
        assert all(getattr(owner, name) is not value for owner, name, value in before)
    assert all(getattr(owner, name) is value for owner, name, value in before)
