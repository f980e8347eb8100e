"""search: lines of the workspace's text files, file by file in a fixed order, in bounded memory and time."""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import field
from fnmatch import fnmatchcase

from logist.agents.tools import listing, matching, paths, text
from logist.agents.tools.context import Arguments, Context, ToolError
from logist.agents.tools.finding import SlowError, TextFinder, open_finder
from logist.agents.tools.reading import SNIFFED_BYTES
from logist.core.permissions.tools import MAX_SEARCHED_BYTES
from logist.core.text.counts import format_count
from logist.quick_dataclass import dataclass
from logist.workspace.files import file_names, safe_open

SECONDS = 60.0
"""Maximum time of one search."""
MAX_ENTRIES = 100_000
"""Maximum entries of one directory; the rest is skipped and counted."""
MAX_LEVELS = 64
MAX_LINE = 240
BEFORE_MATCH = 80
"""Maximum characters of a long line that are shown before the match."""

BINARY = "binary"
LARGE = f"over {MAX_SEARCHED_BYTES >> 20} MB"
UNREADABLE = "unreadable or with hard links"
MORE = f"beyond the first {MAX_ENTRIES:,} of a directory"
DEEP = f"deeper than {MAX_LEVELS} levels"


@dataclass
class Search:
    """One search: its settings, and its results so far."""

    context: Context
    finder: TextFinder
    everything: bool
    """Whether to list the files, because the pattern is empty."""
    glob: str | None
    lines: list[str] = field(default_factory=list)
    room: int = 0
    redactions: int = 0
    files: int = 0
    passed: Counter[str] = field(default_factory=Counter)

    def add_line(self, line: str) -> bool:
        """Add a line; False if there is no room for it."""
        self.room -= len(line) + 1
        if self.room >= 0:
            self.lines.append(line)
        return self.room >= 0


def search(arguments: Arguments, context: Context) -> tuple[str, int]:
    """Return `path:line: text` of each matching line, and the number of redactions."""
    pattern, path = arguments["pattern"], arguments.get("path", ".")
    deadline = time.monotonic() + SECONDS
    regex, ignore_case = arguments.get("regex", False), arguments.get("ignore_case", False)
    opened = open_finder(pattern, context, deadline, regex=regex and bool(pattern), ignore_case=ignore_case)
    with opened as text_finder:
        this = Search(context, text_finder, not pattern, arguments.get("glob"), room=context.room)
        end = _search_files(this, path, deadline)
    return _describe_search(this, end), this.redactions


def _search_files(this: Search, path: str, deadline: float) -> str:
    """Return why the search ended early; "" if it did not."""
    for file, parent, name in _iter_files(this, path):
        if time.monotonic() >= deadline:
            return f"timed out after {SECONDS:.0f} seconds"
        try:
            if not _search_file(this, file, parent, name):
                return "too many results; use a narrower pattern, path or glob"
        except SlowError as error:
            return f"the regular expression {error} in {text.format_path(file_names.to_display(file))}"
    return ""


def _describe_search(this: Search, end: str) -> str:
    count = len(this.lines)
    if end and not count:
        raise ToolError(f"search stopped: {end}")
    what = "file" if this.everything else "line"
    head = f"[{format_count(count, what)}; {format_count(this.files, 'file')} searched]"
    tail = (
        [f"[skipped: {', '.join(f'{n:,} {why}' for why, n in this.passed.items())}]"] if this.passed else []
    )
    if end:
        tail.append(f"[... cut: {end}]")
    return "\n".join([head, *this.lines, *tail])


def _iter_files(this: Search, path: str) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield each file: its path in the workspace, its directory, its name there."""
    components = paths.split_path(path, of_directory=True)
    if components:
        with paths.open_parent(this.context, path, of_directory=True) as (parent, name):
            file_status = paths.read_status(parent, name)
            if file_status is not None and stat.S_ISREG(file_status.st_mode):
                paths.require_one_name(file_status, path)
                yield b"/".join(components), parent, name
                return
    with paths.open_tool_directory(this.context, path) as descriptor:
        prefix = b"".join(component + b"/" for component in components)
        yield from _walk_directory(this, descriptor, prefix, len(prefix))


def _walk_directory(
    this: Search, descriptor: int, prefix: bytes, base: int
) -> Iterator[tuple[bytes, int, bytes]]:
    entries = listing.list_first_names(descriptor, MAX_ENTRIES, this.context, top=not prefix)
    this.passed.update({MORE: entries.omitted} if entries.omitted else {})
    for name in entries.names:
        status = paths.read_status(descriptor, name)
        if status is None:
            continue
        if stat.S_ISDIR(status.st_mode):
            yield from _walk_below(this, descriptor, prefix + name, base)
        elif stat.S_ISREG(status.st_mode) and _is_wanted(this.glob, prefix + name, base):
            yield prefix + name, descriptor, name


def _walk_below(this: Search, parent: int, path: bytes, base: int) -> Iterator[tuple[bytes, int, bytes]]:
    name = path.rpartition(b"/")[2]
    if listing.is_cache(name, this.context):
        return
    if path.count(b"/") >= MAX_LEVELS:
        this.passed[DEEP] += 1
        return
    this.context.require_time_left()
    try:
        descriptor = safe_open.open_directory(parent, name)
    except OSError:
        this.passed[UNREADABLE] += 1
        return
    try:
        yield from _walk_directory(this, descriptor, path + b"/", base)
    finally:
        os.close(descriptor)


def _is_wanted(glob: str | None, path: bytes, base: int) -> bool:
    """Whether the glob matches a file: by its name, its path in the
    workspace or its path below the directory.
    """
    if not glob:
        return True
    if "/" not in glob:
        return fnmatchcase(os.fsdecode(path.rpartition(b"/")[2]), glob)
    return any(matches_glob(glob, os.fsdecode(one)) for one in {path, path[base:]})


def matches_glob(glob: str, path: str) -> bool:
    """Whether a path matches; `**` matches any number of directories, including none."""
    wanted = [part for part in glob.split("/") if part not in ("", ".")]
    at = _skip_wildcards({0}, wanted)
    for part in path.split("/"):
        stay = {i for i in at if i < len(wanted) and wanted[i] == "**"}
        on = {i + 1 for i in at - stay if i < len(wanted) and fnmatchcase(part, wanted[i])}
        at = _skip_wildcards(stay | on, wanted)
    return len(wanted) in at


def _skip_wildcards(at: set[int], wanted: list[str]) -> set[int]:
    positions = set(at)
    for i in sorted(at):
        while i < len(wanted) and wanted[i] == "**":
            i += 1
            positions.add(i)
    return positions


def _search_file(this: Search, path: bytes, parent: int, name: bytes) -> bool:
    """Search one file; False if there is no room for more."""
    this.context.require_time_left()
    display_path = text.format_path(file_names.to_display(path))
    try:
        with safe_open.open_regular_below(parent, [name]) as descriptor:
            file_status = os.fstat(descriptor)
            if file_status.st_nlink != 1:
                raise PermissionError
            this.files += 1
            if this.everything:
                return this.add_line(f"{display_path}  {format_count(file_status.st_size, 'byte')}")
            if file_status.st_size > MAX_SEARCHED_BYTES:
                this.passed[LARGE] += 1
                return True
            data = b"".join(safe_open.read_exactly(descriptor, file_status.st_size))
    except OSError:
        this.passed[UNREADABLE] += 1
        return True
    if b"\0" in data[:SNIFFED_BYTES]:
        this.passed[BINARY] += 1
        return True
    return _search_text(this, display_path, data)


def _search_text(this: Search, shown: str, data: bytes) -> bool:
    places = this.finder.find_places(data)
    if not places:
        return True
    content = text.decode_text(data)
    starts = _find_starts(content, [number for number, _ in places])
    secret = this.context.redact(content)[1] > 0
    for (number, column), start in zip(places, starts, strict=True):
        line = _format_line(this, content, (start, column), secret=secret)
        if not this.add_line(f"{shown}:{number + 1}: {line}"):
            return False
    return len(places) < matching.MOST


def _find_starts(content: str, numbers: list[int]) -> list[int]:
    """Return the offsets where these lines begin; the lines are in order."""
    offsets = []
    number = start = 0
    for wanted in numbers:
        for _ in range(wanted - number):
            start = content.find("\n", start) + 1
        number = wanted
        offsets.append(start)
    return offsets


def _format_line(this: Search, content: str, place: tuple[int, int], *, secret: bool) -> str:
    start, column = place
    end = content.find("\n", start)
    end = len(content) if end < 0 else end
    cut = start
    if end - start > MAX_LINE:
        cut = max(start, min(start + column, end) - BEFORE_MATCH)
    last = min(end, cut + MAX_LINE)
    line = content[cut:last]
    if secret:
        before, after = content[max(0, cut - text.CONTEXT) : cut], content[last : last + text.CONTEXT]
        line, count = text.redact_between(this.context.redact, before, line, after)
        this.redactions += count
    return f"{'...' if cut > start else ''}{line.rstrip(chr(13))}{'...' if last < end else ''}"
