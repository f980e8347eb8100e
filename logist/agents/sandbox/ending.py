"""Ends all processes of a run: found by descent while Logist runs, or by
marker if an earlier Logist was killed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from logist import systems
from logist.agents.sandbox import processes
from logist.agents.sandbox.processes import Table

_LONGEST = 10.0
_PAUSE = 0.005
LOOKS = 3
"""The number of checks in a row that must find no process."""


def end_all(
    members: Callable[[Table], set[int]], but: int | None = None, *, adopted: bool = True
) -> set[int]:
    """Kill the processes that `members` returns until none is left, even if they fork quickly; return those that
    were alive.

    Processes of the group `but` were killed before: they are waited for, but not returned. `adopted`: processes
    that are our children were adopted when their parent ended, so no other code waits for them.
    """
    ended: set[int] = set()
    empty = 0
    until = time.monotonic() + _LONGEST
    while True:
        table = processes.read_table()
        pids = members(table) - {os.getpid()}
        living = {pid for pid in pids if table[pid].is_alive}
        # Groups first: the kernel signals a group at once, so no member can fork in between.
        for group in _find_whole_groups(table, living):
            processes.signal_group(group, signal.SIGKILL)
        processes.signal_all(living, signal.SIGKILL)
        if adopted:
            processes.reap_children(pid for pid in pids if table[pid].parent == os.getpid())
        ended |= {pid for pid in living if table[pid].group != but}
        # One check can miss a process that is forked during the check, so several must find none.
        empty = 0 if living else empty + 1
        if empty == LOOKS or time.monotonic() > until:
            return ended
        time.sleep(_PAUSE)


def find_living(members: Callable[[Table], set[int]]) -> set[int]:
    """Return those of `members` that are alive now."""
    table = processes.read_table()
    return {pid for pid in members(table) if table[pid].is_alive}


def _find_whole_groups(table: Table, living: set[int]) -> set[int]:
    """Return the groups whose processes must all end: if a group is signaled at
    once, none of them can fork in between.
    """
    groups = {table[pid].group for pid in living}
    return groups - {each.group for each in table.values() if each.pid not in living and each.is_alive}


def end_leftover_processes(marker: str) -> int:
    """End the processes of the run with this marker that a killed Logist left; return their number."""
    if not systems.IS_LINUX:  # no program was started here
        return 0
    if not marker:
        return 0

    def members(table: Table) -> set[int]:
        return processes.find_descendants(table, processes.find_marked(marker, table))

    return len(end_all(members, adopted=False))
