"""state = fold(interactions): computes the state from the history, which is the only source of truth.

Interactions are models, or plain records (see `core.model.plain`); then the state is plain too. A property test compares both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from logist.core.answer import findings
from logist.core.history import merge_policy, workflow_state
from logist.core.history.spec_hash import spec_hash
from logist.core.machine import kinds
from logist.core.model.command_kinds import (
    is_approve,
    is_ask,
    is_create,
    is_fork,
    is_restep,
    is_resubmit,
    is_role,
    is_update,
)
from logist.core.model.plain import make_like
from logist.core.model.words import Actor, ErrorKind, ExitAction, Kind, Phase, Status
from logist.core.money import amounts
from logist.core.text.json_object import JsonObject
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:  # `job verify` folds plain records, without the models
    from logist.core.model import EffectiveSpec, Interaction, Last, Place, Plan, State, Totals, Usage
    from logist.core.model.commands import RecordedCommand, RoleCommand

BADGES = {"Planner": "🔍", "Actor": "⚡"}
"""Default badges by role name, for specs without one, such as those of earlier versions."""

SWITCH = workflow_state.SWITCH

_AS_ASKED = (
    *("title", "rank", "tags", "limits", "spec_hash", "workflow", "doers", "parent", "shares_limits"),
    "after",
    *("agent_role", "agent_role_source", "badge", "color", "source", "merges", "forked"),
)
"""Fields that keep their current values when a job goes back to an earlier state."""


def fold(interactions: Iterable[Interaction]) -> State:
    """Return the state after all `interactions`, without its head: only the store knows the offset."""
    entries = list(interactions)
    folding = Folding({read_restep_target(entry) for entry in entries if entry.kind is Kind.RESTEP})
    for entry in entries:
        folding.take(entry)
    if folding.state is None:
        raise ValueError("a history without interactions has no state")
    return folding.state


@dataclass
class Folding:
    """Folds one interaction at a time; `state` is the state so far.

    `targets` are the interactions before which a restep returns; only the states before these are kept.
    """

    targets: Collection[int]
    state: State | None = None
    _kept: dict[int, State] = field(default_factory=dict)

    def back(self, entry: Interaction) -> State | None:
        """Return the state to which the next interaction goes back; None if it is not a restep, or was not kept."""
        if self.state is not None and entry.sequence in self.targets:
            self._kept[entry.sequence] = self.state
        return self._kept.get(read_restep_target(entry)) if entry.kind is Kind.RESTEP else None

    def take(self, entry: Interaction) -> State:
        """Return the state after the next interaction."""
        self.state = apply_interaction(self.state, entry, self.back(entry))
        return self.state


def is_switched(state: State) -> bool:
    """Whether the steward has switched the role of the doer."""
    return state.agent_role_source == SWITCH


def find_doer(spec: EffectiveSpec, state: State) -> tuple[str, str]:
    """Return the role that does the work, and where that choice comes from.

    A switch by the steward overrides the role of the step, which overrides the role of the job.
    """
    if is_switched(state):
        return state.agent_role, state.agent_role_source
    own = workflow_state.find_step_role(spec.doers or {}, state.step)
    return (own.role, own.source) if own else (spec.doer, spec.doer_source)


def find_reviewer(spec: EffectiveSpec, state: State) -> tuple[str, str]:
    """Return the role that reviews the step, and where that choice comes from; a switch never changes it."""
    current_step = spec.workflow.find_step(state.step) if spec.workflow else None
    if current_step is not None and current_step.review_role:
        return current_step.review_role, "step"
    return spec.reviewer, spec.reviewer_source


def fold_before(interactions: Sequence[Interaction], sequence: int) -> State:
    """Return the state before interaction `sequence`."""
    return fold([entry for entry in interactions if entry.sequence < sequence])


def find_checkpoint_before(
    interactions: Iterable[Interaction], sequence: int, last: str | None
) -> str | None:
    """Return the checkpoint of the workspace right before interaction `sequence`, including edits by hand.

    `last` is the checkpoint after the interactions before it. None: no agent has worked since, so the
    workspace itself is unchanged.
    """
    for entry in interactions:
        if entry.sequence < sequence:
            continue
        if entry.kind is Kind.RECOVER:  # its checkpoint_before is what the agent left behind
            return entry.checkpoint_after or last
        if entry.checkpoint_before:
            return entry.checkpoint_before
        # A decision names no checkpoint. The next agent's does, and until then only a person edits files.
        if entry.kind not in kinds.LEAVES_FILES:
            return last
    return None


def read_restep_target(entry: Interaction) -> int:
    """Return the sequence number before which a restep returns.

    0, which no interaction has, if it names none.
    """
    if entry.kind is not Kind.RESTEP:
        return 0
    command = kinds.same_command_of(entry)
    return (command.to or 0) if is_restep(command) else 0


def restep_to(entry: JsonObject) -> Iterator[int]:
    """Yield the target of a restep, from an interaction as plain JSON; nothing for other kinds."""
    command = entry.get("command")
    to = command.get("to") if isinstance(command, dict) else None
    if entry.get("kind") == Kind.RESTEP and isinstance(to, int):
        yield to


def apply_interaction(state: State | None, entry: Interaction, back: State | None = None) -> State:
    """Return the state after one more interaction; `back` is the state that a restep returns to."""
    command = kinds.same_command_of(entry)
    base: State = state or make_like(entry, "State", place=entry.after, created_at=entry.timestamp)
    version = max(base.version, entry.version)
    if entry.kind is Kind.RESTEP and back is not None:
        base = _return_to_state(base, back)
    if entry.kind is Kind.RERUN:
        base = _restart_job(base)
    changes: dict[str, Any] = {
        "version": version,
        "revision": entry.sequence,
        "head": None,
        # A note doesn't move the job: in listings by age, the job keeps its place.
        "updated_at": base.updated_at if entry.kind is Kind.NOTE else entry.timestamp,
        "reason": base.reason if _keeps_reason(base, entry) else entry.reason,
        # The usage of children that a rerun records counts for parent jobs (`sum_usage`); the job itself starts at zero.
        "usage": base.usage if entry.kind is Kind.RERUN else _add_usage(base.usage, entry, command),
        "place": _without_unknown(entry.after),
        **_apply_note(base, entry),
        **_apply_fork(command),
        **_apply_update(entry, command),
    }
    if entry.checkpoint_after:
        changes["checkpoint"] = entry.checkpoint_after
    if entry.kind is Kind.CREATE:
        changes["start_checkpoint"] = entry.checkpoint_after
        changes["adopted"] = command.adopted if is_create(command) else None
    if entry.spec is not None:
        changes.update(_apply_spec(base, entry.spec))
    if is_resubmit(command):
        changes["allowed_tools"] = command.allow
    if is_role(command):
        changes.update(_apply_role_switch(command))
    if is_agent_asked(entry):
        changes["asked"] = base.asked + 1
    if _is_answered(entry):
        changes.update({**_apply_answer(base, entry, command), "allowed_tools": None})
    changes.update(_apply_review(base, entry, command))
    changes.update(_apply_plan(base, entry, command))
    after = merge_policy.apply_merge_policy(base, base.model_copy(update=changes), entry, command)
    return workflow_state.apply_workflow(base, after, entry, command) if after.workflow is not None else after


def _keeps_reason(base: State, entry: Interaction) -> bool:
    """Whether the job still waits for the same reason: an update may leave it where it was."""
    return entry.kind in kinds.STAYS or (entry.kind is Kind.UPDATE and entry.after == base.place)


def _without_unknown(place: Place) -> Place:
    """Remove the fields of a newer Logist from a place; in state.json they would look like fields of the state."""
    return (
        type(place)(**{name: getattr(place, name) for name in type(place).model_fields})
        if place.model_extra
        else place
    )


def _apply_note(base: State, entry: Interaction) -> dict[str, Any]:
    """Return the changes to the note, which is kept until an agent validly answers a prompt that contains it."""
    if entry.kind in kinds.PROMPTS_NOTE and entry.steward and entry.steward.note:
        return {"note": entry.steward.note}
    return {"note": None} if _is_answered(entry) else {}


_EXIT_ACTIONS = frozenset(ExitAction)


def _is_answered(entry: Interaction) -> bool:
    """Whether an agent gave a valid answer in this interaction."""
    actions = entry.response.actions
    return entry.kind is Kind.ASK and bool(actions) and actions[0] in _EXIT_ACTIONS


def _apply_spec(base: State, spec: EffectiveSpec) -> dict[str, Any]:
    """Return the fields that a spec determines; a role that the steward switched to is kept."""
    doer = {
        "agent_role": spec.doer,
        "agent_role_source": spec.doer_source,
        "badge": spec.badge or BADGES.get(spec.doer, ""),
        "color": spec.color,
    }
    flow = spec.workflow
    return {
        "workflow": flow.name if flow else None,
        "parent": spec.parent,
        "shares_limits": spec.shares_limits,
        "after": list(spec.after) if spec.after else None,
        "doers": {**(spec.doers or {}), workflow_state.JOB: make_like(spec, "Doer", **_to_doer_fields(doer))}
        if flow
        else None,
        "title": spec.title,
        "rank": spec.rank,
        "tags": list(spec.tags),
        "limits": spec.limits,
        **({} if is_switched(base) else doer),
        "spec_hash": spec_hash(spec),
    }


def _to_doer_fields(shown: dict[str, Any]) -> dict[str, Any]:
    return {
        "role": shown["agent_role"],
        "source": shown["agent_role_source"],
        "badge": shown["badge"],
        "color": shown["color"],
    }


def _apply_role_switch(command: RoleCommand) -> dict[str, Any]:
    """Return the doer after an interaction of kind `role`; no change if it doesn't name a role."""
    role, source, badge = command.to, command.source, command.badge
    if role is None:
        return {}
    return {
        "agent_role": role,
        "agent_role_source": SWITCH if source is None else source,
        "badge": BADGES.get(role, "") if badge is None else badge,
        "color": command.color,
    }


def _apply_fork(command: RecordedCommand) -> dict[str, Any]:
    """Return which job this one was forked from, if the interaction is a fork."""
    if not is_fork(command):
        return {}
    job, at, head = command.from_job, command.at, command.head
    if job is None or at is None or head is None:
        return {}
    return {"forked": make_like(command, "Forked", job=job, at=at, head=head)}


def _apply_update(entry: Interaction, command: RecordedCommand) -> dict[str, Any]:
    """Return the commit that the work is based on from now on, if the interaction is an update.

    An imported history names no checkpoints: the new job doesn't have that commit.
    """
    if not is_update(command) or command.after is None or not entry.checkpoint_after:
        return {}
    return {"start_checkpoint": command.after}


def _apply_answer(base: State, entry: Interaction, command: RecordedCommand) -> dict[str, Any]:
    response = entry.response
    observed = entry.observed
    phase = observed.phase if observed else Phase.DOER
    evidence = list(response.evidence_files)
    last: Last = make_like(
        entry,
        "Last",
        sequence=entry.sequence,
        phase=phase,
        role=observed.role if observed else "",
        action=ExitAction(response.actions[0]),
        summary=response.summary_for_supervisor,
        evidence_files=evidence,
        missing=[item.path for item in observed.evidence if not item.exists] if observed else [],
        output=response.output,
        verdict=command.verdict if is_ask(command) and phase is Phase.REVIEWER else None,
        reason=response.reason,
    )
    known = set(base.artefacts)
    changes: dict[str, Any] = {
        "last": last,
        "artefacts": [*base.artefacts, *(p for p in dict.fromkeys(evidence) if p not in known)],
    }
    if phase is Phase.DOER and response.output is not None:
        changes["outputs"] = {**base.outputs, entry.step or base.step: response.output}
    return changes


def _apply_review(base: State, entry: Interaction, command: RecordedCommand) -> dict[str, Any]:
    """Return the results of checks and the findings of reviewers for the current step."""
    if entry.after.step != base.step:
        return {"checks": None, "findings": None, "unchanged": None}
    if is_update(command) or (is_resubmit(command) and command.review):
        return {"checks": None, "unchanged": None}  # files may have changed since
    if not is_ask(command) or not _is_answered(entry):
        return {}
    observed = entry.observed
    results = observed.checks if observed else []
    if observed and observed.phase is Phase.REVIEWER:
        check_changes = (
            {"checks": findings.merge_check_results(base.checks or [], results)} if results else {}
        )
        return {**check_changes, "findings": command.findings or None}
    if entry.response.actions != [ExitAction.COMPLETED]:
        return {}
    return {
        "checks": results or None,
        "findings": None,
        "unchanged": observed.unchanged if observed else None,
    }


def _apply_plan(base: State, entry: Interaction, command: RecordedCommand) -> dict[str, Any]:
    """Return the changes to the plan of the step; the history records whether an answer is a plan."""
    if entry.after.step != base.step:
        return {"plan": None}
    if is_approve(command) and command.carried_out_by and base.plan is not None:
        approved = base.plan.model_copy(update={"approved": True})
        return {"plan": approved, "checks": None, "findings": None, "unchanged": None}
    is_doer = entry.observed is not None and entry.observed.phase is Phase.DOER
    if not (is_doer and is_ask(command) and entry.response.actions == [ExitAction.COMPLETED]):
        return {}
    if command.plan:
        return {"plan": _build_plan(entry)}
    return {} if base.plan is not None and base.plan.approved else {"plan": None}


def _build_plan(entry: Interaction) -> Plan:
    response = entry.response
    role = entry.observed.role if entry.observed else ""
    summary = response.summary_for_supervisor
    plan: Plan = make_like(
        entry, "Plan", sequence=entry.sequence, role=role, summary=summary, output=response.output
    )
    return plan


def is_agent_asked(entry: Interaction) -> bool:
    """Whether an agent was asked in this interaction; an answer supplied by hand does not count.

    For a kind that only a newer Logist knows, the actor decides.
    """
    unknown = entry.actor is Actor.AGENT and not entry.kind.is_known
    return (unknown or entry.kind in kinds.ASKS_AGENT) and not entry.simulated


def _can_have_worked(entry: Interaction) -> bool:
    """Whether the agent may have started to work: the provider was reached and accepted key and request."""
    error = entry.response.error
    return error is None or error.kind not in (
        ErrorKind.AUTH,
        ErrorKind.BAD_REQUEST,
        ErrorKind.REFUSED,
        ErrorKind.OUTAGE,
    )


def add_usage(totals: Totals, entry: Interaction) -> Totals:
    """Return the totals of a job after one more interaction."""
    return _add_usage(totals, entry, kinds.same_command_of(entry))


def _add_usage(totals: Totals, entry: Interaction, command: RecordedCommand) -> Totals:
    usage = entry.usage
    counts = is_agent_asked(entry) and _can_have_worked(entry)
    before = amounts.join_cents(totals.cumulative_cost, totals.cumulative_cost_microcents)
    cents, fraction = amounts.split_cents(
        max(0, before + usage_microcents(usage) - released_microcents(command))
    )
    return totals.model_copy(
        update={
            "cumulative_cost": cents,
            "cumulative_cost_microcents": fraction,
            "cumulative_time_seconds": round(totals.cumulative_time_seconds + usage.seconds, 3),
            "current_action_count": totals.current_action_count
            + int(counts)
            + workflow_state.count_children_runs(command),
            "input_tokens": totals.input_tokens + usage.input_tokens,
            "output_tokens": totals.output_tokens + usage.output_tokens,
        }
    )


def sum_usage(entries: Iterable[Interaction]) -> Totals:
    """Return everything that a job has used since it was created, including reruns."""
    totals: Totals | None = None
    for entry in entries:
        totals = add_usage(make_like(entry, "Totals") if totals is None else totals, entry)
    return make_like(None, "Totals") if totals is None else totals


def released_microcents(command: RecordedCommand) -> int:
    """Return how much of the cost recorded for a call in doubt a steward released, in microcents."""
    return (command.released_microcents or 0) if is_ask(command) or is_resubmit(command) else 0


def usage_microcents(usage: Usage) -> int:
    """Return what an exchange cost, in microcents."""
    return amounts.join_cents(usage.cost_cents, usage.cost_microcents)


def _return_to_state(base: State, back: State) -> State:
    """Return the earlier state, but with the current usage, spec and role switch."""
    kept_fields = ("usage", "asked", "asked_at", *_AS_ASKED)
    return back.model_copy(
        update={**_get_newer_fields(base), **{name: getattr(base, name) for name in kept_fields}}
    )


def _restart_job(base: State) -> State:
    """Return the job as it was created, with the current spec and role, and no usage."""
    fresh: State = make_like(base, "State", place=make_like(base, "Place", status=Status.PENDING))
    kept_fields = (*_AS_ASKED, "created_at", "start_checkpoint")
    return fresh.model_copy(
        update={**_get_newer_fields(base), **{name: getattr(base, name) for name in kept_fields}}
    )


def _get_newer_fields(state: State) -> dict[str, Any]:
    """Return the fields that only a newer Logist knows; this version keeps them."""
    return state.model_extra or {}
