"""Giving a step to other jobs: what the children are to be is recorded first, and they are made from that."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from logist import documents
from logist.agents.courier import shared_limits
from logist.core import condition, review, template
from logist.core.history import fold
from logist.core.machine import steward
from logist.core.machine.limits import Halt, halted, halted_above
from logist.core.model import (
    MAX_DEPTH,
    Actor,
    EffectiveSpec,
    Interaction,
    JobSpec,
    JsonObject,
    Kind,
    Spawned,
    Status,
    Step,
    StepType,
    Workflow,
)
from logist.core.model.commands import PlannedChild, SpawnCommand
from logist.core.template import data
from logist.core.text import paths
from logist.core.text.ids import is_job_id
from logist.core.workflow.limit_checks import least_runs_of_item
from logist.core.workflow.places import meant
from logist.core.workflow.roots import of_item
from logist.errors import LogistError
from logist.jobs.base.create import ChildOrigin, create
from logist.jobs.base.project import Project
from logist.jobs.base.session import Session, read_current_state
from logist.jobs.children.name_writers import find_writers
from logist.jobs.turn import next_request

MOST_INPUT = documents.MAX_BYTES // 2
"""Bytes of the input of one child, as its job.yaml writes it."""
DEEPEST_INPUT = documents.MAX_DEPTH - 4
"""Levels of it; job.yaml has some around it."""
MOST_UNSEEN = MOST_INPUT // 32
"""Characters of JSON that are not looked at twice: written out, they are not too many."""
MOST_FAULTS = 3
"""Items with a role that can't do them, that a reason names."""
LONGEST_NAME = 60
"""Characters of a name that an item gives, in a reason."""

Looked: TypeAlias = Collection[tuple[str, ...]]
"""The paths of the data that a template shows."""


def spawn(session: Session, spec: EffectiveSpec, *, strict: bool = False) -> list[Interaction]:
    """Gives the step to other jobs: the record first, then the jobs; without items it is done already.

    Raises Refused where the limits leave nothing for them. A list that can't be worked on makes the job STUCK.
    """
    flow = spec.workflow
    step = flow.step(session.state.step) if flow else None
    assert flow is not None
    assert step is not None
    checkpoint = session.project.workspace(session.job).checkpoint(f"before {step.id} is given away").commit
    found = data.of(spec, session.state)
    sequence = session.state.revision + 1
    items, fault = _items(step, found)
    fault = fault or _fault(session, spec, step, sequence, len(items))
    each = [] if fault else _data_of_each(session, step, items, found)
    roles, role_faults = _roles_of_each(session, spec, step, each)
    fault = fault or role_faults
    warnings: list[str] = []
    children = [] if fault else _planned(session, spec, step, items, each, roles, sequence, warnings)
    given = _shared(step, found, items) if children else {}
    if fault := fault or _too_large(children, given):
        children, given = [], {}
    next_request.template_warnings(session.project, list(dict.fromkeys(warnings)), strict=strict)
    command = SpawnCommand(
        tag=f"foreach:{session.job.id}",
        single=step.step_type is StepType.SUBFLOW or None,
        given=given or None,
        children=children,
        fault=fault or None,
    )
    routed = steward.routed(Kind.SPAWN, session.state, command, spec)
    after = steward.decide(Kind.SPAWN, session.state.place, command, spec, routed=routed, job=session.job.id)
    entry = session.entry(
        Kind.SPAWN,
        after,
        actor=Actor.SYSTEM,
        step=step.id,
        reason=after.stuck.reason if after.stuck else _told(step, items, found),
        command=command,
        route=routed.route if routed else [],
        checkpoint_before=checkpoint,
        checkpoint_after=checkpoint,
    )
    recorded = session.record(entry)
    if children:
        _warn_of_too_few_runs(session, spec, step, len(children))
    make(session)
    return recorded


def _warn_of_too_few_runs(session: Session, spec: EffectiveSpec, step: Step, count: int) -> None:
    """Says that the runs that are left can't be enough for all items: the first ones will use them."""
    flow, state = spec.workflow, session.state
    if flow is None or step.step_type is not StepType.FOREACH:
        return
    least = count * least_runs_of_item(step, flow.subflows, review=spec.review)
    left = spec.limits.max_allowed_iterations - state.usage.current_action_count
    if least > left:
        raise_it = f"logist job config --job {session.job.id} --set limits.max_allowed_iterations=N"
        message = f"{count} items of {step.id} take at least {least} runs, and {left} are left"
        session.project.say(f"warning: {message} ({raise_it})")


def halt(session: Session, spec: EffectiveSpec) -> Halt | None:
    """The limit in the way of giving the step away: each child needs a run at least."""
    step = spec.workflow.step(session.state.step) if spec.workflow else None
    items, fault = _items(step, data.of(spec, session.state)) if step else ([], "")
    runs = 1 if fault else max(1, len(items))
    shared = shared_limits.shared_by(session.project.jobs_dir, session.job.id, spec.limits_above)
    used_up = halted_above(shared, runs=runs)
    if used_up is not None and not (used_up.calls_out or used_up.unsettled):
        return used_up
    return halted(spec, session.state.usage, runs=runs)


def _told(step: Step, items: Sequence[Any], found: JsonObject) -> str:
    if step.step_type is StepType.SUBFLOW:
        return f"{step.name}: given to a job of its own"
    if items:
        return f"{step.name}: {len(items)} items"
    return f"{step.name}: no items, because `{step.items_path}` {_why_no_items(step, found)}"


def _why_no_items(step: Step, found: JsonObject) -> str:
    """Which of the three cases it is: each has another cause, and most often only one of them is meant."""
    value = paths.lookup(found, step.items_path or "")
    if value is paths.MISSING:
        return "is missing"
    return (
        "is an empty list" if isinstance(value, list) else f"is {condition.describe_kind(value)}, not a list"
    )


def _items(step: Step, found: JsonObject) -> tuple[list[Any], str]:
    """What the children work on, one each; or why that can't be told."""
    if step.step_type is StepType.SUBFLOW:
        return [_of_subflow(step, found)], ""
    items = paths.lookup(found, step.items_path or "")
    if not isinstance(items, list):
        return [], ""
    if len(items) > step.max_items:
        return (
            [],
            f"{step.items_path} has {len(items):,} items, and {step.id!r} takes at most {step.max_items}",
        )
    return items, ""


def _of_subflow(step: Step, found: JsonObject) -> Any:
    """The input of the child of a subflow: what is mapped, or all, and the rounds of the loops around the step."""
    rounds = {name: found[name] for name in step.rounds}
    if step.input_mapping:
        return {**rounds, **_mapped(step, found)}
    given = found["input"]
    if rounds and (given is None or isinstance(given, dict)):
        return {**(given or {}), **rounds}
    return given


def _mapped(step: Step, found: JsonObject) -> JsonObject:
    """The input of a child, where the step says what is in it."""
    values = {name: paths.lookup(found, path) for name, path in step.input_mapping.items()}
    return {name: value for name, value in values.items() if value is not paths.MISSING}


def _fault(session: Session, spec: EffectiveSpec, step: Step, sequence: int, count: int) -> str:
    """Why no children can be made here."""
    ids = [_child_id(session, sequence, number) for number in range(1, count + 1)]
    if not all(map(is_job_id, ids)):
        return f"the id of a child, {ids[-1]!r}, is too long: give the job a shorter one"
    taken = next((name for name in ids if os.path.lexists(session.project.jobs_dir / name)), None)
    if taken:
        return f"there is a job {taken!r} already, so none can be made for {step.id!r}: move it away"
    if ids and not step.has_role_template and (fault := _not_to_give(session, spec, step, step.role)):
        return fault
    depth, above = 1, session.state.parent
    while above is not None and depth <= MAX_DEPTH:
        depth += 1
        above = _parent_of(session.project, above)
    return f"workflows are {depth} deep, and {MAX_DEPTH} is the most" if depth > MAX_DEPTH else ""


def _giver(session: Session, spec: EffectiveSpec) -> str:
    """The job's own role: a steward's switch, or what the spec says."""
    return session.state.agent_role if fold.is_switched(session.state) else spec.doer


def _not_to_give(
    session: Session, spec: EffectiveSpec, step: Step, role: str | None, choosers: Sequence[str] = ()
) -> str:
    """Why the job's role may not give this step to that role: it may list those that it gives work to.

    `choosers` are the roles that wrote the name of this one; they may list them too.
    """
    flow, roles = spec.workflow, session.project.roles
    giver = _giver(session, spec)
    inner = flow.subflows.get(step.subflow) if flow and step.subflow else None
    given = [(giver, role), *((role or giver, name) for name in _roles_of(inner))]
    given += [(chooser, role) for chooser in choosers]
    for who, target in given:
        listed = roles.get(who).can_delegate_to_roles
        if listed and target not in (None, who, *listed):
            return f"the role {who} may not give work to {target}; it may to: {', '.join(listed)}"
    return ""


def _roles_of(flow: Workflow | None) -> list[str]:
    """Those that its steps name, in their order."""
    return list(dict.fromkeys(name for step in (flow.steps if flow else ()) for name in step.agent_roles))


def _roles_of_each(
    session: Session, spec: EffectiveSpec, step: Step, each: Sequence[JsonObject]
) -> tuple[list[str], str]:
    """The role that does each item; or what is wrong with those that the items name, each with its place in the list."""
    if not step.has_role_template:
        role, _ = fold.doer(spec, session.state)
        return [step.role or role] * len(each), ""
    choosers = _Choosers(session, step)
    roles, faults = [], []
    for index, known in enumerate(each):
        role, looked, fault = _role_of_item(step, known)
        fault = fault or _unfit(session, spec, step, role, choosers.of(looked))
        roles.append(role)
        faults += [f"{step.items_path}[{index}]: {fault}"] if fault else []
    more = f"; and {len(faults) - MOST_FAULTS} more" if len(faults) > MOST_FAULTS else ""
    return roles, "; ".join(faults[:MOST_FAULTS]) + more


def _role_of_item(step: Step, known: JsonObject) -> tuple[str, Looked, str]:
    """The role that an item names and the paths that name it, or why it names none."""
    try:
        filled = template.render(step.role or "", known, strict=True)
    except template.TemplateError as error:
        return "", frozenset(), f"no role, because `{step.role}` can't be filled: {error}"
    role = filled.text.strip()
    return role, filled.looked, "" if role else f"no role, because `{step.role}` is empty"


def _unfit(session: Session, spec: EffectiveSpec, step: Step, role: str, choosers: Sequence[str]) -> str:
    """Why a role that an item names can't do it."""
    roles = session.project.roles
    try:
        if role in roles.by_name:
            return _not_to_give(session, spec, step, role, choosers)
        if role in roles.broken:
            roles.get(role)
        lists = [roles.get(who).can_delegate_to_roles for who in (*choosers, _giver(session, spec))]
    except LogistError as error:
        return f"the role {role} can't be used: {error.message}"
    name = _quoted(role)
    fix = meant(role, next(filter(None, lists), roles.by_name))
    return f"there is no role {name} ({fix})" if fix else f"there is no role {name}"


def _quoted(name: str) -> str:
    """A name that an item gives, as a reason shows it: what can't be seen is escaped, else it may look like a role."""
    short = name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "..."
    return "".join(
        each if each.isprintable() else json.dumps(each)[1:-1]
        for each in json.dumps(short, ensure_ascii=False)
    )


class _Choosers:
    """The roles that wrote the items of a foreach, or the names of the roles that do them.

    A fixed role was chosen by the author of the workflow, so the job's role alone bounds it. These are chosen by an
    agent, which must not get work done by a role that it may not give any.
    """

    def __init__(self, session: Session, step: Step) -> None:
        self._session = session
        self._items = paths.parse(step.items_path or "")
        self._of_items = {*of_item(step), *step.rounds, "index", "total"}
        self._writers: dict[Sequence[str | int], frozenset[str]] = {}

    def of(self, looked: Looked) -> list[str]:
        """Those who chose the role of an item, from the paths that its template looked up."""
        named = {path for path in looked if not path or path[0] not in self._of_items}
        return sorted(frozenset().union(*map(self._wrote, ({self._items} | named))))

    def _wrote(self, path: Sequence[str | int]) -> frozenset[str]:
        if path not in self._writers:
            self._writers[path] = find_writers(self._session, path)
        return self._writers[path]


def _parent_of(project: Project, job_id: str) -> str | None:
    try:
        parent = read_current_state(project.job(job_id)).get("parent")
    except LogistError:
        return None
    return parent if isinstance(parent, str) else None


def _child_id(session: Session, sequence: int, number: int) -> str:
    return f"{session.job.id}--{sequence}-{number}"


def _planned(
    session: Session,
    spec: EffectiveSpec,
    step: Step,
    items: Sequence[Any],
    each: Sequence[JsonObject],
    roles: Sequence[str],
    sequence: int,
    warnings: list[str],
) -> list[PlannedChild]:
    """All that the children are made from, so that they can be made again and again."""
    flow = spec.workflow
    assert flow is not None
    own_limits = step.item_limits.model_dump(exclude_defaults=True) if step.item_limits else {}
    children = []
    for index, (item, known, role) in enumerate(zip(items, each, roles, strict=True)):
        number, total = index + 1, len(items)
        single = step.step_type is StepType.SUBFLOW
        own = {} if single else _own(step, item, index, total, known)
        mapped = {} if single else _mapped(step, known)
        prompt, missed = _rendered(step, known)
        warnings += missed
        children.append(
            PlannedChild(
                id=_child_id(session, sequence, number),
                title=f"{flow.name}: {step.name}" + ("" if single else f" [{number}/{total}]"),
                prompt=session.project.redacted(prompt),
                input=item if single else {**mapped, **own},
                limits=own_limits,
                shares_limits=True,
                role=role,
            )
        )
    return children


def _data_of_each(session: Session, step: Step, items: Sequence[Any], found: JsonObject) -> list[JsonObject]:
    """What templates see at each item."""
    known = {**found, "parentId": session.job.id}
    if step.step_type is StepType.SUBFLOW:
        return [known] * len(items)
    return [{**known, **_own(step, item, index, len(items), found)} for index, item in enumerate(items)]


def _own(step: Step, item: Any, index: int, total: int, found: JsonObject) -> JsonObject:
    """What a child of a foreach has that the others don't have, and the rounds of the loops around the foreach."""
    names = {step.index_variable: index, step.number_variable: index + 1}
    return {
        **{name: found[name] for name in step.rounds},
        **{name: value for name, value in names.items() if name},
        step.item_variable: item,
        "index": index,
        "total": total,
    }


def _too_large(children: Sequence[PlannedChild], given: JsonObject) -> str:
    """Why the largest of the children could not read its own job.yaml."""
    if not children:
        return ""
    own = max((child.input for child in children), key=lambda each: len(json.dumps(each)))
    given = {**given, **own} if given else own
    deepest = max(_depth(child.input) for child in children)
    if deepest > DEEPEST_INPUT:
        return f"the input of a child is {deepest} levels deep, and {DEEPEST_INPUT} is the most"
    if len(json.dumps(given)) < MOST_UNSEEN:
        return ""
    size = len(documents.dumped({"input": given}).encode("utf-8"))
    return (
        f"the input of a child would take {size:,} bytes, and {MOST_INPUT:,} is the most"
        if size > MOST_INPUT
        else ""
    )


def _depth(value: Any) -> int:
    """Levels of objects and lists within each other."""
    deepest, level = 0, [value]
    while level:
        held = [each for each in level if isinstance(each, dict | list)]
        level = [one for each in held for one in (each.values() if isinstance(each, dict) else each)]
        deepest += bool(held)
    return deepest


def _shared(step: Step, found: JsonObject, items: Sequence[Any]) -> JsonObject:
    """What every child of a foreach is given beside its item, unless the step says that; never all the items."""
    if step.step_type is not StepType.FOREACH or step.input_mapping:
        return {}
    given = _without(found["input"], items)
    return given if isinstance(given, dict) else {} if given is None else {"input": given}


def _without(value: Any, items: Sequence[Any]) -> Any:
    if value is items:
        return None
    if not isinstance(value, dict):
        return value
    return {name: _without(held, items) for name, held in value.items() if held is not items}


def _rendered(step: Step, found: JsonObject) -> tuple[str, list[str]]:
    """The prompt of one child, and what of its template could not be filled."""
    if step.rendered or step.subflow:
        return step.prompt, []
    prompt = step.prompt or step.name
    try:
        filled = template.render(prompt, found)
    except template.TemplateError as error:
        return prompt, [f"step {step.id!r}: {error}"]
    return filled.text, [f"step {step.id!r}: {warning}" for warning in filled.warnings]


def make(session: Session) -> None:
    """Makes the children that are not there yet; each appears whole, or not at all."""
    spawned = session.state.spawned
    if session.state.status is not Status.WAITING or spawned is None:
        return
    project = session.project
    missing = [child for child in session.state.children if not (project.jobs_dir / child).exists()]
    if not missing:
        return
    entries = [entry for entry in session.history() if entry.sequence <= spawned.sequence]
    entry = entries[-1]
    spec = next(each.spec for each in reversed(entries) if each.spec)  # as it was when they were planned
    command = SpawnCommand.read(entry.command)
    wanted = {child.id: child for child in command.children}
    for child_id in missing:
        child = wanted[child_id]
        if command.given:
            child = child.model_copy(update={"input": {**command.given, **child.input}})
        _make(session, spec, spawned, child)


def _make(session: Session, spec: EffectiveSpec, spawned: Spawned, child: PlannedChild) -> None:
    flow = spec.workflow
    step = flow.step(spawned.step) if flow else None
    assert flow is not None
    assert step is not None
    if step.subflow:
        own = flow.subflows[step.subflow].model_copy(update={"subflows": flow.subflows})
    else:
        alone = step.model_copy(
            update={
                "step_type": StepType.TASK,
                "prompt": child.prompt,
                "rendered": True,
                "when": None,
                "confirm": False,
                "items_path": None,
                **({"role": child.role} if step.has_role_template else {}),
            }
        )
        own = flow.model_copy(
            update={"steps": (alone,), "edges": (), "start": step.id, "subflows": {}, "mermaid": None}
        )
    asked = JobSpec.model_validate(
        {
            "title": child.title,
            "tags": [spawned.tag],
            "role": child.role,
            "approval": "none",
            "review": spec.review,
            "review_mode": review.mode_of(spec),
            "auto_merge": False,
            "review_role": spec.reviewer if spec.reviewer_source == "job" else None,
            "limits": child.limits,
            "shares_limits": child.shares_limits,  # an earlier version gave each a part of what was left
            "rank": spec.rank,
            "workflow": own.name,
            "input": child.input,
            "parent": session.job.id,
        }
    )
    create(
        session.project,
        child.id,
        asked,
        child=ChildOrigin(Path(session.job.git_dir), spawned.checkpoint, own),
    )
