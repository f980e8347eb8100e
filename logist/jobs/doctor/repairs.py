"""The repairs of `logist doctor --fix`: only safe ones, with a backup of everything that they change.

Repairs of a job run under its lock. Files outside the jobs have no lock; their repairs are safe without one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from logist import documents, systems
from logist.config.environment import IGNORED
from logist.core.history.fold import restep_to
from logist.core.model import Approval, EffectiveSpec, Interaction, JobSpec, JsonObject, Limits, Workflow
from logist.errors import Busy, Damaged, Refused
from logist.formats import UPGRADE
from logist.jobs.base import job_reader, specs, truncation
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.stored_records import dump_state, parse_interaction
from logist.jobs.base.truncation import Forks, VerifiedHistory
from logist.jobs.doctor.backup import Backup
from logist.jobs.doctor.checks import FIX, ExaminedJob
from logist.store import JobDir, files, history, job_batches, lock, scrubs, verification


def take_away(subject: object, paths: tuple[Path, ...], backup: Backup) -> None:
    for path in filter(os.path.lexists, paths):
        backup.take(path)


def take_abandoned(subject: object, paths: tuple[Path, ...], backup: Backup) -> None:
    """Move away an unfinished job whose creator was killed. A living creator still holds its lock."""
    for path in paths:
        with lock.claim_unfinished_job(path) as is_abandoned:
            if not is_abandoned:
                raise Busy("another command is using it", where=str(path), fix=FIX)
            backup.take(path)


def remove_batches(subject: object, paths: tuple[Path, ...], backup: Backup) -> None:
    """Undo batches of new jobs whose creator was killed before they were published."""
    for path in paths:
        with lock.claim_unfinished_job(path) as is_abandoned:
            if not is_abandoned:
                raise Busy("another command is using it", where=str(path), fix=FIX)
            backup.note(f"removing {path}, whose jobs were never complete")
            job_batches.remove_batch(path.parent.parent, path)


def finish_scrubs(subject: object, paths: tuple[Path, ...], backup: Backup) -> None:
    """Finish scrubs that were killed. Nothing is kept: the old files have the text that was to be erased."""
    for path in paths:
        scrubs.finish_scrubs(path.parent.parent)


def narrow(subject: object, paths: tuple[Path, ...], backup: Backup) -> None:
    for path in paths:
        with files.convert_os_errors(path):
            systems.change_mode(path, partial(_note_and_choose_mode, path, backup))


def _note_and_choose_mode(path: Path, backup: Backup, status: os.stat_result) -> int:
    backup.note(f"mode of {path} was {status.st_mode & 0o7777:04o}")
    return 0o700 if path.is_dir() else 0o600


def make_directories(subject: object, paths: tuple[Path, ...], backup: Backup) -> None:
    for path in paths:
        backup.note(f"creating the directory {path}")
        files.ensure_directory(path)


def cut(examined: ExaminedJob, paths: tuple[Path, ...], backup: Backup) -> None:
    """Repair the end of a history: an empty append, which saves the incomplete part in logs/."""
    job = examined.job
    backup.copy(job.history_file)
    loaded = job.load()
    job.append_entries(loaded.position, [], loaded.torn)


def rebuild_state(examined: ExaminedJob, paths: tuple[Path, ...], backup: Backup) -> None:
    """Rebuild state.json from the history; Damaged if that does not verify, or may have lost its end."""
    job = examined.job
    targets: set[int] = set()
    children: set[str] = set()

    def look(entry: JsonObject) -> None:
        targets.update(restep_to(entry))
        children.update(truncation.read_spawned_ids(entry))

    found = verification.examine_history(job.history_file, look)
    if found.faults or found.position is None:
        fix = f"logist job verify --job {job.id}"
        raise Damaged("state.json not rebuilt: the history failed verification", fix=fix)
    _refuse_to_forget(job, found.position.sequence)
    warned: list[str] = []
    state = job_reader.fold_in_one_pass(_history(job), targets, warned)
    if state is None or warned:
        raise Refused("state.json not rebuilt: a newer version of Logist wrote the history", fix=UPGRADE)
    _require_whole(examined.project, job, VerifiedHistory(state, str(found.position.hash), children))
    if job.state_file.is_file() and not job.state_file.is_symlink():
        backup.copy(job.state_file)
    elif os.path.lexists(job.state_file):
        backup.take(job.state_file)
    else:
        backup.note(f"recreating {job.state_file}")
    job.write_state(dump_state(state, found.position))


def _refuse_to_forget(job: JobDir, last: int) -> None:
    """Raise if the state includes interactions that the history has lost: a new state would hide the loss."""
    if job.state_file.is_symlink() or not job.state_file.is_file():
        return
    try:
        recorded = job.read_state() or {}
    except Damaged:
        return
    head = recorded.get("head")
    seen = head.get("sequence") if isinstance(head, dict) else None
    if isinstance(seen, int) and seen > last:
        message = f"state.json includes interaction {seen}, but the history ends with {last}"
        raise Damaged(message, fix="restore jobHistory.json from a backup")


def _require_whole(project: ProjectContext, job: JobDir, history: VerifiedHistory) -> None:
    """Raise Damaged for a history that has lost its end: a new state would confirm the shortened history."""
    for sign in truncation.find_truncation_signs(project, job, history, Forks(project.jobs_dir)):
        raise Damaged(sign.message, fix="restore jobHistory.json from a backup")


def _history(job: JobDir) -> Iterator[Interaction]:
    """Yield every entry, without using state.json."""
    yield from map(parse_interaction, history.read_all_entries(job.history_file))


def respell(examined: ExaminedJob, paths: tuple[Path, ...], backup: Backup) -> None:
    """Recreate job.yaml from the history; its comments are lost."""
    job = examined.job
    recorded: EffectiveSpec | None = None
    for entry in _history(job):
        recorded = entry.spec or recorded
    if recorded is None:
        raise Damaged("the history contains no spec of the job", fix="write job.yaml by hand")
    told = in_short(examined.project, as_asked(recorded), recorded.workflow)
    backup.note(f"recreating {job.spec_file}")
    files.replace_file(job.spec_file, documents.dump_yaml({"id": job.id, **told}).encode("utf-8"))
    specs.read_job_spec(job, draft=True)


def freeze(examined: ExaminedJob, paths: tuple[Path, ...], backup: Backup) -> None:
    """Recreate workflow.json from the history."""
    job = examined.job
    flow = next((entry.spec.workflow for entry in _history(job) if entry.spec and entry.spec.workflow), None)
    if flow is None:
        raise Damaged("the history contains no workflow", fix=f"move {job.workflow_file} away")
    if os.path.lexists(job.workflow_file):
        backup.take(job.workflow_file)
    backup.note(f"recreating {job.workflow_file}")
    specs.write_frozen_workflow(job, flow)


def in_short(project: ProjectContext, told: JsonObject, flow: Workflow | None) -> JsonObject:
    """Remove the fields that have their default value."""
    wanted = specs.build_effective_spec(project, JobSpec.model_validate(told), flow)
    for key in (key for key in list(told) if key != "workflow"):  # this is the job itself, not a default
        less = {other: value for other, value in told.items() if other != key}
        if specs.build_effective_spec(project, JobSpec.model_validate(less), flow) == wanted:
            told = less
    return told


def as_asked(spec: EffectiveSpec) -> JsonObject:
    """Return the content of a job.yaml that results in this spec."""
    asked = JobSpec.model_validate(
        {
            "title": spec.title,
            "prompt": spec.prompt or None,
            "description": spec.description,
            "acceptance_criteria": list(spec.acceptance_criteria) or None,
            "task_type": spec.task_type,
            "tags": list(spec.tags),
            "files": list(spec.files),
            "review": spec.review,
            "approval": Approval(spec.approval),
            "limits": _own_limits(spec),
            "rank": spec.rank,
            "role": spec.doer if spec.doer_source == "job" else None,
            "review_role": spec.reviewer if spec.reviewer_source == "job" else None,
            "model": spec.model,
            "workflow": spec.workflow.name if spec.workflow else None,
            "input": spec.input,
            "parent": spec.parent,
            "review_mode": spec.review_mode or "normal",
            "auto_merge": bool(spec.auto_merge),
            "shares_limits": spec.shares_limits,
            "after": list(spec.after or ()),
        }
    )
    return asked.model_dump(mode="json", exclude_none=True, exclude_defaults=True)


def _own_limits(spec: EffectiveSpec) -> JsonObject:
    """The limits that a job.yaml sets. A child that shares its parent's limits only has those of a foreach item."""
    if not spec.shares_limits:
        return spec.limits.model_dump(include=set(Limits.model_fields))
    steps = spec.workflow.steps if spec.workflow else ()
    own = steps[0].item_limits if len(steps) == 1 else None
    return own.model_dump(include=set(Limits.model_fields), exclude_none=True) if own else {}


def refill(examined: ExaminedJob, paths: tuple[Path, ...], backup: Backup) -> None:
    """Restore a missing workspace from the last checkpoint: there is nothing to overwrite."""
    job = examined.job
    state = job.load().state or {}
    checkpoint = state.get("checkpoint")
    if not isinstance(checkpoint, str):
        raise Damaged("no checkpoint to restore the workspace from", fix="logist doctor --fix")
    backup.note(f"recreating {job.workspace} from {checkpoint}")
    examined.project.open_workspace(job).restore(checkpoint)


def ignore_jobs(subject: object, paths: tuple[Path, ...], backup: Backup) -> None:
    for path in paths:
        backup.note(f"creating {path}")
        files.replace_file(path, IGNORED.encode(), 0o644)
