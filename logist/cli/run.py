"""`logist run`."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from logist.cli import render
from logist.cli.options import agent_option, jobs_dir_option, json_flag
from logist.cli.output import Diagnostic, Line, Output
from logist.config.environment import Environment

if TYPE_CHECKING:
    from logist.errors import LogistError
    from logist.jobs.project import Project
    from logist.jobs.queue import Ended
    from logist.jobs.stepping import Result

LOOK_SECONDS = 0.2
"""How often a waiting `--watch` looks whether it shall stop."""


@click.command("run")
@click.option(
    "--parallel",
    type=click.IntRange(min=1),
    metavar="N",
    help="Jobs at a time  [default: max_concurrent_agents]",
)
@click.option("--watch", is_flag=True, help="Go on for ever: look again every poll_interval_seconds.")
@agent_option
@jobs_dir_option
@json_flag
@click.pass_obj
def run(
    environment: Environment,
    parallel: int | None,
    watch: bool,
    agent: str | None,
    jobs_dir: str | None,
    as_json: bool,
) -> Output:
    """Run every ready job, in rank order, until none is ready; one that breaks stops no other.

    The exit code is the first of 1, 10, 5, 6, 3, 7, 4, 11 that any job ended with, else 0; after Ctrl-C 130.
    """
    from logist.cli import context
    from logist.jobs.queue import exit_code

    context.stop_on_signals()
    project = context.project(environment, jobs_dir, agent)
    shown = _Shown(environment, quiet=as_json)
    _rounds(project, parallel or project.settings.max_concurrent_agents, watch, shown)
    rows = [_row(end, shown.steps[end.job_id]) for end in shown.ended.values()]
    code = project.stopping() or exit_code([row["exit_code"] for row in rows])
    return Output({"jobs": rows, "interrupted": bool(project.stopping())}, _summary(rows), exit_code=code)


class _Shown:
    """What has happened so far; prints each step as it ends, from whatever thread."""

    def __init__(self, environment: Environment, *, quiet: bool) -> None:
        self.environment = environment
        self.quiet = quiet
        self.steps: Counter[str] = Counter()
        self.ended: dict[str, Ended] = {}
        self._printing = threading.Lock()

    def stepped(self, result: Result) -> None:
        from logist.cli.view import step_lines

        with self._printing:
            self.steps[result.job_id] += len(result.entries)
            if not self.quiet:
                render.print_lines(_prefixed(result.job_id, step_lines(result)), self.environment)

    def end(self, ended: Ended) -> None:
        known = self.ended.get(ended.job_id)
        self.ended[ended.job_id] = ended
        told = known is not None and str(known.error) == str(ended.error)  # not again at every round
        if ended.error and not self.quiet and not told:
            with self._printing:
                render.diagnose((_diagnostic(ended.error, ended.job_id),), self.environment)


def _diagnostic(error: LogistError, job: str = "") -> Diagnostic:
    target = ": ".join(filter(None, (job, error.where))) or None
    return Diagnostic("error", error.code, error.message, target, error.fix)


def _rounds(project: Project, parallel: int, watch: bool, shown: _Shown) -> None:
    from logist.jobs.queue import run_queue

    while True:
        for ended in run_queue(project, parallel, shown.stepped):
            shown.end(ended)
        if not watch or project.stopping():
            return
        _pause(project)


def _pause(project: Project) -> None:
    end = project.clock.monotonic() + project.settings.poll_interval_seconds
    while not project.stopping() and project.clock.monotonic() < end:
        threading.Event().wait(LOOK_SECONDS)


def _prefixed(job: str, lines: list[Line]) -> list[Line]:
    return [(f"{job} ", *((line,) if isinstance(line, str) else line)) for line in lines]


def _row(ended: Ended, steps: int) -> dict[str, Any]:
    error, result = ended.error, ended.result
    return {
        "job": ended.job_id,
        "status": result.state.status.value if result else None,
        "interactions": steps,
        "exit_code": ended.exit_code,
        "next_command": result.next_command if result else None,
        "error": _diagnostic(error)._asdict() if error else None,
    }


def _summary(rows: list[dict[str, Any]]) -> list[Line]:
    if not rows:
        return ["nothing is ready"]
    ends = Counter("an error" if row["error"] else row["status"] or "busy" for row in rows)
    counted = ", ".join(f"{count} {status}" for status, count in sorted(ends.items()))
    return [f"jobs: {len(rows)} ({counted})"]
