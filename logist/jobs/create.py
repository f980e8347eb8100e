"""Making a job: its directory appears whole, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from logist import documents
from logist.core import fold, steward
from logist.core.model import Actor, Interaction, JobSpec, Kind, State, Steward, Workflow
from logist.errors import UsageError
from logist.jobs import flows, specs
from logist.jobs.project import Project
from logist.jobs.session import dump, dump_state, interaction_of
from logist.store import JobDir, Position, replace_file
from logist.workspace import find_repository, uncommitted


@dataclass(frozen=True)
class Created:
    """A new job, and what a person should know about its workspace."""

    job: JobDir
    state: State
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Child:
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
    child: Child | None = None,
) -> Created:
    """Makes the job `job_id`.

    `text` is the job.yaml to keep (with its comments); without it one is written from `spec`. A file of a
    workflow is looked for from `here`. Raises Refused when the id is taken, UsageError for a bad id or a job
    without a prompt, InvalidFile for a workflow that can't be used.
    """
    if not spec.prompt and not spec.workflow and not draft:
        raise UsageError("a job needs a prompt", where="prompt", fix="--prompt TEXT, a spec file, or --draft")
    specs.known(project, spec)
    clean = JobSpec.model_validate(specs.redacted_values(project, spec.model_dump(exclude_unset=True)))
    if clean != spec:
        spec, text = clean, ""  # a secret is nobody's comment
    flow = child.flow if child else _flow(project, spec, here)
    effective = specs.effective(project, spec, flow)
    command = {"draft": draft}
    routed = None if draft else steward.routed(Kind.CREATE, None, command, effective)
    after = steward.decide(Kind.CREATE, None, command, effective, routed=routed)
    source = _source(project, spec) if child is None else None
    with JobDir.creating(project.jobs_dir, job_id) as job:
        workspace = project.workspace(job)
        start = workspace.populate_from(child.git_dir, child.commit) if child else workspace.populate(source)
        entry = Interaction(
            sequence=1,
            timestamp=project.clock.timestamp(),
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
            command=command,
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
    return Created(project.job(job_id), state, _no_commits(source) if empty else _warnings(source))


def _flow(project: Project, spec: JobSpec, here: Path | None) -> Workflow | None:
    """The workflow that the spec names, without the secrets that its file may hold."""
    if not spec.workflow:
        return None
    found = flows.chosen(
        project, spec.workflow, here or Path(), specs.doer(project.settings, spec)[0], spec.input
    )
    told = found.model_dump(mode="json")
    clean = specs.redacted_values(project, told)
    return found if clean == told else Workflow.model_validate(clean)


def _named(spec: JobSpec, job_id: str) -> dict[str, object]:
    written = spec.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return {"id": job_id, **{key: value for key, value in written.items() if key != "id"}}


def _source(project: Project, spec: JobSpec) -> Path | None:
    """The repository the workspace starts from; by default the one that holds `.logist`."""
    if spec.repo is False:
        return None
    if isinstance(spec.repo, str):
        named = Path(spec.repo).expanduser()
        found = find_repository(named) if named.is_dir() else None
        if found is None:
            raise UsageError(f"{spec.repo} is not a git repository", where="repo", fix="--no-repo for none")
        return found
    return find_repository(project.home.parent) if project.home.name == ".logist" else None


def _no_commits(source: Path | None) -> tuple[str, ...]:
    return (f"{source} has no commit yet, so the workspace is empty",)


def _warnings(source: Path | None) -> tuple[str, ...]:
    if source is None:
        return ()
    changed = [path for path in uncommitted(source) if not path.startswith(".logist/")]
    if not changed:
        return ()
    names = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
    return (f"the workspace holds the committed HEAD of {source}; not in it: {names}",)
