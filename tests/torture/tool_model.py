"""A model that works with tools, its ledger, and checks that a paid loop must pass after any kill."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from logist.agents.courier.toolbox import INTERRUPTED
from tests.loopback import Json, Loopback, Received
from tests.torture.lab import JOB, World, broken_files, command

USAGE = {"input": 10, "output": 10}
PRICE = 2500
"""Microcents of one exchange, at the prices of `lab.World.paid_by`."""
COUNTER = "counter.txt"
"""Each command appends its name to it."""
WELL = "exit status 0"
"""The result that it gets for a command that ran to its end."""
_LABEL = re.compile(r"echo (\S+) >> ")

Plan = list[list[Json]]
"""The calls of each turn."""


def creates(name: str) -> Json:
    """A call that creates a file."""
    return {"name": "create_file", "args": {"path": f"{name}.txt", "content": f"{name}\n"}}


def edits(name: str) -> Json:
    """A call that changes that file."""
    return {
        "name": "edit_file",
        "args": {"path": f"{name}.txt", "old": f"{name}\n", "new": f"{name}, edited\n"},
    }


def counts(label: str, seconds: float = 0.0) -> Json:
    """A call of a command that must not be repeated."""
    wait = f"sleep {seconds}; " if seconds else ""
    return {
        "name": "execute_command",
        "args": {"command": f"{wait}echo {label} >> {COUNTER}; {wait}echo done"},
    }


def planned(chance: random.Random) -> Plan:
    """4 to 8 turns: files that are created and changed, commands, and invalid calls."""
    plan: Plan = []
    for turn in range(chance.randint(3, 7)):
        first = chance.choice((creates(f"file{turn}"), counts(f"a{turn}", 0.02)))
        more = [
            counts(f"b{turn}"),
            {"name": "read_file", "args": {"path": "missing.txt"}},
            {"name": "list_directory", "args": {}},
        ]
        rest = [edits(f"file{turn}")] if first["name"] == "create_file" else []
        plan.append([first, *rest, *chance.sample(more, chance.randint(0, 2))])
    return plan


class Working(Loopback):
    """A model that charges for every request, and carries out its plan, however often it is called and by which courier.

    It repeats a command once if the result says that it is unknown how far the command ran.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__({"text": command(), "usage": USAGE})
        self.plan = plan
        self.delay = 0.0
        self.chance = random.Random(0)

    def take(self, received: Received) -> Json:
        super().take(received)
        conversation = received.body["messages"]
        turn = turn_of(conversation)
        calls = [*_again(conversation), *(self.plan[turn] if turn < len(self.plan) else [])]
        answer = {"calls": calls} if calls else {"text": command()}
        return {"usage": USAGE, "delay": self.chance.random() * self.delay, **answer}


def turn_of(conversation: Sequence[Json]) -> int:
    """How many turns a conversation has had."""
    return sum(message["role"] == "assistant" for message in conversation)


def _again(conversation: Sequence[Json]) -> list[Json]:
    """Return the commands of the last turn that may or may not have run."""
    last = [index for index, message in enumerate(conversation) if message["role"] == "assistant"][-1:]
    used = used_in(conversation[last[0] :]) if last else []
    return [counts(each.label) for each in used if each.label and each.unknown]


class Used(NamedTuple):
    """A tool that was called, and the result that the model got."""

    name: str
    label: str
    """For a command: what it appends."""
    unknown: bool
    content: str


def used_in(conversation: Sequence[Json]) -> list[Used]:
    """All calls with their results, in order."""
    found: list[Used] = []
    waiting: list[Json] = []
    for message in conversation:
        if message["role"] == "assistant":
            waiting = [*message["tool_calls"]]
        elif message["role"] == "tool":
            function = waiting.pop(0)["function"]
            label = _LABEL.search(function["arguments"])
            content = message["content"]
            found.append(Used(function["name"], label[1] if label else "", INTERRUPTED in content, content))
    return found


class Money(NamedTuple):
    """An interaction with a cost."""

    kind: str
    answered: int
    """Exchanges with an answer, except those that an earlier interaction has recorded."""
    kept: int = 0
    """The number of answered turns from which the next ask continues."""


def money_of(entries: Sequence[Json]) -> list[Money]:
    """Return the interactions with a cost."""
    paid = [entry for entry in entries if entry["kind"] in ("ask", "recover")]
    return [
        Money(
            entry["kind"],
            entry["usage"].get("input_tokens", 0) // USAGE["input"],
            entry.get("command", {}).get("turns_kept", 0),
        )
        for entry in paid
    ]


def explained(booked: Sequence[Money], ledger: Sequence[int], begun: int = 0) -> bool:
    """Whether the ledger (the turn of each request) matches exactly what was recorded.

    An ask is its turns, one after the other, each once, from those on that were kept before it (`begun`). So
    is a doubt, and one request more, of which nobody knows whether it came so far.
    """
    if not booked:
        return not ledger
    first, rest = booked[0], booked[1:]
    lengths = [first.answered] if first.kind == "ask" else [first.answered, first.answered + 1]
    return any(
        list(ledger[:length]) == list(range(begun, begun + length))
        and explained(rest, ledger[length:], first.kept)
        for length in lengths
    )


def problems_of(
    world: World, requests: Sequence[Received], plan: Plan, *, settled: bool = True
) -> Iterator[str]:
    """Yield the problems when the job is settled: cost, side effects, workspace.

    `settled` False: the last command may have been killed after it had recorded the answer.
    """
    yield from broken_files(world)
    yield from in_flight(world) if settled else ()
    entries = world.history()[1:]
    booked = money_of(entries)
    ledger = [turn_of(request.body["messages"]) for request in requests]
    if not explained(booked, ledger):
        yield f"the ledger has {ledger}, booked is {[tuple(each) for each in booked]}"
    yield from _wrong_sums(entries)
    if not booked or booked[-1].kind != "ask":
        yield f"it ends with {[entry['kind'] for entry in entries]}"
        return
    yield from _wrong_effects(world, used_in(requests[-1].body["messages"]), plan)
    yield from _wrong_workspace(world, entries[-1])


def in_flight(world: World) -> Iterator[str]:
    """Yield files that exist although no call is running."""
    if world.job.find_lock_holder() or world.job.read_exchanges() or world.job.restoring.exists():
        yield "something is in flight still"


def _wrong_sums(entries: Sequence[Json]) -> Iterator[str]:
    for entry, (kind, answered, _) in zip(
        [entry for entry in entries if entry["kind"] in ("ask", "recover")], money_of(entries), strict=True
    ):
        usage, said = entry["usage"], entry.get("command", {})
        in_doubt = said.get("in_doubt_microcents", 0)
        cost = usage.get("cost_cents", 0) * 1_000_000 + usage.get("cost_microcents", 0)
        if cost != answered * PRICE + in_doubt or (kind == "recover") != (
            in_doubt > 0 or said.get("given_up", False)
        ):
            yield f"{kind} of {answered} answers costs {cost}, of it {in_doubt} in doubt"
        if entry.get("response", {}).get("error") and kind == "ask":
            yield f"an error is recorded: {entry['response']['error']}"


def _wrong_effects(world: World, used: Sequence[Used], plan: Plan) -> Iterator[str]:
    """Check that each command ran as often as the model was told, plus once if it was told that this is
    unknown.
    """
    counter = world.folder / "workspace" / COUNTER
    lines = Counter(counter.read_text("utf-8").split() if counter.exists() else [])
    known = Counter(each.label for each in used if each.label and WELL in each.content)
    unknown = Counter(each.label for each in used if each.label and WELL not in each.content)
    for label in {*lines, *known, *unknown}:
        if not known[label] <= lines[label] <= known[label] + unknown[label]:
            yield f"{label} was run {lines[label]} times, told {known[label]} times, unknown {unknown[label]}"
    wanted = {found[1] for calls in plan for call in calls if (found := _LABEL.search(json.dumps(call)))}
    if {*known, *unknown} != wanted:
        yield f"the commands {sorted(wanted ^ {*known, *unknown})} were not given, or not planned"
    unsure = any(each.unknown and each.name == "create_file" for each in used)
    for each in used:
        failed = each.name.endswith("_file") and each.content.startswith(("error", "refused"))
        if failed and "missing.txt" not in each.content and not unsure:
            yield f"{each.name} failed: {each.content}"


def _wrong_workspace(world: World, entry: Json) -> Iterator[str]:
    workspace = world.project().open_workspace(world.project().open_job(JOB))
    changes, _ = workspace.list_changes(entry["checkpoint_after"], None)
    if changes:
        yield f"the workspace differs from the checkpoint: {[change.path for change in changes]}"
