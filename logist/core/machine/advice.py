"""The next command for each state of a job, and the exit code for that state.

States are plain strings here (a Status is a string too), so that listings don't need the models.
"""

from __future__ import annotations

from typing import Any

from logist.core.answer import plans

LIMITS = {
    "HALTED_COST": "cost_threshold=CENTS",
    "HALTED_TIME": "time_threshold_minutes=MINUTES",
    "HALTED_ITERATION": "max_allowed_iterations=N",
}
"""The limit behind a HALTED state, in the form for `--set limits.`."""
_RAISE = "logist job config{job} --set limits.%s, then: logist job resume{job}"
_RAISE_LIMIT = "logist job config --job {job} --set limits.{limit}"
_RESUME = "logist job resume{job}"
"""For a halted job whose limit was raised."""
_LOOK = "logist job tail{job} to wait and watch the agent, or: logist job cancel{job} --yes to stop it and end the job"
"""While an agent works on the job."""
_COMMANDS = {
    "DRAFT": "logist job activate{job}",
    "PENDING": "logist job step{job}",
    "REVIEW_REQUIRED": "logist job step{job}",
    "WAITING": "logist job run{job}",
    "APPROVAL_REQUIRED": 'logist job approve{job}, or: logist job reject{job} --note "..."',
    "STUCK": 'logist job resubmit{job} --note "..."',
    "SUSPENDED": "logist job resume{job}",
    "HALTED_COST": _RAISE % LIMITS["HALTED_COST"],
    "HALTED_TIME": _RAISE % LIMITS["HALTED_TIME"],
    "HALTED_ITERATION": _RAISE % LIMITS["HALTED_ITERATION"],
    "SUCCESS": "logist job history{job}",
    "FAILED": "logist job rerun{job}",
    "CANCELED": "logist job rerun{job}",
}
_UNKNOWN = "logist job history{job}"
"""For a status that only a newer Logist knows, and for a job that can't continue."""
STATUSES = tuple(_COMMANDS)
"""The statuses in which a job can be."""

_IN_DOUBT = (
    "logist job resubmit{job} --assume-paid if it was charged, or: logist job resubmit{job} --retry if it was not; "
    "or: logist job poststep{job} --response-file FILE to supply the answer"
)

_MANUAL = "logist job approve{job} --output '{...}', or: logist job reject{job} --note \"...\""
"""For a step that a person does; later steps read the output."""
_PLAN = (
    "logist job role{job} Actor, then: logist job approve{job}, to carry out the plan; "
    'or: logist job approve{job} to finish the job with the plan, or: logist job reject{job} --note "..."'
)
"""For a plan, while the role that made it is the doer."""
_CARRIED_OUT = (
    'logist job approve{job} to let {carrier} carry out the plan; or: logist job reject{job} --note "..."'
)
_CHILDREN = (
    "logist job resubmit{job} when the child jobs are resolved; "
    "or: logist job resubmit{job} --force to continue with the results so far, "
    "or: logist job resubmit{job} --to STEP to create new child jobs"
)

_MERGE = (
    "logist job update{job} --resolve to have the agent resolve the conflicts, "
    "or: logist job merge{job} when they are resolved, "
    "or: logist job merge{job} --branch to merge by hand; "
    'or: logist job resubmit{job} --note "..."'
)
"""For work that conflicts with later commits in the repository."""

_REVIEW = (
    'logist job resubmit{job} --note "..." to redo the work, '
    "or: logist job resubmit{job} --review to repeat the review; "
    'or: logist job approve{job} --override "..." to accept the work'
)
"""For a review that got stuck, or sent work back once too often."""
_JUDGING = ("agent", "attempts", "permission")

_STUCK = {"in_doubt": _IN_DOUBT, "share": _CHILDREN, "conflict": _CHILDREN, "merge": _MERGE}

_REFUSED = 8
_EXIT_CODES = {
    "STUCK": 3,
    "FAILED": 4,
    "CANCELED": 4,
    "HALTED_COST": 7,
    "HALTED_TIME": 7,
    "HALTED_ITERATION": 7,
    "DRAFT": 8,
    "SUSPENDED": 8,
    "APPROVAL_REQUIRED": 11,
}


def next_command(
    status: str,
    job: str,
    stuck_kind: str | None = None,
    awaiting: str | None = None,
    *,
    unmerged: bool = False,
    reviewing: bool = False,
    plan: bool = False,
    carrier: str | None = None,
    raised: bool = False,
    adopted: bool = False,
) -> str:
    """Return the next command for `job`, an id, in this state.

    `awaiting`: what an approval is for. `unmerged`: the work can be merged into its source repository (see
    `is_unmerged`). `reviewing`: the review got stuck. `plan`: a plan waits for approval. `carrier`: the role
    that carries out the plan after approval. `raised`: the limit that halted the job has been raised since.
    `adopted`: the job is the record of a session, and can't continue.
    """
    command = _COMMANDS.get(status, _UNKNOWN)
    if status == "STUCK":
        command = _STUCK.get(stuck_kind or "", _REVIEW if reviewing and stuck_kind in _JUDGING else command)
    if status == "APPROVAL_REQUIRED":
        command = _approval_command(command, awaiting, carrier, plan=plan)
    if status == "SUCCESS" and unmerged:
        command = "logist job merge{job}"
    if status in LIMITS and raised:
        command = _RESUME
    if adopted:
        command = _UNKNOWN
    return command.replace("{job}", f" --job {job}")


def advise_next_command(state: dict[str, Any], job: str, *, running: bool = False) -> str:
    """Return the next command for a state as in state.json.

    `running`: an agent works on the job, so it accepts no other command.
    """
    if running:
        return _LOOK.replace("{job}", f" --job {job}")
    status, stuck, awaiting = state["status"], state.get("stuck"), state.get("awaiting")
    plan = plans.find_waiting_plan(state)
    return next_command(
        status,
        job,
        stuck["kind"] if stuck else None,
        awaiting,
        unmerged=is_unmerged(state.get("source"), state.get("parent"), state.get("merge")),
        reviewing=stuck is not None and stuck.get("phase") == "reviewer",
        plan=plan is not None and plans.is_plan(plan.get("output")),
        carrier=plans.find_plan_carrier(plan["role"], approved=False, doer=state["agent_role"])
        if plan
        else None,
        raised=_is_raised(state),
        adopted=isinstance(state.get("adopted"), str),
    )


def raise_limit_command(status: str, job: str) -> str:
    """Return the command that raises the limit behind a HALTED state of `job`."""
    return _RAISE_LIMIT.format(limit=LIMITS[status], job=job)


def _is_raised(state: dict[str, Any]) -> bool:
    """Whether the limit that halted the job is higher now than it was then."""
    name, halted_at = LIMITS.get(state["status"], "").partition("=")[0], state.get("halted_at")
    now = (state.get("limits") or {}).get(name)
    return isinstance(now, int | float) and isinstance(halted_at, int | float) and now > halted_at


def _approval_command(command: str, awaiting: str | None, carrier: str | None, *, plan: bool) -> str:
    if awaiting == "manual":
        return _MANUAL
    if carrier is not None:
        return _CARRIED_OUT.replace("{carrier}", carrier)
    return _PLAN if plan else command


def is_unmerged(source: str | None, parent: str | None, merge: str | None) -> bool:
    """Whether the work of a successful job still has to be merged. The arguments are fields of its state."""
    return source is not None and parent is None and merge != "merged"


def exit_code(status: str) -> int:
    """Return the exit code with which `step`, `poststep` and `run` report the status of a job."""
    return _EXIT_CODES.get(status, 0 if status in _COMMANDS else _REFUSED)
