"""Many processes spend one budget, and some are killed: it is never exceeded, and nothing acknowledged is lost."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

from logist.core.money.budgets import Account, BookedCall, Cap, Cost
from logist.store.ledger import RESERVE, SETTLE, Ledger
from tests.torture.crowd_forks import Forks

CAP, AMOUNT = 1000, 7
PROJECT = Account("project")
AT = "2026-11-26T10:00:00Z"


def spend(folder: str, log: str, seed: int) -> int:
    """Reserve and settle until the budget is used up; write each acknowledged call to `log`, which holds a line each."""
    chance = random.Random(seed)
    ledger = Ledger(Path(folder))
    cap = Cap("all", PROJECT, microcents=CAP)
    acknowledged = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    number = 0
    while True:
        number += 1
        call = BookedCall(f"j{seed}/x/{number}", f"j{seed}", "2026-11-26", "openai", "openai/gpt-5")
        refusal = ledger.reserve(call, Cost(AMOUNT, 0, 1), [cap], AT)
        if refusal is not None:
            return 0
        os.write(acknowledged, f"{RESERVE} {call.id}\n".encode())
        if chance.random() < 0.6:  # the others are still running, or in doubt
            ledger.settle({call.id: Cost(chance.randint(0, AMOUNT), 0, 1)}, AT)
            os.write(acknowledged, f"{SETTLE} {call.id}\n".encode())


def play_round(place: Path, forks: Forks, chance: random.Random, processes: int) -> tuple[int, list[str]]:
    """Let processes spend one budget, and kill some; return what is spent and reserved, and what is wrong."""
    place.mkdir(parents=True)
    folder = place / "ledger"
    logs = [place / f"acknowledged{number}" for number in range(processes)]
    pids = [forks.call("crowd_ledger:spend", str(folder), str(log), chance.randrange(10**9)) for log in logs]
    victims = chance.sample(pids, processes // 8)
    for pid in victims:
        forks.kill(pid)
    codes = {forks.wait(pid) for pid in pids if pid not in victims}
    problems = [] if codes <= {0} else [f"a process ended with {codes}"]
    ledger = Ledger(folder)
    ledger.verify()
    total = ledger.read().sums[PROJECT].get_total().microcents
    most, found = _follow(ledger)
    problems += [f"{most} of {CAP} were spent or reserved at some moment"] if most > CAP else []
    problems += [f"the totals say {total}, the entries {found}"] if total != found else []
    problems += [f"only {total} of {CAP} are used"] if total <= CAP - AMOUNT else []
    booked = {f"{entry.kind} {entry.call_id}" for entry in ledger.read_entries()}
    lost = [line for log in logs for line in _read_lines(log) if line not in booked]
    problems += [f"lost: {', '.join(lost[:3])}"] if lost else []
    return total, problems


def _read_lines(log: Path) -> Iterator[str]:
    if log.exists():
        yield from log.read_text("utf-8").splitlines()


def _follow(ledger: Ledger) -> tuple[int, int]:
    """Return the highest and the last total, by adding up the entries."""
    reserved: dict[str, int] = {}
    spent = most = 0
    for entry in ledger.read_entries():
        if entry.kind == RESERVE:
            reserved[entry.call_id] = entry.cost.microcents
        else:
            assert reserved.pop(entry.call_id, None) is not None
            spent += entry.cost.microcents
        most = max(most, spent + sum(reserved.values()))
    return most, spent + sum(reserved.values())
