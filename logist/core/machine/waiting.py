"""What a job waits for a person to do, from a state as in state.json. Imports little, because listings use it."""

from __future__ import annotations

import re
from typing import Any

from logist.core.answer import plans, questions
from logist.core.machine import advice
from logist.core.money import amounts
from logist.quick_tuple import NamedTuple

STUCK_KINDS = (
    *("question", "agent", "attempts", "permission", "in_doubt"),
    *("no_branch", "share", "conflict", "merge"),
)
"""Kinds of a STUCK job: those of the state machine, and an agent's question."""
LIMIT_KINDS = {"HALTED_COST": "cost", "HALTED_TIME": "time", "HALTED_ITERATION": "iterations"}
PROVIDER, BUDGET, PREDECESSOR, DAMAGED = "provider", "budget", "predecessor", "damaged"
KINDS = (
    *(*STUCK_KINDS, "approval", "plan", "manual", *LIMIT_KINDS.values()),
    *(PROVIDER, BUDGET, PREDECESSOR, DAMAGED),
)
"""All kinds of waiting, as a person filters them."""

KIND_TEXTS = {
    "question": "the agent asks you something",
    "agent": "the agent could not finish",
    "attempts": "all attempts are used",
    "permission": "the role does not allow what the agent did or needs",
    "in_doubt": "a call was lost; it may have been charged",
    "no_branch": "no branch of the workflow matches",
    "share": "too few child jobs succeeded",
    "conflict": "the work of the child jobs conflicts",
    "merge": "the work conflicts with later commits in the repository",
    "approval": "the work waits for your approval",
    "plan": "a plan waits for your approval",
    "manual": "you have to do this step",
    "cost": "the cost limit is reached",
    "time": "the time limit is reached",
    "iterations": "the limit of runs is reached",
    "provider": "the provider was not available",
    "budget": "a budget of all jobs is used up",
    "predecessor": "a job that must succeed first has failed, or was canceled or deleted",
    "damaged": "its files are damaged",
}
"""What each kind means, for a person who does not know Logist."""

FIRST_OF = (10, 3, 7, 11, 5, 6)
"""The exit code of an inbox is the first of these that one of its jobs has, else 0."""

_ALTERNATIVE = re.compile(r"[,;]| (?:if|when|to) ")
"""What follows the first command in an advice with several."""
_GATED_TOOL = re.compile(r"needs a steward's approval \(job resubmit --allow ([a-z_]+)\)")

State = dict[str, Any]


class Waiting(NamedTuple):
    """Why a job waits for a person, and the command that helps."""

    kind: str
    reason: str
    """The question or the reason, on one line."""
    command: str
    """The first command that a person would run."""
    advice: str
    """All commands that help."""


def find_waiting(state: State, job: str) -> Waiting | None:
    """Return what `job` waits for; None if it doesn't wait for a person, or only for its provider."""
    kind = _find_kind(state)
    if kind is None:
        return None
    commands = advice.advise_next_command(state, job)
    command = choose_command(commands)
    tool = find_gated_tool(state)
    if tool is not None:
        command = f"logist job resubmit --job {job} --allow {tool}"
    if kind == "in_doubt":  # the safe choice of the two: nothing is paid twice without being counted
        command = f"logist job resubmit --job {job} --assume-paid"
    if kind in LIMIT_KINDS.values() and " resume " not in command:
        command = advice.raise_limit_command(state["status"], job)
    return Waiting(kind, " ".join(_find_reason(state, kind).split()), command, commands)


def _find_kind(state: State) -> str | None:
    status = state["status"]
    if status == "STUCK":
        return "question" if find_question(state) is not None else str(state["stuck"]["kind"])
    if status == "APPROVAL_REQUIRED":
        if state.get("awaiting") == "manual":
            return "manual"
        return "plan" if plans.find_waiting_plan(state) else "approval"
    return LIMIT_KINDS.get(status)


def choose_command(commands: str) -> str:
    """Return the first of the commands in an advice."""
    return _ALTERNATIVE.split(commands)[0]


def find_question(state: State) -> State | None:
    """Return the question of a STUCK agent: its last output, if that has the form of a question."""
    last, stuck = state.get("last"), state.get("stuck")
    question = last.get("output") if isinstance(last, dict) and isinstance(stuck, dict) else None
    if question is None or last is None or stuck is None or not questions.is_question(question):
        return None
    reason = str(stuck.get("reason"))
    causes = (last.get("summary"), last.get("reason"), question.get("question"))
    # After a later answer that was no question, the job is STUCK for another reason.
    return question if reason in causes or reason.startswith("invalid question: ") else None


def find_gated_tool(state: State) -> str | None:
    """Return the tool that the agent may use only with a steward's approval, if the job is STUCK because of that."""
    stuck = state.get("stuck")
    if not isinstance(stuck, dict) or stuck.get("kind") != "permission":
        return None
    found = _GATED_TOOL.search(str(stuck.get("reason")))
    return found[1] if found else None


def find_assignee(state: State) -> str | None:
    """Return the assignee (a person or a role) of the manual step that a job waits for, if the workflow has one."""
    doers = state.get("doers")
    waits = state.get("awaiting") == "manual" and isinstance(doers, dict)
    doer = doers.get(state.get("step")) if waits and doers else None
    name = doer.get("role") if isinstance(doer, dict) else None
    return name if isinstance(name, str) else None


def _find_reason(state: State, kind: str) -> str:
    if kind == "question":
        question = find_question(state) or {}
        return str(question.get("question") or state["stuck"]["reason"])
    if state["status"] == "STUCK":
        return str(state["stuck"]["reason"])
    if kind == "manual":
        return f"manual step {state.get('step')}"
    if kind in LIMIT_KINDS.values():
        return _describe_limit(state, kind)
    if unsure := state.get("why_unsure"):
        return str(unsure)
    plan = plans.find_waiting_plan(state) if kind == "plan" else None
    last = plan or state.get("last") or {}
    return str(last.get("summary") or state.get("reason") or "the work is done")


def _describe_limit(state: State, kind: str) -> str:
    usage, limits = state["usage"], state["limits"]
    if kind == "cost":
        spent = amounts.join_cents(usage["cumulative_cost"], usage["cumulative_cost_microcents"])
        limit = round(limits["cost_threshold"] * amounts.MICROCENTS)
        return f"{amounts.format_money(spent)} of {amounts.format_money(limit)} used"
    if kind == "time":
        minutes = usage["cumulative_time_seconds"] / 60
        return f"{minutes:.1f} of {limits['time_threshold_minutes']:g} minutes used"
    return f"{usage['current_action_count']} of {limits['max_allowed_iterations']} runs used"


def choose_exit_code(codes: set[int]) -> int:
    """Return the first of FIRST_OF that is among the codes, else 0."""
    return next((code for code in FIRST_OF if code in codes), 0)
