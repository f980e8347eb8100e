"""Runs one recorded job under other rules: a replay under another spec that continues from its own results.

A replay judges each interaction from the recorded state. Other rules lead to other states, so this module also
keeps the state that they lead to. It adds what a replay never needs: whether a recorded interaction still applies in
that state, whether a limit stops a call, and which calls would be saved or needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from logist.core.history import fold, newer_versions
from logist.core.history.fold import Folding
from logist.core.machine import kinds, limits, steward
from logist.core.machine.rules import find_recorded_rules
from logist.core.model import (
    HALTED,
    TERMINAL,
    Actor,
    EffectiveSpec,
    Interaction,
    Kind,
    Observed,
    Phase,
    Place,
    State,
    Status,
    StuckKind,
)
from logist.core.model.commands import AskCommand, BookingCommand, CollectCommand, HaltCommand, SpawnCommand
from logist.core.replay import replay
from logist.core.review import get_checks
from logist.core.step import step
from logist.core.template import data
from logist.core.whatif.rules import ChangedRules
from logist.core.whatif.seeing import ObservedFacts, gathered, list_refused_calls, seen
from logist.core.whatif.told import RefusedCall, RoleCalls, WhatIfRun, WhatIfSpending, alike, otherwise, what
from logist.errors import Damaged, LogistError

MOST_REFUSED_CALLS = 10_000
"""Maximum number of refused calls that are listed for a job."""
METERED = ("model", "litellm")
"""The agents whose calls are made only if their cost fits the budget."""
REVIEWED = ("verdict", "findings", "unsure", "why_unsure", "results")
"""Fields of an `AskCommand` that record how the answer was judged."""


def run(
    interactions: Iterable[Interaction],
    rules: ChangedRules,
    targets: Collection[int] = (),
    *,
    shared: int = 0,
) -> WhatIfRun:
    """Return where a job would have ended under `rules`.

    The sums leave out the beginning that a fork shares with another job, and the first `shared` interactions: they
    count for that job. `targets` as for `replay.walk`. Raises Damaged for a history that does not begin with a
    create interaction that contains the spec, and what reading `interactions` raises.
    """
    running = _SideBySide(rules, targets)
    for moment in replay.walk(interactions, targets):
        if moment.entry.kind is Kind.FORK or (shared and running.count == shared):
            running.forget()
        running.feed(moment)
    if shared and running.count == shared:
        running.forget()
    return running.result()


class _SideBySide:
    """Tracks two states: the recorded one, and the one under the other rules."""

    def __init__(self, rules: ChangedRules, targets: Collection[int]) -> None:
        self.rules = rules
        self.spec: EffectiveSpec
        self.recorded_spec: EffectiveSpec
        self.folding = Folding(targets)
        """The state under the other rules: takes each interaction as it would have been recorded, if at
        all."""
        self.then: State | None = None
        self.count = 0
        self.ended = ""
        """Why the run ended at `own`; empty while it continues."""
        self.differs_at: int | None = None
        self.first = ""
        """Why it differs there."""
        self.saved, self.spared = WhatIfSpending(), 0
        self.held, self.held_decisions = WhatIfSpending(), 0
        """Sums of the interactions skipped since the last one that applied."""
        self.calls: dict[str, RoleCalls] = {}
        self.moved = True
        """False while it is where the shared beginning has led: calls needed there count for the other
        job."""
        self.roles: set[str] = set()
        self.checks: set[str] = set()
        self.notes: dict[str, None] = {}
        self.refused_calls: list[RefusedCall] = []

    @property
    def own(self) -> State | None:
        """The state of the job under the other rules."""
        return self.folding.state

    def forget(self) -> None:
        """Drop the sums so far: they belong to another job and are counted there."""
        self.saved, self.spared = WhatIfSpending(), 0
        self.held, self.held_decisions = WhatIfSpending(), 0
        self.calls, self.refused_calls = {}, []
        self.moved = self.differs_at is None

    def feed(self, moment: replay.Moment) -> None:
        """Process the next interaction."""
        if moment.is_no_beginning:
            raise Damaged(replay.NO_BEGINNING)
        entry, then, own = moment.entry, moment.before, self.own
        self.count += 1
        self._count_checks(entry)
        self._list_refused_calls(entry)
        if entry.spec is not None:
            self.recorded_spec, self.spec = entry.spec, self.rules.spec(entry.spec)
        back = self.folding.back(entry)
        if own is None or then is None:
            judged = self._judge(None, entry)
            assert judged is not None
            self._apply(entry, _placed(judged))
        else:
            self._count_call(entry)
            self._go_on(own, then, entry, back)
        self.then, own = moment.after, self.own
        assert own is not None
        if self.differs_at is None and not alike(own.place, self.then.place):
            self._differs(entry, otherwise(entry, own, self.then))

    def _list_refused_calls(self, entry: Interaction) -> None:
        free = MOST_REFUSED_CALLS - len(self.refused_calls)
        self.refused_calls += list_refused_calls(self.rules, entry)[:free]

    def _go_on(self, own: State, then: State, entry: Interaction, back: State | None) -> None:
        """Apply or skip an interaction at `own`, or end the run if the result is unknown."""
        together = self.differs_at is None
        if newer_versions.list_unknown_words(entry):
            if together:
                self._apply(entry, {})
            else:
                self._end(entry, f"interaction {entry.sequence} needs a newer Logist")
            return
        takes_part = together and entry.kind is not Kind.MERGE
        if self.ended or not (takes_part or _fits(own, then, entry)) or self._halted(own, then, entry):
            self._pass(entry)
            return
        try:
            changes = self._judged(own, entry, back)
        except LogistError as error:
            self._pass(entry, str(error))
            return
        if changes is None:
            self._pass(entry)
        else:
            self._apply(entry, changes)

    def _judged(self, own: State, entry: Interaction, back: State | None) -> dict[str, Any] | None:
        """Return the changed fields of the interaction; None if it would not have been recorded."""
        if entry.kind is Kind.ASK:
            return self._answered(own, entry)
        if entry.kind is Kind.RESTEP and back is None and self.differs_at is None:
            return {}
        command = kinds.command_of(entry)
        if isinstance(command, CollectCommand) and self.spec.workflow is not self.recorded_spec.workflow:
            command, notes = gathered(self.spec, own, command)
            self._note(entry, notes)
            entry = entry.model_copy(update={"command": command.write()})
        judged = self._judge(own, entry, back)
        if judged is None:
            return {}
        books = isinstance(command, BookingCommand) and command.used is not None
        if entry.kind is Kind.HALT and judged.place.status is own.status and not books:
            return None  # a halt that records the usage of children is applied without moving the job
        return {**_placed(judged), "command": entry.command}

    def _answered(self, own: State, entry: Interaction) -> dict[str, Any]:
        answer = step.judge_answer(self.spec, own, replay.read_reply(entry), self.rules.schema)
        found = seen(self.rules, self.spec, entry, answer)
        self._note(entry, found.notes)
        if found.cut_short:
            return self._cut_short(own, entry, found)
        judged = self._judge(own, entry.model_copy(update={"observed": found.observed}))
        assert judged is not None
        assert judged.outcome is not None
        done = judged.response.actions == ["COMPLETED"]
        was_done = entry.response.actions == ["COMPLETED"]
        command = AskCommand.read(entry.command)
        by_hand = entry.simulated and done and (command.results is not None or not was_done)
        results = data.to_children_results(self.spec, own.step, judged.response.output) if by_hand else None
        recorded = step.recorded(judged.outcome, results)
        command = command.model_copy(update={name: getattr(recorded, name) for name in REVIEWED})
        return {
            **_placed(judged),
            "response": judged.response,
            "reason": judged.outcome.reason,
            "observed": found.observed,
            "command": command.write(),
            "step": own.step,
        }

    def _judge(
        self, own: State | None, entry: Interaction, back: State | None = None
    ) -> replay.Judged | None:
        """Judge by the recorded rules, so that only the changed rules make a difference."""
        return replay.judge_interaction(
            self.spec, own, entry, back, self.rules.schema, find_recorded_rules(entry)
        )

    def _cut_short(self, own: State, entry: Interaction, found: ObservedFacts) -> dict[str, Any]:
        """Return the fields of a call whose remaining part is unknown: the job stays in its state."""
        reason = f"the refused tool ({found.cut_short}) would have run, but its result is not recorded"
        empty = entry.response.model_copy(update={"actions": [], "status": "ERROR"})
        return {
            "state_after": own.status,
            "after": own.place,
            "response": empty,
            "reason": reason,
            "observed": found.observed,
            "step": own.step,
        }

    def _halted(self, own: State, then: State, entry: Interaction) -> bool:
        """Halt the job if a limit stops a call that it did not stop in the recorded run.

        Return whether it did.
        """
        asks = entry.kind is Kind.SPAWN or (_asks(entry) and not entry.simulated)
        if not asks or not _waits_for_call(own):
            return False
        runs = max(1, len(SpawnCommand.read(entry.command).children)) if entry.kind is Kind.SPAWN else 1
        metered = entry.request.metadata.get("agent", METERED[0]) in METERED
        # The worst case of the call is taken to be its recorded cost.
        for needed in (fold.usage_microcents(entry.usage), 0) if metered else (0,):
            halt = limits.find_reached_limit(self.spec, own.usage, needed, runs)
            if (
                halt is None
                or limits.find_reached_limit(self.recorded_spec, then.usage, needed, runs) is not None
            ):
                continue
            command = HaltCommand(limit=halt.limit.value, needed=halt.needed)
            place = steward.apply_command(Kind.HALT, own.place, command, self.spec)
            told = Interaction(
                sequence=entry.sequence,
                timestamp=entry.timestamp,
                kind=Kind.HALT,
                actor=Actor.SYSTEM,
                state_before=own.status,
                state_after=place.status,
                workspace_path=entry.workspace_path,
                reason=halt.reason,
                command=command.write(),
                after=place,
            )
            self._apply(told, {})
            if needed and entry.response.tools:
                self._note(entry, ("part of the call may have been made before the limit was reached",))
            return True
        return False

    def _apply(self, entry: Interaction, changes: dict[str, Any]) -> None:
        if self.own is not None:
            changes = {"state_before": self.own.status, **changes}
        if entry.spec is not None:
            changes = {**changes, "spec": self.spec}
        self.folding.take(entry.model_copy(update=changes))
        if _moves(entry):
            self.moved = True
            self.saved += self.held
            self.spared += self.held_decisions
            self.held, self.held_decisions = WhatIfSpending(), 0

    def _pass(self, entry: Interaction, why: str = "") -> None:
        """Skip an interaction that does not apply here."""
        self.held += _spent(entry)
        if entry.actor is Actor.STEWARD:
            self.held_decisions += 1
        if self.differs_at is None:
            self._differs(entry, why or f"{what(entry)} is not needed")
        if entry.kind in kinds.RETURNS and not self.ended:
            self._end(entry, f"a steward's {entry.kind} was based on another outcome")

    def _end(self, entry: Interaction, why: str) -> None:
        self.ended = self.ended or why
        if self.own is not None and _ends_there(self.own):
            self.saved += self.held
            self.held = WhatIfSpending()
        if self.differs_at is None:
            self._differs(entry, why)

    def _differs(self, entry: Interaction, why: str) -> None:
        self.differs_at, self.first = entry.sequence, why

    def _note(self, entry: Interaction, notes: Iterable[str]) -> None:
        self.notes.update(dict.fromkeys(f"interaction {entry.sequence}: {note}" for note in notes))

    def _count_checks(self, entry: Interaction) -> None:
        if entry.spec is not None:
            self.checks |= set(get_checks(entry.spec))
        command = kinds.command_of(entry)
        for each in (command.findings or ()) if isinstance(command, AskCommand) else ():
            if isinstance(name := each.get("check"), str):
                self.checks.add(name)

    def _count_call(self, entry: Interaction) -> None:
        role = (entry.observed or Observed()).role
        if entry.kind is Kind.ASK and role:
            self.roles.add(role)
            if self.rules.roles.get(role, "") not in ("", self.recorded_spec.roles.get(role)):
                note = f"the role file of {role} has changed, but its recorded answers are to the old prompts"
                self.notes[note] = None
        if fold.is_agent_asked(entry):
            self.calls[role] = self.calls.get(role, RoleCalls()) + RoleCalls(
                1, fold.usage_microcents(entry.usage)
            )

    def result(self) -> WhatIfRun:
        """Return the result of the run."""
        if self.own is None or self.then is None:
            raise Damaged("the history is empty")
        own, then = self.own.place, self.then.place
        same = alike(own, then) and not self.ended
        if self.own.merge == "due" and self.then.merge is None:
            self.notes["it would be merged automatically; not recorded whether there would be conflicts"] = (
                None
            )
        settled = same or (_ends_there(self.own) and not self.ended)
        free = same or (self.own.status in TERMINAL and not self.ended)
        return WhatIfRun(
            ended=own,
            recorded_end=then,
            interactions=self.count,
            differs_at=self.differs_at,
            reason=self._reason(self.own, same=same),
            saved=self.saved + (self.held if settled else WhatIfSpending()),
            open=WhatIfSpending() if settled else self.held,
            needs=() if same or not self.moved else self._needs(self.own),
            spared=self.spared + (self.held_decisions if free else 0),
            calls=self.calls,
            roles=frozenset(self.roles),
            checks=frozenset(self.checks),
            follows=self.spec.workflow is not self.recorded_spec.workflow,
            notes=tuple(self.notes),
            refused_calls=tuple(self.refused_calls),
            broken_off=bool(self.ended),
        )

    def _reason(self, own: State, *, same: bool) -> str:
        if self.ended:
            return self.ended if self.ended == self.first else f"{self.first}; {self.ended}"
        if same or self.differs_at is None:
            return self.first
        phase = step.find_due_phase(own)
        if own.place.stuck is not None or _ends_there(own):
            return (own.place.stuck.reason if own.place.stuck else own.reason) or self.first
        if phase is not None:
            who = "reviewer" if phase is Phase.REVIEWER else "doer"
            return f"{self.first}; no answer of the {who} is recorded{_at(own)}"
        if own.status is Status.APPROVAL_REQUIRED:
            return f"it waits for a steward, but no decision is recorded{_at(own)}"
        return self.first

    def _needs(self, own: State) -> tuple[str, ...]:
        """Return the roles that would be called next."""
        if not _waits_for_call(own):
            return ()
        reviewing = step.find_due_phase(own) is Phase.REVIEWER
        return ((fold.find_reviewer if reviewing else fold.find_doer)(self.spec, own)[0],)


def _placed(judged: replay.Judged) -> dict[str, Any]:
    place: Place = judged.place
    return {"state_after": place.status, "after": place, "route": judged.route}


def _spent(entry: Interaction) -> WhatIfSpending:
    calls = int(fold.is_agent_asked(entry))
    return WhatIfSpending(
        calls,
        fold.usage_microcents(entry.usage) - fold.released_microcents(kinds.command_of(entry)),
        entry.usage.seconds,
    )


def _at(own: State) -> str:
    return f" at {own.step}" if own.workflow else ""


def _asks(entry: Interaction) -> bool:
    """Whether it is an answer, or a request without one."""
    return entry.kind in kinds.ASKS_AGENT


def _fits(own: State, then: State, entry: Interaction) -> bool:
    """Whether `entry`, recorded in the state `then`, also applies in the state `own`.

    An answer must be of the current phase and step; a decision applies only in the place it was made for.
    """
    if entry.kind in kinds.NOT_JUDGED:
        return True
    if _asks(entry):
        return _answers(own, then, entry)
    if entry.kind is Kind.ROLE or entry.kind in kinds.ENDS:
        return own.status not in TERMINAL
    if entry.kind is Kind.HALT:
        return _waits_for_call(own) or alike(own.place, then.place)
    if entry.kind is Kind.SPAWN:
        return bool(own.place.spawns) and own.status is Status.PENDING and own.step == then.step
    if entry.kind is Kind.MERGE:
        return _merges(own, then, entry)
    return alike(own.place, then.place)


def _waits_for_call(own: State) -> bool:
    """Whether the next thing is an agent call, of this job or of its child jobs."""
    return step.find_due_phase(own) is not None or (bool(own.place.spawns) and own.status is Status.PENDING)


def _answers(own: State, then: State, entry: Interaction) -> bool:
    phase = (entry.observed or Observed()).phase
    owed = step.find_owing_phase(own) if entry.simulated else step.find_due_phase(own)
    return owed == phase and own.step == (entry.step or then.step)


def _merges(own: State, then: State, entry: Interaction) -> bool:
    if entry.actor is Actor.SYSTEM and then.merge == "due" and own.merge != "due":
        return False
    stuck = own.place.stuck is not None and own.place.stuck.kind is StuckKind.MERGE
    return own.status is Status.SUCCESS or stuck


def _moves(entry: Interaction) -> bool:
    """Whether it can move the job, and is not only a note."""
    return entry.kind not in kinds.STAYS


def _ends_there(own: State) -> bool:
    """Whether nothing more would have been spent there until a person decides otherwise."""
    if own.status is Status.APPROVAL_REQUIRED:
        return own.place.awaiting == "end"
    return own.status in TERMINAL or own.status in HALTED or own.status in (Status.STUCK, Status.SUSPENDED)
