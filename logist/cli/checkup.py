"""What `logist doctor` looks at: the machine, the project, and each job."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from logist.cli import context
from logist.cli.options import here
from logist.config.environment import Environment
from logist.config.settings import load_settings
from logist.errors import Damaged, InvalidFile, LogistError
from logist.jobs import looking
from logist.store import JobDir, filesystem_type, is_network, list_jobs

OLDEST_PYTHON = (3, 11)
OLDEST_GIT = (2, 39)
LEFTOVER = ".new-"


class Check(NamedTuple):
    """One finding."""

    check: str
    level: str
    """`ok`, `warning` or `error`."""
    message: str
    fix: str | None = None
    exit_code: int = 0


def examine(environment: Environment, jobs_dir: str | None, *, deep: bool) -> Iterator[Check]:
    """Every finding, the machine first."""
    cwd = Path(here())
    home = environment.find_home(cwd)
    jobs = environment.jobs_dir(jobs_dir, cwd)
    yield _python()
    yield _git(environment)
    yield _litellm()
    yield _directory("home", home.path, f"found by {home.source}")
    yield _directory("jobs", jobs, "")
    yield _config(environment, home.path)
    yield from _roles(environment)
    for name in _leftovers(jobs):
        fix = f"if no `logist job create` is at work: rm -r {jobs / name}"
        yield Check("jobs", "warning", f"{name} was left by a command that was killed", fix)
    for job_id in list_jobs(jobs):
        yield _job(environment, jobs_dir, JobDir(jobs / job_id, job_id), deep=deep)


def _python() -> Check:
    found = platform.python_version()
    if sys.version_info[:2] < OLDEST_PYTHON:
        return _error("python", f"{found} is too old", "install Python 3.11 or newer")
    return Check("python", "ok", found)


def _git(environment: Environment) -> Check:
    try:
        done = subprocess.run(
            ["git", "--version"],
            env=environment.child(),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        return _error("git", f"git can't be run: {error}", "install git 2.39 or newer")
    version = re.search(r"(\d+)\.(\d+)[.\d]*", done.stdout)
    if version and (int(version[1]), int(version[2])) < OLDEST_GIT:
        return Check(
            "git", "warning", f"{version[0]} is older than what Logist is tested with", "git 2.39 or newer"
        )
    return Check("git", "ok", version[0] if version else done.stdout.strip())


def _litellm() -> Check:
    if importlib.util.find_spec("litellm"):
        return Check("litellm", "ok", "installed")
    message = "not installed: no model can be asked; archived and given answers work"
    return Check("litellm", "warning", message, "pip install 'logist[litellm]'")


def _directory(what: str, path: Path, note: str) -> Check:
    shown = f"{path} ({note})" if note else str(path)
    existing = next(folder for folder in (path, *path.parents) if folder.is_dir())
    kind = filesystem_type(existing)
    if kind and is_network(kind):
        return _error(
            what, f"{shown} is on a network file system ({kind}), where locks do not hold", "use a local disk"
        )
    if not os.access(existing, os.W_OK | os.X_OK):
        return _error(what, f"{shown} can't be written", f"check who owns {existing}, and its permissions")
    if existing != path:
        fix = "logist init" if what == "home" else None
        return Check(what, "ok", f"{shown} is not there yet, and is made when it is needed", fix)
    return Check(what, "ok", shown)


def _config(environment: Environment, home: Path) -> Check:
    try:
        loaded = load_settings(home, environment.user_config_dir())
    except InvalidFile as error:
        return _error("config", f"{error.where}: {error.message}", error.fix or "edit the file")
    files = sorted({source for source in loaded.sources.values() if source != "default"})
    return Check("config", "ok", ", ".join(files) or "all defaults")


def _roles(environment: Environment) -> Iterator[Check]:
    roles = context.known_roles(environment)
    for problem in roles.problems:
        code = InvalidFile.exit_code if problem.severity == "error" else 0
        yield Check("roles", problem.severity, f"{problem.where}: {problem.message}", problem.fix, code)
    if not roles.broken:
        yield Check("roles", "ok", ", ".join(sorted(roles.by_name)))


def _leftovers(jobs: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(jobs) if name.startswith(LEFTOVER))
    except OSError:
        return []


def _job(environment: Environment, jobs_dir: str | None, job: JobDir, *, deep: bool) -> Check:
    what = f"job {job.id}"
    try:
        loaded = job.load()
        problems = looking.verify(context.project(environment, jobs_dir), job).problems if deep else ()
    except InvalidFile:
        return Check(
            what, "warning", "not verified, because the config is not valid", "mend the config first"
        )
    except LogistError as error:
        return Check(what, "error", error.message, error.fix, Damaged.exit_code)
    if loaded.state is None:
        return Check(
            what, "warning", "state.json is missing", "the next change makes it again from the history"
        )
    if problems:
        return Check(
            what, "error", problems[0].message, f"logist job verify --job {job.id}", Damaged.exit_code
        )
    if job.exchanges() and job.holder() is None:
        fix = f"logist job step --job {job.id}"
        return Check(what, "warning", "a command was killed while an agent was out", fix)
    return Check(what, "ok", f"{loaded.position.sequence} interactions")


def _error(check: str, message: str, fix: str) -> Check:
    return Check(check, "error", message, fix, InvalidFile.exit_code)
