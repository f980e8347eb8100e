"""Compares every recorded prompt with today's files: the prompt drift of `logist replay`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path

from logist import __version__, workflows
from logist.core.model import EffectiveSpec, Interaction, Phase, State, Step, Workflow
from logist.core.replay import drift
from logist.core.replay.drift import Drift
from logist.core.replay.drift_causes import Today, find_asked_role, schema_hash
from logist.core.replay.replay import Prompts
from logist.core.step.model_choice import ChosenModel
from logist.core.text import line_diff
from logist.errors import InvalidFile, LogistError, UsageError
from logist.jobs.base import model_choice
from logist.jobs.base.project import ProjectContext
from logist.resources import find_resource
from logist.roles import role_hash

OF_A_STEP = ("name", "prompt", "guidance", "agent_role", "response_format")
"""Fields of a step that a prompt contains; the rest of a workflow stays frozen in the job."""

NAMED = 3
"""How many invalid files are listed."""


def build_drift_finder(project: ProjectContext) -> Prompts:
    """Build the function that finds the drift of each request by today's roles, workflows and rules.

    Each file is read once.
    """
    today = cache(lambda name: _load_today(project, name))
    workflow = cache(lambda name: _load_workflow(project, name))

    def find_drifts_today(spec: EffectiveSpec, state: State, entry: Interaction) -> list[Drift]:
        if not entry.request.parts:
            return []
        known = today(find_asked_role(entry))
        frozen = spec.workflow.find_step(state.step) if spec.workflow else None
        if spec.workflow is not None and frozen is not None:
            flow, place = workflow(spec.workflow.name)
            known = _add_changed_step(known, frozen, flow, place)
        return drift.find_drifts(spec, state, entry, known)

    return find_drifts_today


def _load_today(project: ProjectContext, name: str) -> Today:
    """The current facts about a role, and those that are the same for every role."""
    shared = Today(__version__, schema_hash(project.schema), redact=_make_caching_redact(project))
    shared = replace(shared, disabled=tuple(project.settings.tools.disabled))
    if not name:
        return replace(shared, missing="the request does not name its role")
    try:
        role = project.roles.get(name)
    except UsageError:
        return replace(shared, missing=project.redact_text(_describe_missing_role(project, name)))
    except InvalidFile as error:
        return replace(shared, missing=project.redact_text(_describe_broken_role(project, name, error)))
    loaded = project.roles.by_name[name]
    own_fields = model_choice.find_own_fields(loaded)

    def choose_model(spec: EffectiveSpec, step_id: str, phase: Phase, attempt: int) -> ChosenModel:
        return model_choice.choose_model(
            project.settings,
            None,
            loaded,
            phase,
            attempt=attempt,
            spec=spec,
            step_id=step_id,
            own_fields=own_fields,
        )

    return replace(
        shared,
        role=role,
        role_file=_format_path(project, loaded.path),
        role_hash=role_hash(role),
        choose_model=choose_model,
    )


def _describe_broken_role(project: ProjectContext, name: str, error: InvalidFile) -> str:
    where = f" ({_format_path(project, Path(error.where))})" if error.where else ""
    return f"the role file {name}{where} is invalid now: {error.message}"


def _describe_missing_role(project: ProjectContext, name: str) -> str:
    """Why the role does not exist; an unreadable file may define any role."""
    broken = project.roles.broken
    for known, error in broken.items():
        if known.casefold() == name.casefold():
            return _describe_broken_role(project, name, error)
    files = [
        *dict.fromkeys(_format_path(project, Path(error.where)) for error in broken.values() if error.where)
    ]
    if not files:
        return f"the role {name} does not exist now"
    more = f" and {len(files) - NAMED} more" if len(files) > NAMED else ""
    return f"the role {name} does not exist now, unless one of these invalid files defines it: {', '.join(files[:NAMED])}{more}"


def _make_caching_redact(project: ProjectContext) -> Callable[[str], tuple[str, int]]:
    """A redact function that caches texts of usual length: a changed role is in every prompt of a history."""
    remembered = lru_cache(maxsize=64)(project.redact)
    return lambda text: remembered(text) if len(text) <= line_diff.REMEMBERED else project.redact(text)


def _format_path(project: ProjectContext, path: Path) -> str:
    """A path relative to the project, or marked as shipped with Logist."""
    if path.is_relative_to(find_resource("roles")):
        return f"{path.name}, shipped with Logist"
    top = project.home.parent
    return str(path.relative_to(top) if path.is_relative_to(top) else path)


def _add_changed_step(today: Today, frozen: Step, flow: Workflow | None, place: str) -> Today:
    """Add the step from today's file, if its prompt would be different."""
    current = flow.find_step(frozen.id) if flow else None
    if current is None or frozen.rendered:  # filled placeholders look like changes
        return today
    fields = {name: getattr(current, name) for name in OF_A_STEP}
    if all(getattr(frozen, name) == value for name, value in fields.items()):
        return today
    return replace(today, step=frozen.model_copy(update=fields), step_file=place)


def _load_workflow(project: ProjectContext, name: str) -> tuple[Workflow | None, str]:
    """The workflow of that name on the search path; None if there is none, or it can't be read."""
    if not name or "/" in name or "#" in name or name.lower().endswith(workflows.SUFFIXES):
        return None, ""
    try:
        loaded = workflows.load_workflow(name, workflows.list_workflow_search_path(project.layers))
    except LogistError:
        return None, ""
    return loaded.workflow, _format_path(project, loaded.path)
