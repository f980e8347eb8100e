"""What follows a completed step of a workflow, and whether a person has to confirm the step first."""

from __future__ import annotations

from dataclasses import replace

from logist.core import condition
from logist.core.answer import confidence
from logist.core.machine import routing
from logist.core.machine.actions import Who
from logist.core.machine.event import Event
from logist.core.machine.machine import next_place
from logist.core.machine.routing import Facts
from logist.core.machine.rules import Rule, Rules
from logist.core.model import EffectiveSpec, JsonObject, Place, Response, State, Status, Step, Workflow
from logist.core.template import data
from logist.quick_dataclass import dataclass


@dataclass(frozen=True)
class Completed:
    """What follows a completed step."""

    place: Place
    route: list[JsonObject]
    """The decisions that were taken; none while the step still waits for a review or a confirmation."""
    why_unsure: str
    """Why a steward must confirm the step, at once or after the review; empty if no confirmation is needed."""


UNJUDGED = "reason not recorded by an older version"
"""The reason if a history only records that a steward must confirm an answer."""


def route_completed_step(
    spec: EffectiveSpec,
    flow: Workflow,
    state: State,
    here: Place,
    event: Event,
    response: Response,
    *,
    rules: Rules,
) -> Completed:
    """Return what follows an answer of the doer or of the reviewer."""
    is_doer = event.who is Who.DOER
    output = response.output if is_doer else data.UNCHANGED
    metadata = (response.metadata or {}) if is_doer else {}
    suggestion = metadata.get("suggested_next_stage") if is_doer else state.suggested
    facts = Facts(
        data.build_data_after_step(spec, state, here.step, output),
        state.visits or {},
        suggestion if isinstance(suggestion, str) else None,
        rules,
    )
    routed = routing.route_after_step(flow, here.step, facts)
    if is_doer:
        why = _reason_for_approval(flow.find_step(here.step), metadata, facts)
    else:
        why = (state.why_unsure or UNJUDGED) if state.unsure else ""
    place = next_place(here, replace(event, onward=routed.onward, unsure=bool(why)), spec)
    stays = place.status is Status.REVIEW_REQUIRED or place.awaiting == "review"
    return Completed(place, [] if stays else routed.route, why)


def _reason_for_approval(doing: Step | None, metadata: JsonObject, facts: Facts) -> str:
    """Why a steward must confirm an answer: the step requires it, or the agent's confidence is too low.

    Empty if no confirmation is needed. A condition that can't be evaluated counts as required: its purpose is
    that a person checks unclear results.
    """
    if doing is None:
        return ""
    strict = Rule.CLOSED_GATES in facts.rules
    if doing.confidence is not None and (
        why := confidence.reason_for_approval(doing.confidence, metadata, strict=strict)
    ):
        return why
    if isinstance(doing.confirm, bool):
        return "this step requires confirmation" if doing.confirm else ""
    verdict = routing.judge_condition(doing.confirm, facts)
    if verdict.error and strict:
        return f"can't evaluate whether this step requires confirmation: {verdict.error}"
    form = condition.render_condition(doing.confirm)
    return f"this step requires confirmation because `{form}` matches" if verdict.taken else ""
