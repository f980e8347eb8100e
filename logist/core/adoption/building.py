"""Builds a history from a session of another agent program.

Each prompt of the person and the work on it is an interaction, and is judged as any answer is: without an exit
command, the job is STUCK after it. The next prompt is the decision of the person that let the agent continue. At the
end, the job is canceled: a session is a record, not work that could be continued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from logist.core.adoption.session import AgentSession, SessionCall, SessionTurn, TokenCounts
from logist.core.history import fold
from logist.core.history.fold import Folding
from logist.core.machine import steward
from logist.core.machine.rules import LATEST, TODAY
from logist.core.model import (
    Actor,
    Approval,
    EffectiveSpec,
    ErrorKind,
    Interaction,
    JsonObject,
    Kind,
    Limits,
    Model,
    Observed,
    Phase,
    Place,
    Reply,
    Request,
    State,
    Status,
    Steward,
    TransportError,
    Usage,
)
from logist.core.model.commands import (
    AskCommand,
    CreateCommand,
    EndCommand,
    NoteCommand,
    RecordedCommand,
    ResubmitCommand,
)
from logist.core.money.amounts import MICROCENTS
from logist.core.money.money import compute_cost, split_cents
from logist.core.step import step
from logist.quick_dataclass import dataclass

TAG = "adopted"
"""The tag of adopted jobs, in listings."""
ROLE = "Worker"
"""The role of the adopted work: that of a job without another one."""
NO_TIME = "1970-01-01T00:00:00Z"
NO_ANSWER = "the session has no answer to this prompt"
LONGEST_TITLE = 60
NOTED = 50
"""How many notes the history keeps."""


@dataclass
class AdoptionFacts:
    """What the history records besides the session."""

    sha256: str
    """The hash of the session's file."""
    steward: str
    adopted_at: str
    workspace: str
    start: str
    """The checkpoint of the empty workspace."""
    format_time: Callable[[float], str]
    """Formats seconds since 1970 as a history has them."""


class AdoptedHistory:
    """The interactions of one session, and what is not known about its costs."""

    def __init__(
        self, session: AgentSession, models: Mapping[str, Model], schema: JsonObject, facts: AdoptionFacts
    ) -> None:
        self.session, self.models, self.schema, self.facts = session, models, schema, facts
        self.unpriced: set[str] = set()
        """Models whose price is unknown."""
        self.usages = [self._build_usage(turn) for turn in session.turns]
        self.spec = build_spec(session, self.usages)
        self.folding = Folding(())
        self.timestamp = NO_TIME

    @property
    def state(self) -> State:
        """The state after the last interaction that was built."""
        assert self.folding.state is not None
        return self.folding.state

    def build_interactions(self) -> Iterator[Interaction]:
        """Yield the history from `create` to the cancellation."""
        yield self._build_create()
        for number, (turn, usage) in enumerate(zip(self.session.turns, self.usages, strict=True)):
            if number:
                yield self._build_prompt(turn)
            yield self._build_ask(turn, usage)
        self.timestamp = self.facts.adopted_at
        yield self._build_decision(
            Kind.CANCEL, EndCommand(note=f"adopted from a session of {self.session.program}")
        )

    def list_notes(self) -> list[str]:
        """List what was left out, and what is unknown."""
        notes = [f"{text} ({count})" if count > 1 else text for text, count in self.session.notes.items()]
        if self.unpriced:
            names = ", ".join(sorted(name or "a model without a name" for name in self.unpriced))
            notes.append(f"the cost is unknown, because no price is known for {names}")
        return notes

    def _add(self, kind: Kind, after: Place, **fields: Any) -> Interaction:
        before = self.folding.state
        interaction = Interaction(
            sequence=before.revision + 1 if before else 1,
            timestamp=self.timestamp,
            kind=kind,
            state_before=before.status if before else after.status,
            state_after=after.status,
            workspace_path=self.facts.workspace,
            step="task",
            after=after,
            **fields,
        )
        self.folding.take(interaction)
        return interaction

    def _format_time(self, moment: float | None) -> str | None:
        return None if moment is None else self.facts.format_time(moment)

    def _build_create(self) -> Interaction:
        session = self.session
        self.timestamp = self._format_time(session.turns[0].started) or NO_TIME
        command = CreateCommand(
            draft=False,
            imported=self.facts.sha256,
            adopted=" ".join(filter(None, (session.program, session.version[:60]))),
            session=session.id[:200],
            notes=self.list_notes()[:NOTED] or None,
        )
        place = steward.apply_command(Kind.CREATE, None, command, self.spec)
        return self._add(
            Kind.CREATE,
            place,
            actor=Actor.STEWARD,
            spec=self.spec,
            command=command.write(),
            checkpoint_after=self.facts.start,
            steward=Steward(name=self.facts.steward),
        )

    def _build_prompt(self, turn: SessionTurn) -> Interaction:
        """Build the decision by which the next prompt let the agent continue."""
        self.timestamp = max(self.timestamp, self._format_time(turn.started) or self.timestamp)
        if self.state.status is Status.STUCK:
            return self._build_decision(Kind.RESUBMIT, ResubmitCommand(note=turn.prompt))
        if self.state.status is Status.APPROVAL_REQUIRED:
            return self._build_decision(Kind.REJECT, NoteCommand(note=turn.prompt))
        # the rules let the agent try again by itself
        return self._build_decision(Kind.NOTE, NoteCommand(note=turn.prompt))

    def _build_decision(self, kind: Kind, command: RecordedCommand) -> Interaction:
        after = steward.apply_command(kind, self.state.place, command, self.spec)
        note = getattr(command, "note", None)
        return self._add(
            kind,
            after,
            actor=Actor.STEWARD,
            command=command.write(),
            steward=Steward(name=self.facts.steward, note=note),
            rules=LATEST,
            reason=note or "",
        )

    def _build_ask(self, turn: SessionTurn, usage: Usage) -> Interaction:
        reply = Reply(
            text=turn.answer,
            usage=usage,
            finish="length" if turn.cut else None,
            error=_find_error(turn),
            tools=dict(sorted(turn.counts.items())),
            tools_failed=_count_failed(turn.calls),
            session=self.session.id[:200] or None,
        )
        observed = Observed(phase=Phase.DOER, role=ROLE)
        answer = step.judge_answer(self.spec, self.state, reply, self.schema, TODAY)
        outcome = step.conclude(self.spec, self.state, answer, observed, TODAY)
        self.timestamp = max(self.timestamp, self._format_time(turn.ended) or self.timestamp)
        calls = [_write_call(call) for call in turn.calls]
        metadata = {"role": ROLE, "agent": self.session.program, "model": _join_models(turn)}
        return self._add(
            Kind.ASK,
            outcome.place,
            actor=Actor.AGENT,
            attempt=self.state.place.attempts + 1,
            reason=outcome.reason,
            request=Request(prompt=turn.prompt, metadata=metadata),
            response=outcome.response,
            route=outcome.route,
            usage=usage,
            rules=LATEST,
            observed=observed,
            command=_write_ask(step.recorded(outcome), calls),
        )

    def _build_usage(self, turn: SessionTurn) -> Usage:
        total, microcents, priced = TokenCounts(), 0, True
        for model, tokens, copied in turn.requests.values():
            if copied:
                continue
            total.add(tokens)
            cost = self._price_request(model, tokens)
            priced, microcents = priced and cost is not None, microcents + (cost or 0)
        cents, fraction = split_cents(microcents if priced else 0)
        started, ended = turn.started, turn.ended
        return Usage(
            input_tokens=total.input,
            cached_tokens=min(total.cached, total.input),
            cache_write_tokens=min(total.cache_write, max(0, total.input - total.cached)),
            output_tokens=total.output,
            reasoning_tokens=min(total.reasoning, total.output),
            cost_cents=cents,
            cost_microcents=fraction,
            seconds=round(ended - started, 3) if started is not None and ended is not None else 0.0,
            source="provider" if turn.requests and priced else "none",
            reported_microcents=turn.reported_microcents,
        )

    def _price_request(self, model: str, tokens: TokenCounts) -> int | None:
        priced = self.models.get(model)
        cost = None
        if priced is not None:
            cost = compute_cost(
                priced,
                tokens.input,
                tokens.output,
                tokens.cached,
                cache_write_tokens=tokens.cache_write,
                reasoning_tokens=tokens.reasoning,
            )
        if cost is None:
            self.unpriced.add(model[:100])
        return cost


def build_spec(session: AgentSession, usages: Sequence[Usage]) -> EffectiveSpec:
    """Build the spec of the job: the first prompt, nobody reviews, and limits that the session didn't reach."""
    prompt = session.turns[0].prompt
    usual, microcents = Limits(), sum(fold.usage_microcents(usage) for usage in usages)
    limits = Limits(
        cost_threshold=max(usual.cost_threshold, microcents // MICROCENTS + 1),
        time_threshold_minutes=max(
            usual.time_threshold_minutes, sum(usage.seconds for usage in usages) // 60 + 1
        ),
        max_allowed_iterations=max(usual.max_allowed_iterations, len(usages)),
        max_attempts=max(usual.max_attempts, len(usages) + 1),
    )
    task = prompt[: 4 * LONGEST_TITLE].removeprefix(session.greeting)
    return EffectiveSpec(
        title=" ".join(task.split())[:LONGEST_TITLE] or session.program,
        prompt=prompt,
        review=False,
        approval=Approval.END,
        limits=limits,
        tags=(TAG,),
    )


def list_models(session: AgentSession) -> list[str]:
    """List the models that answered, sorted."""
    return sorted({model for turn in session.turns for model, _, _ in turn.requests.values() if model})


def _find_error(turn: SessionTurn) -> TransportError | None:
    if turn.error is not None:
        return TransportError(kind=ErrorKind.BAD_REQUEST, message=turn.error)
    return None if turn.answer else TransportError(kind=ErrorKind.BAD_REQUEST, message=NO_ANSWER)


def _count_failed(calls: list[SessionCall]) -> JsonObject | None:
    failed: dict[str, int] = {}
    for call in calls:
        if call.failed:
            failed[call.name] = failed.get(call.name, 0) + 1
    return dict(sorted(failed.items())) or None


def _write_call(call: SessionCall) -> JsonObject:
    written: JsonObject = {"name": call.name, "arguments": call.arguments, "needs": list(call.needs)}
    if call.result is not None:
        written["result"] = call.result
    if call.failed:
        written["failed"] = True
    if call.refused:
        written["refused"] = True
    return written


def _write_ask(command: AskCommand, calls: list[JsonObject]) -> JsonObject:
    written = command.write()
    return {**written, "calls": calls} if calls else written


def _join_models(turn: SessionTurn) -> str:
    return ", ".join(sorted({model for model, _, _ in turn.requests.values() if model}))[:200]
