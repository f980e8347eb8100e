"""The switch of role: `job role`, and what every later step makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logist.core.history import fold
from logist.core.history.fold import SWITCH
from logist.core.model import EVERYTHING, Interaction, Kind, Phase, Place, State, Status
from logist.core.model.commands import ApproveCommand
from logist.core.replay import replay
from logist.core.step.step import StepPlan
from logist.errors import InvalidFile, Refused, UsageError
from logist.jobs.archive import archive_replay
from logist.jobs.base import job_reader
from logist.jobs.steward import job_edits, steward_decisions
from logist.jobs.steward.role_switch import find_needless_switch, switch_role
from logist.jobs.turn.next_request import Choice, preview_request
from logist.roles import load_roles, role_hash
from logist.store.entries import CLOSING, format_header, seal_entry
from tests.jobs.bench import Bench, answer, command
from tests.jobs.conftest import MakeBench


def planned(b: Bench, role: str | None = None) -> StepPlan:
    """What the next step would send."""
    _, found = preview_request(b.project, "j", Choice(role))
    assert isinstance(found, StepPlan)
    return found


def doer(state: State) -> tuple[str, str, str, str | None]:
    return state.agent_role, state.agent_role_source, state.badge, state.color


def last(b: Bench) -> Interaction:
    return b.history()[-1]


PLANNER = ("Planner", SWITCH, "🔍", "blue")
ACTOR = ("Actor", SWITCH, "⚡", "green")


def test_p33_p34_p36_a_switch_is_recorded_and_moves_nothing(bench: MakeBench) -> None:
    b = bench()
    before = b.create()
    done = switch_role(b.project, "j", "Planner", note="Look first.")
    entry = last(b)
    assert (entry.kind, entry.actor, entry.sequence) == (Kind.ROLE, "steward", 2)
    assert entry.steward is not None
    assert (entry.steward.name, entry.steward.note, entry.timestamp[:10]) == (
        "ada",
        "Look first.",
        "2026-01-02",
    )
    assert entry.command == {
        "from": "Worker",
        "to": "Planner",
        "source": SWITCH,
        "badge": "🔍",
        "color": "blue",
        "sha256": role_hash(b.project.roles.get("Planner")),
    }
    assert doer(done.state) == doer(b.state()) == PLANNER
    assert done.state.place == before.place
    assert done.state.note is None


def test_p1_p3_p35_the_next_step_has_prompt_permissions_and_model_of_the_new_role(bench: MakeBench) -> None:
    b = bench([answer(), answer()])
    b.create()
    worker = planned(b)
    switch_role(b.project, "j", "Planner")
    plan = planned(b)
    assert (plan.role.name, plan.model.name) == ("Planner", plan.role.llm_model)
    assert plan.model.name != worker.model.name
    assert (worker.role.permissions, plan.role.permissions.list_names()) == (EVERYTHING, ["read_files"])
    assert plan.role.instructions in plan.request.prompt
    assert worker.role.instructions not in plan.request.prompt
    b.step()
    asked = last(b)
    assert asked.observed is not None
    assert (asked.observed.role, asked.request.prompt) == ("Planner", plan.request.prompt)
    assert {"badge": "🔍", "color": "blue"}.items() <= asked.request.metadata.items()


def test_p38_the_last_role_holds_in_every_later_command(bench: MakeBench) -> None:
    b = bench()
    b.create()
    for name in ("Planner", "Tester", "Actor"):
        switch_role(b.project, "j", name)
    assert doer(b.state()) == ACTOR
    (b.folder() / "state.json").unlink()
    assert doer(b.state()) == ACTOR
    assert [entry.command["from"] for entry in b.history()[1:]] == ["Worker", "Planner", "Tester"]


def test_the_reviewer_stays(bench: MakeBench) -> None:
    b = bench([answer(), answer()])
    b.create()
    b.step()
    switch_role(b.project, "j", "Planner")
    assert planned(b).role.name == "Supervisor"


def test_role_of_the_step_comes_before_the_switch(bench: MakeBench) -> None:
    b = bench([answer(command("RETRY"))])
    b.create()
    switch_role(b.project, "j", "Planner")
    assert planned(b, role="Tester").role.name == "Tester"
    b.step(role="Tester")
    assert planned(b).role.name == "Planner"


def test_the_switch_comes_before_the_role_of_the_job_and_of_its_type(bench: MakeBench) -> None:
    b = bench(settings={"roles": {"type_mapping": {"design": "Designer"}}})
    b.create(role="Tester", task_type="design")
    assert doer(b.state()) == ("Tester", "job", "🧪", "red")
    switch_role(b.project, "j", "Planner")
    assert planned(b).role.name == "Planner"
    switch_role(b.project, "j", None)
    assert doer(b.state()) == ("Tester", "job", "🧪", "red")
    job_edits.configure_job(b.project, "j", {("role",): None})
    assert doer(b.state())[:2] == ("Designer", "task_type design")


def test_a_changed_spec_does_not_lose_the_switch(bench: MakeBench) -> None:
    b = bench()
    b.create()
    switch_role(b.project, "j", "Planner")
    job_edits.configure_job(b.project, "j", {("role",): "Tester", ("title",): "New"})
    assert [entry.kind for entry in b.history()] == [Kind.CREATE, Kind.ROLE, Kind.SPEC]
    assert (doer(b.state()), b.state().title) == (PLANNER, "New")
    assert planned(b).role.name == "Planner"
    switch_role(b.project, "j", None)
    assert doer(b.state()) == ("Tester", "job", "🧪", "red")
    assert (last(b).command["from"], last(b).command["to"]) == ("Planner", "Tester")


def test_a_spec_that_changed_by_hand_is_recorded_before_the_switch(bench: MakeBench) -> None:
    b = bench()
    b.create()
    file = b.folder() / "job.yaml"
    file.write_text(file.read_text("utf-8") + "role: Tester\n", "utf-8")
    switch_role(b.project, "j", "Planner")
    assert [entry.kind for entry in b.history()] == [Kind.CREATE, Kind.SPEC, Kind.ROLE]
    assert last(b).command["from"] == "Tester"


@pytest.mark.parametrize("kind", ["restep", "rerun"])
def test_going_back_keeps_the_switch_as_it_is_now(bench: MakeBench, kind: str) -> None:
    b = bench([answer()])
    b.create()
    b.step()
    switch_role(b.project, "j", "Planner")
    if kind == "restep":
        steward_decisions.restep_job(b.project, "j", 2)
    else:
        steward_decisions.rerun_job(b.project, "j")
    assert doer(b.state()) == PLANNER
    (b.folder() / "state.json").unlink()
    assert doer(b.state()) == PLANNER
    assert planned(b).role.name == "Planner"


def suspended(b: Bench) -> None:
    b.create()
    steward_decisions.record_decision(b.project, "j", Kind.SUSPEND)


def halted(b: Bench) -> None:
    b.create(limits={"max_allowed_iterations": 0})
    b.step()


def stuck(b: Bench) -> None:
    b.create()
    b.step()


def approvable(b: Bench) -> None:
    b.create(review=False)
    b.give(command())


def draft(b: Bench) -> None:
    b.create(draft=True)


@pytest.mark.parametrize(
    ("prepare", "status"),
    [
        (draft, Status.DRAFT),
        (suspended, Status.SUSPENDED),
        (halted, Status.HALTED_ITERATION),
        (stuck, Status.STUCK),
        (approvable, Status.APPROVAL_REQUIRED),
    ],
)
def test_in_every_state_that_rests(
    bench: MakeBench, prepare: Callable[[Bench], None], status: Status
) -> None:
    b = bench([answer("no exit command")])
    prepare(b)
    before = b.state()
    assert before.status is status
    switch_role(b.project, "j", "Planner", note="Because.")
    after = b.state()
    assert doer(after) == PLANNER
    assert (after.status, after.reason, after.place.before) == (status, before.reason, before.place.before)


@pytest.mark.parametrize("kind", [Kind.CANCEL, Kind.FAIL])
@pytest.mark.parametrize("name", ["Planner", "Worker", None])
def test_a_job_that_has_ended_takes_none(bench: MakeBench, kind: Kind, name: str | None) -> None:
    b = bench()
    b.create()
    steward_decisions.record_decision(b.project, "j", kind)
    (b.folder() / "job.yaml").write_text("prompt: [", "utf-8")
    before = b.files()
    assert find_needless_switch(b.project, "j", name) is None
    with pytest.raises(Refused, match="can't switch the role"):
        switch_role(b.project, "j", name)
    after = b.files()
    assert {path for path in after if after[path] != before.get(path)} <= {"lock"}
    (b.folder() / "damaged-on-purpose").touch()


def test_p35_who_got_stuck_no_longer_owes_the_answer(bench: MakeBench) -> None:
    b = bench([answer("no exit command"), answer()])
    stuck(b)
    switch_role(b.project, "j", "Planner")
    given = b.give(command(), dry_run=True).entries[0]
    assert given.observed is not None
    assert given.observed.role == "Planner"
    steward_decisions.record_decision(b.project, "j", Kind.RESUBMIT)
    b.step()
    assert last(b).request.metadata["role"] == "Planner"


def test_a_reset_gives_the_answer_back_to_the_jobs_own_role(bench: MakeBench) -> None:
    b = bench([answer("no exit command")])
    b.create()
    switch_role(b.project, "j", "Planner")
    b.step()
    assert b.give(command(output=PLAN), dry_run=True).state.last is not None
    switch_role(b.project, "j", None)
    given = b.give(command(), dry_run=True).entries[0]
    assert given.observed is not None
    assert given.observed.role == "Worker"


def test_who_was_chosen_for_one_step_owes_its_answer(bench: MakeBench) -> None:
    b = bench([answer("no exit command")])
    b.create()
    switch_role(b.project, "j", "Planner")
    b.step(role="Tester")
    given = b.give(command(), dry_run=True).entries[0]
    assert given.observed is not None
    assert given.observed.role == "Tester"


@pytest.mark.parametrize(("first", "again"), [(None, "Worker"), ("Planner", "Planner"), (None, None)])
def test_the_same_role_again_records_nothing(bench: MakeBench, first: str | None, again: str | None) -> None:
    b = bench()
    b.create()
    if first:
        switch_role(b.project, "j", first)
    before = b.files()
    found = find_needless_switch(b.project, "j", again)
    done = switch_role(b.project, "j", again)
    assert found is not None
    assert found.notes == done.notes
    assert "nothing recorded" in done.notes[0]
    assert (done.entries, b.files()) == ((), before)


def test_the_same_name_switched_and_said_are_two_things(bench: MakeBench) -> None:
    b = bench()
    b.create()
    switch_role(b.project, "j", "Planner")
    job_edits.configure_job(b.project, "j", {("role",): "Planner"})
    assert doer(b.state()) == PLANNER
    switch_role(b.project, "j", None)
    assert doer(b.state()) == ("Planner", "job", "🔍", "blue")


def test_p2_p5_an_unknown_role_is_refused_with_the_valid_names(bench: MakeBench) -> None:
    b = bench()
    b.create()
    before = b.files()
    for act in (find_needless_switch, switch_role):
        with pytest.raises(UsageError, match="unknown role `planner`") as caught:
            act(b.project, "j", "planner")
        assert caught.value.fix is not None
        assert "did you mean `Planner`?" in caught.value.fix
        assert "Actor, Commander, Designer, Planner" in caught.value.fix
    assert b.files() == before


def test_a_broken_role_is_refused(bench: MakeBench) -> None:
    b = bench()
    b.create()
    folder = b.project.home / "roles"
    folder.mkdir()
    (folder / "Poet.yaml").write_text("name: Poet\npermissions: [fly]\n", "utf-8")
    b.change(roles=load_roles([folder]))
    before = b.files()
    with pytest.raises(InvalidFile):
        switch_role(b.project, "j", "Poet")
    assert b.files() == before


def test_p8_p9_a_new_role_is_one_file(bench: MakeBench) -> None:
    b = bench()
    b.create()
    folder = b.project.home / "roles"
    folder.mkdir()
    poet = {"name": "Poet", "description": "d", "instructions": "Rhyme.", "llm_model": "m"}
    poet |= {"permissions": ["create_files"], "badge": "🪶", "color": "white"}  # type: ignore[dict-item]
    (folder / "poet.json").write_text(json.dumps(poet), "utf-8")
    b.change(roles=load_roles([folder]))
    switch_role(b.project, "j", "Poet")
    plan = planned(b)
    assert (plan.role.name, plan.model.name, doer(b.state())) == (
        "Poet",
        "m",
        ("Poet", SWITCH, "🪶", "white"),
    )
    assert "Rhyme." in plan.request.prompt


def test_listings_and_replay_need_no_role_file(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create()
    switch_role(b.project, "j", "Planner")
    b.step()
    b.change(roles=load_roles([]))
    b.drifts = True
    assert doer(b.state()) == PLANNER
    assert job_reader.verify_job(b.project, b.project.open_job("j")).problems == ()
    assert archive_replay.replay_job(b.project, b.project.open_job("j")).differences == ()


class TestOlderJobs:
    """Jobs that were made before roles, or before this field of them: no migration, nothing lost."""

    def old(self, b: Bench, *, with_roles: bool) -> Path:
        """A job whose files know no role; with `with_roles` only badge and colour are unknown."""
        b.create(role="Tester" if with_roles else None)
        folder = b.folder()
        entry = json.loads((folder / "jobHistory.json").read_bytes())["interactions"][0]
        gone = ("badge", "color") if with_roles else ("badge", "color", "doer", "doer_source")
        for name in gone:
            entry["spec"].pop(name, None)
        (folder / "state.json").unlink()
        (folder / "jobHistory.json").write_bytes(
            format_header() + seal_entry(entry, 1, None)[1] + b"\n" + CLOSING
        )
        return folder

    def test_p10_p43_p46_it_steps_with_the_default_doer(self, bench: MakeBench) -> None:
        b = bench([answer()])
        self.old(b, with_roles=False)
        assert doer(b.state())[:2] == ("Worker", "default")
        assert planned(b).role.permissions == EVERYTHING
        b.step()
        assert [e.kind for e in b.history() if e.kind is Kind.ASK] == [Kind.ASK]

    def test_p44_it_can_be_switched(self, bench: MakeBench) -> None:
        b = bench([answer()])
        self.old(b, with_roles=False)
        switch_role(b.project, "j", "Planner")
        assert doer(b.state()) == PLANNER
        b.step()
        assert last(b).request.metadata["role"] == "Planner"

    def test_p45_reading_writes_nothing(self, bench: MakeBench) -> None:
        b = bench()
        folder = self.old(b, with_roles=False)
        before = b.files()
        b.state()
        planned(b)
        assert find_needless_switch(b.project, "j", "Worker") is not None
        assert b.files() == before
        assert not (folder / "state.json").exists()
        switch_role(b.project, "j", "Actor")
        assert json.loads((folder / "state.json").read_bytes())["agent_role"] == "Actor"

    def test_a_spec_without_badge_and_color_has_the_hash_it_had(self, bench: MakeBench) -> None:
        b = bench()
        b.create()
        assert [entry.kind for entry in b.history()] == [Kind.CREATE]
        spec = b.history()[0].spec
        assert spec is not None
        assert {"badge", "color"}.isdisjoint(spec.model_dump(exclude_none=True))
        switch_role(b.project, "j", "Planner")
        assert [entry.kind for entry in b.history()] == [Kind.CREATE, Kind.ROLE]  # no spec in between


def test_the_phase_of_the_doer_is_all_that_is_switched(bench: MakeBench) -> None:
    b = bench([answer(), answer("no exit command")])
    b.create()
    b.step()
    b.step()
    stuck_one = b.state().place.stuck
    assert stuck_one is not None
    assert (stuck_one.role, stuck_one.phase) == ("Supervisor", Phase.REVIEWER)
    switch_role(b.project, "j", "Planner")
    given = b.give(command(), dry_run=True).entries[0]
    assert given.observed is not None
    assert given.observed.role == "Supervisor"


PLAN = {
    "goal": "a.txt is there.",
    "steps": [{"step_number": 1, "action": "Create a.txt", "reason": "The goal"}],
}
PASS = answer(command(output={"verdict": "PASS"}))


def with_plan(bench: MakeBench, *answers: dict[str, Any], **spec: Any) -> Bench:
    """A job whose plan waits for approval."""
    b = bench([answer(command(summary="One step.", output=PLAN)), *answers])
    b.create(role="Planner", **spec)
    while b.state().status is not Status.APPROVAL_REQUIRED:
        b.step()
    return b


@pytest.mark.parametrize("review", [True, False])
@pytest.mark.parametrize("approval", ["end", "each"])
def test_an_approved_plan_is_carried_out_by_the_role_that_the_steward_switched_to(
    bench: MakeBench, review: bool, approval: str
) -> None:
    reviews = [PASS] if review else []
    done = answer(command(summary="It is there.", evidence_files=["a.txt"]), files={"a.txt": "a"})
    b = with_plan(bench, *reviews, done, *reviews, review=review, approval=approval)
    switch_role(b.project, "j", "Actor")
    result = steward_decisions.record_decision(b.project, "j", Kind.APPROVE, note="Quickly.")
    assert (result.state.status, result.notes) == (Status.PENDING, ())
    assert last(b).command["carried_out_by"] == "Actor"
    b.step()
    assert doer(b.state()) == ACTOR
    prompt = last(b).request.prompt
    assert "## The approved plan" in prompt
    assert "1. Create a.txt\n   reason: The goal" in prompt
    assert prompt.count("Create a.txt") == 1
    assert "Quickly." in prompt
    assert (b.workspace() / "a.txt").exists()
    if review:
        b.step()
        assert "## The approved plan" in last(b).request.prompt
    assert b.state().status is Status.APPROVAL_REQUIRED
    assert steward_decisions.record_decision(b.project, "j", Kind.APPROVE).state.status is Status.SUCCESS
    assert "carried_out_by" not in last(b).command
    assert archive_replay.replay_job(b.project, b.project.open_job("j")).differences == ()


def test_a_plan_without_another_role_is_all_that_was_asked_for(bench: MakeBench) -> None:
    b = with_plan(bench, answer(command(evidence_files=["a.txt"]), files={"a.txt": "a"}), review=False)
    result = steward_decisions.record_decision(b.project, "j", Kind.APPROVE)
    assert result.state.status is Status.SUCCESS
    (note,) = result.notes
    assert "its plan was not carried out" in note
    assert "logist job restep --job j --to 3" in note
    steward_decisions.restep_job(b.project, "j", 3)
    switch_role(b.project, "j", "Actor")
    assert steward_decisions.record_decision(b.project, "j", Kind.APPROVE).state.status is Status.PENDING
    assert b.step().state.status is Status.APPROVAL_REQUIRED
    assert steward_decisions.record_decision(b.project, "j", Kind.APPROVE).notes == ()


def test_a_plan_that_one_step_was_given_to_is_carried_out_by_the_jobs_own_role(bench: MakeBench) -> None:
    b = bench([answer(command(output=PLAN))])
    b.create(review=False)
    b.step(role="Planner")
    assert steward_decisions.record_decision(b.project, "j", Kind.APPROVE).state.status is Status.PENDING
    assert last(b).command["carried_out_by"] == "Worker"
    assert planned(b).role.name == "Worker"


def test_a_plan_that_was_sent_back_is_shown_to_whoever_works_next(bench: MakeBench) -> None:
    another = {**PLAN, "goal": "b.txt is there."}
    b = with_plan(bench, PASS, answer(command(output=another)), PASS)
    steward_decisions.record_decision(b.project, "j", Kind.REJECT, note="Smaller.")
    prompt = planned(b).request.prompt
    assert "## The plan so far, not approved" in prompt
    assert "1. Create a.txt" in prompt
    b.step()
    b.step()
    assert b.state().plan is not None
    assert b.state().plan.output == another  # type: ignore[union-attr]


def test_a_review_that_is_overridden_leaves_the_plan_to_the_other_role(bench: MakeBench) -> None:
    b = bench([answer(command(output=PLAN)), answer(command(output={"verdict": "FAIL", "issues": ["No."]}))])
    b.create(role="Planner")
    b.step()
    b.step()
    switch_role(b.project, "j", "Actor")
    result = steward_decisions.record_decision(
        b.project, "j", Kind.APPROVE, note="It will do.", command=ApproveCommand(override=True)
    )
    assert (result.state.status, result.state.place.attempts) == (Status.PENDING, 0)
    assert result.state.findings is None
    assert "## What the review found" not in planned(b).request.prompt


def test_a_role_that_may_change_files_makes_no_plan(bench: MakeBench) -> None:
    b = bench([answer(command(output=PLAN))])
    b.create(review=False)
    b.step()
    switch_role(b.project, "j", "Actor")
    assert b.state().plan is None
    assert steward_decisions.record_decision(b.project, "j", Kind.APPROVE).state.status is Status.SUCCESS


def test_a_plan_of_an_earlier_logist_replays_as_it_was_approved_then(bench: MakeBench) -> None:
    b = with_plan(bench, review=False)
    old = b.history()
    old[1] = old[1].model_copy(update={"command": {}})  # it did not say that this is a plan
    state = fold.fold(old)
    assert state.plan is None
    switch_role(b.project, "j", "Actor")
    approved = steward_decisions.record_decision(b.project, "j", Kind.APPROVE)
    entry = approved.entries[-1].model_copy(
        update={
            "command": {},
            "state_after": Status.SUCCESS,
            "after": Place(status=Status.SUCCESS),
        }
    )
    history = [*old, b.history()[2], entry]
    assert list(replay.replay(history, b.project.schema, set())) == []
    assert fold.fold(history).status is Status.SUCCESS
