"""One recorded job through other rules, from a state of its own, an interaction at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from logist.core.history import fold, newer_versions
from logist.core.machine import kinds, limits, steward
from logist.core.machine.rules import recorded_under
from logist.core.model import (
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
)
from logist.core.model.commands import AskCommand, BookingCommand, CollectCommand, HaltCommand, SpawnCommand
from logist.core.replay import replay
from logist.core.review import checks_of
from logist.core.step import step
from logist.core.template import data
from logist.core.whatif import fitting
from logist.core.whatif.rules import ChangedRules
from logist.core.whatif.seeing import ObservedFacts, gathered, seen
from logist.core.whatif.told import RoleCalls, WhatIfRun, WhatIfSpending, alike, otherwise, what
from logist.errors import Damaged, LogistError

METERED = "litellm"
"""The agent whose calls are made only if there is room for them."""
REVIEWED = ("verdict", "findings", "unsure", "why_unsure", "results")
"""What an `AskCommand` holds of the judgement of an answer."""


def run(
    interactions: Iterable[Interaction],
    rules: ChangedRules,
    targets: Collection[int] = (),
    *,
    shared: int = 0,
) -> WhatIfRun:
    """Where a job would have ended under `rules`, with one interaction in memory.

    What the beginning saves that a fork has from another job is that one's, and is not in the sums; nor is that of
    the first `shared` interactions. `targets` are the numbers of the interactions that a restep goes back before. Raises Damaged for a history that
    does not begin with a create interaction that holds the spec, and what reading `interactions` raises.
    """
    running = _SideBySide(rules, targets)
    for entry in interactions:
        if entry.kind is Kind.FORK or (shared and running.count == shared):
            running.forget()
        running.feed(entry)
    if shared and running.count == shared:
        running.forget()
    return running.result()


class _SideBySide:
    """Two states side by side: what was recorded, and what would have been."""

    def __init__(self, rules: ChangedRules, targets: Collection[int]) -> None:
        self.rules = rules
        self.targets = targets
        self.spec: EffectiveSpec
        self.recorded_spec: EffectiveSpec
        self.kept: dict[int, tuple[State, State]] = {}
        """Of each target: what would have been before it, and what was."""
        self.count = 0
        self.own: State | None = None
        self.then: State | None = None
        self.ended = ""
        """Why the run went no further than `own`; empty while it goes on."""
        self.differs_at: int | None = None
        self.first = ""
        """Why it differs there."""
        self.saved, self.spared = WhatIfSpending(), 0
        self.held, self.held_decisions = WhatIfSpending(), 0
        """Of interactions that were passed over since the last one that fitted."""
        self.calls: dict[str, RoleCalls] = {}
        self.moved = True
        """False where it stands where another job's beginning would have led: what that needs, is needed there."""
        self.roles: set[str] = set()
        self.checks: set[str] = set()
        self.notes: dict[str, None] = {}

    def forget(self) -> None:
        """Everything before is another job's, and is counted there."""
        self.saved, self.spared = WhatIfSpending(), 0
        self.held, self.held_decisions = WhatIfSpending(), 0
        self.calls = {}
        self.moved = self.differs_at is None

    def feed(self, entry: Interaction) -> None:
        """Takes the next interaction."""
        self.count += 1
        self._count_checks(entry)
        if self.own is None or self.then is None:
            self._begin(entry)
            return
        if entry.spec is not None:
            self.recorded_spec, self.spec = entry.spec, self.rules.spec(entry.spec)
        if entry.sequence in self.targets:
            self.kept[entry.sequence] = self.own, self.then
        target = fold.restep_target(entry) if entry.kind is Kind.RESTEP else 0
        back, back_then = self.kept.get(target, (None, None))
        self._count_call(entry)
        self._go_on(self.own, self.then, entry, back)
        self.then = fold.apply(self.then, entry, back_then)
        if self.differs_at is None and not alike(self.own.place, self.then.place):
            self._differs(entry, otherwise(entry, self.own, self.then))

    def _begin(self, entry: Interaction) -> None:
        if entry.spec is None or entry.kind is not Kind.CREATE:
            raise Damaged("a history begins with a create interaction, and that holds the spec")
        self.recorded_spec, self.spec = entry.spec, self.rules.spec(entry.spec)
        self.then = fold.apply(None, entry)
        judged = replay.judge(self.spec, None, entry, None, self.rules.schema, recorded_under(entry))
        assert judged is not None
        told = entry.model_copy(update={"spec": self.spec, **_placed(judged)})
        self.own = fold.apply(None, told)
        if not alike(self.own.place, self.then.place):
            self._differs(entry, otherwise(entry, self.own, self.then))

    def _go_on(self, own: State, then: State, entry: Interaction, back: State | None) -> None:
        """One more interaction from `own`: applied, passed over, or the end of what can be told."""
        together = self.differs_at is None
        if newer_versions.unknown(entry):
            if together:
                self._apply(own, entry, {}, back)
            else:
                self._end(entry, f"only a newer Logist knows interaction {entry.sequence}")
            return
        takes_part = together and entry.kind is not Kind.MERGE
        if self.ended or not (takes_part or fitting.fits(own, then, entry)) or self._halted(own, then, entry):
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
            self._apply(own, entry, changes, back)

    def _judged(self, own: State, entry: Interaction, back: State | None) -> dict[str, Any] | None:
        """The fields of the interaction as it would have been recorded; None where it would not have been."""
        if entry.kind is Kind.ASK:
            return self._answered(own, entry)
        if entry.kind is Kind.RESTEP and back is None and self.differs_at is None:
            return {}
        command = kinds.command_of(entry)
        if isinstance(command, CollectCommand) and self.spec.workflow is not self.recorded_spec.workflow:
            command, notes = gathered(self.spec, own, command)
            self._note(entry, notes)
            entry = entry.model_copy(update={"command": command.write()})
        judged = replay.judge(self.spec, own, entry, back, self.rules.schema, recorded_under(entry))
        if judged is None:
            return {}
        books = isinstance(command, BookingCommand) and command.used is not None
        if entry.kind is Kind.HALT and judged.place.status is own.status and not books:
            return None  # one that books what the children have used is applied, and moves the job nowhere
        return {**_placed(judged), "command": entry.command}

    def _answered(self, own: State, entry: Interaction) -> dict[str, Any]:
        answer = step.judge_answer(self.spec, own, replay.reply_of(entry), self.rules.schema)
        found = seen(self.rules, self.spec, entry, answer)
        self._note(entry, found.notes)
        if found.cut_short:
            return self._cut_short(own, entry, found)
        then = recorded_under(entry)  # so that nothing differs but by the rules that are tried
        outcome = step.conclude(self.spec, own, answer, found.observed, then)
        done = outcome.response.actions == ["COMPLETED"]
        was_done = entry.response.actions == ["COMPLETED"]
        command = AskCommand.read(entry.command)
        by_hand = entry.simulated and done and (command.results is not None or not was_done)
        results = data.in_place_of_children(self.spec, own.step, outcome.response.output) if by_hand else None
        judged = step.recorded(outcome, results)
        command = command.model_copy(update={name: getattr(judged, name) for name in REVIEWED})
        return {
            "state_after": outcome.place.status,
            "after": outcome.place,
            "response": outcome.response,
            "route": outcome.route,
            "reason": outcome.reason,
            "observed": found.observed,
            "command": command.write(),
            "step": own.step,
        }

    def _cut_short(self, own: State, entry: Interaction, found: ObservedFacts) -> dict[str, Any]:
        """The call was made, and the rest of it is missing: the job stands where it stood."""
        reason = f"the tool {found.cut_short} would have been run, and what came of it is not recorded"
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
        """Whether a limit stands before a call, which stood not before it then; then the job is halted."""
        asks = entry.kind is Kind.SPAWN or (fitting.asks(entry) and not entry.simulated)
        if not asks or not fitting.waits_for_call(own):
            return False
        runs = max(1, len(SpawnCommand.read(entry.command).children)) if entry.kind is Kind.SPAWN else 1
        metered = entry.request.metadata.get("agent", METERED) == METERED
        for needed in (fold.cost(entry.usage), 0) if metered else (0,):  # at worst it cost what it did cost
            halt = limits.halted(self.spec, own.usage, needed, runs)
            if halt is None or limits.halted(self.recorded_spec, then.usage, needed, runs) is not None:
                continue
            command = HaltCommand(limit=halt.limit.value, needed=halt.needed)
            place = steward.decide(Kind.HALT, own.place, command, self.spec)
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
            self._apply(own, told, {}, None)
            if needed and entry.response.tools:
                self._note(entry, ("a part of the call may have been made before the limit",))
            return True
        return False

    def _apply(self, own: State, entry: Interaction, changes: dict[str, Any], back: State | None) -> None:
        if entry.spec is not None:
            changes = {**changes, "spec": self.spec}
        told = entry.model_copy(update={"state_before": own.status, **changes})
        self.own = fold.apply(own, told, back)
        if fitting.is_moved(entry):
            self.moved = True
            self.saved += self.held
            self.spared += self.held_decisions
            self.held, self.held_decisions = WhatIfSpending(), 0

    def _pass(self, entry: Interaction, why: str = "") -> None:
        """What was recorded has no place here."""
        self.held += _spent(entry)
        if entry.actor is Actor.STEWARD:
            self.held_decisions += 1
        if self.differs_at is None:
            self._differs(entry, why or f"{what(entry)} is not needed")
        if entry.kind in kinds.RETURNS and not self.ended:
            self._end(entry, f"a steward's {entry.kind} was decided on another outcome")

    def _end(self, entry: Interaction, why: str) -> None:
        self.ended = self.ended or why
        if self.own is not None and fitting.ends_there(self.own):
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
            self.checks |= set(checks_of(entry.spec))
        command = kinds.command_of(entry)
        for each in (command.findings or ()) if isinstance(command, AskCommand) else ():
            if isinstance(name := each.get("check"), str):
                self.checks.add(name)

    def _count_call(self, entry: Interaction) -> None:
        role = (entry.observed or Observed()).role
        if entry.kind is Kind.ASK and role:
            self.roles.add(role)
            if self.rules.roles.get(role, "") not in ("", self.recorded_spec.roles.get(role)):
                note = (
                    f"the file of {role} is another than then: its answers are those to what it was told then"
                )
                self.notes[note] = None
        if fold.asks(entry):
            self.calls[role] = self.calls.get(role, RoleCalls()) + RoleCalls(1, fold.cost(entry.usage))

    def result(self) -> WhatIfRun:
        """What it came to."""
        if self.own is None or self.then is None:
            raise Damaged("the history is empty")
        own, then = self.own.place, self.then.place
        same = alike(own, then) and not self.ended
        if self.own.merge == "due" and self.then.merge is None:
            self.notes["it would be merged by itself; whether the work fits there is not recorded"] = None
        settled = same or (fitting.ends_there(self.own) and not self.ended)
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
            broken_off=bool(self.ended),
        )

    def _reason(self, own: State, *, same: bool) -> str:
        if self.ended:
            return self.ended if self.ended == self.first else f"{self.first}; {self.ended}"
        if same or self.differs_at is None:
            return self.first
        phase = step.turn(own)
        if own.place.stuck is not None or fitting.ends_there(own):
            return (own.place.stuck.reason if own.place.stuck else own.reason) or self.first
        if phase is not None:
            who = "reviewer" if phase is Phase.REVIEWER else "doer"
            return f"{self.first}; there is no recorded answer of the {who}{_at(own)}"
        if own.status is Status.APPROVAL_REQUIRED:
            return f"it waits for a steward, whose word on it is not recorded{_at(own)}"
        return self.first

    def _needs(self, own: State) -> tuple[str, ...]:
        """Who would be asked next."""
        if not fitting.waits_for_call(own):
            return ()
        reviewing = step.turn(own) is Phase.REVIEWER
        return ((fold.reviewer if reviewing else fold.doer)(self.spec, own)[0],)


def _placed(judged: replay.Judged) -> dict[str, Any]:
    place: Place = judged.place
    return {"state_after": place.status, "after": place, "route": judged.route}


def _spent(entry: Interaction) -> WhatIfSpending:
    calls = int(fold.asks(entry))
    return WhatIfSpending(
        calls, fold.cost(entry.usage) - fold.released(kinds.command_of(entry)), entry.usage.seconds
    )


def _at(own: State) -> str:
    return f" at {own.step}" if own.workflow else ""
