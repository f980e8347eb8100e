"""Running jobs until nothing is ready: one job, or the queue in rank order, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

from logist.core.model import Status
from logist.errors import Busy, LogistError
from logist.jobs.project import Project
from logist.jobs.stepping import Choice, Result, do_step, provider_is_out
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
            state = job.read_state()
        except LogistError:
            ranked.append((0, "", job_id))
            continue
        if state is None or state.get("status") in READY or job.inflight.exists():
            state = state or {}
            ranked.append((int(state.get("rank") or 0), str(state.get("created_at") or ""), job_id))
    return [job_id for _, _, job_id in sorted(ranked)]


def run_queue(project: Project, parallel: int, on_step: Callable[[Result], None]) -> Iterator[Ended]:
    """Runs every ready job once to its rest, at most `parallel` at a time, in rank order."""
    waiting = ready_jobs(project)
    with ThreadPoolExecutor(max_workers=parallel) as pool:
        running: set[Future[Ended]] = set()
        while (waiting or running) and not (project.stopping() and not running):
            while waiting and len(running) < parallel and not project.stopping():
                running.add(pool.submit(_run_one, project, waiting.pop(0), on_step))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()


def _run_one(project: Project, job_id: str, on_step: Callable[[Result], None]) -> Ended:
    quiet = replace(project, say=lambda text: project.say(f"{job_id}: {text}"))
    try:
        return Ended(job_id, run_job(quiet, job_id, on_step), None)
    except Busy as error:
        project.say(f"{job_id}: passed over, {error.message}")
        return Ended(job_id, None, None)
    except LogistError as error:
        return Ended(job_id, None, error)


def exit_code(codes: list[int]) -> int:
    """The first present of FIRST_OF, else 0."""
    return next((code for code in FIRST_OF if code in codes), 0)
