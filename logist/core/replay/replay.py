"""Replay: judges a recorded history by the current rules; a difference says where and why."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, overload

from logist.core.history import fold, newer_versions
from logist.core.history.fold import Folding
from logist.core.machine import kinds, limits, steward
from logist.core.machine.rules import TODAY, Rules, find_recorded_rules, find_responsible_changes
from logist.core.model import (
    END,
    EffectiveSpec,
    Interaction,
    JsonObject,
    Kind,
    Observed,
    Place,
    Reply,
    Response,
    State,
)
from logist.core.model.commands import AskCommand, HaltCommand, RecoverCommand
from logist.core.replay import difference, replay_checks
from logist.core.replay.difference import Difference as Difference
from logist.core.step import step
from logist.core.step.step import Outcome
from logist.errors import LogistError
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    from logist.core.replay.drift import Drift


@dataclass(frozen=True)
class ChangedRule:
    """An interaction whose result is different today only because a newer Logist has changed a rule."""

    sequence: int
    rule: str
    version: str
    """The version of Logist that changed the rule."""
    change: str
    differences: tuple[Difference, ...]


Prompts: TypeAlias = "Callable[[EffectiveSpec, State, Interaction], Iterable[Drift]]"
"""Finds the parts of a prompt that would differ today: (spec, state before the ask, the ask)."""

NO_BEGINNING = "a history must begin with a create interaction that contains the spec"

NO_RESPONSE = Response()
"""The response of an interaction without an answer."""

READ_FROM_ANSWER = ("actions", "status", "evidence_files", "summary_for_supervisor", "output", "metadata")
"""Fields of a response that are read from the agent's text."""


@dataclass(frozen=True)
class Judged:
    """The result of an interaction under the current rules."""

    place: Place
    response: Response
    route: list[JsonObject] = field(default_factory=list)
    review: JsonObject | None = None
    """The verdict and the findings of a reviewer (see `step.recorded`); None if no verdict was requested."""
    outcome: Outcome | None = None
    """What the answer means, if one was judged."""


@dataclass
class Moment:
    """An interaction of a history, and the state of the job when it was recorded."""

    entry: Interaction
    spec: EffectiveSpec | None
    """The spec from this interaction on; None if the history does not begin with one."""
    before: State | None
    back: State | None
    """The state that it goes back to, if it is a restep."""
    folding: Folding

    @cached_property
    def after(self) -> State:
        """The state of the job after it."""
        return self.folding.take(self.entry)

    @property
    def is_no_beginning(self) -> bool:
        """Whether it is the first one but not a create interaction with the spec."""
        return self.before is None and (self.spec is None or self.entry.kind is not Kind.CREATE)


def walk(interactions: Iterable[Interaction], targets: Collection[int]) -> Iterator[Moment]:
    """Yield every interaction in order, with one in memory.

    `targets` are the numbers of those that a restep goes back before (see `collect_restep_targets`).
    """
    spec: EffectiveSpec | None = None
    folding = Folding(targets)
    for entry in interactions:
        spec = entry.spec or spec
        moment = Moment(entry, spec, folding.state, folding.back(entry), folding)
        yield moment
        _ = moment.after


def collect_restep_targets(interactions: Iterable[Interaction]) -> set[int]:
    """Return the interactions that a restep goes back before; `replay` keeps the states before these."""
    return {fold.read_restep_target(entry) for entry in interactions if entry.kind is Kind.RESTEP}


def find_differences(history: Sequence[Interaction], schema: JsonObject) -> Iterator[Difference]:
    """Yield the differences of a history that is in memory, without changed rules."""
    results = replay(history, schema, collect_restep_targets(history))
    return (each for each in results if isinstance(each, Difference))


@overload
def replay(
    interactions: Iterable[Interaction], schema: JsonObject, targets: Collection[int], *, prompts: None = None
) -> Iterator[Difference | ChangedRule]: ...
@overload
def replay(
    interactions: Iterable[Interaction],
    schema: JsonObject,
    targets: Collection[int],
    *,
    prompts: Prompts | None,
) -> Iterator[Difference | ChangedRule | Drift]: ...
def replay(
    interactions: Iterable[Interaction],
    schema: JsonObject,
    targets: Collection[int],
    *,
    prompts: Prompts | None = None,
) -> Iterator[Difference | ChangedRule | Drift]:
    """Yield the differences in order, with one interaction in memory.

    Each interaction is judged from the recorded state before it. `prompts` returns what an ask would say
    differently today. `targets` are the numbers of the interactions that a restep goes back before (see
    `collect_restep_targets`). Interactions that only a newer Logist fully knows are not judged (see
    `newer_versions.list_unknown_words`).
    """
    for moment in walk(interactions, targets):
        entry, spec, state = moment.entry, moment.spec, moment.before
        if newer_versions.list_unknown_words(entry):
            continue
        if moment.is_no_beginning:
            yield Difference(entry.sequence, "kind", entry.kind, Kind.CREATE, NO_BEGINNING)
            return
        if spec is not None:
            if prompts is not None and state is not None and entry.kind is Kind.ASK:
                yield from prompts(spec, state, entry)
            yield from _judge_by_rules(spec, state, entry, moment.back, schema)


def _judge_by_rules(
    spec: EffectiveSpec, state: State | None, entry: Interaction, back: State | None, schema: JsonObject
) -> Iterator[Difference | ChangedRule]:
    """Yield what differs under the current rules.

    If nothing differs under the rules of that time, yields the responsible rule changes instead.
    """

    def differences_by(rules: Rules) -> tuple[Difference, ...]:
        return tuple(_find_differences_by(spec, state, entry, back, schema, rules))

    current_differences, recorded_rules = differences_by(TODAY), find_recorded_rules(entry)
    if not current_differences or recorded_rules == TODAY or differences_by(recorded_rules):
        yield from current_differences
        return
    for each in find_responsible_changes(recorded_rules, lambda rules: not differences_by(rules)):
        yield ChangedRule(entry.sequence, each.rule, each.version, each.change, current_differences)


def _find_differences_by(
    spec: EffectiveSpec,
    state: State | None,
    entry: Interaction,
    back: State | None,
    schema: JsonObject,
    rules: Rules,
) -> Iterator[Difference]:
    before = state.status if state else entry.after.status
    if before is not entry.state_before:
        why = difference.explain_cause(entry, "state_before", schema)
        yield difference.build_difference(entry, "state_before", entry.state_before, before, why)
    try:
        today = judge_interaction(spec, state, entry, back, schema, rules)
    except LogistError as error:
        yield Difference(entry.sequence, "state_after", entry.state_after, "refused", error.message)
        return
    if today is None:
        return
    changes = [
        *_compare_outcome(entry, today),
        *replay_checks.check_answer(entry.response, today.response, READ_FROM_ANSWER),
    ]
    if state is not None:
        changes += replay_checks.check_interaction(spec, state, entry)
    is_read_differently = entry.kind is Kind.ASK and any(
        name.startswith("response.") for name, _, _ in changes
    )
    reason = today.outcome.reason if today.outcome else ""
    for name, recorded, now in changes:
        why = difference.explain_cause(entry, name, schema, judged=is_read_differently, reason=reason)
        yield difference.build_difference(entry, name, recorded, now, why)


def _compare_outcome(entry: Interaction, today: Judged) -> Iterator[tuple[str, object, object]]:
    """Yield what differs in the resulting place and the route to it, with both values."""
    recorded_route, current_route = _describe_route(entry.route), _describe_route(today.route)
    if recorded_route != current_route:
        yield "route", recorded_route, current_route
    if today.place.status is not entry.state_after:
        yield "state_after", entry.state_after, today.place.status
    elif entry.after != today.place and not newer_versions.has_expected_value(
        _drop_stuck_reason(entry.after), _drop_stuck_reason(today.place)
    ):
        yield "after", _to_json(entry.after), _to_json(today.place)
    if today.review is not None and today.review != (recorded_review := _read_review(entry)):
        yield "review", recorded_review, today.review
    unsure = bool(today.outcome and today.outcome.why_unsure)
    if entry.kind is Kind.ASK and unsure is not bool(_answer_command(entry).unsure):
        yield "unsure", not unsure, unsure


def judge_interaction(
    spec: EffectiveSpec,
    state: State | None,
    entry: Interaction,
    back: State | None,
    schema: JsonObject,
    rules: Rules = TODAY,
) -> Judged | None:
    """Return how the interaction ends under some rules; None for a kind that this version does not judge."""
    if entry.kind is Kind.ASK and state is not None:
        observed = entry.observed or Observed()
        answer = step.judge_answer(spec, state, read_reply(entry), schema, rules)
        outcome = step.conclude(spec, state, answer, observed, rules)
        review_result = (
            _review_in(step.recorded(outcome)) if observed.asks_verdict or _read_review(entry) else None
        )
        return Judged(outcome.place, outcome.response, outcome.route, review_result, outcome)
    if entry.kind is Kind.RECOVER and state is not None:
        role = (entry.observed or Observed()).role
        given_up = RecoverCommand.read(entry.command).given_up
        outcome = (step.conclude_given_up if given_up else step.conclude_in_doubt)(spec, state, role)
        return Judged(outcome.place, outcome.response)
    if entry.kind is Kind.HALT and state is not None and not _is_limit_reached(spec, state, entry):
        return Judged(state.place, NO_RESPONSE)
    if entry.kind in kinds.ACTIONS or entry.kind in kinds.NOT_JUDGED:
        place_before = state.place if state else None
        command = kinds.command_of(entry)
        routed = steward.route_command(entry.kind, state, command, spec, rules)
        earlier = back.place if back else None
        sent_back = steward.is_sent_back(state)
        place = steward.apply_command(
            entry.kind, place_before, command, spec, earlier, routed, sent_back=sent_back
        )
        return Judged(place, NO_RESPONSE, routed.route if routed else [])
    return None


def _read_review(entry: Interaction) -> JsonObject:
    return _review_in(_answer_command(entry))


def _answer_command(entry: Interaction) -> AskCommand:
    return AskCommand.read(entry.command if entry.kind is Kind.ASK else {})


def _review_in(command: AskCommand) -> JsonObject:
    found = {"verdict": command.verdict, "findings": command.findings}
    return {name: value for name, value in found.items() if value is not None}


def _describe_route(route: Sequence[JsonObject]) -> str:
    """Describe the decisions of a route and the skipped steps, without the values they were based on."""
    return ", ".join(map(_describe_decision, route)) or "no decision"


def _describe_decision(told: JsonObject) -> str:
    if "skipped" in told:
        return f"{told['skipped']} is skipped"
    branch = told.get("branch")
    where = "no branch" if branch is None else "the end" if branch == END else str(branch)
    return f"{told.get('decision')} chooses {where}"


def _is_limit_reached(spec: EffectiveSpec, state: State, entry: Interaction) -> bool:
    """Whether the limit that halted the job would halt it today.

    The usage of child jobs that the halt itself records counts: it is what reached the limit.
    """
    command = HaltCommand.read(entry.command)
    used = fold.add_usage(state.usage, entry)
    halt = limits.find_reached_limit(
        spec, used, command.needed or 0, 1 if command.needed_runs is None else command.needed_runs
    )
    return halt is not None and halt.limit == command.limit


def read_reply(entry: Interaction) -> Reply:
    """Return the answer as it was received then."""
    response = entry.response
    return Reply(
        text=response.raw_response,
        usage=entry.usage,
        finish=response.finish,
        error=response.error,
        redactions=response.redactions,
    )


def _drop_stuck_reason(place: Place) -> JsonObject:
    """Return the place without the reason why it is STUCK: different wording is not a difference."""
    stuck = place.stuck.model_copy(update={"reason": ""}) if place.stuck else None
    return place.model_copy(update={"stuck": stuck}).model_dump()


def _to_json(place: Place) -> str:
    return place.model_dump_json(exclude_none=True)
