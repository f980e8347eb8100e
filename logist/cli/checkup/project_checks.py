"""The checks of `logist doctor` for the machine and the project, as a table."""

from __future__ import annotations

import errno
import fcntl
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shlex import quote

from logist import systems
from logist.agents import sandbox
from logist.agents.programs import finding
from logist.agents.programs.finding import PRESETS
from logist.agents.protocol import MODEL_AGENTS
from logist.cli import context
from logist.cli.checkup.model_checks import choose_role_model, describe_unusable_model
from logist.cli.current_job import SELECTED_JOB_FILE, get_current_directory, read_selected_job
from logist.config.environment import Environment
from logist.config.providers import SHIPPED_PROVIDERS
from logist.config.settings import (
    UNCHECKED_MERGES,
    LoadedSettings,
    Settings,
    can_merge_unchecked,
    list_named_roles,
    load_settings,
    resolve_model,
)
from logist.core.text.counts import format_bytes
from logist.core.text.ids import is_job_id
from logist.errors import InvalidFile, LogistError
from logist.jobs.base import free_space, linux_only
from logist.jobs.base.call_limits import list_call_rates
from logist.jobs.base.model_choice import require_client
from logist.jobs.base.project import SCRIPTED, ProjectContext
from logist.jobs.doctor import job_checks, repairs
from logist.jobs.doctor.checks import Finding, HealthCheck, invalid, repairable, warning
from logist.jobs.doctor.ledger_checks import find_ledger_problems, repair_ledger
from logist.quick_tuple import NamedTuple
from logist.roles import LoadedRole, Roles
from logist.store import IN_THE_MAKING, SCRUBS, JobDir, describe_problem, hidden_folders, list_jobs, lock
from logist.store.files import TEMPORARY, format_move_command
from logist.store.listing import BATCHES

OLDEST_PYTHON = (3, 11)
OLDEST_GIT = (2, 39)
INSTALL_SANDBOX = "apt install bubblewrap"
NETWORK_FOR_PROGRAMS = "set `network: true` in the roles of agent programs"
LOW = 100_000_000
"""Free bytes below which the check warns."""
SETTLED = timedelta(minutes=1)
"""Minimum age of a job that looks abandoned: its process may have created it just now, and not locked it yet."""
LEFT = timedelta(hours=1)
"""The same for half-written files, which have no lock; writing one takes less than a second."""


def list_project_jobs(project: ProjectContext) -> list[JobDir]:
    """Return all jobs of the project."""
    try:
        return [JobDir(project.jobs_dir / job_id, job_id) for job_id in list_jobs(project.jobs_dir)]
    except LogistError:
        return []  # the directory is missing or unreadable: another check reports that


def _python(project: ProjectContext) -> Iterator[Finding]:
    found = platform.python_version()
    if sys.version_info[:2] < OLDEST_PYTHON:
        yield invalid("python", f"{found} is too old", "install Python 3.11 or newer")
    else:
        yield Finding("python", "ok", found)


def _git(project: ProjectContext) -> Iterator[Finding]:
    try:
        done = subprocess.run(
            ["git", "--version"],
            env=project.environment.build_child_environment(),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        yield invalid("git", f"can't run git: {error}", "install git 2.39 or newer")
        return
    version = re.search(r"(\d+)\.(\d+)[.\d]*", done.stdout)
    if version and (int(version[1]), int(version[2])) < OLDEST_GIT:
        yield warning(
            "git",
            f"{version[0]} is older than any version that Logist is tested with",
            "install git 2.39 or newer",
        )
    else:
        yield Finding("git", "ok", version[0] if version else done.stdout.strip())


def _litellm(project: ProjectContext) -> Iterator[Finding]:
    if importlib.util.find_spec("litellm"):
        yield Finding("litellm", "ok", "installed")
        return
    known = ", ".join(SHIPPED_PROVIDERS)
    yield Finding("litellm", "ok", f"not installed; only needed for other providers than {known}")


def describe_sandbox(found: sandbox.Means, gate_problem: str | None = None) -> Finding:
    """Report which sandbox confines commands and agent programs, and what it doesn't restrict.

    `gate_problem`: why an agent program can't reach its model in it, if it has no other network access.
    """
    told = "; ".join(found.details)
    if found.kind == "bubblewrap" and gate_problem is not None:
        return warning("sandbox", f"{told}; {gate_problem}", NETWORK_FOR_PROGRAMS)
    if found.kind == "bubblewrap":
        return Finding("sandbox", "ok", told)
    if found.kind == "landlock":
        return warning(
            "sandbox",
            f"only Landlock is available, which restricts less than bubblewrap: {told}",
            INSTALL_SANDBOX,
        )
    return warning(
        "sandbox",
        f"no sandbox available: agents' commands can access everything you can: {told}",
        INSTALL_SANDBOX,
    )


def _path(environment: Environment) -> str:
    return environment.build_child_environment().get("PATH", os.defpath)


def _sandbox(project: ProjectContext) -> list[Finding]:
    if not systems.IS_LINUX:
        return [warning("sandbox", linux_only.EXPLANATION, linux_only.FIX)]
    # Only agent programs use a gate, and to try it starts one more sandbox.
    has_programs = bool(project.settings.agents or _list_installed_programs(_path(project.environment)))
    return [describe_sandbox(sandbox.detect_sandbox(), sandbox.find_gate_problem() if has_programs else None)]


def _list_installed_programs(path: str) -> list[str]:
    return [name for name, program in PRESETS.items() if shutil.which(program.executable, path=path)]


def describe_programs(path: str) -> Finding:
    """Report which of the known agent programs are installed."""
    there = _list_installed_programs(path)
    return Finding("agents", "ok", ", ".join(there) or "no agent program installed; models don't need one")


def _home(project: ProjectContext) -> Iterator[Finding]:
    found = project.environment.find_home(Path(get_current_directory()))
    note = f"source: {found.source}"
    if found.path.is_dir() and not project.has_jobs_inside and not os.access(found.path, os.W_OK):
        # As a checkout in CI: everything that Logist writes is elsewhere.
        yield Finding("home", "ok", f"{found.path} ({note}) is read-only; the jobs are elsewhere")
        return
    yield _directory("home", found.path, note)


def _directory(what: str, path: Path, note: str) -> Finding:
    shown = f"{path} ({note})" if note else str(path)
    existing = _existing(path)
    if os.path.lexists(path) and existing != path:
        return invalid(what, f"{path} is not a directory", format_move_command(path))
    if problem := describe_problem(existing):
        return invalid(
            what, f"{shown} is on {problem}", "use a local disk: set --jobs-dir or $LOGIST_JOBS_DIR"
        )
    if os.statvfs(existing).f_flag & os.ST_RDONLY:
        return invalid(
            what,
            f"{shown} is on a read-only file system",
            "remount it writable, or choose another directory with --jobs-dir",
        )
    if not os.access(existing, os.R_OK | os.W_OK | os.X_OK):
        return invalid(
            what,
            f"missing read or write permission: {shown}",
            f"check the owner and permissions of {existing}",
        )
    if existing != path:
        fix = "logist init" if what == "home" else None
        return Finding(what, "ok", f"{shown} doesn't exist yet; Logist creates it when needed", fix)
    return Finding(what, "ok", shown)


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def _disk(project: ProjectContext) -> Iterator[Finding]:
    place = _existing(project.jobs_dir)
    disk = os.statvfs(place)
    free = disk.f_bavail * disk.f_frsize
    full = bool(disk.f_files) and not disk.f_favail
    if full:
        yield warning(
            "disk",
            "no free inodes, so Logist can't create files: delete some files",
            f"df -i {quote(str(place))}",
        )
    shortage = free_space.describe_shortage(project)
    if shortage is not None:
        message = f"no step begins until there is more space: {shortage}"
        yield warning("disk", message, "logist gc --older-than 30d --dry-run")
    elif free < LOW:
        message = f"only {free / 1e6:.1f} MB free: free some disk space"
        yield warning("disk", message, f"df -h {quote(str(place))}")
    elif not full:
        least = project.settings.min_free_bytes
        needed = f"; steps need {format_bytes(least)} (min_free_bytes)" if least else ""
        yield Finding("disk", "ok", f"{free / 1e9:,.1f} GB free{needed}")


def _file_system(project: ProjectContext) -> Iterator[Finding]:
    """Check that the file system has what jobs need, without writing to it."""
    jobs = project.jobs_dir
    if not jobs.is_dir():
        return
    fix = "use a Linux file system: set --jobs-dir or $LOGIST_JOBS_DIR"
    if _ignores_case(jobs):
        yield warning("jobs", "this file system ignores case: the jobs A and a would be the same", fix)
    try:
        fd = os.open(jobs, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    except OSError as error:
        if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL):
            yield invalid("jobs", "this file system doesn't support file locks", fix)
    finally:
        os.close(fd)


def _ignores_case(folder: Path) -> bool:
    """True if the directory can be opened by its name in another case; a link of that name doesn't count."""
    other = folder.with_name(folder.name.swapcase())
    try:
        return other != folder and os.path.samestat(other.lstat(), folder.lstat())
    except OSError:
        return False


def _config(project: ProjectContext) -> Iterator[Finding]:
    environment = project.environment
    try:
        loaded = load_settings(project.home, environment.user_config_dir())
        roles = context.load_known_roles(environment)
        list_call_rates(loaded.settings)
        context.read_project_trust(environment, loaded, roles).require_to_run()
    except LogistError as error:
        yield invalid("config", f"{error.where}: {error.message}", error.fix or "edit the file")
        return
    script = (environment.agent_name() or loaded.settings.agent).removeprefix(SCRIPTED)
    if script != (environment.agent_name() or loaded.settings.agent) and not os.path.exists(script):
        yield invalid(
            "config", f"agent: script not found: {script}", "set `agent` to an existing script, or to model"
        )
        return
    for unused in loaded.unused:
        yield warning("config", f"{unused.where}: {unused.message}", unused.advice)
    if can_merge_unchecked(loaded.settings):
        yield warning("config", UNCHECKED_MERGES, None)
    if not systems.IS_LINUX:
        checks, setup = (
            linux_only.list_check_needs(loaded.settings),
            linux_only.list_setup_needs(loaded.settings),
        )
        for need in (*checks, *setup):
            yield warning("config", linux_only.build_refusal([need]).message, need.fix)
    yield from _named(loaded, roles)
    yield from _agents(environment, loaded.settings, roles)
    yield Finding("config", "ok", ", ".join(sorted(loaded.files)) or "all defaults")


def _named(loaded: LoadedSettings, roles: Roles) -> Iterator[Finding]:
    """Report unknown roles in the settings.

    Only `roles.default` is an error, because no job can be created without it. Other projects may have the rest.
    """
    for field, role in list_named_roles(loaded.settings).items():
        if role not in roles.by_name and role not in roles.broken:
            message = f"{loaded.sources[field]}: `{field}` names the unknown role `{role}`"
            make = invalid if field == "roles.default" else warning
            yield make("config", message, f"valid roles: {', '.join(sorted(roles.by_name))}")


class AgentProblem(NamedTuple):
    """Why a role can't do steps, and how to fix it."""

    message: str
    fix: str


def _agents(environment: Environment, settings: Settings, roles: Roles) -> Iterator[Finding]:
    """Report roles that can't do steps: an error if that is true for all doers, else a warning each."""
    agent = environment.agent_name() or settings.agent
    if agent.startswith(SCRIPTED):
        return
    doers = {settings.roles.default, *settings.roles.type_mapping.values()} & set(roles.by_name)
    reviewers = {settings.review.role} & set(roles.by_name) if settings.review.enabled else set()
    troubles: dict[AgentProblem, list[str]] = {}
    for name in sorted(doers | reviewers):
        if trouble := _trouble(environment, settings, roles.by_name[name], agent):
            troubles.setdefault(trouble, []).append(name)
    hindered = {name for names in troubles.values() for name in names}
    make = invalid if doers and doers <= hindered else warning
    for trouble, names in troubles.items():
        yield make("agent", f"{trouble.message} (roles: {', '.join(names)})", trouble.fix)
    if not troubles:
        yield Finding("agent", "ok", agent)


def _trouble(
    environment: Environment, settings: Settings, loaded: LoadedRole, agent: str
) -> AgentProblem | None:
    agent = loaded.role.agent or agent
    chosen = choose_role_model(environment, settings, loaded)
    try:
        model = resolve_model(settings, chosen.name)
        require_client(settings, model, agent)
        program = None if agent in MODEL_AGENTS else finding.load_program(agent, settings.agents)
    except InvalidFile as error:
        return AgentProblem(f"{chosen.describe_source()}: {error.message}", error.fix or "edit the config")
    if not systems.IS_LINUX and (needs := list(linux_only.list_role_needs(loaded.role, agent))):
        refused = linux_only.build_refusal(needs)
        return AgentProblem(refused.message, refused.fix or "use Linux")
    problem = describe_unusable_model(environment, settings, model)
    if program is not None:
        if shutil.which(program.executable, path=_path(environment)) is None:
            return AgentProblem(
                f"can't run the agent {agent}: {program.executable} not found on PATH", f"install {agent}"
            )
        return None
    return AgentProblem(*problem) if problem else None


def _roles(project: ProjectContext) -> Iterator[Finding]:
    try:
        roles = context.load_known_roles(project.environment)
    except LogistError as error:
        yield invalid("roles", f"{error.where}: {error.message}", error.fix or "check its permissions")
        return
    for problem in roles.problems:
        make = invalid if problem.severity == "error" else warning
        yield make("roles", f"{problem.where}: {problem.message}", problem.fix or "edit the file")
    if not roles.broken:
        yield Finding("roles", "ok", ", ".join(sorted(roles.by_name)))


def _gitignore(project: ProjectContext) -> Iterator[Finding]:
    """Check that the jobs are ignored by the git repository of the project."""
    home = project.home
    ignored = home / ".gitignore"
    in_repository = any((above / ".git").exists() for above in home.parents)
    if home.is_dir() and in_repository and project.has_jobs_inside and not os.path.lexists(ignored):
        message = f"{ignored} is missing: git would treat the jobs as files of your project"
        yield repairable(warning("home", message, None), ignored)


def _selected_job(project: ProjectContext) -> Iterator[Finding]:
    file = project.home / SELECTED_JOB_FILE
    if not os.path.lexists(file) or not project.jobs_dir.is_dir():
        return
    chosen = read_selected_job(str(project.home)) or ""
    places = (project.jobs_dir, project.home / "jobs")
    if is_job_id(chosen) and any((place / chosen).is_dir() for place in places):
        return
    what = (
        f"selected job not found: {chosen}"
        if is_job_id(chosen)
        else f"{SELECTED_JOB_FILE} doesn't contain a job id"
    )
    yield repairable(warning("selected", what, None), file)


def _half_written(project: ProjectContext) -> Iterator[Finding]:
    found = [
        path for path in _inside(project.home) if path.name.startswith(".") and path.name.endswith(TEMPORARY)
    ]
    if left := [path for path in found if _is_older(project, path, LEFT)]:
        message = f"incomplete files left by a killed command: {', '.join(path.name for path in left)}"
        yield repairable(warning("home", message, None), *left)


def _abandoned_jobs(project: ProjectContext) -> Iterator[Finding]:
    """Report unfinished jobs whose creating process was killed: a live one would hold the lock."""
    for path in _inside(project.jobs_dir):
        if not path.name.startswith(IN_THE_MAKING) or path.is_symlink() or not path.is_dir():
            continue
        if lock.find_lock_holder(path) is not None:
            continue
        found = warning("jobs", f"{path.name} was left by a killed command", _removal(path))
        yield repairable(found, path) if _is_older(project, path, SETTLED) else found


def _abandoned_batches(project: ProjectContext) -> Iterator[Finding]:
    """Report batches of new jobs whose creating process was killed. Their jobs are hidden."""
    for path in hidden_folders.list_abandoned(project.jobs_dir / BATCHES):
        message = f"{path.parent.name}/{path.name}: a batch was left by a killed command"
        yield repairable(warning("jobs", message, "the next 'logist job create' removes it"), path)


def _unfinished_scrubs(project: ProjectContext) -> Iterator[Finding]:
    """Report scrubs whose process was killed: their directories still have the text that was to be erased."""
    if paths := hidden_folders.list_abandoned(project.jobs_dir / SCRUBS):
        message = "`job scrub` was killed; copies of jobs are left, with the text that was to be erased"
        yield repairable(warning("jobs", message, None), *paths)


def _removal(path: Path) -> str:
    return f"if no `logist job create` is running: rm -r {quote(str(path))}"


def _strays(project: ProjectContext) -> Iterator[Finding]:
    """Report what commands ignore in the jobs directory: invalid ids, files, links."""
    jobs = project.jobs_dir
    for path in _inside(jobs):
        if path.name.startswith("."):
            continue
        if path.is_symlink():
            yield warning("jobs", f"{path.name} is a symbolic link, not a job", f"rm {quote(str(path))}")
        elif not path.is_dir():
            yield warning("jobs", f"{path.name} is a file, not a job", _out(jobs, path))
        elif not is_job_id(path.name):
            yield warning(
                "jobs", f"{path.name!r} is not a valid job id, so commands ignore it", _out(jobs, path)
            )


def _out(jobs: Path, path: Path) -> str:
    return f"mv {quote(str(path))} {quote(str(jobs.parent))}"


def _inside(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _is_older(project: ProjectContext, path: Path, age: timedelta) -> bool:
    try:
        changed = datetime.fromtimestamp(os.stat(path, follow_symlinks=False).st_mtime, UTC)
    except OSError:
        return False
    return project.clock.now() - changed > age


def _clock(project: ProjectContext) -> Iterator[Finding]:
    """Report the first job whose times are ahead of the clock; one is enough."""
    jobs = list_project_jobs(project)
    yield from [found for job in jobs if (found := job_checks.clock_fault(job, project.clock))][:1]


_TAKEN_AWAY = "moved to the backup"
_ABANDONED = "moved to the backup, because no process is using it"

PROJECT_CHECKS: tuple[HealthCheck[ProjectContext], ...] = (
    HealthCheck("python", _python),
    HealthCheck("git", _git),
    HealthCheck("litellm", _litellm),
    HealthCheck("sandbox", _sandbox),
    HealthCheck("agent programs", lambda project: [describe_programs(_path(project.environment))]),
    HealthCheck("home", _home),
    HealthCheck("jobs", lambda project: [_directory("jobs", project.jobs_dir, "")]),
    HealthCheck("disk", _disk),
    HealthCheck("file system", _file_system),
    HealthCheck("config", _config),
    HealthCheck("roles", _roles),
    HealthCheck(".gitignore", _gitignore, repairs.ignore_jobs, "created again"),
    HealthCheck("selected job", _selected_job, repairs.take_away, _TAKEN_AWAY),
    HealthCheck("incomplete files", _half_written, repairs.take_away, _TAKEN_AWAY),
    HealthCheck("abandoned jobs", _abandoned_jobs, repairs.take_abandoned, _ABANDONED),
    HealthCheck("abandoned batches", _abandoned_batches, repairs.remove_batches, "removed"),
    HealthCheck("unfinished scrubs", _unfinished_scrubs, repairs.finish_scrubs, "finished"),
    HealthCheck("unknown files among the jobs", _strays),
    HealthCheck("ledger", find_ledger_problems, repair_ledger, "written again"),
    HealthCheck("clock", _clock),
)
"""In the order in which they run and are reported."""
