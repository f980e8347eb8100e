"""Running jobs until nothing is ready: one job, or the queue in rank order, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import islice

from logist.core.model import Status
from logist.errors import Busy, LogistError
from logist.jobs.planning import Choice
from logist.jobs.project import Project
from logist.jobs.stepping import Result, do_step, provider_is_out
from logist.store import JobDir, list_jobs

READY = frozenset({Status.PENDING, Status.REVIEW_REQUIRED})
FIRST_OF = (1, 10, 5, 6, 3, 7, 4, 11)
"""The exit code of a run over many jobs is the first of these that any job ended with, else 0."""


@dataclass(frozen=True)
class Ended:
    """How one job of a run ended: its last result, or the error that stopped it."""

    job_id: str
    result: Result | None
    error: LogistError | None

    @property
    def exit_code(self) -> int:
        if self.error is not None:
            return self.error.exit_code
        return self.result.exit_code if self.result else 0


def run_job(project: Project, job_id: str, on_step: Callable[[Result], None]) -> Result:
    """Steps one job until it waits for a person, ends, or its provider is out."""
    while True:
        result = do_step(project, job_id, Choice(command="run"))
        on_step(result)
        ready = result.state.status in READY
        if not ready or not result.entries or provider_is_out(result) or project.stopping():
            return result


def ready_jobs(project: Project) -> list[str]:
    """The ids of the jobs an agent could work on now, by rank, then age, then id.

    A job whose state can't be read is listed too, so that its run tells what is wrong.
    """
    ranked = []
    for job_id in list_jobs(project.jobs_dir):
        job = JobDir(project.jobs_dir / job_id, job_id)
        try:
            state = job.read_state() or {"status": Status.PENDING}
        except LogistError:
            state = {"status": Status.PENDING}
        if str(state.get("status")) in READY or job.inflight.exists():
            rank = state.get("rank")
            ranked.append((rank if isinstance(rank, int) else 0, str(state.get("created_at")), job_id))
    return [job_id for _, _, job_id in sorted(ranked)]


def run_queue(
    project: Project, parallel: int, on_step: Callable[[Result], None], *, leave: Container[str] = ()
) -> Iterator[Ended]:
    """Runs every ready job once to its rest, at most `parallel` at a time, in rank order.

    Goes on until none is ready, jobs that were made meanwhile included; those in `leave` are passed over.
    """
    begun: set[str] = set()
    running: dict[Future[Ended], str] = {}
    with ThreadPoolExecutor(max_workers=parallel) as pool:
        while True:
            for job_id in _next_jobs(project, parallel - len(running), begun, leave):
                begun.add(job_id)
                running[pool.submit(_run_one, project, job_id, on_step)] = job_id
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield _ended(future, running.pop(future))


def _next_jobs(project: Project, room: int, begun: set[str], leave: Container[str]) -> list[str]:
    if project.stopping() or room <= 0:
        return []
    ready = (job_id for job_id in ready_jobs(project) if job_id not in begun and job_id not in leave)
    return list(islice(ready, room))


def _run_one(project: Project, job_id: str, on_step: Callable[[Result], None]) -> Ended:
    quiet = replace(project, say=lambda text: project.say(f"{job_id}: {text}"))
    try:
        return Ended(job_id, run_job(quiet, job_id, on_step), None)
    except Busy as error:
        project.say(f"{job_id}: passed over, {error.message}")
        return Ended(job_id, None, None)


def _ended(future: Future[Ended], job_id: str) -> Ended:
    """How the job ended; a surprise is an error of this job, and stops no other."""
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, LogistError):
        return Ended(job_id, None, error)
    if not isinstance(error, Exception):
        raise error
    return Ended(job_id, None, LogistError(f"{type(error).__name__}: {error}"))


def exit_code(codes: list[int]) -> int:
    """The first present of FIRST_OF, else 0."""
    return next((code for code in FIRST_OF if code in codes), 0)
