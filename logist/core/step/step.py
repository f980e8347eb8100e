"""One step: `plan` builds the request, `conclude` judges the answer. Both are pure."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from logist.core import review
from logist.core.answer import exit_command, output_schema, thinking
from logist.core.answer.questions import QUESTION, is_question
from logist.core.machine import next_steps, routing
from logist.core.machine.actions import Action, Who
from logist.core.machine.event import ANY_JOB, Event
from logist.core.machine.machine import next_place
from logist.core.machine.rules import TODAY, Rule, Rules
from logist.core.machine.targets import is_step_reviewed
from logist.core.model import (
    Approval,
    Check,
    EffectiveSpec,
    ErrorKind,
    ExitAction,
    JsonObject,
    Observed,
    Phase,
    Place,
    Reply,
    Response,
    State,
    Status,
)
from logist.core.model.commands import AskCommand
from logist.core.sections import judging
from logist.core.step import step_instructions
from logist.core.step.plan import RequestBounds, StepPlan, plan
from logist.quick_dataclass import dataclass

__all__ = [
    "PHASES",
    "Idle",
    "JudgedAnswer",
    "Outcome",
    "RequestBounds",
    "StepPlan",
    "conclude",
    "conclude_given_up",
    "conclude_in_doubt",
    "find_due_phase",
    "find_idle_reason",
    "find_judged_place",
    "find_owing_phase",
    "judge_answer",
    "list_due_checks",
    "plan",
    "recorded",
]

CUT_SHORT = {
    "length": "the answer was cut off at the output limit",
    "content_filter": "the provider's content filter cut the answer off",
    "broken_encoding": exit_command.NOT_UTF8,
    "turns": "the agent still called tools in its last turn and gave no answer",
    "unknown_tools": "the agent kept calling tools that don't exist",
}

ONLY_THINKING = "no exit command: the answer has only a <think> block"


@dataclass(frozen=True)
class Idle:
    """No agent is asked because the job waits for something else."""

    status: Status
    reason: str


@dataclass(frozen=True)
class JudgedAnswer:
    """A reply and the exit command read from it. The text is read once, and the result is passed on."""

    reply: Reply
    verdict: exit_command.Verdict
    """The exit command in the text, or why there is none; empty for a reply with an error."""

    @property
    def evidence_files(self) -> tuple[str, ...]:
        """The evidence files that the answer names; they must be looked up in the workspace."""
        return self.verdict.command.evidence_files if self.verdict.command else ()


@dataclass(frozen=True)
class Outcome:
    """The result of an answer: the judged response and the place it leads to."""

    response: Response
    place: Place
    reason: str
    route: list[JsonObject] = field(default_factory=list)
    """The decisions that were taken on the way to the next step."""
    why_unsure: str = ""
    """Why a steward must confirm the answer, at once or after the review; empty if no confirmation is needed."""
    gate: review.Gate | None = None
    """The result of the review, including the checks; None if the answer is not a review."""


def recorded(outcome: Outcome, results: list[Any] | None = None) -> AskCommand:
    """Return what the interaction records of the outcome, so that the state follows from the history alone.

    `results`: the results that replace those of child jobs, if a person supplied the answer for them.
    """
    gate = outcome.gate if outcome.gate and outcome.gate.verdict else None
    return AskCommand(
        unsure=True if outcome.why_unsure else None,
        why_unsure=outcome.why_unsure or None,
        verdict=gate.verdict if gate else None,
        findings=(list(gate.findings) or None) if gate else None,
        results=results,
    )


PHASES = {Status.PENDING: Phase.DOER, Status.REVIEW_REQUIRED: Phase.REVIEWER}


def find_due_phase(state: State) -> Phase | None:
    """Return which agent is due: the doer, the reviewer, or None."""
    return None if state.place.spawns else PHASES.get(state.status)


def find_owing_phase(state: State) -> Phase | None:
    """Return whose answer `poststep` supplies: that of the agent that is due, or in STUCK of the one that got
    stuck.
    """
    return state.place.stuck.phase if state.place.stuck else find_due_phase(state)


def find_idle_reason(state: State) -> Idle | None:
    """Return why no agent is asked now, or None if one is."""
    if find_due_phase(state):
        return None
    if state.place.spawns and state.status is Status.PENDING:
        return Idle(state.status, "child jobs do this step")
    return Idle(state.status, state.reason or "no agent is due")


def judge_answer(
    spec: EffectiveSpec, state: State, reply: Reply, schema: JsonObject, rules: Rules = TODAY
) -> JudgedAnswer:
    """Read the exit command from a reply, in the format of the step. Everything that follows uses this result."""
    if reply.error:
        return JudgedAnswer(reply, exit_command.Verdict())
    stuck = state.place.stuck
    step_id = stuck.step if state.status is Status.STUCK and stuck else state.step
    text = thinking.remove_thinking(reply.text) if Rule.THINKING_APART in rules else reply.text
    if reply.text.strip() and not text.strip():
        return JudgedAnswer(reply, exit_command.Verdict(reason=ONLY_THINKING))
    return JudgedAnswer(reply, step_instructions.judge_step_answer(spec, step_id, text, schema))


def list_due_checks(
    spec: EffectiveSpec, state: State, phase: Phase, answer: JudgedAnswer, *, touched: bool = False
) -> dict[str, Check]:
    """Return the checks to run after an answer; none unless it is valid and completes a reviewed step.

    `touched`: the workspace has changed since the checks ran.
    """
    reply, command = answer.reply, answer.verdict.command
    if reply.error or reply.refusals or reply.finish in CUT_SHORT or not is_step_reviewed(spec, state.step):
        return {}
    is_completed = (
        command is not None and command.action is ExitAction.COMPLETED and not is_question(command.output)
    )
    return review.select_checks_to_run(spec, state, phase, touched=touched) if is_completed else {}


def conclude(
    spec: EffectiveSpec,
    state: State,
    answer: JudgedAnswer,
    observed: Observed,
    rules: Rules = TODAY,
) -> Outcome:
    """Judge an answer. Uses only what the interaction records, so that a replay has the same input."""
    place = find_judged_place(spec, state)
    reply, verdict = answer.reply, answer.verdict
    if observed.refusals:
        return _conclude_breach(spec, place, answer, observed)
    if reply.error:
        return _conclude_unanswered(spec, place, reply, observed)
    invalid_reason = CUT_SHORT.get(reply.finish or "") or (None if verdict.command else verdict.reason)
    if verdict.command is None or invalid_reason:
        return _conclude_invalid(spec, place, reply, observed, invalid_reason or verdict.reason)
    return _conclude_valid(spec, state, place, reply, observed, verdict.command, verdict.warnings, rules)


def find_judged_place(spec: EffectiveSpec, state: State, job: str = ANY_JOB) -> Place:
    """Return the place at which an answer is judged: in STUCK, that of the role that got stuck.

    Raises Refused, with a command for `job`, if an answer supplied by a person can't resolve the state.
    """
    here = state.place
    if here.status is Status.STUCK:
        return next_place(here, Event(Who.STEWARD, Action.SUPPLY, job=job), spec)
    return here


def _build_event(observed: Observed, action: Action, reason: str, *, blocked: bool = False) -> Event:
    who = Who.REVIEWER if observed.phase is Phase.REVIEWER else Who.DOER
    return Event(who, action, role=observed.role, reason=reason, blocked=blocked)


def _conclude_breach(spec: EffectiveSpec, here: Place, answer: JudgedAnswer, observed: Observed) -> Outcome:
    """Conclude a run that did, or tried to do, something that its role may not do.

    Whatever the answer, the job becomes STUCK.
    """
    first, more = observed.refusals[0], len(observed.refusals) - 1
    reason = "permission denied: " + (first.message or "refused") + (f" (and {more} more)" if more else "")
    reply, verdict = answer.reply, answer.verdict
    command = None if reply.finish in CUT_SHORT else verdict.command
    response = (
        _build_response(reply)
        if command is None
        else _build_valid_response(reply, observed, command, verdict.warnings)
    )
    if command is None:
        response = response.model_copy(update={"status": "ERROR"})
    return Outcome(response, next_place(here, _build_event(observed, Action.BREACH, reason), spec), reason)


def _conclude_unanswered(spec: EffectiveSpec, here: Place, reply: Reply, observed: Observed) -> Outcome:
    error = reply.error
    assert error is not None
    if error.kind is ErrorKind.LIMIT:
        reason = f"cost limit: {error.message}"
        event = Event(Who.SYSTEM, Action.HALT, role=observed.role, reason=reason, limit=Status.HALTED_COST)
        response = _build_response(reply).model_copy(update={"status": "ERROR"})
        return Outcome(response, next_place(here, event, spec), reason)
    if error.kind is ErrorKind.SHARED_LIMIT:
        reason = f"shared cost limit: {error.message}"
        event = Event(Who.SYSTEM, Action.UNANSWERED, role=observed.role, reason=reason)
        response = _build_response(reply).model_copy(update={"status": "ERROR"})
        return Outcome(response, next_place(here, event, spec), reason)
    is_transient = error.kind in (ErrorKind.TRANSIENT, ErrorKind.TIMEOUT)
    reason = f"no answer: {error.message}"
    action = Action.TRANSIENT if is_transient else Action.UNANSWERED
    event = Event(Who.SYSTEM, action, role=observed.role, reason=reason)
    status = "TIMEOUT" if error.kind is ErrorKind.TIMEOUT else "ERROR"
    response = _build_response(reply).model_copy(update={"status": status})
    return Outcome(response, next_place(here, event, spec), reason)


def _conclude_invalid(
    spec: EffectiveSpec, here: Place, reply: Reply, observed: Observed, why: str
) -> Outcome:
    reason = f"invalid answer: {why}"
    response = _build_response(reply).model_copy(update={"status": "ERROR"})
    return Outcome(response, next_place(here, _build_event(observed, Action.STUCK, reason), spec), reason)


def _conclude_valid(
    spec: EffectiveSpec,
    state: State,
    here: Place,
    reply: Reply,
    observed: Observed,
    command: exit_command.ExitCommand,
    warnings: tuple[str, ...],
    rules: Rules,
) -> Outcome:
    if Rule.QUESTIONS_STOP in rules and is_question(command.output):
        return _conclude_question(spec, here, reply, observed, command, warnings)
    gate = review.judge_review(spec, state, observed, command)
    if gate and gate.fault:
        return _conclude_invalid(spec, here, reply, observed, gate.fault)
    if fault := _output_fault(observed, command):
        return _conclude_invalid(spec, here, reply, observed, fault)
    action, reason = _choose_action(spec, here, observed, command, gate)
    warnings = (
        *warnings,
        *(gate.warnings if gate else ()),
        *_warn_of_invalid_choice(spec, here, observed, command),
    )
    response = _build_valid_response(reply, observed, command, warnings)
    event = _build_event(observed, action, reason, blocked=bool(gate and gate.blocked))
    if action is not Action.COMPLETED or event.blocked or spec.workflow is None:
        return Outcome(response, next_place(here, event, spec), reason, gate=gate)
    completed = next_steps.route_completed_step(
        spec, spec.workflow, state, here, event, response, rules=rules
    )
    if completed.place.stuck:
        reason = completed.place.stuck.reason
    elif completed.place.awaiting == "review":
        reason = completed.why_unsure or reason
    return Outcome(response, completed.place, reason, completed.route, completed.why_unsure, gate)


def _warn_of_invalid_choice(
    spec: EffectiveSpec, here: Place, observed: Observed, command: exit_command.ExitCommand
) -> tuple[str, ...]:
    """Warn if a doer suggests a next step that is not among its choices, instead of ignoring it silently."""
    if (
        spec.workflow is None
        or observed.phase is not Phase.DOER
        or command.action is not ExitAction.COMPLETED
    ):
        return ()
    suggestion = (command.metadata or {}).get("suggested_next_stage")
    fault = routing.choice_fault(spec.workflow, here.step, suggestion)
    return (fault,) if fault else ()


def _output_fault(observed: Observed, command: exit_command.ExitCommand) -> str:
    """Why the output of a doer violates the schema of its role; empty if it is valid or not required yet."""
    if observed.output_schema is None or command.action is not ExitAction.COMPLETED:
        return ""
    return output_schema.output_fault(command.output, observed.output_schema, observed.role)


def _conclude_question(
    spec: EffectiveSpec,
    here: Place,
    reply: Reply,
    observed: Observed,
    command: exit_command.ExitCommand,
    warnings: tuple[str, ...],
) -> Outcome:
    """Conclude an answer that is a question: the job becomes STUCK.

    This includes an invalid question: its text is still what the person has to answer.
    """
    if command.action is not ExitAction.STUCK:
        warning = (
            f"the answer is a question, but its action is {command.action}; a question always stops the job"
        )
        warnings = (*warnings, warning)
    reason = command.summary or str(command.output.get(QUESTION) or "")
    if fault := output_schema.question_fault(command.output):
        reason = f"invalid question: {fault}" + (f": {reason}" if reason else "")
    response = _build_valid_response(reply, observed, command, warnings)
    return Outcome(response, next_place(here, _build_event(observed, Action.STUCK, reason), spec), reason)


def _build_valid_response(
    reply: Reply, observed: Observed, command: exit_command.ExitCommand, warnings: tuple[str, ...]
) -> Response:
    """Build the response of a valid exit command."""
    missing = [item.path for item in observed.evidence if not item.exists]
    return _build_response(reply).model_copy(
        update={
            "actions": [command.action.value],
            "evidence_files": list(command.evidence_files),
            "summary_for_supervisor": command.summary,
            "output": command.output,
            "metadata": command.metadata,
            "reason": _get_stated_reason(command),
            "warnings": [
                *reply.warnings,
                *warnings,
                *(f"evidence file not found: {path}" for path in missing),
            ],
        }
    )


def _choose_action(
    spec: EffectiveSpec,
    here: Place,
    observed: Observed,
    command: exit_command.ExitCommand,
    gate: review.Gate | None,
) -> tuple[Action, str]:
    if command.action is ExitAction.COMPLETED and gate and gate.blocked:
        return Action.COMPLETED, gate.reason
    missing = [item.path for item in observed.evidence if not item.exists]
    if command.action is ExitAction.COMPLETED:
        if missing and _is_last_check(spec, here, observed.phase):
            return Action.STUCK, f"COMPLETED, but evidence not found: {', '.join(missing)}"
        return Action.COMPLETED, ""
    action = Action.RETRY if command.action is ExitAction.RETRY else Action.STUCK
    return action, _get_stated_reason(command) or command.summary or f"{command.action} without a reason"


def _get_stated_reason(command: exit_command.ExitCommand) -> str | None:
    """Return the agent's reason for RETRY or STUCK, if it is separate from its summary."""
    return None if command.action is ExitAction.COMPLETED else judging.get_stated_reason(command.metadata)


def _is_last_check(spec: EffectiveSpec, here: Place, phase: Phase) -> bool:
    """Whether no one checks the work after this phase: no reviewer after the doer, no steward after the reviewer."""
    return not is_step_reviewed(spec, here.step) if phase is Phase.DOER else spec.approval is Approval.NONE


def _build_response(reply: Reply) -> Response:
    return Response(
        raw_response=reply.text,
        finish=reply.finish,
        error=reply.error,
        warnings=list(reply.warnings),
        redactions=reply.redactions,
        tools=reply.tools,
        tools_failed=reply.tools_failed,
        session=reply.session,
    )


def conclude_in_doubt(spec: EffectiveSpec, state: State, role: str) -> Outcome:
    """Conclude an exchange that was sent, but whose answer never arrived."""
    reason = "in doubt: the request was sent, but it is unknown whether it was answered and charged"
    event = Event(Who.SYSTEM, Action.IN_DOUBT, role=role, reason=reason)
    return Outcome(Response(status="ERROR"), next_place(state.place, event, spec), reason)


def conclude_given_up(spec: EffectiveSpec, state: State, role: str) -> Outcome:
    """Conclude an exchange whose agent was stopped between two turns: the job stays where it is."""
    reason = "the agent was stopped before it answered; its cost is recorded"
    event = Event(Who.SYSTEM, Action.UNANSWERED, role=role, reason=reason)
    return Outcome(Response(status="ERROR"), next_place(state.place, event, spec), reason)
