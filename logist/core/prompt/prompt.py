"""Builds the prompt as ordered parts; each is marked as a rule of Logist or as given data."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from logist.core import review
from logist.core.answer import confidence, output_schema, plans
from logist.core.machine import routing
from logist.core.model import EffectiveSpec, Permission, Phase, Role, State, Step
from logist.core.prompt import context
from logist.core.prompt.context import Asked, FileText, Given, Relevant
from logist.core.prompt.prompt_parts import JOINT, SEPARATOR, UnplacedPart, assemble, escape_unprintable
from logist.core.prompt.role_template import Filled
from logist.core.text import layers
from logist.core.text.fences import fence_text

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
    "system_pieces",
    "user_pieces",
]

ENDING = """\
## How to end, in sections

Your role says how to end in other words. In your answer they are:

- COMPLETED: Status SUCCESS, Next Action COMPLETE
- RETRY: Status PARTIAL, Next Action CONTINUE
- STUCK: Status BLOCKED, Next Action ESCALATE
- `output` of the exit command: JSON under `## Output`
- summary and evidence: `## Summary` and `## Evidence`"""
_EXIT_WORDS = re.compile(r"\b(?:COMPLETED|RETRY|STUCK)\b|exit command|`output`")

LONGEST_OUTPUT = 20_000
"""Characters of the last answer's output that the next prompt quotes."""

UNCHANGED = (
    "## The last run changed no file\n\n"
    "Its role may change files, and it says that it is done. Look whether the work was done at all."
)
"""For the reviewer of such a run."""

CONTRACT = """\
## How to answer

End with exactly one JSON object, the exit command, as the last thing you write: bare, on a line of its \
own, not in a code fence. You may write text before it, but none after it. It decides what happens next; an \
answer without a valid one stops the job for a person.

{"action": "COMPLETED", "evidence_files": ["path/of/file"], "summary_for_supervisor": "What was done."}

- `action` (required): `COMPLETED` when your part is done; `RETRY` when this attempt failed and a fresh \
one may succeed; `STUCK` when a person has to decide or help. Upper case.
- `evidence_files` (required): the files you made, changed or examined, as paths relative to the \
workspace; no absolute path, no `..`; `[]` if there are none.
- `summary_for_supervisor` (required): two or three sentences for whoever comes next, at most 1000 \
characters.
- `output` (optional): a result as JSON. `metadata` (optional): an object of notes. No other keys."""


def system_pieces(
    role: Role, step: Step | None = None, *, sections: bool = False, doing: bool = True
) -> list[UnplacedPart]:
    """Return the parts about the agent itself and its answer; `step` is that of the doer, in a workflow.

    A role's own output schema applies only to its work: a reviewer (not `doing`) gives a verdict instead.
    """
    heading = "## Agent Context\n" if sections and role.instructions else ""
    behaviour = layers.build_role_block(step.agent_role if step else None).rstrip("\n")
    schema = role.output_schema if doing else None
    pieces = [
        UnplacedPart("contract", "rule", layers.BASE if sections else CONTRACT),
        UnplacedPart(f"role:{role.name}", "rule", heading + role.instructions),
        UnplacedPart("ending", "rule", _render_ending(role) if sections else ""),
        UnplacedPart("permissions", "rule", _render_permissions(role)),
        UnplacedPart(
            "output_schema", "rule", output_schema.render_output_instruction(schema, sections=sections)
        ),
        UnplacedPart("agent_role", "rule", behaviour),
        UnplacedPart("confidence", "rule", confidence.render_confidence_instruction(step, sections=sections)),
    ]
    return [piece for piece in pieces if piece.text]


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


def _render_permissions(role: Role) -> str:
    may = [verb for permission, verb in VERBS.items() if role.permissions.allows(permission)]
    may_not = [verb for permission, verb in VERBS.items() if not role.permissions.allows(permission)]
    lines = ["## What you may do", ""]
    if may:
        lines.append(f"In the workspace you may {_join_words(may, 'and')}.")
    if may_not:
        lines.append(
            f"You may not {_join_words(may_not, 'or')}, by any means: such a change is undone, and the job stops for a person."
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
    """Of a join: what the jobs before it gave."""


def user_pieces(
    spec: EffectiveSpec,
    state: State,
    phase: Phase,
    given: Given,
    at: AtStep | None = None,
    *,
    sections: bool = False,
    asked: Asked = None,
    filled: Filled | None = None,
    changes: bool = True,
) -> list[UnplacedPart]:
    """Return the parts about this job in reading order, without empty ones.

    `asked` is what the role requires of its context. `filled`, the rendered template of the role, describes
    the work in its own way; what it leaves out follows it. `changes`: the role may change files.
    """
    said = filled.said if filled else frozenset()
    pieces = [
        *(_build_work(spec, at, sections=sections) if filled is None else _build_remaining_work(at, filled)),
        UnplacedPart(
            "custom_instructions",
            "given",
            "" if "CustomInstructions" in said else _render_instructions(given),
        ),
        UnplacedPart("step", "rule", _render_assignment(phase, changes=changes)),
        UnplacedPart(
            "choices", "rule", _render_choices(spec, state, sections=sections) if phase is Phase.DOER else ""
        ),
        UnplacedPart(
            "limits", "rule", f"This is attempt {state.place.attempts + 1} of {spec.limits.max_attempts}."
        ),
        UnplacedPart("steps", "given", _render_steps(spec, state)),
        *_build_earlier_parts(state, phase),
        UnplacedPart("answer", "given", _render_last_answer(given)),
        UnplacedPart("plan", "given", _render_plan(state)),
        UnplacedPart("output", "given", _render_reviewed_output(state) if spec.workflow else ""),
        UnplacedPart("results", "given", _render_results(at.results) if at else ""),
        UnplacedPart("note", "given", f"## Note from the steward\n\n{state.note}" if state.note else ""),
        UnplacedPart(
            "changes",
            "given",
            context.render_changes(given, state.artefacts) if phase is Phase.REVIEWER else "",
        ),
        UnplacedPart("unchanged", "given", UNCHANGED if state.unchanged and phase is Phase.REVIEWER else ""),
        *(_build_reviewer_parts(spec, state, given, sections=sections) if phase is Phase.REVIEWER else []),
        *context.build_pieces(given, asked, said),
        *(UnplacedPart(f"file:{file.path}", "given", context.render_file(file)) for file in given.files),
    ]
    return [*(filled.pieces if filled else []), *(piece for piece in pieces if piece.text)]


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
    return "" if output is None else f"## Output of the step before\n\n{_render_output(output)}"


def _render_results(results: Sequence[object]) -> str:
    if not results:
        return ""
    return f"## Results of the jobs before this one\n\n{_render_output(list(results))}"


def _render_task(spec: EffectiveSpec) -> str:
    lines = [f"## Task: {spec.title}", *(["", spec.prompt] if spec.prompt else [])]
    if spec.description:
        lines += ["", "### Description", "", spec.description]
    if spec.acceptance_criteria:
        lines += ["", "### Acceptance criteria", "", *(f"- {line}" for line in spec.acceptance_criteria)]
    if spec.task_type or spec.tags:
        lines += ["", f"Type: {spec.task_type or 'N/A'}. Tags: {', '.join(spec.tags) or 'None'}."]
    return "\n".join(lines)


def _render_assignment(phase: Phase, *, changes: bool) -> str:
    if phase is Phase.REVIEWER:
        return (
            "## Your part: review\n\n"
            "Judge the work described below against the task and its acceptance criteria. Do not do the "
            "work yourself. Your verdict, see below, accepts it or sends it back; STUCK hands it to a person."
        )
    if not changes:
        return (
            "## Your part: what your role does for the task\n\n"
            "Do that part of it and no other: you change no file. Name the files you examined as evidence."
        )
    return "## Your part: do the task\n\nWork in the workspace. Name every file you touch as evidence."


def _render_choices(spec: EffectiveSpec, state: State, *, sections: bool) -> str:
    """List the steps that the agent may choose from; empty if there is no choice."""
    steps = routing.list_choices(spec.workflow, state.step) if spec.workflow else []
    if not steps:
        return ""
    place = "in the section Metadata" if sections else "in the `metadata` of the exit command"
    lines = [
        f"- {escape_unprintable(step.id)}"
        + (f": {escape_unprintable(step.name)}" if step.name != step.id else "")
        for step in steps
    ]
    explanation = (
        "Conditions on your output decide which step comes next. Where none of them holds, your choice counts: "
        f"put the id of a step as `suggested_next_stage` {place}. The steps are:"
    )
    return "\n".join(["## What can follow", "", explanation, "", *lines])


def _build_reviewer_parts(
    spec: EffectiveSpec, state: State, given: Given, *, sections: bool
) -> list[UnplacedPart]:
    layers_of_review = review.reviewer_pieces(
        spec, state, given.diff, sections=sections, partial=given.partial
    )
    return [UnplacedPart(*layer) for layer in layers_of_review]


def _build_earlier_parts(state: State, phase: Phase) -> list[UnplacedPart]:
    """Return what happened before this attempt, and for the doer the findings of the review."""
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
    title = "## The review sent it back" if rework else "## What happened before"
    summary = _quote_summary(last.summary) if phase is Phase.REVIEWER else f" {last.summary}"
    lines = [title, "", f"{last.role} ended with {last.action}:{summary}"]
    lines += ["", f"Its reason: {last.reason}"] if last.reason else []
    least = len("\n".join(lines))
    lines += [""] if last.reason and last.evidence_files else []
    lines += [
        f"- evidence: {escape_unprintable(path)}" for path in last.evidence_files if path not in last.missing
    ]
    lines += [f"- named as evidence, but not there: {escape_unprintable(path)}" for path in last.missing]
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
    paragraphs = [title, f"{plan.role} made it:{_quote_summary(plan.summary)}"]
    if plan.output is not None:
        paragraphs.append(fence_text(_shorten_text("\n".join(plans.render_plan_lines(plan.output)))))
    if plan.approved:
        paragraphs.append("A steward has approved it. Your part is to carry it out, or to review that.")
    return "\n\n".join(paragraphs)


def _quote_summary(summary: str) -> str:
    """Quote the summary of a doer for its reviewer, so that no line of it can look like a heading of ours."""
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
