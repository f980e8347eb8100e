"""The power fails: simulated at every call, with every result that a file system allows; and in real file
systems.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.torture import cuts, scenarios
from tests.torture.examining import Found, Plan, examine, recover, spread
from tests.torture.filesystem import Tree
from tests.torture.judging import NO_JOB
from tests.torture.lab import World
from tests.torture.recording import Promise, Recording
from tests.torture.suite import Case, Run, Skip

STATES, CUTS = 100_000, 150
PARTS = 6
"""Number of pieces of a long recording, so that all processes end at about the same time."""
RECOVERED = 100
"""Recoveries that are cut off at every call."""
CUTS_EACH, CUTS_IN_SLICE = 80, 3
"""Cuts for each kind of file system."""


class Job(NamedTuple):
    """A job to record and to cut off at every call."""

    scenario: str
    variants: tuple[str, ...]
    most: int
    """Random states at each call."""


FULL = (
    Job("whole_job", (), 140),
    Job("whole_job", ("in_place",), 140),
    Job("short_job", ("rotating",), 60),
    Job("short_job", ("flushed_one_by_one",), 60),
    Job("paid_job", (), 140),
    Job("paid_job", ("in_place", "own_courier"), 140),
    Job("from_repository", (), 30),
)
SLICE = (Job("short_job", ("in_place",), 6), Job("paid_job", ("own_courier",), 6))
PICKED, NESTED = 3, 2
"""In a slice: states at each call, and recoveries that are cut off."""


class Task(NamedTuple):
    """Something to examine, and where."""

    recording: Recording
    place: Path
    plan: Plan


class Crash(NamedTuple):
    """A state to recover from, and where."""

    sample: tuple[Tree, Promise]
    variants: tuple[str, ...]
    place: Path
    plan: Plan


def states(run: Run) -> None:
    """Cuts every job at every call; then cuts some of the resulting states again during their recovery."""
    known: set[bytes] = set()
    totals: Counter[str] = Counter()
    tasks = list(_tasks(run))
    samples: dict[tuple[str, tuple[str, ...], str], list[tuple[Tree, Promise]]] = {}
    for task, found in zip(tasks, spread(run, _examine, tasks), strict=True):
        _book(run, found, known, totals)
        for kind, some in found.samples.items():
            samples.setdefault((found.name, task.recording.variants, kind), []).extend(some)
    crashes = _crashes(run, samples)
    for found in spread(run, _recover, crashes):
        _book(run, found, known, totals)
    run.count = len(known)
    run.notes.append(", ".join(f"{name} {count:,}" for name, count in totals.items()))


def _tasks(run: Run) -> list[Task]:
    """All jobs, recorded, and cut into pieces."""
    jobs = FULL if run.full else SLICE
    places = [run.scratch / f"job{number}" for number in range(len(jobs))]
    made = spread(run, _record, list(zip(jobs, places, strict=True)))
    parts = PARTS if run.full else 1
    return [
        Task(recording, place / f"state{part}", _plan(run, job.most)._replace(part=part, parts=parts))
        for job, place, recording in zip(jobs, places, made, strict=True)
        for part in range(parts)
    ]


def _plan(run: Run, most: int) -> Plan:
    return Plan(str(run.seed), most, pick=None if run.full else PICKED)


def _record(job_and_place: tuple[Job, Path]) -> Recording:
    job, place = job_and_place
    place.mkdir(parents=True)
    return scenarios.JOBS[job.scenario](place / "world", *job.variants)


def _examine(task: Task) -> Found:
    return examine(*task)


def _crashes(
    run: Run, samples: dict[tuple[str, tuple[str, ...], str], list[tuple[Tree, Promise]]]
) -> list[Crash]:
    """Choose states to recover from: some of every kind; in a slice, of a few kinds."""
    chance = run.random("crashes")
    chosen = [(key[1], each) for key in sorted(samples) for each in chance.sample(samples[key], 1)]
    if run.full:
        more = [(key[1], each) for key in sorted(samples) if key[2] != NO_JOB for each in samples[key]]
        chosen += chance.sample(more, min(len(more), max(0, RECOVERED - len(chosen))))
    else:
        chosen = chance.sample(chosen, min(NESTED, len(chosen)))
    return [
        Crash(sample, variants, run.scratch / f"crash{number}", _plan(run, 80))
        for number, (variants, sample) in enumerate(chosen)
    ]


def _recover(crash: Crash) -> Found:
    recording = recover(crash.sample, crash.place / "world", crash.variants)
    return examine(recording, crash.place / "states", crash.plan)


def _book(run: Run, found: Found, known: set[bytes], totals: Counter[str]) -> None:
    totals[found.name] += len(found.states - known)
    known |= found.states
    run.failures += found.failures
    run.say(f"  {found.name}: {found.checked:,} checked, {found.bad:,} bad; {len(known):,} different in all")


class Break(NamedTuple):
    """A bug in the protocol, and the run that must detect it."""

    name: str
    scenario: Callable[..., Recording]
    variants: tuple[str, ...] = ()
    most: int = 24
    """Random states at each call."""


BREAKS = (
    Break("new_job_not_flushed", scenarios.new_job),
    Break("new_job_half_flushed", scenarios.new_job),
    Break("no_file_sync", scenarios.one_decision),
    Break("no_sync_in_place", scenarios.one_decision, ("in_place",)),
    Break("no_directory_sync", scenarios.one_decision),
    Break("trailing_comma", scenarios.one_decision, ("in_place",)),
    Break("end_assumed", scenarios.one_decision, ("in_place",)),
    Break("several_in_place", scenarios.two_decisions, ("in_place",), most=150),
    Break("no_file_sync", scenarios.two_decisions, ("rotating",)),
    Break("segment_last", scenarios.two_decisions, ("rotating",)),
    Break("no_checksum", scenarios.made_again, most=200),
    Break("no_chain", scenarios.made_again, most=200),
    Break("state_first", scenarios.one_decision),
    Break("state_in_place", scenarios.one_decision),
    Break("sent_not_durable", scenarios.paid_step),
    Break("answer_not_durable", scenarios.paid_step),
    Break("inflight_first", scenarios.paid_step),
    Break("objects_not_durable", scenarios.scripted_step, most=8),
    Break("object_names_not_durable", scenarios.scripted_step, most=8),
)
CONTROLS = (
    Break("", scenarios.new_job, ("flushed_at_once",)),
    Break("", scenarios.new_job, ("flushed_one_by_one",)),
    Break("", scenarios.one_decision),
    Break("", scenarios.two_decisions, ("in_place",)),
    Break("", scenarios.two_decisions, ("rotating",)),
    Break("", scenarios.made_again),
    Break("", scenarios.paid_step),
    Break("", scenarios.scripted_step),
)
"""The same runs without a bug: no state of these may be bad. In a slice, `states` contains them."""


QUICK_BREAKS = ("trailing_comma", "no_chain", "state_first", "sent_not_durable", "object_names_not_durable")
"""The bugs in a slice: one for each kind of file that is written."""


def breaks(run: Run) -> None:
    """Each bug must be detected in at least one state, and nothing in the same runs without it."""
    template = scenarios.at_rest(run.scratch / "template")
    chosen = [*BREAKS, *CONTROLS] if run.full else [each for each in BREAKS if each.name in QUICK_BREAKS]
    tasks = [(each, template.copied(run.scratch / f"break{n}"), run.full) for n, each in enumerate(chosen)]
    for each, found in zip(chosen, spread(run, _break, tasks), strict=True):
        if not each.name:
            run.failures += found.failures
        elif not found.bad:
            run.failures.append(f"{each.name} goes unnoticed in {found.checked:,} states")
        else:
            run.count += 1
            run.notes.append(f"{each.name} {found.bad:,} of {found.checked:,}")


def _break(task: tuple[Break, World, bool]) -> Found:
    """Examine everything, or until the bug is detected."""
    chosen, world, full = task
    names = (chosen.name,) if chosen.name else ()
    recording = chosen.scenario(world, *chosen.variants, *names)
    plan = Plan("0", chosen.most, pick=None if full else chosen.most, until_caught=not full)
    return examine(recording, world.place / "states", plan)


def real_cuts(run: Run) -> None:
    """On every file system that can be created here. Raises Skip if there is none."""
    kinds = cuts.KINDS if run.full else cuts.KINDS[:1]
    tasks = [(run.scratch / kind, kind, run.full, run.seed) for kind in kinds]
    for kind, (count, failures, skipped) in zip(kinds, spread(run, _cut, tasks), strict=True):
        run.count += count
        run.failures += failures
        run.notes.append(f"{kind} {skipped or count}")
    if not run.count and not run.failures:
        raise Skip("; ".join(run.notes))


def _cut(task: tuple[Path, str, bool, int]) -> tuple[int, list[str], str]:
    """Make the cuts of one kind; return their number, the problems, and why there were none."""
    scratch, kind, full, seed = task
    scratch.mkdir()
    run = Run(scratch, full, seed)
    try:
        cuts.cut_power(run, kind, CUTS_EACH if full else CUTS_IN_SLICE)
    except Skip as reason:
        return run.count, run.failures, str(reason)
    return run.count, run.failures, ""


CASES = (
    Case("states", "disk states", STATES, states),
    Case("breaks", "breaks caught", len(BREAKS), breaks),
    Case("cuts", "power cuts", CUTS, real_cuts),
)
