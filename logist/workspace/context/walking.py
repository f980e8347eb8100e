"""Finds the files of a workspace that a prompt may mention: all that is neither git-ignored, a cache,
excluded, nor elsewhere.

As for git, what was tracked in the source of the workspace is not ignored, even if a `.gitignore` matches it.
Level by level, so that what is near the top is known however much there is below. Links are not followed, and
a directory with its own `.git` is another repository: it is named, not entered. The `.gitignore` files are
the workspace's, read as any file of it is; its `.git` is never read.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from logist.core.text.patterns import NameGate, Patterns, parse_patterns
from logist.workspace.context.descending import Descent
from logist.workspace.context.tracked import Tracked
from logist.workspace.files import safe_open
from logist.workspace.files.file_names import split_agent_path

MAX_DEPTH = 100
MAX_FILES = 200_000
"""Files looked at; of what comes later, the numbers are not told."""
MAX_IN_ONE = 20_000
"""Files of one directory."""
IGNORE_FILE = ".gitignore"
MAX_IGNORE_BYTES = 64 * 1024
"""Of one `.gitignore`; a larger one is passed over."""
MAX_IGNORE_TOTAL = 512 * 1024
MAX_PATTERNS = 2_000
"""Of one `.gitignore`."""
MAX_EFFORT = 2_000_000_000
"""Steps that all patterns together may take; then no more is looked at."""

LINK = "a link"
REPOSITORY = "a repository of its own"
UNREADABLE = "unreadable"
TOO_DEEP = "too deep"
SECOND_NAME = "has another name"


@dataclass
class FileSurvey:
    """The files of a workspace, level by level, each directory in the order of names."""

    files: dict[str, int] = field(default_factory=dict)
    """Regular files of one name, and how many bytes. What is not UTF-8 in a path stands there as lone surrogates."""
    directories: list[str] = field(default_factory=list)
    """Those that were entered."""
    noted: dict[str, str] = field(default_factory=dict)
    """What is there, and is neither a file of one name nor entered: path, and why."""
    hidden: Patterns = field(default_factory=lambda: Patterns(()))
    """What is hidden, whatever the `.gitignore` files say."""
    partial: bool = False
    """There is more than was looked at."""
    unlisted: bool = False
    """Something is git-ignored, or hidden."""


class _Ignoring(NamedTuple):
    """The patterns of a `.gitignore`, and how much of a path is that of its directory."""

    patterns: Patterns
    start: int


class _Rules(NamedTuple):
    """Everything that hides files of a directory."""

    hidden: Patterns
    ignoring: tuple[_Ignoring, ...]
    """From the top down."""
    gate: NameGate

    @classmethod
    def from_patterns(cls, hidden: Patterns, ignoring: tuple[_Ignoring, ...] = ()) -> _Rules:
        return cls(hidden, ignoring, NameGate([hidden, *(each.patterns for each in ignoring)]))

    def is_ignored(self, path: str, *, directory: bool) -> bool:
        """Whether the `.gitignore` files match a path whose directories they do not."""
        for patterns, start in reversed(self.ignoring):
            verdict = patterns.match_path(path[start:], directory)
            if verdict is not None:
                return verdict
        return False


def survey_files(root: Path, hidden: Patterns, tracked: Tracked) -> FileSurvey:
    """Walk a workspace; the same workspace gives the same result."""
    with safe_open.open_root(root) as top:
        return _FileWalk(top, hidden, tracked).walk()


def find_ignored(root: Path, paths: Iterable[str], tracked: Tracked) -> frozenset[str]:
    """Return those that are git-ignored, by themselves or with a directory
    above them; they need not exist.
    """
    with safe_open.open_root(root) as top:
        walk = _FileWalk(top, Patterns(()), tracked)
        return frozenset(path for path in paths if walk.is_ignored(path))


class _FileWalk:
    def __init__(self, top: int, hidden: Patterns, tracked: Tracked) -> None:
        self.top = top
        self.tracked = tracked
        self.ignored: set[str] = set()
        """Directories that are ignored, and entered for what was tracked in them; nothing else of them counts."""
        self.found = FileSurvey(hidden=hidden)
        self.rules = _Rules.from_patterns(hidden)
        self.waiting: deque[tuple[str, list[str], _Rules]] = deque()
        """Directories, those of one parent together: its path, their names, and what hides files of the parent."""
        self.within: dict[str, _Rules] = {}
        """What hides files of a directory, of those on the way to a path that was asked for."""
        self.ignore_bytes = 0
        self.effort = 0

    def walk(self) -> FileSurvey:
        self._list_directory(self.top, "", self.rules)
        with Descent(self.top) as way:
            while self.waiting:
                above, names, rules = self.waiting.popleft()
                try:
                    descriptor = way.open_path(above)
                    for name in names:
                        if len(self.found.files) >= MAX_FILES or self.effort > MAX_EFFORT:
                            self.found.partial = True
                            return self.found
                        self._enter_directory(descriptor, above, name, rules)
                except PermissionError:
                    self.found.noted[above] = UNREADABLE
                except OSError as error:
                    if error.errno not in safe_open.GONE:
                        raise
        return self.found

    def _enter_directory(self, parent: int, above: str, name: str, rules: _Rules) -> None:
        path = f"{above}/{name}" if above else name
        try:
            descriptor = safe_open.open_directory(parent, os.fsencode(name))
        except PermissionError:
            self.found.noted[path] = UNREADABLE
            return
        except OSError as error:
            if error.errno in safe_open.GONE:
                return
            raise
        try:
            self._list_directory(descriptor, path, rules)
        finally:
            os.close(descriptor)

    def _list_directory(self, descriptor: int, path: str, rules: _Rules) -> None:
        with os.scandir(descriptor) as listing:
            entries = sorted(listing, key=_get_name)
        names = {entry.name for entry in entries}
        if path and ".git" in names:
            self.found.noted[path] = REPOSITORY
            return
        if path:
            self.found.directories.append(path)
        prefix = f"{path}/" if path else ""
        ignored = path in self.ignored
        if IGNORE_FILE in names and not ignored:
            rules = self._add_own_rules(descriptor, len(prefix), rules)
        self.effort += rules.gate.effort * sum(map(len, names))
        if self.effort > MAX_EFFORT:
            self.found.partial = True
            return
        below: list[str] = []
        room = MAX_IN_ONE
        for entry, directory in self._filter_entries(entries, prefix, rules, ignored):
            if directory:
                below.append(entry.name)
            elif room > 0:
                self._record_entry(entry, prefix + entry.name)
                room -= 1
            else:
                self.found.partial = True
        if below:
            self._queue_below(path, below, rules)

    def _filter_entries(
        self, entries: Iterable[os.DirEntry[str]], prefix: str, rules: _Rules, ignored: bool
    ) -> Iterator[tuple[os.DirEntry[str], bool]]:
        """Yield what is not hidden of a directory, and whether it is a directory itself."""
        may_hide = rules.gate.can_match
        for entry in entries:
            name = entry.name
            directory = entry.is_dir(follow_symlinks=False)
            if name == ".git":
                continue
            if (ignored or may_hide(name)) and self._is_hidden(prefix + name, rules, directory, ignored):
                self.found.unlisted = True
                continue
            yield entry, directory

    def _queue_below(self, path: str, names: list[str], rules: _Rules) -> None:
        if path.count("/") < MAX_DEPTH:
            self.waiting.append((path, names, rules))
        else:
            self.found.noted[path] = TOO_DEEP

    def _is_hidden(self, path: str, rules: _Rules, directory: bool, ignored: bool) -> bool:
        """Whether the rules hide a path. `ignored`: the directory it is in is."""
        if rules.hidden.match_path(path, directory):
            return True
        if not ignored:
            self.effort += (len(path) + 1) * sum(each.patterns.effort for each in rules.ignoring)
            if not rules.is_ignored(path, directory=directory):
                return False
        if not self.tracked.has_path(path, directory=directory):
            return True
        if directory:
            self.ignored.add(path)
        return False

    def is_ignored(self, path: str) -> bool:
        """Whether it is git-ignored; where that takes too long to decide, it counts as such."""
        parts = split_agent_path(path) or []
        rules, here = self.rules, ""
        for number, part in enumerate(parts):
            ignored = here in self.ignored
            rules = rules if ignored else self._rules_within(here, parts[:number], rules)
            here = f"{here}/{os.fsdecode(part)}" if here else os.fsdecode(part)
            if self._is_hidden(here, rules, number < len(parts) - 1, ignored) or self.effort > MAX_EFFORT:
                return True
        return False

    def _rules_within(self, path: str, parts: Sequence[bytes], above: _Rules) -> _Rules:
        if path not in self.within:
            self.within[path] = above
            try:
                with safe_open.open_below(self.top, parts) as descriptor:
                    self.within[path] = self._add_own_rules(descriptor, len(path) + bool(path), above)
            except OSError:
                pass  # what is not there says nothing
        return self.within[path]

    def _record_entry(self, entry: os.DirEntry[str], path: str) -> None:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return
        if stat.S_ISREG(status.st_mode):
            if status.st_nlink == 1:
                self.found.files[path] = status.st_size
            else:
                self.found.noted[path] = SECOND_NAME
        elif stat.S_ISLNK(status.st_mode):
            self.found.noted[path] = LINK

    def _add_own_rules(self, descriptor: int, start: int, rules: _Rules) -> _Rules:
        """Add the `.gitignore` of the directory, if it is a file of this workspace that is not too large."""
        try:
            with safe_open.open_regular_below(descriptor, [IGNORE_FILE.encode()]) as file:
                file_status = os.fstat(file)
                if file_status.st_nlink != 1 or file_status.st_size > MAX_IGNORE_BYTES:
                    return rules
                if self.ignore_bytes + file_status.st_size > MAX_IGNORE_TOTAL:
                    return rules
                text = b"".join(safe_open.read_exactly(file, file_status.st_size))
        except OSError:
            return rules
        self.ignore_bytes += len(text)
        own = Patterns(parse_patterns(text.decode("utf-8", "surrogateescape"), MAX_PATTERNS))
        return _Rules.from_patterns(rules.hidden, (*rules.ignoring, _Ignoring(own, start))) if own else rules


def _get_name(entry: os.DirEntry[str]) -> str:
    return entry.name
