"""Builds an agent's instructions at a step, and reads its answer in the
step's format: exit command or sections.
"""

from __future__ import annotations

from logist.core import sections, template
from logist.core.answer import exit_command
from logist.core.model import EffectiveSpec, JsonObject, Phase, Role, State, Step, StepType
from logist.core.permissions import permissions
from logist.core.prompt import prompt, role_template
from logist.core.template import data
from logist.core.text import layers
from logist.quick_dataclass import dataclass

SECTIONS = "sections"


@dataclass(frozen=True)
class Instructed:
    """The two halves of a prompt, before their parts have positions."""

    system: list[prompt.UnplacedPart]
    user: list[prompt.UnplacedPart]
    joint: str
    """The separator between the parts."""
    warnings: tuple[str, ...] = ()
    """Placeholders of the role's and the step's templates that could not be filled."""


def build_instructions(
    spec: EffectiveSpec, state: State, role: Role, given: prompt.Given, phase: Phase
) -> Instructed:
    """Build the instructions for the agent; the same inputs give the same text."""
    step = _find_step(spec, state.step)
    text, warnings = _render_step(spec, state, step) if step else ("", ())
    reads = step is not None and _needs_results(state, step)
    results = data.aggregate_results(state.results or [], state.result_items) if reads else []
    at_step = prompt.AtStep(step, text, results) if step else None
    is_sectioned = is_in_sections(spec, state.step)
    filled = role_template.fill_template(spec, state, role, given, phase)
    if isinstance(filled, str):  # the template failed, so the role gets the default prompt
        warnings, filled = (*warnings, filled), None
    asked = role.context_requirements
    return Instructed(
        prompt.system_pieces(
            role, step if phase is Phase.DOER else None, sections=is_sectioned, doing=phase is Phase.DOER
        ),
        [
            *prompt.user_pieces(
                spec,
                state,
                phase,
                given,
                at_step,
                sections=is_sectioned,
                asked=asked,
                filled=filled,
                changes=permissions.can_change_files(role.permissions),
            ),
            prompt.contract_piece(sections=is_sectioned),
        ],
        layers.SEPARATOR if is_sectioned else prompt.JOINT,
        (*warnings, *(filled.warnings if filled else ())),
    )


def _needs_results(state: State, step: Step) -> bool:
    """Whether the step joins the results of other jobs, or directly follows several of them."""
    last, spawned = state.last, state.spawned
    has_begun = state.step in (state.step_starts or {})  # then the last answer is one at this step
    is_just_after = (
        spawned is not None
        and data.find_step_before(state) == spawned.step
        and (has_begun or last is None or last.output is None)
    )
    return step.step_type == StepType.JOIN or is_just_after


def is_in_sections(spec: EffectiveSpec, step_id: str) -> bool:
    """Whether the answer at this step must be in sections: set by the step, or else by the job."""
    step = _find_step(spec, step_id)
    step_format = step.response_format if step else None
    return (step_format or spec.response_format) == SECTIONS


def judge_step_answer(
    spec: EffectiveSpec, step_id: str, text: str, schema: JsonObject
) -> exit_command.Verdict:
    """Read the exit command from an answer, in the format that the step requires."""
    judge_format = sections.judge_sections if is_in_sections(spec, step_id) else exit_command.judge_answer
    return judge_format(text, schema)


def render_step_text(spec: EffectiveSpec, state: State) -> str:
    """Render the current step of the workflow, with its template filled; empty without a workflow."""
    step = _find_step(spec, state.step)
    return _render_step(spec, state, step)[0] if step else ""


def _find_step(spec: EffectiveSpec, step_id: str) -> Step | None:
    return spec.workflow.find_step(step_id) if spec.workflow else None


def _render_step(spec: EffectiveSpec, state: State, step: Step) -> tuple[str, tuple[str, ...]]:
    """Render the hints and the prompt of the step; data that looks like a template stays as it is."""
    if step.rendered:
        return layers.build_step_layer(None, step.guidance, step.prompt), ()
    try:
        filled = template.render(step.prompt, data.build_step_data(spec, state))
    except template.TemplateError as error:
        return layers.build_step_layer(None, step.guidance, step.prompt), (f"step {step.id!r}: {error}",)
    warnings = tuple(f"step {step.id!r}: {warning}" for warning in filled.warnings)
    return layers.build_step_layer(None, step.guidance, filled.text), warnings
