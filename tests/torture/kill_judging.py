"""Checks what must be true after a command was killed, and after the next commands."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence

from logist.errors import LogistError
from tests.torture import kill_source
from tests.torture import kill_subjects as subjects
from tests.torture.kill_subjects import Reference, Subject
from tests.torture.lab import WAITING, World, broken, lost
from tests.torture.tracer import Action, Trace


def struck(subject: Subject, reference: Reference, world: World, acts: Sequence[Action]) -> list[str]:
    """Run the command once for each action, with that fault, and check the result."""
    for act in acts:
        ran = subjects.traced(world, _next(subject, reference, world), act)
        problems = [*crashed(ran), *at_once(subject, reference, world, ran)]
        if problems:
            return problems
    return [*afterwards(subject, reference, world)]


def _next(subject: Subject, reference: Reference, world: World) -> tuple[str, ...]:
    return subject.then if _is_done(reference, world) else subject.args


def _is_done(reference: Reference, world: World) -> bool:
    """Whether the command was carried out, so it must not be run again."""
    if not world.folder.exists() or len(world.history()) < len(reference.history):
        return False
    changed = reference.spec_before not in (b"", reference.spec)
    return not changed or (world.folder / "job.yaml").read_bytes() == reference.spec


def crashed(ran: Trace) -> list[str]:
    """A child process of the command was killed: the command must report this like any other error."""
    said = ran.err.decode("utf-8", "replace")
    problems = []
    if "Traceback" in said or "bug in Logist" in said:
        problems.append(f"it crashed: {said}")
    if ran.code > 0 and not said.strip() and not ran.out.strip():
        problems.append(f"it ended with {ran.code} without a word")
    return problems


def at_once(subject: Subject, reference: Reference, world: World, ran: Trace) -> list[str]:
    """Check that nothing acknowledged is lost, nothing is invented, and every reading command works."""
    if not world.folder.exists():
        gone = ["the job is gone"] if reference.before else []
        told = ["a job was told of that is not there"] if ran.out else []
        return gone + told
    problems = broken(world) + kill_source.torn(reference.source, world)
    try:
        problems += lost(world, reference.before)
        history = subjects.stable(world.history())
    except LogistError as error:
        return [*problems, f"can't read the history: {error}"]
    expected = subjects.stable(reference.end)
    if history != expected[: len(history)]:
        problems.append(f"the history holds {history[len(reference.before) :]}")
    if ran.out == reference.out and len(history) < len(reference.history):
        problems.append("an interaction was told of that is not recorded")
    spec = (world.folder / "job.yaml").read_bytes()
    if reference.spec_before and spec not in (reference.spec_before, reference.spec):
        problems.append("job.yaml is neither the old one nor the new one")
    return problems


def afterwards(subject: Subject, reference: Reference, world: World) -> Iterator[str]:
    """Check that the command can be run again if it was not carried out, and that the next one works as if
    nothing had happened.
    """
    if not _is_done(reference, world):
        yield from _never_mind(subject, reference, world)
        ran = world.run(*subject.args)
        if ran.code != reference.code:
            yield f"once more, it ends with {ran.code}: {ran.err}"
            return
    if len(world.history()) == len(reference.history):
        ran = world.run(*subject.then)
        if ran.code != reference.then_code:
            yield f"{' '.join(subject.then)} ends with {ran.code}: {ran.err}"
            return
    else:  # the last killed command had done everything except its cleanup; the next one that writes does that
        with world.job.hold_lock(command="logist", since="2026-01-02T03:04:05Z"):
            pass
    yield from as_if_nothing_had_been(reference, world)


def _never_mind(subject: Subject, reference: Reference, world: World) -> Iterator[str]:
    """Check that a different command finds the files as they were before."""
    if not subject.instead:
        return
    other = world.copied(world.place.with_name(f"{world.place.name}-instead"))
    ran = other.run(*subject.instead)
    if ran.code not in WAITING:
        yield f"{' '.join(subject.instead)} ends with {ran.code}: {ran.err}"
    if subjects.files(other) != reference.files_before:
        yield f"after {' '.join(subject.instead)} the workspace holds {sorted(subjects.files(other))}"
    yield from broken(other)
    shutil.rmtree(other.place)


def as_if_nothing_had_been(reference: Reference, world: World) -> Iterator[str]:
    """Check that history, state, files and checkpoints are the same as after a run without a kill."""
    yield from broken(world)
    if subjects.stable(world.history()) != subjects.stable(reference.end):
        yield f"the history ends up as {subjects.stable(world.history())}"
    yield from _state_differs(reference, world)
    if subjects.files(world) != reference.files:
        yield f"the workspace holds {sorted(subjects.files(world))}"
    if reference.source is not None and kill_source.source(world) != reference.source[1]:
        yield f"the source ends up as {kill_source.source(world)}"
    yield from subjects.checkpoints_missing(world)
    yield from subjects.leftovers(world)


def _state_differs(reference: Reference, world: World) -> Iterator[str]:
    """Compare the state, unless it is behind the history: then `job verify` has checked that it matches."""
    if world.state()["revision"] < len(reference.end):
        return
    state, wanted = subjects.stable_state(world.state()), subjects.stable_state(reference.state)
    yield from (
        f"{key} is {state.get(key)}, not {wanted[key]}" for key in wanted if state.get(key) != wanted[key]
    )
