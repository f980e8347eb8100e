"""The paths of a call: parsed strictly, then opened component by component, never through a link."""

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
"""The Unicode category of characters that some file systems ignore in names."""


class MissingError(ToolError):
    """The path does not exist."""


def split_path(path: str, *, of_directory: bool = False) -> list[bytes]:
    """Return the components of a path. Raises ToolError for one that can't be in the workspace.

    `.` and `a//b` are normalized. The workspace itself is a directory without components.
    """
    if fault := _find_fault(path):
        raise ToolError(f"the path {text.format_path(path)} {fault}")
    components = [part for part in path.encode().split(b"/") if part not in (b"", b".")]
    if not of_directory and not components:
        raise ToolError(f"the path {text.format_path(path)} is the workspace itself, not a file in it")
    if not of_directory and path.endswith(("/", "/.")):
        raise ToolError(f"the path {text.format_path(path)} names a directory, not a file")
    return components


def _find_fault(path: str) -> str | None:
    if not path:
        return "is empty; use a path relative to the workspace"
    if "\0" in path:
        return "contains a NUL character"
    try:
        raw = path.encode()
    except UnicodeEncodeError:
        return "is not valid Unicode text"
    if path.startswith("/"):
        return "is absolute; use a path relative to the workspace"
    if len(raw) > MAX_PATH or any(len(part) > MAX_COMPONENT for part in raw.split(b"/")):
        return f"is too long: at most {MAX_PATH} bytes, {MAX_COMPONENT} in one name"
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names:
        return "contains '..'; use a path relative to the workspace"
    if names and is_git(names[0]):
        return "is git's own directory; tools can't open it"
    return None


def is_git(name: str) -> bool:
    """Whether some file system treats this name as `.git`: ignoring case, or
    with characters that it ignores.
    """
    if "git" not in name.lower() and name.isascii():
        return False
    visible = "".join(c for c in name if unicodedata.category(c) != _IGNORED)
    return visible.casefold().rstrip(" .") in (".git", "git~1")


@contextmanager
def open_parent(context: Context, path: str, *, of_directory: bool = False) -> Iterator[tuple[int, bytes]]:
    """Open the parent directory of a path; yield its descriptor and the name in it."""
    *above, last = split_path(path, of_directory=of_directory) or [b"."]
    with (
        _explain_failures(context, path, above),
        safe_open.open_root(context.workspace) as top,
        safe_open.open_below(top, above) as descriptor,
    ):
        yield descriptor, last


@contextmanager
def open_tool_directory(context: Context, path: str) -> Iterator[int]:
    """Open a directory; yield its descriptor."""
    components = split_path(path, of_directory=True)
    with (
        _explain_failures(context, path, components),
        safe_open.open_root(context.workspace) as top,
        safe_open.open_below(top, components) as descriptor,
    ):
        yield descriptor


@contextmanager
def open_tool_file(context: Context, path: str) -> Iterator[int]:
    """Open a regular file without hard links for reading; yield its descriptor."""
    components = split_path(path)
    with (
        _explain_failures(context, path, components),
        safe_open.open_root(context.workspace) as top,
        safe_open.open_regular_below(top, components) as descriptor,
    ):
        require_one_name(os.fstat(descriptor), path)
        yield descriptor


def require_one_name(found: os.stat_result, path: str) -> None:
    """Raise ToolError for anything except a regular file without hard links, which may lead out of the workspace."""
    if not stat.S_ISREG(found.st_mode):
        raise ToolError(
            f"{text.format_path(path)} is {describe_file_kind(found.st_mode)}, not a regular file"
        )
    if found.st_nlink != 1:
        raise ToolError(
            f"{text.format_path(path)} is a hard link: it has {found.st_nlink} names; tools can't open it"
        )


def read_status(directory: int, name: bytes) -> os.stat_result | None:
    """Return the status of an entry without following links; None if there is none."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def describe_file_kind(mode: int) -> str:
    """Name the kind of file, with an article."""
    if stat.S_ISDIR(mode):
        return "a directory"
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    return "a file" if stat.S_ISREG(mode) else f"a {SPECIAL.get(stat.S_IFMT(mode), 'special file')}"


@contextmanager
def _explain_failures(context: Context, path: str, components: Sequence[bytes]) -> Iterator[None]:
    """Convert errors of opening to a ToolError that names the component that failed."""
    try:
        yield
    except PermissionError:
        raise ToolError(
            f"{text.format_path(path)} can't be opened: permission denied for it or its directory"
        ) from None
    except OSError as error:
        if error.errno not in (*safe_open.GONE, errno.ENAMETOOLONG):
            raise ToolError(f"{text.format_path(path)}: {error.strerror or 'failed'}") from None
        raise _explain_failure(context, path, components) from None


def _explain_failure(context: Context, path: str, components: Sequence[bytes]) -> ToolError:
    """Return the error for the component that failed; only used for the message, so it doesn't matter if files
    have changed meanwhile.
    """
    with safe_open.open_root(context.workspace) as top:
        for count in range(1, len(components) + 1):
            try:
                with safe_open.open_below(top, components[: count - 1]) as above:
                    file_status = read_status(above, components[count - 1])
            except OSError:
                break
            reached = text.format_path(text.decode_text(b"/".join(components[:count])))
            if file_status is None:
                return MissingError(
                    f"{text.format_path(path)} not found"
                    + (f": no {reached}" if count < len(components) else "")
                )
            if stat.S_ISLNK(file_status.st_mode):
                return ToolError(f"{reached} is a symbolic link; tools don't follow links")
            if count == len(components) or not stat.S_ISDIR(file_status.st_mode):
                return ToolError(
                    f"{reached} is {describe_file_kind(file_status.st_mode)}, {_describe_mismatch(file_status.st_mode)}"
                )
    return ToolError(f"{text.format_path(path)} can't be opened")


def _describe_mismatch(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "not a file"
    return "not a directory" if stat.S_ISREG(mode) else "which tools can't open"
