"""What a `logist run` did, as a table: at its end, and in `logist runs show`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from logist.cli.show import render
from logist.cli.show.glance import status_span
from logist.cli.show.output import Command, Line, Screen, StyledText, TextTable
from logist.cli.show.pasting import add_jobs_dir
from logist.config.environment import Environment
from logist.core.money.amounts import format_money, split_cents
from logist.core.text.counts import format_count
from logist.store.run_records import ERROR, FIRST_CODES, EndReason, RunEnd, RunRecord, WorkedJob, sum_up_run
from logist.timestamps import format_duration

HEAD = ("JOB", "STATUS", "COST", "TIME", "WAITS FOR", "NEXT COMMAND")
TERMINAL_HEAD = HEAD[:-1]
"""On a terminal, the next command is below its row."""
LISTED = 20
"""Maximum number of jobs at the end of a run; `logist runs show` has all."""
RUNNING, KILLED = "running", "killed"
"""Instead of the reason for which a run has ended; RUNNING is also that of a job on which the run works."""
INTERRUPTED = "interrupted"
"""Instead of the status of a job at which the run was killed."""
REASONS = {
    EndReason.NOTHING_READY: "no job is ready",
    EndReason.TIME: "its time is over",
    EndReason.MAX_JOBS: "--max-jobs is reached",
    EndReason.LOW_ON_SPACE: "too little space is left on the disk",
    EndReason.STOPPED: "stopped",
    EndReason.UPGRADED: "Logist was upgraded",
    EndReason.ERROR: "error",
}
_SIGNALS = {130: "stopped by Ctrl-C", 143: "stopped by SIGTERM"}


def describe_end(record: RunRecord) -> str:
    """Return why a run has ended."""
    ended = record.ended
    if ended is None:
        return "still running" if record.is_running else KILLED
    return describe_reason(ended)


def describe_reason(ended: RunEnd) -> str:
    """Return the recorded reason as a person reads it; a newer Logist may have more of them."""
    if ended.why == EndReason.STOPPED:
        return _SIGNALS.get(ended.exit_code, REASONS[EndReason.STOPPED])
    known = {reason.value: text for reason, text in REASONS.items()}.get(ended.why, ended.why)
    return f"{known}: {ended.error}" if ended.error else known


def build_table(jobs: Sequence[WorkedJob], jobs_dir: str | None, *, is_running: bool = False) -> TextTable:
    """Return the table for a pipe: one line for each job. `jobs_dir`: the option of the command."""
    rows = [(*_build_cells(each, is_running), _get_next_command(each, jobs_dir)) for each in jobs]
    return TextTable(HEAD, rows)


def draw_table(
    jobs: Sequence[WorkedJob], jobs_dir: str | None, screen: Screen, *, is_running: bool = False
) -> list[Line]:
    """Return the table for a terminal, with the next command below each job that waits."""
    rows = [_build_cells(each, is_running) for each in jobs]
    commands = [StyledText(_get_next_command(each, jobs_dir), "dim") for each in jobs]
    return render.draw_table(TextTable(TERMINAL_HEAD, rows, ("TIME", "COST"), commands), screen)


def find_status(worked: WorkedJob, *, is_running: bool) -> str:
    """Return the status of a job at the end of its work in a run, or what is shown instead."""
    if worked.rested is not None:
        return worked.rested.status
    return RUNNING if is_running else INTERRUPTED


def _build_cells(worked: WorkedJob, is_running: bool) -> tuple[StyledText | str, ...]:
    rested, status = worked.rested, find_status(worked, is_running=is_running)
    return (
        StyledText(worked.job, "bold"),
        StyledText(status, "red") if status in (ERROR, INTERRUPTED) else status_span(status),
        format_money(worked.cost_microcents),
        format_duration(worked.seconds) if rested else "",
        rested.waits if rested else "",
    )


def _get_next_command(worked: WorkedJob, jobs_dir: str | None) -> str:
    if worked.rested is None or not worked.rested.waits:
        return ""
    return add_jobs_dir(worked.rested.next_command, jobs_dir)


def choose_listed(codes: Mapping[str, int], most: int = LISTED) -> list[str]:
    """Return the jobs that are listed of a run: those that need something come first, in the order in which the run chooses
    its exit code. `codes`: the exit code of each job.
    """
    places = {code: place for place, code in enumerate(FIRST_CODES)}
    return sorted(codes, key=lambda job: places.get(codes[job], len(FIRST_CODES)))[:most]


class RunSummary:
    """The end of the text output: some jobs of the run, and its sums."""

    def __init__(
        self,
        environment: Environment,
        listed: Sequence[WorkedJob],
        jobs: int,
        run_id: str,
        ended: RunEnd,
        last: str,
    ) -> None:
        """`listed`: the jobs of `choose_listed`, in this order; `jobs`: how many the run has begun."""
        self._jobs_dir = environment.named_jobs_dir
        self._listed = listed
        self.lines: list[Line] = [last]
        if jobs:
            totals = f"{format_money(ended.cost_microcents)}, {format_duration(ended.seconds)}"
            more = jobs - len(self._listed)
            rest: tuple[StyledText | str, ...] = ()
            if more:
                rest = (
                    f"; {format_count(more, 'more job')}: ",
                    Command(f"logist runs show {run_id}"),
                )
            self.lines.insert(0, (f"run {run_id}: {totals}", *rest))

    @property
    def listed_jobs(self) -> set[str]:
        """The jobs whose row says what they wait for."""
        return {each.job for each in self._listed if each.rested and each.rested.waits}

    @property
    def table(self) -> TextTable | None:
        """The jobs, for a pipe."""
        return build_table(self._listed, self._jobs_dir) if self._listed else None

    def draw(self, screen: Screen) -> list[Line]:
        """Return everything for a terminal."""
        drawn = draw_table(self._listed, self._jobs_dir, screen) if self._listed else []
        return [*drawn, *self.lines]


def build_job_row(worked: WorkedJob) -> dict[str, Any]:
    """Return a job as JSON."""
    cents, fraction = split_cents(worked.cost_microcents)
    rested = worked.rested
    return {
        "job": worked.job,
        "status": rested.status if rested else None,
        "exit_code": rested.exit_code if rested else None,
        "interactions": worked.interactions,
        "cost_cents": cents,
        "cost_microcents": fraction,
        "seconds": round(worked.seconds, 3),
        "waits": (rested.waits or None) if rested else None,
        "next_command": (rested.next_command or None) if rested else None,
        "begun_at": worked.begun_at or None,
        "rested_at": (rested.at or None) if rested else None,
    }


def build_run_row(record: RunRecord, now: float) -> dict[str, Any]:
    """Return a run as JSON. `now`: seconds since 1970."""
    totals, ended = sum_up_run(record, now), record.ended
    cents, fraction = split_cents(totals.cost_microcents)
    return {
        "run": record.run,
        "begun_at": record.begun.at or None,
        "ended_at": ended.at if ended else None,
        "ended": ended.why if ended else RUNNING if record.is_running else KILLED,
        "exit_code": ended.exit_code if ended else None,
        "job_count": totals.jobs,
        "left": ended.left if ended else 0,
        "cost_cents": cents,
        "cost_microcents": fraction,
        "seconds": round(totals.seconds, 3),
        "arguments": list(record.begun.arguments),
    }
