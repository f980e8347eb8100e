"""Lets workers on other machines run the commands of the config: the setup of workspaces, and checks.

This machine runs none of them then. They cost nothing, so after a loss they run again, on any worker.
"""

from __future__ import annotations

import secrets as random_secrets
import time
from collections.abc import Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from logist.agents.protocol import MODEL_AGENTS, CodePaths
from logist.agents.sandbox import ProgramEnd
from logist.errors import LogistError, ProviderError, SetupFailed, Stopped
from logist.jobs.base import job_bundles
from logist.jobs.base.worker_pool import PreparedCopy, build_failure_error
from logist.jobs.setup.check_commands import CheckEnd
from logist.jobs.setup.command_host import JobHost
from logist.jobs.setup.workspace_setup import FIX, PreparedWorkspace
from logist.lazy_modules import load_all

if TYPE_CHECKING:
    from logist.agents.courier.ask_files import RecordedAsk
    from logist.agents.remote.cluster import Worker
    from logist.core.text.json_object import JsonObject
    from logist.jobs.base.session import Session
    from logist.jobs.base.worker_pool import WorkerPool
    from logist.jobs.setup.check_commands import CheckCommand

POLL_SECONDS = 0.1
MESSAGE_SECONDS = 1.0
LEAVE_SECONDS = 30.0
"""How long a worker may take to end commands that are stopped."""
LOST_SECONDS = 60.0
"""How long to wait for another worker after the last one was lost."""
MOST_TRIES = 3
"""How many workers get a task, if they refuse it or are lost."""


class TaskRefused(ProviderError):
    """A worker can't run commands of this job; nothing was run."""


def prepare_before_ask(session: Session, *, network: bool) -> PreparedWorkspace:
    """Let a worker set its copy of the workspace up: see `workspace_setup.prepare_before_ask`."""
    if not session.project.settings.workspace.setup.commands:
        return PreparedWorkspace()
    host = JobHost(session)
    commit = host.create_checkpoint()
    work = _build_work(session, host, None, network=network)
    result = _run_on_any(session, commit, work)
    return PreparedWorkspace(CodePaths.from_json(result["code"]), result["note"], result["record"])


def prepare_worker(
    session: Session, pool: WorkerPool, worker: Worker, ask: RecordedAsk, commit: str
) -> CodePaths:
    """Set the workspace up on the machine of a worker that gets an ask, and return where its programs find code.

    `commit`: the checkpoint that the worker begins with.

    Raises SetupFailed, Stopped, TaskRefused, and what `Cluster.call` raises.
    """
    if ask.agent in MODEL_AGENTS and not ask.work.permissions.can_execute_commands:
        return CodePaths()
    known = pool.prepared.pop(session.job.id, None)
    if known is None or known[:2] != (worker.address, commit):
        work = _build_work(session, JobHost(session), None, network=ask.work.network)
        known = _read_prepared(worker, commit, _run_on(session, pool, worker, commit, work))
    if not known.has_sandbox and ask.work.sandbox.mode != "off":
        session.project.say(
            f"warning: no sandbox available on {worker.name}: the agent's commands run with the permissions of its user "
            "(apt install bubblewrap there)"
        )
    return known.code


def _read_prepared(worker: Worker, commit: str, result: JsonObject) -> PreparedCopy:
    return PreparedCopy(worker.address, commit, CodePaths.from_json(result["code"]), result["has_sandbox"])


def run_checks(
    session: Session, checks: Sequence[CheckCommand], found: str, *, network: bool
) -> list[CheckEnd]:
    """Let a worker run checks: see `check_commands.run_checks`. Raises ProviderError if none can."""
    work = _build_work(session, JobHost(session), checks, network=network, found=found)
    result = _run_on_any(session, found, work)
    return [_read_end(session, end) for end in result["ends"]]


def _read_end(session: Session, end: JsonObject) -> CheckEnd:
    redact, ended = session.project.redact_text, end["ended"]
    return CheckEnd(
        ProgramEnd(**{**ended, "reason": redact(ended["reason"])}) if ended is not None else None,
        redact(end["reason"]),
        redact(end["output"]),
        end["is_refused"],
    )


def _build_work(
    session: Session,
    host: JobHost,
    checks: Sequence[CheckCommand] | None,
    *,
    network: bool,
    found: str | None = None,
) -> JsonObject:
    """Return what a worker has to know to run commands: what the config says, and what only this machine knows.

    `checks`: None to prepare the workspace for an agent. `found`: the checkpoint in which the checks run.
    """
    changed = host.find_changed(found) if host.setup.commands else None
    source = host.find_origin().source
    return {
        "checks": None if checks is None else [(each.name, each.command, each.seconds) for each in checks],
        "network": network,
        "setup": host.setup.model_dump(mode="json"),
        "sandbox": host.sandbox.model_dump(mode="json"),
        "changed": None if changed is None else sorted(changed),
        "relatives": [(job_bundles.name_mirror(job), job.id) for job in host.list_relatives()],
        "source": None if source is None else str(source),
        "marker": host.marker,
        "log": host.log,
        "key_names": sorted(session.project.key_names),
    }


def _run_on_any(session: Session, commit: str, work: JsonObject) -> JsonObject:
    """Run commands on the worker that had the job last, if it is free; after a loss, on another one."""
    from logist.agents.remote.cluster import SchedulerLost  # noqa: PLC0415 - only a run with workers needs it

    pool = session.project.workers
    assert pool is not None
    session.project.trust.require_to_run()
    kind = f"commands {work['sandbox']['mode']}"
    reasons: list[str] = []
    for tries_left in reversed(range(MOST_TRIES)):
        with pool.take_worker(kind, lambda: _raise_if_stopping(session), session.job.id) as worker:
            try:
                result = _run_on(session, pool, worker, commit, work)
            except (SchedulerLost, job_bundles.BundleTooLarge, SetupFailed, Stopped):
                raise
            except TaskRefused as error:
                reason, is_lost = error.message, False
            except LogistError as error:  # the worker is lost, or its directory can't be used
                reason, is_lost = f"{worker.name}: {error.message}", True
            else:
                pool.prepared.pop(session.job.id, None)
                if work["checks"] is None:
                    pool.prepared[session.job.id] = _read_prepared(worker, commit, result)
                return result
        pool.refuse(worker, kind, reason)
        reasons.append(reason)
        if not tries_left:
            break
        session.project.report_progress(
            f"{worker.name} has not run the commands ({reason}); looking for another worker"
        )
        if is_lost:
            _wait_for_fit(session, pool, kind)
    message = f"no worker has run the commands of {session.job.id}: {'; '.join(dict.fromkeys(reasons))}"
    raise ProviderError(message, fix="correct this on one of these machines, then run the command again")


def _wait_for_fit(session: Session, pool: WorkerPool, kind: str) -> None:
    """Wait until there is another worker, but not forever: one that was killed may be started again in a moment."""
    until = time.monotonic() + LOST_SECONDS
    while not pool.has_fit_worker(kind) and time.monotonic() < until:
        _raise_if_stopping(session)
        time.sleep(POLL_SECONDS)


def _raise_if_stopping(session: Session) -> None:
    if status := session.project.stopping():
        fix = f"to continue, run: logist job step --job {session.job.id}"
        raise Stopped("stopped before a worker ran the commands", exit_code=status, fix=fix)


def _run_on(session: Session, pool: WorkerPool, worker: Worker, commit: str, work: JsonObject) -> JsonObject:
    """Run commands on one worker. Raises TaskRefused, SetupFailed, Stopped, and what `Cluster.call` raises."""
    from logist.agents.remote import worker as machine  # noqa: PLC0415
    from logist.jobs.setup import worker_commands  # noqa: PLC0415

    if reason := machine.find_difference(pool.describe_machine(worker)):
        raise TaskRefused(reason)
    run = random_secrets.token_hex(16)
    bundle = job_bundles.build_bundle(session, pool, worker, commit)
    task = {**bundle, **work, "run": run, "ticket": "", "key": f"{session.job.id}/commands/{run}"}
    future = pool.cluster.get_executor(worker).submit(worker_commands.do_commands, task)
    result = _Waiting(session, pool, worker, run).wait(future)
    return _judge(session, work["log"], result)


class _Waiting:
    """Waits for a task; meanwhile, it shows the messages of the worker, and stops the task when a person wants that."""

    def __init__(self, session: Session, pool: WorkerPool, worker: Worker, run: str) -> None:
        self._session, self._pool, self._worker, self._run = session, pool, worker, run
        self._shown = 0
        self._next = time.monotonic() + MESSAGE_SECONDS
        self._stop_until: float | None = None

    def wait(self, future: Future[Any]) -> JsonObject:
        """Return the result."""
        with self._session.project.turns.pause():
            while not wait([future], timeout=POLL_SECONDS).done:
                load_all()
                self._stop_if_asked()
                self._fetch_messages()
        try:
            result: JsonObject = future.result()
        except LogistError:
            raise
        except Exception as error:
            raise build_failure_error(self._worker, error) from error
        self._show(result.get("messages", ())[self._shown :])
        return result

    def _stop_if_asked(self) -> None:
        from logist.jobs.setup import worker_commands  # noqa: PLC0415

        if self._stop_until is not None and time.monotonic() > self._stop_until:
            _raise_if_stopping(self._session)
        if self._session.project.stopping() and self._stop_until is None:
            self._stop_until = time.monotonic() + LEAVE_SECONDS
            with suppress(LogistError):  # if it is lost, its commands end with it
                self._pool.call(self._worker, worker_commands.stop_commands, self._run, seconds=5.0)

    def _fetch_messages(self) -> None:
        from logist.jobs.setup import worker_commands  # noqa: PLC0415

        if time.monotonic() >= self._next:
            self._next = time.monotonic() + MESSAGE_SECONDS
            with suppress(LogistError):  # the result has them, too
                read = worker_commands.read_messages
                self._show(self._pool.call(self._worker, read, self._run, self._shown, seconds=5.0))

    def _show(self, messages: Sequence[tuple[str, str]]) -> None:
        project = self._session.project
        for kind, text in messages:
            (project.say if kind == "say" else project.report_progress)(project.redact_text(text))
        self._shown += len(messages)


def _judge(session: Session, log: str, result: JsonObject) -> JsonObject:
    """Return the result of commands that were run, or raise what they would have raised on this machine."""
    project, job = session.project, session.job
    if result.get("log") is not None:
        job.write_log(log, project.redact_text(result["log"]).encode())
    if result["outcome"] == "refused":
        raise TaskRefused(result["reason"])
    if result["outcome"] == "stopped" and not project.stopping():  # this machine was suspended, or cut off
        raise TaskRefused("it has waited too long for this machine")
    if result["outcome"] == "stopped":
        raise Stopped(result["message"], exit_code=project.stopping(), fix=result["fix"])
    if result["outcome"] == "setup_failed":
        error = SetupFailed(
            project.redact_text(result["message"]),
            where=str(job.logs / log),
            fix=FIX,
            output=project.redact_text(result["output"]),
        )
        error.by_agent = result["is_by_agent"]
        raise error
    return result
