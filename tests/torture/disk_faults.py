"""A disk that fails a call, once or from then on, or that writes too little; and what must be true then."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.torture import kill_judging, kill_paid
from tests.torture import kill_subjects as subjects
from tests.torture.kill_paid import Paid
from tests.torture.kill_pool import Tried
from tests.torture.kill_subjects import Reference, Subject
from tests.torture.lab import WAITING, World, broken, lost, paid_server
from tests.torture.tracer import Action, Call, Trace, fail, short
from tests.torture.tracing.calls import KINDS

ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)

_NEEDS = {kind.name: kind.needs for kind in KINDS}
_NOT_FSYNC = (errno.EROFS, errno.EDQUOT)


class Fault(NamedTuple):
    """The fault of a call, and the call without the fault."""

    act: Action
    call: Call

    def __str__(self) -> str:
        act = self.act
        what = f"{act.kept} bytes of" if act.kind == "short" else errno.errorcode[act.errno] + " at"
        return f"{what} {self.call}{', and then for ever' if act.forever else ''}"


def of(call: Call) -> Iterator[Fault]:
    """Yield every fault that a disk can cause at a call; none for a call that does not use the disk."""
    if not call.paths or not all(path.startswith("/") for path in call.paths):
        return
    for error in ERRORS:
        if _can_refuse(call, error):
            yield Fault(fail(call.index, error), call)
            yield Fault(fail(call.index, error, forever=True), call)
    size = call.detail.get("count", 0)
    if call.name in ("write", "pwrite64") and size > 1:
        for kept in sorted({1, size // 2, size - 1}):
            yield Fault(short(call.index, kept), call)
        yield Fault(short(call.index, size // 2, then_errno=errno.ENOSPC), call)


def _can_refuse(call: Call, error: int) -> bool:
    if _NEEDS[call.name] == "space":
        return not (call.name in ("fsync", "fdatasync") and error in _NOT_FSYNC)
    return _NEEDS[call.name] == "disk" and error in (errno.EIO, errno.EROFS)


def struck(subject: Subject, reference: Reference, base: World, place: Path, fault: Fault) -> Tried:
    """Run the command on the faulty disk, then everything on a working one."""
    world = base.copied(place)
    ran = subjects.traced(world, subject.args, fault.act)
    where = f"{subject.name}, {fault}"
    problems = kill_judging.crashed(ran)
    if _is_the_agents(fault.call, subject):
        return Tried([*problems, *_agent_failed(reference, world, subject)], where)
    problems += told(ran, world, _recorded(world, reference))
    problems += kill_judging.at_once(subject, reference, world, ran)
    return Tried(problems or [*kill_judging.afterwards(subject, reference, world)], where)


def paid_struck(paid: Paid, place: Path, fault: Fault) -> Tried:
    """The same with a paid step: whatever could not be written, nothing is paid twice without a report."""
    with paid_server() as server:
        world = paid.base.copied(place).paid_by(server.url)
        ran = subjects.traced(world, subjects.AGAIN, fault.act)
        recorded = len(world.history()) > len(paid.before)
        problems = [*kill_judging.crashed(ran), *told(ran, world, recorded)]
        problems += kill_paid.at_once(paid, world, kill_paid.EITHER)
        problems = problems or [*kill_paid.finished(paid, world, server, kill_paid.EITHER)]
        return Tried(problems, f"paid step, {fault}", len(ran.calls) > fault.act.n)


def _recorded(world: World, reference: Reference) -> bool:
    return world.folder.exists() and len(world.history()) >= len(reference.history)


def told(ran: Trace, world: World, recorded: bool) -> Iterator[str]:
    """Every failure is reported, with a path and a fix; success is reported only for what is recorded."""
    said = ran.err.decode("utf-8", "replace")
    if re.search("^error: standard output: ", said, re.M):
        return  # the number of git's calls varies a little, so this was our last call, which prints the result
    if ran.code == 0 and not recorded:
        yield f"it ends with 0, and nothing is recorded: {said}"
    if ran.code not in WAITING and not re.search(rf"^error: .*{re.escape(str(world.place))}", said, re.M):
        yield f"it ends with {ran.code} and names no path: {said}"
    if ran.code not in WAITING and not re.search(r"^error: .*\(.+\)$", said, re.M):
        yield f"it ends with {ran.code} and does not say what to do: {said}"


def _is_the_agents(call: Call, subject: Subject) -> bool:
    """A scripted agent writes in our process; if it can't write, that is its answer, not an error of Logist."""
    return (
        subject.args[1] == "step" and call.process == 0 and all("/workspace/" in path for path in call.paths)
    )


def _agent_failed(reference: Reference, world: World, subject: Subject) -> Iterator[str]:
    yield from broken(world)
    yield from lost(world, reference.before)
    ran = world.run(*subject.args)
    if ran.code not in WAITING:
        yield f"once more, it ends with {ran.code}: {ran.err}"
    yield from broken(world)
