"""Creates jobs: the directory of a new job appears complete, or not at all."""

from __future__ import annotations

from pathlib import Path

from logist import documents
from logist.core.history import fold
from logist.core.machine import steward
from logist.core.machine.rules import LATEST
from logist.core.model import (
    Actor,
    EffectiveSpec,
    Interaction,
    JobSpec,
    Kind,
    State,
    Steward,
    Workflow,
)
from logist.core.model.commands import CreateCommand
from logist.core.workflow import limit_checks
from logist.errors import InvalidFile, UsageError
from logist.jobs.base import hooks, job_workflows, predecessors, project_home, source_repository, specs
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.stored_records import dump_interaction, dump_state, parse_interaction
from logist.quick_dataclass import dataclass
from logist.store import JobDir, Position, replace_file
from logist.workspace import KnownStart, Workspace
from logist.workspace.checkpoint import kept_packs


@dataclass(frozen=True)
class Created:
    """A new job, and warnings about its workspace."""

    job: JobDir
    state: State
    warnings: tuple[str, ...]
    merge_warnings: tuple[str, ...] = ()
    """Warnings about the merge of its work."""
    file_warnings: tuple[str, ...] = ()
    """The `files` of the spec that no prompt can include."""


@dataclass(frozen=True)
class ChildOrigin:
    """What a child job is made from: the parent's files, and its part of the workflow."""

    git_dir: Path
    workspace: Path
    commit: str
    flow: Workflow | None
    known: KnownStart | None = None
    """Shared by the children of one step."""


@dataclass(frozen=True)
class PlannedJob:
    """A job that can be created: everything about it is checked."""

    job_id: str
    spec: JobSpec
    text: str
    """The job.yaml to keep; "": one is written from the spec."""
    flow: Workflow | None
    effective: EffectiveSpec
    source: Path | None
    draft: bool
    child: ChildOrigin | None = None


@dataclass(frozen=True)
class FilledJob:
    """A new job whose files are complete, but which has no name yet."""

    state: State
    workspace: Workspace
    start: str
    """The first checkpoint."""
    file_warnings: tuple[str, ...]


def create_job(
    project: ProjectContext,
    job_id: str,
    spec: JobSpec,
    *,
    draft: bool = False,
    text: str = "",
    here: Path | None = None,
    child: ChildOrigin | None = None,
) -> Created:
    """Create the job `job_id`.

    `text` is the job.yaml to keep (with its comments); without it one is written from `spec`. A workflow file
    is looked up from `here`. Raises Refused when the id is taken, UsageError for an invalid id or a job
    without a prompt, InvalidFile for a workflow or a role that can't be used.
    """
    plan = plan_job(project, job_id, spec, draft=draft, text=text, here=here, child=child)
    predecessors.require_usable(project, job_id, spec.after)
    ensure_home(project)
    with JobDir.create_job(project.jobs_dir, job_id) as job:
        filled = fill_job(project, job, plan, find_kept_folder(project))
        state = filled.state
        held = hooks.hold_notification(project, job_id, state, hooks.find_event(None, state))
    keep_packs(find_kept_folder(project), job, filled)  # not earlier: now they are durable
    if child is None:
        hooks.send_notifications(project, held)
    else:
        hooks.release_notifications(held)  # the parent's command sends them, when it has released its lock
    return Created(
        project.open_job(job_id),
        state,
        warn_about_source(plan.source, filled),
        specs.merge_warnings(project, plan.spec, state, plan.flow),
        filled.file_warnings,
    )


def plan_job(
    project: ProjectContext,
    job_id: str,
    spec: JobSpec,
    *,
    draft: bool = False,
    text: str = "",
    here: Path | None = None,
    child: ChildOrigin | None = None,
) -> PlannedJob:
    """Check everything about a new job, and write nothing. Raises what `create_job` raises, except for a taken id."""
    if not spec.prompt and not spec.workflow and not draft:
        raise UsageError(
            "a job needs a prompt", where="prompt", fix="use --prompt TEXT, a spec file, or --draft"
        )
    specs.require_known_roles(project, spec)
    specs.require_usable_doer(project, spec)
    if child is None:  # the files of a child were checked when its parent was created
        specs.require_workspace_paths(project, spec.files)
    redacted_spec = JobSpec.model_validate(specs.redact_values(project, spec.model_dump(exclude_unset=True)))
    if redacted_spec != spec:
        spec, text = redacted_spec, ""  # the original text contains a secret
    flow = child.flow if child else _load_workflow(project, spec, here)
    effective = specs.build_effective_spec(project, spec, flow)
    if flow is None:
        _require_roles(project, effective)
    source = source_repository.find_job_repository(project, spec) if child is None else None
    if source is not None:
        project.trust.require_to_show_history()
    return PlannedJob(job_id, spec, text, flow, effective, source, draft, child)


def ensure_home(project: ProjectContext) -> None:
    """Create the home directory of the project if the jobs are in it."""
    if project.jobs_dir.is_relative_to(project.home):
        project_home.ensure_project_home(project.home)


def warn_about_source(source: Path | None, filled: FilledJob) -> tuple[str, ...]:
    """Return warnings about what the workspace of a new job lacks."""
    if filled.workspace.source_has_no_commits:
        return source_repository.explain_empty_workspace(source)
    why_missing = filled.workspace.why_history_is_missing
    return ((why_missing,) if why_missing else ()) + source_repository.find_uncommitted_warnings(source)


def find_kept_folder(project: ProjectContext) -> Path:
    """The folder with packs that the next job may begin with; it may not exist."""
    return project.jobs_dir / kept_packs.FOLDER


def fill_job(project: ProjectContext, job: JobDir, plan: PlannedJob, kept: Path) -> FilledJob:
    """Write everything of a new job into its directory; nothing is flushed. `kept`: packs that it may begin with."""
    effective, child = plan.effective, plan.child
    command = CreateCommand(draft=plan.draft, source=str(plan.source) if plan.source else None)
    route = None if plan.draft else steward.route_command(Kind.CREATE, None, command, effective)
    after = steward.apply_command(Kind.CREATE, None, command, effective, routed=route)
    workspace = project.open_workspace(job)
    start = (
        workspace.populate_from_parent(child.git_dir, child.commit, child.workspace, child.known)
        if child
        else workspace.populate(plan.source, kept, project.settings.workspace.history)
    )
    file_warnings = () if child else specs.file_warnings(project, workspace, effective.files)
    entry = Interaction(
        sequence=1,
        timestamp=project.clock.timestamp(),
        rules=LATEST,
        kind=Kind.CREATE,
        actor=Actor.SYSTEM if child else Actor.STEWARD,
        state_before=after.status,
        state_after=after.status,
        workspace_path=str(project.jobs_dir / plan.job_id / job.workspace.name),
        step=after.step,
        reason=after.stuck.reason if after.stuck else "",
        route=route.route if route else [],
        checkpoint_after=start,
        steward=None if child else Steward(name=project.steward),
        command=command.write(),
        spec=effective,
        after=after,
    )
    written = plan.text or documents.dump_yaml(_build_spec_document(plan.spec, plan.job_id))
    replace_file(job.spec_file, written.encode("utf-8"))
    if plan.flow is not None:
        specs.write_frozen_workflow(job, plan.flow)
    appended = job.append_entries(Position(0, None, 0), [dump_interaction(entry)])
    state = fold.apply_interaction(None, parse_interaction(appended.entries[0]))
    job.write_state(dump_state(state, appended.position))
    return FilledJob(state, workspace, start, file_warnings)


def keep_packs(folder: Path, job: JobDir, filled: FilledJob) -> None:
    """Keep the packs that a job began with for the next jobs."""
    if filled.workspace.start_packs:
        kept_packs.keep_packs(folder, job.git_dir, filled.start, filled.workspace.start_packs)


def _load_workflow(project: ProjectContext, spec: JobSpec, here: Path | None) -> Workflow | None:
    """Load the workflow that the spec names, and remove secrets that its file may contain."""
    if not spec.workflow:
        return None
    settings = project.settings
    review = settings.review.enabled if spec.review is None else spec.review
    limits, max_steps = specs.resolve_limits(project, spec), settings.workflow.max_steps
    allowance = limit_checks.Allowance(limits, review, spec.input, max_steps)
    role, _ = specs.choose_doer(project, spec)
    flow = job_workflows.load_job_workflow(project, spec.workflow, here or Path(), role, allowance)
    dumped = flow.model_dump(mode="json")
    redacted = specs.redact_values(project, dumped)
    return flow if redacted == dumped else Workflow.model_validate(redacted)


def _require_roles(project: ProjectContext, spec: EffectiveSpec) -> None:
    """Raise InvalidFile for an unknown role that only the config names."""
    keys = {"default": "roles.default", "config": "review.role"}
    required = [(spec.doer, spec.doer_source)]
    if spec.review:
        required.append((spec.reviewer, spec.reviewer_source))
    known = {*project.roles.by_name, *project.roles.broken}
    for role, source in required:
        if role not in known and source != "job":
            key = keys.get(source, f"roles.type_mapping.{spec.task_type}")
            fix = f"'logist config show' prints the file; valid roles: {', '.join(sorted(project.roles.by_name))}"
            raise InvalidFile(f"`{key}` names the unknown role `{role}`", where="config", fix=fix)


def _build_spec_document(spec: JobSpec, job_id: str) -> dict[str, object]:
    written = spec.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return {"id": job_id, **{key: value for key, value in written.items() if key != "id"}}
