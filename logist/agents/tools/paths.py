"""Paths that a model gives: read strictly, then opened component by component, never through a link."""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from logist.agents.tools import text
from logist.agents.tools.context import Context, ToolError
from logist.workspace.checkpoint.scan import SPECIAL
from logist.workspace.files import safe_open

MAX_PATH = 4095
MAX_COMPONENT = 255

_IGNORED = "Cf"
"""The category of characters that some file systems do not see in a name."""


class MissingError(ToolError):
    """There is nothing of that path."""


def parts(path: str, *, of_directory: bool = False) -> list[bytes]:
    """The components of a path; ToolError for one that can't be in the workspace. `.` and `a//b` are tidied.

    The workspace itself has none, and is a directory.
    """
    if fault := _fault(path):
        raise ToolError(f"the path {text.name(path)} {fault}")
    found = [part for part in path.encode().split(b"/") if part not in (b"", b".")]
    if not of_directory and not found:
        raise ToolError(f"the path {text.name(path)} is the workspace itself, not a file in it")
    if not of_directory and path.endswith(("/", "/.")):
        raise ToolError(f"the path {text.name(path)} names a directory, not a file")
    return found


def _fault(path: str) -> str | None:
    if not path:
        return "is empty; give one relative to the workspace"
    if "\0" in path:
        return "has a NUL character"
    try:
        raw = path.encode()
    except UnicodeEncodeError:
        return "is not valid Unicode text"
    if path.startswith("/"):
        return "is absolute; give one relative to the workspace"
    if len(raw) > MAX_PATH or any(len(part) > MAX_COMPONENT for part in raw.split(b"/")):
        return f"is too long: at most {MAX_PATH} bytes, {MAX_COMPONENT} in one name"
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names:
        return "leaves its directory by '..'; give one relative to the workspace"
    if names and is_git(names[0]):
        return "is git's own directory, which tools do not open"
    return None


def is_git(name: str) -> bool:
    """Whether some file system may take this name for `.git`: in any case, with characters that it ignores."""
    if "git" not in name.lower() and name.isascii():
        return False
    seen = "".join(c for c in name if unicodedata.category(c) != _IGNORED)
    return seen.casefold().rstrip(" .") in (".git", "git~1")


@contextmanager
def parent(context: Context, path: str, *, of_directory: bool = False) -> Iterator[tuple[int, bytes]]:
    """The directory above what a path names, opened, and the name in it."""
    *above, last = parts(path, of_directory=of_directory) or [b"."]
    with (
        _explained(context, path, above),
        safe_open.root(context.workspace) as top,
        safe_open.directory(top, above) as descriptor,
    ):
        yield descriptor, last


@contextmanager
def directory(context: Context, path: str) -> Iterator[int]:
    """A directory, opened."""
    components = parts(path, of_directory=True)
    with (
        _explained(context, path, components),
        safe_open.root(context.workspace) as top,
        safe_open.directory(top, components) as descriptor,
    ):
        yield descriptor


@contextmanager
def regular(context: Context, path: str) -> Iterator[int]:
    """A regular file of one name, opened for reading."""
    components = parts(path)
    with (
        _explained(context, path, components),
        safe_open.root(context.workspace) as top,
        safe_open.regular(top, components) as descriptor,
    ):
        require_one_name(os.fstat(descriptor), path)
        yield descriptor


def require_one_name(found: os.stat_result, path: str) -> None:
    """ToolError for anything but a regular file of one name: a second one may be of a file outside."""
    if not stat.S_ISREG(found.st_mode):
        raise ToolError(f"{text.name(path)} is {kind(found.st_mode)}, not a regular file")
    if found.st_nlink != 1:
        raise ToolError(
            f"{text.name(path)} is a hard link: it has {found.st_nlink} names; tools do not open it"
        )


def status(directory: int, name: bytes) -> os.stat_result | None:
    """What is there, links not followed; None if nothing is."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def kind(mode: int) -> str:
    """In words, with an article."""
    if stat.S_ISDIR(mode):
        return "a directory"
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    return "a file" if stat.S_ISREG(mode) else f"a {SPECIAL.get(stat.S_IFMT(mode), 'special file')}"


@contextmanager
def _explained(context: Context, path: str, components: Sequence[bytes]) -> Iterator[None]:
    """Failures of opening as a ToolError that says which component is at fault."""
    try:
        yield
    except PermissionError:
        raise ToolError(
            f"{text.name(path)} is locked: its permissions, or those of its directory, forbid it"
        ) from None
    except OSError as error:
        if error.errno not in (*safe_open.GONE, errno.ENAMETOOLONG):
            raise ToolError(f"{text.name(path)}: {error.strerror or 'it failed'}") from None
        raise _why(context, path, components) from None


def _why(context: Context, path: str, components: Sequence[bytes]) -> ToolError:
    """What stands in the way; only for the text, so it may look at what has changed meanwhile."""
    with safe_open.root(context.workspace) as top:
        for count in range(1, len(components) + 1):
            try:
                with safe_open.directory(top, components[: count - 1]) as above:
                    found = status(above, components[count - 1])
            except OSError:
                break
            reached = text.name(text.decoded(b"/".join(components[:count])))
            if found is None:
                return MissingError(
                    f"{text.name(path)} does not exist"
                    + (f": no {reached}" if count < len(components) else "")
                )
            if stat.S_ISLNK(found.st_mode):
                return ToolError(f"{reached} is a symbolic link; tools do not follow links")
            if count == len(components) or not stat.S_ISDIR(found.st_mode):
                return ToolError(f"{reached} is {kind(found.st_mode)}, {_not(found.st_mode)}")
    return ToolError(f"{text.name(path)} can't be opened")


def _not(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "not a file"
    return "not a directory" if stat.S_ISREG(mode) else "which tools do not open"
