"""Making a job: its directory appears whole, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
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
from logist.core.workflow.limit_checks import Allowance
from logist.errors import InvalidFile, UsageError
from logist.jobs.base import job_workflows, project_home, source_repository, specs
from logist.jobs.base.project import Project
from logist.jobs.base.session import dump, dump_state, interaction_of
from logist.store import JobDir, Position, replace_file


@dataclass(frozen=True)
class Created:
    """A new job, and what a person should know about its workspace."""

    job: JobDir
    state: State
    warnings: tuple[str, ...]
    merge_warnings: tuple[str, ...] = ()
    """What a person should know about the merge of its work."""
    file_warnings: tuple[str, ...] = ()
    """The `files` of the spec that no prompt can show."""


@dataclass(frozen=True)
class ChildOrigin:
    """What a job is made from that does a part of another: its files, and its part of the workflow."""

    git_dir: Path
    commit: str
    flow: Workflow | None


def create(
    project: Project,
    job_id: str,
    spec: JobSpec,
    *,
    draft: bool = False,
    text: str = "",
    here: Path | None = None,
    child: ChildOrigin | None = None,
) -> Created:
    """Makes the job `job_id`.

    `text` is the job.yaml to keep (with its comments); without it one is written from `spec`. A file of a
    workflow is looked for from `here`. Raises Refused when the id is taken, UsageError for a bad id or a job
    without a prompt, InvalidFile for a workflow or a role that can't be used.
    """
    if not spec.prompt and not spec.workflow and not draft:
        raise UsageError("a job needs a prompt", where="prompt", fix="--prompt TEXT, a spec file, or --draft")
    specs.known(project, spec)
    specs.sound(project, spec)
    if child is None:  # a part of a job takes the files of a spec that was accepted long ago
        specs.require_inside(project, spec.files)
    clean = JobSpec.model_validate(specs.redacted_values(project, spec.model_dump(exclude_unset=True)))
    if clean != spec:
        spec, text = clean, ""  # a secret is nobody's comment
    flow = child.flow if child else _flow(project, spec, here)
    effective = specs.effective(project, spec, flow)
    if flow is None:
        _require_roles(project, effective)
    source = source_repository.repository_of(project, spec) if child is None else None
    command = CreateCommand(draft=draft, source=str(source) if source else None)
    routed = None if draft else steward.routed(Kind.CREATE, None, command, effective)
    after = steward.decide(Kind.CREATE, None, command, effective, routed=routed)
    if project.jobs_dir.is_relative_to(project.home):
        project_home.ensure(project.home)
    with JobDir.creating(project.jobs_dir, job_id) as job:
        workspace = project.workspace(job)
        start = workspace.populate_from(child.git_dir, child.commit) if child else workspace.populate(source)
        file_warnings = () if child else specs.file_warnings(project, workspace, effective.files)
        entry = Interaction(
            sequence=1,
            timestamp=project.clock.timestamp(),
            rules=LATEST,
            kind=Kind.CREATE,
            actor=Actor.SYSTEM if child else Actor.STEWARD,
            state_before=after.status,
            state_after=after.status,
            workspace_path=str(project.jobs_dir / job_id / job.workspace.name),
            step=after.step,
            reason=after.stuck.reason if after.stuck else "",
            route=routed.route if routed else [],
            checkpoint_after=start,
            steward=None if child else Steward(name=project.steward),
            command=command.write(),
            spec=effective,
            after=after,
        )
        written = text or documents.dumped(_named(spec, job_id))
        replace_file(job.spec_file, written.encode("utf-8"))
        if flow is not None:
            specs.freeze(job, flow)
        done = job.append(Position(0, None, 0), [dump(entry)])
        state = fold.apply(None, interaction_of(done.entries[0]))
        job.write_state(dump_state(state, done.position))
    empty = workspace.source_has_no_commits
    return Created(
        project.job(job_id),
        state,
        source_repository.no_commits(source) if empty else source_repository.warnings(source),
        specs.merge_warnings(project, spec, state, flow),
        file_warnings,
    )


def _flow(project: Project, spec: JobSpec, here: Path | None) -> Workflow | None:
    """The workflow that the spec names, without the secrets that its file may hold."""
    if not spec.workflow:
        return None
    settings = project.settings
    review = settings.review.enabled if spec.review is None else spec.review
    allowance = Allowance(specs.limits(project, spec), review, spec.input)
    role, _ = specs.doer(project, spec)
    found = job_workflows.chosen(project, spec.workflow, here or Path(), role, allowance)
    told = found.model_dump(mode="json")
    clean = specs.redacted_values(project, told)
    return found if clean == told else Workflow.model_validate(clean)


def _require_roles(project: Project, spec: EffectiveSpec) -> None:
    """Raises InvalidFile for a role that only the config names, and that nobody knows."""
    keys = {"default": "roles.default", "config": "review.role"}
    asked = [(spec.doer, spec.doer_source)]
    if spec.review:
        asked.append((spec.reviewer, spec.reviewer_source))
    known = {*project.roles.by_name, *project.roles.broken}
    for role, source in asked:
        if role not in known and source != "job":
            key = keys.get(source, f"roles.type_mapping.{spec.task_type}")
            fix = (
                f"'logist config show' has the file; valid roles: {', '.join(sorted(project.roles.by_name))}"
            )
            raise InvalidFile(f"`{key}` names the role `{role}`, and there is none", where="config", fix=fix)


def _named(spec: JobSpec, job_id: str) -> dict[str, object]:
    written = spec.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return {"id": job_id, **{key: value for key, value in written.items() if key != "id"}}
