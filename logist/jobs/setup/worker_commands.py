"""What runs on the machine of a worker for commands of the config: it sets workspaces up, and runs checks.

Nothing here costs money, so a task that was lost simply runs again, on any machine. As in `agents/remote/worker.py`, the
functions take and return plain data, and `spool` is the directory of the machine.
"""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logist.agents import sandbox
from logist.agents.remote import worker
from logist.agents.remote.spool import Spool
from logist.config.environment import Environment
from logist.config.sections import SetupRules
from logist.config.working import SandboxRules
from logist.core.model import JsonObject
from logist.core.secrets import redact
from logist.core.text import surrogates
from logist.errors import Busy, LogistError, SetupFailed, Stopped
from logist.jobs.base.project_opening import create_clock
from logist.jobs.setup import check_commands, commands, workspace_code, workspace_setup
from logist.jobs.setup.check_commands import CheckCommand
from logist.jobs.setup.setup_cache import SetupCache
from logist.jobs.setup.workspace_code import JobOrigin
from logist.workspace.prepared import SetupStamp

if TYPE_CHECKING:
    from logist.agents.remote.mirror import Mirror
    from logist.workspace import Workspace

POLL_SECONDS = 0.1
ABANDONED_SECONDS = 120.0
"""A task ends if the dispatcher has not asked about it for so long: nobody waits for it any more."""
_STOPPED = 130


class _Run:
    """What the dispatcher asks about one task while it runs."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self.asked_at = time.monotonic()
        self.mirror: Path | None = None
        """The copy of the job that it works in, or waits for."""
        self.messages: list[tuple[str, str]] = []
        """Each with the kind of message: `say` or `progress`."""

    def is_over(self) -> bool:
        """Whether the dispatcher has stopped the task, or does not wait for it any more."""
        return self.stopped.is_set() or time.monotonic() > self.asked_at + ABANDONED_SECONDS


_RUNS: dict[str, _Run] = {}
"""The tasks of this process, by their names: also those that were stopped before they began."""


def do_commands(task: JsonObject, spool: str | None = None) -> JsonObject:
    """Set a workspace up, and run the checks of the task if it has any.

    The `outcome` of the result is `done`, `setup_failed`, `stopped`, or `refused` with a `reason`.
    """
    run = _RUNS.setdefault(task["run"], _Run())
    place = Spool.open(spool)
    host: MirrorHost | None = None
    try:
        if reason := worker.find_machine_obstacle(task, place, task["sandbox"]["mode"]):
            return {"outcome": "refused", "reason": reason}
        mirror = worker.open_mirror(place, task)
        _stop_earlier(mirror, run)
        with _hold(mirror, run):
            host = MirrorHost(place, mirror, task, run)
            worker.finish_earlier(place, mirror)
            commands.end_leftover_commands(host)
            mirror.set_up(place, task)
            result = _do(host, task)
    except SetupFailed as error:
        failure = {"message": error.message, "output": error.output, "is_by_agent": error.by_agent}
        result = {"outcome": "setup_failed", **failure}
    except Stopped as error:
        result = {"outcome": "stopped", "message": error.message, "fix": error.fix}
    except (LogistError, OSError) as error:
        return {"outcome": "refused", "reason": f"{platform.node()}: {error}"}
    finally:
        _RUNS.pop(task["run"], None)
    log = host.saved_log if host is not None else None
    return {**result, "messages": run.messages, "log": log}


def stop_commands(run: str, spool: str | None = None) -> None:
    """End the commands of a task, and all their processes; one that has not begun yet runs none."""
    _RUNS.setdefault(run, _Run()).stopped.set()


def read_messages(run: str, offset: int, spool: str | None = None) -> list[tuple[str, str]]:
    """Return the messages for the person at the terminal after the first `offset` ones."""
    if (known := _RUNS.get(run)) is None:
        return []
    known.asked_at = time.monotonic()
    return known.messages[offset:]


def _stop_earlier(mirror: Mirror, run: _Run) -> None:
    """End what an earlier dispatcher, which was killed, has left at work in the same copy of a job."""
    for other in [*_RUNS.values()]:
        if other.mirror == mirror.path:
            other.stopped.set()
    run.mirror = mirror.path


@contextmanager
def _hold(mirror: Mirror, run: _Run) -> Iterator[None]:
    """Hold the copy of the job inside the block, when an earlier task of it has ended. Raises Stopped."""
    with ExitStack() as stack:
        while True:
            if run.is_over():
                raise Stopped("stopped before a command was run", exit_code=_STOPPED)
            with suppress(Busy):
                stack.enter_context(mirror.hold(worker.COMMAND, 0.0))
                break
            time.sleep(POLL_SECONDS)
        yield


def _do(host: MirrorHost, task: JsonObject) -> JsonObject:
    network = task["network"]
    if task["checks"] is None:
        prepared = workspace_setup.prepare_before_ask(host, network=network)
        code = workspace_code.find_code(host, prepared.code).paths
        return {
            "outcome": "done",
            "code": code.to_json(),
            "note": prepared.note,
            "record": prepared.record,
            "has_sandbox": sandbox.choose_sandbox(host.sandbox.mode).kind != "none",
        }
    checks = [CheckCommand(name, _to_command(command), seconds) for name, command, seconds in task["checks"]]
    ends = check_commands.run_checks(host, checks, task["commit"], network=network)
    return {"outcome": "done", "ends": [asdict(end) for end in ends]}


def _to_command(command: Any) -> str | tuple[str, ...]:
    return command if isinstance(command, str) else tuple(command)


class MirrorHost:
    """The copy of a job on this machine (see `CommandHost`). The dispatcher has decided what depends on the job."""

    def __init__(self, place: Spool, mirror: Mirror, task: JsonObject, run: _Run) -> None:
        self._place, self._mirror, self._task, self._run = place, mirror, task, run
        self.job, self.job_id = mirror.job, str(task["job"])
        self.setup = SetupRules.model_validate(task["setup"])
        self.sandbox = SandboxRules.model_validate(task["sandbox"])
        self.environment, self.clock = Environment.from_process(), create_clock()
        # Another worker on this host may have the same job, and must not end these processes.
        self.marker = f"{task['marker']}-{place.machine[:8]}"
        self.log = str(task["log"])
        self.start: str | None = task["base"]
        self.saved_log: str | None = None
        self._secrets = self.environment.list_secrets(*task["key_names"])

    @property
    def cache(self) -> SetupCache:
        """One for each project that this machine works for."""
        return SetupCache(self._place.use_setups(self._task["project"]))

    def open_workspace(self) -> Workspace:
        """Open the copy of the workspace."""
        return self._mirror.workspace

    def create_checkpoint(self) -> str:
        """Return the checkpoint that was sent."""
        return str(self._task["commit"])

    def begin_restore(self, checkpoint: str) -> None:
        """Do nothing: each task restores the workspace first."""

    def end_restore(self) -> None:
        """Do nothing."""

    def find_changed(self, checkpoint: str | None) -> frozenset[str] | None:
        """Return what the dispatcher has found."""
        changed = self._task["changed"]
        return None if changed is None else frozenset(changed)

    def load_relatives_stamps(self) -> list[SetupStamp | None]:
        """Load those of the jobs that this machine has."""
        places = [self._place.find_mirror(mirror, job) for mirror, job in self._task["relatives"]]
        return [SetupStamp.load(Path(place) / self.job.setup_file.name) for place in places]

    def find_origin(self) -> JobOrigin:
        """Return the user's repository by its path; on another host, there usually is none."""
        source, base = self._task["source"], self._task["base"]

        def had_any(paths: Sequence[str]) -> bool:
            return self.open_workspace().holds_any(base, paths)

        return JobOrigin(Path(source) if source else None, had_any)

    def require_trust(self) -> None:
        """Do nothing: the dispatcher has asked before it sent the task."""

    def save_log(self, data: bytes) -> None:
        """Keep it for the dispatcher."""
        self.saved_log = data.decode()

    def redact_text(self, text: str) -> str:
        """Remove the secrets of this machine."""
        return redact.redact(surrogates.replace_surrogates(text)[0], self._secrets)[0]

    def say(self, text: str) -> None:
        """Keep it for the dispatcher, which asks about once a second."""
        self._run.messages.append(("say", text))

    def report_progress(self, text: str) -> None:
        """Do the same."""
        self._run.messages.append(("progress", text))

    def stopping(self) -> int:
        """Return whether the dispatcher has stopped the task."""
        return _STOPPED if self._run.is_over() else 0

    def pause(self) -> AbstractContextManager[None]:
        """Do nothing: tasks have no turns."""
        return nullcontext()
