"""Begins to load the couriers' client before the rest of Logist: each takes half a second, at the same time on two cores.

Has few imports, to start fast.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice

import click

from logist.agents.courier.fork_servers import ForkServers
from logist.cli.current_job import get_current_directory
from logist.config.environment import Environment
from logist.errors import LogistError
from logist.store import listing

READY = ("PENDING", "REVIEW_REQUIRED")
MOST_READ = 1_000
"""How many jobs are looked at; if none of them is ready, the client is loaded when it is needed."""


def begin_to_load(
    environment: Environment, jobs_dir: str | None, agent: str | None, job_id: str | None = None
) -> ForkServers:
    """Return the fork servers of a command; one of them loads already if the command may ask a model.

    `job_id`: the only job that the command works on. The servers end with the command.
    """
    couriers = ForkServers()
    click.get_current_context().call_on_close(couriers.close)
    chosen = agent or environment.agent_name() or ""
    if not chosen.startswith("scripted:") and chosen != "litellm":
        with suppress(LogistError):  # the command itself reports it
            if _has_ready_job(environment.jobs_dir_name(jobs_dir, get_current_directory()), job_id):
                couriers.get("direct", environment.build_child_environment())
    return couriers


def _has_ready_job(jobs_dir: str, job_id: str | None) -> bool:
    glances = listing.read_glances(jobs_dir, [job_id] if job_id else None)
    return any(glance.state and glance.state.get("status") in READY for glance in islice(glances, MOST_READ))
