"""`logist run`."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from logist import event_log
from logist.cli.options import (
    Amount,
    agent_option,
    choose_provider_wait,
    jobs_dir_option,
    json_flag,
    model_option,
    provider_wait_option,
    quiet_option,
)
from logist.cli.shell_values import complete_file
from logist.cli.show import job_rows, render
from logist.cli.show.output import Diagnostic, Line, Output
from logist.cli.stops import report_upgrade, stop_on_signals, survive_hangup
from logist.config.environment import Environment
from logist.core.text.counts import format_count
from logist.errors import Refused
from logist.event_log import events
from logist.lazy_modules import load_all
from logist.quick_tuple import NamedTuple
from logist.store.listing import list_job_ids

if TYPE_CHECKING:
    from logist.errors import LogistError
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.base.result import CommandResult
    from logist.jobs.heartbeat import Heartbeat
    from logist.jobs.job_queue import EndedJob, HeldUp
    from logist.jobs.turn.next_request import Choice

LOOK_SECONDS = 0.2
"""Seconds between two checks for a stop while `--watch` waits."""
LISTED = 20
"""Maximum number of waiting jobs in the text output; --json has all."""
LEFT_ROUNDS, LEFT_SECONDS = 12, 3600.0
"""A job whose provider or setup fails is skipped for this many rounds, then twice as many, up to this many
seconds."""


@click.command("run")
@stop_on_signals
@click.option(
    "--parallel",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of jobs to run at the same time  [default: max_concurrent_agents]",
)
@click.option(
    "--watch", is_flag=True, help="Run until stopped: look for ready jobs every poll_interval_seconds."
)
@click.option(
    "--heartbeat",
    metavar="FILE",
    shell_complete=complete_file,
    help="Write to FILE what the run does and how many jobs there are, in the text format of Prometheus; at each "
    "change, and every 15 seconds.",
)
@click.option(
    "--max-cost",
    type=Amount(),
    metavar="CENTS",
    help="The most that all jobs of this run together may cost, in US cents; jobs wait when it is used up.",
)
@provider_wait_option
@model_option
@agent_option
@quiet_option
@jobs_dir_option
@json_flag
@click.pass_obj
def run(
    environment: Environment,
    parallel: int | None,
    watch: bool,
    heartbeat: str | None,
    max_cost: float | None,
    wait: float | None,
    model: str | None,
    agent: str | None,
    quiet: bool,
    jobs_dir: str | None,
    as_json: bool,
) -> Output:
    """Run every ready job, lowest rank first.

    Stops when no job is ready. A job that fails doesn't stop the others. Jobs that wait for a person are listed
    at the end: STUCK, at a limit, waiting for approval, or damaged.

    Shows what the agents do while they work.

    Several runs at the same time share the jobs: each takes the next one that no other run works on, and its result has
    only its own jobs.

    If a provider is not available (429, 5xx, no connection), its jobs wait with a growing pause, and the jobs of other
    providers continue. When only such jobs are left, the run waits up to --wait, then lists them and ends with exit
    code 6. With --watch it waits until they continue; --wait has no effect then.

    If less than the setting `min_free_bytes` is left on the disk, no step begins: the jobs stay ready, and the run ends with
    exit code 8, or, with --watch, continues when there is enough space again.

    If a budget is used up, its jobs wait until it is raised or its period ends, and the run ends with exit code 7, or, with
    --watch, continues then.

    With --watch, a job whose provider fails (no key, key or request refused) or whose setup fails is skipped for 12
    rounds, then for twice as many, up to an hour, or until its state changes.

    Ctrl-C asks the running agents to end, prints what each has booked, in flight and unpaid, and records what is known.
    SIGTERM leaves them working, and the next run records their answers.

    If Logist is upgraded meanwhile, the run ends with 8, and leaves the answers of running agents to the next run.

    The exit code is the first of 1, 10, 5, 2, 6, 3, 7, 4, 11, 8 that any job ended with, else 0; 130 after
    Ctrl-C. Jobs that wait for a person also count, even if they were not run: 10 (damaged), 3 (STUCK), 7
    (limit), 11 (approval).
    """
    from logist.cli import early_couriers
    from logist.installed_files import InstalledFiles

    installed = InstalledFiles()
    couriers = early_couriers.begin_to_load(environment, jobs_dir, agent)
    from logist.cli import context
    from logist.cli.show.agent_progress import show_progress_of
    from logist.core.money.amounts import to_microcents
    from logist.jobs.base.breakers import ProviderBreakers
    from logist.jobs.base.budgets import make_run_id
    from logist.jobs.job_queue import choose_exit_code, find_held_up_jobs, is_left_behind
    from logist.jobs.turn.next_request import Choice

    project = context.open_project(environment, jobs_dir, agent, couriers)
    project.trust.require_to_run()
    project = show_progress_of(project, quiet=quiet, as_json=as_json)
    display = _RunDisplay(environment, quiet=as_json)
    gc.freeze()  # what is loaded now stays: don't search it for garbage again and again
    breakers = ProviderBreakers(project.clock.monotonic, is_watching=watch)
    project = replace(
        project,
        breakers=breakers,
        installed=installed,
        run_id=make_run_id(project),
        max_cost=None if max_cost is None else to_microcents(max_cost),
    )
    choice = Choice(model=model, command="run", provider_wait=0.0 if watch else choose_provider_wait(wait))
    parallel = parallel or project.settings.max_concurrent_agents
    if event_log.is_on():
        event_log.report(events.RunBegun(str(project.jobs_dir), parallel, watch))
    if watch:
        survive_hangup()
    with _write_heartbeat(project, heartbeat) as display.heartbeat:
        _run_rounds(project, parallel, watch, display, choice)
    rows = [_build_row(end, display.steps[end.job_id]) for end in display.ended.values()]
    counted = [end.exit_code for end in display.ended.values() if not is_left_behind(project, end)]
    # An interrupted run is incomplete, so it lists no waiting jobs; a watch always ends by a signal, or after an upgrade.
    is_interrupted = not project.may_begin_work()
    upgrade = report_upgrade(project)
    held = (
        [] if is_interrupted and not watch else find_held_up_jobs(project, () if watch else display.concluded)
    )
    code = project.stopping() or choose_exit_code(
        [*counted, *(each.exit_code for each in held), *(Refused.exit_code for _ in upgrade)]
    )
    waiting = [_build_held_row(each) for each in held]
    if event_log.is_on():
        display.report_waiting(held if is_interrupted else find_held_up_jobs(project))
        event_log.report(events.RunEnded(len(rows), display.steps.total(), code))
    data = {"jobs": rows, "waiting": waiting, "interrupted": is_interrupted}
    printed = [each for end in display.ended.values() for each in _list_warnings(end)] if as_json else []
    listed = held if as_json else held[:LISTED]
    return Output(
        data,
        _format_summary(rows, held, is_stopped=is_interrupted),
        (
            *upgrade,
            *printed,
            *map(_warn_waiting, listed),
            *_note_more(held, listed),
            *_note_other_runs(display.left_to_others),
            *_note_no_jobs(project, rows or held),
        ),
        code,
    )


class _RunDisplay:
    """Collects the results and prints each step when it ends; can be used from any thread."""

    def __init__(self, environment: Environment, *, quiet: bool) -> None:
        self.environment = environment
        self.quiet = quiet
        self.steps: Counter[str] = Counter()
        self.ended: dict[str, EndedJob] = {}
        self.passed: set[str] = set()
        """Jobs that were left to another run."""
        self.heartbeat: Heartbeat | None = None
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
            if not self.quiet:
                render.print_lines(prefix_lines(result.job_id, step_lines(result)), self.environment)

    def begin_round(self) -> None:
        if self.heartbeat:
            self.heartbeat.begin_round()

    def begin_job(self) -> None:
        if self.heartbeat:
            self.heartbeat.begin_job()

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
            () if is_printed and _list_warnings(known) == _list_warnings(ended) else _list_warnings(ended)
        )
        if ended.error and not is_printed:
            new_diagnostics = (_make_diagnostic(ended.error, ended.job_id), *new_diagnostics)
        if new_diagnostics and not self.quiet:
            with self._printing:
                render.print_diagnostics(new_diagnostics, self.environment)


def _report_end(ended: EndedJob) -> None:
    status = ended.result.state.status.value if ended.result else None
    with event_log.about_job(ended.job_id):
        event_log.report(events.JobRested(status, ended.exit_code, str(ended.error) if ended.error else None))


@contextmanager
def _write_heartbeat(project: ProjectContext, path: str | None) -> Iterator[Heartbeat | None]:
    if path is None:
        yield None
        return
    from logist.jobs.heartbeat import Heartbeat

    heartbeat = Heartbeat(project, path)
    heartbeat.start()
    try:
        yield heartbeat
    finally:
        heartbeat.end()


def _list_warnings(ended: EndedJob | None) -> tuple[Diagnostic, ...]:
    """Return the warnings of a job's result, such as why its work was not merged."""
    texts = ended.result.warnings if ended and ended.result else ()
    return tuple(Diagnostic("warning", "warning", text, ended.job_id if ended else None) for text in texts)


def _warn_waiting(held: HeldUp) -> Diagnostic:
    return Diagnostic("warning", "waiting", held.waits, held.job_id, held.next_command)


def _note_no_jobs(project: ProjectContext, handled: Sequence[object]) -> tuple[Diagnostic, ...]:
    """Name the directory if it has no jobs: it may be the wrong one."""
    if handled or list_job_ids(str(project.jobs_dir)):
        return ()
    return job_rows.note_no_jobs(str(project.jobs_dir))


def _note_more(held: list[HeldUp], listed: list[HeldUp]) -> tuple[Diagnostic, ...]:
    more = len(held) - len(listed)
    if not more:
        return ()
    return (
        Diagnostic(
            "info", "waiting", f"and {more} more waiting for a person", None, "to see all: logist job list"
        ),
    )


def _note_other_runs(jobs: int) -> tuple[Diagnostic, ...]:
    if not jobs:
        return ()
    return (
        Diagnostic(
            "info",
            "other_run",
            f"left to another `logist run` that works on them: {format_count(jobs, 'job')}",
        ),
    )


def _build_held_row(held: HeldUp) -> dict[str, Any]:
    return {
        "job": held.job_id,
        "status": held.status.value if held.status else None,
        "exit_code": held.exit_code,
        "waits": held.waits,
        "next_command": held.next_command,
    }


def _make_diagnostic(error: LogistError, job: str = "") -> Diagnostic:
    target = ": ".join(filter(None, (job, error.where))) or None
    return Diagnostic.from_error(error)._replace(target=target)


class Left:
    """The jobs that `--watch` skips for now, because their provider or setup failed.

    Those that wait for a provider that is not available are not among them: they continue when their pause is over.
    """

    def __init__(self, project: ProjectContext) -> None:
        self._project = project
        self._most = max(1, int(LEFT_SECONDS / project.settings.poll_interval_seconds))
        self._jobs: dict[str, _Out] = {}

    def record_end(self, ended: EndedJob) -> None:
        """Record how a job ended in this round."""
        from logist.errors import ProviderError, SetupFailed
        from logist.jobs.step_job import is_provider_failing

        known = self._jobs.get(ended.job_id)
        if isinstance(ended.error, SetupFailed | ProviderError):
            revision = self._read_revision(ended.job_id)
            again = known is not None and known.revision == revision
        elif ended.result is not None and is_provider_failing(ended.result):
            revision = ended.result.state.revision
            again = (
                known is not None and known.revision == ended.result.state.revision - 1
            )  # nothing but the same failure again
        else:
            self._jobs.pop(ended.job_id, None)
            return
        rounds = min(2 * known.rounds if known and again else LEFT_ROUNDS, self._most)
        self._jobs[ended.job_id] = _Out(rounds, rounds, revision)

    def start_round(self) -> frozenset[str]:
        """Return the jobs to skip in the next round; a job whose state changed is not skipped."""
        for job_id, out in list(self._jobs.items()):
            if self._read_revision(job_id) != out.revision:
                del self._jobs[job_id]
            else:
                self._jobs[job_id] = out._replace(left=out.left - 1)
        return frozenset(job_id for job_id, out in self._jobs.items() if out.left >= 0)

    def _read_revision(self, job_id: str) -> object:
        from logist.errors import LogistError
        from logist.jobs.base.stored_records import read_current_state

        try:
            return read_current_state(self._project.open_job(job_id)).get("revision")
        except LogistError:  # the next round reports the error
            return None


class _Out(NamedTuple):
    """How many rounds a job is skipped, how many of them remain, and the revision of its state."""

    rounds: int
    left: int
    revision: object


def _run_rounds(
    project: ProjectContext, parallel: int, watch: bool, shown: _RunDisplay, choice: Choice
) -> None:
    from logist.errors import LowOnSpace
    from logist.jobs.base.session import send_lost_notifications
    from logist.jobs.job_queue import QueueNotification, find_held_up_jobs, run_queue

    def begin_job() -> None:
        notification.begin()
        shown.begin_job()

    left_alone, notification = Left(project), QueueNotification(project)
    while True:
        is_short = False
        send_lost_notifications(project)
        leave = left_alone.start_round()
        shown.begin_round()
        for ended in run_queue(
            project,
            parallel,
            shown.add_step,
            choice,
            leave=leave,
            on_begin=begin_job,
            on_pass=shown.passed.add,
        ):
            shown.add_end(ended)
            left_alone.record_end(ended)
            notification.add_end(ended)
            is_short |= isinstance(ended.error, LowOnSpace)
        if not project.may_begin_work():
            return
        if not is_short:  # otherwise jobs are still ready
            notification.send()
        if not watch:
            return
        if event_log.is_on():
            shown.report_waiting(find_held_up_jobs(project))
        _wait_for_next_round(project)


def _wait_for_next_round(project: ProjectContext) -> None:
    load_all()  # Logist may be upgraded meanwhile: its modules must fit each other
    end = project.clock.monotonic() + project.settings.poll_interval_seconds
    while project.may_begin_work() and project.clock.monotonic() < end:
        threading.Event().wait(LOOK_SECONDS)


def _build_row(ended: EndedJob, steps: int) -> dict[str, Any]:
    error, result = ended.error, ended.result
    return {
        "job": ended.job_id,
        "status": result.state.status.value if result else None,
        "interactions": steps,
        "exit_code": ended.exit_code,
        "next_command": result.next_command if result else None,
        "error": _make_diagnostic(error)._asdict() if error else None,
    }


def _format_summary(rows: list[dict[str, Any]], held: list[HeldUp], *, is_stopped: bool) -> list[Line]:
    if not rows and is_stopped and not held:
        return ["stopped before a job was run"]
    if not rows:
        return [f"no ready jobs: {_count_by_state(held)}" if held else "no ready jobs"]
    ends = Counter("error" if row["error"] else row["status"] or "busy" for row in rows)
    counted = ", ".join(
        f"{count} {'errors' if status == 'error' and count > 1 else status}"
        for status, count in sorted(ends.items())
    )
    return [f"jobs: {len(rows)} ({counted})"]


def _count_by_state(held: list[HeldUp]) -> str:
    """Return the number of waiting jobs by state."""
    states = Counter(each.status.value if each.status else "damaged" for each in held)
    counted = ", ".join(f"{count} {status}" for status, count in sorted(states.items()))
    return f"{format_count(len(held), 'job')} waiting ({counted})"
