"""Forks a job: creates a new one with the same beginning, which continues independently."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from itertools import islice

from logist import documents
from logist.core.history import fold, newer_versions
from logist.core.history.fold import Folding, restep_to
from logist.core.machine import steward
from logist.core.machine.rules import LATEST
from logist.core.model import (
    Actor,
    EffectiveSpec,
    Interaction,
    JsonObject,
    Kind,
    State,
    Status,
    Steward,
)
from logist.core.model.commands import ForkCommand
from logist.core.text.ids import is_commit
from logist.errors import InvalidFile, Refused, UsageError
from logist.jobs.base import adopted_jobs, cleaned_files, job_names, project_home, specs
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.stored_records import dump_interaction, dump_state, parse_interaction
from logist.quick_dataclass import dataclass
from logist.store import JobDir, files, history_copy, replace_file
from logist.workspace import forking

MOST_FORKS = 10_000
"""How many names are tried for a fork without a chosen id."""
OF_A_CHILD = ("parent", "shares_limits")
"""Fields of a child job: its fork is not a child."""


@dataclass(frozen=True)
class ForkedJob:
    """A job that was forked from another."""

    job: JobDir
    origin: str
    at: int
    """The last interaction that both have."""
    state: State
    notes: tuple[str, ...] = ()
    """Notes about the state in which it begins."""


@dataclass
class _Beginning:
    """The fold of the entries up to the fork."""

    state: State
    spec: EffectiveSpec
    last: Interaction
    checkpoint: str | None
    """The checkpoint with the workspace as the last entry left it."""
    commits: set[str] = field(default_factory=set)


def fork_job(
    project: ProjectContext,
    job_id: str,
    at: int | None = None,
    *,
    new_id: str | None = None,
    note: str | None = None,
) -> ForkedJob:
    """Create a job that begins with the first `at` interactions of another, all of them by default.

    The other job is only read, and another process may work on it meanwhile. The new one has those entries
    byte for byte, the checkpoints they name, and the workspace as the last of them left it; then a `fork`
    entry. It appears complete, or not at all. Raises UsageError for a number outside of the history, or an
    invalid id, Refused for an id that is taken and if the new job would wait for the children of the other,
    Damaged, InvalidFile if the other job's files can't be read.
    """
    origin = project.open_job(job_id)
    cleaned_files.require_files(origin, "fork")
    beginning = _read_beginning(origin, at)
    _require_no_children(origin.id, beginning)
    adopted_jobs.refuse_adopted(beginning.state)
    flow = files.read_bytes(origin.workflow_file)
    names = job_names.generate_ids(origin.id, (f"-fork-{number}" for number in range(1, MOST_FORKS + 1)))
    return job_names.create_under_free_name(
        project, new_id, names, lambda name: _create_fork(project, origin, name, beginning, flow, note)
    )


def _read_beginning(origin: JobDir, at: int | None) -> _Beginning:
    """The fold of the first `at` entries; reads them twice, one at a time."""
    targets: set[int] = set()
    count = 0
    for entry in _read_first_entries(origin, at):
        count += 1
        targets.update(restep_to(entry))
    if at is not None and not 1 <= at == count:
        raise _unknown_interaction_error(origin, at)
    beginning: _Beginning | None = None
    folding = Folding(targets)
    for interaction in map(parse_interaction, _read_first_entries(origin, count)):
        state = folding.take(interaction)
        spec = interaction.spec or (beginning.spec if beginning else None)
        if spec is None:
            raise Refused("the history contains no job spec", where=str(origin.history_file))
        beginning = _Beginning(
            state, spec, interaction, state.checkpoint, beginning.commits if beginning else set()
        )
        beginning.commits |= _list_checkpoints(interaction)
    if beginning is None:
        raise _unknown_interaction_error(origin, at or 0)
    newer_versions.refuse_to_move(beginning.state)
    if beginning.last.checkpoint_after is None:  # a decision: files may have been edited by hand before it
        following = map(parse_interaction, islice(origin.read_entries(), count - 1, None))
        checkpoint = fold.find_checkpoint_before(
            following, beginning.last.sequence, beginning.state.checkpoint
        )
        beginning.checkpoint = checkpoint or beginning.state.checkpoint
        beginning.commits |= {checkpoint} if checkpoint else set()
    return beginning


def _read_first_entries(origin: JobDir, at: int | None) -> Iterator[JsonObject]:
    return islice(origin.read_entries(), None if at is None else max(at, 0))


def _unknown_interaction_error(origin: JobDir, at: int) -> UsageError:
    last = sum(1 for _ in origin.read_entries())
    fix = (
        f"use 1 to {last}; to list the interactions: logist job history --job {origin.id}"
        if last
        else "its history is empty"
    )
    return UsageError(f"interaction {at} not found in {origin.id}", where="--at", fix=fix)


def _list_checkpoints(entry: Interaction) -> set[str]:
    """The checkpoints that an entry names."""
    candidates = (entry.checkpoint_before, entry.checkpoint_after, entry.observed and entry.observed.found)
    return {commit for commit in candidates if commit and is_commit(commit)}


def _require_no_children(origin: str, beginning: _Beginning) -> None:
    """Raise Refused if the new job would wait for children of the other,
    because a child has one parent only.
    """
    state, spawned = beginning.state, beginning.state.spawned
    if not state.children:
        return
    names = ", ".join(state.children[:3]) + (", ..." if len(state.children) > 3 else "")
    message = f"after interaction {beginning.last.sequence} {origin} waits for child jobs: {names}"
    before = spawned.sequence - 1 if spawned and spawned.sequence > 1 else 1
    fix = f"fork before they were created: --at {before}, or after their work was gathered"
    raise Refused(message, where="--at", fix=fix)


def _create_fork(
    project: ProjectContext,
    origin: JobDir,
    name: str,
    beginning: _Beginning,
    flow: bytes | None,
    note: str | None,
) -> ForkedJob:
    state, last = beginning.state, beginning.last
    spec_text = _build_spec_text(origin, name)
    note = project.redact_text(note) if note else None
    if project.jobs_dir.is_relative_to(project.home):
        project_home.ensure_project_home(project.home)
    with JobDir.create_job(project.jobs_dir, name) as job:
        workspace = project.open_workspace(job)
        if beginning.checkpoint is None:
            workspace.populate(None)
        else:
            forking.populate_fork(
                workspace, origin.git_dir, beginning.commits, beginning.checkpoint, origin.workspace
            )
        replace_file(job.spec_file, spec_text.encode("utf-8"))
        if flow is not None:
            replace_file(job.workflow_file, flow)
        end = history_copy.copy_history(job.history_file, _read_first_entries(origin, last.sequence))
        if end.sequence != last.sequence or end.hash != last.checksum:
            raise Refused(f"{origin.id} was changed while it was read", fix="run the command again")
        entry = _build_fork_entry(project, origin, job, name, beginning, note)
        appended = job.append_entries(end, [dump_interaction(entry)])
        state = fold.apply_interaction(state, parse_interaction(appended.entries[0]))
        job.write_state(dump_state(state, appended.position))
    why_missing = workspace.why_history_is_missing
    return ForkedJob(
        project.open_job(name),
        origin.id,
        last.sequence,
        state,
        (*_describe_beginning(origin, beginning, name), *([why_missing] if why_missing else [])),
    )


def _build_spec_text(origin: JobDir, name: str) -> str:
    """The job.yaml of the new job: a copy of the other's current one, with
    the new id and without a parent.
    """
    specs.read_job_spec(origin, draft=True)
    text = documents.read_document_text(origin.spec_file)
    fields = documents.parse_document(text, origin.spec_file.name).data
    changes: dict[tuple[str, ...], object | None] = {("id",): name} if "id" in fields else {}
    changes |= {(name,): None for name in OF_A_CHILD if name in fields}
    try:
        return documents.edit_text(text, origin.spec_file.name, changes) if changes else text
    except InvalidFile:
        remaining = {key: value for key, value in fields.items() if key not in ("id", *OF_A_CHILD)}
        return documents.dump_yaml({"id": name, **remaining})


def _build_fork_entry(
    project: ProjectContext,
    origin: JobDir,
    job: JobDir,
    name: str,
    beginning: _Beginning,
    note: str | None,
) -> Interaction:
    """The `fork` interaction. For the fork of a child it has a new spec, because the fork is not a child."""
    state, spec, last = beginning.state, beginning.spec, beginning.last
    command = ForkCommand(from_job=origin.id, at=last.sequence, head=last.checksum, note=note or None)
    after = steward.apply_command(Kind.FORK, state.place, command, spec)
    return Interaction(
        sequence=last.sequence + 1,
        timestamp=project.clock.timestamp(),
        rules=LATEST,
        kind=Kind.FORK,
        actor=Actor.STEWARD,
        state_before=state.status,
        state_after=after.status,
        workspace_path=str(project.jobs_dir / name / job.workspace.name),
        step=after.step,
        checkpoint_before=beginning.checkpoint,
        checkpoint_after=beginning.checkpoint,
        steward=Steward(name=project.steward, note=note),
        command=command.write(),
        spec=spec.model_copy(update=dict.fromkeys(OF_A_CHILD)) if spec.parent else None,
        after=after,
    )


def _describe_beginning(origin: JobDir, beginning: _Beginning, made: str) -> Iterator[str]:
    """Describe what the new job lacks at the start, or has unexpectedly."""
    state, used = beginning.state, beginning.state.usage
    if used.current_action_count:
        yield f"usage up to this point counts for the new job too; to see it: logist job status --job {made}"
    if beginning.spec.parent:
        yield f"the new job is not a child of {beginning.spec.parent}, which waits only for {origin.id}"
    if state.status is Status.SUCCESS and state.merge == "merged":
        yield "the work up to this point is already merged"
    if (origin.inflight / "1.request").exists():
        yield f"an unfinished call of {origin.id} was not copied: the next step makes a new call"
    if beginning.checkpoint is None:
        yield "the workspace is empty: no checkpoint was made up to this point"
