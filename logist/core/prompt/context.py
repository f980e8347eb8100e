"""What a prompt says about the surroundings of the work: the workspace, earlier runs, the jobs beside it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from logist.core.answer.evidence import unnamed_changes
from logist.core.model import Change, ContextPart
from logist.core.prompt.prompt_parts import JOINT, UnplacedPart, one_line
from logist.core.template import SourcedText, ToldFields, ToldList
from logist.core.text.fences import fenced


@dataclass(frozen=True)
class FileText:
    """A file of the workspace as the prompt shows it: its text, or a note why there is none."""

    path: str
    text: str | None
    note: str | None = None


@dataclass(frozen=True)
class Relevant:
    """A file that seems to matter for the task, and why."""

    file: FileText
    reason: str
    """As `named in the task` or `contains parser, 3 times`."""


@dataclass(frozen=True)
class Given:
    """What the prompt takes from the job's workspace, its history and the jobs beside it."""

    listing: Sequence[str] = ()
    listing_omitted: int = 0
    files: Sequence[FileText] = ()
    changes: Sequence[Change] = ()
    changes_omitted: int = 0
    structure: str = ""
    """The directories and files of the workspace, two levels deep, as a tree."""
    relevant: Sequence[Relevant] = ()
    attempts: Sequence[str] = ()
    """What earlier runs at this job came to, oldest first."""
    others: Sequence[str] = ()
    """Other jobs that are under way, a line each."""
    related: Sequence[str] = ()
    """Jobs that have to do with this one, a line each."""
    instructions: str = ""
    """Of the project."""
    diff: str = ""
    """What the doer has changed, as a patch, within bounds."""
    answer: str = ""
    """What the agent wrote beside its exit command, where it ended with RETRY."""
    partial: bool = False
    """There is more to the change than `changes` and `diff` show."""
    job: str = ""
    """Its id; a prompt says it only where the role's template asks for it."""
    unlisted: bool = False
    """There is more in the workspace than may be listed: what is git-ignored, excluded, or a cache."""


EMPTY = "The workspace is empty."
UNLISTED = "Nothing of the workspace is listed: all that is in it is git-ignored, excluded, or a cache."

Asked = Sequence[ContextPart] | None
"""What a role wants to be told about its surroundings; None is the list of the files."""

VARIABLES: dict[ContextPart, str] = {
    "prior_attempts": "PriorAttempts",
    "related_tasks": "RelatedTasks",
    "session_context": "SessionContext",
    "repo_structure": "RepoContext",
    "relevant_files": "RelevantFiles",
}
"""How templates name each part, in the order in which a prompt has them."""


def variables(given: Given, asked: Asked) -> dict[str, SourcedText | ToldList]:
    """The parts that were asked for, as templates see them; the others are absent."""
    if asked is None:
        return {"RepoContext": SourcedText(_paths(given), "listing")}
    every: dict[ContextPart, SourcedText | ToldList] = {
        "prior_attempts": _lines(given.attempts, "prior_attempts"),
        "related_tasks": _lines(given.related, "related_tasks"),
        "session_context": _lines(given.others, "session_context"),
        "repo_structure": SourcedText(given.structure or _nothing(given), "repo_structure"),
        "relevant_files": _relevant(given),
    }
    return {VARIABLES[part]: value for part, value in every.items() if part in asked and value}


def pieces(given: Given, asked: Asked, told: Collection[str] = ()) -> list[UnplacedPart]:
    """The parts that were asked for, each with a heading; without those that a template has `told` already."""
    if asked is None:
        return [] if "RepoContext" in told else [UnplacedPart("listing", "given", listing(given))]
    found = [
        _headed("prior_attempts", "Earlier attempts", bulleted(given.attempts)),
        _headed("related_tasks", "Related tasks", bulleted(given.related)),
        _headed("session_context", "Other jobs under way", bulleted(given.others)),
        _headed("repo_structure", "Repository structure", given.structure or _nothing(given)),
        _headed("relevant_files", "Files that seem to matter", _reasons(given.relevant)),
    ]
    wanted = [part for part, name in VARIABLES.items() if part in asked and name not in told]
    shown = [piece for piece in found if piece.source in wanted]
    return [*shown, *(_contents(given) if "relevant_files" in wanted else [])]


def _headed(source: str, heading: str, text: str) -> UnplacedPart:
    return UnplacedPart(source, "given", f"## {heading}\n\n{text}" if text else "")


def _contents(given: Given) -> list[UnplacedPart]:
    """The texts of the relevant files; those that the prompt has anyway are not told twice."""
    known = {file.path for file in given.files}
    shown = [each for each in given.relevant if each.file.text is not None and each.file.path not in known]
    return [
        UnplacedPart(f"relevant:{each.file.path}", "given", file_text(each.file), reason=each.reason)
        for each in shown
    ]


def _reasons(relevant: Sequence[Relevant]) -> str:
    return "\n".join(f"- {one_line(each.file.path)}: {_why(each)}" for each in relevant)


def _why(relevant: Relevant) -> str:
    note = relevant.file.note if relevant.file.text is None else None
    return f"{relevant.reason} ({note})" if note else relevant.reason


def _relevant(given: Given) -> ToldList:
    """To be ranged over, or looked up as a whole: then it is the list with the reasons, and the contents."""
    items = [_fields(each) for each in given.relevant]
    shown = [SourcedText(_reasons(given.relevant), "relevant_files")]
    shown += [SourcedText(f"{JOINT}{piece.text}", piece.source) for piece in _contents(given)]
    return ToldList(items, shown)


def _fields(each: Relevant) -> ToldFields:
    path, source = SourcedText(one_line(each.file.path), "relevant_files"), f"relevant:{each.file.path}"
    fields = {
        "Path": path,
        "Reason": SourcedText(_why(each), "relevant_files"),
        "Content": SourcedText(each.file.text or "", source),
    }
    return ToldFields(fields, path)


def _lines(lines: Sequence[str], source: str) -> ToldList:
    return ToldList([SourcedText(line, source) for line in lines], [SourcedText(bulleted(lines), source)])


def bulleted(lines: Sequence[str]) -> str:
    """A list; what has several lines is indented under its first."""
    return "\n".join("- " + line.strip("\n").replace("\n", "\n  ") for line in lines)


def changes(given: Given, evidence: Sequence[str] = ()) -> str:
    """What the doer changed, a line each, marked where none of the `evidence` so far names it."""
    if not given.changes:
        return "## Changes\n\nNo file of the workspace was changed."
    unnamed = {change.path for change in unnamed_changes(given.changes, evidence)}
    lines = [
        f"- {change.kind}: {one_line(change.path)}{_mark(change, unnamed)}"
        for change in sorted(given.changes, key=lambda change: change.kind == "created")
    ]
    lines += _more(given.changes_omitted)
    if unnamed:
        lines += ["", "Look also at the files that are not named as evidence: are these changes meant?"]
    return "\n".join(["## Changes", "", *lines])


def _mark(change: Change, unnamed: Collection[str]) -> str:
    if change.cache:
        return " (a cache)"
    return " (not named as evidence)" if change.path in unnamed else ""


def listing(given: Given) -> str:
    """The files of the workspace, a line each."""
    return f"## Files in the workspace\n\n{_paths(given)}"


def _paths(given: Given) -> str:
    if not given.listing:
        return _nothing(given)
    lines = [f"- {one_line(path)}" for path in given.listing]
    return "\n".join([*lines, *_more(given.listing_omitted)])


def _nothing(given: Given) -> str:
    return UNLISTED if given.unlisted else EMPTY


def own_words(given: Given) -> str:
    """What the project tells its agents; empty where that is blank."""
    return given.instructions if given.instructions.strip() else ""


def _more(count: int) -> list[str]:
    return [f"- ... and {count} more"] if count else []


def file_text(file: FileText) -> str:
    """A file in a fence that it can't close, or why there is none."""
    title = f"## File: {one_line(file.path)}\n\n"
    if file.text is None:
        return f"{title}({file.note})"
    note = f"\n\n({file.note})" if file.note else ""
    return f"{title}{fenced(file.text)}{note}"
