"""The notification hook: runs a command when a job becomes STUCK."""

from __future__ import annotations

import subprocess

from logist.core.model import State
from logist.errors import InvalidFile
from logist.jobs.base.project import ProjectContext
from logist.store import JobDir

SECONDS = 60


def run_stuck_hook(project: ProjectContext, job: JobDir, state: State) -> None:
    """Run the `on_stuck` command, if one is configured; a failure is reported and is never an error."""
    command = project.settings.on_stuck
    if not command:
        return
    try:
        project.trust.require_to_run()
    except InvalidFile as error:
        project.say(f"the on_stuck command did not run: {error}")
        return
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    try:
        result = subprocess.run(
            argv,
            env=_build_environment(project, job, state),
            cwd=project.home.parent if project.home.is_dir() else job.path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        project.say(f"the on_stuck command was stopped after {SECONDS} seconds")
    except (OSError, ValueError) as error:
        project.say(f"the on_stuck command did not run: {error}")
    else:
        if result.returncode:
            project.say(f"the on_stuck command failed with exit status {result.returncode}")


def _build_environment(project: ProjectContext, job: JobDir, state: State) -> dict[str, str]:
    return {
        **project.environment.build_child_environment(),
        "LOGIST_JOB_ID": job.id,
        "LOGIST_JOB_DIR": str(job.path),
        "LOGIST_STATUS": state.status.value,
        # An agent's JSON may contain a NUL, an environment variable can't.
        "LOGIST_REASON": state.reason.replace("\0", ""),
    }
