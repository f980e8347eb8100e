"""Whole jobs along the ways of a workflow: the review of a pull request, decisions, conditions, circles."""

from __future__ import annotations

from typing import Any

import pytest

from logist.core.model import Kind, Status, StuckKind
from logist.core.model.commands import ApproveCommand, ResubmitCommand
from logist.core.replay.replay import find_differences
from logist.jobs.steward.steward_decisions import record_decision, rerun_job
from tests.jobs.bench import RUNS, Bench, Json, gave
from tests.jobs.conftest import MakeBench

PR_REVIEW = RUNS.parent / "files" / "positive" / "pr-review.mmd"


def files(*paths: str) -> Json:
    return gave({"files": [{"path": path} for path in paths]})


def review(score: int, *, retry: Any = None, **more: list[Json]) -> dict[str, list[Json]]:
    """The answers of a pull request of two files with this score."""
    return {
        "A": [gave({"title": "Faster"}, files={"pr.txt": "#7"})],
        "B": [files("a.py", "b.py")],
        "C[1]": [gave({"score": 90}, files={"reviews/a.txt": "good"})],
        "C[2]": [gave({"score": 70}, files={"reviews/b.txt": "fair"})],
        "D": [gave({"score": score, "summary": "read"})],
        "F": [gave()],
        "H": [gave({"shouldRetry": retry} if retry is not None else None)],
        "I": [gave({"merged": True})],
        "K": [gave()],
        **more,
    }


def path_of(b: Bench, job_id: str = "j") -> list[str]:
    """The steps at which something was done, and the branches that were taken."""
    done = []
    for entry in b.history(job_id):
        if entry.kind in (Kind.ASK, Kind.APPROVE, Kind.SPAWN):
            done.append(str(entry.step if entry.kind is not Kind.APPROVE else entry.kind))
        done += [f"{told['decision']}>{told['branch']}" for told in entry.route if "decision" in told]
    return done


def pull_request(b: Bench, answers: dict[str, list[Json]]) -> Status:
    b.follow(PR_REVIEW, steps=answers, input={"prNumber": 7})
    return b.run().state.status


def test_a_good_pull_request_is_approved_and_merged_without_a_person(bench: MakeBench) -> None:
    b = bench()
    assert pull_request(b, review(80)) is Status.SUCCESS
    assert path_of(b) == ["A", "B", "C", "D", "E>F", "F", "I"]
    assert b.children() == ["j--4-1", "j--4-2"]
    assert b.history()[1].request.prompt.count("Fetch PR #7 metadata") == 1
    state = b.state()
    assert (state.children, state.results) == ([], [{"score": 90}, {"score": 70}])
    assert state.outputs["I"] == {"merged": True}
    assert (b.workspace() / "reviews" / "b.txt").read_text() == "fair"


def test_a_child_of_a_foreach_is_an_ordinary_job(bench: MakeBench) -> None:
    b = bench()
    pull_request(b, review(80))
    child = b.state("j--4-2")
    assert (child.status, child.parent, child.tags) == (Status.SUCCESS, "j", ["foreach:j"])
    assert child.title == "b.py (pr-review: Review File [2/2])"
    prompt = b.history("j--4-2")[1].request.prompt
    assert "Review b.py for code style" in prompt
    assert "Review a.py" not in prompt
    assert (b.workspace("j--4-2") / "pr.txt").read_text() == "#7"
    assert not (b.workspace("j--4-2") / "reviews" / "a.txt").exists()


def test_a_fair_pull_request_waits_for_a_person(bench: MakeBench) -> None:
    b = bench()
    assert pull_request(b, review(50)) is Status.APPROVAL_REQUIRED
    state = b.state()
    assert (state.place.awaiting, state.step, b.run().exit_code) == ("manual", "G", 11)
    record_decision(
        b.project,
        "j",
        Kind.APPROVE,
        command=ApproveCommand(output={"verdict": "fine"}),
        note="I have read it.",
    )
    assert b.state().outputs["G"] == {"verdict": "fine"}
    assert b.run().state.status is Status.SUCCESS
    assert path_of(b)[-3:] == ["E>G", "approve", "I"]
    prompt = b.history()[-1].request.prompt
    assert '"verdict": "fine"' in prompt
    assert "I have read it." in prompt


def test_a_person_who_rejects_a_step_resolves_it_later(bench: MakeBench) -> None:
    b = bench()
    pull_request(b, review(50))
    rejected = record_decision(b.project, "j", Kind.REJECT, note="The tests are missing.").state
    assert rejected.place.stuck is not None
    assert (rejected.status, rejected.place.stuck.kind, rejected.place.stuck.reason) == (
        Status.STUCK,
        StuckKind.AGENT,
        "The tests are missing.",
    )
    again = record_decision(b.project, "j", Kind.RESUBMIT).state
    assert (again.status, again.place.awaiting, again.step) == (Status.APPROVAL_REQUIRED, "manual", "G")
    record_decision(b.project, "j", Kind.APPROVE)
    assert b.run().state.status is Status.SUCCESS


def test_changes_are_asked_for_and_the_circle_leads_to_a_merge(bench: MakeBench) -> None:
    b = bench()
    answers = review(10, retry=True)
    answers |= {name: answers[name] * 2 for name in ("A", "F")}
    answers |= {"B": [files("a.py", "b.py"), files("a.py")], "D": [answers["D"][0], gave({"score": 99})]}
    assert pull_request(b, answers) is Status.SUCCESS
    first = ["A", "B", "C", "D", "E>H", "H", "J>A"]
    assert path_of(b) == [*first, "A", "B", "C", "D", "E>F", "F", "I"]
    assert b.state().visits == {"E": 2, "J": 1}
    assert b.state().results == [{"score": 90}]
    assert b.children() == ["j--4-1", "j--4-2", "j--10-1"]


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize("retry", [False, None, 0, ""])
def test_a_pull_request_that_is_not_tried_again_is_closed(bench: MakeBench, retry: Any) -> None:
    b = bench()
    assert pull_request(b, review(49, retry=retry) | {"B": [gave({"files": []})]}) is Status.SUCCESS
    assert path_of(b) == ["A", "B", "C", "D", "E>H", "H", "J>K", "K"]
    assert (b.children(), b.state().results, b.state().outputs["C"]) == ([], [], [])


def test_a_rerun_goes_along_the_whole_way_again(bench: MakeBench) -> None:
    b = bench()
    pull_request(b, review(80))
    rerun_job(b.project, "j")
    assert b.state().visits is None
    assert b.run().state.status is Status.SUCCESS
    assert path_of(b)[:7] == path_of(b)[7:]
    assert len(b.children()) == 4


def test_decisions_follow_each_other_at_once(bench: MakeBench) -> None:
    b = bench()
    b.follow(
        "decisions.mmd",
        steps={"A": [gave({"sound": True, "size": 11, "choice": " yes "})], "U": [gave()]},
    )
    assert b.run().state.status is Status.SUCCESS
    assert path_of(b) == ["A", "B>C", "C>D", "D>U", "U"]
    assert b.history()[1].route[1]["values"] == {"output.size": 11}


def test_another_way_through_the_decisions_is_found_by_a_replay(bench: MakeBench) -> None:
    b = bench()
    assert pull_request(b, review(80)) is Status.SUCCESS
    history = b.history()
    assert list(find_differences(history, b.project.schema)) == []
    at = next(number for number, entry in enumerate(history) if entry.route)
    (told,) = history[at].route
    for other, said in (("I", "E chooses I"), ("", "E chooses the end"), (None, "E chooses no branch")):
        changed = history[at].model_copy(update={"route": [{**told, "branch": other}]})
        (found,) = find_differences([*history[:at], changed, *history[at + 1 :]], b.project.schema)
        assert (found.sequence, found.field) == (at + 1, "route")
        assert (found.recorded, found.today) == (said, "E chooses F")
    unseen = history[at].model_copy(update={"route": []})
    (found,) = find_differences([*history[:at], unseen, *history[at + 1 :]], b.project.schema)
    assert (found.recorded, found.today) == ("no decision", "E chooses F")
    other_words = history[at].model_copy(update={"route": [{**told, "condition": "?", "values": {}}]})
    assert list(find_differences([*history[:at], other_words, *history[at + 1 :]], b.project.schema)) == []


def test_no_branch_is_stuck_with_what_it_saw_and_a_person_leads_on(bench: MakeBench) -> None:
    b = bench()
    b.follow("decisions.mmd", steps={"A": [gave({"sound": True, "size": "large"})], "S": [gave()]})
    stuck = b.run()
    assert (stuck.exit_code, stuck.state.step) == (3, "A")
    assert stuck.state.place.stuck is not None
    assert stuck.state.place.stuck.kind is StuckKind.NO_BRANCH
    for word in ("'C'", "output.size = 'large'"):
        assert word in stuck.state.place.stuck.reason
    assert stuck.state.reason == stuck.state.place.stuck.reason
    put = record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(step="S")).state
    assert (put.status, put.step) == (Status.PENDING, "S")
    assert b.run().state.status is Status.SUCCESS


def test_a_resubmit_after_no_branch_does_the_step_again(bench: MakeBench) -> None:
    b = bench()
    b.follow("decisions.mmd", steps={"A": [gave(), gave({"sound": True, "size": 1})], "S": [gave()]})
    b.run()
    assert record_decision(b.project, "j", Kind.RESUBMIT, note="Give the size.").state.step == "A"
    assert b.run().state.status is Status.SUCCESS
    assert "Give the size." in b.history()[-2].request.prompt


def test_a_step_is_passed_over_where_its_condition_does_not_hold(bench: MakeBench) -> None:
    b = bench()
    b.follow(
        "guarded.yaml", steps={"try": [gave({"done": True, "more": True})], "extra": [gave({"done": True})]}
    )
    assert b.run().state.status is Status.SUCCESS
    assert path_of(b) == ["try", "extra", "again>"]
    b.script({"try": [gave({"done": True})]})
    rerun_job(b.project, "j")
    assert b.run().state.status is Status.SUCCESS
    assert path_of(b)[3:] == ["try", "again>"]
    assert b.history()[-1].route[0]["skipped"] == "extra"


def test_a_circle_is_left_after_its_visits(bench: MakeBench) -> None:
    b = bench()
    b.follow("guarded.yaml", steps={"try": [gave({"done": False})] * 3, "give-up": [gave()]})
    assert b.run().state.status is Status.SUCCESS
    assert path_of(b)[-3:] == ["try", "again>give-up", "give-up"]
    assert path_of(b).count("try") == 3


def test_a_job_whose_first_decision_has_no_branch_can_be_led_on(bench: MakeBench) -> None:
    b = bench()
    place = b.project.home / "first.yaml"
    place.write_text(
        "name: First\nsteps:\n- {id: d, stepType: decision, branches: [{condition: input.x, to: a}]}\n"
        "- {id: a, prompt: Do a.}\n"
    )
    state = b.follow(place, input={"x": 0})
    assert state.place.stuck is not None
    assert (state.status, state.place.stuck.kind) == (Status.STUCK, StuckKind.NO_BRANCH)
    assert "input.x = 0" in state.reason
    again = record_decision(b.project, "j", Kind.RESUBMIT).state
    assert again.status is Status.STUCK
    b.script({"a": [gave()]})
    record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(step="a"))
    assert b.run().state.status is Status.SUCCESS


def test_an_approval_records_the_step_that_is_approved(bench: MakeBench) -> None:
    b = bench()
    pull_request(b, review(50))
    record_decision(b.project, "j", Kind.APPROVE, command=ApproveCommand(output={"verdict": "fine"}))
    approved = b.history()[-1]
    assert (approved.kind, approved.step, b.state().step) == (Kind.APPROVE, "G", "I")
    assert not list(find_differences(b.history(), b.project.schema))
