"""What a completed step of a workflow leads to, and whether a person has to confirm it first."""

from __future__ import annotations

from dataclasses import dataclass, replace

from logist.core import data, routing
from logist.core.event import Event, Who
from logist.core.machine import next_place
from logist.core.model import EffectiveSpec, JsonObject, Place, Response, State, Status, Step, Workflow
from logist.core.routing import Facts


@dataclass(frozen=True)
class Completed:
    """Where a completed step leads."""

    place: Place
    route: list[JsonObject]
    """The decisions that were taken; none while the step is still looked at."""
    unsure: bool
    """A steward is to confirm it, if not at once, then when the reviewer has seen it."""


def after(
    spec: EffectiveSpec, flow: Workflow, state: State, here: Place, event: Event, response: Response
) -> Completed:
    """What follows, of the doer's answer or of the reviewer's."""
    doing = event.who is Who.DOER
    output = response.output if doing else data.UNCHANGED
    told = (response.metadata or {}) if doing else {}
    suggestion = told.get("suggested_next_stage") if doing else state.suggested
    facts = Facts(
        data.of(spec, state, here.step, output),
        state.visits or {},
        suggestion if isinstance(suggestion, str) else None,
    )
    routed = routing.after(flow, here.step, facts)
    unsure = _wants_a_steward(flow.step(here.step), told, facts) if doing else bool(state.unsure)
    place = next_place(here, replace(event, onward=routed.onward, unsure=unsure), spec)
    stays = place.status is Status.REVIEW_REQUIRED or place.awaiting == "review"
    return Completed(place, [] if stays else routed.route, unsure)


def _wants_a_steward(doing: Step | None, told: JsonObject, facts: Facts) -> bool:
    """Whether the step says so, or the agent is not sure enough."""
    if doing is None:
        return False
    sure = told.get("confidence")
    doubtful = doing.confidence is not None and isinstance(sure, int | float) and sure < doing.confidence
    confirm = doing.confirm if isinstance(doing.confirm, bool) else routing.holds(doing.confirm, facts).taken
    return doubtful or confirm
