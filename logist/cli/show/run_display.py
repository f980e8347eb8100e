"""What a `logist run` shows and records while it works."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from logist import event_log
from logist.cli.show import render
from logist.cli.show.output import Diagnostic
from logist.config.environment import Environment
from logist.core.money.amounts import join_cents
from logist.errors import LogistError
from logist.event_log import events
from logist.store.run_records import (
    BUSY,
    ERROR,
    EndReason,
    JobRest,
    JobStart,
    RunEnd,
    RunRecorder,
    WorkedJob,
    add_to_jobs,
)

if TYPE_CHECKING:
    from logist.core.model import Interaction
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.base.result import CommandResult
    from logist.jobs.heartbeat import Heartbeat
    from logist.jobs.job_queue import EndedJob, HeldUp


class RunDisplay:
    """Collects and records the results, and prints each step when it ends; can be used from any thread."""

    def __init__(
        self, environment: Environment, project: ProjectContext, recorder: RunRecorder, *, quiet: bool
    ) -> None:
        self.environment = environment
        self.quiet = quiet
        self.steps: Counter[str] = Counter()
        self.ended: dict[str, EndedJob] = {}
        self.worked: dict[str, WorkedJob] = {}
        """What the record says, or would say, about each job."""
        self.passed: set[str] = set()
        """Jobs that were left to another run."""
        self.heartbeat: Heartbeat | None = None
        self.run_id = project.run_id
        self._clock, self._recorder = project.clock, recorder
        self._redact = project.redact_text
        self._began = self._clock.since_boot()
        self._work: dict[str, _Work] = {}
        """What the jobs do that run now."""
        self._printing = threading.Lock()
        self._is_short = False
        """Whether it was printed that too little space is left on the disk."""
        self._reported: dict[str, HeldUp] = {}

    @property
    def concluded(self) -> set[str]:
        """The jobs whose printed result already says what they wait for."""
        return {
            job
            for job, end in self.ended.items()
            if end.error or (end.result and not end.result.state.children and end.result.wait is None)
        }

    @property
    def left_to_others(self) -> int:
        """The number of jobs that only other runs worked on."""
        return len(self.passed - self.ended.keys())

    def add_step(self, result: CommandResult) -> None:
        from logist.cli.show.view import prefix_lines, step_lines

        if self.heartbeat:
            self.heartbeat.add_step(result)
        with self._printing:
            self.steps[result.job_id] += len(result.entries)
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
            known = self.worked.get(job_id)
            work = self._work[job_id] = _Work(self._clock.since_boot())
            if known is not None and known.rested is not None and not known.rested.interactions:
                # A watch tries a job that can't be continued again and again: this is recorded once it does something.
                work.unwritten = begun
            else:
                self._recorder.write(begun)
                add_to_jobs(self.worked, begun)

    def _record_end(self, ended: EndedJob) -> None:
        with self._printing:
            work = self._work.pop(ended.job_id, None) or _Work(self._clock.since_boot())
            rested = self._describe_rest(ended, work)
            known = self.worked.get(ended.job_id)
            if work.unwritten is not None:
                if known is not None and known.rested is not None and _has_same_end(known.rested, rested):
                    return
                self._recorder.write(work.unwritten)
            self._recorder.write(rested)
            add_to_jobs(self.worked, rested)

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
                len(self.worked),
                left,
                sum(each.cost_microcents for each in self.worked.values()),
                round(self._clock.since_boot() - self._began, 3),
                self._redact(error),
            )
            if self.worked:
                self._recorder.write(ended)
            self._recorder.close()
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
        known = self.ended.get(ended.job_id)
        self.ended[ended.job_id] = ended
        is_printed = known is not None and str(known.error) == str(
            ended.error
        )  # don't repeat it in every round
        if isinstance(ended.error, LowOnSpace):  # once for all jobs, although the free space changes a little
            is_printed, self._is_short = self._is_short, True
        elif ended.result is not None:
            self._is_short = False
        new_diagnostics = (
            () if is_printed and list_warnings(known) == list_warnings(ended) else list_warnings(ended)
        )
        if ended.error and not is_printed:
            new_diagnostics = (make_diagnostic(ended.error, ended.job_id), *new_diagnostics)
        if new_diagnostics and not self.quiet:
            with self._printing:
                render.print_diagnostics(new_diagnostics, self.environment)


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


def list_warnings(ended: EndedJob | None) -> tuple[Diagnostic, ...]:
    """Return the warnings of a job's result, such as why its work was not merged."""
    texts = ended.result.warnings if ended and ended.result else ()
    return tuple(Diagnostic("warning", "warning", text, ended.job_id if ended else None) for text in texts)


def make_diagnostic(error: LogistError, job: str = "") -> Diagnostic:
    """Return the diagnostic for the error of a job."""
    target = ": ".join(filter(None, (job, error.where))) or None
    return Diagnostic.from_error(error)._replace(target=target)
