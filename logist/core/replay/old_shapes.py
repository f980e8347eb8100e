"""Converts histories in other formats to interactions: missing values are rebuilt, and every rebuilt value is
reported.

An entry is the request to an agent and its answer: `request`, `response`, and, if they were kept, the states
before and after. What a history of Logist has in addition is produced by the current rules: the `create` at
the beginning, the place after each answer, and the decisions that a steward must have made where the states
leave a gap. Entries that are already interactions of Logist (in a file that was rewritten) stay as they are.

`jobs/archive/foreign_histories.py` reads the files and calls this module.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any

from logist.core.history import fold
from logist.core.machine import steward
from logist.core.model import (
    HALTED,
    TERMINAL,
    Actor,
    Approval,
    EffectiveSpec,
    ErrorKind,
    Evidence,
    ExitAction,
    Interaction,
    JsonObject,
    Kind,
    Limits,
    Observed,
    Phase,
    Place,
    Reply,
    Response,
    State,
    Status,
    Steward,
    Stuck,
    StuckKind,
    TransportError,
    Usage,
)
from logist.core.model.commands import (
    ApproveCommand,
    CreateCommand,
    NoteCommand,
    RecordedCommand,
    RerunCommand,
    RestepCommand,
    ResubmitCommand,
)
from logist.core.money.amounts import MICROCENTS
from logist.core.replay.old_entry import (
    OldEntry,
    find_logged_operation,
    has_odd_usage,
    read_old_answer,
    read_old_entry,
    shorten_json,
    text_or_empty,
    to_text_list,
)
from logist.core.step import step
from logist.errors import Damaged, LogistError
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple

NOBODY = "(not recorded)"
"""The steward of a decision that the file does not record."""
NO_TIME = "1970-01-01T00:00:00Z"
SHOWN = 5
"""How many interactions a note lists."""
MOST_NOTES = 100
"""The most different notes to keep: a file may cause as many as it has entries."""
PLURALS = {"interaction": "interactions", "entry": "entries"}
MORE = "more of that kind that is not told apart here"

_KNOWN = frozenset(
    {
        *("sequence", "timestamp", "state_before", "state_after", "workspace_path", "request", "response"),
        *("usage", "model", "cost", "execution_time_seconds", "is_simulated"),
    }
)
_KNOWN_OF_RESPONSE = frozenset(
    {
        *(
            "status",
            "action",
            "actions",
            "evidence_files",
            "summary_for_supervisor",
            "raw_response",
            "output",
        ),
        *("metadata", "finish", "usage", "metrics", "cost_usd", "execution_time_seconds", "processed_at"),
    }
)


@dataclass
class Notes:
    """What had to be rebuilt, and in which interactions."""

    found: dict[str, list[int]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)

    def add_note(self, what: str, sequence: int | None = None, unit: str = "interaction") -> None:
        """Remember a note, the first SHOWN interactions, and how many there are.

        Without a sequence, the note is about the file as a whole. `unit`: what the numbers count, if not
        interactions.
        """
        if what not in self.found and len(self.found) >= MOST_NOTES:
            what = MORE
        if sequence is None:
            self.found.setdefault(what, [])
            return
        self.units.setdefault(what, unit)
        self.counts[what] = self.counts.get(what, 0) + 1
        if self.counts[what] <= SHOWN:
            self.found.setdefault(what, []).append(sequence)

    def render_lines(self) -> Iterator[str]:
        """Yield a line for each thing that was rebuilt, in order of first occurrence."""
        for what, sequences in self.found.items():
            if not sequences:
                yield what
                continue
            more = self.counts[what] - len(sequences)
            shown = ", ".join(map(str, sequences)) + (f" and {more} more" if more else "")
            unit = self.units[what]
            yield f"{what} ({unit if self.counts[what] == 1 else PLURALS[unit]} {shown})"


@dataclass
class OldShapesSurvey:
    """What must be known about all entries before the first interaction can be built."""

    settings: JsonObject = field(default_factory=dict)
    """Settings of the job that can't be the defaults: `review`, `approval`, `limits`."""
    goes_back: bool = False
    """An agent may have answered out of turn, so that a restep must be added (see `_Teller`)."""


def survey_entries(entries: Iterable[JsonObject]) -> OldShapesSurvey:
    """Read the entries once. Raises the same errors as `rebuild_interactions`."""
    result = OldShapesSurvey()
    last: OldEntry | None = None
    answered: OldEntry | None = None
    reviewed = repeated = False
    runs, microcents, seconds = 0, 0, 0.0
    for place, raw in enumerate(entries, 1):
        last = read_old_entry(raw, place, last)
        if find_logged_operation(raw):
            continue
        repeated |= _is_repeated_work(answered, last)
        result.goes_back |= _is_out_of_turn(answered, last)
        reviewed |= last.phase is Phase.REVIEWER or last.before is not None
        answered, usage = last, last.usage or Usage()
        runs, microcents, seconds = (
            runs + 1,
            microcents + fold.usage_microcents(usage),
            seconds + usage.seconds,
        )
        if not _is_completed(last):
            continue
        if last.after is Status.SUCCESS:
            result.settings["approval"] = Approval.NONE
        if last.phase is Phase.DOER and last.after in (Status.SUCCESS, Status.APPROVAL_REQUIRED):
            result.settings["review"] = False
    if repeated and not reviewed:
        result.settings["review"] = False
    if raised := _find_raised_limits(runs, microcents, seconds):
        result.settings["limits"] = raised
    return result


def _is_completed(entry: OldEntry) -> bool:
    return (entry.actions or [""])[0] == ExitAction.COMPLETED


def _is_repeated_work(last: OldEntry | None, entry: OldEntry) -> bool:
    """Whether a doer works again after it has completed its work, without a review in between."""
    return last is not None and _is_completed(last) and last.phase is entry.phase is Phase.DOER


def _is_out_of_turn(last: OldEntry | None, entry: OldEntry) -> bool:
    """Whether it may not be this agent's turn by the rules of Logist; False if a state was recorded."""
    if entry.implied_state is None:
        return False
    expected_phase = (
        Phase.REVIEWER if last and last.phase is Phase.DOER and _is_completed(last) else Phase.DOER
    )
    return entry.phase is not expected_phase


def _find_raised_limits(runs: int, microcents: int, seconds: float) -> JsonObject:
    """Return the limits that would have stopped the job, raised slightly above what it has used."""
    usual = Limits()
    used_limits: JsonObject = {
        "cost_threshold": microcents // MICROCENTS + 1,
        "time_threshold_minutes": int(seconds // 60) + 1,
        "max_allowed_iterations": runs,
    }
    return {name: value for name, value in used_limits.items() if value > getattr(usual, name)}


def rebuild_interactions(
    entries: Iterable[JsonObject],
    schema: JsonObject,
    notes: Notes,
    beside: JsonObject | None = None,
    known: JsonObject | None = None,
) -> Iterator[Interaction]:
    """Yield the history that these entries describe, from `create` on; holds one entry in memory.

    `schema` is used to judge the answers; `beside` is what the file says about the job itself, `known` the
    settings of a survey. Interactions are renumbered from 1. Raises Damaged, with the place in the file, for
    an entry that has no answer, is out of order, or is preceded by entries of another format although it is
    an interaction of Logist.
    """
    teller = _Teller(schema, notes, beside or {}, known or {})
    pending_entry: OldEntry | None = None
    last: OldEntry | None = None
    for place, raw in enumerate(entries, 1):
        last = read_old_entry(raw, place, last)
        if operation := find_logged_operation(raw):
            notes.add_note(f"left out: `{operation[:60]}` is in the log, and asked no agent", place, "entry")
            continue
        if pending_entry is None:
            yield from teller.rebuild_create(last)
        else:
            yield from teller.rebuild_answer(pending_entry, last)
        pending_entry = last
    if last is None:
        raise Damaged("the history is empty")
    yield from (
        teller.rebuild_create(last) if pending_entry is None else teller.rebuild_answer(pending_entry, None)
    )


class _Earlier(NamedTuple):
    """The state before an ask, and the sequence number of the ask."""

    sequence: int
    state: State


@dataclass
class _Teller:
    """Builds the interactions one after the other, and tracks the state of the job."""

    schema: JsonObject
    notes: Notes
    beside: JsonObject
    known: JsonObject
    spec: EffectiveSpec = field(default_factory=lambda: EffectiveSpec(title=""))
    state: State | None = None
    timestamp: str = NO_TIME
    earlier: dict[Status, _Earlier] = field(default_factory=dict)
    """By the state in which an agent was asked: the last such interaction, and the state before it."""

    @property
    def next_sequence(self) -> int:
        return self.state.revision + 1 if self.state else 1

    def rebuild_create(self, first: OldEntry) -> Iterator[Interaction]:
        """Build the `create` that such histories lack."""
        changed_settings = ", ".join(
            f"{name} {json.dumps(value)}" for name, value in sorted(self.known.items())
        )
        changes_text = f"; but {changed_settings}, as its entries show" if changed_settings else ""
        self.notes.add_note(
            f"made up: the job was created with the settings that are the default{changes_text}"
        )
        if first.number is not None:
            self.notes.add_note(
                f"numbered anew: the entry with sequence {first.number} is interaction {self.next_sequence + 1}"
            )
        self.timestamp = first.timestamp or NO_TIME
        known = {**self.known, "limits": Limits.model_validate(self.known.get("limits", {}))}
        self.spec = _rebuild_spec(self.beside, first).model_copy(update=known)
        yield self._add_interaction(
            Kind.CREATE,
            Place(status=Status.PENDING),
            first,
            spec=self.spec,
            command=CreateCommand(draft=False, rebuilt=True).write(),
        )

    def rebuild_answer(self, entry: OldEntry, following: OldEntry | None) -> Iterator[Interaction]:
        """Build the answer, and the decision that must have been made before the next one."""
        yield self._rebuild_ask(entry, following)
        if following is not None:
            yield from self._rebuild_decision(following)

    def _add_interaction(
        self, kind: Kind, after: Place, entry: OldEntry, back: State | None = None, **more: Any
    ) -> Interaction:
        if kind is Kind.ASK and self.state is not None and self.state.status in step.PHASES:
            self.earlier[self.state.status] = _Earlier(self.next_sequence, self.state)
        self.timestamp = entry.timestamp or self.timestamp
        before = self.state.status if self.state else after.status
        fields = {"actor": Actor.STEWARD, "state_before": before, "step": "task", **more}
        workspace = text_or_empty(entry.raw.get("workspace_path"))
        interaction = Interaction(
            sequence=self.next_sequence,
            timestamp=self.timestamp,
            kind=kind,
            state_after=after.status,
            workspace_path=workspace,
            after=after,
            **fields,
        )
        self.state = fold.apply_interaction(self.state, interaction, back)
        return interaction

    def _rebuild_ask(self, entry: OldEntry, following: OldEntry | None) -> Interaction:
        assert self.state is not None
        reply, rebuilt = self._rebuild_reply(entry)
        evidence = to_text_list(entry.response.get("evidence_files")) or []
        phase = entry.phase
        if entry.before is None and entry.implied_state is None:  # not in the entry: the phase that is due
            phase = step.find_owing_phase(self.state) or Phase.DOER
        observed = Observed(
            phase=phase,
            role=entry.role or ("Supervisor" if phase is Phase.REVIEWER else "Worker"),
            evidence=[Evidence(path=path, exists=True) for path in evidence],
        )
        today = self._judge_reply(reply, observed)
        after = self._find_place_after(entry, following, today)
        self._note_rebuilt(entry, rebuilt, evidence)
        self._note_unread(entry)
        return self._add_interaction(
            Kind.ASK,
            after,
            entry,
            actor=Actor.AGENT,
            state_before=entry.before or self.state.status,
            reason=today.reason if today and _is_read_alike(entry, after, today) else "",
            request=entry.request,
            response=_rebuild_response(entry, reply, today),
            usage=entry.usage or Usage(),
            observed=observed,
            simulated=entry.simulated,
        )

    def _rebuild_reply(self, entry: OldEntry) -> tuple[Reply, bool]:
        """Return the answer, and whether it was rebuilt.

        It has an error if the entry says that there is no answer.
        """
        answer, rebuilt = read_old_answer(entry.response)
        status = text_or_empty(entry.response.get("status")).upper()
        error = None
        if status == "TIMEOUT" or (status not in ("", "SUCCESS") and not answer):
            kind = ErrorKind.TIMEOUT if status == "TIMEOUT" else ErrorKind.TRANSIENT
            error = TransportError(kind=kind, message=f"the archived answer is {status}")
        finish = entry.response.get("finish")
        usage = entry.usage or Usage()
        return Reply(text=answer, usage=usage, error=error, finish=text_or_empty(finish) or None), rebuilt

    def _judge_reply(self, reply: Reply, observed: Observed) -> step.Outcome | None:
        """Judge the answer by the rules; None if they don't allow an answer here.

        Without the changed rules: the answer was made before them, and where they would stop, the job went on
        without a decision of a steward.
        """
        assert self.state is not None
        try:
            answer = step.judge_answer(self.spec, self.state, reply, self.schema, rules=frozenset())
            return step.conclude(self.spec, self.state, answer, observed, rules=frozenset())
        except LogistError:
            return None

    def _find_place_after(
        self, entry: OldEntry, following: OldEntry | None, today: step.Outcome | None
    ) -> Place:
        """Return the place after the answer.

        That is the recorded one; else the one that the next entry requires; else the one by the current
        rules.
        """
        assert self.state is not None
        judged = today.place if today else self.state.place
        recorded = entry.after
        if recorded is None and following is not None and following.before not in (None, judged.status):
            recorded = None if _find_decision_between(judged.status, following.before) else following.before
        if recorded is None or recorded is judged.status:
            return judged
        return _build_place(recorded, self.state, entry)

    def _note_rebuilt(self, entry: OldEntry, rebuilt: bool, evidence: list[str]) -> None:
        number, response = self.next_sequence, entry.response
        if rebuilt:
            self.notes.add_note("`raw_response` was rebuilt from the fields of the response", number)
        if "actions" not in response and "action" in response:
            self.notes.add_note("`action` was read as `actions`", number)
        if len(entry.actions or []) > 1:
            self.notes.add_note("of several actions the first counts", number)
        if entry.timestamp is None:
            self.notes.add_note("it says no time: that of the entry before it stands there", number)
        if evidence:
            self.notes.add_note("evidence is taken to have been there: the file does not say so", number)
        if entry.before is None:
            self.notes.add_note("the state before it is by today's rules: the file does not say it", number)

    def _note_unread(self, entry: OldEntry) -> None:
        number, response = self.next_sequence, entry.response
        if has_odd_usage(entry.raw, response):
            self.notes.add_note("what it used was not read: it does not make sense", number)
        elif entry.raw.get("cost"):
            self.notes.add_note("`cost` was read as US dollars", number)
        if unread := sorted(entry.raw.keys() - _KNOWN):
            self.notes.add_note(f"not read: {', '.join(map(shorten_json, unread[:SHOWN]))}", number)
        if unread := sorted(response.keys() - _KNOWN_OF_RESPONSE):
            self.notes.add_note(
                f"not read of the response: {', '.join(map(shorten_json, unread[:SHOWN]))}", number
            )

    def _rebuild_decision(self, following: OldEntry) -> Iterator[Interaction]:
        """Build the decision that a steward must have made for the job to be in the state of the next entry.

        If that entry does not record the state, and it was not the turn of the agent that answered, the job
        went back to an earlier state by a restep.
        """
        assert self.state is not None
        due_state = self._find_due_state(following)
        bridge = _find_decision_between(self.state.status, due_state)
        if bridge is None and following.implied_state is not None and due_state is not self.state.status:
            bridge = self._find_restep(following)
        if bridge is None:
            return
        kind, command = bridge
        back = self.earlier.get(due_state) if kind is Kind.RESTEP and due_state else None
        try:
            after = steward.apply_command(
                kind, self.state.place, command, self.spec, back.state.place if back else None
            )
        except LogistError:
            return  # the replay reports this as a difference
        why = f"{following.who} answers next"
        if following.before is not None:
            why = f"{following.where} found the job {following.before}"
        self.notes.add_note(f"made up: `{kind}`, since {why}", self.next_sequence)
        yield self._add_interaction(
            kind,
            after,
            following,
            back=back.state if back else None,
            steward=Steward(name=NOBODY),
            command=command.write(),
        )

    def _find_due_state(self, following: OldEntry) -> Status | None:
        """Return the state in which this entry can be an answer; None if it can
        be one in the current state.
        """
        assert self.state is not None
        if following.before is not None or following.implied_state is not None:
            return following.before or following.implied_state
        waits = self.state.status in (Status.APPROVAL_REQUIRED, *TERMINAL)
        return Status.PENDING if waits else None

    def _find_restep(self, following: OldEntry) -> tuple[Kind, RecordedCommand] | None:
        """Return the restep to the last time that this agent was asked; None if it was never its turn."""
        assert following.implied_state is not None
        earlier = self.earlier.get(following.implied_state)
        if earlier is None:
            self.notes.add_note(
                f"does not replay: {following.who} answers, and it was not its turn", self.next_sequence
            )
            return None
        return Kind.RESTEP, RestepCommand(to=earlier.sequence)


def _is_read_alike(entry: OldEntry, after: Place, today: step.Outcome) -> bool:
    """Whether the current rules read the answer as recorded: only then the current reason applies to it."""
    same_actions = entry.actions in (None, today.response.actions)
    return same_actions and today.place.status is after.status


def _rebuild_spec(beside: JsonObject, first: OldEntry) -> EffectiveSpec:
    """Build the spec as far as the file describes it."""
    prompt = text_or_empty(beside.get("prompt")) or first.request.prompt
    title = text_or_empty(beside.get("title")) or next(filter(str.strip, prompt.splitlines()), "imported")
    description = text_or_empty(beside.get("description")) or None
    return EffectiveSpec(title=" ".join(title.split())[:60], prompt=prompt, description=description)


def _find_decision_between(here: Status, there: Status | None) -> tuple[Kind, RecordedCommand] | None:
    """Return the decision of a steward that leads from one state to the other, if there is one."""
    if here is Status.STUCK and there in step.PHASES:
        return Kind.RESUBMIT, ResubmitCommand(review=there is Status.REVIEW_REQUIRED or None)
    if here is Status.APPROVAL_REQUIRED and there in (Status.PENDING, Status.SUCCESS):
        return (Kind.REJECT, NoteCommand()) if there is Status.PENDING else (Kind.APPROVE, ApproveCommand())
    if here in TERMINAL and there is Status.PENDING:
        return Kind.RERUN, RerunCommand()
    return None


def _build_place(status: Status, state: State, entry: OldEntry) -> Place:
    """Build a place with that status, with what is needed to leave it again."""
    if status is Status.STUCK:
        why = text_or_empty(entry.response.get("summary_for_supervisor"))
        stuck = Stuck(kind=StuckKind.AGENT, step=state.step, role=entry.role, phase=entry.phase, reason=why)
        return Place(status=status, stuck=stuck, step=state.step, attempts=state.place.attempts)
    awaiting = "end" if status is Status.APPROVAL_REQUIRED else None
    before = state.place if status in HALTED or status is Status.SUSPENDED else None
    return Place(status=status, awaiting=awaiting, step=state.step, before=before)


def _rebuild_response(entry: OldEntry, reply: Reply, today: step.Outcome | None) -> Response:
    """Return the response as recorded in the file; missing values are as the
    current rules read the answer.
    """
    recorded = entry.response
    status = text_or_empty(recorded.get("status")).upper()
    values: dict[str, Any] = {
        "raw_response": reply.text,
        "status": status if status in ("SUCCESS", "ERROR", "TIMEOUT") else None,
        "actions": entry.actions,
        "evidence_files": to_text_list(recorded.get("evidence_files")),
        "summary_for_supervisor": recorded.get("summary_for_supervisor"),
        "output": recorded.get("output"),
        "metadata": recorded.get("metadata") if isinstance(recorded.get("metadata"), dict) else None,
    }
    if not isinstance(values["summary_for_supervisor"], str):
        del values["summary_for_supervisor"]
    base = today.response if today else Response(error=reply.error, finish=reply.finish)
    return base.model_copy(update={name: value for name, value in values.items() if value is not None})
