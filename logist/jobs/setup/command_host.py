"""Where commands of the config run for a job: the setup of its workspace, and its checks."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from logist.core.model import MAX_DEPTH, Actor
from logist.errors import LogistError
from logist.jobs.base.session import Session, make_process_marker
from logist.jobs.base.stored_records import read_current_state
from logist.jobs.setup import setup_cache, workspace_code
from logist.workspace import prepared

if TYPE_CHECKING:
    from logist.config.environment import Environment
    from logist.config.sections import SetupRules
    from logist.config.working import SandboxRules
    from logist.jobs.base.project import Clock
    from logist.jobs.setup.setup_cache import SetupCache
    from logist.jobs.setup.workspace_code import JobOrigin
    from logist.store import JobDir
    from logist.workspace import Workspace


class CommandHost(Protocol):
    """A job on this machine (`JobHost`), or its copy on the machine of a worker: all that the commands need from it."""

    job: JobDir
    """The directory in which they run."""
    job_id: str
    setup: SetupRules
    sandbox: SandboxRules
    environment: Environment
    clock: Clock
    marker: str
    """In the environment of all their processes, so that leftover ones can be found."""
    log: str
    """The name of the file in logs/ for the output of a setup."""
    start: str | None
    """The checkpoint that the job began with."""

    @property
    def cache(self) -> SetupCache:
        """Keeps what setups have made."""
        ...

    def open_workspace(self) -> Workspace:
        """Open the workspace; what a setup has made until now counts as a cache."""
        ...

    def create_checkpoint(self) -> str:
        """Return a checkpoint of the workspace as it is before the setup."""
        ...

    def begin_restore(self, checkpoint: str) -> None:
        """If the setup is interrupted from here on, the next command restores this checkpoint."""
        ...

    def end_restore(self) -> None:
        """The setup has ended, and the workspace is restored."""
        ...

    def find_changed(self, checkpoint: str | None) -> frozenset[str] | None:
        """Return the paths, without caches, that differ from what the job, or its topmost parent, began with; None if
        unknown.

        `checkpoint`: None for the one that the history has. Agents or a person have changed them; we can't tell which.
        """
        ...

    def load_relatives_stamps(self) -> list[prepared.SetupStamp | None]:
        """Load the stamps of the parent, and of the job that this one was forked from."""
        ...

    def find_origin(self) -> JobOrigin:
        """Find what the job, or the job that it does a part of, started from."""
        ...

    def require_trust(self) -> None:
        """Raise an error if the user has not allowed the commands of the config."""
        ...

    def save_log(self, data: bytes) -> None:
        """Save the output of the setup as `log`."""
        ...

    def redact_text(self, text: str) -> str:
        """Remove secrets."""
        ...

    def say(self, text: str) -> None:
        """Print a message for the person at the terminal."""
        ...

    def report_progress(self, text: str) -> None:
        """Print a message about progress."""
        ...

    def stopping(self) -> int:
        """Return the exit code of a stop, once one was requested; else 0."""
        ...

    def pause(self) -> AbstractContextManager[None]:
        """Let other jobs compute during the block, in which a command runs."""
        ...


class JobHost:
    """The job of a session, on this machine."""

    def __init__(self, session: Session) -> None:
        project = session.project
        self._session = session
        self.job, self.job_id = session.job, session.job.id
        self.setup, self.sandbox = project.settings.workspace.setup, project.settings.sandbox
        self.environment, self.clock = project.environment, project.clock
        self.marker = make_process_marker(session)
        self.log = f"{session.state.revision + 1:06d}.setup.log"
        self.start = session.state.start_checkpoint
        self.redact_text, self.say, self.report_progress = (
            project.redact_text,
            project.say,
            project.report_progress,
        )
        self.stopping, self.pause = project.stopping, project.turns.pause
        self.require_trust = project.trust.require_to_run

    @cached_property
    def cache(self) -> SetupCache:
        """Keeps copies for all jobs in the same directory."""
        return setup_cache.SetupCache(self._session.project.jobs_dir)

    def open_workspace(self) -> Workspace:
        """Open the workspace of the job."""
        return self._session.project.open_workspace(self.job)

    def create_checkpoint(self) -> str:
        """Create a checkpoint."""
        return self.open_workspace().create_checkpoint("before the setup").commit

    def begin_restore(self, checkpoint: str) -> None:
        """Record the checkpoint in the job."""
        self.job.begin_restore(self._session.state.revision + 1, checkpoint, setup=True)

    def end_restore(self) -> None:
        """Remove the record."""
        self.job.end_restore()

    def find_changed(self, checkpoint: str | None) -> frozenset[str] | None:
        """Compare checkpoints of the job, and of those above it."""
        project, job, state = self._session.project, self.job, self._session.state
        start, parent, commit = state.start_checkpoint, state.parent, checkpoint or state.checkpoint
        paths: set[str] = set()
        for _ in range(MAX_DEPTH + 1):
            if start is None or commit is None:
                return None
            changes, _ = project.open_workspace(job).list_changes(start, commit, sys.maxsize)
            paths.update(change.path for change in changes if not change.cache)
            if parent is None:
                # A fork of a child job contains work of the parent job, but has no parent itself.
                made_by_job = next(iter(job.read_entries()), {}).get("actor") == Actor.SYSTEM
                return None if made_by_job else frozenset(paths)
            try:
                job = project.open_job(parent)
                above = read_current_state(job)
            except LogistError:
                return None
            commit, start, parent = start, above.get("start_checkpoint"), above.get("parent")
        return None

    def list_relatives(self) -> list[JobDir]:
        """Return the parent and the job that this one was forked from, if they exist."""
        state, relatives = self._session.state, []
        for name in (state.parent, state.forked.job if state.forked else None):
            with suppress(LogistError):
                relatives += [self._session.project.open_job(name)] if name else []
        return relatives

    def load_relatives_stamps(self) -> list[prepared.SetupStamp | None]:
        """Load them from the directories of these jobs."""
        return [prepared.SetupStamp.load(job.setup_file) for job in self.list_relatives()]

    def find_origin(self) -> JobOrigin:
        """Find the user's repository."""
        return workspace_code.find_origin(self._session.project, self.job, self._session.state)

    def save_log(self, data: bytes) -> None:
        """Save it in the job."""
        self.job.write_log(self.log, data)
