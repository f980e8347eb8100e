"""Replay: a recorded history through today's rules; a difference names where and why."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, overload

from logist.core.history import fold, newer_versions
from logist.core.history.fold import Folding
from logist.core.machine import kinds, limits, steward
from logist.core.machine.rules import TODAY, Rules, recorded_under, responsible
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

if TYPE_CHECKING:
    from logist.core.replay.drift import Drift


@dataclass(frozen=True)
class ChangedRule:
    """An interaction that goes another way today for no other cause than a rule that a newer Logist has changed."""

    sequence: int
    rule: str
    version: str
    """Of Logist, which came with the change."""
    change: str
    differences: tuple[Difference, ...]


Prompts: TypeAlias = "Callable[[EffectiveSpec, State, Interaction], Iterable[Drift]]"
"""What an ask would be told today that differs from what it was told: (spec, state before it, the ask)."""

NO_BEGINNING = "a history begins with a create interaction, and that holds the spec"

READ_FROM_ANSWER = ("actions", "status", "evidence_files", "summary_for_supervisor", "output", "metadata")
"""What of a response is read from the agent's words; the rest is what came with them."""


@dataclass(frozen=True)
class Judged:
    """One interaction as it would end today."""

    place: Place
    response: Response
    route: list[JsonObject] = field(default_factory=list)
    review: JsonObject | None = None
    """What a reviewer's answer comes to (see `step.recorded`); None where nobody was asked for a verdict."""
    outcome: Outcome | None = None
    """What the answer means, where one was judged."""


@dataclass
class Moment:
    """An interaction of a history, and where the job stood when it was recorded."""

    entry: Interaction
    spec: EffectiveSpec | None
    """As it is from this interaction on; None where the history does not begin with one."""
    before: State | None
    back: State | None
    """The state that it goes back to, if it is a restep."""
    folding: Folding

    @cached_property
    def after(self) -> State:
        """Where the job stood afterwards."""
        return self.folding.take(self.entry)

    @property
    def is_no_beginning(self) -> bool:
        """Whether it is the first one, and no create interaction with the spec."""
        return self.before is None and (self.spec is None or self.entry.kind is not Kind.CREATE)


def walk(interactions: Iterable[Interaction], targets: Collection[int]) -> Iterator[Moment]:
    """Every interaction in order, one in memory. `targets` are the numbers of those that a restep goes back before
    (`restep_targets` tells them)."""
    spec: EffectiveSpec | None = None
    folding = Folding(targets)
    for entry in interactions:
        spec = entry.spec or spec
        moment = Moment(entry, spec, folding.state, folding.back(entry), folding)
        yield moment
        _ = moment.after


def restep_targets(interactions: Iterable[Interaction]) -> set[int]:
    """The interactions that a restep goes back before; `replay` keeps the states that these found."""
    return {fold.restep_target(entry) for entry in interactions if entry.kind is Kind.RESTEP}


def differences(history: Sequence[Interaction], schema: JsonObject) -> Iterator[Difference]:
    """What differs in a history that is in memory, changed rules apart."""
    every = replay(history, schema, restep_targets(history))
    return (each for each in every if isinstance(each, Difference))


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
    """The differences, in order. Each interaction is judged from the state that was recorded before it, and
    `prompts` says how an ask would be put today; `targets` as for `walk`.

    Interactions that only a newer Logist knows whole are not judged (`newer_versions.unknown` tells which).
    """
    for moment in walk(interactions, targets):
        entry, spec, state = moment.entry, moment.spec, moment.before
        if newer_versions.unknown(entry):
            continue
        if moment.is_no_beginning:
            yield Difference(entry.sequence, "kind", entry.kind, Kind.CREATE, NO_BEGINNING)
            return
        if spec is not None:
            if prompts is not None and state is not None and entry.kind is Kind.ASK:
                yield from prompts(spec, state, entry)
            yield from _compare(spec, state, entry, moment.back, schema)


def _compare(
    spec: EffectiveSpec, state: State | None, entry: Interaction, back: State | None, schema: JsonObject
) -> Iterator[Difference | ChangedRule]:
    """What differs by today's rules; where it goes as recorded by the rules of then, the changes that lead elsewhere."""

    def by(rules: Rules) -> tuple[Difference, ...]:
        return tuple(_differences(spec, state, entry, back, schema, rules))

    today, then = by(TODAY), recorded_under(entry)
    if not today or then == TODAY or by(then):
        yield from today
        return
    for each in responsible(then, lambda rules: not by(rules)):
        yield ChangedRule(entry.sequence, each.rule, each.version, each.change, today)


def _differences(
    spec: EffectiveSpec,
    state: State | None,
    entry: Interaction,
    back: State | None,
    schema: JsonObject,
    rules: Rules,
) -> Iterator[Difference]:
    before = state.status if state else entry.after.status
    if before is not entry.state_before:
        why = difference.cause(entry, "state_before", schema)
        yield difference.difference(entry, "state_before", entry.state_before, before, why)
    try:
        today = judge(spec, state, entry, back, schema, rules)
    except LogistError as error:
        yield Difference(entry.sequence, "state_after", entry.state_after, "refused", error.message)
        return
    if today is None:
        return
    found = [
        *_elsewhere(entry, today),
        *replay_checks.of_answer(entry.response, today.response, READ_FROM_ANSWER),
    ]
    if state is not None:
        found += replay_checks.otherwise(spec, state, entry)
    judged = entry.kind is Kind.ASK and any(name.startswith("response.") for name, _, _ in found)
    reason = today.outcome.reason if today.outcome else ""
    for name, recorded, now in found:
        why = difference.cause(entry, name, schema, judged=judged, reason=reason)
        yield difference.difference(entry, name, recorded, now, why)


def _elsewhere(entry: Interaction, today: Judged) -> Iterator[tuple[str, object, object]]:
    """Where it leads, and by which way: what is not as it was recorded, with both values."""
    recorded_way, way = _way(entry.route), _way(today.route)
    if recorded_way != way:
        yield "route", recorded_way, way
    if today.place.status is not entry.state_after:
        yield "state_after", entry.state_after, today.place.status
    elif entry.after != today.place and not newer_versions.holds(
        _unworded(entry.after), _unworded(today.place)
    ):
        yield "after", _text(entry.after), _text(today.place)
    if today.review is not None and today.review != (found := _reviewed(entry)):
        yield "review", found, today.review
    unsure = bool(today.outcome and today.outcome.why_unsure)
    if entry.kind is Kind.ASK and unsure is not bool(_answer_command(entry).unsure):
        yield "unsure", not unsure, unsure


def judge(
    spec: EffectiveSpec,
    state: State | None,
    entry: Interaction,
    back: State | None,
    schema: JsonObject,
    rules: Rules = TODAY,
) -> Judged | None:
    """How the interaction ends by some rules; None for a kind that this version does not judge."""
    if entry.kind is Kind.ASK and state is not None:
        observed = entry.observed or Observed()
        answer = step.judge_answer(spec, state, reply_of(entry), schema)
        outcome = step.conclude(spec, state, answer, observed, rules)
        found = _review_in(step.recorded(outcome)) if observed.asks_verdict or _reviewed(entry) else None
        return Judged(outcome.place, outcome.response, outcome.route, found, outcome)
    if entry.kind is Kind.RECOVER and state is not None:
        role = (entry.observed or Observed()).role
        given_up = RecoverCommand.read(entry.command).given_up
        outcome = (step.given_up if given_up else step.in_doubt)(spec, state, role)
        return Judged(outcome.place, outcome.response)
    if entry.kind is Kind.HALT and state is not None and not _limit_stands(spec, state, entry):
        return Judged(state.place, Response())
    if entry.kind in kinds.ACTIONS or entry.kind in kinds.NOT_JUDGED:
        here = state.place if state else None
        command = kinds.command_of(entry)
        routed = steward.routed(entry.kind, state, command, spec, rules)
        earlier = back.place if back else None
        sent_back = steward.sent_back(state)
        place = steward.decide(entry.kind, here, command, spec, earlier, routed, sent_back=sent_back)
        return Judged(place, Response(), routed.route if routed else [])
    return None


def _reviewed(entry: Interaction) -> JsonObject:
    return _review_in(_answer_command(entry))


def _answer_command(entry: Interaction) -> AskCommand:
    return AskCommand.read(entry.command if entry.kind is Kind.ASK else {})


def _review_in(command: AskCommand) -> JsonObject:
    found = {"verdict": command.verdict, "findings": command.findings}
    return {name: value for name, value in found.items() if value is not None}


def _way(route: Sequence[JsonObject]) -> str:
    """The decisions of a route with their branches, and the steps passed over: not what they saw, nor other words."""
    return ", ".join(map(_taken, route)) or "no decision"


def _taken(told: JsonObject) -> str:
    if "skipped" in told:
        return f"{told['skipped']} is passed over"
    branch = told.get("branch")
    where = "no branch" if branch is None else "the end" if branch == END else str(branch)
    return f"{told.get('decision')} takes {where}"


def _limit_stands(spec: EffectiveSpec, state: State, entry: Interaction) -> bool:
    """Whether the limit that halted the job would halt it today.

    What the halt itself has booked of the job's children counts: they are what used the limit up.
    """
    command = HaltCommand.read(entry.command)
    used = fold.used_after(state.usage, entry)
    halt = limits.halted(
        spec, used, command.needed or 0, 1 if command.needed_runs is None else command.needed_runs
    )
    return halt is not None and halt.limit == command.limit


def reply_of(entry: Interaction) -> Reply:
    """The answer as it came back then."""
    response = entry.response
    return Reply(
        text=response.raw_response,
        usage=entry.usage,
        finish=response.finish,
        error=response.error,
        redactions=response.redactions,
    )


def _unworded(place: Place) -> JsonObject:
    """The place without the sentence that says why it is STUCK: other words are no other way."""
    stuck = place.stuck.model_copy(update={"reason": ""}) if place.stuck else None
    return place.model_copy(update={"stuck": stuck}).model_dump()


def _text(place: Place) -> str:
    return place.model_dump_json(exclude_none=True)
