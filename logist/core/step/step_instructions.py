"""What an agent is told at a step, and how its answer is read: the exit command, or sections."""

from __future__ import annotations

from dataclasses import dataclass

from logist.core import sections, template
from logist.core.answer import exit_command
from logist.core.model import EffectiveSpec, JsonObject, Phase, Role, State, Step, StepType
from logist.core.permissions import permissions
from logist.core.prompt import prompt, role_template
from logist.core.prompt.prompt import AtStep, Given, UnplacedPart
from logist.core.template import data
from logist.core.text import layers

SECTIONS = "sections"


@dataclass(frozen=True)
class Instructed:
    """The two halves of a prompt, before they have a place."""

    system: list[UnplacedPart]
    user: list[UnplacedPart]
    joint: str
    """Between the parts."""
    warnings: tuple[str, ...] = ()
    """What of the templates, the role's and the step's, could not be filled."""


def instructed(spec: EffectiveSpec, state: State, role: Role, given: Given, phase: Phase) -> Instructed:
    """What the agent is told; the same inputs, the same text."""
    step = _step(spec, state.step)
    text, warnings = _filled(spec, state, step) if step else ("", ())
    reads = step is not None and _reads_results(state, step)
    results = data.aggregated(state.results or [], state.result_items) if reads else []
    at = AtStep(step, text, results) if step else None
    told = is_in_sections(spec, state.step)
    filled = role_template.filled(spec, state, role, given)
    if isinstance(filled, str):  # it grew too long: the work is told as to a role without a template
        warnings, filled = (*warnings, filled), None
    asked = role.context_requirements
    return Instructed(
        prompt.system_pieces(
            role, step if phase is Phase.DOER else None, sections=told, doing=phase is Phase.DOER
        ),
        prompt.user_pieces(
            spec,
            state,
            phase,
            given,
            at,
            sections=told,
            asked=asked,
            filled=filled,
            changes=permissions.may_change(role.permissions),
        ),
        layers.SEPARATOR if told else prompt.JOINT,
        (*warnings, *(filled.warnings if filled else ())),
    )


def _reads_results(state: State, step: Step) -> bool:
    """Whether it takes together what jobs have done, or comes just after several of them."""
    last, spawned = state.last, state.spawned
    just = spawned is not None and state.output_of == spawned.step and (last is None or last.output is None)
    return step.step_type == StepType.JOIN or just


def is_in_sections(spec: EffectiveSpec, step_id: str) -> bool:
    """Whether the answer at this step is one of sections: the step says so, or else the job."""
    step = _step(spec, step_id)
    own = step.response_format if step else None
    return (own or spec.response_format) == SECTIONS


def judge(spec: EffectiveSpec, step_id: str, text: str, schema: JsonObject) -> exit_command.Verdict:
    """The exit command in an answer, in whichever of the two forms the step wants it."""
    read = sections.judged if is_in_sections(spec, step_id) else exit_command.judge
    return read(text, schema)


def step_text(spec: EffectiveSpec, state: State) -> str:
    """What the step of the workflow says at which the job stands, its template filled; empty without one."""
    step = _step(spec, state.step)
    return _filled(spec, state, step)[0] if step else ""


def _step(spec: EffectiveSpec, step_id: str) -> Step | None:
    return spec.workflow.step(step_id) if spec.workflow else None


def _filled(spec: EffectiveSpec, state: State, step: Step) -> tuple[str, tuple[str, ...]]:
    """Hints and prompt of the step, its template filled; data that looks like a template stays as it is."""
    if step.rendered:
        return layers.step_layer(None, step.guidance, step.prompt), ()
    try:
        filled = template.render(step.prompt, data.of(spec, state))
    except template.TemplateError as error:
        return layers.step_layer(None, step.guidance, step.prompt), (f"step {step.id!r}: {error}",)
    warnings = tuple(f"step {step.id!r}: {warning}" for warning in filled.warnings)
    return layers.step_layer(None, step.guidance, filled.text), warnings
