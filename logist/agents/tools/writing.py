"""write_file, create_file and delete_file: files are replaced atomically."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from contextlib import suppress

from logist import systems
from logist.agents.tools import paths, text
from logist.agents.tools.context import Arguments, Context, LackingError, ToolError
from logist.core.model import Permission
from logist.core.permissions.tools import MAX_EDITED_BYTES
from logist.core.secrets.redact import REDACTED
from logist.core.text.counts import format_count
from logist.workspace.files import safe_open

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_MODE = 0o666
"""Mode of a new file, before the umask is applied."""
KEPT_MODE = 0o777


def write_file(arguments: Arguments, context: Context) -> tuple[str, int]:
    """Replace a file, or create a new one if the role may. Raises LackingError if it may not."""
    path, data = arguments["path"], encode_content(arguments["content"])
    creating = context.permissions.allows(Permission.CREATE_FILES)
    if creating:
        _make_directories(context, path)
    try:
        with paths.open_parent(context, path) as (directory, name):
            file_status = paths.read_status(directory, name)
            if file_status is not None:
                require_writable(file_status, path)
                _require_no_stand_in(context, path, arguments["content"])
            elif not creating:
                raise LackingError((Permission.CREATE_FILES,))
            write_atomically(directory, name, data, file_status)
    except paths.MissingError:
        if creating:
            raise
        raise LackingError((Permission.CREATE_FILES,)) from None
    return (
        f"{'wrote' if file_status else 'created'} {text.format_path(path)}: {format_count(len(data), 'byte')}",
        0,
    )


def create_file(arguments: Arguments, context: Context) -> tuple[str, int]:
    """Create a new file, and the directories above it."""
    path, data = arguments["path"], encode_content(arguments["content"])
    _make_directories(context, path)
    with paths.open_parent(context, path) as (directory, name):
        file_status = paths.read_status(directory, name)
        if file_status is not None:
            raise ToolError(
                f"{text.format_path(path)} already exists: it is {paths.describe_file_kind(file_status.st_mode)}"
            )
        write_atomically(directory, name, data, None)
    return f"created {text.format_path(path)}: {format_count(len(data), 'byte')}", 0


def delete_file(arguments: Arguments, context: Context) -> tuple[str, int]:
    """Delete a file, a link itself, or an empty directory."""
    path = arguments["path"]
    if not paths.split_path(path, of_directory=True):
        raise ToolError("can't delete the workspace itself")
    with paths.open_parent(context, path, of_directory=True) as (directory, name):
        file_status = paths.read_status(directory, name)
        if file_status is None:
            raise ToolError(f"{text.format_path(path)} not found")
        if stat.S_ISDIR(file_status.st_mode):
            _remove_directory(directory, name, path)
        else:
            _require_file_meant(path)
            os.unlink(name, dir_fd=directory)
        systems.flush(directory)
    return f"deleted {text.format_path(path)}", 0


def _remove_directory(directory: int, name: bytes, path: str) -> None:
    try:
        os.rmdir(name, dir_fd=directory)
    except OSError as error:
        if error.errno not in safe_open.NOT_EMPTY:
            raise
        raise ToolError(
            f"{text.format_path(path)} is a directory that is not empty; delete its content first"
        ) from None


def _require_file_meant(path: str) -> None:
    if path.endswith(("/", "/.")):
        raise ToolError(f"{text.format_path(path)} is not a directory")


def encode_content(content: str) -> bytes:
    """Return the bytes of a file. Raises ToolError for content that a file can't or should not have."""
    try:
        data = content.encode()
    except UnicodeEncodeError:
        raise ToolError(
            "the text contains half of a surrogate pair, which is not a valid character"
        ) from None
    if len(data) > MAX_EDITED_BYTES:
        raise ToolError(f"the text has {len(data):,} bytes; the limit is {MAX_EDITED_BYTES:,}")
    return data


def require_writable(found: os.stat_result, path: str) -> None:
    """Raise ToolError for anything except a writable regular file without hard links."""
    paths.require_one_name(found, path)
    if not found.st_mode & stat.S_IWUSR:
        raise ToolError(f"{text.format_path(path)} is read-only (mode {stat.S_IMODE(found.st_mode):04o})")


def _require_no_stand_in(context: Context, path: str, content: str) -> None:
    """Refuse `[redacted]` in the new content if it would replace a secret in the file."""
    if REDACTED not in content:
        return
    with paths.open_tool_file(context, path) as descriptor:
        size = min(os.fstat(descriptor).st_size, MAX_EDITED_BYTES)
        old_content = text.decode_text(b"".join(safe_open.read_exactly(descriptor, size)))
    require_no_stand_in(context, old_content)


def require_no_stand_in(context: Context, held: str) -> None:
    """Raise ToolError if the file contains a secret that the model saw as `[redacted]`."""
    if context.redact(held)[1]:
        raise ToolError(
            f"the text contains {REDACTED}, which replaces a secret in the file that you can't see; "
            "use edit_file to change the text around it"
        )


def write_atomically(directory: int, name: bytes, data: bytes, found: os.stat_result | None) -> None:
    """Write the complete content or nothing: writes a temporary file in the same directory and renames
    it.

    The name of the temporary file depends only on the file's name, so the next write removes a leftover one.
    """
    temporary = b".logist-%s.new" % hashlib.sha256(name).hexdigest()[:12].encode()
    with suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=directory)
    descriptor = os.open(temporary, NEW, FILE_MODE, dir_fd=directory)
    try:
        with open(descriptor, "wb") as file:
            if found is not None:
                os.fchmod(descriptor, found.st_mode & KEPT_MODE)
            file.write(data)
            file.flush()
            systems.flush(descriptor)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise
    systems.flush(directory)


def _make_directories(context: Context, path: str) -> None:
    """Create the missing directories above a path; one level at a time, never through a link."""
    above = paths.split_path(path)[:-1]
    with safe_open.open_root(context.workspace) as top:
        descriptor = os.dup(top)
        try:
            for part in above:
                below = _enter_directory(descriptor, part)
                if below is None:
                    return  # opening the file will report the problem
                os.close(descriptor)
                descriptor = below
        finally:
            os.close(descriptor)


def _enter_directory(parent: int, name: bytes) -> int | None:
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
    try:
        return safe_open.open_directory(parent, name)
    except OSError as error:
        if error.errno in (*safe_open.GONE, errno.EACCES):
            return None
        raise
