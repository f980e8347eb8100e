"""Hostile paths: every tool that takes one opens nothing outside, and says what is wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from logist.agents.tools import ToolOutcome
from tests.shell.agents.tool_bench import Bench, bench
from tests.torture import hostile_paths as hostile

FAMILIES: dict[str, dict[str, Any]] = {
    "read_file": {},
    "list_directory": {"depth": 3},
    "search": {"pattern": "canary"},
    "write_file": {"content": "overwritten"},
    "create_file": {"content": "made"},
    "edit_file": {"old": "canary", "new": "edited"},
    "delete_file": {},
}
LINKS_THEMSELVES = {
    "linked",
    "absolute-link",
    "root-link",
    "loop",
    "loop-a",
    "dangling-link",
    "dangling-outside",
}
DELETABLE = LINKS_THEMSELVES | {"hard", "src/hard", "fifo", "src/fifo", "socket", "device-link"}
"""Deleting takes away the name, not what it leads to."""


@pytest.fixture
def trapped(tmp_path: Path) -> Bench:
    hostile.plant(tmp_path / "workspace", tmp_path / "outside")
    return bench(tmp_path)


def outside(tools: Bench) -> dict[str, bytes | None]:
    return hostile.canaries(tools.root.parent / "outside")


def call(tools: Bench, family: str, path: str) -> ToolOutcome:
    """The call, and that nothing outside was touched or told."""
    before = outside(tools)
    git = (tools.root / ".git" / "config").read_bytes()
    outcome = tools.call(family, path=path, **FAMILIES[family])
    assert outside(tools) == before
    assert (tools.root / ".git" / "config").read_bytes() == git
    assert os.listdir(tools.root / ".git") == ["config"]
    assert hostile.CANARY not in outcome.content
    assert outcome.refusal is None
    assert outcome.content.encode()
    return outcome


def test_there_are_enough_paths() -> None:
    assert len(set(hostile.EVERY)) == len(hostile.EVERY) >= 190


@pytest.mark.parametrize("family", FAMILIES)
def test_a_path_that_cannot_be_one_is_refused_by_its_spelling(trapped: Bench, family: str) -> None:
    accepted = [path for path in hostile.NEVER if not call(trapped, family, path).error]
    assert accepted == []


@pytest.mark.parametrize("family", FAMILIES)
def test_links_second_names_pipes_and_sockets_are_not_opened(tmp_path: Path, family: str) -> None:
    accepted = []
    for number, path in enumerate(hostile.TRAPS):
        place = tmp_path / str(number)
        hostile.plant(place / "workspace", place / "outside")
        if not call(bench(place), family, path).error:
            accepted.append(path)
    assert set(accepted) == (DELETABLE & set(hostile.TRAPS) if family == "delete_file" else set())


@pytest.mark.deep_beyond(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_an_odd_name_is_a_name_in_the_workspace(tmp_path: Path, family: str) -> None:
    for number, path in enumerate(hostile.ODD):
        place = tmp_path / str(number)
        hostile.plant(place / "workspace", place / "outside")
        outcome = call(bench(place), family, path)
        assert outcome.error is (family not in ("write_file", "create_file")), (path, outcome.content)
        if not outcome.error:
            made = (place / "workspace" / path).read_text()
            assert made == FAMILIES[family]["content"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("../x", "contains '..'; use a path relative to the workspace"),
        ("/etc/passwd", "is absolute"),
        ("a\0b", "contains a NUL character"),
        ("", "is empty"),
        ("a" * 256, "is too long"),
        (".GIT/config", "git's own directory"),
        (".", "is the workspace itself"),
        ("src/", "names a directory, not a file"),
        ("src", "src is a directory, not a file"),
        ("src/app.py/x", "src/app.py is a file, not a directory"),
        ("src/missing", "src/missing not found"),
        ("missing/deep/x", "missing/deep/x not found: no missing"),
        ("directory-link/secret", "directory-link is a symbolic link; tools don't follow links"),
        ("linked", "linked is a symbolic link"),
        ("hard", "hard is a hard link: it has 3 names"),
        ("fifo", "fifo is a fifo, which tools can't open"),
        ("socket", "socket is a socket"),
    ],
)
def test_the_model_is_told_what_is_wrong(trapped: Bench, path: str, words: str) -> None:
    assert words in trapped.fails("read_file", path=path)


def test_a_device_is_not_opened(trapped: Bench) -> None:
    try:
        os.mknod(trapped.root / "device", 0o020666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("making a device takes a right that this user has not")
    assert "device is a device" in trapped.fails("read_file", path="device")
    assert "device is a device" in trapped.fails("write_file", path="device", content="x")
    assert "device" in trapped.done("list_directory")


def test_unicode_spellings_are_names_of_their_own(tools: Bench) -> None:
    pairs = [("caf\u00e9", "cafe\u0301"), ("\u212b", "\u00c5"), ("\uac00", "\u1100\u1161")]
    for one, other in pairs:
        tools.done("create_file", path=one, content="one")
        tools.done("create_file", path=other, content="other")
        assert tools.done("read_file", path=one).endswith("one")
        assert tools.done("read_file", path=other).endswith("other")


def test_what_lies_around_is_walked_over_in_a_listing_and_a_search(trapped: Bench) -> None:
    listed = trapped.done("list_directory", depth=3)
    assert "link  directory-link -> " in listed
    assert "secret\n" not in listed.replace("../outside/secret\n", "").replace("/outside/secret\n", "")
    assert ".git/" not in listed
    found = trapped.done("search", pattern="canary")
    assert found.startswith("[0 lines; 1 file searched]")
    assert "2 unreadable or with hard links" in found


@pytest.mark.usefixtures("ordinary_owner")
def test_what_is_locked_is_told(tools: Bench) -> None:
    (tools.root / "locked").mkdir()
    (tools.root / "locked" / "x").write_text("x")
    (tools.root / "closed").write_text("x")
    (tools.root / "closed").chmod(0)
    (tools.root / "locked").chmod(0)
    for path in ("locked/x", "closed"):
        assert "permission denied for it or its directory" in tools.fails("read_file", path=path)
    assert "read-only" in tools.fails("write_file", path="closed", content="y")
    assert "2 unreadable" in tools.done("search", pattern="x")
    (tools.root / "locked").chmod(0o700)
    (tools.root / "closed").chmod(0o600)
