"""Ending every process of a run: by descent while Logist lives, by its
marker if an earlier Logist was killed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from logist.agents.sandbox import processes
from logist.agents.sandbox.processes import Table

_LONGEST = 10.0
_PAUSE = 0.005
LOOKS = 3
"""So often in a row nothing has to be left."""


def end_all(
    members: Callable[[Table], set[int]], but: int | None = None, *, adopted: bool = True
) -> set[int]:
    """Kill what `members` names until no process is left, however fast it multiplies; return the living ones
    it found.

    Those of the group `but` were killed before: they are waited for, and not returned. `adopted`: the
    processes that are our children became so when their parent ended, and no other code waits for them.
    """
    ended: set[int] = set()
    empty = 0
    until = time.monotonic() + _LONGEST
    while True:
        table = processes.read_table()
        pids = members(table) - {os.getpid()}
        living = {pid for pid in pids if table[pid].is_alive}
        # A group first: the kernel signals all of it in one go, so a member can't fork a copy in between.
        for group in _find_whole_groups(table, living):
            processes.signal_group(group, signal.SIGKILL)
        processes.signal_all(living, signal.SIGKILL)
        if adopted:
            processes.reap_children(pid for pid in pids if table[pid].parent == os.getpid())
        ended |= {pid for pid in living if table[pid].group != but}
        # One look can miss a process that is forked while it looks; it cannot miss that one's life twice.
        empty = 0 if living else empty + 1
        if empty == LOOKS or time.monotonic() > until:
            return ended
        time.sleep(_PAUSE)


def find_living(members: Callable[[Table], set[int]]) -> set[int]:
    """Return those of `members` that are alive now."""
    table = processes.read_table()
    return {pid for pid in members(table) if table[pid].is_alive}


def _find_whole_groups(table: Table, living: set[int]) -> set[int]:
    """Return the groups whose processes are all to end: signalled at once,
    none of them can fork away in between.
    """
    groups = {table[pid].group for pid in living}
    return groups - {each.group for each in table.values() if each.pid not in living and each.is_alive}


def end_leftover_processes(marker: str) -> int:
    """End the processes that a killed Logist left of the run with this marker; return how many there were."""
    if not marker:
        return 0

    def members(table: Table) -> set[int]:
        return processes.find_descendants(table, processes.find_marked(marker, table))

    return len(end_all(members, adopted=False))
