"""Jobs that other jobs do a part of: foreach, subflow, join; how they are made, gathered, and what they use."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from logist.core.model import Kind, Status, StuckKind
from logist.core.model.commands import ApproveCommand, ResubmitCommand
from logist.errors import Refused
from logist.jobs.base.create import create_job
from logist.jobs.steward import job_edits
from logist.jobs.steward.steward_decisions import record_decision, rerun_job, restep_job
from tests.jobs.bench import Bench, Json, answer, command, gave
from tests.jobs.conftest import MakeBench
from tests.jobs.test_recovery import left_in_flight

COST = {"cost_cents": 3, "cost_microcents": 500_000, "input_tokens": 10, "output_tokens": 2, "seconds": 1.5}


class Killed(BaseException):
    """The process is gone at this place."""


def parts(*names: Any, **more: Sequence[Json]) -> Mapping[str, Sequence[Json]]:
    """The answers of a fan-out over these parts."""
    each = {f"each[{number}]": [gave(f"{name} done")] for number, name in enumerate(names, 1)}
    return {"plan": [gave({"parts": list(names)})], **each, "gather": [gave("all")], **more}


def given_away(b: Bench, *names: Any, workflow: str = "fan-out.yaml", **more: Any) -> list[str]:
    """A job that waits for a child for each name."""
    answers = {f"each[{number}]": given for number, given in more.pop("each", {}).items()}
    b.follow(workflow, steps={**parts(*names), **answers}, **more)
    b.step()
    assert b.step().state.status is Status.WAITING
    return b.children()


def work(b: Bench, *children: str) -> None:
    for child in children:
        b.run(child)


# --- how they are made ---


def test_the_children_are_planned_before_they_are_made(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "one", "two", input={"who": "me"})
    assert children == ["j--3-1", "j--3-2"]
    entry = b.history()[2]
    assert (entry.kind, entry.state_after, entry.step) == (Kind.SPAWN, Status.WAITING, "each")
    planned = entry.command["children"][1]
    assert (planned["id"], planned["title"]) == ("j--3-2", "two (Fan-out: each [2/2])")
    assert planned["prompt"] == "Do part two, number 1 of 2."
    assert entry.command["given"] == {"who": "me"}
    state = b.state()
    assert state.spawned is not None
    assert (state.spawned.total, state.spawned.tag) == (2, "foreach:j")
    child = b.history("j--3-2")[0].spec
    assert child is not None
    assert child.input == {"who": "me", "part": "two", "index": 1, "total": 2}
    assert (child.parent, child.approval) == ("j", "none")


def test_every_step_looks_again_for_children_that_are_missing(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "one", "two", "three")
    before = b.files(children[0])
    shutil.rmtree(b.folder(children[1]))
    result = b.step()
    assert (result.entries, result.state.status) == ((), Status.WAITING)
    assert b.files(children[0]) == before
    assert b.children() == children
    assert b.state(children[1]).parent == "j"


def test_a_parent_that_was_killed_while_it_made_them_goes_on(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench()
    b.follow("fan-out.yaml", steps=parts("one", "two", "three"))
    b.step()
    made = create_job

    def killed(project: Any, job_id: str, *rest: Any, **more: Any) -> Any:
        if job_id.endswith("-2"):
            raise Killed
        return made(project, job_id, *rest, **more)

    with monkeypatch.context() as patched:
        patched.setattr("logist.jobs.children.spawn.create_job", killed)
        with pytest.raises(Killed):
            b.step()
    assert (b.state().status, b.children()) == (Status.WAITING, ["j--3-1"])
    assert b.run().state.status is Status.SUCCESS
    assert b.state().results == ["one done", "two done", "three done"]


def test_a_child_begins_with_the_checkpoint_of_its_parent(bench: MakeBench) -> None:
    b = bench()
    b.follow("fan-out.yaml", steps=parts("one", "two"))
    b.step()
    (b.workspace() / "seen.txt").write_text("by a person")
    b.step()
    (b.workspace() / "later.txt").write_text("not theirs")
    shutil.rmtree(b.folder("j--3-2"))
    b.step()
    for child in b.children():
        assert (b.workspace(child) / "seen.txt").read_text() == "by a person"
        assert not (b.workspace(child) / "later.txt").exists()


def test_a_child_that_is_made_later_is_made_as_it_was_planned(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "one", "two", input={"who": "me"})
    planned = b.history(children[1])[0].spec
    file = b.project.open_job("j").spec_file
    file.write_text(file.read_text() + "role: Planner\nrank: 7\nreview_role: Worker\n")
    shutil.rmtree(b.folder(children[1]))
    b.step()
    made = b.history(children[1])[0].spec
    assert made == planned
    assert made is not None
    assert (made.doer, made.rank) == ("Worker", 0)


def test_a_job_of_another_one_is_never_taken_for_a_child(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create("j--3-2", review=False, approval="none")
    b.run("j--3-2")
    b.follow("fan-out.yaml", steps=parts("one", "two"))
    b.step()
    stuck = b.step().state
    assert (stuck.status, b.children()) == (Status.STUCK, ["j--3-2"])
    assert "j--3-2" in stuck.reason
    record_decision(b.project, "j", Kind.RESUBMIT)
    assert b.run().state.status is Status.SUCCESS
    assert b.state().results == ["one done", "two done"]


def test_a_job_that_takes_the_place_of_a_child_is_not_gathered(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "one", "two")
    shutil.rmtree(b.folder(children[1]))
    b.create(children[1], review=False, approval="none")
    work(b, children[0])
    result = b.step()
    assert (result.state.status, result.entries) == (Status.WAITING, ())
    assert "another job uses this id" in result.notes[0]


def test_an_id_that_leaves_no_room_for_children_is_told(bench: MakeBench) -> None:
    b = bench()
    name = "j" * 123
    b.follow("fan-out.yaml", name, steps=parts(*"abcdefghij"))
    b.step(name)
    stuck = b.step(name).state
    assert "too long" in stuck.reason
    assert (stuck.status, b.children(name)) == (Status.STUCK, [])


# --- what they work on ---


@pytest.mark.parametrize(
    "output",
    [None, {}, {"parts": []}, {"parts": "one, two"}, {"parts": {"a": 1}}, {"parts": None}, "text", 3],
)
def test_nothing_to_work_on_leads_on_at_once(bench: MakeBench, output: Any) -> None:
    b = bench()
    b.follow("fan-out.yaml", steps={"plan": [gave(output)], "gather": [gave("none")]})
    assert b.run().state.status is Status.SUCCESS
    assert (b.children(), b.state().results, b.state().outputs["each"]) == ([], [], [])
    assert b.history()[2].kind is Kind.SPAWN


def test_items_may_be_anything(bench: MakeBench) -> None:
    b = bench()
    items = [None, False, "{{output}}", {"a": "{{index}}"}]
    b.follow("fan-out.yaml", steps={**parts(*items), "each": [gave()]})
    assert b.run().state.status is Status.SUCCESS
    prompts = [child["prompt"] for child in b.history()[2].command["children"]]
    assert prompts[0].startswith("Do part null, number 0")
    assert prompts[2] == "Do part {{output}}, number 2 of 4."
    assert '"a": "{{index}}"' in prompts[3]
    assert len(b.state().results or []) == len(items)


def test_a_hundred_items_are_given_away_and_101_are_refused(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench()
    b.follow(
        "fan-out.yaml",
        steps={
            "plan": [gave({"parts": list(range(101))}), gave({"parts": list(range(100))})],
            "each": [gave()],
        },
        limits={"max_allowed_iterations": 1000},
    )
    b.step()
    stuck = b.step()
    assert (stuck.exit_code, stuck.state.status, b.children()) == (3, Status.STUCK, [])
    assert "101 items" in stuck.state.reason
    record_decision(b.project, "j", Kind.RESUBMIT)
    again = b.step().state
    assert (again.status, again.reason) == (Status.STUCK, stuck.state.reason)
    record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(step="plan"), note="At most 100.")
    b.step()
    monkeypatch.setattr(
        "logist.jobs.children.spawn.create_job", lambda *given, **more: None
    )  # a hundred jobs take their time
    waiting = b.step()
    assert (waiting.state.status, len(waiting.state.children)) == (Status.WAITING, 100)
    assert "waiting for 100 of 100 child jobs" in waiting.notes[0]
    assert "and 95 more" in waiting.notes[0]
    assert b.history()[-1].command["children"][99]["prompt"] == "Do part 99, number 99 of 100."
    assert b.history()[-1].command["children"][99]["shares_limits"] is True


def test_a_steward_goes_on_in_place_of_too_many_items(bench: MakeBench) -> None:
    b = bench()
    b.follow("fan-out.yaml", steps={"plan": [gave({"parts": list(range(101))})], "gather": [gave("all")]})
    b.step()
    b.step()
    b.give(command(output=["by hand"]))
    assert (b.state().step, b.state().outputs["each"]) == ("gather", ["by hand"])
    assert b.run().state.status is Status.SUCCESS
    assert "by hand" in b.history()[-1].request.prompt


@pytest.mark.deep
def test_long_lists_are_not_given_to_each_child_again(bench: MakeBench) -> None:
    b = bench()
    items = [f"{number}:" + "x" * 50_000 for number in range(5)]
    b.follow("fan-out.yaml", steps={"plan": [gave({"parts": items, "style": "short"})], "each": [gave()]})
    b.step()
    b.step()
    assert len(json.dumps(b.history()[2].command)) < 3 * 5 * 50_100
    spec = b.history("j--3-4")[0].spec
    assert spec is not None
    assert sorted(spec.input) == ["index", "part", "style", "total"]


# --- how they are gathered ---


def test_their_work_is_merged_in_the_order_of_the_items(bench: MakeBench) -> None:
    b = bench()
    each = {
        number: [gave(number, files={f"part-{number}.txt": str(number), f"dir/{number}": "x"})]
        for number in (1, 2, 3)
    }
    children = given_away(b, "a", "b", "c", each=each)
    (b.workspace() / "mine.txt").write_text("a person was here meanwhile")
    work(b, *reversed(children))
    result = b.step()
    assert (result.state.status, result.state.step) == (Status.PENDING, "gather")
    assert result.state.results == [1, 2, 3]
    assert (b.workspace() / "part-2.txt").read_text() == "2"
    assert (b.workspace() / "mine.txt").exists()
    collected = b.history()[3]
    assert [child["output"] for child in collected.command["children"]] == [1, 2, 3]
    assert collected.checkpoint_after == result.state.checkpoint
    b.step()
    prompt = b.history()[4].request.prompt
    assert "## Results of the previous jobs" in prompt
    assert prompt.index('"output": 1') < prompt.index('"output": 2') < prompt.index('"output": 3')
    assert "3 jobs ended with COMPLETED: 3 of 3 jobs succeeded" in prompt
    assert "- plan: Done." in prompt


def test_each_result_has_its_item_and_index_also_where_one_is_missing(
    bench: MakeBench, tmp_path: Path
) -> None:
    b = bench()
    flow = tmp_path / "some.yaml"
    flow.write_text(
        "steps:\n- {id: plan, prompt: x}\n"
        "- {id: each, stepType: foreach, itemsPath: output.parts, itemVariable: part, minSuccessPercent: 60, prompt: 'Do it.'}\n"
        "- {id: gather, stepType: join, prompt: '{{range aggregatedResults}}Now {{.index}} {{.item}} {{.output}}.{{end}}'}\n"
    )
    first, second, third = given_away(b, "a", "b", "c", workflow=str(flow))
    record_decision(b.project, second, Kind.CANCEL)
    work(b, first, third)
    state = b.step().state
    assert state.results == ["a done", "c done"]
    assert state.result_items == [{"item": "a", "index": 0}, {"item": "c", "index": 2}]
    b.step()
    prompt = b.history()[-1].request.prompt
    assert "Now 0 a a done.Now 2 c c done." in prompt
    assert '"index": 2' in prompt


NO_ITEMS = {
    "empty": ({"parts": []}, "`output.parts` is an empty list"),
    "missing": ({}, "`output.parts` is missing"),
    "text": ({"parts": "a, b"}, "`output.parts` is text, not a list"),
    "null": ({"parts": None}, "`output.parts` is null, not a list"),
}


@pytest.mark.parametrize(("output", "why"), NO_ITEMS.values(), ids=NO_ITEMS)
def test_a_foreach_without_items_says_why(bench: MakeBench, output: Json, why: str) -> None:
    b = bench()
    b.follow("fan-out.yaml", steps={"plan": [gave(output)]})
    b.step()
    spawned = b.step().entries[-1]
    assert (spawned.kind, spawned.state_after) == (Kind.SPAWN, Status.PENDING)
    assert spawned.reason == f"each: no items, because {why}"


def test_the_prompt_of_an_item_knows_the_job_it_does_a_part_of(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    flow = tmp_path / "parent.yaml"
    flow.write_text(
        "steps:\n- {id: plan, prompt: x}\n"
        "- {id: each, stepType: foreach, itemsPath: output.parts, prompt: 'Do {{item}} for {{parentId}}.'}\n"
        "- {id: gather, stepType: join, prompt: x}\n"
    )
    (child,) = given_away(b, "a", workflow=str(flow))
    b.run(child)
    assert "Do a for j." in b.history(child)[1].request.prompt


def test_a_file_that_no_checkpoint_holds_is_named_and_is_no_evidence(bench: MakeBench) -> None:
    b = bench(settings={"workspace": {"max_checkpoint_bytes": 100}})
    files = {"big.bin": "x" * 101, "small.txt": "1"}
    made = answer(command(evidence=["small.txt", "big.bin"], output=1), files=files)
    first, second = given_away(b, "a", "b", each={1: [made]})
    work(b, first, second)
    assert b.state(first).artefacts == ["small.txt", "big.bin"]
    result = b.step()
    collected = result.entries[-1]
    assert collected.command["lost"] == {first: ["big.bin (too large)"]}
    assert f"not copied because no checkpoint contains it: {first}: big.bin (too large)" in collected.reason
    assert f"evidence files not found: {first}: big.bin" in result.notes[0]
    assert sorted(path.name for path in b.workspace().glob("*.*")) == [".git", "small.txt"]
    state = b.state()
    assert state.artefacts == ["small.txt"]
    assert state.last is not None
    assert (state.last.evidence_files, state.last.missing) == (["small.txt"], ["big.bin"])
    b.step()
    assert "- named as evidence, but not found: big.bin" in b.history()[4].request.prompt


def same_file(b: Bench) -> list[str]:
    """Three children of which the first and the second write the same file."""
    each = {
        1: [answer(command(evidence=["one.txt"], output=1), files={"same.txt": "first", "one.txt": "1"})],
        2: [answer(command(evidence=["two.txt"], output=2), files={"same.txt": "second", "two.txt": "2"})],
        3: [gave(3, files={"three.txt": "3"})],
    }
    children = given_away(b, "a", "b", "c", each=each)
    work(b, *children)
    return children


def test_work_that_does_not_fit_together_is_stuck_and_named(bench: MakeBench) -> None:
    b = bench()
    children = same_file(b)
    result = b.step()
    assert (result.exit_code, result.state.place.stuck and result.state.place.stuck.kind) == (
        3,
        StuckKind.CONFLICT,
    )
    assert f"{children[1]}: same.txt" in result.state.reason
    assert list(b.workspace().glob("*.txt")) == []
    assert b.history()[-1].command["left_out"] == {children[1]: ["same.txt"]}
    record_decision(b.project, "j", Kind.RESUBMIT)
    assert b.step().state.status is Status.STUCK
    record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(force=True))
    forced = b.step()
    assert forced.state.step == "gather"
    assert sorted(path.name for path in b.workspace().glob("*.txt")) == ["one.txt", "same.txt", "three.txt"]
    assert (b.workspace() / "same.txt").read_text() == "first"
    assert forced.state.results == [1, 3]
    assert forced.entries[-1].command["left_out"] == {children[1]: ["same.txt"]}
    assert forced.state.artefacts == ["one.txt"]
    assert any("same.txt" in said for said in forced.notes)


def fails(*, retry: bool = False) -> list[Json]:
    return [gave(action="RETRY" if retry else "STUCK")] * 3


def test_enough_of_them_is_enough_and_the_others_are_canceled(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "a", "b", workflow="half.yaml", each={2: fails(retry=True)})
    assert b.run().state.status is Status.SUCCESS
    assert b.state().results == ["a done"]
    assert b.state(children[1]).status is Status.CANCELED
    assert b.history()[3].command["children"][1]["status"] == "STUCK"
    assert "1 of 2 jobs succeeded" in b.history()[4].request.prompt


def test_too_few_of_them_are_stuck(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "a", "b", each={2: fails(retry=True)})
    result = b.run()
    assert (result.exit_code, result.state.place.stuck and result.state.place.stuck.kind) == (
        3,
        StuckKind.SHARE,
    )
    assert f"only 1 of 2 child jobs succeeded, but 100 % must: {children[1]} (STUCK)" in result.state.reason
    with pytest.raises(Refused, match="can't"):
        b.give(command())
    assert b.state(children[1]).status is Status.STUCK


def test_a_failed_child_is_resolved_and_looked_at_again(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "a", "b", each={2: [*fails(retry=True), gave("b after all")]})
    b.run()
    record_decision(b.project, children[1], Kind.RESUBMIT, note="Try it so.")
    b.run(children[1])
    record_decision(b.project, "j", Kind.RESUBMIT)
    assert b.state().status is Status.WAITING
    assert b.run().state.status is Status.SUCCESS
    assert b.state().results == ["a done", "b after all"]


def test_what_there_is_can_be_forced(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "a", "b", each={2: fails(retry=True)})
    b.run()
    record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(force=True))
    assert b.run().state.status is Status.SUCCESS
    assert b.state().results == ["a done"]
    assert b.state(children[1]).status is Status.CANCELED


def test_a_steward_who_leads_elsewhere_leaves_no_child_behind(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "a", "b", each={2: fails(retry=True)})
    b.run()
    put = record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(step="gather"))
    assert (put.state.step, put.state.children) == ("gather", [])
    assert b.state(children[1]).status is Status.CANCELED
    assert b.run().state.status is Status.SUCCESS


def test_a_child_that_is_stuck_is_waited_for(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "a", "b", workflow="half.yaml", each={2: [*fails()[:1], gave("late")]})
    result = b.run()
    assert (result.state.status, result.exit_code) == (Status.WAITING, 3)
    assert b.step().exit_code == 3
    record_decision(b.project, children[1], Kind.RESUBMIT)
    assert b.run().state.status is Status.SUCCESS
    assert b.state().results == ["a done", "late"]


def test_a_child_that_got_no_answer_until_its_attempts_ran_out_is_not_waited_for(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "a")
    without_answer = {"error": {"kind": "transient", "message": "gone"}}
    b.script({"each": [without_answer] * 3})
    b.run()
    stuck = b.state(children[0]).place.stuck
    assert stuck is not None
    assert stuck.kind is StuckKind.ATTEMPTS
    assert b.state().status is Status.STUCK


def test_a_child_in_doubt_is_waited_for(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "a", "b", each={1: [gave(), gave("after all")]})
    left_in_flight(b, children[0])[0].mark_sent(1)
    result = b.run()
    stuck = b.state(children[0]).place.stuck
    assert stuck is not None
    assert stuck.kind is StuckKind.IN_DOUBT
    assert (result.state.status, result.exit_code) == (Status.WAITING, 3)
    record_decision(b.project, children[0], Kind.RESUBMIT, command=ResubmitCommand(doubt="assume_paid"))
    assert b.run().state.status is Status.SUCCESS
    assert b.state().results == ["after all", "b done"]
    assert (b.state().usage.cumulative_cost, b.state().usage.cumulative_cost_microcents) == (1, 500_000)


def test_a_child_at_a_limit_of_its_own_is_waited_for(bench: MakeBench) -> None:
    b = bench()
    (child,) = given_away(b, "a", each={1: [*fails(retry=True)[:2], gave("late")]})
    job_edits.configure_job(b.project, child, {("limits", "max_allowed_iterations"): 2})
    result = b.run()
    assert b.state(child).status is Status.HALTED_ITERATION
    assert (result.state.status, result.exit_code) == (Status.WAITING, 7)
    job_edits.configure_job(b.project, child, {("limits", "max_allowed_iterations"): None})
    record_decision(b.project, child, Kind.RESUME)
    assert b.run().state.status is Status.SUCCESS
    assert (b.state().results, b.state().usage.current_action_count) == (["late"], 5)


def test_the_exit_code_of_a_job_that_waits_tells_of_its_children(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "a", "b", each={1: [gave()], 2: fails()})
    assert b.step().exit_code == 0
    work(b, children[0])
    assert b.step().exit_code == 0
    work(b, children[1])
    assert b.step().exit_code == 3


# --- what they use ---


def test_what_was_used_is_booked_once(bench: MakeBench) -> None:
    b = bench()
    each = {1: [gave(1, usage=COST)], 2: [gave(None, "RETRY", usage=COST)] * 3}
    b.follow(
        "fan-out.yaml",
        steps={**parts("a", "b"), "plan": [gave({"parts": ["a", "b"]}, usage={"cost_cents": 10})]}
        | {f"each[{number}]": answers for number, answers in each.items()},
    )
    b.run()
    state = b.state()
    assert state.status is Status.STUCK
    booked = (24, 0, 5, 40, 8)  # ten cents, and four times three and a half
    assert totals(b) == booked
    for _ in range(2):
        record_decision(b.project, "j", Kind.RESUBMIT)
        b.step()
        assert totals(b) == booked
    record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(force=True))
    b.step()
    assert totals(b) == booked
    restep_job(b.project, "j", b.state().revision)
    b.step()
    assert b.state().step == "gather"  # as it was forced then
    assert totals(b) == booked


def totals(b: Bench, job_id: str = "j") -> tuple[int, int, int, int, int]:
    used = b.state(job_id).usage
    return (
        used.cumulative_cost,
        used.cumulative_cost_microcents,
        used.current_action_count,
        used.input_tokens,
        used.output_tokens,
    )


def test_a_child_that_was_started_over_is_booked_for_what_it_used_since(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "a", each={1: [gave(None, "RETRY", usage=COST)] * 3})
    b.run()
    assert totals(b)[:3] == (10, 500_000, 4)
    b.script({"each": [gave("fine", usage=COST)], "gather": [gave()]})
    rerun_job(b.project, children[0])
    b.run(children[0])
    record_decision(b.project, "j", Kind.RESUBMIT)
    b.step()
    assert b.state().results == ["fine"]
    assert totals(b)[:3] == (14, 0, 5)


def test_what_was_used_stays_used_when_the_parent_goes_back(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "a", "b", each={1: [gave(1, usage=COST)]})
    work(b, children[0])
    restep_job(b.project, "j", 3)
    assert (b.state().children, b.state(children[1]).status) == ([], Status.CANCELED)
    assert totals(b) == (3, 500_000, 2, 10, 2)
    restep_job(b.project, "j", 3)
    assert totals(b) == (3, 500_000, 2, 10, 2)


def test_children_are_not_made_where_the_limits_leave_no_run_for_each(bench: MakeBench) -> None:
    b = bench()
    b.follow("fan-out.yaml", steps=parts(*"abcd"), limits={"max_allowed_iterations": 4})
    b.step()
    halted = b.step()
    assert (halted.exit_code, halted.state.status, b.children()) == (7, Status.HALTED_ITERATION, [])
    assert "1 of 4 runs used, but 4 more are needed" in halted.state.reason
    b.project.open_job("j").spec_file.write_text(
        b.project.open_job("j")
        .spec_file.read_text()
        .replace("max_allowed_iterations: 4", "max_allowed_iterations: 9")
    )
    record_decision(b.project, "j", Kind.RESUME)
    assert b.run().state.status is Status.SUCCESS


def test_an_item_that_no_job_could_read_back_is_told(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    file = tmp_path / "w.yaml"
    file.write_text(
        "name: W\nsteps:\n- {id: m, execution: manual, prompt: x}\n"
        "- {id: s, stepType: foreach, itemsPath: output.x, prompt: y}\n"
    )
    b.follow(file)
    record_decision(
        b.project, "j", Kind.APPROVE, command=ApproveCommand(output={"x": ["small", "z" * 600_000]})
    )
    stuck = b.run()
    assert (stuck.exit_code, b.children()) == (3, [])
    assert "the input of a child would be 600," in stuck.state.reason


def test_a_run_tells_that_the_provider_of_a_child_is_out(bench: MakeBench) -> None:
    b = bench()
    given_away(b, "a", each={1: [{"error": {"kind": "auth", "message": "no"}}]})
    assert b.run().exit_code == 6
