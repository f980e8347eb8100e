"""What a prompt says about the surroundings of the work: the workspace, earlier runs, other jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from logist.core.answer.evidence import find_unnamed_changes
from logist.core.model import Change, ContextPart
from logist.core.prompt.prompt_parts import JOINT, UnplacedPart, escape_unprintable
from logist.core.template import SourcedText, ToldFields, ToldList
from logist.core.text.fences import fence_text
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    from logist.core.prompt.shown_files import FileText, Relevant


@dataclass(frozen=True)
class Given:
    """What the prompt takes from the workspace of the job, its history and other jobs."""

    listing: Sequence[str] = ()
    listing_omitted: int = 0
    files: Sequence[FileText] = ()
    changes: Sequence[Change] = ()
    changes_omitted: int = 0
    structure: str = ""
    """The directories and files of the workspace, two levels deep, as a tree; then excerpts of its key files."""
    relevant: Sequence[Relevant] = ()
    unsearched: str = ""
    """A sentence about the files that were not searched for relevant ones."""
    attempts: Sequence[str] = ()
    """The results of earlier runs of this job, oldest first."""
    others: Sequence[str] = ()
    """Other jobs in progress, one line each."""
    related: Sequence[str] = ()
    """Related jobs, one line each."""
    instructions: str = ""
    """The instructions of the project."""
    diff: str = ""
    """The changes of the doer as a patch of limited size."""
    answer: str = ""
    """The text that the agent wrote before its exit command, if it ended with RETRY."""
    partial: bool = False
    """The change has more than `changes` and `diff` show."""
    job: str = ""
    """Its id; a prompt contains it only if the role's template uses it."""
    unlisted: bool = False
    """The workspace has files that are not listed: git-ignored or excluded ones, or caches."""


EMPTY = "The workspace is empty."
UNLISTED = "No files are listed: all files of the workspace are git-ignored, excluded, or in a cache."

RequiredParts = Sequence[ContextPart] | None
"""The parts of the context that a role requires; None means the list of the files."""

VARIABLES: dict[ContextPart, str] = {
    "prior_attempts": "PriorAttempts",
    "related_tasks": "RelatedTasks",
    "session_context": "SessionContext",
    "repo_structure": "RepoContext",
    "relevant_files": "RelevantFiles",
}
"""How templates name each part, in the order in which a prompt has them."""


def build_variables(given: Given, required: RequiredParts) -> dict[str, SourcedText | ToldList]:
    """Return the required parts as template variables; the others are missing."""
    if required is None:
        return {"RepoContext": SourcedText(_render_paths(given), "listing")}
    every: dict[ContextPart, SourcedText | ToldList] = {
        "prior_attempts": _build_line_list(given.attempts, "prior_attempts"),
        "related_tasks": _build_line_list(given.related, "related_tasks"),
        "session_context": _build_line_list(given.others, "session_context"),
        "repo_structure": SourcedText(given.structure or _describe_empty_listing(given), "repo_structure"),
        "relevant_files": _build_relevant_list(given),
    }
    return {VARIABLES[part]: value for part, value in every.items() if part in required and value}


def build_pieces(
    given: Given, required: RequiredParts, used_variables: Collection[str] = ()
) -> list[UnplacedPart]:
    """Return the required parts, each with a heading, except those whose variables the role's template uses."""
    if required is None:
        return (
            []
            if "RepoContext" in used_variables
            else [UnplacedPart("listing", "given", render_listing(given))]
        )
    all_parts = [
        _build_headed_part("prior_attempts", "Earlier attempts", render_bullets(given.attempts)),
        _build_headed_part("related_tasks", "Related tasks", render_bullets(given.related)),
        _build_headed_part("session_context", "Other jobs in progress", render_bullets(given.others)),
        _build_headed_part(
            "repo_structure", "Repository structure", given.structure or _describe_empty_listing(given)
        ),
        _build_headed_part("relevant_files", "Files that may be relevant", _render_relevant(given)),
    ]
    wanted = [part for part, name in VARIABLES.items() if part in required and name not in used_variables]
    shown = [piece for piece in all_parts if piece.source in wanted]
    return [*shown, *(_build_file_parts(given) if "relevant_files" in wanted else [])]


def _build_headed_part(source: str, heading: str, text: str) -> UnplacedPart:
    return UnplacedPart(source, "given", f"## {heading}\n\n{text}" if text else "")


def _build_file_parts(given: Given) -> list[UnplacedPart]:
    """Return the texts of the relevant files, without those that the prompt contains anyway."""
    known = {file.path for file in given.files}
    shown = [each for each in given.relevant if each.file.text is not None and each.file.path not in known]
    return [
        UnplacedPart(f"relevant:{each.file.path}", "given", render_file(each.file), reason=each.reason)
        for each in shown
    ]


def _render_relevant(given: Given) -> str:
    """Render the names and reasons of the relevant files, and what was not searched for them."""
    reasons = [f"- {escape_unprintable(each.file.path)}: {_describe_reason(each)}" for each in given.relevant]
    return "\n\n".join(text for text in ("\n".join(reasons), given.unsearched) if text)


def _describe_reason(relevant: Relevant) -> str:
    note = relevant.file.note
    return f"{relevant.reason} ({note})" if note else relevant.reason


def _build_relevant_list(given: Given) -> ToldList:
    """Return a list to loop over.

    As a single value it renders as the list of reasons followed by the contents.
    """
    items = [_build_fields(each) for each in given.relevant]
    shown = [SourcedText(_render_relevant(given), "relevant_files")]
    shown += [SourcedText(f"{JOINT}{piece.text}", piece.source) for piece in _build_file_parts(given)]
    return ToldList(items, shown)


def _build_fields(each: Relevant) -> ToldFields:
    path, source = (
        SourcedText(escape_unprintable(each.file.path), "relevant_files"),
        f"relevant:{each.file.path}",
    )
    fields = {
        "Path": path,
        "Reason": SourcedText(_describe_reason(each), "relevant_files"),
        "Content": SourcedText(each.file.text or "", source),
    }
    return ToldFields(fields, path)


def _build_line_list(lines: Sequence[str], source: str) -> ToldList:
    return ToldList(
        [SourcedText(line, source) for line in lines], [SourcedText(render_bullets(lines), source)]
    )


def render_bullets(lines: Sequence[str]) -> str:
    """Render a list; further lines of an item are indented."""
    return "\n".join("- " + line.strip("\n").replace("\n", "\n  ") for line in lines)


def render_changes(given: Given, evidence: Sequence[str] = ()) -> str:
    """Render the changes of the doer, one line each, with a mark if no `evidence` so far names the file."""
    if not given.changes:
        return "## Changes\n\nNo file of the workspace was changed."
    unnamed = {change.path for change in find_unnamed_changes(given.changes, evidence)}
    lines = [
        f"- {change.kind}: {escape_unprintable(change.path)}{_render_mark(change, unnamed)}"
        for change in sorted(given.changes, key=lambda change: change.kind == "created")
    ]
    lines += _render_omitted(given.changes_omitted)
    if unnamed:
        lines += ["", "Check the files that are not named as evidence too: are these changes intended?"]
    return "\n".join(["## Changes", "", *lines])


def _render_mark(change: Change, unnamed: Collection[str]) -> str:
    if change.cache:
        return " (a cache)"
    return " (not named as evidence)" if change.path in unnamed else ""


def render_listing(given: Given) -> str:
    """Render the files of the workspace, one line each."""
    return f"## Files in the workspace\n\n{_render_paths(given)}"


def _render_paths(given: Given) -> str:
    if not given.listing:
        return _describe_empty_listing(given)
    lines = [f"- {escape_unprintable(path)}" for path in given.listing]
    return "\n".join([*lines, *_render_omitted(given.listing_omitted)])


def _describe_empty_listing(given: Given) -> str:
    return UNLISTED if given.unlisted else EMPTY


def get_project_instructions(given: Given) -> str:
    """Return the instructions of the project; empty if they are blank."""
    return given.instructions if given.instructions.strip() else ""


def _render_omitted(count: int) -> list[str]:
    return [f"- ... and {count} more"] if count else []


def render_file(file: FileText) -> str:
    """Render a file in a fence that its text can't close, or the reason why there is no text."""
    title = f"## File: {escape_unprintable(file.path)}\n\n"
    if file.text is None:
        return f"{title}({file.note})"
    note = f"({file.note})\n\n" if file.note else ""
    return f"{title}{note}{fence_text(file.text)}"
