"""Builds the effective spec of a job from job.yaml and the config."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from logist import documents
from logist.agents.courier import shared_limits
from logist.config.sections import RoleChoice
from logist.config.settings import (
    UNCHECKED_MERGES,
    Settings,
    can_merge_automatically,
    can_merge_unchecked,
    choose_approval,
)
from logist.core.answer.findings import shorten_to_line
from logist.core.history import workflow_state
from logist.core.model import (
    CHECK_MINUTES,
    CHECKS,
    Check,
    Doer,
    EffectiveSpec,
    JobSpec,
    JsonObject,
    Limits,
    State,
    Step,
    Workflow,
)
from logist.core.text.field_problems import describe_first
from logist.errors import InvalidFile, UsageError
from logist.jobs.base import predecessors
from logist.quick_model import ValidationError
from logist.regular_files import read_regular
from logist.roles import INTERNAL, role_hash
from logist.store import JobDir, replace_file
from logist.workspace.files import file_names

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext
    from logist.workspace import Workspace

TITLE_LENGTH = 60
MADE_AGAIN = "to recreate it from the history: logist doctor --fix"
UNMAPPED = "implement"
"""The role for tasks whose type neither the config nor a role names."""
TASK_TYPE = "task_type "
NO_ROLE = ", which no role is for"
_REASONS = {
    "job": "the job names it",
    "step": "the step of the workflow names it",
    "switch": "a steward switched to it",
    "default": "it is the default (roles.default)",
}


def read_job_spec(
    job: JobDir,
    *,
    draft: bool = False,
    accept_slips: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> JobSpec:
    """Read job.yaml; raises InvalidFile with file, line and field if it is not valid.

    An unknown key may be from a newer Logist: it stays in the file, and `say` gets a message. A key spelled
    almost like a known one is an error, because the job would run without the intended limit or review. With
    `accept_slips`, for commands that only show the job, it is treated as an unknown key.
    """
    document = documents.read_document(job.spec_file)
    if not accept_slips:
        _refuse_misspelled_keys(document)
    unknown = documents.find_unknown_keys(JobSpec, document)
    for problem in unknown.values():
        say(f"ignored: {problem}")
    spec = documents.validate_document(JobSpec, documents.remove_keys(document, unknown))
    _require_complete(spec, job, draft=draft)
    return spec


def _refuse_misspelled_keys(document: documents.Document) -> None:
    for problem in documents.find_misspelled_keys(JobSpec, document).values():
        raise problem


def load_effective_spec(
    project: ProjectContext,
    job: JobDir,
    *,
    draft: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> EffectiveSpec:
    """The effective spec of a job from its current files; raises what
    read_job_spec and load_frozen_workflow raise.
    """
    return build_effective_spec(project, read_job_spec(job, draft=draft, say=say), load_frozen_workflow(job))


def load_frozen_workflow(job: JobDir) -> Workflow | None:
    """Load the workflow that the job follows, as it was at creation; None for the built-in one."""
    try:
        text = read_regular(job.workflow_file).decode("utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _bad_workflow_error(job, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise _bad_workflow_error(job, str(error)) from error
    try:
        return Workflow.model_validate_json(text)
    except ValidationError as error:
        raise _bad_workflow_error(job, describe_first(error.errors())) from error


def require_frozen(job: JobDir, flow: Workflow | None, made_with: Workflow | None) -> None:
    """Raise InvalidFile if the frozen workflow is not the one that the job was created with."""
    if flow != made_with:
        message = "the frozen workflow was changed after the job was created"
        raise InvalidFile(message, where=str(job.workflow_file), fix=MADE_AGAIN)


def write_frozen_workflow(job: JobDir, flow: Workflow) -> None:
    """Write the workflow of a new job."""
    dumped = flow.model_dump(mode="json", exclude_defaults=True)
    replace_file(job.workflow_file, (json.dumps(dumped, indent=1, ensure_ascii=False) + "\n").encode("utf-8"))


def _bad_workflow_error(job: JobDir, why: str) -> InvalidFile:
    message = f"can't read the frozen workflow: {why}"
    return InvalidFile(message, where=str(job.workflow_file), fix=MADE_AGAIN)


def _require_complete(spec: JobSpec, job: JobDir, *, draft: bool) -> None:
    """Raise InvalidFile for the spec of another job, or a spec without a task."""
    where = str(job.spec_file)
    if spec.id not in (None, job.id):
        raise InvalidFile(f"`id` is {spec.id!r}, expected {job.id!r}", where=where, fix="change it back")
    if spec.workflow and not job.workflow_file.exists():
        raise _bad_workflow_error(job, "file not found")
    if not draft and not spec.workflow and not (spec.prompt or "").strip():
        raise InvalidFile("`prompt` is missing; it is optional only in a draft", where=where, fix="add it")


def build_effective_spec(
    project: ProjectContext, spec: JobSpec, flow: Workflow | None = None
) -> EffectiveSpec:
    """Merge the spec, the config and the defaults, in this order; `flow` is the workflow of the job."""
    settings = project.settings
    doer_name, doer_source = choose_doer(project, spec)
    reviewer = spec.review_role or settings.review.role
    criteria = spec.acceptance_criteria or []
    redacted = project.redact_text
    prompt = redacted(spec.prompt or "")
    return EffectiveSpec(
        title=" ".join(redacted(spec.title).split()) if spec.title else _make_title(prompt, flow),
        prompt=prompt,
        description=redacted(spec.description) if spec.description else None,
        acceptance_criteria=tuple(map(redacted, [criteria] if isinstance(criteria, str) else criteria)),
        task_type=redacted(spec.task_type) if spec.task_type else None,
        tags=tuple(map(redacted, spec.tags)),
        files=tuple(map(redacted, spec.files)),
        review=settings.review.enabled if spec.review is None else spec.review,
        approval=choose_approval(settings, spec.approval, spec.review_mode),
        limits=resolve_limits(project, spec),
        rank=spec.rank,
        doer=doer_name,
        doer_source=doer_source,
        **find_role_marks(project, doer_name),
        reviewer=reviewer,
        reviewer_source="job" if spec.review_role else "config",
        on_doubt=settings.on_doubt,
        roles=_hash_roles(project, doer_name, reviewer, *_list_step_roles(flow)),
        workflow=flow,
        doers=_resolve_doers(project, flow) if flow else None,
        input=redact_values(project, spec.input),
        parent=spec.parent,
        response_format=None if settings.response_format == "json" else settings.response_format,
        **_build_review_fields(project, spec),
        shares_limits=True if spec.shares_limits and spec.parent else None,
        model=redacted(spec.model) if spec.model else None,
        after=tuple(dict.fromkeys(spec.after)) or None,
    )


def resolve_limits(project: ProjectContext, spec: JobSpec) -> Limits:
    """The limits of job.yaml, then those that it shares with its parent, or else those of the config."""
    shared = _read_limits_above(project, spec.parent) if spec.shares_limits and spec.parent else None
    base = shared or Limits(**project.settings.limits.model_dump())
    return Limits.model_validate({**base.model_dump(), **spec.limits.model_dump(exclude_defaults=True)})


def _read_limits_above(project: ProjectContext, parent: str) -> Limits | None:
    """The current limits of a job above; None if that job does not exist."""
    try:
        return shared_limits.state_of(project.open_job(parent)).limits
    except UsageError:
        return None


def _list_step_roles(flow: Workflow | None) -> list[str]:
    """The roles that the steps of a workflow name."""
    role_names = [name for step in (flow.steps if flow else ()) for name in (step.role, step.review_role)]
    return [
        name for name in role_names if name
    ]  # manual steps too: their assignee may be a role, as in earlier versions


def _resolve_doers(project: ProjectContext, flow: Workflow) -> dict[str, Doer]:
    return {
        step.id: Doer(
            role=step.role, source=_find_doer_source(project, step), **find_role_marks(project, step.role)
        )
        for step in flow.steps
        if step.role and not step.has_role_template
    }


def _find_doer_source(project: ProjectContext, step: Step) -> str:
    """Why a step has this doer: a manual step may name a person, but a role of that name takes precedence."""
    return workflow_state.ASSIGNEE if step.is_manual and step.role not in project.roles.by_name else "step"


def list_configured_checks(settings: Settings) -> dict[str, Check]:
    """The review checks that the config defines."""
    return {name: Check.model_validate(check.model_dump()) for name, check in settings.review.checks.items()}


def _build_review_fields(project: ProjectContext, spec: JobSpec) -> JsonObject:
    """The fields of the spec about the review; a field is None where it has its default value."""
    review = project.settings.review
    mode = spec.review_mode or review.mode
    configured = {
        name: check.model_copy(update={"command": _redact_command(project, check.command)})
        for name, check in list_configured_checks(project.settings).items()
    }
    defaults = {name: check.model_dump() for name, check in CHECKS.items()}
    dumped = {name: check.model_dump() for name, check in configured.items()}
    minutes = review.check_timeout_minutes
    return {
        "review_mode": None if mode == "normal" else mode,
        "checks": None if dumped == defaults else configured,
        "check_minutes": None if minutes == CHECK_MINUTES else minutes,
        "auto_merge": True if can_merge_automatically(project.settings, spec.auto_merge, mode) else None,
    }


def require_workspace_paths(project: ProjectContext, files: Iterable[str]) -> None:
    """Raise UsageError for a path that can't be inside the workspace."""
    for path in files:
        if file_names.split_agent_path(path) is None:
            fix = "use a path relative to the workspace, for example src/app.py"
            redacted = project.redact_text(path)
            raise UsageError(f"{redacted!r} is not a path inside the workspace", where="files", fix=fix)


def file_warnings(project: ProjectContext, workspace: Workspace, files: Iterable[str]) -> tuple[str, ...]:
    """The `files` of a spec that can't be included in a prompt, each with the reason."""
    most = project.settings.context.max_file_bytes
    read_files = (workspace.read_file(path, most) for path in files)
    return tuple(
        f"files: {file.path} can't be included in a prompt: {file.note}" for file in read_files if file.note
    )


def merge_warnings(
    project: ProjectContext, spec: JobSpec, state: State, flow: Workflow | None
) -> tuple[str, ...]:
    """Warn if the job's work will be merged although neither a person nor a
    command accepts it; else empty.
    """
    reviewed = flow is None or any(step.review for step in flow.steps)
    unchecked = bool(state.merges) and reviewed and can_merge_unchecked(project.settings, spec)
    return (UNCHECKED_MERGES,) if unchecked else ()


def _redact_command(
    project: ProjectContext, command: tuple[str, ...] | str | None
) -> tuple[str, ...] | str | None:
    """The command as it is recorded; the command that runs comes from the config."""
    if command is None or isinstance(command, str):
        return project.redact_text(command) if command else None
    return tuple(map(project.redact_text, command))


def choose_doer(project: ProjectContext, spec: JobSpec) -> tuple[str, str]:
    """Choose the role for steps that name none; return it and its source (see describe_doer_source).

    The job's own role, then the role that the config maps its task type to, then the role whose file names
    that type; then `roles.default`. If that is the shipped default, UNMAPPED does the jobs of an unmapped
    type. Raises InvalidFile for a config that maps a task type to the role that only reviews.
    """
    if spec.role:
        return spec.role, "job"
    default = project.settings.roles.default
    job_type = (spec.task_type or "").strip()
    if not job_type:
        return default, "default"
    task_type = shorten_to_line(project.redact_text(job_type), TITLE_LENGTH)
    role = _find_mapped_role(project.settings, job_type) or project.roles.find_for_task_type(job_type)
    if role:
        return role, f"{TASK_TYPE}{task_type}"
    if default != RoleChoice().default:
        return _require_doing_role(default, job_type, "roles.default"), "default"
    return UNMAPPED, f"{TASK_TYPE}{task_type}{NO_ROLE}"


def describe_doer_source(source: str) -> str:
    """The source from `choose_doer` as it is displayed: `task_type is bug`."""
    if source.startswith(TASK_TYPE):
        return source.replace(TASK_TYPE, "task_type is ", 1)
    return _REASONS.get(source, source)


def _find_mapped_role(settings: Settings, task_type: str) -> str | None:
    """The role that `roles.type_mapping` has for this type; an exact match before one in another case."""
    mapping = settings.roles.type_mapping
    same_in_other_case = (name for word, name in mapping.items() if word.casefold() == task_type.casefold())
    role = mapping.get(task_type) or next(same_in_other_case, None)
    return _require_doing_role(role, task_type, "roles.type_mapping") if role else None


def _require_doing_role(name: str, task_type: str, key: str) -> str:
    """Return the role that a key of the config names. Raises InvalidFile if it only reviews."""
    if name == INTERNAL:
        raise InvalidFile(
            f"`{key}` assigns tasks of type {task_type!r} to `{INTERNAL}`, which only reviews",
            where=f"config: {key}",
            fix="choose another role",
        )
    return name


def _make_title(prompt: str, flow: Workflow | None) -> str:
    """The first line of the prompt, cut at a word; without a prompt, the workflow's name."""
    if flow is not None and not prompt.strip():
        return flow.name
    line = next((line.strip() for line in prompt.splitlines() if line.strip()), "untitled")
    if len(line) <= TITLE_LENGTH:
        return line
    return line[:TITLE_LENGTH].rsplit(" ", 1)[0] + "..."


def _hash_roles(project: ProjectContext, *names: str) -> dict[str, str]:
    """The hashes of the current roles; a role that can't be loaded is an error
    only when it is used.
    """
    known = project.roles.by_name
    return {name: role_hash(known[name].role) for name in sorted(set(names)) if name in known}


def find_role_marks(project: ProjectContext, name: str) -> JsonObject:
    """How listings display a role: its badge and its colour, each None if it has none."""
    role = project.roles.by_name.get(name)
    if role is None:
        return {"badge": None, "color": None}
    return {"badge": role.role.badge or None, "color": role.role.color}


def edit_spec(
    project: ProjectContext, job: JobDir, changes: dict[tuple[str, ...], object | None], *, draft: bool
) -> JobSpec:
    """Change job.yaml, keeping comments, order and the keys of a newer Logist.

    The result must be valid before it is written, and this Logist must know the changed keys.
    """
    if changes.get(("id",), job.id) != job.id:
        raise UsageError("the id of a job can't be changed", where="id")
    if ("parent",) in changes:
        raise UsageError("the parent of a job can't be changed", where="parent")
    if ("workflow",) in changes:
        fix = "create another job: logist job create --workflow FILE"
        raise UsageError("the workflow of a job can't be changed", where="workflow", fix=fix)
    redacted = {path: redact_values(project, value) for path, value in changes.items()}
    edited = documents.edit_text(_read_text(job), job.spec_file.name, redacted)
    document = documents.parse_document(edited, job.spec_file.name)
    unknown = documents.find_unknown_keys(JobSpec, document)
    for path, problem in unknown.items():
        if any(changed[: len(path)] == path for changed in changes):
            raise problem
    _refuse_misspelled_keys(document)
    spec = documents.validate_document(JobSpec, documents.remove_keys(document, unknown))
    _require_complete(spec, job, draft=draft)
    require_known_roles(project, spec)
    if ("task_type",) in changes:
        require_usable_doer(project, spec)
    if ("files",) in changes:
        require_workspace_paths(project, spec.files)
    if ("after",) in changes:
        predecessors.require_usable(project, job.id, spec.after)
    replace_file(job.spec_file, edited.encode("utf-8"))
    return spec


def require_usable_predecessors(project: ProjectContext, job: JobDir, after: Sequence[str]) -> None:
    """Raise InvalidFile if a changed job.yaml names predecessors that the job can't wait for."""
    try:
        predecessors.require_usable(project, job.id, after)
    except UsageError as error:
        raise InvalidFile(error.message, where=f"{job.spec_file}: after", fix=error.fix) from error


def _read_text(job: JobDir) -> str:
    documents.read_document(job.spec_file)  # raises the error of an unreadable file
    return documents.read_document_text(job.spec_file)


def require_known_roles(project: ProjectContext, spec: JobSpec) -> None:
    """Raise UsageError if the spec names an unknown role, InvalidFile if it names a broken one."""
    for name in (spec.role, spec.review_role):
        if name:
            project.roles.get(name)


def require_usable_doer(project: ProjectContext, spec: JobSpec) -> None:
    """Raise InvalidFile if the role that would do the job, named or not, is broken.

    The roles of a workflow, or of a child job, are not checked here: they are known only while it runs.
    """
    broken = project.roles.broken
    if broken and not (spec.workflow or spec.parent) and (name := choose_doer(project, spec)[0]) in broken:
        raise broken[name]


def redact_values(project: ProjectContext, value: Any) -> Any:
    """The value with secrets removed from every string in it."""
    if isinstance(value, str):
        return project.redact_text(value)
    if isinstance(value, list):
        return [redact_values(project, item) for item in value]
    if isinstance(value, dict):
        return {key: redact_values(project, item) for key, item in value.items()}
    return value
