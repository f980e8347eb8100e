"""What the rules decide beside where an interaction leads is replayed too: no change of it goes unnoticed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from logist.core.model import (
    Actor,
    Change,
    Interaction,
    Kind,
    Limits,
    Phase,
    Refusal,
    Request,
    Step,
    StepType,
    Workflow,
)
from logist.core.replay.replay import find_differences
from tests.core.builders import SCHEMA, Recorder, command
from tests.core.test_whatif import Recorded, fan_out, flow, gathered


def found(entries: Sequence[Interaction]) -> list[tuple[int, str, str, str]]:
    return [
        (each.sequence, each.field, each.recorded, each.today) for each in find_differences(entries, SCHEMA)
    ]


def last(job: Recorder, **fields: Any) -> list[Interaction]:
    """The history with fields of its last entry changed."""
    return [*job.entries[:-1], job.entries[-1].model_copy(update=fields)]


def respecified(entries: Sequence[Interaction], **fields: Any) -> list[Interaction]:
    """The history with another spec from its beginning."""
    first = entries[0]
    assert first.spec is not None
    return [first.model_copy(update={"spec": first.spec.model_copy(update=fields)}), *entries[1:]]


def test_whether_a_steward_has_to_confirm_it() -> None:
    job = Recorded(workflow=flow(confirm=True, review=True))
    job.answer(command(output={"score": 85}))
    assert job.state.status == "REVIEW_REQUIRED"
    assert found(job.entries) == []
    assert found(last(job, command={})) == [(2, "unsure", "false", "true")]


def test_a_call_that_a_limit_of_today_would_have_kept_back() -> None:
    job = Recorder(review=False)
    job.answer(command("RETRY"))
    job.answer()
    assert found(job.entries) == []
    [(number, name, _, today)] = found(respecified(job.entries, limits=Limits(max_allowed_iterations=1)))
    assert (number, name, today) == (3, "limit", "iteration limit: 1 of 1 runs used")
    given = last(job, simulated=True)
    assert found(respecified(given, limits=Limits(max_allowed_iterations=1))) == []
    late = last(job, exchange="a" * 64)
    assert found(respecified(late, limits=Limits(max_allowed_iterations=1))) == []


def test_the_step_that_was_asked() -> None:
    job = Recorder()
    job.answer()
    assert found(last(job, step="task")) == []
    assert found(last(job, step="deploy")) == [(2, "step", "deploy", "task")]


CREATED = Change(path="a.txt", kind="created", mode="100644")
CACHED = Change(path="node_modules", kind="created", mode="100644", cache=True)
HELD = {"kind": "workspace", "path": "a.txt", "change": "created", "message": "lacks create_files"}


@pytest.mark.parametrize(
    ("may", "changes", "refusals", "today"),
    [
        (["read_files"], [CREATED], [], '["a.txt"]'),
        (["read_files", "create_files"], [CREATED], [HELD], "[]"),
        (["read_files", "create_files"], [], [HELD], "[]"),
        (["read_files"], [], [HELD], None),
        (["read_files"], [CREATED], [HELD], None),
        (["create_files"], [CREATED], [], None),
        (["execute_commands"], [CACHED], [], None),
        (["fly"], [CREATED], [], None),
        (None, [CREATED], [], None),
    ],
)
def test_what_a_role_may_not_do(may: Any, changes: Any, refusals: Any, today: str | None) -> None:
    job = Recorder()
    job.answer()
    seen = job.entries[-1].observed
    assert seen is not None
    request = Request(metadata={} if may is None else {"permissions": may})
    told = last(
        job,
        request=request,
        observed=seen.model_copy(
            update={"changes": changes, "refusals": [Refusal.model_validate(each) for each in refusals]}
        ),
    )
    names = [(name, now) for _, name, _, now in found(told) if name == "refusals"]
    assert names == ([] if today is None else [("refusals", today)])


def test_a_verdict_is_compared_though_nothing_says_that_it_was_asked_for() -> None:
    job = Recorder()
    job.answer()
    job.answer(command(output={"verdict": "PASS"}))
    told = {"verdict": "PASS"}
    assert found(last(job, command=told)) == []
    assert found(last(job, command={"verdict": "FAIL"})) == [
        (3, "review", '{"verdict": "FAIL"}', '{"verdict": "PASS"}')
    ]


@pytest.mark.parametrize("other", [True, 1.0, [1]])
def test_values_are_compared_as_json(other: Any) -> None:
    job = Recorder()
    job.answer(command(output={"score": 1}))
    changed = job.entries[-1].response.model_copy(update={"output": {"score": other}})
    assert [name for _, name, *_ in found(last(job, response=changed))] == ["response.output"]


def test_what_a_person_gives_in_place_of_other_jobs() -> None:
    only = Step(id="each", name="Each", step_type=StepType.FOREACH, items_path="input.parts")
    job = Recorded(approval="none", review=False, workflow=Workflow(name="w", steps=(only,), start="each"))
    job.gather(Kind.SPAWN, fault="nobody may do it")
    assert job.state.place.stuck is not None
    job.answer(command(output=["by hand"]), simulated=True)
    assert found(last(job, command={"results": ["by hand"]})) == []
    wrong = found(last(job, command={"results": ["another"]}))
    assert wrong == [(3, "results", '["another"]', '["by hand"]')]


def test_to_how_many_jobs_a_step_is_given() -> None:
    job = Recorded(
        approval="none", workflow=fan_out(50, items_path="input.parts"), input={"parts": ["a", "b"]}
    )
    job.gather(Kind.SPAWN, children=[{"id": "j--2-1"}, {"id": "j--2-2"}])
    assert found(job.entries) == []
    assert found(last(job, command={"children": [{"id": "j--2-1"}]})) == [(2, "children", "1", "2")]


def test_how_many_of_them_have_to_succeed() -> None:
    job = gathered(50, 1)
    names = {name for _, name, *_ in found(respecified(job.entries, workflow=fan_out(100)))}
    assert "gathered" in names
    assert not {name for _, name, *_ in found(job.entries)} & {"gathered"}


def test_work_that_would_not_be_merged_by_itself() -> None:
    job = Recorder(approval="none", auto_merge=True)
    job.entries[0] = job.entries[0].model_copy(update={"command": {"source": "repo"}})
    job.answer()
    job.answer()
    assert job.state.merge == "due"
    job.decide(Kind.MERGE)
    merged = last(job, actor=Actor.SYSTEM)
    assert found(merged) == []
    by_hand = respecified(merged, auto_merge=None)
    assert [name for _, name, *_ in found(by_hand)] == ["merge"]
    assert found([*by_hand[:-1], job.entries[-1]]) == []
    assert job.entries[-2].observed is not None
    assert job.entries[-2].observed.phase is Phase.REVIEWER
