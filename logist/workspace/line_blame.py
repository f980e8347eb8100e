"""Finds the commit that each line of a file came from, with `git blame`. Runs nothing that a repository sets up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from logist.lazy_patterns import compile_on_use
from logist.quick_tuple import NamedTuple
from logist.workspace.git import Argument, Git

NOT_COMMITTED = "0" * 40
_HEAD = compile_on_use(rb"([0-9a-f]{40,64}) (\d+) (\d+)(?: \d+)?")


class BlamedLine(NamedTuple):
    """A line, and where it was in the commit that it came from."""

    number: int
    """In the file as it is now; the first is 1."""
    text: str
    commit: str
    path: str
    """The file in that commit: it may have had another name."""
    old_number: int

    @property
    def is_committed(self) -> bool:
        """Whether the line is in a commit."""
        return set(self.commit) != {"0"}


def blame_lines(
    git: Git,
    path: str,
    ranges: Sequence[tuple[int, int]] = (),
    commit: str = "",
    work_tree: Argument | None = None,
) -> list[BlamedLine]:
    """Return the lines of a file, or those of some ranges, each with its commit.

    `commit`: the file as it is there; without it, as it is in `work_tree`. Raises StorageError with git's own line, as for a file
    that is not in git.
    """
    place = [] if work_tree is None else [b"--work-tree=" + _encode(work_tree)]
    wanted = [f"-L{first},{last}" for first, last in ranges]
    revision = [commit] if commit else []
    output = git.run(*place, "blame", "--porcelain", "--no-textconv", *wanted, *revision, "--", path)
    return list(_parse_porcelain(output))


def _encode(path: Argument) -> bytes:
    return path if isinstance(path, bytes) else str(path).encode("utf-8", "surrogateescape")


def _parse_porcelain(output: bytes) -> Iterator[BlamedLine]:
    names: dict[str, str] = {}
    commit, old, number = "", 0, 0
    for line in output.split(b"\n"):
        if line.startswith(b"\t"):
            text = line[1:].decode("utf-8", "replace").removesuffix("\r")
            yield BlamedLine(number, text, commit, names.get(commit, ""), old)
        elif (found := _HEAD.fullmatch(line)) is not None:
            commit, old, number = found[1].decode("ascii"), int(found[2]), int(found[3])
        elif line.startswith(b"filename "):
            names[commit] = _unquote(line.removeprefix(b"filename "))


def _unquote(name: bytes) -> str:
    """Return a name as it is; git writes one with special characters in quotes, as C does."""
    if name.startswith(b'"') and name.endswith(b'"'):
        escapes = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}

        def replace_escape(found: re.Match[bytes]) -> bytes:
            text = found[1]
            return bytes([int(text, 8) & 0xFF]) if text.isdigit() else escapes.get(text, text)

        name = re.sub(rb"\\([0-7]{3}|.)", replace_escape, name[1:-1], flags=re.DOTALL)
    return name.decode("utf-8", "surrogateescape")
