"""Opens the cluster of `logist run --on`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from logist.core.text.counts import format_count
from logist.errors import ProviderError, UsageError
from logist.quick_tuple import NamedTuple

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.base.worker_pool import WorkerPool
    from logist.jobs.run_selection import RunSelection

COMMAND = TypeVar("COMMAND", bound=Callable[..., object])
SPOOL = ("LOGIST_WORKER_DIR", "XDG_STATE_HOME")
"""Where the worker processes keep their tasks."""


class Engine(NamedTuple):
    """Where the agents of a run work."""

    on: str
    scheduler: str | None


def complete_engine(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the engines of `logist run --on`."""
    return [each for each in ("dask", "dask:4") if each.startswith(incomplete)]


def engine_options(command: COMMAND) -> COMMAND:
    """Add --on and --scheduler."""
    command = click.option(
        "--scheduler", metavar="ADDRESS", help="Address of the Dask scheduler, such as tcp://10.0.0.5:8786."
    )(command)
    return click.option(
        "--on",
        metavar="ENGINE",
        shell_complete=complete_engine,
        help="Where agents and checks run: dask (with --scheduler), or dask:4 for 4 worker processes on this machine, which "
        "end with the run. See docs/cluster.md.",
    )(command)


def choose_engine(on: str | None, scheduler: str | None) -> Engine | None:
    """Return what the options choose; None without --on. Raises UsageError."""
    if on is None:
        if scheduler is not None:
            raise UsageError("no engine for this scheduler", where="--scheduler", fix="add --on dask")
        return None
    from logist.agents.remote.cluster import parse_engine

    parse_engine(on, scheduler)
    return Engine(on, scheduler)


def needs_cluster(project: ProjectContext, engine: Engine, selection: RunSelection) -> bool:
    """Whether there is something to do for the workers of a run: to start them here takes seconds.

    A cluster that runs already may have late results of this project.
    """
    from logist.agents.remote.worker import list_results
    from logist.jobs.base.job_bundles import name_project
    from logist.jobs.job_queue import list_left_jobs

    if engine.scheduler is not None or list_left_jobs(project, selection):
        return True
    return bool(list_results(name_project(project), project.environment.worker_directory_name()))


def join_cluster(project: ProjectContext, engine: Engine, parallel: int | None) -> tuple[WorkerPool, int]:
    """Open the cluster until the command ends; return its workers, and how many tasks they run at the same time.

    Raises ProviderError, also if there is no worker.
    """
    from logist.agents.remote.cluster import open_cluster
    from logist.jobs.base.worker_pool import WorkerPool

    if engine.scheduler is None:
        project.report_progress(f"starting the workers of {engine.on} on this machine")
    cluster = open_cluster(engine.on, engine.scheduler, parallel, build_worker_environment(project))
    click.get_current_context().call_on_close(cluster.close)
    workers = cluster.list_workers()
    places = sum(worker.threads for worker in workers)
    if not places:
        fix = f"start one: dask worker {cluster.address}"
        raise ProviderError("the scheduler has no workers", where=cluster.address, fix=fix)
    project.report_progress(
        f"agents work on {format_count(len(workers), 'worker')}, {places} at the same time"
    )
    return WorkerPool(cluster), parallel or places


def build_worker_environment(project: ProjectContext) -> dict[str, str]:
    """Return the variables of the processes of a local cluster: also the keys, and what commands of a setup get."""
    from logist.jobs.setup.workspace_setup import CERTIFICATES

    names = (*project.key_names, *project.settings.workspace.setup.environment, *SPOOL, *CERTIFICATES)
    return project.environment.build_child_environment() | project.environment.select_variables(names)
