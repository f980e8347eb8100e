"""The judge of a tool loop detects problems with its cost and its side effects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.loopback import Json, Received
from tests.torture import pay_tools
from tests.torture.lab import JOB, World, command
from tests.torture.tool_model import COUNTER, Money, Plan, Working, counts, creates, explained, problems_of

PLAN: Plan = [[creates("made")], [counts("a1")]]


@pytest.mark.parametrize(
    ("booked", "ledger", "well"),
    [
        ([("ask", 3)], [0, 1, 2], True),
        ([("ask", 3)], [0, 1, 1, 2], False),  # a turn was paid twice
        ([("ask", 3)], [0, 1], False),  # more was recorded than charged
        ([("ask", 2)], [0, 1, 2], False),  # less was recorded than charged
        ([], [0], False),
        ([("recover", 2), ("ask", 3)], [0, 1, 2, 0, 1, 2], True),
        ([("recover", 2), ("ask", 3)], [0, 1, 0, 1, 2], True),  # the request in doubt never came
        ([("recover", 0), ("ask", 1)], [0, 0], True),
        ([("recover", 0), ("ask", 1)], [0, 0, 0], False),
        ([("recover", 2), ("ask", 1)], [0, 1, 2, 2, 0], False),
        ([("recover", 1, 1), ("ask", 2)], [0, 1, 2], True),  # it continues after the saved turn
        ([("recover", 1, 1), ("ask", 2)], [0, 1, 1, 2], True),  # the request in doubt came
        ([("recover", 1, 1), ("ask", 3)], [0, 0, 1, 2], False),  # the saved turn was paid again
        ([("recover", 1, 1), ("recover", 1, 2), ("ask", 1)], [0, 1, 2, 2], True),
    ],
)
def test_a_ledger_is_explained_or_not(booked: list[tuple[Any, ...]], ledger: list[int], well: bool) -> None:
    assert explained([Money(*each) for each in booked], ledger) is well


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, list[Received]]:
    """A world after a paid step without a kill, and the requests to its model."""
    place = tmp_path_factory.mktemp("served")
    world = World.made(place / "w")
    with Working(PLAN) as server:
        world.paid_by(server.url).create()
        assert world.started("job", "step", JOB).wait() == 0
    return world, server.requests


def test_an_undisturbed_step_is_found_well(served: tuple[World, list[Received]]) -> None:
    assert [*problems_of(*served, PLAN)] == []


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (COUNTER, "a1\na1\n", "a1 was run 2 times, told 1 times"),
        (COUNTER, "", "a1 was run 0 times"),
        ("made.txt", "changed", "the workspace differs from the checkpoint: ['made.txt']"),
    ],
)
def test_what_is_wrong_with_the_workspace_is_seen(
    served: tuple[World, list[Received]], tmp_path: Path, name: str, content: str, said: str
) -> None:
    world = served[0].copied(tmp_path / "w")
    (world.folder / "workspace" / name).write_text(content, "utf-8")
    assert said in " ".join(problems_of(world, served[1], PLAN))


def test_a_charge_too_many_and_a_plan_that_was_not_carried_out_are_seen(
    served: tuple[World, list[Received]],
) -> None:
    world, requests = served
    assert "the ledger has" in " ".join(problems_of(world, [requests[0], *requests], PLAN))
    assert "were not given" in " ".join(problems_of(world, requests, [*PLAN, [counts("b9")]]))


def test_an_answer_that_is_not_recorded_is_seen(tmp_path: Path) -> None:
    world = World.made(tmp_path / "w", [command()]).create()
    assert "it ends with []" in " ".join(problems_of(world, [], PLAN))


def test_there_is_a_point_for_each_file_and_each_tool() -> None:
    points = pay_tools.points()
    names = [f"{point.name} {point.time}" for point in points if point.after]
    assert names[:8] == [
        *("1.sent 1", "1.response 1", "1.tools 1", "1.tools 2", "1.tools 3", "1.tools 4", "1.tools 5"),
        "2.request 1",
    ]
    assert len(names) * 2 == len(points)
    doubtful: list[Json] = [point._asdict() for point in points if point.doubt]
    assert {(point["name"].partition(".")[2], point["after"]) for point in doubtful} == {
        ("sent", True),
        ("response", False),
    }
