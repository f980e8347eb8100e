"""The decisions of stewards: activate, approve, reject, resubmit,
suspend, resume, cancel, fail, restep, rerun.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from logist.core.answer import plans
from logist.core.history import fold, merge_policy
from logist.core.machine import kinds, steward
from logist.core.model import (
    EffectiveSpec,
    Interaction,
    JsonObject,
    Kind,
    Place,
    Plan,
    Request,
    State,
    Status,
    StuckKind,
    Usage,
)
from logist.core.model.commands import (
    ApproveCommand,
    BookingCommand,
    RecordedCommand,
    RerunCommand,
    RestepCommand,
    ResubmitCommand,
)
from logist.core.template import data
from logist.errors import LogistError, Refused, UsageError
from logist.jobs.base import adopted_jobs, cleaned_files, family, specs
from logist.jobs.base.result import CommandResult
from logist.jobs.base.session import Session, open_session
from logist.jobs.children import gather
from logist.jobs.steward import agent_stop, approved_work, job_merge, signed_decisions
from logist.jobs.turn import answer_recording, doubtful_payments

if TYPE_CHECKING:
    from logist.core.machine.routing import Routed
    from logist.jobs.base.project import ProjectContext

NOTHING = Usage()
MOST_AT_ONCE = 16
"""Children that are canceled at the same time."""


def record_decision(
    project: ProjectContext,
    job_id: str,
    kind: Kind,
    *,
    note: str | None = None,
    command: RecordedCommand | None = None,
    wait: float = 0.0,
    ends_agent: bool = False,
    revision: int | None = None,
    seen: str | None = None,
    by_steward: bool = True,
) -> CommandResult:
    """Record a steward's decision.

    `revision`: refuse if the job is not at this revision any more; checked under the lock, so only one of several
    decisions for the same revision is recorded. `seen`: for an approval, the review hash of what the steward has seen.
    `by_steward`: False if it only follows from another decision, so that it is not signed.
    `ends_agent`: an agent that works on the job is ended first, and what is known of its answer recorded;
    without it, Busy. Raises Refused when the state forbids the decision, or when an answer in flight had to
    be recorded first: a steward must not decide without having seen it.
    """
    note = project.redact_text(note) if note else None
    options = specs.redact_values(project, command.write()) if command else {}
    options.pop("signature", None)  # a decision that is recorded again is not the one that was signed
    asked = kinds.read_command(kind, {**options, **({"note": note} if note else {})})
    if ends_agent and revision is not None:
        raise UsageError(
            "stopping an agent changes the job, so no revision can be required", where="revision"
        )
    if ends_agent:
        agent_stop.end_agent(project, job_id)
        wait = max(wait, agent_stop.LEAVE_SECONDS)
    with open_session(project, job_id, f"job {kind}", wait=wait) as session:
        pending_entries = answer_recording.record_pending_first(
            session, then_refuse=kind not in kinds.STOPS, at_any_price=kind in kinds.STOPS
        )
        approved_work.require_revision(session, revision)
        _refuse_unusable_options(session, asked, note)
        if isinstance(asked, ResubmitCommand) and asked.doubt == doubtful_payments.RETRY:
            asked = doubtful_payments.release(session, asked)
        spec, changed = _read_spec(session, kind)
        usage = gather.ChildrenUsage()
        if isinstance(asked, BookingCommand):
            usage = gather.compute_unrecorded_usage(session)
            asked = usage.book(asked)
        if isinstance(asked, ApproveCommand) and asked.gives_output:
            results = data.to_children_results(spec, session.state.step, asked.output)
            asked = asked.model_copy(update={"results": results})
        route = steward.route_command(kind, session.state, asked, spec)
        plan = session.state.plan
        if isinstance(asked, ApproveCommand):
            carrier = _find_plan_carrier(session.state, spec, asked, route)
            asked = asked.model_copy(update={"carried_out_by": carrier})
        sent_back = steward.is_sent_back(session.state)
        after = steward.apply_command(
            kind, session.state.place, asked, spec, routed=route, sent_back=sent_back, job=job_id
        )
        checkpoint = None
        if isinstance(asked, ApproveCommand):
            bound = approved_work.bind_approval(session, asked, seen)
            asked, checkpoint = bound.command, bound.checkpoint
        entry = session.build_interaction(
            kind,
            after,
            note=note,
            command=asked,
            reason=_build_reason(after, note),
            route=route.route if route else [],
            usage=usage.usage,
            checkpoint_before=checkpoint,
            checkpoint_after=checkpoint,
            step=session.state.step if kind is Kind.APPROVE else after.step,  # the step that is approved
        )
        if by_steward:
            entry = signed_decisions.sign_decision(session, entry, session.state.revision)
        waited_for = session.state.children
        recorded = session.record(*changed, entry)
        kept_children = () if kind in kinds.ENDS else session.state.children
    unwanted = [child for child in waited_for if child not in kept_children]
    cancel_children(project, unwanted, f"{job_id} no longer waits for this job: {kind}")
    notes = (
        (_describe_unexecuted_plan(job_id, recorded[-1]),)
        if _has_unexecuted_plan(plan, session.state)
        else ()
    )
    result = CommandResult(job_id, session.state, (*pending_entries, *recorded), notes)
    return job_merge.merge_due(project, result) if merge_policy.concerns_merge(result.state) else result


def _refuse_unusable_options(session: Session, asked: RecordedCommand, note: str | None) -> None:
    """Raise UsageError for an override without a reason, and an output that no step reads."""
    if steward.is_override(asked) and not (note or "").strip():
        raise UsageError("a reason is required", where="--override", fix="use --override REASON")
    if isinstance(asked, ApproveCommand) and asked.gives_output and session.state.workflow is None:
        fix = "approve without --output"
        raise UsageError(
            "not allowed without a workflow: no later step reads the output", where="--output", fix=fix
        )


def _find_plan_carrier(
    state: State, spec: EffectiveSpec, asked: ApproveCommand, routed: Routed | None
) -> str | None:
    """The role that carries out the plan that is approved; None if there is
    no plan, or another step follows.
    """
    if state.place.awaiting not in plans.AWAITED and not steward.is_override(asked):
        return None
    if routed is not None and (routed.onward.step is not None or routed.onward.fault):
        return None
    plan = state.plan
    if plan is None:
        return None
    return plans.find_plan_carrier(plan.role, approved=plan.approved, doer=fold.find_doer(spec, state)[0])


def _has_unexecuted_plan(plan: Plan | None, state: State) -> bool:
    """True if the job has ended with a plan that was not carried out."""
    has_plan = plan is not None and not plan.approved and plans.is_plan(plan.output)
    return has_plan and state.status is Status.SUCCESS


def _describe_unexecuted_plan(job_id: str, approval: Interaction) -> str:
    hint = f"logist job restep --job {job_id} --to {approval.sequence}, then: logist job role --job {job_id} Actor"
    return (
        f"the job has ended, but its plan was not carried out; to do that, run: {hint}, then approve it again"
    )


def cancel_children(project: ProjectContext, children: Sequence[str], note: str) -> None:
    """Cancel the jobs whose work is not needed any more.

    If one can't be canceled, a warning is printed; such a job refuses to continue by itself. Those that a
    process works on are canceled in parallel, because each may take seconds.
    """
    busy = [child for child in children if _is_busy(project, child)]
    for child in children:
        if child not in busy:
            _cancel_child(project, child, note)
    if busy:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - it loads logging; few decisions need it

        with ThreadPoolExecutor(max_workers=min(len(busy), MOST_AT_ONCE)) as pool:
            list(pool.map(lambda child: _cancel_child(project, child, note), busy))


def _is_busy(project: ProjectContext, job_id: str) -> bool:
    try:
        return project.open_job(job_id).find_lock_holder() is not None
    except LogistError:
        return False


def _cancel_child(project: ProjectContext, job_id: str, note: str) -> None:
    try:
        record_decision(project, job_id, Kind.CANCEL, note=note, ends_agent=True, by_steward=False)
    except Refused:
        pass  # it has ended already
    except LogistError as error:
        project.say(f"warning: can't cancel {job_id}: {error}")


def _build_reason(after: Place, note: str | None) -> str:
    """The reason of the job's new state: why no branch was found, else the steward's note."""
    has_no_branch = after.stuck is not None and after.stuck.kind is StuckKind.NO_BRANCH
    return after.stuck.reason if after.stuck and has_no_branch else note or ""


def _read_spec(session: Session, kind: Kind) -> tuple[EffectiveSpec, list[Interaction]]:
    if kind in kinds.STOPS:
        return EffectiveSpec(title=session.state.title, limits=session.state.limits), []
    return session.detect_spec_change()


def restep_job(
    project: ProjectContext, job_id: str, to: int, *, note: str | None = None, revision: int | None = None
) -> CommandResult:
    """Restore state and workspace to what interaction `to` started from, manual edits included.

    The recorded usage stays. The workspace is unchanged if no agent has worked since. `revision`: as for
    `record_decision`.
    """
    with open_session(project, job_id, "job restep") as session:
        adopted_jobs.refuse_adopted(session.state)
        cleaned_files.require_files(session.job, "restep")
        answer_recording.record_pending_first(session, then_refuse=True)
        approved_work.require_revision(session, revision)
        if not 2 <= to <= session.state.revision:
            raise UsageError(
                f"interaction {to} not found", where="--to", fix=f"choose 2 to {session.state.revision}"
            )
        history = session.load_history()
        earlier_state = fold.fold_before(history, to)
        _require_own_children(session, earlier_state, to)
        usage = gather.compute_unrecorded_usage(session)
        command = usage.book(RestepCommand(to=to))
        request = {"action": "restep", "job_id": job_id, "options": {"resume": to}}
        unwanted = set(session.state.children) - set(earlier_state.children)
        commit = fold.find_checkpoint_before(history, to, earlier_state.checkpoint)
        result = _restore_and_record(
            session, Kind.RESTEP, command, request, commit, note, earlier_state, usage.usage
        )
    cancel_children(project, sorted(unwanted), f"{job_id} was reset to before interaction {to}")
    return result


def _require_own_children(session: Session, back: State, to: int) -> None:
    """Raise Refused if a fork, or an import, would wait for children of the
    job that its history comes from.
    """
    if not family.is_waiting(back):
        return
    forked, spawned = session.state.forked, back.spawned
    is_inherited = forked is not None and to <= forked.at
    is_imported = spawned is None or not spawned.checkpoint  # a history that was imported names none
    if is_inherited or is_imported:
        other = forked.job if forked is not None and is_inherited else "another job"
        message = f"before interaction {to}, {other} was waiting for its own child jobs"
        command = f"logist job restep --job {session.job.id} --to {spawned.sequence if spawned else 2}"
        fix = f"to create new child jobs for this job: {command}"
        raise Refused(message, where="--to", fix=fix)


def rerun_job(
    project: ProjectContext,
    job_id: str,
    *,
    clean: bool = True,
    keep_files: bool = False,
    note: str | None = None,
    revision: int | None = None,
) -> CommandResult:
    """Start the job over: no usage, workspace as at the start.

    `clean` False leaves the workspace unchanged; `keep_files` copies the artefacts to `attachments/` first.
    `revision`: as for `record_decision`.
    """
    with open_session(project, job_id, "job rerun") as session:
        adopted_jobs.refuse_adopted(session.state)
        cleaned_files.require_files(session.job, "rerun")
        answer_recording.record_pending_first(session, then_refuse=True)
        approved_work.require_revision(session, revision)
        options = {"clean_git": clean, "keep_files": keep_files}
        request = {"action": "rerun", "job_id": job_id, "options": options}
        start = session.state.start_checkpoint if clean else None
        unwanted = session.state.children
        usage = gather.compute_unrecorded_usage(session)
        command = usage.book(RerunCommand(clean_git=clean, keep_files=keep_files))
        result = _restore_and_record(session, Kind.RERUN, command, request, start, note, None, usage.usage)
    cancel_children(project, unwanted, f"{job_id} was started over")
    return result


def _restore_and_record(
    session: Session,
    kind: Kind,
    command: RestepCommand | RerunCommand,
    request: JsonObject,
    commit: str | None,
    note: str | None,
    back: State | None,
    usage: Usage = NOTHING,
) -> CommandResult:
    """Checkpoint the current workspace, restore `commit`, then record."""
    spec, changed = session.detect_spec_change()
    route = steward.route_command(kind, session.state, command, spec)
    place, earlier = session.state.place, back.place if back else None
    after = steward.apply_command(kind, place, command, spec, earlier, route, job=session.job.id)
    note = session.project.redact_text(note) if note else None
    workspace = session.project.open_workspace(session.job)
    checkpoint = workspace.create_checkpoint(f"before {kind}").commit
    if isinstance(command, RerunCommand) and command.keep_files:
        _copy_artefacts(session)
    if commit:
        session.job.begin_restore(session.state.revision + len(changed) + 1, checkpoint)
        workspace.restore(commit)
    entry = session.build_interaction(
        kind,
        after,
        note=note,
        command=command.model_copy(update={"note": note or None}),
        reason=_build_reason(after, note),
        route=route.route if route else [],
        request=Request(command=request),
        usage=usage,
        checkpoint_before=checkpoint,
        checkpoint_after=commit or checkpoint,
    )
    recorded = session.record(*changed, entry, back=back)
    session.job.end_restore()
    why_missing = workspace.why_history_is_missing
    warnings = (why_missing,) if why_missing else ()
    return CommandResult(session.job.id, session.state, tuple(recorded), warnings=warnings)


def _copy_artefacts(session: Session) -> None:
    """Copy the artefacts out of the workspace before it is restored."""
    folder = session.job.attachments / f"rerun-{session.state.revision + 1}"
    workspace = session.project.open_workspace(session.job)
    for path in session.state.artefacts:
        if workspace.check_evidence(path).exists:
            workspace.copy_file(path, folder / path)
