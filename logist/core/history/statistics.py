"""Sums up the runs of histories by role, model, step and so on. The runs come from core.history.runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any

from logist.core.history.runs import SIZES, AgentRun, RunHistory, RunUsage, classify_prompt_size, is_fork
from logist.core.history.statistics_words import IN_ORDER, RunEnding
from logist.core.text.json_object import JsonObject
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple

NOTHING = RunUsage()

OTHERS = "(others)"
"""The group or reason that collects everything above MOST_GROUPS or MOST_REASONS."""
MOST_GROUPS = 50_000
MOST_REASONS = 1_000
"""The maximum number of different reasons in one group."""


@dataclass(slots=True)
class Tally:
    """A sum of runs."""

    histories: int = 0
    ended: dict[RunEnding, int] = field(default_factory=lambda: dict.fromkeys(RunEnding, 0))
    attempts: int = 0
    """The sum of the attempt numbers of all COMPLETED runs."""
    attempted: int = 0
    """The number of COMPLETED runs whose attempt is known."""
    most_attempts: int = 0
    used: RunUsage = NOTHING
    reasons: dict[tuple[str, str], int] = field(default_factory=dict)
    """How often each kind and reason made a job STUCK."""

    @property
    def runs(self) -> int:
        """The number of runs."""
        return sum(self.ended.values())

    def get_share(self, ended: RunEnding) -> float | None:
        """Return the share of runs that ended like this, from 0 to 1; None if there are no runs."""
        return self.ended[ended] / self.runs if self.runs else None

    def get_mean_attempt(self) -> float | None:
        """Return the mean attempt number of COMPLETED runs; 1 is the first attempt."""
        return self.attempts / self.attempted if self.attempted else None

    def list_top_reasons(self, count: int) -> list[tuple[str, str, int]]:
        """Return kind, reason and count of the most frequent reasons for STUCK; the row for others comes last."""
        rows = [(kind, reason, number) for (kind, reason), number in self.reasons.items()]
        return sorted(rows, key=lambda row: (row[1] == OTHERS, -row[2], row))[:count]

    def get_measure(self, name: str) -> int:
        """Return one of MEASURES: runs, microcents, milliseconds, or input plus output tokens."""
        used = self.used
        if name == "runs":
            return self.runs
        if name == "cost":
            return used.microcents
        return used.milliseconds if name == "time" else used.input_tokens + used.output_tokens

    def add_run(self, run: AgentRun) -> None:
        """Add one run."""
        self.used = _add_usage(self.used, run.used)
        if run.ended is None:
            return
        self.ended[run.ended] += 1
        if run.attempt is not None and run.ended is RunEnding.COMPLETED:
            self._count_attempts(run.attempt, 1, run.attempt)
        if run.ended is RunEnding.STUCK:
            self._count_stuck(run.stuck, 1)

    def add_tally(self, other: Tally) -> None:
        """Add all runs of another tally."""
        self.histories += other.histories
        self.used = _add_usage(self.used, other.used)
        for ended, number in other.ended.items():
            self.ended[ended] += number
        self._count_attempts(other.attempts, other.attempted, other.most_attempts)
        for reason, number in other.reasons.items():
            self._count_stuck(reason, number)

    def _count_attempts(self, attempts: int, runs: int, most: int) -> None:
        self.attempts += attempts
        self.attempted += runs
        self.most_attempts = max(self.most_attempts, most)

    def _count_stuck(self, reason: tuple[str, str], number: int) -> None:
        if reason not in self.reasons and len(self.reasons) >= MOST_REASONS:
            reason = ("", OTHERS)
        self.reasons[reason] = self.reasons.get(reason, 0) + number


class Key(NamedTuple):
    """What the runs of a group have in common.

    Runs whose answer was supplied by hand are always in groups of their own.
    """

    simulated: bool
    names: tuple[str | None, ...]
    """The values, in the requested order."""


@dataclass(frozen=True)
class HistoryCounts:
    """What was counted in one history."""

    groups: dict[Key, Tally]
    totals: dict[bool, Tally]
    status: str
    """The state in which the job is at the end."""
    interactions: int


def count_history(
    name: str, entries: Iterable[JsonObject], by: tuple[str, ...], *, shared: int = 0
) -> HistoryCounts:
    """Count a history by these columns; for a fork, only its own interactions.

    The first `shared` interactions are skipped, because another history counts them.
    """
    history = RunHistory()
    groups: dict[Key, Tally] = {}
    totals: dict[bool, Tally] = {}
    for entry in entries:
        if is_fork(entry):
            groups.clear()
            totals.clear()
        for run in history.read_interaction(entry):
            names = run.names | {"job": name}
            key = Key(run.simulated, tuple(names[each] for each in by))
            groups.setdefault(key, Tally(histories=1)).add_run(run)
            totals.setdefault(run.simulated, Tally(histories=1)).add_run(run)
        if history.interactions == shared:
            history.forget_bookings()
            groups.clear()
            totals.clear()
    return HistoryCounts(groups, totals, history.status, history.interactions)


@dataclass(slots=True)
class StatisticsTable:
    """The sums of histories, grouped by some of BY."""

    by: tuple[str, ...]
    groups: dict[Key, Tally] = field(default_factory=dict)
    totals: dict[bool, Tally] = field(default_factory=dict)
    """The totals of agent runs (False) and of answers supplied by hand (True), if there are any."""
    jobs: dict[str, int] = field(default_factory=dict)
    """The number of jobs by final status."""
    interactions: int = 0

    @property
    def histories(self) -> int:
        """The number of histories that were added."""
        return sum(self.jobs.values())

    def add_history(self, name: str, entries: Iterable[JsonObject], *, shared: int = 0) -> None:
        """Add a history as `count_history` counts it, or nothing if reading `entries` raises."""
        self.add_counts(count_history(name, entries, self.by, shared=shared))

    def add_counts(self, counts: HistoryCounts) -> None:
        """Add what was counted in one history."""
        for key, tally in counts.groups.items():
            self._get_group(key).add_tally(tally)
        for simulated, tally in counts.totals.items():
            self.totals.setdefault(simulated, Tally()).add_tally(tally)
        self.jobs[counts.status] = self.jobs.get(counts.status, 0) + 1
        self.interactions += counts.interactions

    def _get_group(self, key: Key) -> Tally:
        if key not in self.groups and len(self.groups) >= MOST_GROUPS:
            key = key._replace(names=(OTHERS,) * len(key.names))
        return self.groups.setdefault(key, Tally())

    def sort_rows(self, measure: str) -> list[tuple[Key, Tally]]:
        """Return the groups sorted by one of MEASURES, largest first; days and sizes in their natural order.

        Runs of agents come before answers supplied by hand.
        """
        first = self.by[0]

        def sort_key(row: tuple[Key, Tally]) -> tuple[Any, ...]:
            key, tally = row
            natural = _natural_order(first, key.names[0]) if first in IN_ORDER else 0
            spelled = tuple((name is None, name or "") for name in key.names)
            return key.simulated, natural, -tally.get_measure(measure), spelled

        return sorted(self.groups.items(), key=sort_key)


_CLASSES: Sequence[str] = [classify_prompt_size(0), *(classify_prompt_size(end) for end in SIZES)]


def _natural_order(by: str, name: str | None) -> tuple[bool, int, str]:
    """Return the sort key of a day or a size class; unknown values come last."""
    class_index = _CLASSES.index(name) if by == "prompt-size" and name in _CLASSES else len(_CLASSES)
    return name is None, class_index, name or ""


def _add_usage(one: RunUsage, other: RunUsage) -> RunUsage:
    return RunUsage(*(a + b for a, b in zip(one, other, strict=True)))
