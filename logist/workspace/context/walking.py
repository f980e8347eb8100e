"""Finds the files of a workspace that a prompt may mention: all except git-ignored files, caches, excluded
files, and files outside.

As in git, files that were tracked in the source of the workspace are not ignored, even if a `.gitignore` matches.
If there are too many files, the walk is level by level, so that those near the top are found. Links are not
followed. A directory with its own `.git` is another repository: it is named, but not entered. The `.gitignore`
files of the workspace are used; its `.git` is never read.
"""

from __future__ import annotations

import os
import stat
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from functools import cached_property
from itertools import accumulate
from operator import attrgetter
from pathlib import Path

from logist.core.relevance.candidates import Candidates, lower_names
from logist.core.relevance.kinds import FileKind, classify_files
from logist.core.text.patterns import NameGate, Patterns, parse_patterns
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple
from logist.workspace.checkpoint.scan import FileTable, TableBuilder
from logist.workspace.context.descending import Descent
from logist.workspace.context.tracked import Tracked
from logist.workspace.files import safe_open
from logist.workspace.files.file_names import split_agent_path

MAX_DEPTH = 100
MAX_FILES = 200_000
"""Maximum number of files; the rest is not counted."""
MAX_FILE_BYTES = 2_000_000
"""A larger file is not searched: it is data, and would use up the limit for all files."""
MAX_IN_ONE = 20_000
"""Maximum number of files in one directory."""
IGNORE_FILE = ".gitignore"
MAX_IGNORE_BYTES = 64 * 1024
"""Maximum size of one `.gitignore`; a larger one is skipped."""
MAX_IGNORE_TOTAL = 512 * 1024
MAX_PATTERNS = 2_000
"""Maximum patterns of one `.gitignore`."""
MAX_EFFORT = 2_000_000_000
"""Maximum steps of matching all patterns; then the walk stops."""

_KIND = stat.S_IFMT(0o177777)
_GET_NAME = attrgetter("name")

LINK = "a link"
REPOSITORY = "another git repository"
UNREADABLE = "unreadable"
TOO_DEEP = "too deep"
SECOND_NAME = "has hard links"
IGNORED = "git-ignored: not shown"
CONFIDENTIAL = "may contain secrets: not shown"


@dataclass
class FileSurvey:
    """The files of a workspace, directory by directory; level by level if there are too many.

    They are long lists, because the objects for 20,000 files take longer than all else that a preview does.
    """

    table: FileTable = field(default_factory=FileTable)
    """The regular files without hard links, with the stamps that a checkpoint would record."""
    directories: list[str] = field(default_factory=list)
    """The directories that were entered."""
    noted: dict[str, str] = field(default_factory=dict)
    """Other entries, which were not entered: path and reason."""
    hidden: Patterns = field(default_factory=lambda: Patterns(()))
    """Patterns of what is hidden in addition to the `.gitignore` files."""
    partial: bool = False
    """Whether the walk stopped at a limit."""
    unlisted: bool = False
    """Whether something is git-ignored or hidden."""
    unread: int = 0
    """How many files the last search for words could not read."""
    undecodable: int = 0
    """How many of the best files of the last search were left out, because they are not UTF-8."""

    @cached_property
    def files(self) -> dict[str, int]:
        """The files with their sizes. Bytes that are not UTF-8 are lone surrogates in the path."""
        return dict(zip(self.table.text_paths, self.table.list_sizes(), strict=True))

    @cached_property
    def searchable(self) -> Candidates:
        """The files that are text and don't usually contain secrets."""
        table = self.table
        sizes = table.list_sizes()
        everything = Candidates(
            table.text_paths,
            table.text_names,
            self._low_names,
            self.kinds,
            sizes,
            range(len(sizes)),
            table.text_directories,
            [*accumulate(table.counts)],
        )
        usual = {id(kind) for _, kind in self.kind_counts if kind.worth and not kind.secret}
        return everything.keep(map(usual.__contains__, self._kind_ids))

    @cached_property
    def kinds(self) -> list[FileKind]:
        """The kind of each file, in the order of `files`; many files share one object."""
        return classify_files(self.table.text_groups)

    @cached_property
    def kind_counts(self) -> list[tuple[int, FileKind]]:
        """How many files there are of each kind; a kind may occur several times."""
        ids = self._kind_ids
        by_id = dict(zip(ids, self.kinds, strict=True))  # to hash the fields takes longer
        return [(number, by_id[each]) for each, number in Counter(ids).items()]

    @cached_property
    def _low_names(self) -> list[str]:
        return lower_names(self.table.text_names)

    @cached_property
    def _kind_ids(self) -> list[int]:
        return list(map(id, self.kinds))


class _Ignoring(NamedTuple):
    """The patterns of a `.gitignore`, and the length of the path of its directory."""

    patterns: Patterns
    start: int


class _Rules:
    """Everything that hides files of a directory."""

    def __init__(self, hidden: Patterns, ignoring: tuple[_Ignoring, ...] = ()) -> None:
        self.hidden = hidden
        self.ignoring = ignoring
        """From the top down."""
        starts = [(0, hidden), *((each.start, each.patterns) for each in ignoring)]
        self._patterns = [patterns for _, patterns in starts]
        self._leads = [
            (pattern.lead, start)
            for start, patterns in starts
            for pattern in patterns.of_paths
            if pattern.lead
        ]
        self._usual_gate = NameGate(self._patterns, led=False)

    def choose_gate(self, prefix: str) -> NameGate:
        """Return the gate for a directory. `bin/*` would suspect every name, so it counts only in `bin/`."""
        if not self._leads:
            return self._usual_gate
        is_led = any(prefix.startswith(lead, start) for lead, start in self._leads)
        return self._gate if is_led else self._usual_gate

    @cached_property
    def _gate(self) -> NameGate:
        return NameGate(self._patterns)

    def is_ignored(self, path: str, *, directory: bool) -> bool:
        """Whether the `.gitignore` files match a path whose parent directories they don't match."""
        for patterns, start in reversed(self.ignoring):
            verdict = patterns.match_path(path[start:], directory)
            if verdict is not None:
                return verdict
        return False


def survey_files(root: Path, hidden: Patterns, tracked: Tracked) -> FileSurvey:
    """Walk a workspace; the result depends only on the workspace."""
    with safe_open.open_root(root) as top:
        walk = _FileWalk(top, hidden, tracked)
        if not walk.walk_everything():
            # Only the files near the top are wanted. This opens most directories twice.
            walk = _FileWalk(top, hidden, tracked)
            walk.walk_by_levels()
        walk.found.table = walk.columns.build_table()
        return walk.found


def find_ignored(root: Path, paths: Iterable[str], tracked: Tracked) -> frozenset[str]:
    """Return the paths that are git-ignored, directly or with a parent
    directory; they need not exist.
    """
    with safe_open.open_root(root) as top:
        walk = _FileWalk(top, Patterns(()), tracked)
        return frozenset(path for path in paths if walk.is_ignored(path))


class _FileWalk:
    def __init__(self, top: int, hidden: Patterns, tracked: Tracked) -> None:
        self.top = top
        self.tracked = tracked
        self.ignored: set[str] = set()
        """Ignored directories that are entered because they contain tracked files; other files in them are ignored."""
        self.found = FileSurvey(hidden=hidden)
        self.columns = TableBuilder()
        self.rules = _Rules(hidden)
        self.waiting: deque[tuple[str, list[str], _Rules]] | None = None
        """Directories to enter, grouped by parent: path of the parent, their names, and the rules of the parent; None if
        they are entered at once.
        """
        self.stopped = False
        """Whether a limit was reached."""
        self.within: dict[str, _Rules] = {}
        """The rules by directory, for the parents of paths that were checked."""
        self.ignore_bytes = 0
        self.effort = 0

    def walk_everything(self) -> bool:
        """Return whether no limit was reached."""
        self._list_directory(self.top, "", self.rules)
        return not self.stopped

    def walk_by_levels(self) -> None:
        """Walk until a limit is reached."""
        self.waiting = deque()
        self._list_directory(self.top, "", self.rules)
        with Descent(self.top) as way:
            while self.waiting and not self.stopped:
                above, names, rules = self.waiting.popleft()
                try:
                    self._enter_directories(way.open_path(above), above, names, rules)
                except PermissionError:
                    self.found.noted[above] = UNREADABLE
                except OSError as error:
                    if error.errno not in safe_open.GONE:
                        raise
        self.found.partial |= self.stopped

    def _enter_directories(self, parent: int, above: str, names: list[str], rules: _Rules) -> None:
        for name in names:
            self.stopped |= len(self.columns.names) >= MAX_FILES
            if self.stopped:
                return
            self._enter_directory(parent, above, name, rules)

    def _enter_directory(self, parent: int, above: str, name: str, rules: _Rules) -> None:
        path = f"{above}/{name}" if above else name
        try:
            descriptor = os.open(name, safe_open.DIRECTORY, dir_fd=parent)
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
            entries = list(listing)
        names = [entry.name for entry in entries]
        if path and ".git" in names:
            self.found.noted[path] = REPOSITORY
            return
        if path:
            self.found.directories.append(path)
        prefix = f"{path}/" if path else ""
        ignored = path in self.ignored
        if IGNORE_FILE in names and not ignored:
            rules = self._add_own_rules(descriptor, len(prefix), rules)
        gate = rules.choose_gate(prefix)
        if gate.effort:
            self.effort += gate.effort * sum(map(len, names))
        if self.effort > MAX_EFFORT:
            self.stopped = True
            return
        if len(entries) > MAX_IN_ONE:  # otherwise, which files are recorded would depend on the file system
            entries.sort(key=_GET_NAME)
            names.sort()
        suspects = set(names) if ignored else gate.find_suspects(names)
        all_visible = not suspects and len(entries) <= MAX_IN_ONE and ".git" not in names
        visible = entries if all_visible else self._iter_visible(entries, prefix, suspects, rules, ignored)
        below = self._record_entries(visible, path, prefix)
        if not below:
            return
        if path.count("/") >= MAX_DEPTH:
            self.found.noted[path] = TOO_DEEP
        elif self.waiting is not None:
            self.waiting.append((path, sorted(below), rules))
        else:
            # In the order of a scan, so that whole directories can be compared with the last checkpoint.
            self._enter_directories(descriptor, path, below, rules)

    def _iter_visible(
        self,
        entries: Iterable[os.DirEntry[str]],
        prefix: str,
        suspects: set[str],
        rules: _Rules,
        ignored: bool,
    ) -> Iterator[os.DirEntry[str]]:
        """Yield the entries of a directory that are not hidden. `suspects`: the names that the rules may hide."""
        room = MAX_IN_ONE
        for entry in entries:
            name, directory = entry.name, entry.is_dir(follow_symlinks=False)
            if name == ".git":
                continue
            if name in suspects and self._is_hidden(prefix + name, rules, directory, ignored):
                self.found.unlisted = True
            elif directory:
                yield entry
            elif room > 0:
                room -= 1
                yield entry
            else:
                self.found.partial = True

    def _record_entries(self, entries: Iterable[os.DirEntry[str]], path: str, prefix: str) -> list[str]:
        """Record the visible entries of a directory, and return the names of the directories among them."""
        below: list[str] = []
        names: list[str] = []
        numbers: list[int] = []
        regular, kind_bits = stat.S_IFREG, _KIND
        for entry in entries:
            # Much of the time of a preview is spent in these lines.
            if entry.is_dir(follow_symlinks=False):
                below.append(entry.name)
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            mode = status.st_mode
            if mode & kind_bits == regular and status.st_nlink == 1:
                names.append(entry.name)
                numbers += (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, mode)
            elif mode & kind_bits == regular:
                self.found.noted[prefix + entry.name] = SECOND_NAME
            elif mode & kind_bits == stat.S_IFLNK:
                self.found.noted[prefix + entry.name] = LINK
        self.columns.add_directory(path, names, numbers)
        return below

    def _is_hidden(self, path: str, rules: _Rules, directory: bool, ignored: bool) -> bool:
        """Whether the rules hide a path. `ignored`: whether its directory is ignored."""
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
        """Whether the path is git-ignored; True also if this takes too long to decide."""
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
                pass  # a missing directory has no rules
        return self.within[path]

    def _add_own_rules(self, descriptor: int, start: int, rules: _Rules) -> _Rules:
        """Add the `.gitignore` of the directory, if it is a regular file without hard links and not too large."""
        try:
            with safe_open.open_regular_below(descriptor, [IGNORE_FILE.encode()]) as file:
                file_status = os.fstat(file)
                if file_status.st_nlink != 1 or file_status.st_size > MAX_IGNORE_BYTES:
                    return rules
                if self.ignore_bytes + file_status.st_size > MAX_IGNORE_TOTAL:
                    self.stopped |= self.waiting is None
                    return rules
                text = b"".join(safe_open.read_exactly(file, file_status.st_size))
        except OSError:
            return rules
        self.ignore_bytes += len(text)
        own = Patterns(parse_patterns(text.decode("utf-8", "surrogateescape"), MAX_PATTERNS))
        return _Rules(rules.hidden, (*rules.ignoring, _Ignoring(own, start))) if own else rules
