"""list_directory: the sorted entries of a directory; only what is displayed is kept in memory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from logist.agents.tools import paths, text
from logist.agents.tools.context import Arguments, Context
from logist.core.text.counts import format_count
from logist.quick_tuple import NamedTuple
from logist.workspace.checkpoint.scan import SPECIAL
from logist.workspace.files import file_names, safe_open

MAX_ENTRIES = 2000
"""Maximum entries of the requested directory."""
MAX_BELOW = 100
"""Maximum entries of each directory in it."""
CHECKED = 10_000
"""Entries between two checks of the time."""


class Entries(NamedTuple):
    """The first names of a directory in the order of their bytes, and how many more there are."""

    names: list[bytes]
    omitted: int


def list_directory(arguments: Arguments, context: Context) -> tuple[str, int]:
    """Return a line for each entry: kind, size, path below the directory."""
    path = arguments.get("path", ".")
    display_path = text.format_path(path)
    with paths.open_tool_directory(context, path) as descriptor:
        top = not paths.split_path(path, of_directory=True)
        entries = list_first_names(descriptor, MAX_ENTRIES, context, top=top)
        if not entries.names:
            return f"[{display_path}: an empty directory]", 0
        lines = _format_entries(descriptor, b"", entries, arguments.get("depth", 1), context)
        body, cut = _cut_to_room(lines, context.room)
    count = len(entries.names) + entries.omitted
    note = "\n[... cut; list a subdirectory, or use a smaller depth]" if cut else ""
    return f"[{display_path}: {format_count(count, 'entry')}]\n{body}{note}", 0


def list_first_names(descriptor: int, limit: int, context: Context, *, top: bool) -> Entries:
    """Return the first `limit` names, without the `.git` of the workspace
    (`top`). Holds twice as many at most.
    """
    first: list[bytes] = []
    last: bytes | None = None
    count = 0
    for name in _iter_names(descriptor, top=top):
        count += 1
        if count % CHECKED == 0:
            context.require_time_left()
        if last is None or name < last:
            first.append(name)
        if len(first) >= 2 * limit:
            first.sort()
            del first[limit:]
            last = first[-1]
    first.sort()
    del first[limit:]
    return Entries(first, count - len(first))


def _iter_names(descriptor: int, *, top: bool) -> Iterator[bytes]:
    with os.scandir(descriptor) as listing:
        for entry in listing:
            if not (top and paths.is_git(entry.name)):
                yield os.fsencode(entry.name)


def _cut_to_room(lines: Iterator[str], room: int) -> tuple[str, bool]:
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            return "\n".join(kept), True
        kept.append(line)
    return "\n".join(kept), False


def _format_entries(
    descriptor: int, prefix: bytes, found: Entries, depth: int, context: Context
) -> Iterator[str]:
    for name in found.names:
        status = paths.read_status(descriptor, name)
        if status is None:
            continue
        yield _format_entry(descriptor, prefix, name, status, context)
        if depth > 1 and stat.S_ISDIR(status.st_mode) and not is_cache(name, context):
            yield from _format_below(descriptor, prefix, name, depth - 1, context)
    if found.omitted:
        yield f"... {found.omitted:,} more in {text.format_path(file_names.to_display(prefix) or '.')}"


def _format_below(parent: int, prefix: bytes, name: bytes, depth: int, context: Context) -> Iterator[str]:
    context.require_time_left()
    try:
        descriptor = safe_open.open_directory(parent, name)
    except OSError:
        return
    try:
        entries = list_first_names(descriptor, MAX_BELOW, context, top=False)
        yield from _format_entries(descriptor, prefix + name + b"/", entries, depth, context)
    finally:
        os.close(descriptor)


def is_cache(name: bytes, context: Context) -> bool:
    """Whether a directory of this name is a cache, which a tool can make again."""
    return name.decode("utf-8", "surrogateescape") in context.caches


def _format_entry(
    directory: int, prefix: bytes, name: bytes, status: os.stat_result, context: Context
) -> str:
    path = prefix + name
    if stat.S_ISDIR(status.st_mode):
        note = "  (a cache, content not listed)" if is_cache(name, context) else ""
        return f"dir   {text.format_path(file_names.to_display(path) + '/')}{note}"
    if stat.S_ISREG(status.st_mode):
        return (
            f"file  {text.format_path(file_names.to_display(path))}  {format_count(status.st_size, 'byte')}"
        )
    if stat.S_ISLNK(status.st_mode):
        return f"link  {text.format_path(file_names.to_display(path))} -> {_read_target(directory, name)}"
    return f"{SPECIAL.get(stat.S_IFMT(status.st_mode), 'special'):5} {text.format_path(file_names.to_display(path))}"


def _read_target(directory: int, name: bytes) -> str:
    try:
        return text.format_path(file_names.to_display(safe_open.read_link(directory, name)))
    except OSError:
        return "?"
