"""Runs jobs until none is ready: a single job, or the queue in rank order, several at a time."""

from __future__ import annotations

import os
import resource
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import lru_cache
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from logist import event_log
from logist.core.machine import advice, steward
from logist.core.machine.predecessors import advise_unmet, describe_unmet, list_due
from logist.core.model import HALTED, TERMINAL, JsonObject, Kind, State, Status
from logist.errors import Busy, LogistError, LowOnSpace, ProviderError, Refused, Stopped, StorageError
from logist.event_log import events
from logist.jobs.base import family, hooks, predecessors
from logist.jobs.base.breakers import ProviderBreakers
from logist.jobs.base.result import CommandResult
from logist.jobs.base.session import load_session
from logist.jobs.base.stored_records import read_current_state
from logist.jobs.run_selection import RunSelection
from logist.jobs.step_job import do_step, is_provider_failing
from logist.jobs.steward.steward_decisions import record_decision
from logist.jobs.turn import outages
from logist.jobs.turn.answer_recording import StoppedAndRecorded
from logist.jobs.turn.next_request import Choice
from logist.lazy_modules import load_all
from logist.quick_dataclass import dataclass
from logist.store import JobDir, due_notifications, list_jobs, lock
from logist.store.due_notifications import QUEUE_EMPTY, DueNotification
from logist.store.job_index import IndexUnusable, JobBrief, JobFilter, JobIndex, Place, build_brief
from logist.store.listing import list_job_ids
from logist.store.run_records import FIRST_CODES

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext
    from logist.store.lock import RunClaim
    from logist.store.provider_wait import ProviderWait

RUN = Choice(command="run")
"""What each step of a run does by default."""
READY = frozenset({Status.PENDING, Status.REVIEW_REQUIRED})
HOLDING = {
    Status.STUCK: "a steward",
    Status.APPROVAL_REQUIRED: "approval",
    Status.WAITING: "child jobs",
    **dict.fromkeys(HALTED, "a higher limit"),
}
"""States that a job leaves only after a person or other jobs act, and what it waits for in each."""
LEAST_WAITING = 30
"""An index is made for so many jobs if some wait for others: without it, each job that ends lets all of them be read again."""
MOST_LISTED = 100
"""How many ready jobs are looked up in the index at once."""
_FILES_OF_JOB = 5
"""How many files a job at work keeps open at most: its directory, its lock, its courier, and the pipes to that."""
_OTHER_FILES = 64
LISTED_SECONDS = 1.0
"""How long a run uses one list of ready jobs: what others create or rank meanwhile waits at most so long."""


@dataclass(frozen=True)
class EndedJob:
    """The end of one job of a run: its last result, or the error that stopped it; both after Ctrl-C, if work was recorded."""

    job_id: str
    result: CommandResult | None
    error: LogistError | None

    @property
    def exit_code(self) -> int:
        if self.error is not None:
            return self.error.exit_code
        return self.result.exit_code if self.result else 0


def describe_rest(ended: EndedJob) -> str:
    """Return what a job waits for after a run, or why it could not be continued; empty if it has ended."""
    if ended.error is not None and ended.result is None:
        return ended.error.message
    if ended.result is None:
        return "another command works on it"
    state = ended.result.state
    if ended.result.wait is not None:
        return outages.describe_with_message(ended.result.wait)
    if state.status in READY:
        return "its next step"
    why = f": {state.reason}" if state.reason and state.status is not Status.WAITING else ""
    return f"{HOLDING[state.status]}{why}" if state.status in HOLDING else ""


@dataclass(frozen=True)
class HeldUp:
    """A job that can't continue without a person."""

    job_id: str
    status: Status | None
    """None if its files can't be read."""
    exit_code: int
    waits: str
    """What it waits for, and who has to act."""
    next_command: str | None
    continues_alone: bool = False
    """Whether it continues without a person after all: it waits for its provider or a budget."""


def run_job(
    project: ProjectContext,
    job_id: str,
    on_step: Callable[[CommandResult], None],
    choice: Choice = RUN,
    *,
    family_too: bool = True,
) -> CommandResult:
    """Step one job until it waits for a person, ends, or its provider fails.

    `choice`: for all steps, also those of child jobs. `family_too`: also run the child jobs that it waits for, several
    at a time; otherwise return when it waits.
    """
    while True:
        result = do_step(project, job_id, choice)
        on_step(result)
        if is_provider_failing(result) or not project.may_begin_work():
            return result
        if result.state.status is Status.WAITING:
            if not family_too or project.detach:
                return result
            exit_codes = _run_children(project, result, on_step, choice)
            if (
                exit_codes is not None
                and load_session(project, project.open_job(job_id)).state.status not in HALTED
            ):
                waits = family.describe_waiting(family.load_children(project, result.state))
                return replace(result, exit_code=choose_exit_code(exit_codes), notes=(waits,))
        elif result.state.status not in READY or not result.entries:
            return result


def _run_children(
    project: ProjectContext,
    waiting: CommandResult,
    on_step: Callable[[CommandResult], None],
    choice: Choice,
) -> list[int] | None:
    """Run the child jobs that a job waits for, at all levels. None once all have ended, else their exit codes."""
    state, codes = waiting.state, dict[str, int]()
    if not all(child.is_settled for child in family.load_children(project, state)):
        most, parent_id = project.settings.max_concurrent_agents, waiting.job_id
        for ended in run_queue(
            project,
            most,
            on_step,
            replace(choice, strict=False),
            only=lambda job_id: family.is_below(project, job_id, parent_id),
        ):
            codes[ended.job_id] = ended.exit_code
            if ended.error is not None:
                project.say(f"{ended.job_id}: {ended.error}")
    if all(child.is_settled for child in family.load_children(project, state)):
        return None
    return [*codes.values(), family.waiting_exit_code(project, state)]


def list_ready_jobs(
    project: ProjectContext, skipped: Container[str] = (), awaited: set[str] | None = None
) -> list[str]:
    """The ids of the jobs that an agent could work on now, by rank, then age, then id.

    Jobs that wait for a provider that is not available are left out until their next try. `skipped`: jobs whose state
    is not even read. `awaited`: the jobs that others wait for before they begin are added to it.

    A job whose state can't be read is included, so that its run reports the problem. A job whose parent is at
    a limit is not: find_held_up_jobs has the parent.
    """
    briefs = _Briefs(project)
    unread = (job_id for job_id in list_jobs(project.jobs_dir) if job_id not in skipped)
    places = sorted(filter(None, map(briefs.find_queue_place, unread)))
    if awaited is not None:
        awaited.update(briefs.awaited)
    return [job_id for *_, job_id in places]


UNREADABLE = JobBrief(Status.PENDING, 0, "", None, [], is_over=False, has_work_due=False)
"""What is assumed about a job that can't be read: its run reports the problem."""


class _Briefs:
    """What the queue knows about jobs, from the index or from their files."""

    def __init__(
        self, project: ProjectContext, index: JobIndex | None = None, unsettled: Container[str] = ()
    ) -> None:
        self._project, self._unsettled = project, unsettled
        self._halted: dict[str, bool] = {}
        # Thousands of child jobs have the same parents, and a selection looks at those of each one.
        self._read_indexed = None if index is None else lru_cache(maxsize=100)(index.read_brief)
        self._has_indexed_tag = None if index is None else lru_cache(maxsize=100)(index.has_tag)
        self.awaited: set[str] = set()
        """The jobs that those that were looked at wait for before they begin."""

    def read(self, job_id: str) -> JobBrief:
        """Read a job. Raises LogistError, or IndexUnusable."""
        if self._read_indexed is not None and job_id not in self._unsettled:
            brief = self._read_indexed(job_id)
            if brief is not None:
                return brief
        job = self._project.open_job(job_id)
        return build_brief(str(job.path), read_current_state(job))

    def has_tag(self, job_id: str, tag: str) -> bool:
        """Whether a job has a tag. Raises LogistError, or IndexUnusable."""
        if self._has_indexed_tag is not None and job_id not in self._unsettled:
            return self._has_indexed_tag(job_id, tag)
        tags = read_current_state(self._project.open_job(job_id)).get("tags")
        return isinstance(tags, list) and tag in tags

    def find_queue_place(self, job_id: str) -> Place | None:
        """The rank, age and id of a ready job; None if it is not ready."""
        try:
            brief = self.read(job_id)
        except LogistError:
            brief = UNREADABLE
        if brief.wait is not None and not outages.is_due(self._project, brief.wait):
            return None
        self.awaited.update(brief.after)
        can_gather = brief.status == Status.WAITING and all(map(self._is_over, brief.children))
        is_ready = (
            brief.status in READY
            and all(map(self.has_succeeded, brief.after))
            and not self._has_halted_ancestor(brief)
        )
        if not (is_ready or can_gather or brief.has_work_due):
            return None
        return brief.rank, brief.created_at, job_id

    def has_succeeded(self, predecessor: str) -> bool:
        """True if a job need not wait for a predecessor any more."""
        try:
            return self.read(predecessor).has_succeeded
        except LogistError:  # deleted or damaged
            return False

    def _is_over(self, child: str) -> bool:
        """True if a parent need not wait for a child; it creates one that does not exist."""
        try:
            return self.read(child).is_over
        except LogistError:
            return True  # the parent's step creates it, or reports the problem

    def _has_halted_ancestor(self, brief: JobBrief) -> bool:
        """True if a job above is at a limit."""
        above = brief.parent
        if above is None:
            return False
        if above not in self._halted:
            self._halted[above] = False  # stops at a cycle of parents
            with suppress(LogistError):  # a job without its parent runs on its own
                parent = self.read(above)
                is_halted = parent.status in HALTED
                self._halted[above] = is_halted or self._has_halted_ancestor(parent)
        return self._halted[above]


def list_left_jobs(project: ProjectContext, selection: RunSelection) -> list[str]:
    """The jobs of a selection that are ready after a run, and that no other run works on."""
    ready = ReadyJobs(project, (), lambda job_id: True, selection=selection.without_limit())
    return [job_id for job_id in ready.list_all() if not _is_in_other_run(project, job_id)]


def find_held_up_jobs(
    project: ProjectContext, ended: Container[str] = (), selection: RunSelection | None = None
) -> list[HeldUp]:
    """The jobs that wait for a person after a run, by id: STUCK, at a limit, for approval, or damaged.

    Jobs that wait for a provider are included. Jobs that wait only for agents, suspended jobs, and child jobs are excluded. `ended`: jobs whose end this
    run has reported. `selection`: of the run. Writes nothing.
    """
    briefs, selection = _Briefs(project), selection or RunSelection()
    circular = predecessors.find_circular_jobs(str(project.jobs_dir))
    return [
        held_job
        for job_id in _list_candidates(project, frozenset(HOLDING), circular)
        if job_id not in ended
        and (held_job := _find_held_up_job(project, job_id, is_circular=job_id in circular))
        and selection.covers(job_id, briefs)
    ]


def _list_candidates(
    project: ProjectContext, statuses: frozenset[str], circular: Collection[str] = ()
) -> list[str]:
    """List, by id, at least the jobs with these statuses, those that wait for a provider, and those that can't be read.

    `circular`: jobs that may wait for each other.
    """
    jobs_dir = str(project.jobs_dir)
    with suppress(IndexUnusable):
        index = JobIndex.open(jobs_dir)
        if index is not None and index.is_complete():
            found = index.find_unsettled()
            found.update(each for above in list(found) for each in index.list_successors(above))
            found.update(index.list_ids(JobFilter(statuses)) if statuses else ())
            found.update(index.list_held_successors() if statuses else ())
            found.update(circular)
            return sorted(job_id for job_id in found if (project.jobs_dir / job_id).is_dir())
    return list_job_ids(jobs_dir)


def _find_held_up_job(project: ProjectContext, job_id: str, *, is_circular: bool) -> HeldUp | None:
    try:
        job = project.open_job(job_id)
        recorded = read_current_state(job)
        above = recorded.get("parent")
        status = recorded.get("status")
        wait = job.read_wait(recorded.get("revision")) if str(status) in READY else None
        if wait is not None:
            return _describe_wait(job_id, Status(str(status)), wait)
        if str(status) in READY:
            return _describe_held_successor(project, job_id, recorded, is_circular=is_circular)
        if status not in HOLDING or (above and (project.jobs_dir / str(above)).exists()):
            return None
        state = load_session(project, job).state
        if state.status is Status.WAITING or (state.status in HALTED and state.children):
            return _describe_held_parent(project, job_id, state)
        why = f": {state.reason}" if state.reason else ""
        waits = f"{state.status}, waits for {HOLDING[state.status]}{why}"
        code = advice.exit_code(state.status)
        return (
            HeldUp(job_id, state.status, code, waits, steward.next_command(state, job_id)) if code else None
        )
    except LogistError as error:
        return HeldUp(job_id, None, error.exit_code, error.message, error.fix)


def _describe_wait(job_id: str, status: Status, wait: ProviderWait) -> HeldUp:
    if wait.budget:
        waits = f"{status}, waits for {outages.describe_with_message(wait)}"
        code = advice.exit_code(Status.HALTED_COST)
        return HeldUp(job_id, status, code, waits, wait.budget_command, continues_alone=True)
    waits = f"{status}, waits for its provider: {wait.describe()}"
    command = f"logist job step --job {job_id}"
    return HeldUp(job_id, status, ProviderError.exit_code, waits, command, continues_alone=True)


def _describe_held_successor(
    project: ProjectContext, job_id: str, recorded: JsonObject, *, is_circular: bool
) -> HeldUp | None:
    """The HeldUp of a job that waits for others before it begins; None if those can still succeed without a person, or
    wait for a person themselves.
    """
    unmet = predecessors.find_unmet(str(project.jobs_dir), recorded, job_id if is_circular else None)
    if not any(each.needs_person for each in unmet):
        return None
    status, code = Status(str(recorded["status"])), advice.exit_code(Status.HALTED_COST)
    command = advise_unmet(job_id, list_due(recorded), unmet)
    return HeldUp(job_id, status, code, f"{status}, {describe_unmet(unmet)}", command)


def _describe_held_parent(project: ProjectContext, job_id: str, state: State) -> HeldUp | None:
    """The HeldUp of a job that waits for child jobs; None if those only wait for agents."""
    halted = state.status in HALTED
    code = advice.exit_code(state.status) if halted else family.waiting_exit_code(project, state)
    why = f"{state.status}: {state.reason}; " if halted else ""
    waits = why + family.describe_waiting(family.load_children(project, state))
    return HeldUp(job_id, state.status, code, waits, f"logist job status --job {job_id}") if code else None


def run_queue(
    project: ProjectContext,
    parallel: int,
    on_step: Callable[[CommandResult], None],
    choice: Choice = RUN,
    *,
    leave: Container[str] = (),
    only: Callable[[str], bool] = lambda job_id: True,
    on_begin: Callable[[str], None] = lambda job_id: None,
    on_pass: Callable[[str], None] = lambda job_id: None,
    selection: RunSelection | None = None,
) -> Iterator[EndedJob]:
    """Run every ready job until it rests, at most `parallel` at a time, in rank order.

    A job whose provider is not available makes room for others. If only such jobs are left, waits
    `choice.provider_wait` seconds for one of them to continue; its end is yielded again then.

    Begins no more jobs after one that did no step because `min_free_bytes` is not left on the disk.

    Continues until none is ready, including jobs that are created meanwhile; those in `leave` are skipped. A
    job that waits for others continues when they are done. A ready job that another run works on is left to it, and
    `on_pass` is called with its id, each time that it is met. `only` and `selection`: which jobs to run. `on_begin`: called before a job
    begins. `choice`: for all steps.
    """
    require_open_files(parallel)
    if project.breakers is None:
        project = replace(project, breakers=ProviderBreakers(project.clock.monotonic))
    deadline = project.clock.monotonic() + choice.provider_wait
    started: set[str] = set()
    running: dict[Future[EndedJob], str] = {}
    begun = _AnyOf(started, running.values())
    waiting: dict[str, int] = {}
    selection = selection or RunSelection()
    ready = ReadyJobs(project, leave, only, on_pass, selection)

    def may_continue(job_id: str) -> bool:
        return only(job_id) and selection.admits(job_id, _Briefs(project))

    is_short = False
    with ExitStack() as at_end:
        at_end.callback(ready.release_all)  # after the pool has ended: until then its jobs are at work
        pool = at_end.enter_context(ThreadPoolExecutor(max_workers=parallel))
        while True:
            while (
                not is_short
                and len(running) < parallel
                and (job_id := ready.take(begun, is_idle=not running))
            ):
                started.add(job_id)
                waiting.pop(job_id, None)
                on_begin(job_id)
                running[pool.submit(_run_one, project, job_id, on_step, choice)] = job_id
            if (
                not running
                and not is_short
                and _wait_for_providers(project, started, leave, may_continue, deadline)
            ):
                continue
            if not running:
                return
            for future in _wait_for_end(project, running, waiting if len(running) < parallel else {}):
                ended = _collect_end(future, running.pop(future))
                is_short |= isinstance(ended.error, LowOnSpace)  # the others stay ready
                ready.record_end(ended)
                started -= _find_continuing_jobs(ended)
                if ended.result is not None and ended.result.wait is not None:
                    waiting[ended.job_id] = ended.result.state.revision
                if ended.result is not None and ended.result.wait is None:
                    deadline = project.clock.monotonic() + choice.provider_wait
                yield ended


def require_open_files(parallel: int) -> None:
    """Refuse to run so many jobs at a time that this process can't open the files for them: they would fail on the way."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    needed = parallel * _FILES_OF_JOB + _OTHER_FILES
    if 0 <= allowed < needed:  # negative: no limit
        most = max(1, (allowed - _OTHER_FILES) // _FILES_OF_JOB)
        raise Refused(
            f"can't run {parallel:,} jobs at a time: they need {needed:,} open files, and the limit is {allowed:,}",
            fix=f"raise the limit with `ulimit -n {needed}`, or run {most:,} at a time",
        )


class _AnyOf:
    """Contains what any of some containers has now. To unite them anew for each job would take longer with each job."""

    def __init__(self, *containers: Container[str]) -> None:
        self._containers = containers

    def __contains__(self, item: object) -> bool:
        return any(item in each for each in self._containers)


def _wait_for_end(
    project: ProjectContext, running: dict[Future[EndedJob], str], waiting: dict[str, int]
) -> set[Future[EndedJob]]:
    """Wait until a job ends; or, and then return nothing, until one that waits for its provider may try again.

    `waiting`: the revisions of the latter, if there is room for them. Those that may try again are removed.
    """
    finished: set[Future[EndedJob]] = set()
    due: list[str] = []
    while not (finished or due):
        finished, _ = wait(running, LISTED_SECONDS if waiting else None, FIRST_COMPLETED)
        due = [
            job_id
            for job_id, revision in waiting.items()
            if not outages.is_waiting(project, JobDir(project.jobs_dir / job_id, job_id), revision)
        ]
    for job_id in due:
        del waiting[job_id]
    return finished


class QueueNotification:
    """The `queue_empty` notification of a run: once each time that the run has worked and nothing more is to do.

    It is due from the first job on, in a file. So if the run is killed, or stopped, the next one sends it.
    """

    def __init__(self, project: ProjectContext) -> None:
        self._project = project
        self._due = DueNotification(QUEUE_EMPTY)
        self._is_new = False
        self._has_worked = False

    def begin(self) -> None:
        """A job is about to run."""
        if self._is_new or not hooks.list_hooks(self._project, QUEUE_EMPTY):
            return
        if self._due not in due_notifications.list_due(self._project.jobs_dir):
            try:
                os.close(due_notifications.add_due(self._project.jobs_dir, self._due))
            except StorageError as error:
                self._project.say(f"warning: no queue_empty notification: {error}")
            self._is_new = True

    def add_end(self, ended: EndedJob) -> None:
        """A job has ended; one whose agent or setup failed does not count as work."""
        self._has_worked |= ended.result is not None and not is_provider_failing(ended.result)

    def send(self) -> None:
        """Nothing more is to do: run the hook if the notification is due."""
        fd = due_notifications.claim_due(self._project.jobs_dir, self._due)
        if fd is None:
            return
        if any(_is_in_other_run(self._project, job_id) for job_id in list_ready_jobs(self._project)):
            os.close(fd)
            return  # that run sends it, or the next one
        held = find_held_up_jobs(self._project)
        if any(each.continues_alone for each in held):
            os.close(fd)
            return
        if self._has_worked or not self._is_new:
            waiting = Counter(each.status.value if each.status else "damaged" for each in held)
            notification = hooks.build_queue_notification(self._project, dict(sorted(waiting.items())))
            hooks.run_hooks(self._project, self._due, notification)
        self._is_new = self._has_worked = False
        due_notifications.remove_due(self._project.jobs_dir, self._due, fd)


def _wait_for_providers(
    project: ProjectContext,
    begun: Container[str],
    leave: Container[str],
    only: Callable[[str], bool],
    deadline: float,
) -> bool:
    """Wait until the first job that waits for its provider may try again.

    Returns False if there is none, if that is after `deadline`, or at a stop. Jobs that this run would not take then don't
    count: those in `begun` and `leave`, and those of other runs.
    """
    clock = project.clock
    waits = {
        job_id: wait
        for job_id in _list_candidates(project, frozenset())
        if job_id not in leave
        and job_id not in begun
        and (wait := _read_wait(project, job_id))
        and not wait.gave_up
        and only(job_id)
        and not _is_in_other_run(project, job_id)
    }
    if not waits or not project.may_begin_work():
        return False
    began = clock.monotonic()
    due = began + min(outages.count_left(clock, wait) for wait in waits.values())
    if due > deadline:
        return False
    load_all()  # Logist may be upgraded meanwhile: its modules must fit each other
    while clock.monotonic() < due and project.may_begin_work():
        for job_id, wait in waits.items():
            outages.show_wait(project, job_id, wait, clock.monotonic() - began)
        threading.Event().wait(outages.LOOK_SECONDS)
        if any(_read_wait(project, job_id) != wait for job_id, wait in waits.items()):
            break  # a person has removed the file, or moved the job on
    for job_id in waits:
        project.progress.remove(job_id)
    return project.may_begin_work()


def _is_in_other_run(project: ProjectContext, job_id: str) -> bool:
    """Whether another run works on a job, now that this one works on none."""
    claim = lock.claim_for_run(project.jobs_dir / job_id)
    if claim is None:
        return True
    claim.release()
    return False


def _read_wait(project: ProjectContext, job_id: str) -> ProviderWait | None:
    try:
        job = project.open_job(job_id)
        if not job.wait_file.exists():
            return None
        state = read_current_state(job)
        return job.read_wait(state.get("revision")) if str(state.get("status")) in READY else None
    except LogistError:
        return None


class ReadyJobs:
    """The ready jobs of a run, in order.

    A list is used until it is old, empty, or a job has ended that others depend on; a job from it is read again before
    it runs. With an index, a list is short and made quickly. What was changed without Logist is noticed when the run
    begins, and before it ends.
    """

    def __init__(
        self,
        project: ProjectContext,
        leave: Container[str],
        only: Callable[[str], bool],
        on_pass: Callable[[str], None] = lambda job_id: None,
        selection: RunSelection | None = None,
    ) -> None:
        self._project, self._leave, self._only, self._on_pass = project, leave, only, on_pass
        self._selection = selection or RunSelection()
        self._listed: deque[str] = deque()
        self._awaited: set[str] = set()
        """The jobs that others wait for before they begin, if there is no index."""
        self._claims: dict[str, RunClaim] = {}
        self._valid_until = 0.0
        self._has_begun = False

    def record_end(self, ended: EndedJob) -> None:
        """Let other runs have a job that was taken, and list the jobs again if its end lets others continue.

        A job that failed is kept until the end of the run: another run would only try the same again.
        """
        if ended.error is None:
            self._release(ended.job_id)
        if ended.result and (
            ended.result.state.parent or ended.result.state.children or self._lets_others_begin(ended.result)
        ):
            self._listed.clear()

    def _lets_others_begin(self, result: CommandResult) -> bool:
        """Whether a job has succeeded that others wait for: they may come before those that are listed."""
        if result.state.status is not Status.SUCCESS:
            return False
        with suppress(IndexUnusable):
            index = JobIndex.open(str(self._project.jobs_dir))
            if index is not None:
                return bool(index.list_successors(result.job_id))
        return result.job_id in self._awaited

    def release_all(self) -> None:
        """Let other runs have every job: this run ends."""
        for job_id in list(self._claims):
            self._release(job_id)

    def _release(self, job_id: str) -> None:
        if claim := self._claims.pop(job_id, None):
            claim.release()

    def take(self, begun: Container[str], *, is_idle: bool) -> str | None:
        """Remove and return the first ready job that has not begun; None if there is none, or no work may begin.

        `is_idle`: no job is running, so the run ends if there is none.
        """
        if not self._project.may_begin_work():
            return None
        now = self._project.clock.monotonic()
        if now < self._valid_until and (job_id := self._take_listed(begun)):
            return job_id
        self._valid_until = now + LISTED_SECONDS
        self._list(begun, refresh=not self._has_begun)
        job_id = self._take_listed(begun)
        if job_id is None and is_idle and self._has_begun:
            self._list(begun, refresh=True)
            job_id = self._take_listed(begun)
        self._has_begun = True
        return job_id

    def _take_listed(self, begun: Container[str]) -> str | None:
        while self._listed:
            job_id = self._listed.popleft()
            if job_id not in begun and self._claim(job_id):
                return job_id
        return None

    def _claim(self, job_id: str) -> bool:
        """Claim a listed job; False if another run has it, or it is not ready any more.

        It is read after it was claimed: the run that had it until now may have finished it.
        """
        claim = lock.claim_for_run(self._project.jobs_dir / job_id)
        place = self._find_place(job_id) if claim is not None else None
        if place is not None and not self._selection.admits(job_id, _Briefs(self._project)):
            place = None
        if event_log.is_on():
            self._report_choice(job_id, claim, place)
        if claim is None:
            self._on_pass(job_id)
            return False
        if place is None:
            claim.release()
            return False
        self._claims[job_id] = claim
        self._selection.add_begun(job_id, _Briefs(self._project))
        return True

    def _report_choice(self, job_id: str, claim: RunClaim | None, place: Place | None) -> None:
        with event_log.about_job(job_id):
            if place is not None:
                event_log.report(events.JobChosen(place[0], place[1], len(self._listed)))
            else:
                reason = "it is no longer ready" if claim is not None else "another run works on it"
                event_log.report(events.JobSkipped(reason))

    def _find_place(self, job_id: str) -> Place | None:
        """The place of a listed job; None if it no longer exists or is not ready: a person may have decided meanwhile."""
        is_there = (self._project.jobs_dir / job_id).is_dir()
        return _Briefs(self._project).find_queue_place(job_id) if is_there else None

    def list_all(self) -> list[str]:
        """List all ready jobs, in order, and claim none."""
        self._read_list((), refresh=True, most=None)
        return list(self._listed)

    def _list(self, begun: Container[str], *, refresh: bool) -> None:
        self._read_list(begun, refresh=refresh)
        if event_log.is_on():
            event_log.report(events.JobsListed(len(self._listed)))

    def _read_list(self, begun: Container[str], *, refresh: bool, most: int | None = MOST_LISTED) -> None:
        with suppress(IndexUnusable):
            index = JobIndex.open_for_many(
                str(self._project.jobs_dir), LEAST_WAITING if self._awaited else None
            )
            if index is not None:
                if refresh or not index.is_complete():
                    index.refresh()
                self._listed = deque(islice(self._iter_indexed(index, begun), most))
                return
        briefs = _Briefs(self._project)
        ready = list_ready_jobs(self._project, begun, self._awaited)
        self._listed = deque(job_id for job_id in ready if self._is_wanted(job_id, briefs))

    def _iter_indexed(self, index: JobIndex, begun: Container[str]) -> Iterator[str]:
        """Yield the ready jobs of an index, in order."""
        unsettled = index.find_unsettled()
        briefs = _Briefs(self._project, index, unsettled)
        existing = [each for each in unsettled if (self._project.jobs_dir / each).is_dir()]
        # The index holds jobs back that wait for others, from what it has about those.
        released = {
            successor
            for each in existing
            if briefs.has_succeeded(each)
            for successor in index.list_successors(each)
        }
        wanted = {*existing, *released}
        read = sorted(filter(None, (briefs.find_queue_place(each) for each in wanted if each not in begun)))
        selected = index.iter_ready(self._selection.statuses, self._selection.tag)
        indexed = (each for each in selected if each[2] not in unsettled and each[2] not in released)
        for *_, job_id in merge(read, indexed):
            if job_id not in begun and self._is_wanted(job_id, briefs) and briefs.find_queue_place(job_id):
                yield job_id

    def _is_wanted(self, job_id: str, briefs: _Briefs) -> bool:
        return job_id not in self._leave and self._only(job_id) and self._selection.admits(job_id, briefs)


def _find_continuing_jobs(ended: EndedJob) -> set[str]:
    """The ids of the jobs that may continue in this run: the parent of a job, and a job that waits for its provider, or for
    others.
    """
    result = ended.result
    if result is None:
        return set()
    waits = (result.wait is not None and not result.wait.gave_up) or bool(result.unmet)
    return {result.state.parent or "", *([ended.job_id] if waits else [])}


def _run_one(
    project: ProjectContext, job_id: str, on_step: Callable[[CommandResult], None], choice: Choice
) -> EndedJob:
    quiet = replace(project, say=lambda text: project.say(f"{job_id}: {text}"))
    try:
        with event_log.about_job(job_id), project.turns.take():
            result = run_job(quiet, job_id, on_step, replace(choice, provider_wait=0.0), family_too=False)
        if result.wait is not None:
            quiet.report_progress(f"waiting for {outages.describe_with_message(result.wait)}")
        return EndedJob(job_id, result, None)
    except StoppedAndRecorded as stop:
        result = CommandResult(job_id, stop.state, stop.entries)
        on_step(result)
        return EndedJob(job_id, result, stop)
    except family.Unwanted as error:
        return EndedJob(
            job_id,
            record_decision(
                quiet, job_id, Kind.CANCEL, note=error.message, ends_agent=True, by_steward=False
            ),
            None,
        )
    except (Busy, family.SetAside) as error:
        if event_log.is_on():
            with event_log.about_job(job_id):
                event_log.report(events.JobSkipped(error.message))
        project.say(f"{job_id}: skipped: {error.message}")
        return EndedJob(job_id, None, None)
    except Refused:
        # A killed command has recorded the end, and left only the files of the request, which this step has removed.
        state = load_session(quiet, project.open_job(job_id)).state
        if state.status not in TERMINAL or state.merge == "due":
            raise
        return EndedJob(job_id, CommandResult(job_id, state, exit_code=advice.exit_code(state.status)), None)


def _collect_end(future: Future[EndedJob], job_id: str) -> EndedJob:
    """How the job ended; an unexpected exception becomes an error of this job and stops no other."""
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, LogistError):
        return EndedJob(job_id, None, error)
    if not isinstance(error, Exception):
        raise error
    return EndedJob(job_id, None, LogistError(f"{type(error).__name__}: {error}"))


def is_left_behind(project: ProjectContext, job_id: str, parent: str | None) -> bool:
    """True if a job was a child that its parent no longer waits for: its
    state does not matter for the run.
    """
    if parent is None:
        return False
    try:
        state = read_current_state(project.open_job(parent))
    except LogistError:
        return False
    return job_id not in (state.get("children") or [])


def decide_jobs(job_ids: Iterable[str], decide: Callable[[str], CommandResult]) -> list[EndedJob]:
    """Make a decision about each job; one that fails does not stop the others. Raises Stopped."""
    ended = []
    for job_id in job_ids:
        try:
            ended.append(EndedJob(job_id, decide(job_id), None))
        except Stopped:
            raise
        except LogistError as error:
            ended.append(EndedJob(job_id, None, error))
    return ended


def choose_exit_code(codes: list[int]) -> int:
    """The first of FIRST_CODES that is among the codes, else 0."""
    return next((code for code in FIRST_CODES if code in codes), 0)
