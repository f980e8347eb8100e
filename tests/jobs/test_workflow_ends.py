"""A job with a workflow comes to an end, says so truly, and books all that was used for it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from logist.core.model import Kind, Status, StuckKind
from logist.core.model.commands import ApproveCommand, ResubmitCommand
from logist.errors import Refused, UsageError
from logist.jobs import job_queue
from logist.jobs.base import family
from logist.jobs.base.project import ProjectContext
from logist.jobs.steward import agent_stop, job_edits
from logist.jobs.steward.steward_decisions import record_decision, rerun_job, restep_job
from tests.jobs.bench import Bench, answer, command, gave
from tests.jobs.conftest import MakeBench
from tests.jobs.test_workflow_children import COST, given_away, parts, work
from tests.jobs.test_workflow_family import ended


def all_run(b: Bench) -> list[job_queue.EndedJob]:
    return list(job_queue.run_queue(b.project, 2, lambda result: None))


def spent(b: Bench) -> int:
    usage = b.state().usage
    return usage.cumulative_cost * 1_000_000 + usage.cumulative_cost_microcents


def test_a_circle_in_which_nothing_is_found_to_do_ends_at_the_limit(bench: MakeBench) -> None:
    b = bench()
    b.follow("nothing.yaml", limits={"max_allowed_iterations": 7})
    assert b.run().state.status is Status.HALTED_ITERATION
    assert b.state().usage.current_action_count == 7


@pytest.mark.parametrize("kind", [Kind.CANCEL, Kind.FAIL])
def test_what_children_have_used_is_booked_when_nobody_waits_any_more(bench: MakeBench, kind: Kind) -> None:
    b = bench()
    children = given_away(b, "a", "b", each={1: [gave("a", usage=COST)]})
    work(b, children[0])
    record_decision(b.project, "j", kind)
    assert (spent(b), b.state().usage.current_action_count) == (3_500_000, 2)


def test_a_child_that_was_started_over_is_booked_for_both_times(bench: MakeBench) -> None:
    b = bench()
    costs = [gave("a", usage=COST)] * 2
    children = given_away(b, "a", "b", each={1: costs, 2: [answer(command("STUCK"))] * 3})
    work(b, *children)
    rerun_job(b.project, children[0])
    work(b, children[0])
    record_decision(b.project, children[1], Kind.FAIL)
    assert b.run().state.status is Status.STUCK
    assert spent(b) == 7_000_000


def test_an_item_too_deep_for_a_job_stops_before_any_is_made(bench: MakeBench) -> None:
    b = bench()
    deep: Any = "x"
    for _ in range(70):
        deep = [deep]
    b.follow("fan-out.yaml", steps={**parts("a"), "plan": [gave({"parts": [deep]})]})
    result = b.run()
    assert result.state.status is Status.STUCK
    assert "levels deep" in result.state.reason
    assert b.children() == []


def test_a_state_that_is_behind_keeps_no_parent_waiting(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "a", "b")
    behind = (b.folder(children[0]) / "state.json").read_bytes()
    work(b, *children)
    (b.folder(children[0]) / "state.json").write_bytes(behind)  # killed between the history and the state
    all_run(b)
    all_run(b)
    assert b.state().status is Status.SUCCESS


def test_a_parent_that_was_resumed_before_a_kill_keeps_no_child_waiting(bench: MakeBench) -> None:
    b = bench()
    (child,) = given_away(b, "a")
    job_edits.configure_job(b.project, "j", {("limits", "max_allowed_iterations"): 1})
    b.run()
    assert b.state().status is Status.HALTED_ITERATION
    job_edits.configure_job(b.project, "j", {("limits", "max_allowed_iterations"): 9})
    behind = (b.folder() / "state.json").read_bytes()
    record_decision(b.project, "j", Kind.RESUME)
    (b.folder() / "state.json").write_bytes(behind)  # killed between the history and the state
    assert job_queue.list_ready_jobs(b.project) == [child]


def test_a_child_that_was_approved_before_a_kill_keeps_no_parent_waiting(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "a", each={1: [answer("?")]})
    work(b, *children)
    behind = (b.folder(children[0]) / "state.json").read_bytes()
    record_decision(b.project, children[0], Kind.CANCEL)
    (b.folder(children[0]) / "state.json").write_bytes(behind)  # killed between the history and the state
    assert "j" in job_queue.list_ready_jobs(b.project)
    assert job_queue.find_held_up_jobs(b.project) == []


def test_children_that_a_killed_cancel_left_are_canceled_by_the_next_run(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "a", "b")
    ended(b)
    assert {b.state(child).status for child in children} == {Status.PENDING}
    all_run(b)
    assert {b.state(child).status for child in children} == {Status.CANCELED}
    assert all(len(b.history(child)) == 2 for child in children)


def test_children_of_a_job_that_is_set_aside_are_passed_over(bench: MakeBench) -> None:
    b = bench()
    given_away(b, "a")
    record_decision(b.project, "j", Kind.SUSPEND)
    assert [each.error for each in all_run(b)] == [None]
    assert any("the parent job j is SUSPENDED" in line for line in b.said)


def test_a_step_for_others_is_given_away_again_after_a_given_retry(bench: MakeBench) -> None:
    b = bench()
    b.follow("fan-out.yaml", steps=parts(*range(101)))
    b.run()
    assert b.state().status is Status.STUCK
    b.give(command("RETRY"))
    assert (b.state().status, b.state().place.spawns) == (Status.PENDING, True)


def test_work_that_was_not_gathered_is_not_reviewed(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "a", "b", each={2: [answer(command("STUCK"))]})
    work(b, *children)
    record_decision(b.project, children[1], Kind.FAIL)
    assert b.step().state.status is Status.STUCK
    with pytest.raises(Refused):
        record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(review=True))
    assert b.state().children == children


def test_an_output_that_nobody_will_read_is_refused(bench: MakeBench) -> None:
    b = bench([answer(), answer()])
    b.create()
    b.step()
    b.step()
    with pytest.raises(UsageError, match="no later step reads the output"):
        record_decision(b.project, "j", Kind.APPROVE, command=ApproveCommand(output=1))


def test_m25_a_suggestion_counts_when_the_reviewer_has_seen_the_work(bench: MakeBench) -> None:
    b = bench()
    told = command(metadata={"suggested_next_stage": "second"}, output={})
    b.follow(
        "suggested.yaml", steps={"make": [answer(told), answer()], "second": [gave(2)], "first": [gave(1)]}
    )
    assert b.run().state.status is Status.SUCCESS
    assert b.state().outputs == {"make": {}, "second": 2}


def test_a_child_that_can_not_be_read_is_told_by_the_exit_code(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "a", "b")
    work(b, children[1])
    state = b.folder(children[0]) / "state.json"
    whole = state.read_bytes()
    state.write_text("{}")
    assert b.step().exit_code == 10
    assert family.waiting_exit_code(b.project, b.state()) == 10
    state.write_bytes(whole)  # every job of a test is verified at its end


def test_a_child_left_behind_is_no_concern_of_the_run(bench: MakeBench) -> None:
    b = bench()
    retry = [answer(command("RETRY"))] * 3
    given_away(b, "a", "b", workflow="half.yaml", each={2: retry})
    ends = all_run(b)
    assert b.state().status is Status.SUCCESS
    counted = [
        each.exit_code
        for each in ends
        if each.result and not job_queue.is_left_behind(b.project, each.job_id, each.result.state.parent)
    ]
    assert counted == [0]


def test_m50_the_items_may_stand_in_the_input(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    steps = "- {id: each, stepType: foreach, itemsPath: names, prompt: 'Greet {{item}}.'}"
    (tmp_path / "w.yaml").write_text(f"name: W\nsteps:\n{steps}\n")
    b.script({"each": [gave(1)]})
    b.follow(tmp_path / "w.yaml", input={"names": ["Ada", "Bob"]})
    assert b.run().state.status is Status.SUCCESS
    assert b.state().results == [1, 1]


@pytest.mark.parametrize(
    ("output", "results"),
    [(["a", 2], ["a", 2]), ([], []), (None, []), ({"x": 1}, [{"x": 1}])],
)
def test_what_a_steward_gives_for_a_foreach_is_its_results(
    bench: MakeBench, tmp_path: Path, output: Any, results: list[Any]
) -> None:
    b = bench()
    file = tmp_path / "w.yaml"
    file.write_text(
        "name: W\nsteps:\n- {id: p, prompt: x}\n"
        "- {id: s, stepType: foreach, itemsPath: output.x, maxItems: 1, prompt: y}\n"
        "- {id: d, stepType: decision, branches: [{condition: aggregatedResults.length > 1, to: many}], defaultBranch: few}\n"
        "- {id: few, prompt: '{{aggregatedResults}}', next: end}\n"
        "- {id: many, prompt: '{{aggregatedResults}}'}\n"
    )
    b.follow(file, steps={"p": [gave({"x": [1, 2]})], "few": [gave()], "many": [gave()]})
    assert b.run().state.status is Status.STUCK
    b.give(command(output=output))
    assert (b.state().step, b.state().results) == ("many" if len(results) > 1 else "few", results)
    assert b.run().state.status is Status.SUCCESS


def test_what_a_steward_approves_in_place_of_what_was_gathered_is_the_results(
    bench: MakeBench, tmp_path: Path
) -> None:
    b = bench()
    file = tmp_path / "w.yaml"
    file.write_text(
        "name: W\nsteps:\n- {id: p, prompt: x}\n- {id: s, stepType: foreach, itemsPath: output.x, prompt: y}\n"
    )
    b.follow(file, approval="end", steps={"p": [gave({"x": [1, 2]})], "s": [gave("theirs")]})
    assert b.run().state.results == ["theirs", "theirs"]
    record_decision(b.project, "j", Kind.APPROVE, command=ApproveCommand(output=["mine"]))
    assert (b.state().results, b.state().outputs["s"]) == (["mine"], ["mine"])


def test_a_mapping_says_what_each_item_is_given_beside_itself(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    file = tmp_path / "w.yaml"
    file.write_text(
        "name: W\nsteps:\n- {id: p, prompt: x}\n- id: s\n  stepType: foreach\n  itemsPath: output.x\n"
        "  inputMapping: {input.deep.tone: tone, output.x: all, item.name: who, index: at, input.none: none}\n"
        "  prompt: y\n"
    )
    b.follow(file, input={"deep": {"tone": "kind"}, "more": 1}, steps={"p": [gave({"x": [{"name": "Ada"}]})]})
    b.step()
    b.step()
    (child,) = b.children()
    spec = b.history(child)[0].spec
    assert spec is not None
    item = {"name": "Ada"}
    assert spec.input == {
        "tone": "kind", "all": [item], "who": "Ada", "at": 0, "item": item, "index": 0, "total": 1,
    }  # fmt: skip
    assert "given" not in b.history()[2].command


def test_children_that_are_at_work_are_ended_at_the_same_time(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench()
    children = given_away(b, "a", "b", "c")
    met = threading.Barrier(2, timeout=30)
    ending = agent_stop.end_agent

    def end_agent(project: ProjectContext, job_id: str) -> None:
        if job_id in children[:2]:
            met.wait()
        ending(project, job_id)

    monkeypatch.setattr(
        "logist.jobs.steward.steward_decisions._is_busy", lambda project, job_id: job_id in children[:2]
    )
    monkeypatch.setattr("logist.jobs.steward.agent_stop.end_agent", end_agent)
    record_decision(b.project, "j", Kind.CANCEL)
    assert {b.state(child).status for child in children} == {Status.CANCELED}


def test_a_job_put_back_to_when_it_waited_for_jobs_that_are_canceled_makes_new_ones(bench: MakeBench) -> None:
    b = bench()
    given_away(b, "a")
    record_decision(b.project, "j", Kind.CANCEL)
    restep_job(b.project, "j", 4)
    stuck = b.step()
    assert stuck.state.place.stuck is not None
    assert stuck.state.place.stuck.kind is StuckKind.SHARE
    assert "--to STEP to create new child jobs" in stuck.next_command
    assert record_decision(
        b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(step="each")
    ).state.place.spawns
    assert b.run().state.status is Status.SUCCESS
    assert b.children() == ["j--3-1", "j--8-1"]
