"""list_directory: what lies in a directory, sorted, in memory for what is shown alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from logist.agents.tools import paths, text
from logist.agents.tools.context import Arguments, Context
from logist.workspace.checkpoint.scan import SPECIAL
from logist.workspace.files import file_names, safe_open

MAX_ENTRIES = 2000
"""Of the directory that was asked for."""
MAX_BELOW = 100
"""Of each directory in it."""
CHECKED = 10_000
"""After how many entries the time is looked at."""


class Entries(NamedTuple):
    """The first names of a directory in the order of their bytes, and how many more there are."""

    names: list[bytes]
    omitted: int


def list_directory(arguments: Arguments, context: Context) -> tuple[str, int]:
    """A line for each entry: kind, size, path below the directory."""
    path = arguments.get("path", ".")
    shown = text.name(path)
    with paths.directory(context, path) as descriptor:
        top = not paths.parts(path, of_directory=True)
        found = first_names(descriptor, MAX_ENTRIES, context, top=top)
        if not found.names:
            return f"[{shown}: an empty directory]", 0
        lines = _lines(descriptor, b"", found, arguments.get("depth", 1), context)
        body, cut = _fitting(lines, context.room)
    count = len(found.names) + found.omitted
    note = "\n[... cut; list a directory further down, or with less depth]" if cut else ""
    return f"[{shown}: {count:,} {'entry' if count == 1 else 'entries'}]\n{body}{note}", 0


def first_names(descriptor: int, limit: int, context: Context, *, top: bool) -> Entries:
    """The first `limit` names; the `.git` of the workspace (`top`) is left out. Holds twice as many at most."""
    first: list[bytes] = []
    last: bytes | None = None
    seen = 0
    for name in _names(descriptor, top=top):
        seen += 1
        if seen % CHECKED == 0:
            context.check()
        if last is None or name < last:
            first.append(name)
        if len(first) >= 2 * limit:
            first.sort()
            del first[limit:]
            last = first[-1]
    first.sort()
    del first[limit:]
    return Entries(first, seen - len(first))


def _names(descriptor: int, *, top: bool) -> Iterator[bytes]:
    with os.scandir(descriptor) as listing:
        for entry in listing:
            if not (top and paths.is_git(entry.name)):
                yield os.fsencode(entry.name)


def _fitting(lines: Iterator[str], room: int) -> tuple[str, bool]:
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            return "\n".join(kept), True
        kept.append(line)
    return "\n".join(kept), False


def _lines(descriptor: int, prefix: bytes, found: Entries, depth: int, context: Context) -> Iterator[str]:
    for name in found.names:
        status = paths.status(descriptor, name)
        if status is None:
            continue
        yield _entry(descriptor, prefix, name, status, context)
        if depth > 1 and stat.S_ISDIR(status.st_mode) and not is_cache(name, context):
            yield from _below(descriptor, prefix, name, depth - 1, context)
    if found.omitted:
        yield f"... {found.omitted:,} more in {text.name(file_names.shown(prefix) or '.')}"


def _below(parent: int, prefix: bytes, name: bytes, depth: int, context: Context) -> Iterator[str]:
    context.check()
    try:
        descriptor = safe_open.open_directory(parent, name)
    except OSError:
        return
    try:
        found = first_names(descriptor, MAX_BELOW, context, top=False)
        yield from _lines(descriptor, prefix + name + b"/", found, depth, context)
    finally:
        os.close(descriptor)


def is_cache(name: bytes, context: Context) -> bool:
    """Whether a directory of this name is one that a tool can make again."""
    return name.decode("utf-8", "surrogateescape") in context.caches


def _entry(directory: int, prefix: bytes, name: bytes, status: os.stat_result, context: Context) -> str:
    path = prefix + name
    if stat.S_ISDIR(status.st_mode):
        note = "  (a cache, not shown)" if is_cache(name, context) else ""
        return f"dir   {text.name(file_names.shown(path) + '/')}{note}"
    if stat.S_ISREG(status.st_mode):
        return f"file  {text.name(file_names.shown(path))}  {status.st_size:,} bytes"
    if stat.S_ISLNK(status.st_mode):
        return f"link  {text.name(file_names.shown(path))} -> {_target(directory, name)}"
    return f"{SPECIAL.get(stat.S_IFMT(status.st_mode), 'special'):5} {text.name(file_names.shown(path))}"


def _target(directory: int, name: bytes) -> str:
    try:
        return text.name(file_names.shown(safe_open.link_target(directory, name)))
    except OSError:
        return "?"
