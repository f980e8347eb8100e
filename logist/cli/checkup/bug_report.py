"""`logist doctor --report`: one file to attach to a bug report, without secrets, names, prompts and contents of files."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from typing import Any

from logist import __version__
from logist.cli.checkup.report import Report
from logist.config.environment import Environment
from logist.config.merging import iter_leaves
from logist.config.settings import load_settings
from logist.core.share import private_values
from logist.core.share.private_values import NameSearch
from logist.errors import LogistError, StorageError, UsageError
from logist.jobs.archive.redaction import collect_private_values
from logist.jobs.base.project import ProjectContext
from logist.jobs.heartbeat import count_jobs
from logist.regular_files import open_regular
from logist.store import filesystem_type, list_jobs

LINES = 60
"""How many of the last events of the log are in a report."""
_LOG_END = 200_000
"""Bytes at the end of the log that are read."""
_PACKAGES = (
    *("click", "filelock", "httpx", "jsonschema", "lark", "rich", "ruamel.yaml"),
    *("litellm", "jinja2", "starlette", "uvicorn"),
)
_SHOWN_VARIABLES = (
    "LANG",
    "LC_ALL",
    "TERM",
    "NO_COLOR",
    "CI",
    "LOGIST_AGENT",
    "LOGIST_MODEL",
    "LOGIST_NO_INPUT",
)
"""Environment variables whose values are in a report; of other LOGIST_ variables, only the names are."""
_SHOWN_TEXTS = re.compile(
    r"agent|model|models\..+\.(provider_model|price)|approval|on_doubt|response_format|sandbox\.mode|roles\.default"
    r"|review\.(mode|role|model|checks\.[^.]+\.severity)|workspace\.setup\.rerun|answers\.constrain"
)
"""Settings whose texts are in a report; of others, only the length is: they may be commands, prompts or addresses."""
_SHOWN_EVENTS = ("command_begun", "command_ended", "run_ended", "job_rested")
"""Events whose sentences are in a report, besides warnings and errors. Others may name commands and files; and those about
jobs that wait have the reason, which may be the words of an agent."""
_PLACES = re.compile(r"(?<![\w.-])/(?:home|Users)/[^/\s\"'`:,;)]+")
_JOB_ID = r"(?<![\w-])(?:%s)(?![\w-])"
_UNKNOWN_JOB = re.compile(r"(?<=job ')[^']+(?=')")
"""How messages name a job that may not exist; ids are often made from titles."""


class Cleaner:
    """Replaces what a stranger should not read: secrets, names of people, machines and jobs, directories, addresses."""

    def __init__(self, project: ProjectContext, logged_jobs: Iterable[str] = ()) -> None:
        """`logged_jobs`: the jobs of the log, some of which may be deleted by now."""
        private = collect_private_values(project)
        environment = project.environment
        self._redact = project.redact_text
        self._places = _list_places(project)
        owner = os.path.basename(environment.expand_home("~"))
        private.user(owner)
        self._users = NameSearch(name for name in private.users if name not in ("logist", "python"))
        self._hosts = NameSearch(private.hosts)
        self._jobs: dict[str, str] = {}
        try:
            ids = list(list_jobs(project.jobs_dir))
        except LogistError:
            ids = []
        ids = list(dict.fromkeys([*ids, *logged_jobs]))
        for number, job_id in enumerate(ids, 1):
            self._jobs[job_id] = f"job-{number}"
        self._job = (
            re.compile(_JOB_ID % "|".join(map(re.escape, sorted(ids, key=len, reverse=True))))
            if ids
            else None
        )

    def clean(self, text: str) -> str:
        """Return the text as a stranger may read it."""
        text = self._redact(text)
        for place, name in self._places:
            text = re.sub(rf"(?<![\w.-]){re.escape(place)}(?![\w-])", name, text)
        text = _PLACES.sub("/home/<user>", text)
        for start, end in reversed(list(private_values.find_addresses(text))):
            text = f"{text[:start]}<address>{text[end:]}"
        for email in reversed(list(private_values.find_emails(text))):
            text = f"{text[: email.start()]}<email>{text[email.end() :]}"
        if self._job is not None:
            text = self._job.sub(lambda match: self._jobs[match[0]], text)
        text = _UNKNOWN_JOB.sub(lambda match: match[0] if match[0] in self._jobs.values() else "<job>", text)
        for names, stand_in in ((self._users, "<user>"), (self._hosts, "<host>")):
            for found in reversed(list(names.find(text))):
                text = f"{text[: found.start()]}{stand_in}{text[found.end() :]}"
        return " ".join(text.split())


def _list_places(project: ProjectContext) -> list[tuple[str, str]]:
    """Return directories and their stand-ins, the innermost first."""
    environment = project.environment
    home = environment.expand_home("~").rstrip("/")
    named = {
        str(project.jobs_dir): "<jobs>",
        str(project.home.parent): "<project>",
        environment.user_config_dir_name(): "<user config>",
        home: "~",
    }
    named |= {os.path.realpath(place): name for place, name in named.items() if place}
    return sorted(
        ((place, name) for place, name in named.items() if len(place) > 1), key=lambda each: -len(each[0])
    )


def write_report(text: str, path: str) -> None:
    """Write the report to a new file that only its user can read. Raises UsageError if it exists."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        fix = "choose another name: logist doctor --report FILE"
        raise UsageError("the file exists already", where=path, fix=fix) from None
    except OSError as error:
        fix = "choose another name: logist doctor --report FILE"
        raise StorageError(f"can't write the report: {error.strerror}", where=path, fix=fix) from error


def build_report(project: ProjectContext, report: Report, log_file: str | None) -> str:
    """Return the text of the report."""
    events = _read_events(log_file)
    cleaner = Cleaner(project, _list_logged_jobs(events))
    sections = (
        ("Versions", _list_versions()),
        ("Environment", _list_variables(project.environment)),
        ("Settings that are not the defaults", _list_settings(project)),
        ("Jobs", _list_counts(project)),
        ("Checks", (_format_finding(each.level, each.check, each.message) for each in report.findings)),
        (f"Log (the last {LINES} events)", _list_events(log_file, events)),
    )
    lines = [
        "Report of `logist doctor --report`, to attach to a bug report.",
        "Read it before you do: Logist replaces secrets and names where it recognizes them.",
    ]
    for title, content in sections:
        lines += ["", f"## {title}", ""]
        lines += [cleaner.clean(line) for line in content] or ["none"]
    return "\n".join(lines) + "\n"


def _list_versions() -> Iterator[str]:
    yield f"logist {__version__}"
    yield f"python {platform.python_version()} ({platform.python_implementation()})"
    yield f"{platform.system()} {platform.release()} {platform.machine()}, {' '.join(platform.libc_ver())}"
    for name in _PACKAGES:
        try:
            yield f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            yield f"{name}: not installed"


def _list_variables(environment: Environment) -> Iterator[str]:
    for name, value in sorted(environment.select_variables(_SHOWN_VARIABLES).items()):
        yield f"{name}={value}"
    names = [name for name in environment.list_own_names() if name not in _SHOWN_VARIABLES]
    yield f"also set: {', '.join(names) or 'no other LOGIST_ variable'}"
    yield f"terminal: input {sys.stdin.isatty()}, output {sys.stdout.isatty()}, errors {sys.stderr.isatty()}"


def _list_settings(project: ProjectContext) -> Iterator[str]:
    try:
        loaded = load_settings(project.home, project.environment.user_config_dir())
    except LogistError as error:
        yield f"the config is invalid: {error.message}"
        return
    for path, value in iter_leaves(loaded.settings.model_dump(mode="json")):
        source = loaded.sources.get(path, "default")
        if source != "default":
            where = "project" if source in loaded.project_files else "user"
            yield f"{path}: {_format_value(path, value)} ({where})"


def _format_value(path: str, value: Any) -> str:
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, str):
        return value if _SHOWN_TEXTS.fullmatch(path) else f"a text of {len(value)} characters"
    return f"{len(value)} values"


def _list_counts(project: ProjectContext) -> Iterator[str]:
    yield f"file system: {filesystem_type(project.jobs_dir)}"
    try:
        counts = count_jobs(str(project.jobs_dir))
    except LogistError as error:
        yield f"can't be listed: {error.message}"
        return
    for status, count in sorted(counts.by_status.items()):
        yield f"{status}: {count}"
    if counts.unreadable:
        yield f"unreadable: {counts.unreadable}"


def _format_finding(level: str, check: str, message: str) -> str:
    return f"{level}: {check}: {message}"


def _read_events(log_file: str | None) -> list[Any]:
    """Read the last events; None for a line that is not JSON."""
    events: list[Any] = []
    for line in _read_last_lines(log_file)[-LINES:] if log_file is not None else ():
        try:
            events.append(json.loads(line))
        except (ValueError, RecursionError):
            events.append(None)
    return events


def _list_logged_jobs(events: Sequence[Any]) -> list[str]:
    jobs = (event.get("job") for event in events if isinstance(event, dict))
    return [job for job in jobs if isinstance(job, str) and job]


def _list_events(log_file: str | None, events: Sequence[Any]) -> Iterator[str]:
    """Yield the last events."""
    if log_file is None:
        yield "no log: neither --log-file nor LOGIST_LOG_FILE names one"
    for event in events:
        try:
            is_problem = event["level"] in ("warning", "error") and event["fields"].get("code") != "waiting"
            is_shown = is_problem or event["event"] in _SHOWN_EVENTS
            text = f": {event['message']}" if is_shown else ""
            yield f"{event['time']} {event['level']} {event['event']} {event['job'] or ''}{text}"
        except (TypeError, KeyError, AttributeError):
            yield "a line that is not an event"


def _read_last_lines(log_file: str) -> Sequence[str]:
    try:
        descriptor, size = open_regular(log_file)
    except OSError:
        return []
    with open(descriptor, "rb") as file:
        file.seek(max(0, size - _LOG_END))
        return file.read().decode("utf-8", "replace").splitlines()
