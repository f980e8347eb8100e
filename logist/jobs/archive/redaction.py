"""Prepares interactions for sharing: removes what is private, and refuses what still contains a secret.

A history is read twice: `survey_history` finds what is private in it, `redact_entry` removes that from one
interaction after the other. Fixtures and data sets are both made this way, and are refused for the same
reasons.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from pathlib import Path

from logist.core import share
from logist.core.history.runs import is_fork
from logist.core.model import JsonObject
from logist.core.share import Private, Replacing
from logist.core.share.private_values import WORD
from logist.errors import Damaged, Refused, ReplayDiffers
from logist.jobs.archive.job_fixture import read_transition
from logist.jobs.base.project import ProjectContext
from logist.jobs.doctor import leaked_secrets
from logist.quick_dataclass import dataclass
from logist.store import files

JOB_DIR = "${JOB_DIR}"
"""Replaces the directory of the job."""
ROUNDS = 3
"""How often an interaction is searched: removing a text can join two parts of a secret."""
TOLD = 10
"""How many places of secrets are listed one by one."""
SAME = ("status", "actions", "finish", "redactions")
"""Fields of a response that must stay exactly the same."""


@dataclass
class HistorySurvey:
    """The findings of the first pass over a history."""

    count: int = 0
    head: str = ""
    forked: int = 0
    """The last interaction that made this job a fork: those before it belong to another job. 0 if there is none."""
    places: dict[str, str] = field(default_factory=dict)
    """Directories in which the job was, and their replacement."""
    named: set[str] = field(default_factory=set)
    """Hashes of entries that other entries refer to."""
    unclean: set[str] = field(default_factory=set)
    """Hashes of entries that contain secrets that are recognized by their format."""


@dataclass
class Leaks:
    """The places of secrets in the output, as text; without the secrets."""

    told: list[str] = field(default_factory=list)
    more: int = 0

    def add_leak(self, leak: str) -> None:
        """Add one more place."""
        if len(self.told) < TOLD:
            self.told.append(leak)
        else:
            self.more += 1

    def require_none(self, fix: str) -> None:
        """Raise Refused, naming the places, if there are any."""
        if not self.told:
            return
        more = f", and {self.more} more places" if self.more else ""
        error = Refused(
            f"the output would contain a secret: {self.told[0]}{more}; nothing was written", fix=fix
        )
        error.details = tuple(Refused(f"also in {leak}") for leak in self.told[1:])
        raise error


def collect_private_values(project: ProjectContext) -> Private:
    """The names and values that a redacted result must not contain, as far
    as the machine and the config show.
    """
    patterns = [re.compile(pattern) for pattern in project.settings.redact.patterns]
    private = Private(leaked_secrets.known(project), patterns, [os.uname().nodename])
    private.user(project.steward)
    # Its owner may differ from the steward. A directory such as /srv/build_of_today is not a person's name.
    home = project.environment.build_child_environment().get("HOME", "").rstrip("/")
    private.text(home)
    if WORD.fullmatch(os.path.basename(home)):
        private.user(os.path.basename(home))
    return private


def survey_history(
    name: str, history: Path, entries: Iterable[JsonObject], private: Private | None
) -> HistorySurvey:
    """The first pass over the history of the job `name`; `private` collects what is private in it.

    Raises Damaged for a history that does not verify or is empty.
    """
    result = HistorySurvey()
    if private is not None:
        private.line(name)
    for place in (str(history.parent), os.path.realpath(history.parent)):
        result.places[place] = JOB_DIR
    for entry in entries:
        result.count, result.head = entry["sequence"], entry.get("checksum") or ""
        if is_fork(entry):
            result.forked = result.count
        workspace_path, exchange = entry.get("workspace_path"), entry.get("exchange")
        if (
            isinstance(workspace_path, str)
            and workspace_path.endswith("/workspace")
            and workspace_path.count("/") > 2
        ):
            result.places[workspace_path.removesuffix("/workspace")] = JOB_DIR
        if isinstance(exchange, str):
            result.named.add(exchange)
        if private is not None and _collect_private(entry, private):
            result.unclean.add(result.head)
    if not result.count:
        raise Damaged("the history is empty", where=str(history), fix="restore it from a backup")
    return result


def _collect_private(entry: JsonObject, private: Private) -> bool:
    """Collect what is private in an interaction; return whether its line contains a secret."""
    line = files.dump_json(entry).decode()
    has_secret = private.line(line)
    if private.needs_texts(line):
        for each in share.texts(entry):
            private.text(each.text)
    steward = entry.get("steward")
    if isinstance(steward, dict) and isinstance(steward.get("name"), str):
        private.user(steward["name"])
    return has_secret


def redact_entry(
    entry: JsonObject,
    replacing: Replacing,
    secrets: dict[str, str],
    hashes: dict[str, str],
    written: Callable[[JsonObject], tuple[JsonObject, bytes]],
    *,
    is_clean: bool = False,
) -> tuple[JsonObject, bytes, list[str]]:
    """An interaction, or a part of one, as it is shared; its line, made by
    `written`; and where secrets still are.

    `is_clean`: the survey has found no secret in the interaction, which is complete. The line is searched anyway.
    """
    shared_entry = share.changed(entry, replacing, hashes, is_clean=is_clean)
    for _ in range(ROUNDS if replacing.redacts else 1):
        complete, line = written(shared_entry)
        leaks = list(_find_leaks(complete, line, replacing, secrets))
        if not leaks:
            break
        shared_entry = share.changed(shared_entry, replacing, {})
    _require_same(entry, complete)
    return complete, line, [f"interaction {entry['sequence']}, {leak}" for leak in leaks]


def redact_job_name(name: str, replacing: Replacing, secrets: dict[str, str]) -> tuple[str, list[str]]:
    """The id of a job as it is shared, and the secrets that are still in it."""
    replacing.look(name)
    shared = replacing.text(name)
    leaks = _find_leaks({"job": shared}, shared.encode(), replacing, secrets)
    return shared, [f"the id of the job: {leak.partition(': ')[2]}" for leak in leaks]


def _find_leaks(
    entry: JsonObject, line: bytes, replacing: Replacing, secrets: dict[str, str]
) -> Iterator[str]:
    for place, kind in share.leaks(entry, line.decode(), secrets):
        yield f"{place}: {kind}"
    for place in share.unmatched(entry, replacing):
        yield f"{place}: a match of redact.patterns"


def _require_same(entry: JsonObject, made: JsonObject) -> None:
    """Raise ReplayDiffers unless the transition and the decisive parts of the answer are unchanged."""
    number = entry["sequence"]
    why = "a secret or a name is also a word of the history format"
    if read_transition(entry) != read_transition(made):
        raise changed_entry_error(number, "the state", why)
    old_response, new_response = entry.get("response") or {}, made.get("response") or {}
    for name in SAME:
        if old_response.get(name) != new_response.get(name):
            raise changed_entry_error(number, f"response.{name}", why)
    if _count_evidence(old_response) != _count_evidence(new_response):
        raise changed_entry_error(number, "response.evidence_files", "two names became equal")


def _count_evidence(response: JsonObject) -> int:
    """How many files are named; a damaged history may have anything there."""
    names = response.get("evidence_files")
    return len(names) if isinstance(names, list) else 0


def changed_entry_error(number: int, where: str, why: str) -> ReplayDiffers:
    """The error for an interaction that would be changed by sharing it."""
    message = f"interaction {number}: {where} would change; nothing was written ({why})"
    return ReplayDiffers(message, fix="export it without --redact, or change redact.patterns")
