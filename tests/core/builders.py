"""Small values of the core for its tests: a spec, a state, an answer, a recorded history."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from logist.core.history import fold
from logist.core.machine import kinds, steward
from logist.core.machine.rules import TODAY, Rules
from logist.core.model import (
    Actor,
    EffectiveSpec,
    Evidence,
    Interaction,
    JsonObject,
    Kind,
    Limits,
    Model,
    Observed,
    Phase,
    Place,
    Reply,
    Role,
    State,
    Status,
    Steward,
    Stuck,
    StuckKind,
    Usage,
)
from logist.core.model.commands import CreateCommand
from logist.core.step import step
from logist.core.step.step import Outcome
from logist.resources import find_resource

SCHEMA: JsonObject = json.loads(find_resource("schemas", "llm-chat-schema.json").read_text("utf-8"))
WORKER = Role(name="Worker", description="Works.", instructions="Do what is asked.", llm_model="small")
SUPERVISOR = Role(name="Supervisor", description="Reviews.", instructions="Judge it.", llm_model="small")
MODEL = Model(name="small", provider_model="maker/small-1", input_price=1.0, output_price=10.0)


def spec(**fields: Any) -> EffectiveSpec:
    """A job with a prompt; every limit that is a field of Limits may be given by name."""
    limits = Limits(**{name: fields.pop(name) for name in list(fields) if name in Limits.model_fields})
    return EffectiveSpec(**{"title": "Say hello", "prompt": "Write hello.txt.", "limits": limits, **fields})


def conclude(one: EffectiveSpec, here: State, given: Reply, seen: Observed, rules: Rules = TODAY) -> Outcome:
    """What a reply leads to."""
    return step.conclude(one, here, step.judge_answer(one, here, given, SCHEMA), seen, rules)


def state(status: Status = Status.PENDING, **fields: Any) -> State:
    return State.model_validate({"status": status, **fields})


def stuck(
    kind: StuckKind = StuckKind.AGENT, phase: Phase = Phase.DOER, *, attempts: int = 0, reason: str = "why"
) -> Place:
    role = "Supervisor" if phase is Phase.REVIEWER else "Worker"
    what = Stuck(kind=kind, step="task", role=role, phase=phase, reason=reason)
    return Place(status=Status.STUCK, stuck=what, attempts=attempts)


def command(action: str = "COMPLETED", *evidence: str, summary: str = "Done.", **more: Any) -> str:
    """The text of an exit command."""
    return json.dumps(
        {"action": action, "evidence_files": list(evidence), "summary_for_supervisor": summary, **more}
    )


def reply(text: str | None = None, **fields: Any) -> Reply:
    return Reply(text=command() if text is None else text, **fields)


def observed(phase: Phase = Phase.DOER, *, missing: Sequence[str] = (), **fields: Any) -> Observed:
    role = "Supervisor" if phase is Phase.REVIEWER else "Worker"
    evidence = [Evidence(path=path, exists=False) for path in missing]
    return Observed(**{"phase": phase, "role": role, "evidence": evidence, **fields})


class Recorder:
    """A history as the product records it: each interaction is judged by the core, then folded."""

    def __init__(self, **asked: Any) -> None:
        self.spec = spec(**asked)
        self.schema = SCHEMA
        self.entries: list[Interaction] = []
        after = steward.apply_command(Kind.CREATE, None, CreateCommand(), self.spec)
        self._record(Kind.CREATE, after, state_before=after.status, spec=self.spec, checkpoint_after="c1")

    @property
    def state(self) -> State:
        return fold.fold(self.entries)

    def answer(self, text: str | None = None, *, missing: Sequence[str] = (), **fields: Any) -> Outcome:
        """An answer of the role whose turn it is; `fields` are those of Reply, and `simulated`."""
        simulated = bool(fields.pop("simulated", False))
        phase = step.find_owing_phase(self.state) or Phase.DOER
        seen = observed(phase, missing=missing)
        given = reply(text, **{"usage": Usage(cost_cents=1, seconds=2.0, input_tokens=10), **fields})
        outcome = conclude(self.spec, self.state, given, seen)
        self._record(
            Kind.ASK,
            outcome.place,
            actor=Actor.AGENT,
            reason=outcome.reason,
            response=outcome.response,
            usage=given.usage,
            observed=seen,
            simulated=simulated,
            checkpoint_after=f"c{len(self.entries) + 1}",
        )
        return outcome

    def decide(self, kind: Kind, *, note: str | None = None, **options: Any) -> Place:
        """What a person, or for `halt` the system, does."""
        asked = {**options, **({"note": note} if note else {})}
        back = fold.fold_before(self.entries, options["to"]) if kind is Kind.RESTEP else None
        here = self.state.place
        after = steward.apply_command(
            kind, here, kinds.read_command(kind, asked), self.spec, back.place if back else None
        )
        who = Actor.SYSTEM if kind is Kind.HALT else Actor.STEWARD
        person = Steward(name="pat", note=note) if who is Actor.STEWARD else None
        checkpoint = back.checkpoint if back else None
        self._record(
            kind,
            after,
            actor=who,
            command=asked,
            steward=person,
            checkpoint_after=checkpoint,
            reason=note or "",
        )
        return after

    def change(self, **fields: Any) -> None:
        """Another spec, recorded as the product does it."""
        self.spec = self.spec.model_copy(update=fields)
        self._record(Kind.SPEC, self.state.place, actor=Actor.SYSTEM, spec=self.spec)

    def lose(self) -> Outcome:
        """An exchange that was sent and of which nothing came back."""
        phase = step.find_due_phase(self.state) or Phase.DOER
        seen = observed(phase)
        outcome = step.conclude_in_doubt(self.spec, self.state, seen.role)
        usage = Usage(cost_cents=5, source="worst_case")
        self._record(
            Kind.RECOVER,
            outcome.place,
            actor=Actor.SYSTEM,
            response=outcome.response,
            usage=usage,
            observed=seen,
            reason=outcome.reason,
        )
        return outcome

    def _record(self, kind: Kind, after: Place, **fields: Any) -> None:
        sequence = len(self.entries) + 1
        before = {} if "state_before" in fields else {"state_before": self.state.status}
        entry = Interaction(
            sequence=sequence,
            timestamp=f"2026-01-02T03:04:{sequence:02}Z",
            kind=kind,
            workspace_path="/somewhere/workspace",
            state_after=after.status,
            after=after,
            step=after.step,
            **{"actor": Actor.STEWARD, **before, **fields},
        )
        self.entries.append(entry)


def whole_history() -> Recorder:
    """Every kind of interaction that the built-in workflow knows."""
    job = Recorder(approval="end", max_attempts=3)
    job.answer(command("RETRY", summary="First try failed."))
    job.answer(command("COMPLETED", "hello.txt", summary="Wrote it.", output={"n": None}))
    job.answer(command("RETRY", summary="Say it louder."))
    job.answer("no exit command here")
    job.decide(Kind.RESUBMIT, note="Use capitals.")
    job.lose()
    job.decide(Kind.RESUBMIT, doubt="retry", released_microcents=5_000_000, released_of=7)
    job.answer(command("COMPLETED", "HELLO.txt"), missing=["HELLO.txt"])
    job.decide(Kind.SUSPEND)
    job.decide(Kind.RESUME)
    job.decide(Kind.HALT, limit="HALTED_COST", needed=2_000_000_000)
    job.change(limits=Limits(cost_threshold=5000))
    job.decide(Kind.RESUME)
    job.answer()
    job.decide(Kind.REJECT, note="Not yet.")
    job.decide(Kind.RESTEP, to=9)
    job.answer(command("STUCK", summary="I need help."))
    job.answer(simulated=True)
    job.answer()
    job.decide(Kind.APPROVE)
    job.decide(Kind.RERUN)
    job.decide(Kind.CANCEL)
    job.decide(Kind.RESTEP, to=3)
    job.decide(Kind.ROLE, **{"from": "Worker", "to": "Planner", "source": "switch", "color": "blue"})
    job.decide(Kind.FAIL)
    return job
