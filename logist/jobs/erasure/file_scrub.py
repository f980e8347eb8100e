"""Copies directories without some texts: in files, names and the targets of links.

What contains none of them is linked, not copied: until the old directory is removed, a file has both names. A file that
changes is written anew, never in place. Files of agents may be anything, so no link is followed and nothing is opened
that is not a regular file.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import field
from functools import partial

from logist.core.secrets.erasing import Eraser, find_free_name
from logist.errors import Refused, StorageError
from logist.jobs.erasure.history_scrub import erase_json
from logist.quick_dataclass import dataclass
from logist.workspace.checkpoint import rewriting
from logist.workspace.checkpoint.scan import MAX_DEPTH
from logist.workspace.files import safe_open

_BLOCK = 1 << 20
_LARGEST_JSON = 64_000_000
"""Bytes. A larger file with JSON is searched as text, piece by piece."""
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass
class CopiedFiles:
    """What was replaced in the files of a directory."""

    places: list[int] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    """The files that changed, by their new names."""
    nested: list[str] = field(default_factory=list)
    """Directories that have a git repository, whose compressed objects are not searched."""


class FileScrub:
    """Copies the files of one job."""

    def __init__(self, eraser: Eraser) -> None:
        self.eraser, self.done = eraser, CopiedFiles()

    def copy_directory(
        self, source: int, target: int, path: bytes = b"", *, leave_out: Collection[bytes] = ()
    ) -> None:
        """Copy everything in the opened directory `source` to `target`, except these names.

        `path` is where it is in the job; in `workspace` and `attachments`, files have no known format.
        """
        if path.count(b"/") > 2 * MAX_DEPTH:
            raise _make_error(path, "nested too deeply", "remove it")
        names = sorted(name for name in map(os.fsencode, os.listdir(source)) if name not in leave_out)
        new_names = rename_entries(names, self.eraser, self.done.places)
        for name in names:
            new = new_names.get(name, name)
            below = path + b"/" + new if path else new
            try:
                self._copy_entry(source, name, target, new, below)
            except PermissionError as error:
                raise _make_error(below, str(error.strerror), "change its permissions") from error

    def _copy_entry(self, source: int, name: bytes, target: int, new: bytes, path: bytes) -> None:
        status = os.stat(name, dir_fd=source, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            os.mkdir(new, 0o700, dir_fd=target)
            with (
                safe_open.open_below(source, [name], unlocking=True) as inner,
                safe_open.open_below(target, [new]) as made,
            ):
                if name == b".git":
                    self.done.nested.append(os.fsdecode(os.path.dirname(path)))
                self.copy_directory(inner, made, path)
                os.fchmod(made, stat.S_IMODE(status.st_mode) | stat.S_IRWXU)
        elif stat.S_ISLNK(status.st_mode):
            self._copy_link(source, name, target, new)
        elif not stat.S_ISREG(status.st_mode) or not self._copy_changed(source, name, target, new, path):
            _link(source, name, target, new, status)

    def _copy_link(self, source: int, name: bytes, target: int, new: bytes) -> None:
        old = os.readlink(name, dir_fd=source)
        os.symlink(
            b"".join(rewriting.replace_bytes([old], self._replace, self.done.places)), new, dir_fd=target
        )

    def _copy_changed(self, source: int, name: bytes, target: int, new: bytes, path: bytes) -> bool:
        """Write a file without the values; False if it has none of them."""
        with safe_open.open_regular_below(source, [name], unlocking=True) as descriptor:
            counted: list[int] = []
            for _ in rewriting.replace_bytes(_read(descriptor), self._replace, counted):
                if counted:
                    break
            is_json = _is_json(path)
            if not counted and not is_json:
                return False
            status = os.fstat(descriptor)
            as_json = None
            if is_json and status.st_size <= _LARGEST_JSON:
                as_json = erase_json_lines(b"".join(_read(descriptor)), self.eraser)
            if not counted and as_json is None:
                return False
            with open(os.open(new, _NEW, 0o600, dir_fd=target), "w+b") as file:
                places = self.done.places
                pieces = [as_json[0]] if as_json else _read(descriptor)
                places += [as_json[1]] if as_json else []
                for piece in rewriting.replace_bytes(pieces, self._replace, places):
                    file.write(piece)
                file.flush()
                self._require_none(file.fileno(), path)
                os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
                os.utime(file.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        self.done.changed.append(os.fsdecode(path))
        return True

    @property
    def _replace(self) -> rewriting.ReplaceText:
        return self.eraser.replace_blocks

    def _require_none(self, descriptor: int, path: bytes) -> None:
        """Raise Refused if what was written has the value again: it can be formed by what was before and after it."""
        left: list[int] = []
        for _ in rewriting.replace_bytes(_read(descriptor), self._replace, left):
            pass
        if left:
            name = self.eraser.replace(os.fsdecode(path))[0]
            message = "the value is formed again by the text around its replacement"
            raise Refused(
                message, where=name, fix="nothing was changed; scrub a longer part of the text first"
            )


def rename_entries(names: Sequence[bytes], eraser: Eraser, counted: list[int]) -> dict[bytes, bytes]:
    """Return the new names of the entries of a directory that contain a value."""
    new: dict[bytes, bytes] = {}
    for name in sorted(names):
        replaced, places = eraser.replace(os.fsdecode(name))
        if places:
            counted.append(places)
            taken = {*map(os.fsdecode, names), *map(os.fsdecode, new.values())}
            new[name] = os.fsencode(find_free_name(replaced, taken))
    return new


def erase_json_lines(data: bytes, eraser: Eraser) -> tuple[bytes, int] | None:
    """Return a JSON document, or lines of JSON, without the values; None if there are none inside their texts."""
    if (whole := erase_json(data, eraser)) is not None:
        return whole[0] + (b"\n" if data.endswith(b"\n") else b""), whole[1]
    lines, places = data.split(b"\n"), 0
    if len(lines) < 2:
        return None
    for number, line in enumerate(lines):
        if (erased := erase_json(line, eraser)) is not None:
            lines[number], places = erased[0], places + erased[1]
    return (b"\n".join(lines), places) if places else None


def _is_json(path: bytes) -> bool:
    """Whether Logist has written a file as JSON: then its texts are searched as they are meant."""
    return path.endswith((b".json", b".jsonl")) and path.split(b"/")[0] not in (b"workspace", b"attachments")


def _read(descriptor: int) -> Iterator[bytes]:
    os.lseek(descriptor, 0, os.SEEK_SET)
    yield from iter(partial(os.read, descriptor, _BLOCK), b"")


def _link(source: int, name: bytes, target: int, new: bytes, status: os.stat_result) -> None:
    try:
        os.link(name, new, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
    except OSError as error:
        # The file system has no hard links, or the file has as many as it can have.
        if error.errno not in (errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP) or not stat.S_ISREG(
            status.st_mode
        ):
            raise
        _copy(source, name, target, new, status)


def _copy(source: int, name: bytes, target: int, new: bytes, status: os.stat_result) -> None:
    with (
        safe_open.open_regular_below(source, [name]) as descriptor,
        open(os.open(new, _NEW, 0o600, dir_fd=target), "wb") as file,
    ):
        for piece in _read(descriptor):
            file.write(piece)
        file.flush()
        os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
        os.utime(file.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))


def _make_error(path: bytes, reason: str, fix: str) -> StorageError:
    return StorageError(
        f"can't be searched: {reason}", where=os.fsdecode(path), fix=f"nothing was changed; {fix}"
    )


def list_names_renamer(eraser: Eraser) -> Callable[[Sequence[bytes], list[int]], dict[bytes, bytes]]:
    """Return what `rewriting.rewrite_repository` needs to change names."""
    return lambda names, counted: rename_entries(names, eraser, counted)
