"""The prompt as ordered parts: what comes from rules, what was given, and where each stands."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from logist.core import layers
from logist.core.model import (
    Change,
    EffectiveSpec,
    ExitAction,
    Part,
    Permission,
    Phase,
    Role,
    State,
    Step,
)

SEPARATOR = "\n\n---\n\n"
"""Between the system half and the user half of `request.prompt`."""
JOINT = "\n\n"
"""Between the parts of one half."""

LONGEST_OUTPUT = 20_000
"""Characters of the last answer's output that the next prompt quotes."""

CONTRACT = """\
## How to answer

End with exactly one JSON object, the exit command, as the last thing you write: bare, on a line of its \
own, not in a code fence, with no other text after it. It decides what happens next; an answer without a \
valid one stops the job for a person.

{"action": "COMPLETED", "evidence_files": ["path/of/file"], "summary_for_supervisor": "What was done."}

- `action` (required): `COMPLETED` when your part is done; `RETRY` when this attempt failed and a fresh \
one may succeed; `STUCK` when a person has to decide or help. Upper case.
- `evidence_files` (required): the files you made, changed or examined, as paths relative to the \
workspace; no absolute path, no `..`; `[]` if there are none.
- `summary_for_supervisor` (required): two or three sentences for whoever comes next, at most 1000 \
characters.
- `output` (optional): a result as JSON. `metadata` (optional): an object of notes. No other keys."""


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


@dataclass(frozen=True)
class Piece:
    """A part before it has a place."""

    source: str
    kind: Literal["rule", "given"]
    text: str


def system_pieces(role: Role, step: Step | None = None, *, sections: bool = False) -> list[Piece]:
    """What the agent is told about itself and its answer; `step` is the doer's, in a workflow."""
    instructions = f"## Agent Context\n{role.instructions}" if sections else role.instructions
    behaviour = layers.role_block(step.agent_role if step else None).rstrip("\n")
    pieces = [
        Piece("contract", "rule", layers.BASE if sections else CONTRACT),
        Piece(f"role:{role.name}", "rule", instructions),
        Piece("permissions", "rule", _permissions(role)),
        Piece("agent_role", "rule", behaviour),
    ]
    return [piece for piece in pieces if piece.text]


VERBS = {
    Permission.READ_FILES: "read files",
    Permission.WRITE_FILES: "change files",
    Permission.CREATE_FILES: "create files",
    Permission.DELETE_FILES: "delete files",
    Permission.EXECUTE_COMMANDS: "run commands",
}


def _permissions(role: Role) -> str:
    may = [verb for permission, verb in VERBS.items() if role.permissions.allows(permission)]
    may_not = [verb for permission, verb in VERBS.items() if not role.permissions.allows(permission)]
    lines = ["## What you may do", ""]
    if may:
        lines.append(f"In the workspace you may {_listed(may, 'and')}.")
    if may_not:
        lines.append(
            f"You may not {_listed(may_not, 'or')}, by any means: such a change is undone, and the job stops for a person."
        )
    return "\n".join(lines)


def _listed(words: Sequence[str], last: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


@dataclass(frozen=True)
class AtStep:
    """The step of a workflow that the job stands at: its hints and its prompt, filled from the data."""

    step: Step
    text: str
    results: Sequence[object] = ()
    """Of a join: what the jobs before it gave."""


def user_pieces(
    spec: EffectiveSpec,
    state: State,
    phase: Phase,
    given: Given,
    at: AtStep | None = None,
    *,
    sections: bool = False,
) -> list[Piece]:
    """What the agent is told about this job, in the order it reads it; absent parts leave no trace."""
    pieces = [
        *_work(spec, at, sections=sections),
        Piece("step", "rule", _part(phase)),
        Piece("limits", "rule", f"This is attempt {state.attempts + 1} of {spec.limits.max_attempts}."),
        Piece("steps", "given", _steps(spec, state)),
        Piece("previous", "given", _previous(state, phase)),
        Piece("output", "given", _reviewed_output(state) if spec.workflow else ""),
        Piece("results", "given", _results(at.results) if at else ""),
        Piece("note", "given", f"## Note from the steward\n\n{state.note}" if state.note else ""),
        Piece("changes", "given", _changes(given) if phase is Phase.REVIEWER else ""),
        Piece("listing", "given", _listing(given)),
        *(Piece(f"file:{file.path}", "given", _file(file)) for file in given.files),
    ]
    return [piece for piece in pieces if piece.text]


def _work(spec: EffectiveSpec, at: AtStep | None, *, sections: bool) -> list[Piece]:
    """The step, and the task it is a part of."""
    if sections:
        layered = layers.flat(
            "",
            step_name=at.step.name if at else "",
            step_prompt=at.text if at else None,
            instructions=spec.prompt,
            title=spec.title,
            summary=spec.description,
            tags=spec.tags,
            additional="; ".join(spec.acceptance_criteria) or None,
        )
        return [Piece(*layer) for layer in layered]
    step = Piece("workflow_step", "given", _step(at) if at else "")
    return [step, Piece("task", "given", _task(spec))]


def _step(at: AtStep) -> str:
    return f"## Workflow Step: {at.step.name}\n\n{at.text}".rstrip("\n")


def _steps(spec: EffectiveSpec, state: State) -> str:
    """The steps that were done before the last one, a line each."""
    if spec.workflow is None or not state.summaries:
        return ""
    names = {step.id: step.name for step in spec.workflow.steps}
    quoted = None if _is_reviewed(state) else state.output_of
    lines = [
        f"- {names.get(step, step)}: {' '.join(summary.split())}"
        for step, summary in state.summaries.items()
        if step != quoted
    ]
    return "\n".join(["## Steps so far", "", *lines]) if lines else ""


def _is_reviewed(state: State) -> bool:
    """Whether the last answer is that of the reviewer of a step that is done."""
    return state.last is not None and state.last.phase is Phase.REVIEWER and state.step != state.output_of


def _reviewed_output(state: State) -> str:
    """What the step before gave, where the last answer only says what its reviewer thought of it."""
    output = state.outputs.get(state.output_of) if state.output_of and _is_reviewed(state) else None
    return "" if output is None else f"## Output of the step before\n\n{_output(output)}"


def _results(results: Sequence[object]) -> str:
    if not results:
        return ""
    found = [{"output": each} for each in results]
    return f"## Results of the jobs before this one\n\n{_output(found)}"


def assemble(
    system: Iterable[Piece],
    user: Iterable[Piece],
    redact: Callable[[str], tuple[str, int]],
    joint: str = JOINT,
) -> tuple[str, list[Part], int, int]:
    """`(prompt, parts, user_start, redactions)`; every piece is redacted before it gets its place."""
    text = ""
    parts: list[Part] = []
    redactions = user_start = 0
    for half, between in ((system, ""), (user, SEPARATOR)):
        text += between
        user_start, between_parts = len(text), ""
        for piece in half:
            clean, count = redact(piece.text)
            text += between_parts
            parts.append(_placed(piece, clean, len(text)))
            text += clean
            redactions, between_parts = redactions + count, joint
    return text, parts, user_start, redactions


def _placed(piece: Piece, text: str, start: int) -> Part:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Part(source=piece.source, kind=piece.kind, sha256=digest, start=start, end=start + len(text))


def _task(spec: EffectiveSpec) -> str:
    lines = [f"## Task: {spec.title}", *(["", spec.prompt] if spec.prompt else [])]
    if spec.description:
        lines += ["", "### Description", "", spec.description]
    if spec.acceptance_criteria:
        lines += ["", "### Acceptance criteria", "", *(f"- {line}" for line in spec.acceptance_criteria)]
    if spec.task_type or spec.tags:
        lines += ["", f"Type: {spec.task_type or 'N/A'}. Tags: {', '.join(spec.tags) or 'None'}."]
    return "\n".join(lines)


def _part(phase: Phase) -> str:
    if phase is Phase.REVIEWER:
        return (
            "## Your part: review\n\n"
            "Judge the work described below against the task and its acceptance criteria. Do not do the "
            "work yourself. COMPLETED accepts it; RETRY sends it back, with your findings in the summary; "
            "STUCK hands it to a person."
        )
    return "## Your part: do the task\n\nWork in the workspace. Name every file you touch as evidence."


def _previous(state: State, phase: Phase) -> str:
    last = state.last
    if last is None:
        return ""
    rework = phase is Phase.DOER and last.phase is Phase.REVIEWER and last.action is ExitAction.RETRY
    title = "## The review sent it back" if rework else "## What happened before"
    lines = [title, "", f"{last.role} ended with {last.action}: {last.summary}"]
    lines += [f"- evidence: {_name(path)}" for path in last.evidence_files if path not in last.missing]
    lines += [f"- named as evidence, but not there: {_name(path)}" for path in last.missing]
    if last.output is not None:
        lines += ["", f"Its output:\n\n{_output(last.output)}"]
    return "\n".join(lines)


def _output(output: object) -> str:
    """The output of an answer as JSON, in a fence that it can't close."""
    text = json.dumps(output, ensure_ascii=False, indent=1)
    more = len(text) - LONGEST_OUTPUT
    cut = f"{text[:LONGEST_OUTPUT]}\n... and {more:,} more characters" if more > 0 else text
    fence = _fence(cut)
    return f"{fence}\n{cut}\n{fence}"


def _changes(given: Given) -> str:
    if not given.changes:
        return "## Changes\n\nNo file of the workspace was changed."
    lines = [f"- {change.kind}: {_name(change.path)}" for change in given.changes]
    return "\n".join(["## Changes", "", *lines, *_more(given.changes_omitted)])


def _listing(given: Given) -> str:
    if not given.listing:
        return "## Files in the workspace\n\nThe workspace is empty."
    lines = [f"- {_name(path)}" for path in given.listing]
    return "\n".join(["## Files in the workspace", "", *lines, *_more(given.listing_omitted)])


def _more(count: int) -> list[str]:
    return [f"- ... and {count} more"] if count else []


def _file(file: FileText) -> str:
    title = f"## File: {_name(file.path)}\n\n"
    if file.text is None:
        return f"{title}({file.note})"
    fence = _fence(file.text)
    end = "" if file.text.endswith("\n") else "\n"
    note = f"\n\n({file.note})" if file.note else ""
    return f"{title}{fence}\n{file.text}{end}{fence}{note}"


def _name(path: str) -> str:
    """A path on one line: an agent may make a file whose name has line breaks, and headings after them."""
    return path if path.isprintable() else json.dumps(path)


def _fence(text: str) -> str:
    """A fence longer than every run of backticks in the text, so that a file can't close it."""
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return "`" * max(3, longest + 1)
