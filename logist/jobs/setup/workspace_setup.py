"""Sets up workspaces: installs the dependencies that commands need, before an agent is paid.

The commands of `workspace.setup` run once for the content of the lock files; later workspaces get a copy of
what they made. That is not part of an agent's work: no checkpoint contains it, and it is restored before each
step and before the checks, so that an agent can't change the programs that judge its work.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from logist.agents.protocol import AgentWork, CodePaths
from logist.core.model import JsonObject
from logist.core.text import lock_files
from logist.digests import compute_sha256
from logist.errors import LogistError, SetupFailed, Stopped
from logist.formats import SETUP_COPY
from logist.jobs.setup import commands, setup_cache, workspace_code
from logist.quick_dataclass import dataclass
from logist.store import JobDir, replace_file
from logist.workspace import Workspace, prepared

if TYPE_CHECKING:
    from logist.agents.sandbox import Confinement
    from logist.agents.workplace import Workplace
    from logist.config.environment import Environment
    from logist.config.sections import SetupRules
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.setup.command_host import CommandHost

TAIL_BYTES = 1 << 20
"""The last bytes of each output of a setup command that are saved in logs/."""
SHOWN_LINES = 10
"""The last lines of the output of a failed command that the terminal shows."""
MOST_NAMED_LOCK_FILES = 3
"""The maximum number of lock files that a note names."""
SECONDS_OF_MINUTE = 60
WAIT_SECONDS = 0.1
INTERPRETERS = ("python3", "python", "node")
"""What a setup installs for one version of these programs does not work with another."""
CERTIFICATES = ("SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
"""Variables that name the certificates of servers."""
USUAL_PROGRAMS = (".venv/bin", workspace_code.NODE_PROGRAMS)
"""Where later commands of a setup find what earlier ones installed."""
FAILED = "workspace setup failed: "
FIX = "fix workspace.setup or the lock files, then run the command again"
KEY_SHOWN = 16
"""The first characters of a key that are recorded in the history."""
NOT_RUN = "setup skipped: an agent has changed the workspace, and has no network access"
FROM_BEFORE = "the environment is from before"
CHANGED = "the environment may have changed since the setup"


@dataclass(frozen=True)
class PreparedWorkspace:
    """What the setup made in a workspace."""

    code: CodePaths = field(default_factory=CodePaths)
    note: str = ""
    """Why it does not match the current lock files; for the results of checks."""
    record: JsonObject = field(default_factory=dict)
    """For the history."""


@dataclass(frozen=True)
class Outlook:
    """What the next step would do to set a job up, for display."""

    status: Literal["none", "done", "cached", "due", "failed"]
    commands: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Lock files that have changed since the last setup."""
    stamp: prepared.SetupStamp | None = None

    def to_json(self) -> JsonObject | None:
        """As JSON; None if the config has no setup."""
        if self.status == "none":
            return None
        return {"status": self.status, "commands": list(self.commands), "changed": list(self.changed)}


def prepare_before_ask(host: CommandHost, *, network: bool) -> PreparedWorkspace:
    """Set the workspace up before an agent is called; `network`: the agent may use the network.

    Raises SetupFailed if the commands fail and this agent is not the one to correct what another has changed.
    """
    setup = _Setup(host)
    if not setup.is_needed():
        return PreparedWorkspace()
    if (current := setup.find_current()) is not None:
        return current
    checkpoint, changed = host.create_checkpoint(), host.find_changed(None)
    if setup.has_failed_before() and setup.is_by_agent(changed):
        # The checks have reported it; this agent is called to correct or to judge it.
        return setup.restore_previous() or PreparedWorkspace()
    try:
        return setup.set_up(checkpoint, changed, network=network, guarded=True)
    except SetupFailed as error:
        if not error.by_agent or (previous := setup.restore_previous()) is None:
            raise
        host.say(f"warning: {error.message}; using the previous environment")
        return previous


def prepare_for_checks(host: CommandHost, checkpoint: str, *, network: bool) -> PreparedWorkspace:
    """Set the workspace up before checks run.

    `checkpoint` is the workspace as the agent left it; `network` as for prepare_before_ask.
    """
    setup = _Setup(host)
    if not setup.is_needed():
        return PreparedWorkspace()
    if (current := setup.find_current()) is not None:
        return current
    return setup.set_up(checkpoint, host.find_changed(checkpoint), network=network, guarded=False)


def prepare_again(
    host: CommandHost, before: PreparedWorkspace, checkpoint: str, *, network: bool
) -> PreparedWorkspace:
    """Restore what a check has changed in what was prepared for it."""
    stamp = prepared.SetupStamp.load(host.job.setup_file)
    if stamp is None or not stamp.digest:
        return before
    if host.open_workspace().compute_prepared_digest(stamp.outputs) == stamp.digest:
        return before
    return prepare_for_checks(host, checkpoint, network=network)


def preview_setup(project: ProjectContext, job: JobDir) -> Outlook:
    """What the next step would do to set a job up; writes nothing and runs nothing."""
    rules = project.settings.workspace.setup
    stamp = prepared.SetupStamp.load(job.setup_file)
    redacted = tuple(project.redact_text(commands.format_command(command)) for command in rules.commands)
    if not rules.commands:
        return Outlook("none", stamp=stamp)
    workspace = project.open_workspace(job)
    locks = workspace.hash_lock_files(rules.lock_files)
    if _is_empty(workspace, locks):
        return Outlook("none", stamp=stamp)
    key = _compute_key(rules, project.environment, project.redact_text, locks)
    if _is_current(workspace, stamp, key):
        return Outlook("done", redacted, stamp=stamp)
    changed = _find_changed_lock_files(stamp, locks)
    if setup_cache.SetupCache(project.jobs_dir).find_copy(workspace, key, job.id):
        return Outlook("cached", redacted, changed, stamp)
    has_failed = stamp is not None and stamp.failed_key == key
    return Outlook("failed" if has_failed else "due", redacted, changed, stamp)


class _Failed(Exception):
    """A command of the setup failed."""

    def __init__(self, command: str, reason: str, output: str) -> None:
        super().__init__(reason)
        self.command, self.reason, self.output = command, reason, output


class _Setup:
    """One setup of one job."""

    def __init__(self, host: CommandHost) -> None:
        self.host, self.job, self.rules = host, host.job, host.setup
        self.waiting = False

    def is_needed(self) -> bool:
        """True if the config has a setup, and the workspace contains something to set up."""
        return bool(self.rules.commands) and not _is_empty(self.host.open_workspace(), self.locks)

    @cached_property
    def stamp(self) -> prepared.SetupStamp | None:
        return prepared.SetupStamp.load(self.job.setup_file)

    @cached_property
    def locks(self) -> dict[str, str]:
        return self.host.open_workspace().hash_lock_files(self.rules.lock_files)

    @cached_property
    def key(self) -> str:
        return _compute_key(self.rules, self.host.environment, self.host.redact_text, self.locks)

    def find_current(self) -> PreparedWorkspace | None:
        """The existing environment, if it matches the lock files and was not changed since."""
        if self.stamp is None or not _is_current(self.host.open_workspace(), self.stamp, self.key):
            return None
        if self.stamp.failed:  # a later setup failed, but its lock files were changed back
            self._save_stamp(replace(self.stamp, failed="", failed_key=""))
        return self._build_prepared(self.stamp, record={"key": self.key[:KEY_SHOWN]})

    def has_failed_before(self) -> bool:
        """True if the last run failed with the same lock files."""
        return self.stamp is not None and self.stamp.failed_key == self.key

    def is_by_agent(self, changed: frozenset[str] | None) -> bool:
        """True if lock files are among the files changed since the start."""
        known = lock_files.choose_lock_files({*(changed or ()), *self.locks}, self.rules.lock_files)
        return changed is not None and not changed.isdisjoint(known)

    def set_up(
        self, checkpoint: str, changed: frozenset[str] | None, *, network: bool, guarded: bool
    ) -> PreparedWorkspace:
        """Use the copy for these lock files, else run the commands.

        `changed`: the files that agents may have worked on, None if unknown. With network access, their code
        could send out anything in the workspace: so the commands run only for agents that have network access
        themselves, or if the config says so.
        """
        is_touched = changed is None or bool(changed)
        with self.host.cache.lock_key(self.key, self._wait_for_other_job):
            copy = self.host.cache.find_copy(self.host.open_workspace(), self.key, self.host.job_id)
            if copy is not None:
                return self._use_copy(copy, self.key, self.locks)
            if not is_touched or self.rules.rerun == "always" or (self.rules.rerun == "auto" and network):
                try:
                    return self._run_setup(checkpoint, touched=is_touched, guarded=guarded)
                except SetupFailed as error:
                    error.by_agent = self.is_by_agent(changed)
                    raise
        previous = self.restore_previous() or PreparedWorkspace(note=NOT_RUN)
        if differing := _find_changed_lock_files(self.stamp, self.locks):
            names = self.host.redact_text(_format_paths(differing))
            previous = replace(previous, note=previous.note or f"{FROM_BEFORE} {names} changed")
        if previous.note:
            self.host.say(
                f"warning: {previous.note} (to run the setup anyway: workspace.setup.rerun: always)"
            )
        return previous

    def restore_previous(self) -> PreparedWorkspace | None:
        """The environment that the job had before, or the job that it comes from; None if there is none."""
        own = self.stamp if self.stamp is not None and self.stamp.belongs_to(self.job.workspace) else None
        if (
            own is not None
            and own.digest
            and self.host.open_workspace().compute_prepared_digest(own.outputs) == own.digest
        ):
            return self._build_prepared(own, record={"key": own.key[:KEY_SHOWN]})
        for before in (own, *self.host.load_relatives_stamps()):
            if before is None or not before.key:
                continue
            with self.host.cache.lock_key(before.key, self._wait_for_other_job):
                copy = self.host.cache.find_copy(self.host.open_workspace(), before.key, self.host.job_id)
                if copy is not None:
                    return self._use_copy(copy, before.key, before.lock_files)
        return self._build_prepared(own, note=CHANGED) if own is not None and own.digest else None

    def _use_copy(self, copy: setup_cache.Copy, key: str, locks: dict[str, str]) -> PreparedWorkspace:
        began = self.host.clock.monotonic()
        before = self.stamp
        is_same_key = before is not None and before.key == key and bool(before.digest)
        workspace = self._remove_earlier_setup(caches=False)
        stamp = self._record_done(
            key, locks, workspace.restore_prepared(copy.saved, copy.folder), "cache", began
        )
        if (
            before is not None and key != self.key
        ):  # not the copy that is needed now: keep the recorded failure
            self._save_stamp(
                replace(stamp, failed=before.failed, failed_key=before.failed_key, log=before.log)
            )
        if is_same_key:  # it was only changed since, for example by compiled modules
            return self._build_prepared(stamp, record={"key": key[:KEY_SHOWN]})
        self.host.report_progress(f"workspace set up from the cache in {stamp.seconds:.1f} s")
        return self._build_prepared(stamp)

    def _run_setup(self, checkpoint: str, *, touched: bool, guarded: bool) -> PreparedWorkspace:
        self.host.require_trust()
        began = self.host.clock.monotonic()
        before, first = self.stamp, self.host.start
        if guarded:  # if it is interrupted, the next command restores the workspace
            self.host.begin_restore(checkpoint)
        workspace = self._remove_earlier_setup(caches=True)
        workspace.disarm_git()  # otherwise git would run what an agent has configured
        try:
            self._run_commands(touched=touched)
        except SetupFailed as error:
            workspace.remove_prepared(workspace.find_setup_products(checkpoint, first).outputs)
            workspace.restore(checkpoint, clearing=True)
            known_stamp = before or self._build_stamp("", {}, (), "commands", began)
            place, at = prepared.identify_workspace(self.job.workspace), self.host.clock.timestamp()
            failed = replace(known_stamp, place=place, at=at, outputs=(), digest="", failed_key=self.key)
            self._save_stamp(replace(failed, failed=error.message.removeprefix(FAILED), log=self.host.log))
            if guarded:
                self.host.end_restore()
            raise
        outputs_made = workspace.find_setup_products(checkpoint, first)
        # From here on it counts as a cache, so it stays when everything else is restored.
        self._save_stamp(self._build_stamp(self.key, self.locks, outputs_made.outputs, "commands", began))
        self.host.open_workspace().restore(checkpoint, clearing=True)
        if outputs_made.others:
            names = self.host.redact_text(_format_paths(outputs_made.others))
            self.host.say(f"warning: the setup changed files that git doesn't ignore; restored: {names}")
        stamp = self._record_done(self.key, self.locks, outputs_made.outputs, "commands", began)
        try:
            # Without lock files, another workspace may need something else.
            shared = not touched and bool(self.locks)
            self.host.cache.save_copy(
                self.host.open_workspace(), self.key, self.host.job_id, outputs_made.outputs, shared=shared
            )
        except (LogistError, OSError) as error:
            self.host.say(f"warning: can't cache the result of the setup for other jobs: {error}")
        if guarded:
            self.host.end_restore()
        self.host.report_progress(f"workspace set up in {stamp.seconds:.1f} s")
        return self._build_prepared(stamp)

    def _run_commands(self, *, touched: bool) -> None:
        lines: list[str] = []
        try:
            with commands.make_private_place(self.host) as place:
                confinement = place.confine_setup(*self._build_access(place, touched=touched))
                self._run_each(place, confinement, lines)
        except _Failed as failure:
            for line in failure.output.splitlines()[-SHOWN_LINES:]:
                self.host.say(f"  {line}")
            raise SetupFailed(
                f"{FAILED}{failure.command}: {failure.reason}",
                where=str(self.job.logs / self.host.log),
                fix=FIX,
                output=failure.output,
            ) from None
        finally:
            self.host.save_log("\n".join(lines).encode())

    def _run_each(self, place: Workplace, confinement: Confinement, lines: list[str]) -> None:
        """Run the commands in order until one fails; `lines` gets what they print."""
        seconds = remaining = self.rules.timeout_minutes * SECONDS_OF_MINUTE
        for command in self.rules.commands:
            redacted = self.host.redact_text(commands.format_command(command))
            self.host.report_progress(f"setting up the workspace: {redacted}")
            result = commands.run_command(
                self.host, command, place, confinement, seconds=remaining, tail=TAIL_BYTES
            )
            output = result.join_output(2 * TAIL_BYTES)
            reason = _explain_failure(result, seconds)
            lines += [f"$ {redacted}", output, f"({reason or 'done'})", ""]
            self._stop_if_asked(result)
            if reason:
                raise _Failed(redacted, reason, output)
            remaining = max(0.0, remaining - (result.ended.seconds if result.ended else 0.0))

    def _build_access(
        self, place: Workplace, *, touched: bool
    ) -> tuple[AgentWork, dict[str, str], Sequence[Path]]:
        """What a command of the setup may use.

        If an agent has worked on the files that it runs, it gets no access to what other jobs build on.
        """
        packages, interpreters = self.host.cache.packages, self.host.cache.make_interpreters_folder()
        if touched:
            packages = place.scratch / "packages"
            packages.mkdir(mode=0o700)
        code = CodePaths(programs=USUAL_PROGRAMS, readable=(str(interpreters),))
        work = AgentWork(
            network=True,
            sandbox=self.host.sandbox,
            marker=self.host.marker,
            code=code,
        )
        variables = {
            "XDG_CACHE_HOME": str(packages),
            "npm_config_cache": str(packages / "npm"),
            "YARN_CACHE_FOLDER": str(packages / "yarn"),
            # A hard link into the cache would let an agent change the packages of other jobs.
            "UV_LINK_MODE": "copy",
            # Otherwise each run of Python would compile modules, which counts as a change of the environment.
            "UV_COMPILE_BYTECODE": "1",
            "UV_PYTHON_INSTALL_DIR": str(interpreters),
            **self.host.environment.select_variables(CERTIFICATES),
            **self.host.environment.select_variables(self.rules.environment),
        }
        return work, variables, (packages,) if touched else (packages, interpreters)

    def _stop_if_asked(self, done: commands.ShellResult) -> None:
        stopping = self.host.stopping()
        if stopping or (done.ended and done.ended.how == "stopped"):
            fix = f"to start it again, run: logist job step --job {self.host.job_id}"
            raise Stopped("stopped during the workspace setup", exit_code=stopping or 130, fix=fix)

    def _remove_earlier_setup(self, *, caches: bool) -> Workspace:
        """Remove what an earlier setup made from the workspace, and first mark it as not done."""
        stamp = self.stamp
        outputs: tuple[str, ...] = ()
        if stamp is not None and stamp.belongs_to(self.job.workspace):
            outputs = stamp.outputs
            self._save_stamp(replace(stamp, digest=""))
        else:
            with suppress(FileNotFoundError):
                os.unlink(self.job.setup_file)
        workspace = self.host.open_workspace()
        workspace.remove_prepared(outputs, caches=caches)
        return workspace

    def _record_done(
        self, key: str, locks: dict[str, str], outputs: tuple[str, ...], source: str, began: float
    ) -> prepared.SetupStamp:
        """Record what is there now, as the last action: an interrupted setup does not count as done."""
        digest = self.host.open_workspace().compute_prepared_digest(outputs)
        stamp = replace(self._build_stamp(key, locks, outputs, source, began), digest=digest)
        self._save_stamp(stamp)
        return stamp

    def _build_stamp(
        self, key: str, locks: dict[str, str], outputs: tuple[str, ...], source: str, began: float
    ) -> prepared.SetupStamp:
        clock = self.host.clock
        return prepared.SetupStamp(
            key=key,
            lock_files=locks,
            place=prepared.identify_workspace(self.job.workspace),
            at=clock.timestamp(),
            outputs=outputs,
            source=source,
            seconds=round(clock.monotonic() - began, 1),
            log=self.host.log if source == "commands" else "",
        )

    def _save_stamp(self, stamp: prepared.SetupStamp) -> None:
        replace_file(self.job.setup_file, stamp.to_json())
        self.stamp = stamp

    def _build_prepared(
        self, stamp: prepared.SetupStamp, *, note: str = "", record: JsonObject | None = None
    ) -> PreparedWorkspace:
        default_record = {"key": stamp.key[:KEY_SHOWN], "source": stamp.source, "seconds": stamp.seconds}
        return PreparedWorkspace(
            workspace_code.find_prepared_paths(self.host, stamp), note, record or default_record
        )

    def _wait_for_other_job(self) -> None:
        """Wait while another job sets up the same."""
        if not self.waiting:
            self.host.report_progress("waiting for another job that runs the same setup")
        self.waiting = True
        if self.host.stopping():
            raise Stopped("stopped waiting for the setup of another job", exit_code=self.host.stopping())
        time.sleep(WAIT_SECONDS)


def _is_current(workspace: Workspace, stamp: prepared.SetupStamp | None, key: str) -> bool:
    if stamp is None or stamp.key != key or not stamp.belongs_to(workspace.root):
        return False
    return workspace.compute_prepared_digest(stamp.outputs) == stamp.digest


def _compute_key(
    rules: SetupRules, environment: Environment, redact_text: Callable[[str], str], locks: dict[str, str]
) -> str:
    """A hash of all that decides what the commands make: they, the lock
    files, the machine and its interpreters.
    """
    path = environment.build_child_environment().get("PATH", os.defpath)
    variables = environment.select_variables(rules.environment)
    import shutil  # noqa: PLC0415 - loads the libraries of three compressions, and most jobs have no setup

    identity = {
        "format": SETUP_COPY.version,
        "commands": rules.model_dump(mode="json")["commands"],
        # NODE_ENV decides what is installed; a token that is renewed does not.
        "environment": {name: redact_text(value) for name, value in variables.items()},
        "lock_files": locks,
        "machine": [sys.platform, platform.machine()],
        "interpreters": [_identify_program(shutil.which(name, path=path)) for name in INTERPRETERS],
    }
    return compute_sha256(json.dumps(identity, sort_keys=True).encode("utf-8", "surrogatepass"))


def _identify_program(program: str | None) -> list[str | int]:
    """Values that distinguish one version of a program from another, without running it."""
    if program is None:
        return []
    real_path = os.path.realpath(program)
    status = os.stat(real_path)
    return [real_path, status.st_size, status.st_mtime_ns]


def _is_empty(workspace: Workspace, locks: dict[str, str]) -> bool:
    """True if nothing in the workspace could define what to install yet."""
    return not locks and not workspace.list_files(1).paths


def _find_changed_lock_files(stamp: prepared.SetupStamp | None, locks: dict[str, str]) -> tuple[str, ...]:
    """The lock files that have changed since a setup was done."""
    known = stamp.lock_files if stamp is not None else {}
    return tuple(sorted(name for name in known.keys() | locks.keys() if known.get(name) != locks.get(name)))


def _format_paths(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - MOST_NAMED_LOCK_FILES} more" if len(paths) > MOST_NAMED_LOCK_FILES else ""
    return (", ".join(paths[:MOST_NAMED_LOCK_FILES]) or "it was") + more


def _explain_failure(done: commands.ShellResult, seconds: float) -> str:
    """Why a command does not count as done; empty if it does."""
    ended = done.ended
    if ended is None:
        return f"not run: {done.error}"
    if ended.how == "timeout":
        return f"timed out: the setup took longer than {seconds:g} seconds"
    if ended.how == "exited" and ended.status == 0:
        return ""
    return commands.describe_end(ended, seconds) or f"exit status {ended.status}"
