"""What a `logist run` shows and records while it works."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from logist import event_log
from logist.cli.show import render
from logist.cli.show.output import Diagnostic
from logist.config.environment import Environment
from logist.core.money.amounts import join_cents
from logist.errors import LogistError
from logist.event_log import events
from logist.quick_tuple import NamedTuple
from logist.store.run_records import (
    BUSY,
    ERROR,
    EndReason,
    JobRest,
    JobStart,
    RunEnd,
    RunRecorder,
    WorkedJob,
    sum_up_jobs,
)

if TYPE_CHECKING:
    from logist.core.model import Interaction
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.base.result import CommandResult
    from logist.jobs.heartbeat import Heartbeat
    from logist.jobs.job_queue import EndedJob, HeldUp


class JobEnd(NamedTuple):
    """What a run keeps of a job that has come to rest, until the end of the run."""

    status: str
    """That of the job, or ERROR or BUSY."""
    exit_code: int
    parent: str | None
    """If it is a child job."""
    is_explained: bool
    """Whether what was printed says what the job waits for."""
    error: Diagnostic | None
    warnings: tuple[Diagnostic, ...]
    next_command: str | None
    """Only with `--json`."""


@lru_cache(maxsize=100)
def _share(end: JobEnd) -> JobEnd:
    """Return the same object for equal ends: most of ten thousand jobs end alike."""
    return end


class RunDisplay:
    """Records the results, keeps a little of each, and prints each step when it ends; can be used from any thread.

    What jobs cost and how long they took is read from the record at the end, so that a run of very many jobs needs
    hardly more memory than one of a few.
    """

    def __init__(
        self, environment: Environment, project: ProjectContext, recorder: RunRecorder, *, quiet: bool
    ) -> None:
        self.environment = environment
        self.quiet = quiet
        self.steps = 0
        self.begun: dict[str, JobEnd | None] = {}
        """The jobs in the order in which they were begun, each with its last end."""
        self.passed: set[str] = set()
        """Jobs that were left to another run."""
        self.heartbeat: Heartbeat | None = None
        self.run_id = project.run_id
        self._clock, self._recorder = project.clock, recorder
        self._redact = project.redact_text
        self._began = self._clock.since_boot()
        self._work: dict[str, _Work] = {}
        """What the jobs do that run now."""
        self._idle: dict[str, JobRest] = {}
        """What was recorded last about jobs that did nothing."""
        self._microcents = 0
        self._printing = threading.Lock()
        self._is_short = False
        """Whether it was printed that too little space is left on the disk."""
        self._has_workers = project.workers is not None
        self._refusals: set[str] = set()
        """The printed reasons why no worker can do a task."""
        self._reported: dict[str, HeldUp] = {}

    @property
    def ended(self) -> dict[str, JobEnd]:
        """The jobs that have come to rest."""
        return {job: end for job, end in self.begun.items() if end is not None}

    @property
    def concluded(self) -> set[str]:
        """The jobs whose printed result already says what they wait for."""
        return {job for job, end in self.ended.items() if end.is_explained}

    @property
    def left_to_others(self) -> int:
        """The number of jobs that only other runs worked on."""
        return len(self.passed - self.ended.keys())

    def read_work(self, jobs: Collection[str]) -> list[WorkedJob]:
        """Read what the record says about jobs, in the order in which they were begun; nothing if it can't be read."""
        try:
            return sum_up_jobs(
                event
                for event in self._recorder.iter_events()
                if isinstance(event, JobStart | JobRest) and event.job in jobs
            )
        except OSError:
            return []

    def add_step(self, result: CommandResult) -> None:
        from logist.cli.show.view import prefix_lines, step_lines

        if self.heartbeat:
            self.heartbeat.add_step(result)
        with self._printing:
            self.steps += len(result.entries)
            work = self._work.setdefault(result.job_id, _Work(self._clock.since_boot()))
            work.add_entries(result.entries)
            if work.entries and work.unwritten is not None:
                self._recorder.write(work.unwritten)
                work.unwritten = None
            if not self.quiet:
                render.print_lines(prefix_lines(result.job_id, step_lines(result)), self.environment)

    def begin_round(self) -> None:
        if self.heartbeat:
            self.heartbeat.begin_round()

    def begin_job(self, job_id: str) -> None:
        if self.heartbeat:
            self.heartbeat.begin_job()
        begun = JobStart(job_id, self._clock.timestamp())
        with self._printing:
            self.begun.setdefault(job_id, None)
            work = self._work[job_id] = _Work(self._clock.since_boot())
            if job_id in self._idle:
                # A watch tries a job that can't be continued again and again: this is recorded once it does something.
                work.unwritten = begun
            else:
                self._recorder.write(begun)

    def _record_end(self, ended: EndedJob) -> None:
        with self._printing:
            work = self._work.pop(ended.job_id, None) or _Work(self._clock.since_boot())
            rested = self._describe_rest(ended, work)
            known = self._idle.pop(ended.job_id, None)
            if work.unwritten is not None:
                if known is not None and _has_same_end(known, rested):
                    self._idle[ended.job_id] = known
                    return
                self._recorder.write(work.unwritten)
            self._recorder.write(rested)
            self._microcents += rested.cost_microcents
            if not rested.interactions:
                self._idle[ended.job_id] = rested

    def _describe_rest(self, ended: EndedJob, work: _Work) -> JobRest:
        from logist.jobs.job_queue import describe_rest

        result, error = ended.result, ended.error
        waits = describe_rest(ended)
        wait = result.wait if result else None
        fix = (result.next_command if result and waits else error and error.fix) or ""
        if wait is not None and wait.budget:
            fix = wait.budget_command
        return JobRest(
            ended.job_id,
            self._clock.timestamp(),
            result.state.status.value if result else ERROR if error else BUSY,
            ended.exit_code,
            work.entries,
            work.microcents,
            round(self._clock.since_boot() - work.began, 3),
            self._redact(" ".join(waits.split())),
            fix,
        )

    def end(self, why: EndReason, code: int, *, left: int = 0, error: str = "") -> RunEnd:
        """Record the end of the run, if it has begun a job."""
        with self._printing:
            ended = RunEnd(
                self._clock.timestamp(),
                why,
                code,
                len(self.begun),
                left,
                self._microcents,
                round(self._clock.since_boot() - self._began, 3),
                self._redact(error),
            )
            if self.begun:
                self._recorder.write(ended)
        return ended

    def report_waiting(self, held: Sequence[HeldUp]) -> None:
        """Report what jobs wait for, where that is new."""
        for each in held:
            if self._reported.get(each.job_id) != each:
                with event_log.about_job(each.job_id):
                    status = each.status and each.status.value
                    event_log.report(events.JobWaits(status, each.waits, each.next_command))
        self._reported = {each.job_id: each for each in held}

    def add_end(self, ended: EndedJob) -> None:
        from logist.errors import LowOnSpace

        if event_log.is_on():
            _report_end(ended)
        if self.heartbeat:
            self.heartbeat.add_end(ended)
        self._record_end(ended)
        known, end = self.begun.get(ended.job_id), self._describe_end(ended)
        self.begun[ended.job_id] = end
        is_printed = known is not None and known.error == end.error  # don't repeat it in every round
        if isinstance(ended.error, LowOnSpace):  # once for all jobs, although the free space changes a little
            is_printed, self._is_short = self._is_short, True
        elif ended.result is not None:
            self._is_short = False
        if self._has_workers:
            from logist.jobs.base.worker_pool import NoFitWorker

            if isinstance(
                ended.error, NoFitWorker
            ):  # also once for all jobs; the table has the reason of each
                is_printed = is_printed or ended.error.message in self._refusals
                self._refusals.add(ended.error.message)
        new_diagnostics = () if is_printed and known and known.warnings == end.warnings else end.warnings
        if ended.error and not is_printed:
            new_diagnostics = (_make_diagnostic(ended.error, ended.job_id), *new_diagnostics)
        if new_diagnostics and not self.quiet:
            with self._printing:
                render.print_diagnostics(new_diagnostics, self.environment)

    def _describe_end(self, ended: EndedJob) -> JobEnd:
        error, result = ended.error, ended.result
        end = JobEnd(
            result.state.status.value if result else ERROR if error else BUSY,
            ended.exit_code,
            result.state.parent if result else None,
            bool(error or (result and not result.state.children and result.wait is None)),
            _make_diagnostic(error) if error else None,
            tuple(Diagnostic("warning", "warning", text, ended.job_id) for text in result.warnings)
            if result
            else (),
            result.next_command if result and self.quiet else None,
        )
        return _share(end)


class _Work:
    """What a job has done since it was begun."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.entries = self.microcents = 0
        self.unwritten: JobStart | None = None
        """Its begin, if that is not recorded yet."""

    def add_entries(self, entries: Sequence[Interaction]) -> None:
        self.entries += len(entries)
        self.microcents += sum(
            join_cents(each.usage.cost_cents, each.usage.cost_microcents) for each in entries
        )


def _has_same_end(one: JobRest, other: JobRest) -> bool:
    return one._replace(at="", seconds=0.0) == other._replace(at="", seconds=0.0)


def _report_end(ended: EndedJob) -> None:
    status = ended.result.state.status.value if ended.result else None
    with event_log.about_job(ended.job_id):
        event_log.report(events.JobRested(status, ended.exit_code, str(ended.error) if ended.error else None))


def _make_diagnostic(error: LogistError, job: str = "") -> Diagnostic:
    """Return the diagnostic for the error of a job."""
    target = ": ".join(filter(None, (job, error.where))) or None
    return Diagnostic.from_error(error)._replace(target=target)
