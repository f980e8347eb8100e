"""Replays recorded jobs: each history under today's rules, with one interaction in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from logist.core.history import fold, newer_versions
from logist.core.model import Interaction, JsonObject, Kind
from logist.core.prompt.redaction_marks import read_redaction_marks
from logist.core.replay.difference import Difference
from logist.core.replay.drift import Drift
from logist.core.replay.replay import ChangedRule, Prompts, replay
from logist.errors import Damaged, LogistError, Refused
from logist.formats import UPGRADE
from logist.jobs.archive import job_fixture, recorded_jobs
from logist.jobs.archive.recorded_jobs import Archive, catch_read_errors
from logist.jobs.base.project import ProjectContext
from logist.quick_dataclass import dataclass
from logist.store import HISTORY, JobDir

KEPT = 1_000
"""How many findings of each kind are kept in memory for one history; more are only counted."""


@dataclass(frozen=True)
class Replayed:
    """The findings of the replay of one history."""

    interactions: int
    """How many were read, including those that were not judged."""
    differences: tuple[Difference, ...]
    skipped: tuple[str, ...] = ()
    """Why interactions were not judged, one by one: only a newer Logist knows them completely."""
    unjudged: int = 0
    """How many interactions were not judged, including those not listed in `skipped`."""
    drifts: tuple[Drift, ...] = ()
    """Differences between the recorded prompts and those of today."""
    changed_rules: tuple[ChangedRule, ...] = ()
    """Where a rule that a newer Logist has changed is the only cause of a different result."""
    scrubbed: tuple[Difference, ...] = ()
    """Differences because a scrub has replaced text; not a failure."""
    more: int = 0
    """Findings beyond those kept."""
    disagreements: tuple[str, ...] = ()
    """For a fixture: where its history differs from its manifest."""
    notes: tuple[str, ...] = ()
    """What had to be rebuilt to read it."""
    uncompared: int = 0
    """Prompts that can't be compared with those of today."""
    nothing_compared: bool = False
    """True if no prompt can be compared."""
    name: str = ""
    error: LogistError | None = None
    """Why it was not read to its end; the findings are those up to that point."""

    def has_failed(self, *, prompts: bool = False, rules: bool = False) -> bool:
        """True if the history does not replay.

        `prompts`: a drift counts as a failure, and so does a history of which no prompt can be compared.
        `rules`: a changed rule counts too.
        """
        return bool(
            self.error
            or self.is_different
            or (prompts and (self.drifts or self.nothing_compared))
            or (rules and self.changed_rules)
        )

    @property
    def is_different(self) -> bool:
        """True if the replay has another result than the recording, prompts apart."""
        return bool(self.differences or self.disagreements)


def replay_job(project: ProjectContext, job: JobDir, *, prompts: Prompts | None = None) -> Replayed:
    """Replay the job's history under today's rules. Raises the error of reading it."""
    return _raise_error(replay_archive(Archive.from_job(job), project.schema, prompts=prompts))


def replay_file(schema: JsonObject, path: Path) -> Replayed:
    """Replay an archived history, or a directory that contains one. Raises the error of reading it."""
    return _raise_error(replay_archive(recorded_jobs.find_history(path), schema))


def _raise_error(found: Replayed) -> Replayed:
    if found.error:
        raise found.error
    return found


def replay_all(
    found: Iterable[Archive],
    schema: JsonObject,
    *,
    prompts: Prompts | None = None,
    each: Callable[[], None] = lambda: None,
    processes: int = 1,
) -> Iterator[Replayed]:
    """Yield one result for each history in order, as soon as it is done; a damaged one does not stop the others.

    `each` is called for every interaction; with several `processes`, for those of a history when it is done.
    """
    archives = list(found)
    if min(processes, len(archives)) <= 1:
        for archive in archives:
            yield replay_archive(archive, schema, prompts=prompts, each=each)
        return
    from logist.jobs.archive.worker_processes import map_in_processes  # noqa: PLC0415 - slow import

    replay_one = partial(replay_archive, schema=schema, prompts=prompts)
    for replayed in map_in_processes(replay_one, archives, processes):
        for _ in range(replayed.interactions):
            each()
        yield replayed


def replay_archive(
    archive: Archive,
    schema: JsonObject,
    *,
    prompts: Prompts | None = None,
    each: Callable[[], None] = lambda: None,
) -> Replayed:
    """Replay one history; an error of reading it is in the result. `each` is called for every interaction."""
    reading = _Reading(archive, each)
    with catch_read_errors(archive, lambda: reading.count) as result:
        reading.run_replay(schema, prompts)
    reading.error = result.error
    return reading.build_result()


class _AppendedError(Exception):
    """A restep was recorded after the pass that looked for resteps."""

    def __init__(self, target: int) -> None:
        super().__init__(target)
        self.target = target


class _Reading:
    """The replay of one history, and the findings so far."""

    def __init__(self, archive: Archive, each: Callable[[], None]) -> None:
        self.error: LogistError | None = None
        self.count = 0
        """Interactions that were read."""
        self._notes: tuple[str, ...] = ()
        self._disagreements: tuple[str, ...] = ()
        self._archive = archive
        self._each = each
        self._targets: set[int] = set()
        self._by_scrub: dict[int, int] = {}
        self._reset_findings()

    def _reset_findings(self) -> None:
        self.count = self._unjudged = self._more = self._untold = self._prompts = self._redacted = 0
        self._differences: list[Difference] = []
        self._drifts: list[Drift] = []
        self._changed_rules: list[ChangedRule] = []
        self._scrubbed: list[Difference] = []
        self._skipped: list[str] = []

    def run_replay(self, schema: JsonObject, prompts: Prompts | None) -> None:
        beforehand = self._archive.look_ahead()
        self._targets, self._by_scrub = beforehand.targets, beforehand.scrubbed
        while True:
            try:
                for finding in replay(self._read_interactions(), schema, self._targets, prompts=prompts):
                    self._add_finding(finding)
                break
            except _AppendedError as later:
                self._targets.add(later.target)
                self._reset_findings()
        if not self.count:
            raise Damaged("the history is empty", where=str(self._archive.path))
        if prompts is None:
            self._untold = self._redacted = 0
        self._notes = (*self._archive.read_notes(), *self._check_ending(), *self._describe_uncompared())
        if self._archive.path.name == HISTORY:
            self._disagreements = job_fixture.find_disagreements(self._archive.path.parent)
        if self._unjudged == self.count:
            raise Refused("can't replay: all interactions need a newer version of Logist", fix=UPGRADE)

    def _check_ending(self) -> Iterator[str]:
        """Note an end that is cut off.

        With a state.json no interaction is lost, because that names the last one. Without it any number may
        be missing, so the replay is not complete.
        """
        self._archive.require_complete(self.count)
        if self._archive.is_cut_off():
            yield "the last append to the history is incomplete; the next change to the job repairs it"

    def _describe_uncompared(self) -> Iterator[str]:
        """Note the prompts that could not be compared with those of today."""
        if self._untold:
            many = self._untold != 1
            prompts = f"{self._untold:,} prompts are" if many else "1 prompt is"
            plural = "their parts" if many else "its parts"
            yield f"{prompts} not compared with the current version: the history does not record {plural}"
        if self._redacted:
            parts = (
                "1 part of a prompt was"
                if self._redacted == 1
                else f"{self._redacted:,} parts of prompts were"
            )
            yield f"{parts} redacted by the export and not compared with the current version"

    def _read_interactions(self) -> Iterator[Interaction]:
        for entry in self._archive.read_interactions():
            self.count += 1
            self._each()
            for warning in newer_versions.list_newer_warnings([entry]):
                self._unjudged += 1
                if len(self._skipped) < KEPT:
                    self._skipped.append(warning)
            if entry.kind is Kind.ASK and entry.request.prompt:
                self._prompts += 1
                self._untold += not entry.request.parts
                self._redacted += len(read_redaction_marks(entry.request.metadata))
            if entry.kind is Kind.RESTEP:
                target = fold.read_restep_target(entry)
                if 0 < target < entry.sequence and target not in self._targets:
                    raise _AppendedError(target)
            yield entry

    def _add_finding(self, found: Difference | ChangedRule | Drift) -> None:
        findings: list[Any] = self._differences
        if isinstance(found, Drift):
            findings = self._drifts
        elif isinstance(found, ChangedRule):
            findings = self._changed_rules
        elif (scrub := self._by_scrub.get(found.sequence)) is not None:
            findings = self._scrubbed
            found = replace(found, cause=f"interaction {scrub} (scrub) has replaced text")
        if len(findings) >= KEPT:
            self._more += 1
        else:
            findings.append(found)

    def build_result(self) -> Replayed:
        return Replayed(
            interactions=self.count,
            differences=tuple(self._differences),
            skipped=tuple(self._skipped),
            unjudged=self._unjudged,
            drifts=tuple(self._drifts),
            changed_rules=tuple(self._changed_rules),
            scrubbed=tuple(self._scrubbed),
            more=self._more,
            disagreements=self._disagreements,
            notes=self._notes,
            uncompared=self._untold,
            nothing_compared=0 < self._untold == self._prompts,
            name=self._archive.name,
            error=self.error,
        )
