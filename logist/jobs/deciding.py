"""What stewards decide: activate, approve, reject, resubmit, suspend, resume, cancel, fail, restep, rerun."""

from __future__ import annotations

import shutil
from typing import Any

from logist.core import fold, steward
from logist.core.model import EffectiveSpec, Interaction, JsonObject, Kind, Place, State
from logist.errors import UsageError
from logist.jobs import asking
from logist.jobs.project import Project
from logist.jobs.session import Session, changing
from logist.jobs.stepping import Result

ENDING = frozenset({Kind.SUSPEND, Kind.CANCEL, Kind.FAIL})
"""Kinds that need nothing from job.yaml, so that a broken one can't keep a job from being stopped."""


def decide(
    project: Project,
    job_id: str,
    kind: Kind,
    *,
    note: str | None = None,
    command: JsonObject | None = None,
    wait: float = 0.0,
) -> Result:
    """Records a steward's decision. Raises Refused when the state forbids it; then nothing is written."""
    note = project.redacted(note) if note else None
    asked = {**(command or {}), **({"note": note} if note else {})}
    with changing(project, job_id, f"job {kind}", wait=wait) as session:
        settled = asking.settle(session)
        spec, changed = _spec(session, kind)
        after = steward.decide(kind, session.state.place(), asked, spec)
        entry = session.entry(kind, after, note=note, command=asked, reason=note or "")
        recorded = session.record(*changed, entry)
        return Result(job_id, session.state, (*settled, *recorded))


def _spec(session: Session, kind: Kind) -> tuple[EffectiveSpec, list[Interaction]]:
    if kind in ENDING:
        return EffectiveSpec(title=session.state.title, limits=session.state.limits), []
    return session.changed_spec()


def restep(project: Project, job_id: str, to: int, *, note: str | None = None) -> Result:
    """Puts state and workspace back to what interaction `to` found. What was used stays used."""
    with changing(project, job_id, "job restep") as session:
        settled = asking.settle(session)
        if not 2 <= to <= session.state.revision:
            raise UsageError(
                f"no interaction {to} to go back before", where="--to", fix=f"2 to {session.state.revision}"
            )
        back = fold.state_before(session.history(), to)
        after = _decided(session, Kind.RESTEP, {"to": to}, back.place())
        return _returned(session, Kind.RESTEP, after, back.checkpoint, {"to": to}, note, settled, back)


def rerun(
    project: Project, job_id: str, *, clean: bool = True, keep_files: bool = False, note: str | None = None
) -> Result:
    """Starts the job over: nothing used, workspace as it was at the start.

    `clean` False leaves the workspace as it is; `keep_files` copies the artefacts to `attachments/` first.
    """
    with changing(project, job_id, "job rerun") as session:
        settled = asking.settle(session)
        options: dict[str, Any] = {"clean_git": clean, "keep_files": keep_files}
        after = _decided(session, Kind.RERUN, options, None)
        if keep_files:
            _keep(session)
        start = session.state.start_checkpoint if clean else None
        return _returned(session, Kind.RERUN, after, start, options, note, settled, None)


def _decided(session: Session, kind: Kind, command: JsonObject, back: Place | None) -> Place:
    return steward.decide(kind, session.state.place(), command, session.changed_spec()[0], back)


def _returned(
    session: Session,
    kind: Kind,
    after: Place,
    commit: str | None,
    command: JsonObject,
    note: str | None,
    settled: list[Interaction],
    back: State | None,
) -> Result:
    """Keeps what is there as a checkpoint, restores, then records."""
    _, changed = session.changed_spec()
    note = session.project.redacted(note) if note else None
    workspace = session.project.workspace(session.job)
    kept = workspace.checkpoint(f"before {kind}").commit
    if commit:
        session.job.begin_restore(session.state.revision + len(changed) + 1, kept)
        workspace.restore(commit)
    entry = session.entry(
        kind,
        after,
        note=note,
        command={**command, **({"note": note} if note else {})},
        reason=note or "",
        checkpoint_before=kept,
        checkpoint_after=commit or kept,
    )
    recorded = session.record(*changed, entry, back=back)
    session.job.end_restore()
    return Result(session.job.id, session.state, (*settled, *recorded))


def _keep(session: Session) -> None:
    """Copies the artefacts out of the workspace before it is put back."""
    folder = session.job.path / "attachments" / f"rerun-{session.state.revision + 1}"
    workspace = session.project.workspace(session.job)
    for path in session.state.artefacts:
        if workspace.evidence(path).exists:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            shutil.copyfile(session.job.workspace / path, target, follow_symlinks=False)
            target.chmod(0o600)
