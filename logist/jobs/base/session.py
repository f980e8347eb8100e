"""One change of a job: lock, load, decide, record. Nothing else writes to an existing job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from typing import TYPE_CHECKING, Any

from logist import event_log
from logist.core.history import fold, newer_versions
from logist.core.history.spec_hash import spec_hash
from logist.core.machine import kinds
from logist.core.machine.rules import LATEST
from logist.core.model import (
    TERMINAL,
    Actor,
    EffectiveSpec,
    Interaction,
    Kind,
    Place,
    State,
    Status,
    Steward,
    StuckKind,
)
from logist.core.money import amounts
from logist.errors import Damaged, Refused, Stopped
from logist.event_log import events
from logist.jobs.base import cleaned_files, hooks, specs
from logist.jobs.base.progress_watch import ProgressWatch
from logist.jobs.base.stored_records import (
    build_current_state,
    dump_interaction,
    dump_state,
    parse_interaction,
)
from logist.quick_dataclass import dataclass
from logist.store import Holder, JobDir, Lock, Position, due_notifications

if TYPE_CHECKING:
    from logist.core.model.commands import RecordedCommand, SpecCommand
    from logist.jobs.base.project import ProjectContext

SEALED = ("sequence", "previous", "checksum")
"""Fields that the store fills in when it appends an interaction."""


@dataclass
class Session:
    """A locked job, its state, and the end of its history."""

    project: ProjectContext
    job: JobDir
    lock: Lock | None
    state: State
    position: Position
    torn: bytes
    behind: bool
    """state.json is missing or older than the history, because its writer was killed. `open_session` writes it."""
    notifications: list[hooks.HeldNotification] = field(default_factory=list)
    """The events of this session that have hooks; they run when the lock is free."""

    def build_interaction(
        self,
        kind: Kind,
        after: Place,
        *,
        actor: Actor = Actor.STEWARD,
        command: RecordedCommand | None = None,
        **fields: Any,
    ) -> Interaction:
        """Build the next interaction of this history, without recording it."""
        steward = None
        if actor is Actor.STEWARD:
            steward = Steward(name=self.project.steward, note=fields.pop("note", None), via=self.project.via)
        return Interaction(
            sequence=self.state.revision + 1,
            timestamp=self.project.clock.timestamp(),
            kind=kind,
            rules=LATEST,
            actor=actor,
            state_before=self.state.status,
            state_after=after.status,
            workspace_path=str(self.job.workspace),
            step=fields.pop("step", after.step),
            after=after,
            steward=fields.pop("steward", steward),
            command=command.write() if command else {},
            **fields,
        )

    def record(self, *entries: Interaction, back: State | None = None) -> list[Interaction]:
        """Write the entries durably in one append, then replace state.json."""
        self.require_unmoved()
        was_in_doubt = self.is_in_doubt()
        rotate_at = self.project.settings.history.rotate_at
        dumped = [dump_interaction(entry) for entry in entries]
        held = self._hold_notifications(entries, back)
        try:
            appended = self.job.append_entries(self.position, dumped, self.torn, rotate_at=rotate_at)
        except BaseException:
            hooks.release_notifications(
                held
            )  # the command that finds them checks whether the entries were written
            raise
        self.notifications += held
        recorded = [
            entry.model_copy(update={name: sealed[name] for name in SEALED})
            for entry, sealed in zip(entries, appended.entries, strict=True)
        ]
        for entry in recorded:
            self.state = fold.apply_interaction(self.state, entry, back)
        if event_log.is_on():
            for entry in recorded:
                event_log.report(_describe_entry(entry))
        self.position, self.torn = appended.position, b""
        if any(fold.is_agent_asked(entry) for entry in entries):
            self.job.set_aside_exchanges()
        self.write_state()
        self.job.discard_exchanges()
        self.job.end_wait()
        if was_in_doubt and not self.is_in_doubt():
            _settle_doubt(self)
        return recorded

    def is_in_doubt(self) -> bool:
        """Whether a call is in doubt, also while the job is suspended or halted: it returns to that."""
        place = self.state.place
        while place.before is not None:
            place = place.before
        stuck = place.stuck
        return stuck is not None and stuck.kind is StuckKind.IN_DOUBT

    def _hold_notifications(
        self, entries: Sequence[Interaction], back: State | None
    ) -> list[hooks.HeldNotification]:
        """Note the events of these entries before they are written: if this command is killed, the next one sends them."""
        held: list[hooks.HeldNotification] = []
        if not hooks.has_hooks(self.project):
            return held
        before = self.state
        for entry in entries:
            sealed = entry.model_copy(update={"sequence": before.revision + 1})
            after = fold.apply_interaction(before, sealed, back)
            if entry.kind not in kinds.RETURNS:  # an earlier state is not a new event
                event = hooks.find_event(before, after)
                held += hooks.hold_notification(self.project, self.job.id, after, event)
            before = after
        return held

    def require_unmoved(self) -> None:
        """Raise Refused if the job's directory was moved or replaced: the lock does not cover the new one."""
        if self.lock is not None and not self.lock.is_at(self.job.path):
            fix = f"to continue it in its new place: logist job step --job {self.job.id} --jobs-dir DIR"
            message = "the job was moved or removed while this command worked on it; any unfinished call moved with it"
            raise Refused(message, where=str(self.job.path), fix=fix)

    def write_state(self) -> None:
        self.job.write_state(dump_state(self.state, self.position))
        self.behind = False

    def detect_spec_change(
        self, command: SpecCommand | None = None
    ) -> tuple[EffectiveSpec, list[Interaction]]:
        """The current effective spec, and a `spec` interaction if it differs from the recorded one."""
        draft = self.state.status is Status.DRAFT
        spec = specs.load_effective_spec(self.project, self.job, draft=draft, say=self.project.say)
        if spec_hash(spec) == self.state.spec_hash:
            return spec, []
        made_with = next((entry.spec.workflow for entry in self.load_history() if entry.spec), None)
        specs.require_frozen(self.job, spec.workflow, made_with)
        if spec.after and list(spec.after) != self.state.after:
            specs.require_usable_predecessors(self.project, self.job, spec.after)
        entry = self.build_interaction(
            Kind.SPEC, self.state.place, actor=Actor.SYSTEM, spec=spec, command=command
        )
        return spec, [entry]

    def find_unfinished_restore(self) -> str | None:
        """The checkpoint to return to if a restep or rerun was cut off before it was recorded."""
        return self.job.find_unfinished_restore(self._has_restored_at)

    def _has_restored_at(self, sequence: int) -> bool:
        """True if interaction `sequence` restored the workspace: another
        decision may have taken that number.
        """
        if sequence > self.state.revision:
            return False
        return any(
            entry.sequence == sequence and _has_restored_workspace(entry) for entry in self.load_history()
        )

    def load_history(self) -> list[Interaction]:
        return [parse_interaction(entry) for entry in self.job.read_entries()]


def _settle_doubt(session: Session) -> None:
    """Settle in the ledger what was just decided about a call in doubt."""
    from logist.jobs.base import budgets  # noqa: PLC0415 - few commands decide about a doubt

    with suppress(Damaged):  # the decision is recorded, and the next step reports the damage
        budgets.settle_calls(session)


def _describe_entry(entry: Interaction) -> events.InteractionRecorded:
    used = entry.usage
    return events.InteractionRecorded(
        entry.sequence,
        entry.kind,
        entry.state_before or "",
        entry.state_after,
        entry.reason,
        amounts.join_cents(used.cost_cents, used.cost_microcents),
        used.input_tokens,
        used.output_tokens,
        used.seconds,
    )


def _has_restored_workspace(entry: Interaction) -> bool:
    """True if the interaction restored or changed the workspace.

    It is a restep, a rerun or an update, reverted work, undid what an agent or a check may not change, or merged.
    """
    has_merged = entry.kind is Kind.COLLECT and entry.checkpoint_after != entry.checkpoint_before
    has_undone = entry.observed is not None and bool(entry.observed.found or entry.observed.checks)
    return entry.kind in kinds.RESTORES or has_undone or has_merged


@contextmanager
def open_session(
    project: ProjectContext, job_id: str, command: str, *, wait: float = 0.0, wait_for_courier: bool = False
) -> Iterator[Session]:
    """Lock and load a job. Raises Busy, Damaged, UsageError; Refused for a
    job that only a newer Logist may change.
    """
    job = project.open_job(job_id)

    began = project.clock.monotonic() if event_log.is_on() else 0.0

    def report_wait(holder: Holder) -> None:
        if event_log.is_on():
            event_log.report(events.LockAwaited(str(holder)))
        hint = f"; press Ctrl-C to stop waiting; to end the call: logist job cancel --job {job_id} --yes"
        project.say(f"waiting for {holder}" + (hint if holder.is_courier_alone else ""))

    watch = ProgressWatch(project, job)

    def check_for_stop() -> None:
        watch.show_new()
        if project.stopping():
            raise Stopped("stopped waiting for the job", exit_code=project.stopping())

    session: Session | None = None
    try:
        with (
            event_log.about_job(job_id),
            job.hold_lock(
                command=command,
                since=project.clock.timestamp(),
                wait=wait,
                wait_for_courier=wait_for_courier,
                on_wait=report_wait,
                on_poll=check_for_stop,
            ) as lock,
        ):
            watch.end()
            if event_log.is_on():
                seconds = round(project.clock.monotonic() - began, 3)
                event_log.report(events.LockTaken(command, seconds))
            session = load_session(project, job, lock)
            newer_versions.refuse_to_move(session.state)
            # Of a job that has not ended, Logist removes nothing: a clone may contain such a directory.
            if job.is_being_cleaned() and session.state.status in TERMINAL:
                cleaned_files.finish_cleaning(session)
            if session.behind:
                if job.read_state() is None:
                    _require_complete_history(session)
                # Write it now: a refused or idle command records nothing, but `run` and `list` read this file.
                session.write_state()
            yield session
    finally:
        watch.end()
        if session is not None:  # the lock is free: a hook may resolve the job
            hooks.send_notifications(project, session.notifications)
            send_lost_notifications(project)


def send_lost_notifications(project: ProjectContext) -> None:
    """Send the notifications that a killed command left, of any job of the project."""
    if due_notifications.list_due(project.jobs_dir):
        from logist.jobs.base import lost_notifications  # noqa: PLC0415 - it reads histories with this module

        lost_notifications.send_lost_notifications(project)


def _require_complete_history(session: Session) -> None:
    """Raise Damaged if other files refer to more interactions than the
    history has; for a missing state.json.
    """
    from logist.jobs.base import truncation  # noqa: PLC0415 - it reads interactions with this module

    truncation.require_complete_history(
        session.project, session.job, session.state, str(session.position.hash)
    )


def load_session(project: ProjectContext, job: JobDir, lock: Lock | None = None) -> Session:
    """Load a job from its files. Writes nothing, so a reader may call it without a lock."""
    loaded = job.load()
    state = build_current_state(job, loaded)
    for warning in newer_versions.list_newer_warnings(map(parse_interaction, loaded.entries)):
        project.say(warning)
    return Session(project, job, lock, state, loaded.position, loaded.torn, behind=bool(loaded.entries))


def make_process_marker(session: Session) -> str:
    """An environment value for every process of the next interaction, so
    that leftover processes can be found later.
    """
    head = (session.position.hash or "").removeprefix("sha256:")[:16]
    return f"{session.job.id}-{session.state.revision + 1}-{head}"
