"""Stops an agent that works on a job, so that a steward can decide about the job."""

from __future__ import annotations

import time

from logist.agents.courier import ending
from logist.errors import Refused, Stopped
from logist.jobs.base.project import ProjectContext
from logist.store import JobDir, LockProcess, lock
from logist.timestamps import format_local

LEAVE_SECONDS = 10.0
"""How long to wait for a command without an agent: it is recording a result, or about to call an agent."""


def end_agent(project: ProjectContext, job_id: str) -> None:
    """Stop the couriers that work on a job until the job is free.

    Returns also when a command without an agent keeps the job for long: then the job is simply busy. Raises
    Refused for an agent on another machine, Stopped when a person stops waiting.
    """
    job = project.open_job(job_id)
    until = time.monotonic() + LEAVE_SECONDS
    while (holder := job.find_lock_holder()) and time.monotonic() < until:
        if project.stopping():
            raise Stopped("stopped waiting for the job", exit_code=project.stopping())
        if holder.courier is not None:
            _end_courier(project, job, holder.courier)
            until = time.monotonic() + LEAVE_SECONDS
        time.sleep(ending.POLL_SECONDS)


def _end_courier(project: ProjectContext, job: JobDir, courier: LockProcess) -> None:
    if courier.host != lock.read_host_name():
        message = f"the agent runs on another machine, {courier.host}, and can only be stopped there"
        raise Refused(message, fix=f"on {courier.host}: kill {courier.pid}")
    project.say(f"stopping the agent (courier pid {courier.pid}, since {format_local(courier.since)})")
    if not ending.end_courier(courier, job.path) and lock.is_at_work(courier, job.path):
        message = f"process {courier.pid} signed the job's lock, but is not an agent of Logist"
        raise Refused(message, fix="check the process and stop it yourself")
