"""Replay checks besides the next state: was the call allowed, were the recorded breaches real, how many
children. They don't depend on the answer, so they are judged from the recorded state before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeAlias

from logist.core.history import fold
from logist.core.machine import limits, steward
from logist.core.model import (
    Actor,
    Change,
    EffectiveSpec,
    Interaction,
    JsonObject,
    Kind,
    Observed,
    Permission,
    Permissions,
    Phase,
    Response,
    State,
    StepType,
)
from logist.core.model.commands import AskCommand, CollectCommand, SpawnCommand
from logist.core.model.words import ExitAction
from logist.core.permissions import permissions
from logist.core.template import data
from logist.core.text import paths

CHOSEN = "role_chosen"
"""In the metadata of a request whose role a person chose for this one step."""

Found: TypeAlias = "Iterator[tuple[str, object, object]]"
"""Name, recorded value, and today's value."""


def check_interaction(spec: EffectiveSpec, state: State, entry: Interaction) -> Found:
    """Yield every check whose result is different today, for an interaction that was made in `state`."""
    if entry.kind is Kind.ASK:
        if entry.exchange is None:  # with an exchange, the request was sent before later decisions
            yield from _check_call_allowed(spec, state, entry)
            yield from _check_role(spec, state, entry)
        yield from _check_breaches(entry)
        yield from _check_supplied_results(spec, state, entry)
    elif entry.kind is Kind.SPAWN:
        yield from _check_children_count(spec, state, SpawnCommand.read(entry.command))
    elif entry.kind is Kind.COLLECT:
        yield from _check_success_share(spec, state, CollectCommand.read(entry.command))
    elif entry.kind is Kind.MERGE and entry.actor is Actor.SYSTEM and state.merge != "due":
        yield "merge", "merged automatically", "not merged automatically"


def is_same_json(one: Any, other: Any) -> bool:
    """Whether two values are equal in JSON: unlike Python's `==`, this distinguishes 1 from true."""
    if isinstance(one, str) or isinstance(other, str):
        return bool(one == other)
    if type(one) is type(other) and not one and not other:  # the most frequent case, and fast
        return True
    if type(one) is type(other) is list and one == other and all(type(item) is str for item in one):
        return True
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _check_call_allowed(spec: EffectiveSpec, state: State, entry: Interaction) -> Found:
    """Check whether the agent would be asked today, at this step."""
    if entry.step is not None and entry.step != state.step:
        yield "step", entry.step, state.step
    if entry.simulated:
        return
    if (halt := limits.find_reached_limit(spec, state.usage)) is not None:
        yield "limit", "no limit reached before the call", halt.reason


def _check_role(spec: EffectiveSpec, state: State, entry: Interaction) -> Found:
    """Check which role is due, unless a person chose another role for this step, or the job was STUCK.

    Skipped for requests of an earlier Logist, which recorded neither the choice nor its version.
    """
    metadata = entry.request.metadata
    if (
        entry.observed is None
        or "logist" not in metadata
        or CHOSEN in metadata
        or state.place.stuck is not None
    ):
        return
    phase = entry.observed.phase
    today = (fold.find_doer if phase is Phase.DOER else fold.find_reviewer)(spec, state)[0]
    if entry.observed.role != today:
        yield "role", entry.observed.role, today


def _check_breaches(entry: Interaction) -> Found:
    """Check which changes of the workspace the role may not make.

    A change that was undone may or may not be recorded as a change, so only recorded changes are checked.
    """
    observed = entry.observed
    allowed = _read_permissions(entry)
    if observed is None or entry.simulated or allowed is None:
        return
    recorded = {
        each.path: str(each.change)
        for each in observed.refusals
        if each.kind == "workspace" and each.path is not None
    }
    still_forbidden = sorted(
        path for path, kind in recorded.items() if not _is_allowed(allowed, recorded, path, kind, observed)
    )
    newly_forbidden = [
        change.path
        for change in observed.changes
        if change.path not in recorded and permissions.is_forbidden(allowed, change)
    ]
    omitted = any(each.kind == "workspace" and each.path is None for each in observed.refusals)
    today = sorted([*still_forbidden, *([] if omitted else newly_forbidden)])
    if today != sorted(recorded):
        yield "refusals", sorted(recorded), today


def _is_allowed(may: Permissions, told: JsonObject, path: str, kind: str, observed: Observed) -> bool:
    """Whether a change that was recorded as a breach would be allowed today."""
    recorded_change = next((change for change in observed.changes if change.path == path), None)
    if recorded_change is None and (kind not in permissions.NEEDS or path not in told):
        return False
    change = recorded_change or Change.model_validate({"path": path, "kind": kind, "mode": ""})
    return not permissions.is_forbidden(may, change)


def _read_permissions(entry: Interaction) -> Permissions | None:
    """Return the permissions of the role at that time.

    None if the history does not record them in words of this Logist.
    """
    names = entry.request.metadata.get("permissions")
    if not isinstance(names, list) or not all(
        isinstance(name, str) and name in _PERMISSIONS for name in names
    ):
        return None
    return _build_permissions(tuple(names))


_PERMISSIONS = frozenset(permission.value for permission in Permission)


@lru_cache(maxsize=64)
def _build_permissions(names: tuple[str, ...]) -> Permissions:
    return Permissions.from_names(names)


def _check_supplied_results(spec: EffectiveSpec, state: State, entry: Interaction) -> Found:
    """Check an answer supplied by hand for a step of child jobs, in the form in which they would give it."""
    if not (entry.simulated and entry.response.actions == [ExitAction.COMPLETED]):
        return
    today = data.to_children_results(spec, entry.step or state.step, entry.response.output)
    if not is_same_json(recorded := AskCommand.read(entry.command).results, today):
        yield "results", recorded, today


def _check_children_count(spec: EffectiveSpec, state: State, command: SpawnCommand) -> Found:
    """Check how many child jobs a step has."""
    current_step = spec.workflow.find_step(state.step) if spec.workflow else None
    if current_step is None or command.fault:
        return
    count = 1
    if current_step.step_type is StepType.FOREACH:
        try:
            items = paths.lookup(data.build_step_data(spec, state), current_step.items_path or "")
        except paths.PathError:  # a checked workflow has no such path
            return
        count = len(items) if isinstance(items, list) else 0
    if count != (recorded := len(command.children)):
        yield "children", recorded, count


def _check_success_share(spec: EffectiveSpec, state: State, command: CollectCommand) -> Found:
    """Check whether enough of the children succeeded."""
    today, _ = gathered(spec, state, command)
    if today != (recorded := command.gathered):
        yield "gathered", recorded, today


def gathered(spec: EffectiveSpec, state: State, command: CollectCommand) -> tuple[Any, str]:
    """Return what a collect would record about the required share of successful children, and why it is
    missed.
    """
    doing = spec.workflow.find_step(state.step) if spec.workflow else None
    recorded = command.gathered
    if doing is None or state.forced or recorded not in ("reached", "share"):
        return recorded, ""
    good = sum(child.succeeded for child in command.children)
    percent = steward.required_success_percent(spec.workflow, doing)
    if 100 * good >= percent * len(command.children):
        return "reached", ""
    return "share", f"{good} of {len(command.children)} succeeded, but {percent:g} % must"


def check_answer(recorded: Response, today: Response, names: tuple[str, ...]) -> Found:
    """Yield the fields of an answer that are read differently today."""
    for name in names:
        then, now = getattr(recorded, name), getattr(today, name)
        if not is_same_json(then, now):
            yield f"response.{name}", then, now
