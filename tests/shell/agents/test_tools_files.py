"""Reading, listing and changing files: what the model is shown, and what is on the disk afterwards."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.shell.agents.tool_bench import SECRET, Bench
from tests.support import tree


def put(tools: Bench, path: str, data: str | bytes) -> Path:
    place = tools.root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data.encode() if isinstance(data, str) else data)
    return place


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"", "[f: an empty file]"),
        (b"\n", "[f: lines 1-1 of 1]\n\n"),
        (b"a", "[f: lines 1-1 of 1; no newline at the end]\na"),
        (b"a\nb\n", "[f: lines 1-2 of 2]\na\nb\n"),
        (b"a\nb", "[f: lines 1-2 of 2; no newline at the end]\na\nb"),
        (b"a\r\nb\r\n", "[f: lines 1-2 of 2; CRLF line endings]\na\nb\n"),
        (b"a\r\nb\n", "[f: lines 1-2 of 2]\na\r\nb\n"),
        (b"\xef\xbb\xbfa\n", "[f: lines 1-1 of 1; with a byte order mark]\na\n"),
        ("grüße 🦊\n".encode(), "[f: lines 1-1 of 1]\ngrüße 🦊\n"),
        (b"caf\xe9\n", "[f: lines 1-1 of 1; not UTF-8: other bytes are shown as \\udcNN]\ncaf\\udce9\n"),
        (b"a\0b\n", "[f: a binary file of 4 bytes, not shown]"),
    ],
)
def test_a_file_is_read_as_it_is(tools: Bench, data: bytes, shown: str) -> None:
    put(tools, "f", data)
    assert tools.done("read_file", path="f") == shown


@pytest.mark.parametrize(
    ("offset", "limit", "shown"),
    [
        (1, 1, "[f: lines 1-1 of 4]\none\n[... 14 more bytes; continue with offset=2]"),
        (2, 2, "[f: lines 2-3 of 4]\ntwo\nthree\n[... 4 more bytes; continue with offset=4]"),
        (4, 1, "[f: lines 4-4 of 4; no newline at the end]\nfour"),
        (3, 99, "[f: lines 3-4 of 4; no newline at the end]\nthree\nfour"),
    ],
)
def test_a_part_is_read_by_lines(tools: Bench, offset: int, limit: int, shown: str) -> None:
    put(tools, "f", "one\ntwo\nthree\nfour")
    assert tools.done("read_file", path="f", offset=offset, limit=limit) == shown


@pytest.mark.parametrize("data", ["one\ntwo\n", "one\ntwo"])
def test_there_is_nothing_after_the_last_line(tools: Bench, data: str) -> None:
    put(tools, "f", data)
    assert tools.fails("read_file", path="f", offset=3).endswith("f has only 2 lines; line 3 not found")
    assert tools.fails("read_file", path="f", offset=10**15).startswith("error: f has only 2 lines")
    assert tools.fails("read_file", path="f", offset=2, column=4).endswith("line 2 has only 3 characters")


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize("limit", [600, 1000, 5000])
def test_reading_on_as_told_gives_the_whole_file(tools: Bench, limit: int) -> None:
    """By lines where they fit, by characters in a line that is too long."""
    whole = "".join(f"{'äx🦊' * (number * 37 % 800)}{number}\n" for number in range(60)) + "z" * 9000
    put(tools, "f", whole)
    short = tools.ruled(max_result_chars=limit)
    collected, given, rounds = "", {"offset": 1}, 0
    while given:
        content = short.done("read_file", path="f", **given)
        assert len(content) <= limit
        body = content.partition("\n")[2]
        body, _, note = body.rpartition("[... ") if "continue with " in content else (body, "", "")
        given = dict(
            _number(part) for part in note.partition("continue with ")[2].rstrip("]").split(", ") if part
        )
        collected += body.removesuffix("\n") if "column" in given else body
        rounds += 1
    assert collected == whole
    assert rounds < 700


def _number(part: str) -> tuple[str, int]:
    name, _, value = part.partition("=")
    return name, int(value)


def test_no_half_of_a_secret_is_shown_at_a_cut(tools: Bench) -> None:
    put(tools, "f", "x" * 90 + "\n" + "y" * 190 + SECRET + "z" * 1000)
    for limit in range(560, 660):
        content = tools.ruled(max_result_chars=limit).done("read_file", path="f", offset=2)
        assert not any(SECRET[:size] in content for size in (3, 8, 20)), limit
    for column in range(185, 220):
        content = tools.done("read_file", path="f", offset=2, column=column)
        assert "hunter2" not in content, column
    key = "-----BEGIN PRIVATE KEY-----\n" + ("QUJD" * 16 + "\n") * 20 + "-----END PRIVATE KEY-----\n"
    put(tools, "key", f"before\n{key}after\n")
    for offset in range(1, 23):
        outcome = tools.call("read_file", path="key", offset=offset, limit=3)
        assert "QUJD" not in outcome.content, offset
    assert tools.call("read_file", path="key").redactions == 1


def test_a_directory_is_listed_by_kind_and_size(tools: Bench) -> None:
    put(tools, "b.txt", "12345")
    put(tools, "src/deep/er/x.py", "x" * 1234)
    put(tools, "node_modules/left/pad.js", "x")
    put(tools, "src/__pycache__/x.pyc", "x")
    put(tools, ".git/config", "x")
    put(tools, "ü\nforged: 1", "")
    (tools.root / "empty").mkdir()
    (tools.root / "link").symlink_to("b.txt")
    os.mkfifo(tools.root / "pipe")
    assert tools.done("list_directory") == (
        "[.: 7 entries]\n"
        "file  b.txt  5 bytes\n"
        "dir   empty/\n"
        "link  link -> b.txt\n"
        "dir   node_modules/  (a cache, content not listed)\n"
        "fifo  pipe\n"
        "dir   src/\n"
        'file  "\\u00fc\\nforged: 1"  0 bytes'
    )
    assert tools.done("list_directory", path="src", depth=2) == (
        "[src: 2 entries]\ndir   __pycache__/  (a cache, content not listed)\ndir   deep/\ndir   deep/er/"
    )
    assert tools.done("list_directory", path="./src//", depth=3).endswith("file  deep/er/x.py  1,234 bytes")
    assert tools.done("list_directory", path="empty") == "[empty: an empty directory]"
    assert "b.txt is a file, not a directory" in tools.fails("list_directory", path="b.txt")
    assert "no/dir not found" in tools.fails("list_directory", path="no/dir")


@pytest.mark.parametrize(
    "content", ["", "a", "a\n", "a\r\nb", "\ufeffx", "ü🦊\n", "\0\x1b[2J", "x" * 100_000]
)
@pytest.mark.parametrize("path", ["f", "neu/ü/日本.txt", "a b/-x", "./a//b"])
def test_what_is_written_is_read_back_byte_by_byte(tools: Bench, path: str, content: str) -> None:
    size = len(content.encode())
    count = "1 byte" if size == 1 else f"{size:,} bytes"
    assert tools.done("create_file", path=path, content=content).endswith(f": {count}")
    assert (tools.root / path).read_bytes() == content.encode()
    assert tools.done("write_file", path=path, content=content + "+").startswith("wrote ")
    assert (tools.root / path).read_bytes() == content.encode() + b"+"
    assert len([1 for data in tree(tools.root).values() if data is not None]) == 1


def test_a_new_file_never_replaces_anything(tools: Bench) -> None:
    put(tools, "f", "x")
    (tools.root / "d").mkdir()
    (tools.root / "link").symlink_to("f")
    (tools.root / "dangling").symlink_to("new")
    for path, kind in (
        ("f", "a file"),
        ("d", "a directory"),
        ("link", "a symbolic link"),
        ("dangling", "a symbolic link"),
    ):
        assert f"already exists: it is {kind}" in tools.fails("create_file", path=path, content="y")
    assert (tools.root / "f").read_text() == "x"
    assert not (tools.root / "new").exists()
    assert "f is a file, not a directory" in tools.fails("create_file", path="f/below", content="y")


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o640, 0o200])
def test_writing_keeps_the_mode(tools: Bench, mode: int) -> None:
    put(tools, "f", "one").chmod(mode)
    tools.done("write_file", path="f", content="two")
    if mode & stat.S_IRUSR:
        tools.done("edit_file", path="f", old="two", new="three")
    assert stat.S_IMODE((tools.root / "f").stat().st_mode) == mode


def test_a_read_only_file_is_left_alone(tools: Bench) -> None:
    put(tools, "f", "one").chmod(0o444)
    assert "f is read-only (mode 0444)" in tools.fails("write_file", path="f", content="two")
    assert "f is read-only" in tools.fails("edit_file", path="f", old="one", new="two")
    assert (tools.root / "f").read_text() == "one"


def test_a_file_is_replaced_and_never_half_written(tools: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tools, "f", "whole")

    def failing(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        for name in ("write_file", "create_file"):
            path = "f" if name == "write_file" else "g"
            assert (
                tools.fails(name, path=path, content="x" * 9999) == f"error: {path}: No space left on device"
            )
    assert tree(tools.root) == {"f": b"whole"}


def test_what_a_kill_left_goes_with_the_next_write(tools: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: object, **__: object) -> None:
        raise Killed

    put(tools, "f", "whole")
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", killed)
        patched.setattr(os, "unlink", lambda *_, **__: None)
        with pytest.raises(Killed):
            tools.call("write_file", path="f", content="new")
    left = set(tree(tools.root)) - {"f"}
    assert (tools.root / "f").read_text() == "whole"
    assert len(left) == 1
    assert all(name.startswith(".logist-") and name.endswith(".new") for name in left)
    tools.done("write_file", path="f", content="new")
    assert tree(tools.root) == {"f": b"new"}


@pytest.mark.parametrize(
    ("held", "old", "new", "everywhere", "after"),
    [
        (b"a b c\n", "b", "X", False, b"a X c\n"),
        (b"a b c", " b", "", False, b"a c"),
        (b"one\ntwo\n", "one\ntwo", "1\n2\n3", False, b"1\n2\n3\n"),
        (b"one\r\ntwo\r\n", "one\ntwo", "1\n2\n3", False, b"1\r\n2\r\n3\r\n"),
        (b"one\r\ntwo\r\n", "two", "2\n3", False, b"one\r\n2\r\n3\r\n"),
        (b"one\r\ntwo\r\n", "one\r\ntwo", "1\r\n2", False, b"1\r\n2\r\n"),
        (b"one\r\ntwo\nthree\n", "one\ntwo", "1\n2", False, b"1\r\n2\nthree\n"),
        (b"one\r\ntwo\nthree\n", "two\nthree", "2\n3", False, b"one\r\n2\n3\n"),
        (b"\xef\xbb\xbfone\n", "one", "two", False, b"\xef\xbb\xbftwo\n"),
        ("ü 日本 🦊".encode(), "日本", "にほん", False, "ü にほん 🦊".encode()),
        (b"a a a", "a", "aa", True, b"aa aa aa"),
        (b"aaa", "aa", "b", False, b"ba"),
        (b"x\\1 {y}\n", "\\1 {y}", "\\g<0> {z}", False, b"x\\g<0> {z}\n"),
        (b"tab\there", "tab\t", "t ", False, b"t here"),
    ],
)
def test_an_exact_piece_is_replaced(
    tools: Bench, held: bytes, old: str, new: str, everywhere: bool, after: bytes
) -> None:
    put(tools, "f", held)
    tools.done("edit_file", path="f", old=old, new=new, replace_all=everywhere)
    assert (tools.root / "f").read_bytes() == after


@pytest.mark.parametrize(
    ("held", "old", "new", "words"),
    [
        (b"a\n", "", "x", "`old` is empty"),
        (b"a\n", "a", "a", "nothing to change"),
        (b"a\nb a\nc\na a\n", "a", "x", "`old` occurs 4 times in f (lines 1, 2, 4, 4), but must occur once"),
        (b"a\n" * 9, "a", "x", "`old` occurs 9 times in f (lines 1, 2, 3, 4, 5, ...)"),
        (
            b"import os\n\ndef run(call,  context):\n    pass\n",
            "def run(call, context):\n",
            "x",
            "it must match exactly, including spaces. The most similar line is 3: def run(call,  context):",
        ),
        (b"alpha\n", "beta", "x", "`old` not found in f; it must match exactly, including spaces"),
        (b"caf\xe9\n", "caf", "x", "is not UTF-8 text, so it can't be edited"),
        (b"a\n", "[redacted]", "x", "[redacted] replaces a secret that you can't see"),
        (b"", "a", "x", "`old` not found in f"),
    ],
)
def test_an_edit_that_is_not_clear_changes_nothing(
    tools: Bench, held: bytes, old: str, new: str, words: str
) -> None:
    put(tools, "f", held)
    assert words in tools.fails("edit_file", path="f", old=old, new=new)
    assert tree(tools.root) == {"f": held}


def test_the_stand_in_of_a_secret_is_not_written_over_it(tools: Bench) -> None:
    put(tools, "env", f"KEY={SECRET}\nNAME=x\n")
    shown = tools.done("read_file", path="env")
    assert "KEY=[redacted]\nNAME=x" in shown
    body = shown.partition("\n")[2]
    assert "which replaces a secret in the file" in tools.fails("write_file", path="env", content=body)
    assert "which replaces a secret in the file" in tools.fails(
        "edit_file", path="env", old="NAME", new="[redacted]\nNAME"
    )
    tools.done("edit_file", path="env", old="NAME=x", new="NAME=y")
    assert (tools.root / "env").read_text() == f"KEY={SECRET}\nNAME=y\n"
    put(tools, "docs", "a key is shown as [redacted]\n")
    tools.done("write_file", path="docs", content="a key reads [redacted]\n")
    tools.done("edit_file", path="docs", old="a key", new="[redacted]: a key")


def test_deleting_takes_one_thing_away(tools: Bench) -> None:
    put(tools, "d/f", "x")
    put(tools, "kept", "x")
    (tools.root / "link").symlink_to("kept")
    (tools.root / "d-link").symlink_to("d")
    assert "d is a directory that is not empty" in tools.fails("delete_file", path="d")
    assert "d/f/ is not a directory" in tools.fails("delete_file", path="d/f/")
    assert "d-link is a symbolic link" in tools.fails("delete_file", path="d-link/f")
    assert "the workspace itself" in tools.fails("delete_file", path=".")
    assert "gone not found" in tools.fails("delete_file", path="gone")
    for path in ("link", "d-link", "d/f", "d/"):
        assert tools.done("delete_file", path=path) == f"deleted {path}"
    assert tree(tools.root) == {"kept": b"x"}
