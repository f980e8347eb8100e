"""Inputs of any size cost bounded memory, and no race leads outside of the workspace."""

from __future__ import annotations

import ctypes
import os
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from logist.agents.tools import context, paths, searching
from logist.agents.tools.context import ToolError
from tests.shell.agents.tool_bench import SECRET, Bench, bench
from tests.torture import hostile_paths as hostile

MEGABYTE = 1 << 20
RENAME_EXCHANGE = 2
OPENS = 20_000


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """That Python takes no more memory than that, at any moment of the block."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()


def sparse(path: Path, size: int, beginning: bytes = b"", end: bytes = b"") -> None:
    with open(path, "wb") as file:
        file.write(beginning)
        file.truncate(size)
        file.seek(size - len(end))
        file.write(end)


@pytest.fixture
def huge(tools: Bench) -> Bench:
    """10 GB that begin as text, and one line of 2 GB; neither takes room on the disk."""
    sparse(tools.root / "ten", 10 << 30, b"line\n" * 20_000, b"end\n")
    sparse(tools.root / "line", 2 << 30, b"x" * 100_000, b"\n")
    return tools


def test_the_beginning_of_a_huge_file_is_read_at_once(huge: Bench) -> None:
    with at_most(4 * MEGABYTE):
        started = time.process_time()
        content = huge.done("read_file", path="ten", limit=2)
        assert time.process_time() - started < 5
    assert content == (
        "[ten: lines 1-2; 10,737,418,240 bytes in total]\nline\nline\n"
        "[... 10,737,418,230 more bytes; continue with offset=3]"
    )


def test_a_huge_line_is_read_piece_by_piece(huge: Bench) -> None:
    with at_most(4 * MEGABYTE):
        content = huge.done("read_file", path="line")
        assert len(content) <= 30_000
        assert content.endswith("the line continues; continue with offset=1, column=29601]")
        content = huge.done("read_file", path="line", column=90_001)
        assert content.startswith(
            "[line: lines 1-1; 2,147,483,648 bytes in total; from character 90,001 of line 1]\nx"
        )


def test_walking_a_huge_file_ends_with_the_time(huge: Bench) -> None:
    late = huge.with_(deadline=time.monotonic() + 0.2)
    with at_most(8 * MEGABYTE):
        assert "the time limit of this step is reached" in late.fails("read_file", path="ten", offset=10**9)


def test_a_huge_file_is_not_edited_nor_searched(huge: Bench) -> None:
    with at_most(4 * MEGABYTE):
        assert "the limit is 8,388,608" in huge.fails("edit_file", path="ten", old="a", new="b")
        assert "2 over 8 MB" in huge.done("search", pattern="line")
        assert "10,737,418,240 bytes" in huge.done("list_directory")
        assert "ten  10,737,418,240 bytes" in huge.done("search", pattern="")


def test_an_edit_cannot_blow_a_file_up(tools: Bench) -> None:
    (tools.root / "f").write_text("a" * 100_000)
    with at_most(16 * MEGABYTE):
        content = tools.fails("edit_file", path="f", old="a", new="b" * 100_000, replace_all=True)
    assert "the file would have 10,000,000,000 bytes" in content
    assert (tools.root / "f").read_text() == "a" * 100_000
    assert "the limit is 8,388,608" in tools.fails("create_file", path="g", content="x" * (9 << 20))


def test_the_nearest_line_is_looked_for_in_bounded_time(tools: Bench) -> None:
    (tools.root / "f").write_text("def f(a, b, c): pass  # " + "y " * 50 + "\n")
    (tools.root / "g").write_text(("x, " * 500 + "\n") * 5000)
    started = time.process_time()
    assert "The most similar line is 1" in tools.fails("edit_file", path="g", old="x; " * 1000, new="z")
    assert time.process_time() - started < 20


def test_huge_output_of_a_command_costs_no_memory(tools: Bench) -> None:
    def run(*_: object, **given: Path) -> object:
        sparse(given["stdout"], 10 << 30, b"begin", b"end")
        return tools.sandbox.ended

    with at_most(4 * MEGABYTE):
        content = tools.with_(run=run).done("execute_command", command="x")
    assert "--- stdout, 10,737,418,240 bytes\nbegin" in content
    assert content.endswith("end")
    assert len(content) <= 30_000


@contextmanager
def crowd(tools: Bench, count: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The directory seems to have so many entries: making them would take minutes."""

    class Entry:
        def __init__(self, number: int) -> None:
            self.name = f"f{number:07}"

    class Scan:
        def __enter__(self) -> Iterator[Entry]:
            return (Entry(number) for number in reversed(range(count)))

        def __exit__(self, *_: object) -> None:
            return None

    for number in range(3000):
        (tools.root / f"f{number:07}").touch()
    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", lambda _: Scan())
        yield


@pytest.mark.deep
def test_a_million_entries_are_listed(tools: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with crowd(tools, 1_000_000, monkeypatch):
        content = tools.ruled(max_result_chars=100_000).done("list_directory")
    assert content.startswith("[.: 1,000,000 entries]\nfile  f0000000  0 bytes\nfile  f0000001")
    assert content.endswith("\n... 998,000 more in .")


@pytest.mark.deep
def test_many_entries_are_listed_and_searched_in_bounded_memory(
    tools: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "MAX_ENTRIES", 2000)
    with crowd(tools, 30_000, monkeypatch), at_most(2 * MEGABYTE):
        content = tools.done("list_directory")
        assert "28,000 beyond the first" in tools.done("search", pattern="x")
    assert content.startswith("[.: 30,000 entries]")
    assert content.endswith("\n[... cut; list a subdirectory, or use a smaller depth]")
    assert len(content) <= 30_000


def test_deep_directories_are_walked_over(tools: Bench) -> None:
    descriptor = os.open(tools.root, os.O_RDONLY)
    for _ in range(200):
        os.mkdir("d", dir_fd=descriptor)
        below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)
    assert "1 deeper than 64 levels" in tools.done("search", pattern="x")
    assert tools.done("list_directory", depth=3) == "[.: 1 entry]\ndir   d/\ndir   d/d/\ndir   d/d/d/"


def test_results_are_redacted_and_valid_text(tools: Bench) -> None:
    (tools.root / SECRET).write_text(f"{SECRET}\n")
    for name, given in (("list_directory", {}), ("search", {"pattern": "2"}), ("search", {"pattern": ""})):
        outcome = tools.call(name, **given)
        assert SECRET not in outcome.content
        assert outcome.redactions >= 1
    outcome = tools.call("read_file", path=SECRET)
    assert outcome.content == "[[redacted]: lines 1-1 of 1]\n[redacted]\n"
    assert outcome.redactions == 2
    assert SECRET not in tools.fails("read_file", path=f"no/{SECRET}")
    os.close(os.open(os.fsencode(tools.root) + b"/\xff\xfe", os.O_CREAT))
    assert "file  \\xff\\xfe  0 bytes" in tools.done("list_directory")


SWAPS: dict[str, Callable[[Path, Path], None]] = {
    "file": lambda root, outside: (root / "spare").symlink_to(outside / "secret"),
    "hard link": lambda root, outside: os.link(outside / "hard", root / "spare"),
    "fifo": lambda root, _: os.mkfifo(root / "spare"),
}


@contextmanager
def swapping(one: Path, other: Path) -> Iterator[None]:
    """Two names change places without a pause, as a stray process of an agent may do it."""
    rename = ctypes.CDLL(None, use_errno=True).renameat2
    ended = threading.Event()

    def swap() -> None:
        while not ended.is_set():
            assert rename(-100, os.fsencode(one), -100, os.fsencode(other), RENAME_EXCHANGE) == 0

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def opens(this: context.Context, path: str, count: int) -> tuple[int, int]:
    """How often the file was read, and how often it was refused."""
    read = refused = 0
    for _ in range(count):
        try:
            with paths.open_tool_file(this, path) as descriptor:
                assert os.read(descriptor, 100) == b"inside"
                read += 1
        except ToolError:
            refused += 1
    return read, refused


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize("swap", SWAPS)
def test_no_swap_of_a_file_leads_outside(tmp_path: Path, swap: str) -> None:
    hostile.plant(tmp_path / "workspace", tmp_path / "outside")
    tools = bench(tmp_path)
    (tools.root / "f").write_text("inside")
    SWAPS[swap](tools.root, tmp_path / "outside")
    with swapping(tools.root / "f", tools.root / "spare"):
        read, refused = opens(tools.context, "f", OPENS // 4)
    assert read > 0
    assert refused > 0


def test_no_swap_of_a_directory_leads_outside(tmp_path: Path) -> None:
    hostile.plant(tmp_path / "workspace", tmp_path / "outside")
    tools = bench(tmp_path)
    (tools.root / "d").mkdir()
    (tools.root / "d" / "secret").write_text("inside")
    (tools.root / "spare").symlink_to(tmp_path / "outside")
    with swapping(tools.root / "d", tools.root / "spare"):
        read, refused = opens(tools.context, "d/secret", OPENS // 2)
    assert read > 0
    assert refused > 0


def test_no_swap_lets_a_change_out(tmp_path: Path) -> None:
    hostile.plant(tmp_path / "workspace", tmp_path / "outside")
    before = hostile.canaries(tmp_path / "outside")
    tools = bench(tmp_path)
    (tools.root / "d").mkdir()
    (tools.root / "spare").symlink_to(tmp_path / "outside")
    done = 0
    with swapping(tools.root / "d", tools.root / "spare"):
        for number in range(300):
            for name, given in (
                ("write_file", {"content": "x"}),
                ("create_file", {"content": "x"}),
                ("delete_file", {}),
                ("edit_file", {"old": "canary", "new": "x"}),
            ):
                path = f"d/{'secret' if number % 2 else 'new'}"
                outcome = tools.call(name, path=path, **given)
                assert hostile.CANARY not in outcome.content
                done += not outcome.error
    assert hostile.canaries(tmp_path / "outside") == before
    assert done > 0
