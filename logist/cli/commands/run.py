"""`logist run`."""

from __future__ import annotations

import gc
import os
import shlex
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from logist import __version__, event_log
from logist.cli.options import (
    Amount,
    StatusChoice,
    agent_option,
    choose_provider_wait,
    jobs_dir_option,
    json_flag,
    model_option,
    provider_wait_option,
    quiet_option,
    refuse_empty,
)
from logist.cli.run_workers import Engine, choose_engine, engine_options, join_cluster, needs_cluster
from logist.cli.shell_values import complete_file, complete_tag
from logist.cli.show import job_rows, render, run_table
from logist.cli.show.output import Diagnostic, Output
from logist.cli.show.run_display import JobEnd, RunDisplay
from logist.cli.stops import report_upgrade, stop_on_signals, survive_hangup
from logist.config.environment import Environment
from logist.core.money.amounts import format_money, split_cents
from logist.core.text.counts import format_count
from logist.errors import InvalidFile, LogistError, Refused, UsageError
from logist.event_log import events
from logist.lazy_modules import load_all
from logist.quick_tuple import NamedTuple
from logist.store.job_index import JobFilter
from logist.store.listing import list_job_ids
from logist.store.run_records import (
    BUSY,
    ERROR,
    EndReason,
    RunEnd,
    RunRecorder,
    RunStart,
    WorkedJob,
    find_runs_folder,
)
from logist.timestamps import find_next_time, format_duration, format_local, parse_duration

if TYPE_CHECKING:
    from logist.jobs.base.project import Deadline, ProjectContext
    from logist.jobs.heartbeat import Heartbeat
    from logist.jobs.job_queue import EndedJob, HeldUp
    from logist.jobs.run_selection import RunSelection
    from logist.jobs.turn.next_request import Choice

LOOK_SECONDS = 0.2
"""Seconds between two checks for a stop while `--watch` waits."""
LISTED = 20
"""Maximum number of waiting jobs in the text output; --json has all."""
READY_STATUSES = ("PENDING", "REVIEW_REQUIRED")
"""The statuses in which an agent is due."""
LEFT_ROUNDS, LEFT_SECONDS = 12, 3600.0
"""A job whose provider or setup fails is skipped for this many rounds, then twice as many, up to this many
seconds."""


@click.command("run", context_settings={"allow_extra_args": True})  # to say what to do with one
@stop_on_signals
@click.option(
    "--parallel",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of jobs to run at the same time  [default: max_concurrent_agents; with --on, as many as the workers have "
    "threads]",
)
@engine_options
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
@click.option(
    "--until",
    metavar="HH:MM",
    help="Begin no more steps from this time of the day on: 07:00 is the next 07:00 by the clock of this machine.",
)
@click.option(
    "--for", "work_time", metavar="DURATION", help="Begin no more steps after this time: 8h, 90m, 1h30m, 45s."
)
@click.option(
    "--max-jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Begin at most N jobs. A job and its child jobs count as one.",
)
@click.option(
    "--tag",
    metavar="TAG",
    callback=refuse_empty,
    shell_complete=complete_tag,
    help="Run only jobs with this tag, and their child jobs.",
)
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=StatusChoice(READY_STATUSES),
    metavar="STATUS",
    help="Begin only jobs in this status: PENDING or REVIEW_REQUIRED; repeatable.",
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
    on: str | None,
    scheduler: str | None,
    watch: bool,
    heartbeat: str | None,
    max_cost: float | None,
    until: str | None,
    work_time: str | None,
    max_jobs: int | None,
    tag: str | None,
    statuses: tuple[str, ...],
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

    Shows what the agents do while they work; each line begins with the local time.

    When --until, --for or --max-jobs is reached, running steps end normally. If ready jobs are left, the exit code is 7.
    --until follows the clock of the machine, also if that is set meanwhile; --for doesn't, and counts the time in which the
    machine is suspended. With --tag, only jobs with this tag are listed at the end and count for the exit code.

    A job that has begun continues until it ends or waits for a person, whatever its status is by then.

    The record of a run that has begun a job is in .logist/runs: see `logist runs`.

    Several runs at the same time share the jobs: each takes the next one that no other run works on, and its result has
    only its own jobs.

    If a provider is not available (429, 5xx, no connection), its jobs wait with a growing pause, and the jobs of other
    providers continue. When only such jobs are left, the run waits up to --wait, then lists them and ends with exit
    code 6. With --watch it waits until they continue; --wait has no effect then.

    If less than the setting `min_free_bytes` is left on the disk, no step begins: the jobs stay ready, and the run ends with
    exit code 8, or, with --watch, continues when there is enough space again.

    If a budget is used up, its jobs wait until it is raised or its period ends, and the run ends with exit code 7, or, with
    --watch, continues then.

    With --on, the agents, tools and checks of jobs run on the workers of a cluster. The jobs, their locks and the budgets stay
    on this machine.

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

    _refuse_jobs(click.get_current_context().args)
    seconds = _parse_work_time(work_time)
    if until is not None and find_next_time(0.0, until) is None:
        fix = "use HH:MM, such as 07:00 or 23:30"
        raise UsageError(f"not a time of the day: {until!r}", where="--until", fix=fix)
    engine = choose_engine(on, scheduler)
    installed = InstalledFiles()
    couriers = None if engine else early_couriers.begin_to_load(environment, jobs_dir, agent)
    from logist.cli import context
    from logist.cli.show.agent_progress import show_progress_of
    from logist.core.money.amounts import to_microcents
    from logist.jobs.base.breakers import ProviderBreakers
    from logist.jobs.base.budgets import make_run_id
    from logist.jobs.base.session import send_lost_notifications
    from logist.jobs.run_selection import RunSelection
    from logist.jobs.turn.next_request import Choice

    project = context.open_project(environment, jobs_dir, agent, couriers)
    project.trust.require_to_run()
    project = show_progress_of(project, quiet=quiet, as_json=as_json)
    _require_known_names(project, model)
    gc.freeze()  # what is loaded now stays: don't search it for garbage again and again
    breakers = ProviderBreakers(project.clock.monotonic, is_watching=watch)
    project = replace(
        project,
        breakers=breakers,
        installed=installed,
        run_id=make_run_id(project),
        max_cost=None if max_cost is None else to_microcents(max_cost),
        deadline=_make_deadline(project, until, seconds),
    )
    selection = RunSelection(tag=tag, statuses=frozenset(statuses), most_jobs=max_jobs)
    choice = Choice(model=model, command="run", provider_wait=0.0 if watch else choose_provider_wait(wait))
    has_work = engine is None or watch or needs_cluster(project, engine, selection)
    if engine is not None and has_work:
        workers, parallel = join_cluster(project, engine, parallel)
        project = replace(project, workers=workers)
        from logist.jobs.turn.late_results import collect_late_results

        collect_late_results(project)
    parallel = parallel or project.settings.max_concurrent_agents
    if event_log.is_on():
        event_log.report(events.RunBegun(str(project.jobs_dir), parallel, watch))
    if watch:
        survive_hangup()
    display = RunDisplay(environment, project, _make_recorder(project), quiet=as_json)
    try:
        with _write_heartbeat(project, heartbeat) as display.heartbeat, render.print_times():
            _report_limits(project)
            if has_work:
                is_short = _run_rounds(project, parallel, watch, display, choice, selection)
            else:  # a job that has become ready since that look must not run on this machine
                send_lost_notifications(project)
                is_short = False
            if (loss := project.find_cluster_loss()) is not None and not project.stopping():
                raise loss
    except LogistError as error:
        display.end(EndReason.ERROR, error.exit_code, error=error.message)
        raise
    return _end_run(
        environment, project, display, selection, engine, watch=watch, is_short=is_short, as_json=as_json
    )


def _refuse_jobs(given: Sequence[str]) -> None:
    if given:
        fix = f"to run one job: {shlex.join(('logist', 'job', 'run', given[0]))}"
        raise UsageError(f"logist run takes no job, because it runs every ready one: {given[0]}", fix=fix)


def _require_known_names(project: ProjectContext, model: str | None) -> None:
    """Raise InvalidFile for an unknown --model or rate limit: each job would fail for the same reason."""
    from logist.jobs.base.call_limits import list_call_rates

    if model is not None:
        try:
            project.find_model(model)
        except InvalidFile as error:
            raise InvalidFile(error.message, where="--model", fix=error.fix) from error
    if project.settings.rate_limits and not project.has_local_agent:
        list_call_rates(project.budget_settings)


def _parse_work_time(text: str | None) -> int | None:
    seconds = None if text is None else parse_duration(text)
    if text is not None and not seconds:
        fix = "use hours, minutes or both, such as 8h, 90m or 1h30m"
        raise UsageError(f"not a duration: {text!r}", where="--for", fix=fix)
    return seconds


def _make_deadline(project: ProjectContext, until: str | None, seconds: int | None) -> Deadline | None:
    from logist.jobs.base.project import Deadline

    clock = project.clock
    at = None if until is None else find_next_time(clock.now().timestamp(), until)
    uptime = None if seconds is None else clock.since_boot() + seconds
    return None if at is None and uptime is None else Deadline(clock, at, uptime)


def _report_limits(project: ProjectContext) -> None:
    """Print until when the run works, and what it may spend: a person may have meant another day, or dollars."""
    if project.max_cost is not None:
        most = format_money(project.max_cost)
        project.report_progress(f"all jobs of this run together cost at most {most}")
    deadline = project.deadline
    if deadline is None:
        return
    now = project.clock.now().timestamp()
    left = None if deadline.uptime is None else deadline.uptime - project.clock.since_boot()
    times = [each for each in (deadline.until, None if left is None else now + left) if each is not None]
    at = min(times)
    project.report_progress(f"no more steps begin after {format_local(at)} (in {format_duration(at - now)})")


def _make_recorder(project: ProjectContext) -> RunRecorder:
    context = click.get_current_context()
    begun = RunStart(
        project.run_id,
        project.clock.timestamp(),
        tuple(map(project.redact_text, _list_arguments(context))),
        os.getpid(),
        __version__,
    )
    recorder = RunRecorder(
        find_runs_folder(str(project.home), str(project.jobs_dir)), begun, _warn_of(project)
    )
    context.call_on_close(recorder.close)
    return recorder


def _warn_of(project: ProjectContext) -> Callable[[str], None]:
    return lambda text: project.say(f"warning: {text}")


def _list_arguments(context: click.Context) -> Iterator[str]:
    """Yield the options of the command that runs, as a person would type them."""
    for parameter in context.command.params:
        name, value = str(parameter.name), context.params.get(str(parameter.name))
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            for each in value if isinstance(value, tuple) else (value,):
                yield parameter.opts[-1]
                if each is not True:
                    yield f"{each:g}" if isinstance(each, float) else str(each)


def _end_run(
    environment: Environment,
    project: ProjectContext,
    display: RunDisplay,
    selection: RunSelection,
    engine: Engine | None,
    *,
    watch: bool,
    is_short: bool,
    as_json: bool,
) -> Output:
    """Record the end of the run, and return what it did and what waits."""
    from logist.jobs.job_queue import choose_exit_code, find_held_up_jobs, is_left_behind, list_left_jobs
    from logist.jobs.step_job import AT_A_LIMIT

    counted = [
        end.exit_code for job, end in display.ended.items() if not is_left_behind(project, job, end.parent)
    ]
    # A stopped run is incomplete, so it lists no waiting jobs; a watch ends by a signal, at its limit, or after an upgrade.
    upgrade = report_upgrade(project)
    is_interrupted = bool(project.stopping() or upgrade)
    held = (
        []
        if is_interrupted and not watch
        else find_held_up_jobs(project, () if watch else display.concluded, selection)
    )
    is_limited = not is_interrupted and (project.is_time_over() or selection.is_full)
    left = len(list_left_jobs(project, selection)) if is_limited else 0
    code = project.stopping() or choose_exit_code(
        [
            *counted,
            *(each.exit_code for each in held),
            *(Refused.exit_code for _ in upgrade),
            *([AT_A_LIMIT] if left else []),
        ]
    )
    waiting = [_build_held_row(each) for each in held]
    is_full = selection.is_full and bool(left or watch)
    why = _choose_reason(project, is_full=is_full, is_short=is_short)
    ended = display.end(why, code, left=left)
    if event_log.is_on():
        display.report_waiting(held if is_interrupted else find_held_up_jobs(project))
        event_log.report(events.RunEnded(ended.jobs, display.steps, code))
    printed = [each for end in display.ended.values() for each in end.warnings] if as_json else []
    last = _count_ends(display, held, is_stopped=is_interrupted)
    codes = {job: end.exit_code if end else 0 for job, end in display.begun.items()}
    chosen = run_table.choose_listed(codes)
    worked = {each.job: each for each in display.read_work(codes if as_json else chosen)}
    rows = [worked[job] for job in chosen if job in worked]
    summary = run_table.RunSummary(environment, rows, len(codes), display.run_id, ended, last)
    below = held if as_json else [each for each in held if each.job_id not in summary.listed_jobs]
    listed = below if as_json else below[:LISTED]
    return Output(
        _build_data(display, worked, ended, waiting, is_interrupted=is_interrupted),
        summary.lines,
        (
            *upgrade,
            *printed,
            *map(_warn_waiting, listed),
            *_note_more(below, listed),
            *_warn_left(why, left, engine),
            *_note_other_runs(display.left_to_others),
            *_note_no_jobs(project, selection, list(display.ended) or held),
        ),
        code,
        table=summary.table,
        on_terminal=summary.draw,
    )


def _choose_reason(project: ProjectContext, *, is_full: bool, is_short: bool) -> EndReason:
    if project.stopping():
        return EndReason.STOPPED
    if project.was_upgraded():
        return EndReason.UPGRADED
    if project.is_time_over():
        return EndReason.TIME
    if is_short:
        return EndReason.LOW_ON_SPACE
    return EndReason.MAX_JOBS if is_full else EndReason.NOTHING_READY


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


def _warn_waiting(held: HeldUp) -> Diagnostic:
    return Diagnostic("warning", "waiting", held.waits, held.job_id, held.next_command)


def _note_no_jobs(
    project: ProjectContext, selection: RunSelection, handled: Sequence[object]
) -> tuple[Diagnostic, ...]:
    """Name the directory if it has no jobs: it may be the wrong one. Name a tag that no job has: it may be misspelled."""
    if handled:
        return ()
    if not list_job_ids(str(project.jobs_dir)):
        return job_rows.note_no_jobs(str(project.jobs_dir))
    if selection.tag is not None and _is_selection_empty(project, JobFilter(tag=selection.tag)):
        message = f"no job has the tag {selection.tag}"
    elif selection.statuses and _is_selection_empty(project, JobFilter(statuses=selection.statuses)):
        message = f"no job is {' or '.join(sorted(selection.statuses))}"
    else:
        return ()
    return (Diagnostic("warning", "none_selected", message, None, "to see all jobs: logist job list"),)


def _is_selection_empty(project: ProjectContext, wanted: JobFilter) -> bool:
    return job_rows.read_listing(str(project.jobs_dir), wanted, limit=1).is_empty


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
    project: ProjectContext,
    parallel: int,
    watch: bool,
    shown: RunDisplay,
    choice: Choice,
    selection: RunSelection,
) -> bool:
    """Run jobs until the run has to end; return whether that was because of too little space on the disk."""
    from logist.errors import LowOnSpace
    from logist.jobs.base.session import send_lost_notifications
    from logist.jobs.job_queue import QueueNotification, find_held_up_jobs, list_left_jobs, run_queue
    from logist.jobs.run_selection import RunSelection

    def begin_job(job_id: str) -> None:
        notification.begin()
        shown.begin_job(job_id)

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
            selection=selection,
        ):
            shown.add_end(ended)
            left_alone.record_end(ended)
            notification.add_end(ended)
            is_short |= isinstance(ended.error, LowOnSpace)
        if not project.may_begin_work():
            return False
        if not is_short and (selection.is_everything or not list_left_jobs(project, RunSelection())):
            notification.send()  # otherwise jobs are still ready
        if not watch or selection.is_full:
            return is_short
        if event_log.is_on():
            shown.report_waiting(find_held_up_jobs(project))
        _wait_for_next_round(project)


def _wait_for_next_round(project: ProjectContext) -> None:
    load_all()  # Logist may be upgraded meanwhile: its modules must fit each other
    end = project.clock.monotonic() + project.settings.poll_interval_seconds
    while project.may_begin_work() and project.clock.monotonic() < end:
        threading.Event().wait(LOOK_SECONDS)


def _build_data(
    display: RunDisplay,
    worked: dict[str, WorkedJob],
    ended: RunEnd,
    waiting: list[dict[str, Any]],
    *,
    is_interrupted: bool,
) -> dict[str, Any]:
    cents, fraction = split_cents(ended.cost_microcents)
    return {
        "run": display.run_id if ended.jobs else None,
        "ended": ended.why,
        "left": ended.left,
        "cost_cents": cents,
        "cost_microcents": fraction,
        "seconds": ended.seconds,
        "jobs": [
            _build_row(end, worked.get(job) or WorkedJob(job, "", None)) for job, end in display.ended.items()
        ],
        "waiting": waiting,
        "interrupted": is_interrupted,
    }


def _build_row(end: JobEnd, worked: WorkedJob) -> dict[str, Any]:
    return {
        **run_table.build_job_row(worked),
        "status": None if end.status in (ERROR, BUSY) else end.status,
        "exit_code": end.exit_code,
        "next_command": end.next_command,
        "error": end.error._asdict() if end.error else None,
    }


def _count_ends(display: RunDisplay, held: list[HeldUp], *, is_stopped: bool) -> str:
    """Return the last line: how many jobs were run, by status."""
    if not display.ended and is_stopped and not held:
        return "stopped before a job was run"
    if not display.ended:
        return f"no ready jobs: {_count_by_state(held)}" if held else "no ready jobs"
    ends = Counter(end.status for end in display.ended.values())
    counted = ", ".join(
        f"{count:,} {'errors' if status == ERROR and count > 1 else status}"
        for status, count in sorted(ends.items())
    )
    return f"jobs: {len(display.ended):,} ({counted})"


def _warn_left(why: EndReason, left: int, engine: Engine | None) -> tuple[Diagnostic, ...]:
    if not left:
        return ()
    message = f"{run_table.REASONS[why]}: {format_count(left, 'ready job')} left"
    words = (
        []
        if engine is None
        else ["--on", engine.on, *(("--scheduler", engine.scheduler) if engine.scheduler else ())]
    )
    return (
        Diagnostic("warning", "left", message, None, f"to continue: {shlex.join(['logist', 'run', *words])}"),
    )


def _count_by_state(held: list[HeldUp]) -> str:
    """Return the number of waiting jobs by state."""
    states = Counter(each.status.value if each.status else "damaged" for each in held)
    counted = ", ".join(f"{count} {status}" for status, count in sorted(states.items()))
    return f"{format_count(len(held), 'job')} waiting ({counted})"
