"""Runs jobs until none is ready: a single job, or the queue in rank order, several at a time."""

from __future__ import annotations

import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace

from logist.core.machine import advice, steward
from logist.core.model import HALTED, TERMINAL, JsonObject, Kind, State, Status, StuckKind
from logist.errors import Busy, LogistError, ProviderError, Stopped, StorageError
from logist.jobs.base import family, hooks
from logist.jobs.base.breakers import ProviderBreakers
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.result import CommandResult
from logist.jobs.base.session import load_session, read_current_state
from logist.jobs.step_job import do_step, is_provider_failing
from logist.jobs.steward.steward_decisions import record_decision
from logist.jobs.turn import outages
from logist.jobs.turn.next_request import Choice
from logist.quick_dataclass import dataclass
from logist.store import JobDir, due_notifications, list_jobs
from logist.store.due_notifications import QUEUE_EMPTY, DueNotification
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
FIRST_OF = (1, 10, 5, 2, 6, 3, 7, 4, 11, 8)
"""The exit code of a run over many jobs is the first of these that any job ended with, else 0.

Damage comes first, then what a person has to decide; last what can wait.
"""


LISTED_SECONDS = 1.0
"""How long a run uses one list of ready jobs: what others create or rank meanwhile waits at most so long."""


@dataclass(frozen=True)
class EndedJob:
    """The end of one job of a run: its last result, or the error that stopped it."""

    job_id: str
    result: CommandResult | None
    error: LogistError | None

    @property
    def exit_code(self) -> int:
        if self.error is not None:
            return self.error.exit_code
        return self.result.exit_code if self.result else 0


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
        if is_provider_failing(result) or project.stopping():
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


def list_ready_jobs(project: ProjectContext, skipped: Container[str] = ()) -> list[str]:
    """The ids of the jobs that an agent could work on now, by rank, then age, then id.

    Jobs that wait for a provider that is not available are left out until their next try. `skipped`: jobs whose state
    is not even read.

    A job whose state can't be read is included, so that its run reports the problem. A job whose parent is at
    a limit is not: find_held_up_jobs has the parent.
    """
    halted: dict[str, bool] = {}
    places = (
        _find_queue_place(project, job_id, halted)
        for job_id in list_jobs(project.jobs_dir)
        if job_id not in skipped
    )
    return [job_id for _, _, job_id in sorted(filter(None, places))]


def _find_queue_place(
    project: ProjectContext, job_id: str, halted: dict[str, bool]
) -> tuple[int, str, str] | None:
    """The rank, age and id of a ready job; None if it is not ready. `halted` caches which parents are."""
    job = JobDir(project.jobs_dir / job_id, job_id)
    try:
        state = read_current_state(job)
    except LogistError:
        state = {"status": Status.PENDING}
    if outages.is_waiting(project, job, state.get("revision")):
        return None
    can_gather = state.get("status") == Status.WAITING and _can_gather(project, state)
    has_due_merge = state.get("merge") == "due" and state.get("status") == Status.SUCCESS
    is_ready = str(state.get("status")) in READY and not _has_halted_ancestor(project, state, halted)
    if not (is_ready or can_gather or has_due_merge or job.inflight.exists()):
        return None
    rank = state.get("rank")
    return rank if isinstance(rank, int) else 0, str(state.get("created_at")), job_id


def find_held_up_jobs(project: ProjectContext, ended: Container[str] = ()) -> list[HeldUp]:
    """The jobs that wait for a person after a run, by id: STUCK, at a limit, for approval, or damaged.

    Jobs that wait for a provider are included. Jobs that wait only for agents, suspended jobs, and child jobs are excluded. `ended`: jobs whose end this
    run has reported. Writes nothing.
    """
    return [
        held_job
        for job_id in list_jobs(project.jobs_dir)
        if job_id not in ended and (held_job := _find_held_up_job(project, job_id))
    ]


def _find_held_up_job(project: ProjectContext, job_id: str) -> HeldUp | None:
    try:
        job = project.open_job(job_id)
        recorded = read_current_state(job)
        above = recorded.get("parent")
        status = recorded.get("status")
        wait = job.read_wait(recorded.get("revision")) if str(status) in READY else None
        if wait is not None:
            waits = f"{status}, waits for its provider: {wait.describe()}"
            command = f"logist job step --job {job_id}"
            return HeldUp(job_id, Status(str(status)), ProviderError.exit_code, waits, command)
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


def _describe_held_parent(project: ProjectContext, job_id: str, state: State) -> HeldUp | None:
    """The HeldUp of a job that waits for child jobs; None if those only wait for agents."""
    halted = state.status in HALTED
    code = advice.exit_code(state.status) if halted else family.waiting_exit_code(project, state)
    why = f"{state.status}: {state.reason}; " if halted else ""
    waits = why + family.describe_waiting(family.load_children(project, state))
    return HeldUp(job_id, state.status, code, waits, f"logist job status --job {job_id}") if code else None


def _has_halted_ancestor(project: ProjectContext, state: JsonObject, known: dict[str, bool]) -> bool:
    """True if a job above is at a limit; `known` caches what was looked up."""
    above = state.get("parent")
    if not isinstance(above, str):
        return False
    if above not in known:
        known[above] = False  # stops at a cycle of parents
        with suppress(LogistError):  # a job without its parent runs on its own
            parent = read_current_state(project.open_job(above))
            is_halted = str(parent.get("status")) in HALTED
            known[above] = is_halted or _has_halted_ancestor(project, parent, known)
    return known[above]


def _can_gather(project: ProjectContext, state: JsonObject) -> bool:
    """True if all jobs that a job waits for are over; a child that does not
    exist is created by the parent's step.
    """
    return all(_is_over(project, str(child)) for child in state.get("children") or [])


def _is_over(project: ProjectContext, job_id: str) -> bool:
    try:
        state = read_current_state(project.open_job(job_id))
    except LogistError:
        return True  # the parent's step creates it, or reports the problem
    stuck = state.get("stuck") or {}
    return state.get("status") in TERMINAL or stuck.get("kind") == StuckKind.ATTEMPTS


def run_queue(
    project: ProjectContext,
    parallel: int,
    on_step: Callable[[CommandResult], None],
    choice: Choice = RUN,
    *,
    leave: Container[str] = (),
    only: Callable[[str], bool] = lambda job_id: True,
    on_begin: Callable[[], None] = lambda: None,
) -> Iterator[EndedJob]:
    """Run every ready job until it rests, at most `parallel` at a time, in rank order.

    A job whose provider is not available makes room for others. If only such jobs are left, waits
    `choice.provider_wait` seconds for one of them to continue; its end is yielded again then.

    Continues until none is ready, including jobs that are created meanwhile; those in `leave` are skipped. A
    job that waits for others continues when they are done. `only`: which jobs to run. `on_begin`: called before a job
    begins. `choice`: for all steps.
    """
    if project.breakers is None:
        project = replace(project, breakers=ProviderBreakers(project.clock.monotonic))
    deadline = project.clock.monotonic() + choice.provider_wait
    started: set[str] = set()
    running: dict[Future[EndedJob], str] = {}
    waiting: dict[str, int] = {}
    ready = _ReadyJobs(project, leave, only)
    with ThreadPoolExecutor(max_workers=parallel) as pool:
        while True:
            while len(running) < parallel and (job_id := ready.take(started.union(running.values()))):
                started.add(job_id)
                waiting.pop(job_id, None)
                on_begin()
                running[pool.submit(_run_one, project, job_id, on_step, choice)] = job_id
            if not running and _wait_for_providers(project, leave, only, deadline):
                continue
            if not running:
                return
            for future in _wait_for_end(project, running, waiting if len(running) < parallel else {}):
                ended = _collect_end(future, running.pop(future))
                started -= _find_continuing_jobs(ended)
                if ended.result is not None and ended.result.wait is not None:
                    waiting[ended.job_id] = ended.result.state.revision
                if ended.result is not None and ended.result.wait is None:
                    deadline = project.clock.monotonic() + choice.provider_wait
                if ended.result and (ended.result.state.parent or ended.result.state.children):
                    ready.expire()
                yield ended


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
        held = find_held_up_jobs(self._project)
        if any(each.exit_code == ProviderError.exit_code for each in held):
            os.close(fd)
            return  # these jobs continue by themselves
        if self._has_worked or not self._is_new:
            waiting = Counter(each.status.value if each.status else "damaged" for each in held)
            notification = hooks.build_queue_notification(self._project, dict(sorted(waiting.items())))
            hooks.run_hooks(self._project, self._due, notification)
        self._is_new = self._has_worked = False
        due_notifications.remove_due(self._project.jobs_dir, self._due, fd)


def _wait_for_providers(
    project: ProjectContext, leave: Container[str], only: Callable[[str], bool], deadline: float
) -> bool:
    """Wait until the first job that waits for its provider may try again.

    Returns False if there is none, if that is after `deadline`, or at a stop.
    """
    clock = project.clock
    waits = {
        job_id: wait
        for job_id in list_jobs(project.jobs_dir)
        if job_id not in leave and (wait := _read_wait(project, job_id)) and not wait.gave_up and only(job_id)
    }
    if not waits or project.stopping():
        return False
    began = clock.monotonic()
    due = began + min(outages.count_left(clock, wait) for wait in waits.values())
    if due > deadline:
        return False
    while clock.monotonic() < due and not project.stopping():
        for job_id, wait in waits.items():
            outages.show_wait(project, job_id, wait, clock.monotonic() - began)
        threading.Event().wait(outages.LOOK_SECONDS)
        if any(_read_wait(project, job_id) != wait for job_id, wait in waits.items()):
            break  # a person has removed the file, or moved the job on
    for job_id in waits:
        project.progress.remove(job_id)
    return not project.stopping()


def _read_wait(project: ProjectContext, job_id: str) -> ProviderWait | None:
    try:
        job = project.open_job(job_id)
        if not job.wait_file.exists():
            return None
        state = read_current_state(job)
        return job.read_wait(state.get("revision")) if str(state.get("status")) in READY else None
    except LogistError:
        return None


class _ReadyJobs:
    """The ready jobs of a run, in order.

    Listing them reads all jobs of the project. So that a run of thousands of jobs does not do this for each, a
    list is used until it is old, empty, or a job has ended that others depend on; a job from it is read again
    before it runs.
    """

    def __init__(self, project: ProjectContext, leave: Container[str], only: Callable[[str], bool]) -> None:
        self._project, self._leave, self._only = project, leave, only
        self._listed: deque[str] = deque()
        self._valid_until = 0.0

    def expire(self) -> None:
        """List the jobs again before the next one is taken."""
        self._listed.clear()

    def take(self, begun: Container[str]) -> str | None:
        """Remove and return the first ready job that has not begun; None if there is none, or after a stop."""
        if self._project.stopping():
            return None
        now = self._project.clock.monotonic()
        if now < self._valid_until:
            while self._listed:
                job_id = self._listed.popleft()
                if job_id not in begun and self._is_ready(job_id):
                    return job_id
        ids = list_ready_jobs(self._project, begun)
        self._listed = deque(each for each in ids if each not in self._leave and self._only(each))
        self._valid_until = now + LISTED_SECONDS
        return self._listed.popleft() if self._listed else None

    def _is_ready(self, job_id: str) -> bool:
        """True if a listed job still exists and is still ready: a person may have decided meanwhile."""
        is_there = (self._project.jobs_dir / job_id).is_dir()
        return is_there and _find_queue_place(self._project, job_id, {}) is not None


def _find_continuing_jobs(ended: EndedJob) -> set[str]:
    """The ids of the jobs that may continue in this run: the parent of a job, and a job that waits for its provider."""
    result = ended.result
    if result is None:
        return set()
    waits = result.wait is not None and not result.wait.gave_up
    return {result.state.parent or "", *([ended.job_id] if waits else [])}


def _run_one(
    project: ProjectContext, job_id: str, on_step: Callable[[CommandResult], None], choice: Choice
) -> EndedJob:
    quiet = replace(project, say=lambda text: project.say(f"{job_id}: {text}"))
    try:
        with project.turns.take():
            result = run_job(quiet, job_id, on_step, replace(choice, provider_wait=0.0), family_too=False)
        if result.wait is not None:
            quiet.report_progress(f"waiting for {outages.describe_with_message(result.wait)}")
        return EndedJob(job_id, result, None)
    except family.Unwanted as error:
        return EndedJob(
            job_id,
            record_decision(
                quiet, job_id, Kind.CANCEL, note=error.message, ends_agent=True, by_steward=False
            ),
            None,
        )
    except (Busy, family.SetAside) as error:
        project.say(f"{job_id}: skipped: {error.message}")
        return EndedJob(job_id, None, None)


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


def is_left_behind(project: ProjectContext, ended: EndedJob) -> bool:
    """True if a job was a child that its parent no longer waits for: its
    state does not matter for the run.
    """
    parent = ended.result.state.parent if ended.result else None
    if parent is None:
        return False
    try:
        state = read_current_state(project.open_job(parent))
    except LogistError:
        return False
    return ended.job_id not in (state.get("children") or [])


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
    """The first of FIRST_OF that is among the codes, else 0."""
    return next((code for code in FIRST_OF if code in codes), 0)
