"""What a person can decide about a job of the inbox, and makes these decisions."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

from logist.core.answer import plans
from logist.core.machine import advice, waiting
from logist.core.machine.predecessors import drop_failed
from logist.core.model import HALTED, Kind, Phase, State, Status, StuckKind
from logist.core.model.commands import ApproveCommand, RecordedCommand, ResubmitCommand
from logist.core.permissions.tools import TOOLS, is_server_tool
from logist.errors import Refused, UsageError
from logist.jobs.base.predecessors import find_unmet_of
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.result import CommandResult
from logist.jobs.base.session import load_session
from logist.jobs.steward import approved_work
from logist.jobs.steward.job_edits import configure_job
from logist.jobs.steward.job_merge import merge_job
from logist.jobs.steward.role_switch import switch_role
from logist.jobs.steward.steward_decisions import record_decision
from logist.quick_dataclass import dataclass

CARRIER = "Actor"
"""The role that carries out a plan, as `job status` suggests it."""

PAID_TEXT = (
    "The request was sent, but its answer is lost. Did the provider charge it? Its web page shows that. "
    "If yes, or if you don't know, the highest possible cost stays booked; if no, it is released."
)
"""What to ask where a person has to say whether a lost call was charged."""


class Input(StrEnum):
    """What a person has to enter for a decision."""

    NOTHING = "nothing"
    NOTE = "note"
    """A text, which may not be empty."""
    OPTIONAL_NOTE = "optional note"
    OUTPUT = "output"
    """A JSON value, or nothing."""
    STEP = "step"
    """The name of a step, or nothing."""
    LIMIT = "limit"
    """A number."""
    PAID = "paid"
    """`assume_paid` or `retry`."""
    ANSWER = "answer"
    """The answer of an agent, written by hand."""
    CONFIRMATION = "confirmation"


@dataclass(frozen=True)
class DecisionChoice:
    """A decision that the state of a job allows."""

    name: str
    key: str
    """The key on a terminal."""
    text: str
    """What it does, for a person who does not know Logist."""
    input: Input = Input.NOTHING
    question: str = ""
    """What to ask the person for, if something has to be entered."""


def list_decisions(state: State, kind: str | None = None) -> list[DecisionChoice]:
    """Return what a person can decide about a job in this state; cancel is always the last one.

    `kind`: why it is in the inbox; None if it is not.
    """
    choices: list[DecisionChoice] = []
    if state.status is Status.APPROVAL_REQUIRED:
        choices = _list_approvals(state)
    elif state.place.stuck is not None and state.status is Status.STUCK:
        choices = _list_stuck_decisions(state)
    elif state.status in HALTED:
        text = "raise the limit, and let the job continue"
        choices = [DecisionChoice("raise_limit", "l", text, Input.LIMIT, _ask_for_limit(state))]
    elif kind == waiting.PROVIDER:
        text = "try again: the next run calls the provider at once"
        choices = [DecisionChoice("end_wait", "r", text)]
    elif kind == waiting.PREDECESSOR:
        text = "don't wait: the job begins without those that can't succeed by themselves"
        choices = [DecisionChoice("drop_failed", "d", text)]
    cancel = DecisionChoice("cancel", "c", "cancel the job; its files are kept", Input.CONFIRMATION, "Cancel")
    return [*choices, cancel]


def _list_approvals(state: State) -> list[DecisionChoice]:
    reject = DecisionChoice(
        "reject", "r", "reject: send it back with a note, which the agent reads", Input.NOTE, "What is wrong"
    )
    if state.place.awaiting == "manual":
        done = "done: you have done this step, and the job continues"
        question = "Result as JSON for later steps (Enter: none)"
        impossible = "not possible: the job becomes STUCK, with your note as the reason"
        return [
            DecisionChoice("approve", "a", done, Input.OUTPUT, question),
            DecisionChoice("reject", "r", impossible, Input.NOTE, "Why not"),
        ]
    plan = plans.find_waiting_plan(state.model_dump(mode="json"))
    if plan is None or not plans.is_plan(plan.get("output")):
        return [
            DecisionChoice("approve", "a", "approve: accept the work, and let the job continue or end"),
            reject,
        ]
    carrier = plans.find_plan_carrier(plan["role"], approved=False, doer=state.agent_role)
    if carrier is not None:
        text = f"approve the plan: {carrier} carries it out next"
        return [DecisionChoice("approve", "a", text), reject]
    return [
        DecisionChoice("carry_out", "a", f"approve the plan: the role {CARRIER} carries it out next"),
        DecisionChoice("approve", "f", "finish: accept the plan as the result, without carrying it out"),
        reject,
    ]


def _list_stuck_decisions(state: State) -> list[DecisionChoice]:
    stuck = state.place.stuck
    assert stuck is not None
    note = "Note for the agent (Enter: none)"
    again = DecisionChoice(
        "resubmit", "r", "try again: the agent does the step again", Input.OPTIONAL_NOTE, note
    )
    answer = DecisionChoice(
        "answer", "w", "write the answer yourself, instead of the agent", Input.ANSWER, "Answer"
    )
    match stuck.kind:
        case StuckKind.IN_DOUBT:
            text = "try again; first say whether the lost call was charged"
            return [DecisionChoice("resubmit", "r", text, Input.PAID), answer]
        case StuckKind.NO_BRANCH:
            text = "try again, at this step or another one"
            question = f"Step to continue at (Enter: {state.step})"
            return [DecisionChoice("resubmit_at", "r", text, Input.STEP, question)]
        case StuckKind.SHARE | StuckKind.CONFLICT:
            return [
                DecisionChoice("resubmit", "r", "check the child jobs again, after you have resolved them"),
                DecisionChoice("force", "f", "continue with the results that there are, without the rest"),
                DecisionChoice("respawn", "t", "do the step again, with new child jobs"),
            ]
        case StuckKind.MERGE:
            return [
                DecisionChoice("merge", "m", "merge again, after you have resolved the conflicts"),
                again,
            ]
    choices = [again]
    if waiting.find_question(state.model_dump(mode="json")) is not None:
        text = "reply: the agent reads your answer, and tries again"
        choices = [DecisionChoice("resubmit", "r", text, Input.NOTE, "Your answer")]
    tool = find_gated_tool(state)
    if tool is not None:
        text = f"allow the tool {tool} until the job gets stuck again, and try again"
        choices.append(DecisionChoice("allow", "p", text, Input.OPTIONAL_NOTE, note))
    elif stuck.kind is StuckKind.PERMISSION and stuck.phase is Phase.DOER:
        text = "try again with another role, which may do that"
        choices.append(DecisionChoice("switch", "x", text, Input.NOTE, "Name of the role, such as Worker"))
    if stuck.phase is Phase.REVIEWER:
        text = "accept the work in spite of the review; give the reason"
        choices = [
            DecisionChoice("resubmit", "r", "redo the work, then review it again", Input.OPTIONAL_NOTE, note),
            DecisionChoice("review", "v", "repeat only the review"),
            DecisionChoice("override", "a", text, Input.NOTE, "Reason"),
            *choices[1:],
        ]
    if stuck.kind in (StuckKind.AGENT, StuckKind.ATTEMPTS):
        choices.append(answer)
    return choices


def find_gated_tool(state: State) -> str | None:
    """Return the tool that a steward must allow first, if the job is STUCK because of that."""
    tool = waiting.find_gated_tool(state.model_dump(mode="json"))
    return tool if tool is not None and (tool in TOOLS or is_server_tool(tool)) else None


_LIMIT_UNITS = {
    "cost_threshold": "US cents",
    "time_threshold_minutes": "minutes",
    "max_allowed_iterations": "runs",
}


def _ask_for_limit(state: State) -> str:
    name = _find_limit(state)
    return f"New limit in {_LIMIT_UNITS[name]} (now {getattr(state.limits, name):g})"


def _find_limit(state: State) -> str:
    return advice.LIMITS[state.status].partition("=")[0]


def make_decision(
    project: ProjectContext,
    job_id: str,
    shown: State,
    choice: DecisionChoice,
    entered: str = "",
    *,
    seen: str | None = None,
) -> CommandResult:
    """Make a decision about a job that a person has seen in the state `shown`.

    `seen`: the review hash of the work that was shown; an approval applies only to that. `entered`: what
    `choice.input` asks for. An answer by hand is recorded by `step_job.do_poststep` instead. Raises Refused if the job
    has changed since, UsageError for an invalid value.
    """
    require_unchanged(project, job_id, shown)
    note = entered.strip() or None
    if choice.input is Input.NOTE and note is None:
        raise UsageError("a text is required", where=choice.question)
    if choice.name == "raise_limit":
        return _raise_limit(project, job_id, shown, entered)
    if choice.name == "end_wait":
        project.open_job(job_id).end_wait()
        return CommandResult(job_id, shown)
    if choice.name == "drop_failed":
        return _drop_failed(project, job_id, shown)
    if choice.name == "merge":
        return merge_job(project, job_id, revision=shown.revision).result
    if choice.name == "switch":
        revision = switch_role(project, job_id, entered.strip(), revision=shown.revision).state.revision
        return record_decision(project, job_id, Kind.RESUBMIT, revision=revision)
    if choice.name == "carry_out":
        return _approve_plan(project, job_id, shown, seen)
    kind, command = _build_command(shown, choice, entered)
    texts = (Input.NOTE, Input.OPTIONAL_NOTE)
    return record_decision(
        project,
        job_id,
        kind,
        note=note if choice.input in texts else None,
        command=command,
        revision=shown.revision,
        seen=seen if kind is Kind.APPROVE else None,
    )


def _drop_failed(project: ProjectContext, job_id: str, shown: State) -> CommandResult:
    """Take the predecessors that can't succeed by themselves out of job.yaml."""
    after = shown.after or []
    rest = drop_failed(after, find_unmet_of(project, job_id, shown, after))
    return configure_job(project, job_id, {("after",): rest or None}, revision=shown.revision)


def _approve_plan(project: ProjectContext, job_id: str, shown: State, seen: str | None) -> CommandResult:
    """Switch the role to the one that carries out the plan, and approve exactly what the person has seen."""
    name_seen = approved_work.carry_seen(project, project.open_job(job_id), shown, seen) if seen else None
    revision = switch_role(project, job_id, CARRIER, revision=shown.revision).state.revision
    seen = name_seen(revision) if name_seen is not None else None
    return record_decision(project, job_id, Kind.APPROVE, revision=revision, seen=seen)


def require_unchanged(project: ProjectContext, job_id: str, shown: State) -> None:
    """Raise Refused if the job has changed since a person has seen it in the state `shown`.

    Before a person's answer is read, and anything is done; what records the decision checks again under the lock.
    """
    state = load_session(project, project.open_job(job_id)).state
    if state.revision != shown.revision:
        message = (
            f"{job_id} has changed since you looked at it: it is now {state.status}; nothing was decided"
        )
        raise Refused(message, fix=f"logist job status --job {job_id}")


def _build_command(state: State, choice: DecisionChoice, entered: str) -> tuple[Kind, RecordedCommand | None]:
    match choice.name:
        case "approve":
            return Kind.APPROVE, _build_approval(entered) if choice.input is Input.OUTPUT else None
        case "override":
            return Kind.APPROVE, ApproveCommand(override=True)
        case "reject":
            return Kind.REJECT, None
        case "cancel":
            return Kind.CANCEL, None
        case "review":
            return Kind.RESUBMIT, ResubmitCommand(review=True)
        case "force":
            return Kind.RESUBMIT, ResubmitCommand(force=True)
        case "respawn":
            return Kind.RESUBMIT, ResubmitCommand(step=state.step)
        case "resubmit_at":
            return Kind.RESUBMIT, ResubmitCommand(step=entered.strip() or None)
        case "allow":
            return Kind.RESUBMIT, ResubmitCommand(allow=[find_gated_tool(state) or ""])
    doubt = entered if choice.input is Input.PAID else None
    return Kind.RESUBMIT, ResubmitCommand(doubt=doubt)


def _build_approval(entered: str) -> ApproveCommand:
    if not entered.strip():
        return ApproveCommand()
    try:
        output: Any = json.loads(entered)
    except (ValueError, RecursionError):
        fix = 'for example: {"ok": true}, or "a text in quotes"'
        raise UsageError("the result is not valid JSON", where=entered[:60], fix=fix) from None
    return ApproveCommand(output=output)


def _raise_limit(project: ProjectContext, job_id: str, shown: State, entered: str) -> CommandResult:
    name = _find_limit(shown)
    now = getattr(shown.limits, name)
    try:
        limit = float(entered)
    except ValueError:
        limit = 0.0
    if not now < limit < float("inf"):
        raise UsageError(f"expected a number above {now:g}", where=entered[:60] or "limit")
    value = int(limit) if limit.is_integer() or name == "max_allowed_iterations" else limit
    revision = configure_job(
        project, job_id, {("limits", name): value}, revision=shown.revision
    ).state.revision
    return record_decision(project, job_id, Kind.RESUME, revision=revision)
