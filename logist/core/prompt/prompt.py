"""Builds the prompt as ordered parts; each is marked as a rule of Logist or as given data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from logist.core import review
from logist.core.answer import confidence, exit_command, output_schema, plans
from logist.core.machine import routing
from logist.core.model import EffectiveSpec, Permission, Permissions, Phase, Role, State, Step
from logist.core.prompt import context
from logist.core.prompt.context import Given, RequiredParts
from logist.core.prompt.prompt_parts import (
    CONTRACT_SOURCE,
    JOINT,
    SEPARATOR,
    UnplacedPart,
    assemble,
    escape_unprintable,
)
from logist.core.prompt.shown_files import FileText, Relevant
from logist.core.text import layers
from logist.core.text.fences import fence_text
from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    from logist.core.prompt.role_template import Filled

__all__ = [
    "CONTRACT",
    "JOINT",
    "SEPARATOR",
    "AtStep",
    "FileText",
    "Given",
    "Relevant",
    "UnplacedPart",
    "assemble",
    "contract_piece",
    "system_pieces",
    "user_pieces",
]

ENDING = """\
## How to end, in sections

The instructions of your role use the words on the left. In your answer, write what is on the right:

- COMPLETED: Status SUCCESS, Next Action COMPLETE
- RETRY: Status PARTIAL, Next Action CONTINUE
- STUCK: Status BLOCKED, Next Action ESCALATE
- `output` of the exit command: JSON under `## Output`
- summary: text under `## Summary`
- evidence: a list of paths under `## Evidence`"""
_EXIT_WORDS = compile_on_use(r"\b(?:COMPLETED|RETRY|STUCK)\b|exit command|`output`")

LONGEST_OUTPUT = 20_000
"""The last answer's output is quoted in the next prompt up to this many characters."""

UNCHANGED = (
    "## The last run changed no file\n\n"
    "The role of this run may change files, and the run ended with COMPLETED. If changes are listed above, they "
    "were made before this run. Check whether the work was done at all."
)
"""For the reviewer of such a run."""

CONTRACT = f"""\
## How to answer

End your answer with one JSON object: the exit command. A program reads it and decides what happens next. If \
there is no valid exit command, the job stops and waits for a person.

The exit command has this form. Replace each text in <angle brackets> with your own:

{exit_command.EXAMPLE}

- `action` (required): one of these three words, in upper case:
  - `COMPLETED`: your part is done.
  - `RETRY`: this attempt failed, and a new attempt may succeed. If you have to answer PASS or FAIL, never \
use `RETRY`: it sends the work back. Use `COMPLETED`, or `STUCK` if you need a person.
  - `STUCK`: a person must decide something or help.
- `evidence_files` (required): a list of the files that you created, changed or examined, and that exist when you \
end. Each is a path relative to the workspace, without `..`. If there are no such files, write `[]`. Name deleted \
files in the summary.
- `summary_for_supervisor` (required, whatever your role is): two to five sentences for the next agent and for \
people, at most 1000 characters. Say what you did and what the result is, the most important first.
- `output`: your result, as any JSON value. Required if the text above asks for it, otherwise optional.
- `metadata`: a JSON object. Required if the text above asks for a value in it; otherwise leave it out.

Use only these five keys. Write any other text first. Then write the exit command on a line of its own, \
without a code fence, and stop there."""
"""How to answer with an exit command. Its example is not a valid exit command, so a copy of it ends STUCK."""


def system_pieces(
    role: Role, step: Step | None = None, *, sections: bool = False, doing: bool = True
) -> list[UnplacedPart]:
    """Return the parts about the agent itself; `step` is that of the doer, in a workflow.

    A role's own output schema applies only to its work: a reviewer (not `doing`) gives a verdict instead.
    """
    heading = "## Agent Context\n" if sections and role.instructions else ""
    behaviour = layers.build_role_block(step.agent_role if step else None).rstrip("\n")
    schema = role.output_schema if doing else None
    pieces = [
        UnplacedPart(f"role:{role.name}", "rule", heading + role.instructions),
        UnplacedPart("ending", "rule", _render_ending(role) if sections else ""),
        UnplacedPart("permissions", "rule", _render_permissions(role.permissions)),
        UnplacedPart(
            "output_schema", "rule", output_schema.render_output_instruction(schema, sections=sections)
        ),
        UnplacedPart("agent_role", "rule", behaviour),
        UnplacedPart("confidence", "rule", confidence.render_confidence_instruction(step, sections=sections)),
    ]
    return [piece for piece in pieces if piece.text]


def contract_piece(*, sections: bool) -> UnplacedPart:
    """Return the part that says how to answer.

    It is the last part of the prompt, after everything from files, because models follow best what they read
    last.
    """
    return UnplacedPart(CONTRACT_SOURCE, "rule", layers.BASE if sections else CONTRACT)


def _render_ending(role: Role) -> str:
    """Explain the words of the exit command if the answer is in sections.

    Empty if the role doesn't use them.
    """
    words = f"{role.instructions}\n{role.prompt_template or ''}"
    return ENDING if _EXIT_WORDS.search(words) else ""


VERBS = {
    Permission.READ_FILES: "read files",
    Permission.WRITE_FILES: "change files",
    Permission.CREATE_FILES: "create files",
    Permission.DELETE_FILES: "delete files",
    Permission.EXECUTE_COMMANDS: "run commands",
}


@lru_cache(maxsize=64)
def _render_permissions(permissions: Permissions) -> str:
    may = [verb for permission, verb in VERBS.items() if permissions.allows(permission)]
    may_not = [verb for permission, verb in VERBS.items() if not permissions.allows(permission)]
    lines = ["## What you may do", ""]
    if may:
        lines.append(f"In the workspace you may {_join_words(may, 'and')}.")
    if may_not:
        lines.append(
            f"You may not {_join_words(may_not, 'or')}, with any tool or command. If you do, Logist undoes the change, and the job stops for a person."
        )
    return "\n".join(lines)


def _join_words(words: Sequence[str], last: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


@dataclass(frozen=True)
class AtStep:
    """The current step of a workflow, with its hints and its prompt rendered."""

    step: Step
    text: str
    results: Sequence[object] = ()
    """At a join: the results of the previous jobs."""


def user_pieces(
    spec: EffectiveSpec,
    state: State,
    phase: Phase,
    given: Given,
    at: AtStep | None = None,
    *,
    sections: bool = False,
    asked: RequiredParts = None,
    filled: Filled | None = None,
    changes: bool = True,
) -> list[UnplacedPart]:
    """Return the parts about this job in reading order, without empty ones.

    `asked` are the parts of the context that the role requires. `filled`, the rendered template of the role,
    describes the work in its own words; what it leaves out follows it. `changes`: the role may change files.
    """
    said = filled.said if filled else frozenset()
    is_doer, is_reviewer = phase is Phase.DOER, phase is Phase.REVIEWER
    # Most are empty, and only the others become objects: a replay builds the parts of thousands of prompts.
    pieces: list[tuple[Any, ...]] = [
        *(_build_work(spec, at, sections=sections) if filled is None else _build_remaining_work(at, filled)),
        ("custom_instructions", "given", "" if "CustomInstructions" in said else _render_instructions(given)),
        ("step", "rule", _render_assignment(phase, changes=changes)),
        ("choices", "rule", _render_choices(spec, state, sections=sections) if is_doer else ""),
        ("limits", "rule", _render_attempt(spec, state, phase)),
        ("steps", "given", _render_steps(spec, state)),
        *_build_earlier_parts(state, phase),
        ("answer", "given", _render_last_answer(given)),
        ("plan", "given", _render_plan(state)),
        ("output", "given", _render_reviewed_output(state) if spec.workflow else ""),
        ("results", "given", _render_results(at.results) if at else ""),
        ("note", "given", f"## Note from a person\n\n{state.note}" if state.note else ""),
        ("changes", "given", context.render_changes(given, state.artefacts) if is_reviewer else ""),
        ("unchanged", "given", UNCHANGED if state.unchanged and is_reviewer else ""),
        *(_build_reviewer_parts(spec, state, given, sections=sections) if is_reviewer else []),
        *context.build_pieces(given, asked, said),
        *((f"file:{file.path}", "given", context.render_file(file)) for file in given.files),
    ]
    return [*(filled.pieces if filled else []), *(UnplacedPart(*piece) for piece in pieces if piece[2])]


def _build_work(spec: EffectiveSpec, at: AtStep | None, *, sections: bool) -> list[UnplacedPart]:
    """Return the step, and the task it is part of."""
    if sections:
        layered = layers.build_layers(
            "",
            step_name=at.step.name if at else "",
            step_prompt=at.text if at else None,
            instructions=spec.prompt,
            title=spec.title,
            summary=spec.description,
            tags=spec.tags,
            additional="; ".join(spec.acceptance_criteria) or None,
        )
        return [UnplacedPart(*layer) for layer in layered]
    step = UnplacedPart("workflow_step", "given", _render_step(at) if at else "")
    return [step, UnplacedPart("task", "given", _render_task(spec))]


def _build_remaining_work(at: AtStep | None, filled: Filled) -> list[UnplacedPart]:
    """Return what the role's template leaves out of the work."""
    return [
        UnplacedPart("task", "given", filled.rest),
        UnplacedPart("workflow_step", "given", _render_step(at) if at else ""),
    ]


def _render_instructions(given: Given) -> str:
    words = context.get_project_instructions(given)
    return f"## Instructions of the project\n\n{words}" if words else ""


def _render_step(at: AtStep) -> str:
    return f"## Workflow Step: {at.step.name}\n\n{at.text}".rstrip("\n")


def _render_steps(spec: EffectiveSpec, state: State) -> str:
    """List the steps completed before the last one, one line each."""
    if spec.workflow is None or not state.summaries:
        return ""
    names = {step.id: step.name for step in spec.workflow.steps}
    quoted_step = None if _is_reviewed(state) else state.output_of
    lines = [
        f"- {names.get(step, step)}: {' '.join(summary.split())}"
        for step, summary in state.summaries.items()
        if step != quoted_step
    ]
    return "\n".join(["## Steps so far", "", *lines]) if lines else ""


def _is_reviewed(state: State) -> bool:
    """Whether the last answer is by the reviewer of a completed step."""
    return state.last is not None and state.last.phase is Phase.REVIEWER and state.step != state.output_of


def _render_reviewed_output(state: State) -> str:
    """Render the output of the previous step, if the last answer is only its review."""
    output = state.outputs.get(state.output_of) if state.output_of and _is_reviewed(state) else None
    return "" if output is None else f"## Output of the previous step\n\n{_render_output(output)}"


def _render_results(results: Sequence[object]) -> str:
    if not results:
        return ""
    return f"## Results of the previous jobs\n\n{_render_output(list(results))}"


def _render_task(spec: EffectiveSpec) -> str:
    lines = [_render_task_heading(spec), *(["", spec.prompt] if spec.prompt else [])]
    if spec.description:
        lines += ["", "### Description", "", spec.description]
    if spec.acceptance_criteria:
        lines += ["", "### Acceptance criteria", "", *(f"- {line}" for line in spec.acceptance_criteria)]
    if spec.task_type or spec.tags:
        lines += ["", f"Type: {spec.task_type or 'N/A'}. Tags: {', '.join(spec.tags) or 'None'}."]
    return "\n".join(lines)


def _render_task_heading(spec: EffectiveSpec) -> str:
    """Render the heading of the task, without the title if the prompt begins with it."""
    is_repeated = bool(spec.prompt) and spec.prompt.lstrip().startswith(spec.title.removesuffix("..."))
    return "## Task" if is_repeated else f"## Task: {spec.title}"


def _render_assignment(phase: Phase, *, changes: bool) -> str:
    if phase is Phase.REVIEWER:
        return (
            "## Your part: review\n\n"
            "Judge the work described below against the task and its acceptance criteria. Only judge it: "
            "do no work yourself. Your verdict, see below, accepts the work or sends it back. If a person must "
            "decide, end with STUCK."
        )
    if not changes:
        return (
            "## Your part: what your role does for the task\n\n"
            "Do the part of the task that the instructions of your role describe, and leave every file unchanged. "
            "Name the files that you examined as evidence."
        )
    return (
        "## Your part: do the task\n\n"
        "Work in the workspace. Name every file that you create or change as evidence."
    )


def _render_attempt(spec: EffectiveSpec, state: State, phase: Phase) -> str:
    """Say which attempt this is. Attempts count the work: a review has the number of the work that it judges."""
    what = "The work that you review" if phase is Phase.REVIEWER else "This"
    return f"{what} is attempt {state.place.attempts + 1} of {spec.limits.max_attempts}."


def _render_choices(spec: EffectiveSpec, state: State, *, sections: bool) -> str:
    """List the steps that the agent may choose from; empty if there is no choice."""
    steps = routing.list_choices(spec.workflow, state.step) if spec.workflow else []
    if not steps:
        return ""
    place = "in the section Metadata" if sections else "into the `metadata` of the exit command"
    lines = [
        f"- {escape_unprintable(step.id)}"
        + (f": {escape_unprintable(step.name)}" if step.name != step.id else "")
        for step in steps
    ]
    explanation = (
        "Conditions on your output decide which step comes next. You can't see these conditions, so suggest a step: "
        f"write its id as `suggested_next_stage` {place}. It is used only if no condition is true. If none of these "
        "steps should come next, leave it out. The possible steps are:"
    )
    return "\n".join(["## Possible next steps", "", explanation, "", *lines])


def _build_reviewer_parts(
    spec: EffectiveSpec, state: State, given: Given, *, sections: bool
) -> list[UnplacedPart]:
    layers_of_review = review.reviewer_pieces(
        spec, state, given.diff, sections=sections, partial=given.partial
    )
    return [UnplacedPart(*layer) for layer in layers_of_review]


def _build_earlier_parts(state: State, phase: Phase) -> list[UnplacedPart]:
    """Return what happened before this attempt and, for the doer, the findings of the review."""
    findings = UnplacedPart(*review.findings_piece(state)) if phase is Phase.DOER else None
    return [
        _build_previous_part(state, phase, told=bool(findings and findings.text)),
        *([findings] if findings else []),
    ]


def _build_previous_part(state: State, phase: Phase, *, told: bool) -> UnplacedPart:
    """Return the last answer; its summary stays even in the shortest prompt.

    `told`: the reviewer's findings are in another part.
    """
    last = state.last
    if last is None:
        return UnplacedPart("previous", "given", "")
    rework = phase is Phase.DOER and review.has_rejected_work(state)
    title = "## The review sent the work back" if rework else "## What happened before"
    summary = _quote_summary(last.summary) if phase is Phase.REVIEWER else f" {last.summary}"
    lines = [title, "", f"{last.role} ended with {last.action}:{summary}"]
    lines += ["", f"Its reason: {last.reason}"] if last.reason else []
    least = len("\n".join(lines))
    lines += [""] if last.reason and last.evidence_files else []
    lines += [
        f"- evidence: {escape_unprintable(path)}" for path in last.evidence_files if path not in last.missing
    ]
    lines += [f"- named as evidence, but not found: {escape_unprintable(path)}" for path in last.missing]
    output_is_elsewhere = (told and last.phase is Phase.REVIEWER) or _is_approved_plan(state)
    if last.output is not None and not output_is_elsewhere:
        lines += ["", f"Its output:\n\n{_render_output(last.output)}"]
    return UnplacedPart("previous", "given", "\n".join(lines), least=least)


def _render_last_answer(given: Given) -> str:
    """Render the text before the exit command of an attempt that ended with RETRY: often its reason."""
    return (
        f"## What the last attempt wrote\n\n{fence_text(_shorten_text(given.answer))}" if given.answer else ""
    )


def _is_approved_plan(state: State) -> bool:
    """Whether the last answer is the plan to be carried out."""
    plan, last = state.plan, state.last
    return plan is not None and plan.approved and last is not None and last.sequence == plan.sequence


def _render_plan(state: State) -> str:
    """Render the plan that is being carried out, or the last plan if the last answer is its review."""
    plan, last = state.plan, state.last
    if plan is None or not (plan.approved or (last is not None and last.sequence != plan.sequence)):
        return ""
    title = "## The approved plan" if plan.approved else "## The plan so far, not approved"
    paragraphs = [title, f"{plan.role} wrote it:{_quote_summary(plan.summary)}"]
    if plan.output is not None:
        paragraphs.append(fence_text(_shorten_text("\n".join(plans.render_plan_lines(plan.output)))))
    if plan.approved:
        paragraphs.append(
            "A person approved this plan. Your part is to carry it out, or to review how it was carried out."
        )
    return "\n\n".join(paragraphs)


def _quote_summary(summary: str) -> str:
    """Quote the summary of a doer for its reviewer, so that no line of it looks like a heading of the prompt."""
    lines = summary.splitlines()
    if len(lines) < 2:
        return f" {summary}"
    return "\n\n" + "\n".join(f"> {line}".rstrip() for line in lines)


def _render_output(output: object) -> str:
    """Render the output of an answer as JSON, in a fence that it can't close."""
    return fence_text(_shorten_text(json.dumps(output, ensure_ascii=False, indent=1)))


def _shorten_text(text: str) -> str:
    more = len(text) - LONGEST_OUTPUT
    return f"{text[:LONGEST_OUTPUT]}\n... and {more:,} more characters" if more > 0 else text
