"""The files of the checkout: what is in them, and which of them differ from a commit."""

from __future__ import annotations

import marshal
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.near.sources import Import, Outline, digest, outline

_FORMAT = 4


class File(NamedTuple):
    """A file as it was when it was last read."""

    stamp: tuple[int, int]
    """Time of change in nanoseconds, and size."""
    digest: str
    outline: Outline | None
    """Of a Python file."""


class Change(NamedTuple):
    """How a file differs from a commit."""

    is_new: bool
    is_gone: bool
    content: bytes | None
    """What it was in that commit; None if it was not there."""

    @property
    def text(self) -> str | None:
        """The same as text."""
        return None if self.content is None else self.content.decode("utf-8", "replace")


@dataclass(frozen=True)
class Tree:
    """Every file of the checkout that git does not ignore, by its path from the root."""

    root: Path
    files: Mapping[str, File]

    @classmethod
    def read(cls, root: Path, cache: Path) -> Tree:
        """Reads what changed since `cache` was written, and writes it anew."""
        known = _load(cache)
        files = {path: file for path in _names(root) if (file := _read(root, path, known.get(path)))}
        tree = cls(root, files)
        if files != known:
            _save(cache, files)
        return tree

    def before(self, changes: Mapping[str, Change]) -> Tree:
        """The tree without these changes."""
        files = {path: file for path, file in self.files.items() if path not in changes}
        for path, change in changes.items():
            if change.content is not None:
                files[path] = _file_of(path, change.content, (0, 0))
        return Tree(self.root, files)

    def modules(self) -> Iterator[tuple[str, str, Outline]]:
        """Path, dotted name and outline of each module of the product and of the tests."""
        for path, file in self.files.items():
            if file.outline is not None and path.startswith(("logist/", "tests/")):
                yield path, module_name(path), file.outline


def module_name(path: str) -> str:
    """`logist.core.history.fold` for logist/core/history/fold.py, `logist.core` for its __init__.py."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def is_test_file(path: str) -> bool:
    """Whether pytest looks for tests in it."""
    return path.startswith("tests/") and path.endswith(".py") and path.rpartition("/")[2].startswith("test_")


def changed_files(root: Path, revision: str) -> dict[str, Change]:
    """The files that differ from the commit, untracked ones too."""
    fields = _git(root, "diff", "--name-status", "--no-renames", "-z", revision)
    letters = dict(zip(fields[1::2], fields[::2], strict=True)) | dict.fromkeys(_git(root, *_UNTRACKED), "A")
    contents = _contents(root, revision, [path for path, letter in letters.items() if letter != "A"])
    return {
        path: Change(letter == "A", letter == "D", contents.get(path)) for path, letter in letters.items()
    }


_UNTRACKED = ("ls-files", "--others", "--exclude-standard", "-z")


def _names(root: Path) -> list[str]:
    return [*_git(root, "ls-files", "-z"), *_git(root, *_UNTRACKED)]


def _git(root: Path, *arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(os.fsdecode(done.stderr).strip())
    return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]


def _contents(root: Path, revision: str, paths: Sequence[str]) -> dict[str, bytes]:
    names = b"".join(os.fsencode(f"{revision}:./{path}\n") for path in paths)
    command = ["git", "cat-file", "--batch"]
    answer = subprocess.run(command, cwd=root, input=names, capture_output=True, check=True).stdout
    contents = {}
    for path in paths:
        head, _, answer = answer.partition(b"\n")
        kind, _, size = head.partition(b" ")[2].partition(b" ")
        if kind == b"blob":  # a submodule has no content here
            contents[path], answer = answer[: int(size)], answer[int(size) + 1 :]
    return contents


def _read(root: Path, path: str, known: File | None) -> File | None:
    place = root / path
    try:
        status = place.stat()
        stamp = (status.st_mtime_ns, status.st_size)
        if known is not None and known.stamp == stamp:
            return known
        content = place.read_bytes()
    except OSError:  # deleted, or a link that leads nowhere
        return None
    name = digest(content)
    if known is not None and known.digest == name:
        return known._replace(stamp=stamp)
    return _file_of(path, content, stamp)


def _file_of(path: str, content: bytes, stamp: tuple[int, int]) -> File:
    is_python = path.endswith(".py")
    text = content.decode("utf-8", "replace")
    return File(stamp, digest(content), outline(text, module_name(path)) if is_python else None)


def _load(cache: Path) -> dict[str, File]:
    try:
        stored = marshal.loads(cache.read_bytes())
        if stored["format"] != _FORMAT:
            return {}
        return {path: _file(*fields) for path, fields in stored["files"].items()}
    except (OSError, EOFError, ValueError, TypeError, KeyError):
        return {}


def _file(
    stamp: tuple[int, int], name: str, units: dict[str, str] | None, imports: list[tuple[str, str, str]]
) -> File:
    is_python = units is not None
    return File(
        stamp, name, Outline(units or {}, frozenset(Import(*each) for each in imports)) if is_python else None
    )


def _save(cache: Path, files: Mapping[str, File]) -> None:
    stored = {
        path: (
            file.stamp,
            file.digest,
            file.outline.units if file.outline else None,
            [tuple(each) for each in file.outline.imports] if file.outline else [],
        )
        for path, file in files.items()
    }
    write(cache, marshal.dumps({"format": _FORMAT, "files": stored}))


def write(path: Path, content: bytes) -> None:
    """Replaces the file at once: no reader sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_bytes(content)
    part.replace(path)
