"""kill: SIGKILL before every system call with which a command changes something."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from logist.agents.protocol import LITELLM
from logist.workspace.merge.drafting import SCRATCH
from tests.torture import kill_judging, kill_paid, kill_pool, kill_subjects, kill_tools
from tests.torture.kill_paid import Blow, Paid
from tests.torture.kill_pool import Tried
from tests.torture.kill_subjects import SUBJECTS, Reference, Subject
from tests.torture.lab import World
from tests.torture.suite import Case, Run
from tests.torture.tracer import Action, Call, kill_before, short


class Undisturbed(NamedTuple):
    """A command in its world, and what it does without a kill."""

    subject: Subject
    base: World
    reference: Reference


Points = Callable[[Run, Undisturbed], Iterable[tuple[Action, ...]]]
"""The kills to try; several for one after the other."""


def create(run: Run) -> None:
    """A job exists completely or not at all; in the second case it can be created."""
    names = ("create", "create from a repository", "fork", "import")
    _try(run, names if run.full else names[1:2], _process_and_some, 3)


def step(run: Run) -> None:
    """A step of a worker that changes files, and of a reviewer; the calling process dies, or all die."""
    names = ("step of a worker", "step of a reviewer")
    _try(run, names if run.full else names[:1], _process_and_all, 4)


def decisions(run: Run) -> None:
    """The commands of a steward."""
    names = ("poststep", "resubmit", "restep", "rerun", "cancel", "config")
    _try(run, names if run.full else names[2:3], _process_and_family, 3)


def update(run: Run) -> None:
    """A job moves onto the current state of its source completely, or not at all."""
    _try(run, ("update",), _process_and_some_drafts, 3)


def recovery(run: Run) -> None:
    """The command that recovers is killed as well."""
    names = ("restep", "step of a worker", "config", "create from a repository")
    _try(run, names if run.full else names[:1], _twice, 2)


def torn(run: Run) -> None:
    """A write reaches the file only in part; then the process dies."""
    names = ("step of a worker", "restep", "config", "create from a repository")
    _try(run, names if run.full else names[:1], _cut, 3)


def paid(run: Run) -> None:
    """A paid step: the stepper dies, the courier dies, or both; then the step that records the answer dies
    too.
    """
    subject = kill_paid.prepared(run.scratch / "base")
    calls = kill_paid.settled_calls(subject, run.scratch / "reference")
    _blows(run, subject, run.some([*_paid_blows(calls)], 2))
    pairs = run.random("pairs").sample([*_paid_pairs(calls)], 60)
    _blows(run, subject, run.some(pairs, 1))
    own = sum(call.process > 0 for call in calls)
    run.notes.append(f"{len(calls)} calls, {own} of them the courier's")
    if run.full:
        _with_litellm(run, subject)


def tools(run: Run) -> None:
    """A paid step with two turns of tools: one process, the stepper, or all die; then the next one dies too."""
    subject = kill_paid.prepared(run.scratch / "base")
    calls = kill_tools.settled_calls(subject, run.scratch / "reference")
    pairs = run.random("pairs").sample([*_paid_pairs(calls)], 40)
    blows = [*run.some([*_tool_blows(calls)], 2), *run.some(pairs, 1)]
    kill_pool.each(run, partial(kill_tools.struck, subject), blows)
    own = sum(call.process > 0 for call in calls)
    run.notes.append(f"{len(calls)} calls, {own} of them the courier's and a sandbox's")


def undone(run: Run) -> None:
    """A step whose role may change nothing, but whose agent changes files: the changes are undone and
    recorded once.
    """
    _try(run, ("step that is undone",), _process_and_family, 4)


def workflow(run: Run) -> None:
    """A step with child jobs, the collection of their work, and a shared limit that they have used up."""
    names = ("step of a child at a shared limit", "step that is given away", "step that gathers")
    _try(run, names if run.full else names[2:], _process_and_family, 2)


def merge(run: Run) -> None:
    """The work of a job is merged into the user's repository once, and no file there is ever half-written."""
    names = ("merge", "merge into what moved on")
    _try(run, names if run.full else names[1:], _process_and_some_drafts, 2)


def rotation(run: Run) -> None:
    """A history becomes a segment and a new file: killed, with cut writes, and the next command killed too.

    With a paid answer, which is always recorded once, and without one.
    """
    names = ("paid answer that rotates", "suspend that rotates")
    _try(run, names if run.full else names[:1], _process_cut_and_twice, 2)


def given_up(run: Run) -> None:
    """A decision that gives up a model's unfinished work: recorded once, and the files match the next step."""
    half = kill_tools.half_done(run.scratch / "base")
    calls = kill_tools.given_up_calls(half, run.scratch / "reference")
    acts = [kill_before(call.index, "process" if call.index % 2 else "all") for call in calls]
    kill_pool.each(run, partial(kill_tools.struck_giving_up, half), run.some(acts, 2))
    run.notes.append(f"{len(calls)} calls")


def _with_litellm(run: Run, subject: Paid) -> None:
    """The same with litellm, which takes seconds to load, at a sample of the points."""
    subject = subject._replace(agent=LITELLM)
    before = run.count
    calls = kill_paid.settled_calls(subject, run.scratch / "reference")
    _blows(run, subject, run.random("litellm").sample([*_paid_blows(calls)], 16))
    run.notes.append(f"with litellm: {run.count - before} points of {len(calls)} calls")


def _blows(run: Run, paid: Paid, blows: Sequence[Blow]) -> None:
    kill_pool.each(run, partial(kill_paid.struck, paid), blows)


def _paid_blows(calls: Sequence[Call]) -> Iterable[Blow]:
    for call in calls:
        yield Blow((kill_before(call.index, "first"),))
        yield Blow((kill_before(call.index, "all"),))
        if call.process > 0:
            yield Blow((kill_before(call.index, "process"),))


def _tool_blows(calls: Sequence[Call]) -> Iterable[Blow]:
    """Before each call its process dies, or all do; before every fourth call the stepper dies."""
    for call in calls:
        yield Blow((kill_before(call.index, "process" if call.index % 2 else "all"),))
        if call.index % 4 == 0:
            yield Blow((kill_before(call.index, "first"),))


def _paid_pairs(calls: Sequence[Call]) -> Iterable[Blow]:
    """The stepper dies, or all do, when the request is sent; then the next command dies, at any of its calls."""
    sent = next(call.index for call in calls if call.name == "connect")
    for whom in ("first", "all"):
        for n in range(len(calls)):
            yield Blow((kill_before(sent, whom), kill_before(n, "all")))


def _try(run: Run, names: Sequence[str], points: Points, most: int) -> None:
    for name in names:
        undisturbed = _undisturbed(run.scratch / name.replace(" ", "-"), SUBJECTS[name])
        chosen = run.some([*points(run, undisturbed)], most)
        kill_pool.each(run, partial(_struck, undisturbed), chosen)
        run.notes.append(f"{name}: {len(undisturbed.reference.calls)} calls")
        run.say(f"  {name}: {len(chosen):,} points, {len(run.failures):,} failed")


def _undisturbed(place: Path, subject: Subject) -> Undisturbed:
    base = kill_subjects.base(place / "base", subject)
    return Undisturbed(subject, base, kill_subjects.reference(subject, base, place / "reference"))


def _struck(undisturbed: Undisturbed, place: Path, acts: tuple[Action, ...]) -> Tried:
    subject, base, reference = undisturbed
    problems = kill_judging.struck(subject, reference, base.copied(place), acts)
    first = f"{subject.name}, {acts[0].kind} {acts[0].whom} at {reference.calls[acts[0].n]}"
    return Tried(problems, " ".join([first, *(f"and {act.kind} at {act.n}" for act in acts[1:])]))


def _process_and_all(run: Run, undisturbed: Undisturbed) -> Iterable[tuple[Action, ...]]:
    for call in undisturbed.reference.calls:
        yield (kill_before(call.index, "process"),)
        yield (kill_before(call.index, "all"),)


def _process_and_some(run: Run, undisturbed: Undisturbed) -> Iterable[tuple[Action, ...]]:
    """All die at every third call: they leave only a hidden directory, which no command reads."""
    for call in undisturbed.reference.calls:
        yield (kill_before(call.index, "process"),)
        if call.index % 3 == 0:
            yield (kill_before(call.index, "all"),)


def _process_and_some_drafts(run: Run, undisturbed: Undisturbed) -> Iterable[tuple[Action, ...]]:
    """Only every sixth call of those that create the commits outside the repository: what they leave is
    discarded.
    """
    chosen = [
        call
        for call in undisturbed.reference.calls
        if call.index % 6 == 0 or not any(SCRATCH in path for path in call.paths)
    ]
    for call in chosen:
        yield (kill_before(call.index, "process"),)
        if call.index % 3 == 0:
            yield (kill_before(call.index, "all"),)


def _process_and_family(run: Run, undisturbed: Undisturbed) -> Iterable[tuple[Action, ...]]:
    """All die only where more than one process can exist: at a call of a child, or one that communicates with
    it.
    """
    for call in undisturbed.reference.calls:
        yield (kill_before(call.index, "process"),)
        if call.process > 0 or any(path.startswith("pipe:") for path in call.paths):
            yield (kill_before(call.index, "all"),)


def _process_cut_and_twice(run: Run, undisturbed: Undisturbed) -> Iterable[tuple[Action, ...]]:
    """In a slice: before the new file replaces the old one, and before the new state does."""
    last = ("/jobHistory.json", "/state.json")
    for call in undisturbed.reference.calls:
        if run.full or any(path.endswith(last) for path in call.paths[-1:]):
            yield (kill_before(call.index, "process"),)
    if run.full:
        yield from _cut(run, undisturbed)
        yield from _twice(run, undisturbed)


def _twice(run: Run, undisturbed: Undisturbed) -> Iterable[tuple[Action, ...]]:
    """A sample of points, and after each a sample of the points of the next command."""
    chance, calls = run.random(undisturbed.subject.name), undisturbed.reference.calls
    for first in chance.sample(calls, min(8, len(calls))):
        for second in chance.sample(calls, min(7, len(calls))):
            yield (kill_before(first.index, "all"), kill_before(second.index, "all"))


def _cut(run: Run, undisturbed: Undisturbed) -> Iterable[tuple[Action, ...]]:
    for call in undisturbed.reference.calls:
        size = call.detail.get("count", 0)
        if call.name in ("write", "pwrite64") and call.paths[0].startswith("/") and size > 1:
            for kept in sorted({1, size // 2, size - 1}):
                yield (short(call.index, kept, then_kill=True),)


CASES = (
    Case("create", "kill points", 800, create),
    Case("step", "kill points", 250, step),
    Case("decisions", "kill points", 350, decisions),
    Case("recovery", "pairs of kill points", 200, recovery),
    Case("torn", "cut writes", 150, torn),
    Case("paid", "kill points", 220, paid),
    Case("tools", "kill points", 500, tools),
    Case("given-up", "kill points", 140, given_up),
    Case("undone", "kill points", 270, undone),
    Case("workflow", "kill points", 400, workflow),
    Case("merge", "kill points", 400, merge),
    Case("update", "kill points", 150, update),
    Case("rotation", "kill points", 100, rotation),
)
