"""What `logist doctor` says about the project around the jobs: directories, disk, config, roles, leftovers."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shlex import quote

from logist.cli import context
from logist.cli.checkup import asked
from logist.cli.current_job import SELECTED_JOB_FILE, get_current_directory, read_selected_job
from logist.config.environment import Environment, Home
from logist.config.settings import (
    UNCHECKED_MERGES,
    LoadedSettings,
    load_settings,
    merges_unchecked,
    named_roles,
)
from logist.core.text.ids import is_job_id
from logist.errors import LogistError
from logist.jobs.base.project import SCRIPTED, Project
from logist.jobs.doctor.finding import Cure, Finding, curable, invalid, warning
from logist.store import IN_THE_MAKING, describe_problem, lock
from logist.store.files import TEMPORARY, moving_away

LOW = 100_000_000
"""Bytes of free space below which there is a warning."""
SETTLED = timedelta(minutes=1)
"""How old what looks left behind must be: its maker may just have made it, and not locked it yet."""
LEFT = timedelta(hours=1)
"""The same for half-written files, which nobody locks; writing one takes no second."""


def look(environment: Environment, project: Project) -> Iterator[Finding]:
    """Every finding about what lies around the jobs."""
    home = environment.find_home(Path(get_current_directory()))
    yield _directory("home", home.path, f"found by {home.source}")
    yield _directory("jobs", project.jobs_dir, "")
    yield from _disk(project.jobs_dir)
    yield from _locking(project.jobs_dir)
    yield from _config(environment, home)
    yield from _roles(environment)
    yield from _not_ignored(home.path)
    yield from _selected(project)
    yield from _half_written(project)
    yield from _left_over(project)
    yield from _no_jobs(project.jobs_dir)


def _directory(what: str, path: Path, note: str) -> Finding:
    shown = f"{path} ({note})" if note else str(path)
    existing = _existing(path)
    if os.path.lexists(path) and existing != path:
        return invalid(what, f"{path} is no directory", moving_away(path))
    if problem := describe_problem(existing):
        return invalid(what, f"{shown} is on {problem}", "use a local disk: --jobs-dir, or $LOGIST_JOBS_DIR")
    if os.statvfs(existing).f_flag & os.ST_RDONLY:
        return invalid(what, f"{shown} is on a read-only file system", "remount it writable, or --jobs-dir")
    if not os.access(existing, os.R_OK | os.W_OK | os.X_OK):
        return invalid(
            what, f"{shown} can't be read and written", f"check who owns {existing}, and its permissions"
        )
    if existing != path:
        fix = "logist init" if what == "home" else None
        return Finding(what, "ok", f"{shown} is not there yet, and is made when it is needed", fix)
    return Finding(what, "ok", shown)


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def _disk(jobs: Path) -> Iterator[Finding]:
    place = _existing(jobs)
    disk = os.statvfs(place)
    free = disk.f_bavail * disk.f_frsize
    full = bool(disk.f_files) and not disk.f_favail
    if full:
        yield warning(
            "disk", "no inode is free, so no file can be made: remove some", f"df -i {quote(str(place))}"
        )
    if free < LOW:
        message = f"only {free / 1e6:.1f} MB are free: make some space"
        yield warning("disk", message, f"df -h {quote(str(place))}")
    if free >= LOW and not full:
        yield Finding("disk", "ok", f"{free / 1e9:,.1f} GB free")


def _locking(jobs: Path) -> Iterator[Finding]:
    """What the file system must be able to do. Found out without writing."""
    if not jobs.is_dir():
        return
    fix = "use a file system of Linux: --jobs-dir, or $LOGIST_JOBS_DIR"
    if _ignores_case(jobs):
        yield warning("jobs", "names differ not by case here: the jobs A and a would be one", fix)
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
            yield invalid("jobs", "this file system has no locks", fix)
    finally:
        os.close(fd)


def _ignores_case(folder: Path) -> bool:
    """Whether the directory answers to its name in another case; a link of that name does not count."""
    other = folder.with_name(folder.name.swapcase())
    try:
        return other != folder and os.path.samestat(other.lstat(), folder.lstat())
    except OSError:
        return False


def _config(environment: Environment, home: Home) -> Iterator[Finding]:
    try:
        loaded = load_settings(home.path, environment.user_config_dir())
        trust = context.trust_of(environment, loaded, context.known_roles(environment))
        trust.require_to_run()
    except LogistError as error:
        yield invalid("config", f"{error.where}: {error.message}", error.fix or "edit the file")
        return
    script = (environment.agent() or loaded.settings.agent).removeprefix(SCRIPTED)
    if script != (environment.agent() or loaded.settings.agent) and not os.path.exists(script):
        yield invalid("config", f"agent: {script} is not there", "name another script, or: agent: litellm")
        return
    for unused in loaded.unused:
        yield warning("config", f"{unused.where}: {unused.message}", unused.instead)
    if merges_unchecked(loaded.settings):
        yield warning("config", UNCHECKED_MERGES, None)
    yield from _named(environment, loaded)
    yield from asked.look(environment, loaded.settings, context.known_roles(environment))
    yield Finding("config", "ok", ", ".join(sorted(loaded.files)) or "all defaults")


def _named(environment: Environment, loaded: LoadedSettings) -> Iterator[Finding]:
    """Roles that the settings name and that don't exist.

    Only `roles.default` is an error, since no job can be made without it. Other projects may know the rest.
    """
    roles = context.known_roles(environment)
    for field, role in named_roles(loaded.settings).items():
        if role not in roles.by_name and role not in roles.broken:
            message = f"{loaded.sources[field]}: `{field}` names the role `{role}`, and there is none"
            make = invalid if field == "roles.default" else warning
            yield make("config", message, f"valid roles: {', '.join(sorted(roles.by_name))}")


def _roles(environment: Environment) -> Iterator[Finding]:
    try:
        roles = context.known_roles(environment)
    except LogistError as error:
        yield invalid("roles", f"{error.where}: {error.message}", error.fix or "check its permissions")
        return
    for problem in roles.problems:
        make = invalid if problem.severity == "error" else warning
        yield make("roles", f"{problem.where}: {problem.message}", problem.fix or "edit the file")
    if not roles.broken:
        yield Finding("roles", "ok", ", ".join(sorted(roles.by_name)))


def _not_ignored(home: Path) -> Iterator[Finding]:
    """Without it the user's own git takes the jobs for files of the project."""
    ignored = home / ".gitignore"
    in_repository = any((above / ".git").exists() for above in home.parents)
    if home.is_dir() and in_repository and not os.path.lexists(ignored):
        message = f"{ignored} is missing: git would take the jobs for files of the project"
        yield curable(warning("home", message, None), Cure.IGNORE, ignored)


def _selected(project: Project) -> Iterator[Finding]:
    file = project.home / SELECTED_JOB_FILE
    if not os.path.lexists(file) or not project.jobs_dir.is_dir():
        return
    chosen = read_selected_job(str(project.home)) or ""
    places = (project.jobs_dir, project.home / "jobs")
    if is_job_id(chosen) and any((place / chosen).is_dir() for place in places):
        return
    what = (
        f"the selected job {chosen} is not there"
        if is_job_id(chosen)
        else f"{SELECTED_JOB_FILE} names no job"
    )
    yield curable(warning("selected", what, None), Cure.TAKE_AWAY, file)


def _half_written(project: Project) -> Iterator[Finding]:
    found = [
        path for path in _inside(project.home) if path.name.startswith(".") and path.name.endswith(TEMPORARY)
    ]
    if left := [path for path in found if _is_older(project, path, LEFT)]:
        message = f"half-written files of a command that was killed: {', '.join(path.name for path in left)}"
        yield curable(warning("home", message, None), Cure.TAKE_AWAY, *left)


def _left_over(project: Project) -> Iterator[Finding]:
    """Jobs in the making whose maker was killed: who lives holds the lock."""
    for path in _inside(project.jobs_dir):
        if not path.name.startswith(IN_THE_MAKING) or path.is_symlink() or not path.is_dir():
            continue
        if lock.holder(path) is not None:
            continue
        found = warning("jobs", f"{path.name} was left by a command that was killed", _removal(path))
        yield curable(found, Cure.ABANDONED, path) if _is_older(project, path, SETTLED) else found


def _removal(path: Path) -> str:
    return f"if no `logist job create` is at work: rm -r {quote(str(path))}"


def _no_jobs(jobs: Path) -> Iterator[Finding]:
    """What no command sees: names that are no ids, files, links."""
    for path in _inside(jobs):
        if path.name.startswith("."):
            continue
        if path.is_symlink():
            yield warning("jobs", f"{path.name} is a symbolic link, and so no job", f"rm {quote(str(path))}")
        elif not path.is_dir():
            yield warning("jobs", f"{path.name} is no job, but a file", _out(jobs, path))
        elif not is_job_id(path.name):
            yield warning("jobs", f"{path.name!r} is not a job id, so no command finds it", _out(jobs, path))


def _out(jobs: Path, path: Path) -> str:
    return f"mv {quote(str(path))} {quote(str(jobs.parent))}"


def _inside(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _is_older(project: Project, path: Path, age: timedelta) -> bool:
    try:
        changed = datetime.fromtimestamp(os.stat(path, follow_symlinks=False).st_mtime, UTC)
    except OSError:
        return False
    return project.clock.now() - changed > age
