"""The one notification: a command that is run when a job becomes STUCK."""

from __future__ import annotations

import subprocess

from logist.core.model import State
from logist.jobs.project import Project
from logist.store import JobDir

SECONDS = 60


def on_stuck(project: Project, job: JobDir, state: State) -> list[str]:
    """Runs `on_stuck`, if there is one; what goes wrong with it is a warning, never an error."""
    command = project.settings.on_stuck
    if not command:
        return []
    environment = {
        **project.environment.child(),
        "LOGIST_JOB_ID": job.id,
        "LOGIST_JOB_DIR": str(job.path),
        "LOGIST_STATUS": state.status.value,
        "LOGIST_REASON": state.reason,
    }
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    try:
        done = subprocess.run(
            argv,
            env=environment,
            cwd=project.home.parent if project.home.is_dir() else job.path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return [f"on_stuck did not run: {error}"]
    return [] if done.returncode == 0 else [f"on_stuck ended with status {done.returncode}"]
