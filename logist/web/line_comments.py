"""Comments on lines of a diff: drafts that a steward collects, and that go with the next note to the agent.

Each comment is a file in `.logist/serve/drafts`, in a directory for one job and one steward. So writing one never touches another,
also with several servers, and what was written survives a server that is killed.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from logist.core.text.counts import format_count
from logist.core.text.invisible_characters import compile_invisible_pattern
from logist.errors import Refused, UsageError
from logist.jobs.base.job_reader import read_interactions
from logist.jobs.steward.inbox_decisions import DecisionChoice, Input
from logist.quick_model import BaseModel, ValidationError
from logist.quick_tuple import NamedTuple
from logist.regular_files import read_regular
from logist.store import files
from logist.web.job_view import JobHead
from logist.web.private_folders import is_private_directory, make_private_directory

MOST_COMMENTS = 50
"""Drafts of one steward for one job."""
MOST_CHARACTERS = 2_000
"""Of one comment."""
MOST_ALTOGETHER = 20_000
"""Characters of all comments: they become part of a prompt, of which a note is never cut."""
MOST_QUOTED = 200
MOST_PATH = 4_096
MOST_SEARCHED = 2_000_000
"""Bytes of a file in which the line of a comment is looked for."""
ON_DISK = "workspace"
"""The side of a comparison that is the present files."""
_ID = re.compile(r"[0-9a-f]{16}")
_MOST_BYTES = 64_000
_WITH_COMMENTS = ("reject", "resubmit", "allow")
"""The decisions whose note the agent reads before it works on the same files again."""


class LineComment(BaseModel):
    """A comment on one line, as it is kept."""

    id: str
    path: str
    line: int
    side: str
    """The state that the line is in, such as `workspace` or `start of the job`."""
    is_old: bool
    """True if it is a line before the change."""
    quote: str
    """The line, as it was when the comment was written."""
    text: str
    revision: int
    """The revision of the job that the steward saw."""
    made_at: float

    def format_body(self) -> str:
        """Return the quoted line and the text, as they are in a note."""
        quoted = f"> {self.quote}" if self.quote.strip() else "> (an empty line)"
        return f"{quoted}\n{self.text}"


class PlacedComment(NamedTuple):
    """A comment, and where its line is now."""

    comment: LineComment
    line: int | None
    """None if the present file has no such line any more."""

    @property
    def is_moved(self) -> bool:
        return self.line != self.comment.line

    def format_place(self) -> str:
        """Return the path and the line, for people and agents."""
        comment = self.comment
        if self.line is None:
            return f"{comment.path}, line {comment.line} when this was written (the line has changed since)"
        state = "" if comment.side == ON_DISK else f" ({comment.side})"
        return f"{comment.path}, line {self.line}{state}"


def create_comment_id() -> str:
    """Return an id for a form, so that a form that is sent twice makes one comment."""
    return secrets.token_hex(8)


def quote_line(text: str) -> str:
    """Return a line as a comment quotes it: not endless, and with names in place of invisible characters."""
    line = text.removesuffix("\r")
    cut = line[:MOST_QUOTED]
    pattern = compile_invisible_pattern(cut)
    if pattern is not None:
        cut = pattern.sub(lambda run: "".join(f"<U+{ord(each):04X}>" for each in run[0]), cut)
    return f"{cut} ..." if len(line) > MOST_QUOTED else cut


class CommentDrafts:
    """The comments of one steward on one job that were not sent yet."""

    def __init__(self, head: JobHead) -> None:
        self._head = head
        self._steward = head.project.steward
        # The time of creation: a job that gets the id of a deleted one doesn't get its comments.
        owner = "\0".join((head.id, head.state.created_at, self._steward))
        name = hashlib.sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        serve = head.project.home / "serve"
        self._folders = (serve, serve / "drafts", serve / "drafts" / name)
        self.folder: Path = self._folders[-1]

    def load(self) -> list[LineComment]:
        """Return the comments that no note contains yet, in the order of files and lines. Only reads."""
        return self._load()[0]

    def _load(self) -> tuple[list[LineComment], set[str]]:
        """Return the comments, and the ids of those that a note contains."""
        comments = [comment for comment in map(self._read, self._list_files()) if comment is not None]
        sent = self._find_sent([each for each in comments if each.revision < self._head.state.revision])
        left = [comment for comment in comments if comment.id not in sent]
        return sorted(left, key=lambda each: (each.path, each.line, each.made_at)), sent

    def add(self, comment: LineComment) -> None:
        """Keep a comment. Raises UsageError if it is empty or too long, Refused if there are too many."""
        if not comment.text.strip():
            raise UsageError("a text is required", where="Comment")
        for value, most, name in (
            (comment.text, MOST_CHARACTERS, "Comment"),
            (comment.path, MOST_PATH, "Path"),
        ):
            if len(value) > most:
                raise UsageError(f"too long: {len(value):,} characters, at most {most:,}", where=name)
        if not _ID.fullmatch(comment.id) or not 0 < comment.line < 10**9 or not comment.path:
            raise UsageError("not a comment on a line", where=f"{comment.path[:60]}:{comment.line}")
        left, sent = self._load()
        self._require_room([each for each in left if each.id != comment.id], comment)
        self.remove(sent)
        for folder in self._folders:
            make_private_directory(folder)
        files.replace_file(self.folder / comment.id, files.dump_json(comment.model_dump(mode="json")))

    def _require_room(self, others: Sequence[LineComment], comment: LineComment) -> None:
        characters = sum(len(each.text) for each in (*others, comment))
        if len(others) < MOST_COMMENTS and characters <= MOST_ALTOGETHER:
            return
        raise Refused(
            f"too much for one note: {format_count(len(others) + 1, 'comment')} with {characters:,} characters, at most "
            f"{MOST_COMMENTS} with {MOST_ALTOGETHER:,}",
            fix="send those that there are with a decision, or remove some",
        )

    def remove(self, ids: Iterable[str]) -> None:
        """Remove comments; those that are not there any more are no problem."""
        for comment_id in ids:
            if _ID.fullmatch(comment_id) and self._is_own_folder():
                path = self.folder / comment_id
                with files.convert_os_errors(path), suppress(FileNotFoundError):
                    os.unlink(path)

    def place(self) -> list[PlacedComment]:
        """Return the comments, each with the number that its line has now."""
        return place_comments(self._head, self.load())

    def _list_files(self) -> list[str]:
        if not self._is_own_folder():
            return []
        try:
            return [name for name in os.listdir(self.folder) if _ID.fullmatch(name)]
        except OSError:
            return []

    def _is_own_folder(self) -> bool:
        return all(map(is_private_directory, self._folders))

    def _read(self, name: str) -> LineComment | None:
        try:
            # What came with a repository is not the steward's own text: git writes files that others can read.
            if (self.folder / name).lstat().st_mode & 0o077:
                return None
            return LineComment.model_validate_json(read_regular(self.folder / name, _MOST_BYTES))
        except (OSError, ValueError, ValidationError):
            return None  # written by somebody else, or removed by another page

    def _find_sent(self, comments: Sequence[LineComment]) -> set[str]:
        """Return the comments that a note of this steward contains: the server was killed before it removed them."""
        if not comments:
            return set()
        first = min(comment.revision for comment in comments)
        notes = [
            (entry.sequence, entry.steward.note)
            for entry in read_interactions(self._head.job)
            if entry.sequence > first
            and entry.steward is not None
            and entry.steward.name == self._steward
            and entry.steward.note
        ]
        return {
            comment.id
            for comment in comments
            for sequence, note in notes
            if sequence > comment.revision and comment.format_body() in note
        }


def read_line(head: JobHead, path: str, number: int) -> str | None:
    """Return a line of a present file; None if there is none."""
    lines = _read_lines(head, path)
    return lines[number - 1] if 0 < number <= len(lines) else None


def _read_lines(head: JobHead, path: str) -> list[str]:
    text = head.project.open_workspace(head.job).read_file(path, MOST_SEARCHED).text
    return text.split("\n") if text is not None else []


def place_comments(head: JobHead, comments: Sequence[LineComment]) -> list[PlacedComment]:
    """Find the lines of comments on present files again: the agent, or a person, may have edited them since."""
    lines: dict[str, list[str]] = {}
    placed = []
    for comment in comments:
        if comment.side != ON_DISK:
            placed.append(PlacedComment(comment, comment.line))
            continue
        if comment.path not in lines:
            lines[comment.path] = _read_lines(head, comment.path)
        placed.append(PlacedComment(comment, find_line(lines[comment.path], comment.line, comment.quote)))
    return placed


def find_line(lines: Sequence[str], number: int, quote: str) -> int | None:
    """Return the number of the nearest line that still has this content; None if none has."""
    if 0 < number <= len(lines) and quote_line(lines[number - 1]) == quote:
        return number
    same = [place for place, line in enumerate(lines, 1) if quote_line(line) == quote]
    return min(same, key=lambda place: abs(place - number), default=None)


def takes_comments(head: JobHead, choice: DecisionChoice) -> bool:
    """Whether comments go with the note of a decision: only if an agent reads that note next."""
    is_read = head.state.place.awaiting != "manual"
    return choice.name in _WITH_COMMENTS and choice.input in (Input.NOTE, Input.OPTIONAL_NOTE) and is_read


def add_to_note(placed: Sequence[PlacedComment], note: str) -> str:
    """Return a note with comments, as the agent reads it."""
    if not placed:
        return note
    parts = [f"{each.format_place()}:\n{each.comment.format_body()}" for each in placed]
    title = f"{format_count(len(placed), 'comment')} on lines:"
    return "\n\n".join([*filter(None, [note.strip()]), title, *parts])


def describe_kept(placed: Sequence[PlacedComment]) -> str:
    """Say that comments were not sent with a decision that has no note for an agent."""
    were = "was" if len(placed) == 1 else "were"
    return f"{format_count(len(placed), 'comment')} on lines {were} not sent: no agent reads a note with this decision"


def create_comment(
    comment_id: str, path: str, line: int, side: str, quote: str, text: str, *, is_old: bool, revision: int
) -> LineComment:
    """Return a new comment. `side`: the state of the files that has the line."""
    return LineComment(
        id=comment_id,
        path=path,
        line=line,
        side=side[:80],
        is_old=is_old,
        quote=quote_line(quote.replace("\n", " ")),
        text=text.strip(),
        revision=revision,
        made_at=time.time(),
    )
