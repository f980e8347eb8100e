"""The state is nothing but a projection of the history."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logist.core.history import fold
from logist.core.history.spec_hash import spec_hash
from logist.core.model import (
    Actor,
    Interaction,
    Kind,
    Limits,
    Phase,
    Place,
    State,
    Status,
    Usage,
)
from logist.core.replay import replay
from tests.core.builders import Recorder, command, spec, whole_history
from tests.support import ROOT

SPECIFIED = (
    *("title", "rank", "tags", "limits", "spec_hash"),
    *("agent_role", "agent_role_source", "badge", "color"),
)


def read_back(job: Recorder) -> list[Interaction]:
    """The history as it comes back from its file."""
    return [
        Interaction.model_validate_json(entry.model_dump_json(exclude_none=True)) for entry in job.entries
    ]


def money_used(one: State) -> tuple[int, int]:
    return one.usage.cumulative_cost, one.usage.cumulative_cost_microcents


class TestCreate:
    def test_the_first_state(self) -> None:
        job = Recorder(title="T", rank=3, tags=("a",), doer="Actor", doer_source="job", cost_threshold=5)
        assert job.state == State(
            revision=1,
            place=Place(status=Status.PENDING),
            agent_role="Actor",
            agent_role_source="job",
            limits=Limits(cost_threshold=5),
            title="T",
            rank=3,
            badge="⚡",
            tags=["a"],
            created_at="2026-01-02T03:04:01Z",
            updated_at="2026-01-02T03:04:01Z",
            checkpoint="c1",
            start_checkpoint="c1",
            spec_hash=spec_hash(job.spec),
        )

    def test_nothing_has_no_state(self) -> None:
        with pytest.raises(ValueError, match="no state"):
            fold.fold([])


class TestWhole:
    def test_every_entry_leads_to_its_place(self) -> None:
        job = whole_history()
        for count, entry in enumerate(job.entries, 1):
            state = fold.fold(job.entries[:count])
            assert state.place == entry.after
            assert (state.revision, state.updated_at, state.reason) == (count, entry.timestamp, entry.reason)
            assert state.created_at == job.entries[0].timestamp
            assert state.head is None

    def test_step_by_step_is_the_same_as_at_once(self) -> None:
        job = whole_history()
        state: State | None = None
        for entry in job.entries:
            is_restep = entry.kind is Kind.RESTEP
            back = fold.fold_before(job.entries, fold.read_restep_target(entry)) if is_restep else None
            state = fold.apply_interaction(state, entry, back)
        assert state == job.state

    def test_what_was_written_folds_to_the_same_state(self) -> None:
        job = whole_history()
        assert fold.fold(read_back(job)) == job.state
        assert fold.fold(iter(job.entries)) == job.state


def entry_of(usage: Usage, kind: Kind = Kind.ASK, *, simulated: bool = False) -> Interaction:
    after = Place(status=Status.PENDING)
    return Interaction(
        sequence=2,
        timestamp="t",
        kind=kind,
        actor=Actor.AGENT,
        state_before=after.status,
        state_after=after.status,
        workspace_path="/w",
        usage=usage,
        simulated=simulated,
        after=after,
    )


class TestTotals:
    costs = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 999_999)), max_size=20)

    @given(costs)
    def test_no_fraction_of_a_cent_is_lost(self, costs: list[tuple[int, int]]) -> None:
        state = State(place=Place(status=Status.PENDING))
        for cents, micro in costs:
            state = fold.apply_interaction(state, entry_of(Usage(cost_cents=cents, cost_microcents=micro)))
        total = sum(cents * 1_000_000 + micro for cents, micro in costs)
        assert money_used(state) == divmod(total, 1_000_000)
        assert state.usage.current_action_count == len(costs)

    def test_time_and_tokens_add_up(self) -> None:
        state = State(place=Place(status=Status.PENDING))
        for _ in range(10):
            state = fold.apply_interaction(
                state, entry_of(Usage(seconds=0.1, input_tokens=7, output_tokens=3))
            )
        assert state.usage.cumulative_time_seconds == 1.0
        assert (state.usage.input_tokens, state.usage.output_tokens) == (70, 30)

    def test_what_is_simulated_is_not_a_run_but_a_charge_is_money(self) -> None:
        state = State(place=Place(status=Status.PENDING))
        state = fold.apply_interaction(state, entry_of(Usage(), simulated=True))
        assert state.usage == State(place=Place(status=Status.PENDING)).usage
        state = fold.apply_interaction(
            state, entry_of(Usage(cost_cents=12, source="steward"), simulated=True)
        )
        assert (money_used(state), state.usage.current_action_count) == ((12, 0), 0)

    def test_what_is_in_doubt_counts_with_its_worst_case(self) -> None:
        job = Recorder()
        job.lose()
        assert (money_used(job.state), job.state.usage.current_action_count) == ((5, 0), 1)

    def test_what_a_steward_takes_back_is_not_money_spent(self) -> None:
        state = State(place=Place(status=Status.PENDING))
        state = fold.apply_interaction(state, entry_of(Usage(cost_cents=7, cost_microcents=5), Kind.RECOVER))
        back = entry_of(Usage(), Kind.RESUBMIT).model_copy(
            update={"command": {"released_microcents": 5_000_000}}
        )
        assert money_used(fold.apply_interaction(state, back)) == (2, 5)
        more = back.model_copy(update={"command": {"released_microcents": 99_000_000}})
        assert money_used(fold.apply_interaction(state, more)) == (0, 0)

    @pytest.mark.parametrize("kind", sorted(set(Kind) - {"ask", "recover", "rerun", "restep", "spawn"}))
    def test_what_people_do_is_no_run(self, kind: Kind) -> None:
        state = fold.apply_interaction(State(place=Place(status=Status.PENDING)), entry_of(Usage(), kind))
        assert state.usage == State(place=Place(status=Status.PENDING)).usage

    def test_failed_and_invalid_runs_count(self) -> None:
        job = Recorder()
        job.answer("nothing valid")
        assert (money_used(job.state), job.state.usage.current_action_count) == ((1, 0), 1)


class TestAnswers:
    def test_the_last_valid_answer(self) -> None:
        job = Recorder()
        job.answer(command("COMPLETED", "a", "b", summary="Made it.", output=[1]), missing=["b"])
        last = job.state.last
        assert last is not None
        assert last.model_dump() == {
            "sequence": 2,
            "phase": Phase.DOER,
            "role": "Worker",
            "action": "COMPLETED",
            "summary": "Made it.",
            "evidence_files": ["a", "b"],
            "missing": ["b"],
            "output": [1],
            "verdict": None,
        }

    def test_an_invalid_answer_leaves_the_last_valid_one(self) -> None:
        job = Recorder()
        job.answer(command("RETRY", "a"))
        kept = job.state
        job.answer("nothing valid")
        assert job.state.last == kept.last
        assert job.state.artefacts == ["a"]

    def test_artefacts_are_the_union_in_order(self) -> None:
        job = Recorder(max_attempts=9)
        for names in (["b", "a"], ["a", "c"], [], ["d", "b", "d"]):
            job.answer(command("RETRY", *names))
        assert job.state.artefacts == ["b", "a", "c", "d"]

    def test_outputs_are_the_doers(self) -> None:
        job = Recorder()
        job.answer(command(output={"n": 1}))
        job.answer(command(output={"verdict": "fine"}))
        assert job.state.outputs == {"task": {"n": 1}}

    def test_a_later_output_replaces_an_earlier_and_null_does_not(self) -> None:
        job = Recorder(max_attempts=9)
        job.answer(command("RETRY", output=1))
        job.answer(command("RETRY", output=None))
        assert job.state.outputs == {"task": 1}
        job.answer(command("RETRY", output=False))
        assert job.state.outputs == {"task": False}

    def test_an_action_of_a_newer_logist_is_no_answer_of_ours(self) -> None:
        job = Recorder()
        job.answer()
        entry = job.entries[1]
        response = entry.response.model_copy(update={"actions": ["DELEGATED"]})
        state = fold.fold([job.entries[0], entry.model_copy(update={"response": response})])
        assert (state.last, state.status) == (None, Status.REVIEW_REQUIRED)

    def test_the_checkpoint_is_the_last_one(self) -> None:
        job = Recorder()
        job.answer()
        assert (job.state.checkpoint, job.state.start_checkpoint) == ("c2", "c1")
        job.decide(Kind.SUSPEND)
        assert job.state.checkpoint == "c2"


class TestNote:
    def noted(self) -> Recorder:
        job = Recorder(max_attempts=9)
        job.answer("nothing valid")
        job.decide(Kind.RESUBMIT, note="Try hard.")
        return job

    def test_it_stays_until_a_valid_answer(self) -> None:
        job = self.noted()
        job.answer("nothing valid again")
        job.decide(Kind.RESUBMIT)
        job.answer(command("RETRY"))
        notes = [fold.fold(job.entries[:count]).note for count in range(2, 7)]
        assert notes == [None, "Try hard.", "Try hard.", "Try hard.", None]

    def test_a_newer_note_replaces_it(self) -> None:
        job = self.noted()
        job.answer("nothing valid again")
        job.decide(Kind.RESUBMIT, note="Harder.")
        assert job.state.note == "Harder."

    @pytest.mark.parametrize("kind", [Kind.SUSPEND, Kind.CANCEL, Kind.FAIL])
    def test_why_a_job_was_stopped_is_for_no_agent(self, kind: Kind) -> None:
        job = Recorder()
        job.decide(kind, note="Budget.")
        assert (job.state.note, job.state.reason) == (None, "Budget.")

    @pytest.mark.parametrize("kind", [Kind.REJECT, Kind.RESTEP, Kind.RERUN, Kind.RESUME])
    def test_who_else_may_leave_one(self, kind: Kind) -> None:
        job = Recorder()
        if kind is Kind.REJECT:
            job.answer()
            job.answer()
        if kind is Kind.RESUME:
            job.decide(Kind.SUSPEND)
        job.decide(kind, note="Mind the gap.", **({"to": 2} if kind is Kind.RESTEP else {}))
        assert job.state.note == "Mind the gap."


class TestSpec:
    def test_a_change_is_seen_and_moves_nothing(self) -> None:
        job = Recorder()
        job.answer()
        before = job.state
        job.change(title="New", rank=-1, tags=("x",), doer="Planner", limits=Limits(max_attempts=7))
        after = job.state
        assert (after.title, after.rank, after.tags, after.limits.max_attempts) == ("New", -1, ["x"], 7)
        assert (after.agent_role, after.badge) == ("Planner", "🔍")
        assert after.spec_hash != before.spec_hash
        assert after.place == before.place
        assert after.usage == before.usage

    def test_the_hash_is_of_what_the_spec_says(self) -> None:
        one = spec(acceptance_criteria=("a",), cost_threshold=10)
        written = one.model_dump_json(exclude_none=True)
        assert spec_hash(type(one).model_validate_json(written)) == spec_hash(one)
        assert spec_hash(spec(roles={"b": "1", "a": "2"})) == spec_hash(spec(roles={"a": "2", "b": "1"}))
        hashes = {
            spec_hash(spec(**change)) for change in ({}, {"rank": 1}, {"prompt": "\ud800"}, {"review": False})
        }
        assert len(hashes) == 4

    def test_what_an_earlier_logist_did_not_record_does_not_count(self) -> None:
        recorded = json.loads((ROOT / "fixtures/jobs/main-job/jobHistory.json").read_bytes())["interactions"]
        one = Interaction.model_validate(recorded[0]).spec
        assert one is not None
        assert (one.badge, one.color) == (None, None)
        assert spec_hash(one) == "39d7d942534b0961a3ac6e8c820db2eb7069c1f61dd4d8481feb73eb5493b3a3"
        hashes = {spec_hash(spec(**change)) for change in ({}, {"badge": "x"}, {"color": "red"})}
        assert len(hashes) == 3


class TestSwitch:
    PLANNER: ClassVar[dict[str, str]] = {
        "from": "Worker",
        "to": "Planner",
        "source": "switch",
        "badge": "🔍",
        "color": "blue",
    }

    def doer(self, job: Recorder) -> tuple[str, str, str, str | None]:
        state = job.state
        return state.agent_role, state.agent_role_source, state.badge, state.color

    def test_p34_the_state_holds_it_and_stands_where_it_stood(self) -> None:
        job = Recorder()
        job.answer("nothing valid")
        before = job.state
        job.decide(Kind.ROLE, note="Look first.", **self.PLANNER)
        assert self.doer(job) == ("Planner", "switch", "🔍", "blue")
        assert (job.state.status, job.state.reason, job.state.note) == (before.status, before.reason, None)
        assert fold.find_doer(job.spec, job.state) == ("Planner", "switch")

    def test_a_spec_after_it_changes_all_but_the_doer(self) -> None:
        job = Recorder()
        job.decide(Kind.ROLE, **self.PLANNER)
        job.change(doer="Tester", doer_source="job", badge="🧪", color="red", rank=4)
        assert self.doer(job) == ("Planner", "switch", "🔍", "blue")
        assert (job.state.rank, job.state.spec_hash) == (4, spec_hash(job.spec))
        job.decide(Kind.ROLE, **{"from": "Planner", "to": "Tester", "source": "job", "badge": "🧪"})
        assert self.doer(job) == ("Tester", "job", "🧪", None)
        job.change(doer="Worker", doer_source="default", badge=None, color=None)
        assert self.doer(job) == ("Worker", "default", "", None)

    @pytest.mark.parametrize(("kind", "options"), [(Kind.RESTEP, {"to": 2}), (Kind.RERUN, {})])
    def test_going_back_before_it_keeps_it(self, kind: Kind, options: dict[str, Any]) -> None:
        job = Recorder()
        job.answer()
        job.decide(Kind.ROLE, **self.PLANNER)
        job.decide(kind, **options)
        assert self.doer(job) == ("Planner", "switch", "🔍", "blue")

    @pytest.mark.parametrize("command", [{}, {"to": 7}, {"to": None, "badge": "x"}])
    def test_a_switch_to_nobody_changes_nothing(self, command: dict[str, Any]) -> None:
        job = Recorder()
        before = self.doer(job)
        job.decide(Kind.ROLE, **command)
        assert self.doer(job) == before

    def test_fields_of_another_kind_are_left_out(self) -> None:
        job = Recorder()
        job.decide(Kind.ROLE, to="Poet", source=[], badge=7, color={})
        assert self.doer(job) == ("Poet", "switch", "", None)

    def test_it_replays_and_reads_back(self) -> None:
        job = Recorder()
        job.decide(Kind.ROLE, **self.PLANNER)
        job.answer("nothing valid")
        job.decide(Kind.ROLE, **{"from": "Planner", "to": "Worker", "source": "default"})
        assert list(replay.find_differences(read_back(job), job.schema)) == []
        assert fold.fold(read_back(job)) == job.state


class TestRestep:
    def restepped(self) -> Recorder:
        job = Recorder(max_attempts=9)
        job.answer(command("RETRY", "a", summary="First."))
        job.answer(command("COMPLETED", "b", output=1))
        job.answer(command("COMPLETED", "c"))
        return job

    def test_it_is_the_state_before_with_the_usage_of_now(self) -> None:
        job = self.restepped()
        earlier, now = fold.fold_before(job.entries, 3), job.state
        job.decide(Kind.RESTEP, to=3)
        state = job.state
        assert state.usage == now.usage
        assert (state.usage.current_action_count, state.asked) == (3, 3)
        same = {"revision", "updated_at", "usage", "asked", "reason"}
        assert state.model_dump(exclude=same) == earlier.model_dump(exclude=same)
        assert (state.artefacts, state.outputs, state.place.attempts) == (["a"], {}, 1)
        assert (state.checkpoint, state.revision) == ("c2", 5)

    def test_what_was_asked_for_since_stays(self) -> None:
        job = self.restepped()
        job.change(title="New", rank=9, limits=Limits(cost_threshold=7))
        now = job.state
        job.decide(Kind.RESTEP, to=2)
        for name in SPECIFIED:
            assert getattr(job.state, name) == getattr(now, name)

    def test_a_note_of_before_comes_back(self) -> None:
        job = Recorder()
        job.answer("nothing valid")
        job.decide(Kind.RESUBMIT, note="Old.")
        job.answer()
        job.decide(Kind.RESTEP, to=4)
        job.decide(Kind.RESTEP, to=4, note="New.")
        notes = [fold.fold(job.entries[:count]).note for count in (3, 4, 5, 6)]
        assert notes == ["Old.", None, "Old.", "New."]

    def test_back_before_a_restep(self) -> None:
        job = self.restepped()
        before_first = job.state
        job.decide(Kind.RESTEP, to=2)
        job.answer(command("STUCK", "z"))
        job.decide(Kind.RESTEP, to=5)
        state = job.state
        assert state.place == before_first.place
        assert (state.artefacts, state.last) == (before_first.artefacts, before_first.last)
        assert state.usage.current_action_count == 4

    def test_between_two_resteps(self) -> None:
        job = self.restepped()
        job.decide(Kind.RESTEP, to=3)
        job.answer(command("RETRY", "y"))
        middle = job.state
        job.answer(command("STUCK"))
        job.decide(Kind.RESTEP, to=7)
        assert (job.state.place, job.state.artefacts) == (middle.place, ["a", "y"])
        assert fold.fold(read_back(job)) == job.state

    def test_back_into_and_out_of_what_has_ended(self) -> None:
        job = Recorder()
        job.decide(Kind.CANCEL)
        job.decide(Kind.RESTEP, to=2)
        job.decide(Kind.RESTEP, to=3)
        statuses = [fold.fold(job.entries[:count]).status for count in (2, 3, 4)]
        assert statuses == ["CANCELED", "PENDING", "CANCELED"]

    @pytest.mark.parametrize("to", [None, "3", 99, [], 0])
    def test_one_that_names_nothing_sensible_does_not_break_the_fold(self, to: Any) -> None:
        job = self.restepped()
        job.decide(Kind.RESTEP, to=3)
        broken = job.entries[-1].model_copy(update={"command": {"to": to} if to is not None else {}})
        state = fold.fold([*job.entries[:-1], broken])
        assert state.place == broken.after


class TestRerun:
    def test_it_is_the_job_as_created_with_nothing_used(self) -> None:
        job = TestRestep().restepped()
        job.change(title="New", limits=Limits(cost_threshold=7))
        now = job.state
        job.decide(Kind.RERUN, note="Again.")
        state = job.state
        expected = State(
            place=Place(status=Status.PENDING),
            revision=6,
            created_at=now.created_at,
            updated_at=job.entries[-1].timestamp,
            reason="Again.",
            note="Again.",
            start_checkpoint="c1",
            **{name: getattr(now, name) for name in SPECIFIED},
        )
        assert state == expected

    def test_back_before_a_rerun_keeps_what_was_used_since(self) -> None:
        job = Recorder()
        job.answer()
        job.decide(Kind.RERUN)
        job.answer()
        job.decide(Kind.RESTEP, to=3)
        assert (job.state.status, job.state.usage.current_action_count) == (Status.REVIEW_REQUIRED, 1)


def test_the_state_before_is_the_fold_of_what_came_before() -> None:
    entries = whole_history().entries
    for sequence in range(2, len(entries) + 1):
        assert fold.fold_before(entries, sequence) == fold.fold(entries[: sequence - 1])
