"""Prepares a diff for a page: files, and rows with a line before and a line after, within limits.

The same rows are shown side by side where there is room, and one below the other elsewhere; only the style sheet differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from markupsafe import Markup

from logist.core.text.patches import FilePatch, Hunk, PatchLine, iter_file_patches
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple
from logist.web.job_view import Changes
from logist.web.line_comments import PlacedComment
from logist.web.texts import show_text
from logist.workspace.comparison import FileDifference
from logist.workspace.files.file_names import to_display

MOST_CHARACTERS = 2_000
"""Of one line."""
MOST_FILES = 1_000
"""In the list of files."""
SMALL = 150
"""Lines of a file that is open at first."""
_TOKEN = re.compile(r"\w+|\s+|.", re.DOTALL)
_REMOVED, _ADDED = Markup("<del>{}</del>"), Markup("<ins>{}</ins>")
_SYMLINK, _GITLINK = "120000", "160000"


class LineKey(NamedTuple):
    """Names a line that can be commented on."""

    path: str
    is_old: bool
    number: int

    def __str__(self) -> str:
        return f"{self.path}:{'-' if self.is_old else ''}{self.number}"


def parse_line_key(text: str) -> LineKey | None:
    """Return the line that `PATH:LINE` names; `PATH:-LINE` is a line before the change. None if it names none."""
    path, _, number = text.rpartition(":")
    digits = number.removeprefix("-")
    if not path or not (digits.isascii() and digits.isdigit() and len(digits) < 10 and int(digits)):
        return None
    return LineKey(path, number != digits, int(digits))


class DiffCell(NamedTuple):
    """A line on one side."""

    number: int
    sign: str
    text: Markup
    has_line_break: bool


@dataclass(frozen=True)
class DiffRow:
    """A line before and a line after; the same one if it did not change."""

    old: DiffCell | None
    new: DiffCell | None
    comments: list[PlacedComment]
    form: LineKey | None = None
    """The line of the row for which a comment is being written."""
    quote: str = ""
    """That line."""

    @property
    def is_same(self) -> bool:
        return self.old is not None and self.old.sign == " "


class DiffHunk(NamedTuple):
    """Rows between two parts that are left out."""

    heading: str
    blocks: list[list[DiffRow]]
    """Rows that belong together: lines that are the same, or lines that took the place of others."""


@dataclass(frozen=True)
class FileView:
    """A file of a diff."""

    difference: FileDifference
    number: int
    """In the list of files, from 1."""
    hunks: list[DiffHunk]
    note: str
    """What is to be said of it in place of lines, or besides; may be empty."""
    left_out: int
    """Lines that are not shown."""
    is_open: bool
    has_comment: bool


@dataclass(frozen=True)
class DiffOptions:
    """How much of a diff a page shows, and what is written there."""

    lines_per_file: int
    lines_per_page: int
    comments: Sequence[PlacedComment] = ()
    form: LineKey | None = None
    """The line for which a comment is being written."""


@dataclass(frozen=True)
class DiffView:
    """A diff as a page shows it."""

    files: list[FileView]
    """Those that are shown, in the order of the list."""
    numbers: dict[str, int]
    """Their numbers by path."""
    listed: list[FileDifference]
    lines_left_out: int
    """Lines of files that are shown only in the list."""
    quote: str | None
    """The line that a comment is written for; None if it is not among the rows."""


def build_diff(changes: Changes, options: DiffOptions) -> DiffView:
    """Prepare the diff of some changes."""
    patches: dict[str, list[FilePatch]] = {}
    for patch in iter_file_patches(changes.patch):
        patches.setdefault(to_display(patch.path), []).append(patch)
    shown: list[FileView] = []
    rest, lines_left_out = options.lines_per_page, 0
    wanted = options.form.path if options.form is not None else None
    for number, difference in enumerate(changes.files, 1):
        parts = patches.get(difference.path, [])
        total = sum(part.count_lines() for part in parts)
        most = options.lines_per_file if difference.path == wanted else min(options.lines_per_file, rest)
        if not parts or not most:
            lines_left_out += total or (difference.added or 0) + (difference.deleted or 0)
            continue
        view = _build_file(difference, number, parts, total, most, options, changes)
        rest = max(0, rest - max(1, min(total, most)))
        shown.append(view)
    return DiffView(
        files=shown,
        numbers={view.difference.path: view.number for view in shown},
        listed=changes.files[:MOST_FILES],
        lines_left_out=lines_left_out,
        quote=_find_form_quote(shown) if options.form is not None else None,
    )


def _find_form_quote(files: list[FileView]) -> str | None:
    rows = (row for view in files for hunk in view.hunks for block in hunk.blocks for row in block)
    return next((row.quote for row in rows if row.form is not None), None)


def _build_file(
    difference: FileDifference,
    number: int,
    parts: list[FilePatch],
    total: int,
    most: int,
    options: DiffOptions,
    changes: Changes,
) -> FileView:
    hunks: list[Hunk] = []
    for part in parts:  # a file that became a link has two: it was deleted, and created
        hunks += part.read_hunks(most - sum(len(hunk.lines) for hunk in hunks))
    own = [each for each in options.comments if each.comment.path == difference.path]
    form = options.form if options.form is not None and options.form.path == difference.path else None
    has_returns = _has_only_carriage_returns(hunks)
    builder = _RowBuilder(_map_comments(own, changes), form, has_returns=has_returns)
    notes = [*_describe_file(difference, parts, total), *(["lines end with CR LF"] if has_returns else [])]
    return FileView(
        difference=difference,
        number=number,
        hunks=[DiffHunk(_format_heading(hunk), list(builder.iter_blocks(hunk))) for hunk in hunks],
        note="; ".join(notes),
        left_out=total - sum(len(hunk.lines) for hunk in hunks),
        is_open=total <= SMALL or bool(own) or form is not None,
        has_comment=bool(own),
    )


def _describe_file(difference: FileDifference, parts: list[FilePatch], total: int) -> Iterator[str]:
    if difference.old_path is not None:
        yield f"renamed from {difference.old_path}"
    if difference.has_new_mode():
        yield f"mode {difference.mode_before} → {difference.mode_after}"
    is_binary = any(part.is_binary for part in parts)
    if not (total or is_binary or difference.old_path is not None or difference.has_new_mode()):
        yield "empty file"
    modes = (difference.mode_before, difference.mode_after)
    if _SYMLINK in modes:
        yield "symbolic link"
    if _GITLINK in modes:
        yield "git repository"


def _has_only_carriage_returns(hunks: list[Hunk]) -> bool:
    """Whether all lines end with CR LF; then that is said once, and not shown at each line."""
    lines = [line for hunk in hunks for line in hunk.lines]
    return bool(lines) and all(line.text.endswith(b"\r") for line in lines)


def _format_heading(hunk: Hunk) -> str:
    section = hunk.section.decode("utf-8", "backslashreplace").strip()
    first = next((line for line in hunk.lines), None)
    start = hunk.new_start if first is None or first.new else hunk.old_start
    return f"from line {start}" + (f", in {section}" if section else "")


def _map_comments(
    placed: list[PlacedComment], changes: Changes
) -> dict[tuple[bool, int], list[PlacedComment]]:
    """Return the comments of a file by side and line, as far as this comparison has the state that they are about."""
    found: dict[tuple[bool, int], list[PlacedComment]] = {}
    for each in placed:
        if each.line is not None and each.comment.side == (
            changes.before if each.comment.is_old else changes.after
        ):
            found.setdefault((each.comment.is_old, each.line), []).append(each)
    return found


class _RowBuilder:
    """Builds the rows of one file."""

    def __init__(
        self,
        comments: dict[tuple[bool, int], list[PlacedComment]],
        form: LineKey | None,
        *,
        has_returns: bool,
    ) -> None:
        self._comments = comments
        self._form = form
        self._has_returns = has_returns

    def iter_blocks(self, hunk: Hunk) -> Iterator[list[DiffRow]]:
        """Yield rows that belong together; a block ends after a row with comments, so that they stay below it."""
        block: list[DiffRow] = []
        for rows in self._iter_groups(hunk.lines):
            for row in rows:
                block.append(row)
                if row.comments or row.form is not None:
                    yield block
                    block = []
            if block:
                yield block
                block = []

    def _iter_groups(self, lines: list[PatchLine]) -> Iterator[Iterator[DiffRow]]:
        place = 0
        while place < len(lines):
            start = place
            if lines[place].sign == " ":
                while place < len(lines) and lines[place].sign == " ":
                    place += 1
                yield (self._build_row(line, line) for line in lines[start:place])
                continue
            while place < len(lines) and lines[place].sign == "-":
                place += 1
            middle = place
            while place < len(lines) and lines[place].sign == "+":
                place += 1
            yield (self._build_row(*pair) for pair in zip_longest(lines[start:middle], lines[middle:place]))

    def _build_row(self, old: PatchLine | None, new: PatchLine | None) -> DiffRow:
        texts = self._decode(old), self._decode(new)
        if old is new:
            shown = show_text(texts[0], MOST_CHARACTERS)
            both = shown, shown
        else:
            both = _mark_difference(*texts)
        keys = [(True, old.old)] if old is not None and old.old else []
        keys += [(False, new.new)] if new is not None and new.new else []
        comments = [each for key in keys for each in self._comments.get(key, ())] if self._comments else []
        form = self._form
        if form is not None and (form.is_old, form.number) not in keys:
            form = None
        quote = texts[0 if form.is_old else 1] if form is not None else ""
        return DiffRow(
            DiffCell(old.old or 0, old.sign, both[0], old.has_line_break) if old is not None else None,
            DiffCell(new.new or 0, new.sign, both[1], new.has_line_break) if new is not None else None,
            comments,
            form,
            quote,
        )

    def _decode(self, line: PatchLine | None) -> str:
        if line is None:
            return ""
        text = line.text[:-1] if self._has_returns else line.text
        return text.decode("utf-8", "backslashreplace")


def _mark_difference(old: str, new: str) -> tuple[Markup, Markup]:
    """Return both lines, with marks around what differs, if they have something in common."""
    if not old or not new or max(len(old), len(new)) > MOST_CHARACTERS:
        return show_text(old, MOST_CHARACTERS), show_text(new, MOST_CHARACTERS)
    before, after = _TOKEN.findall(old), _TOKEN.findall(new)
    head = _count_equal(before, after)
    tail = _count_equal(before[head:][::-1], after[head:][::-1])
    common = before[:head] + before[len(before) - tail :]
    if not any(token[0] == "_" or token[0].isalnum() for token in common):
        return show_text(old), show_text(new)
    return _mark_middle(before, head, tail, _REMOVED), _mark_middle(after, head, tail, _ADDED)


def _mark_middle(tokens: list[str], head: int, tail: int, mark: Markup) -> Markup:
    end = len(tokens) - tail
    first, middle, last = ("".join(part) for part in (tokens[:head], tokens[head:end], tokens[end:]))
    if not middle:
        return show_text(first + last)
    return show_text(first) + mark.format(show_text(middle)) + show_text(last)


def _count_equal(first: list[str], second: list[str]) -> int:
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count
