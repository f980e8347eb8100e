"""Finds the commits that lines of a file come from, with `git blame`. Runs no program that a repository configures."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING

from logist.quick_tuple import NamedTuple
from logist.regular_files import read_regular
from logist.workspace.checkpoint import repository
from logist.workspace.git import Git

if TYPE_CHECKING:
    from logist.workspace.merge.target import Target

MOST_COMPARED = 2000
"""How many differing lines of two versions of a file are compared; in more, a line is found only by its text."""
_OPTIONS = ("blame", "--porcelain", "--no-textconv")


class BlamedLine(NamedTuple):
    """A line of a file, and where it comes from."""

    commit: str
    """The commit that added it; "" for a line that is not committed."""
    path: bytes
    """The file in that commit, which may have another name."""
    number: int
    """The line in that file."""


@contextmanager
def _open_without_settings(folder: Path, commit: str) -> Iterator[Git]:
    """Yield a repository with the objects of the one in `folder`, and none of its settings; `commit` is checked out.

    `blame.ignoreRevsFile` can't be turned off in another way: it is relative to the current directory, and an error if it is missing.
    """
    with tempfile.TemporaryDirectory(prefix="logist-blame-") as place:
        git = Git(Path(place, "git")).borrow_objects(folder / "objects")
        repository.create_repository(git.git_dir, bare=False, long_names=len(commit) == 64)
        (git.git_dir / "HEAD").write_text(f"{commit}\n", "ascii")
        with suppress(FileNotFoundError):
            repository.write_file(git.git_dir / "shallow", read_regular(folder / "shallow"))
        yield git


def blame_work_tree(target: Target, path: bytes, content: bytes) -> list[BlamedLine]:
    """Return the origin of each line of a file in the work tree. `content`: the file, which git doesn't open."""
    assert target.head is not None
    inside = (f"--work-tree={target.top}", *_list_line_ends(target))
    with _open_without_settings(target.common, target.head) as git:
        return _parse_lines(
            git.run_with_input(content, *inside, *_OPTIONS, "--contents", "-", "--", path), path
        )


def _list_line_ends(target: Target) -> list[str]:
    from logist.workspace.merge.drafting import list_line_end_options  # noqa: PLC0415 - loads all of merging

    return list_line_end_options(target)


def blame_commit(git: Git, commit: str, path: bytes) -> list[BlamedLine]:
    """Return the origin of each line of a file in a commit."""
    with _open_without_settings(git.git_dir, commit) as reading:
        return _parse_lines(reading.run(*_OPTIONS, commit, "--", path), path)


def read_lines(git: Git, commit: str, path: bytes) -> list[bytes] | None:
    """Return the lines of a file in a commit, without their ends; None if it has no such file.

    Raises StorageError if the commit or its content is missing.
    """
    entry = git.run("ls-tree", "-z", commit, "--", path)
    if not entry.startswith(b"100"):  # the mode of a file, which is neither a link nor a submodule
        return None
    blob = entry.partition(b"\t")[0].split(b" ")[2]
    return [line.rstrip(b"\r") for line in split_lines(git.run("cat-file", "blob", blob))]


def split_lines(content: bytes) -> list[bytes]:
    """Split as git does: only at line feeds, and the last line may have none."""
    lines = content.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def find_same_line(lines: Sequence[bytes], number: int, other: Sequence[bytes]) -> int | None:
    """Return the number of a line in another version of the file; None if that version doesn't have it."""
    same = 0
    while same < min(len(lines), len(other)) and lines[same] == other[same]:
        same += 1
    if number <= same:
        return number
    end = 0
    while end < min(len(lines), len(other)) - same and lines[-1 - end] == other[-1 - end]:
        end += 1
    if number > len(lines) - end:
        return number - len(lines) + len(other)
    middle, others = lines[same : len(lines) - end], other[same : len(other) - end]
    index = number - 1 - same
    if len(middle) + len(others) > MOST_COMPARED:
        places = [place for place, each in enumerate(others) if each == middle[index]]
        return same + places[0] + 1 if len(places) == 1 and middle.count(middle[index]) == 1 else None
    for block in SequenceMatcher(None, middle, others, autojunk=False).get_matching_blocks():
        if block.a <= index < block.a + block.size:
            return same + block.b + index - block.a + 1
    return None


def _parse_lines(output: bytes, path: bytes) -> list[BlamedLine]:
    paths: dict[bytes, bytes] = {}
    lines: list[BlamedLine] = []
    commit, number = b"", 0
    is_header = True
    for line in output.split(b"\n")[:-1]:
        if is_header:
            commit, before, *_ = line.split(b" ")
            number, is_header = int(before), False
        elif line.startswith(b"filename "):
            paths[commit] = _unquote_path(line.removeprefix(b"filename "))
        elif line.startswith(b"\t"):
            name = commit.decode("ascii")
            lines.append(BlamedLine(name if name.strip("0") else "", paths.get(commit, path), number))
            is_header = True
    return lines


def _unquote_path(name: bytes) -> bytes:
    r"""Return a path as it is: git quotes names with a quote, a backslash or a control character, such as `"a\tb"`."""
    if not (name.startswith(b'"') and name.endswith(b'"') and len(name) > 1):
        return name
    return name[1:-1].decode("unicode_escape").encode("latin-1")
