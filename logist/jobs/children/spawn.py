"""Delegates a step to child jobs: their plan is recorded first, and the jobs are created from the record."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

from logist import documents
from logist.agents.courier import shared_limits
from logist.core import condition, review, template
from logist.core.history import fold
from logist.core.machine import steward
from logist.core.machine.limits import Halt, find_reached_limit, find_reached_limit_above
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
from logist.core.text.counts import format_count
from logist.core.text.ids import is_job_id
from logist.core.workflow.item_names import name_item
from logist.core.workflow.limit_checks import count_least_runs_of_item
from logist.core.workflow.places import suggest_name
from logist.core.workflow.roots import get_item_names
from logist.errors import LogistError
from logist.jobs.base.create import ChildOrigin, create_job
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.session import Session
from logist.jobs.base.stored_records import read_current_state
from logist.jobs.children.name_writers import find_writers
from logist.jobs.turn import next_request
from logist.workspace import KnownStart

MOST_INPUT = documents.MAX_BYTES // 2
"""Maximum size of the input of one child in its job.yaml, in bytes."""
DEEPEST_INPUT = documents.MAX_DEPTH - 4
"""Maximum nesting of that input; job.yaml adds some levels around it."""
MOST_UNSEEN = MOST_INPUT // 32
"""An input with fewer characters of JSON is small enough in any case, so its size is not measured."""
MOST_FAULTS = 3
"""How many items with an unusable role a reason lists."""
LONGEST_NAME = 60
"""How many characters of a name from an item a reason quotes."""

Looked: TypeAlias = Collection[tuple[str, ...]]
"""The paths of the data that a template reads."""


def spawn_children(session: Session, spec: EffectiveSpec, *, strict: bool = False) -> list[Interaction]:
    """Delegate the step to child jobs: first the record, then the jobs; without items the step is already done.

    Raises Refused if the limits leave nothing for them. A list that can't be used makes the job STUCK.
    """
    flow = spec.workflow
    step = flow.find_step(session.state.step) if flow else None
    assert flow is not None
    assert step is not None
    checkpoint = (
        session.project.open_workspace(session.job)
        .create_checkpoint(f"before creating child jobs for {step.id}")
        .commit
    )
    step_data = data.build_step_data(spec, session.state)
    sequence = session.state.revision + 1
    items, fault = _find_items(step, step_data)
    fault = fault or _find_obstacle(session, spec, step, sequence, len(items))
    data_of_items = [] if fault else _build_item_data(session, step, items, step_data)
    roles, role_faults = _resolve_item_roles(session, spec, step, data_of_items)
    fault = fault or role_faults
    warnings: list[str] = []
    children = (
        [] if fault else _plan_children(session, spec, step, items, data_of_items, roles, sequence, warnings)
    )
    shared_input = _build_shared_input(step, step_data, items) if children else {}
    if fault := fault or _explain_too_large(children, shared_input):
        children, shared_input = [], {}
    next_request.report_template_warnings(session.project, list(dict.fromkeys(warnings)), strict=strict)
    command = SpawnCommand(
        tag=f"foreach:{session.job.id}",
        single=step.step_type is StepType.SUBFLOW or None,
        given=shared_input or None,
        children=children,
        fault=fault or None,
    )
    route = steward.route_command(Kind.SPAWN, session.state, command, spec)
    after = steward.apply_command(
        Kind.SPAWN, session.state.place, command, spec, routed=route, job=session.job.id
    )
    entry = session.build_interaction(
        Kind.SPAWN,
        after,
        actor=Actor.SYSTEM,
        step=step.id,
        reason=after.stuck.reason if after.stuck else _describe_spawn(step, items, step_data),
        command=command,
        route=route.route if route else [],
        checkpoint_before=checkpoint,
        checkpoint_after=checkpoint,
    )
    recorded = session.record(entry)
    if children:
        _warn_of_too_few_runs(session, spec, step, len(children))
    create_missing_children(session)
    return recorded


def _warn_of_too_few_runs(session: Session, spec: EffectiveSpec, step: Step, count: int) -> None:
    """Warn that the remaining runs can't be enough for all items: the first items will use them."""
    flow, state = spec.workflow, session.state
    if flow is None or step.step_type is not StepType.FOREACH:
        return
    least = count * count_least_runs_of_item(step, flow.subflows, review=spec.review)
    remaining = spec.limits.max_allowed_iterations - state.usage.current_action_count
    if least > remaining:
        hint = f"to raise the limit: logist job config --job {session.job.id} --set limits.max_allowed_iterations=N"
        message = f"{format_count(count, 'item')} of {step.id} will need {format_count(least, 'run')} or more; runs left: {remaining}"
        session.project.say(f"warning: {message} ({hint})")


def find_spawn_halt(session: Session, spec: EffectiveSpec) -> Halt | None:
    """The limit that prevents creating the child jobs, None if none does: each child needs at least one run."""
    step = spec.workflow.find_step(session.state.step) if spec.workflow else None
    items, fault = _find_items(step, data.build_step_data(spec, session.state)) if step else ([], "")
    runs = 1 if fault else max(1, len(items))
    shared = shared_limits.list_shared_limits(session.project.jobs_dir, session.job.id, spec.limits_above)
    used_up = find_reached_limit_above(shared, runs=runs)
    if used_up is not None and not (used_up.calls_out or used_up.unsettled):
        return used_up
    return find_reached_limit(spec, session.state.usage, runs=runs)


def _describe_spawn(step: Step, items: Sequence[Any], found: JsonObject) -> str:
    if step.step_type is StepType.SUBFLOW:
        return f"{step.name}: delegated to a child job"
    if items:
        return f"{step.name}: {format_count(len(items), 'item')}"
    return f"{step.name}: no items, because `{step.items_path}` {_explain_no_items(step, found)}"


def _explain_no_items(step: Step, found: JsonObject) -> str:
    """Explain why there are no items: missing, empty or not a list. Usually only one of these is intended."""
    value = paths.lookup(found, step.items_path or "")
    if value is paths.MISSING:
        return "is missing"
    return (
        "is an empty list" if isinstance(value, list) else f"is {condition.describe_kind(value)}, not a list"
    )


def _find_items(step: Step, found: JsonObject) -> tuple[list[Any], str]:
    """The items that the children work on, one each; or why they can't be determined."""
    if step.step_type is StepType.SUBFLOW:
        return [_build_subflow_input(step, found)], ""
    items = paths.lookup(found, step.items_path or "")
    if not isinstance(items, list):
        return [], ""
    if len(items) > step.max_items:
        return (
            [],
            f"{step.items_path} has {format_count(len(items), 'item')}, but {step.id!r} allows at most {step.max_items}",
        )
    return items, ""


def _build_subflow_input(step: Step, found: JsonObject) -> Any:
    """The input of a subflow's child: what is mapped, or everything, and the
    rounds of the loops around the step.
    """
    rounds = {name: found[name] for name in step.rounds}
    if step.input_mapping:
        return {**rounds, **_map_input(step, found)}
    given = found["input"]
    if rounds and (given is None or isinstance(given, dict)):
        return {**(given or {}), **rounds}
    return given


def _map_input(step: Step, found: JsonObject) -> JsonObject:
    """The input of a child if the step has an input mapping."""
    values = {name: paths.lookup(found, path) for name, path in step.input_mapping.items()}
    return {name: value for name, value in values.items() if value is not paths.MISSING}


def _find_obstacle(session: Session, spec: EffectiveSpec, step: Step, sequence: int, count: int) -> str:
    """Why no children can be created here; empty if they can."""
    ids = [_make_child_id(session, sequence, number) for number in range(1, count + 1)]
    if not all(map(is_job_id, ids)):
        return f"the child job id {ids[-1]!r} is too long: use a shorter id for this job"
    existing = next((name for name in ids if os.path.lexists(session.project.jobs_dir / name)), None)
    if existing:
        return (
            f"job {existing!r} already exists, so no child job can be created for {step.id!r}: move it away"
        )
    if (
        ids
        and not step.has_role_template
        and (fault := _explain_forbidden_role(session, spec, step, step.role))
    ):
        return fault
    depth, above = 1, session.state.parent
    while above is not None and depth <= MAX_DEPTH:
        depth += 1
        above = _read_parent(session.project, above)
    return f"workflows are nested {depth} levels deep; the limit is {MAX_DEPTH}" if depth > MAX_DEPTH else ""


def _find_giver(session: Session, spec: EffectiveSpec) -> str:
    """The job's own role: the role a steward switched to, else that of the spec."""
    return session.state.agent_role if fold.is_switched(session.state) else spec.doer


def _explain_forbidden_role(
    session: Session, spec: EffectiveSpec, step: Step, role: str | None, choosers: Sequence[str] = ()
) -> str:
    """Why the job's role may not delegate this step to that role; empty if it may. A role can list its delegates.

    `choosers` are the roles that wrote the name of this one; they may have such a list too.
    """
    flow, roles = spec.workflow, session.project.roles
    giver = _find_giver(session, spec)
    inner = flow.subflows.get(step.subflow) if flow and step.subflow else None
    pairs = [(giver, role), *((role or giver, name) for name in _list_agent_roles(inner))]
    pairs += [(chooser, role) for chooser in choosers]
    for who, target in pairs:
        allowed = roles.get(who).can_delegate_to_roles
        if allowed and target not in (None, who, *allowed):
            return f"the role {who} may not delegate work to {target}; allowed roles: {', '.join(allowed)}"
    return ""


def _list_agent_roles(flow: Workflow | None) -> list[str]:
    """The roles that the steps of a workflow name, in order."""
    return list(dict.fromkeys(name for step in (flow.steps if flow else ()) for name in step.agent_roles))


def _resolve_item_roles(
    session: Session, spec: EffectiveSpec, step: Step, each: Sequence[JsonObject]
) -> tuple[list[str], str]:
    """The role for each item; or the problems of roles that items name, each
    with its position in the list.
    """
    if not step.has_role_template:
        role, _ = fold.find_doer(spec, session.state)
        return [step.role or role] * len(each), ""
    choosers = _Choosers(session, step)
    roles, faults = [], []
    for index, known in enumerate(each):
        role, looked, fault = _resolve_item_role(step, known)
        fault = fault or _explain_unfit_role(session, spec, step, role, choosers.find_choosers(looked))
        roles.append(role)
        faults += [f"{step.items_path}[{index}]: {fault}"] if fault else []
    more = f"; and {len(faults) - MOST_FAULTS} more" if len(faults) > MOST_FAULTS else ""
    return roles, "; ".join(faults[:MOST_FAULTS]) + more


def _resolve_item_role(step: Step, known: JsonObject) -> tuple[str, Looked, str]:
    """The role that an item names and the paths that name it, or why it names none."""
    try:
        filled = template.render(step.role or "", known, strict=True)
    except template.TemplateError as error:
        return "", frozenset(), f"no role: can't fill the placeholders of `{step.role}`: {error}"
    role = filled.text.strip()
    return role, filled.looked, "" if role else f"no role: `{step.role}` is empty"


def _explain_unfit_role(
    session: Session, spec: EffectiveSpec, step: Step, role: str, choosers: Sequence[str]
) -> str:
    """Why a role that an item names can't do it; empty if it can."""
    roles = session.project.roles
    try:
        if role in roles.by_name:
            return _explain_forbidden_role(session, spec, step, role, choosers)
        if role in roles.broken:
            roles.get(role)
        lists = [roles.get(who).can_delegate_to_roles for who in (*choosers, _find_giver(session, spec))]
    except LogistError as error:
        return f"can't use the role {role}: {error.message}"
    name = _quote_name(role)
    fix = suggest_name(role, next(filter(None, lists), roles.by_name))
    return f"unknown role {name} ({fix})" if fix else f"unknown role {name}"


def _quote_name(name: str) -> str:
    """Quote a name from an item for a message: invisible characters are
    escaped, so it can't look like a valid role.
    """
    short = name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "..."
    return "".join(
        each if each.isprintable() else json.dumps(each)[1:-1]
        for each in json.dumps(short, ensure_ascii=False)
    )


class _Choosers:
    """The roles that wrote the items of a foreach, or the names of the roles that do them.

    A fixed role was chosen by the author of the workflow, so only the job's role restricts it. These are
    chosen by an agent, which must not delegate work to a role that it may not delegate to itself.
    """

    def __init__(self, session: Session, step: Step) -> None:
        self._session = session
        self._items = paths.parse(step.items_path or "")
        self._of_items = {*get_item_names(step), *step.rounds, "index", "total"}
        self._writers: dict[Sequence[str | int], frozenset[str]] = {}

    def find_choosers(self, looked: Looked) -> list[str]:
        """The roles that chose the role of an item, from the paths that its template looked up."""
        paths_used = {path for path in looked if not path or path[0] not in self._of_items}
        return sorted(frozenset().union(*map(self._find_path_writers, ({self._items} | paths_used))))

    def _find_path_writers(self, path: Sequence[str | int]) -> frozenset[str]:
        if path not in self._writers:
            self._writers[path] = find_writers(self._session, path)
        return self._writers[path]


def _read_parent(project: ProjectContext, job_id: str) -> str | None:
    try:
        parent = read_current_state(project.open_job(job_id)).get("parent")
    except LogistError:
        return None
    return parent if isinstance(parent, str) else None


def _make_child_id(session: Session, sequence: int, number: int) -> str:
    return f"{session.job.id}--{sequence}-{number}"


def _plan_children(
    session: Session,
    spec: EffectiveSpec,
    step: Step,
    items: Sequence[Any],
    each: Sequence[JsonObject],
    roles: Sequence[str],
    sequence: int,
    warnings: list[str],
) -> list[PlannedChild]:
    """The plan that the children are created from, so that they can be created again at any time."""
    flow = spec.workflow
    assert flow is not None
    own_limits = step.item_limits.model_dump(exclude_defaults=True) if step.item_limits else {}
    children = []
    for index, (item, known, role) in enumerate(zip(items, each, roles, strict=True)):
        number, total = index + 1, len(items)
        is_single = step.step_type is StepType.SUBFLOW
        item_variables = {} if is_single else _build_item_variables(step, item, index, total, known)
        mapped = {} if is_single else _map_input(step, known)
        prompt, unfilled = _render_prompt(step, known)
        name = "" if is_single else session.project.redact_text(name_item(item))
        title = f"{flow.name}: {step.name}" + ("" if is_single else f" [{number}/{total}]")
        warnings += unfilled
        children.append(
            PlannedChild(
                id=_make_child_id(session, sequence, number),
                title=f"{name} ({title})" if name else title,
                **({"name": name} if name else {}),
                prompt=session.project.redact_text(prompt),
                input=item if is_single else {**mapped, **item_variables},
                limits=own_limits,
                shares_limits=True,
                role=role,
            )
        )
    return children


def _build_item_data(
    session: Session, step: Step, items: Sequence[Any], found: JsonObject
) -> list[JsonObject]:
    """The template data for each item."""
    known = {**found, "parentId": session.job.id}
    if step.step_type is StepType.SUBFLOW:
        return [known] * len(items)
    return [
        {**known, **_build_item_variables(step, item, index, len(items), found)}
        for index, item in enumerate(items)
    ]


def _build_item_variables(step: Step, item: Any, index: int, total: int, found: JsonObject) -> JsonObject:
    """The variables of one child of a foreach, and the rounds of the loops around the foreach."""
    names = {step.index_variable: index, step.number_variable: index + 1}
    return {
        **{name: found[name] for name in step.rounds},
        **{name: value for name, value in names.items() if name},
        step.item_variable: item,
        "index": index,
        "total": total,
    }


def _explain_too_large(children: Sequence[PlannedChild], given: JsonObject) -> str:
    """Why the largest child could not read its job.yaml; empty if it could."""
    if not children:
        return ""
    own = max((child.input for child in children), key=lambda each: len(json.dumps(each)))
    given = {**given, **own} if given else own
    deepest = max(_measure_depth(child.input) for child in children)
    if deepest > DEEPEST_INPUT:
        return f"the input of a child is nested {deepest} levels deep; the limit is {DEEPEST_INPUT}"
    if len(json.dumps(given)) < MOST_UNSEEN:
        return ""
    size = len(documents.dump_yaml({"input": given}).encode("utf-8"))
    return (
        f"the input of a child would be {size:,} bytes; the limit is {MOST_INPUT:,}"
        if size > MOST_INPUT
        else ""
    )


def _measure_depth(value: Any) -> int:
    """The number of nested levels of objects and lists."""
    deepest, level = 0, [value]
    while level:
        containers = [each for each in level if isinstance(each, dict | list)]
        level = [one for each in containers for one in (each.values() if isinstance(each, dict) else each)]
        deepest += bool(containers)
    return deepest


def _build_shared_input(step: Step, found: JsonObject, items: Sequence[Any]) -> JsonObject:
    """The input that every child of a foreach gets besides its item, unless
    the step maps it; never all the items.
    """
    if step.step_type is not StepType.FOREACH or step.input_mapping:
        return {}
    remaining = _remove_items(found["input"], items)
    return remaining if isinstance(remaining, dict) else {} if remaining is None else {"input": remaining}


def _remove_items(value: Any, items: Sequence[Any]) -> Any:
    if value is items:
        return None
    if not isinstance(value, dict):
        return value
    return {name: _remove_items(held, items) for name, held in value.items() if held is not items}


def _render_prompt(step: Step, found: JsonObject) -> tuple[str, list[str]]:
    """The prompt of one child, and warnings about placeholders that could not be filled."""
    if step.rendered or step.subflow:
        return step.prompt, []
    prompt = step.prompt or step.name
    try:
        filled = template.render(prompt, found)
    except template.TemplateError as error:
        return prompt, [f"step {step.id!r}: {error}"]
    return filled.text, [f"step {step.id!r}: {warning}" for warning in filled.warnings]


def create_missing_children(session: Session) -> None:
    """Create the planned children that do not exist yet; each appears complete, or not at all."""
    spawned = session.state.spawned
    if session.state.status is not Status.WAITING or spawned is None:
        return
    project = session.project
    missing = [child for child in session.state.children if not (project.jobs_dir / child).exists()]
    if not missing:
        return
    entries = [entry for entry in session.load_history() if entry.sequence <= spawned.sequence]
    entry = entries[-1]
    spec = next(
        each.spec for each in reversed(entries) if each.spec
    )  # the spec at the time they were planned
    command = SpawnCommand.read(entry.command)
    planned_children = {child.id: child for child in command.children}
    known = KnownStart()
    for child_id in missing:
        child = planned_children[child_id]
        if command.given:
            child = child.model_copy(update={"input": {**command.given, **child.input}})
        _create_child(session, spec, spawned, child, known)


def _create_child(
    session: Session, spec: EffectiveSpec, spawned: Spawned, child: PlannedChild, known: KnownStart
) -> None:
    flow = spec.workflow
    step = flow.find_step(spawned.step) if flow else None
    assert flow is not None
    assert step is not None
    if step.subflow:
        child_flow = flow.subflows[step.subflow].model_copy(update={"subflows": flow.subflows})
    else:
        child_step = step.model_copy(
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
        child_flow = flow.model_copy(
            update={"steps": (child_step,), "edges": (), "start": step.id, "subflows": {}, "mermaid": None}
        )
    child_spec = JobSpec.model_validate(
        {
            "title": child.title,
            "tags": [spawned.tag],
            "role": child.role,
            "approval": "none",
            "review": spec.review,
            "review_mode": review.get_review_mode(spec),
            "auto_merge": False,
            "review_role": spec.reviewer if spec.reviewer_source == "job" else None,
            "model": spec.model,
            "limits": child.limits,
            "shares_limits": child.shares_limits,  # earlier versions split up the limits
            "rank": spec.rank,
            "workflow": child_flow.name,
            "input": child.input,
            "parent": session.job.id,
        }
    )
    create_job(
        session.project,
        child.id,
        child_spec,
        child=ChildOrigin(session.job.git_dir, session.job.workspace, spawned.checkpoint, child_flow, known),
    )
