"""What a newer Logist wrote: read as far as it goes, kept, never acted on."""

from __future__ import annotations

from typing import Any

import pytest

from logist.core.history import fold, newer_versions
from logist.core.model import (
    Actor,
    Change,
    EffectiveSpec,
    ErrorKind,
    Interaction,
    Kind,
    Last,
    Part,
    Phase,
    Place,
    Response,
    State,
    Status,
    StuckKind,
    TransportError,
    Usage,
    Word,
)
from logist.core.replay import replay
from logist.core.step import step
from logist.errors import Refused
from logist.formats import JOB
from logist.quick_model import BaseModel, ValidationError
from tests.core.builders import SCHEMA, Recorder, command, whole_history

Json = dict[str, Any]


def entry(**fields: Any) -> Json:
    """An interaction of a kind that only a newer Logist knows, as it lies on disk."""
    after = {"status": "PENDING", "step": "task", "attempts": 1}
    return {
        "version": JOB.version,
        "sequence": 2,
        "timestamp": "2026-01-02T03:04:06Z",
        "kind": "merge-queue",
        "actor": "steward",
        "state_before": "PENDING",
        "state_after": "PENDING",
        "workspace_path": "/somewhere/workspace",
        "after": after,
        **fields,
    }


def read(**fields: Any) -> Interaction:
    found = newer_versions.read_newer_interaction(entry(**fields))
    assert found is not None
    return found


class TestWords:
    @pytest.mark.parametrize("word", [Status, Kind, Actor, Phase, StuckKind])
    def test_a_newer_word_is_kept_as_it_is_written(self, word: type[Word]) -> None:
        newest = word("brand-new")
        assert (newest, str(newest), newest.value, newest.is_known) == (*["brand-new"] * 3, False)
        assert newest not in set(word)
        assert all(member.is_known for member in word)

    def test_a_newer_word_that_looks_like_a_name_is_no_member(self) -> None:
        assert Kind("ASK") is not Kind.ASK
        assert not Kind("ASK").is_known

    def test_no_number_is_a_word(self) -> None:
        with pytest.raises(ValidationError):
            Place.model_validate({"status": 3})

    @pytest.mark.parametrize(
        ("model", "given"),
        [
            (Usage, {"source": "estimate"}),
            (Place, {"status": "PENDING", "awaiting": "merge"}),
            (Part, {"source": "s", "kind": "tool", "sha256": "", "start": 0, "end": 0}),
            (TransportError, {"kind": "overloaded", "message": "m"}),
            (Response, {"status": "PARTIAL"}),
            (Change, {"path": "p", "kind": "renamed", "mode": "100644"}),
            (Last, {"sequence": 1, "phase": "doer", "role": "r", "action": "DELEGATE", "summary": "s"}),
            (EffectiveSpec, {"title": "t", "approval": "quorum", "on_doubt": "ask"}),
        ],
    )
    def test_every_word_of_a_record_may_be_newer(self, model: type[BaseModel], given: Json) -> None:
        value = model.model_validate(given)
        assert given.items() <= value.model_dump(mode="json").items()

    def test_a_known_word_is_its_member(self) -> None:
        assert TransportError.model_validate({"kind": "auth", "message": "m"}).kind is ErrorKind.AUTH
        assert State.model_validate({"status": "STUCK"}).status is Status.STUCK


def unknown_everywhere(value: Any) -> Any:
    """The same JSON with a field in each object that no Logist has, but in what is free."""
    if isinstance(value, dict):
        free = ("metadata", "command", "output", "outputs", "roles")
        return {"newest": {"a": [1]}} | {
            name: item if name in free else unknown_everywhere(item) for name, item in value.items()
        }
    return [unknown_everywhere(item) for item in value] if isinstance(value, list) else value


class TestFields:
    def test_no_field_of_an_interaction_is_lost(self) -> None:
        for one in whole_history().entries:
            lying = unknown_everywhere(one.model_dump(mode="json", exclude_none=True))
            again = Interaction.model_validate(lying).model_dump(mode="json", exclude_none=True)
            assert again == lying

    def test_no_field_of_a_state_is_lost(self) -> None:
        state = fold.fold(whole_history().entries[:12])
        lying = unknown_everywhere(state.model_dump(mode="json"))
        assert State.model_validate(lying).model_dump(mode="json") == lying

    @pytest.mark.parametrize("kind", ["step", "restep", "rerun"])
    def test_a_state_keeps_them_through_a_change(self, kind: str) -> None:
        job = Recorder()
        here = job.state.model_copy(update={"lane": "fast", "usage": job.state.usage})
        if kind == "step":
            job.answer()
        elif kind == "rerun":
            job.decide(Kind.RERUN)
        else:
            job.answer()
            job.decide(Kind.RESTEP, to=2)
        back = fold.fold_before(job.entries, 2) if kind == "restep" else None
        after = fold.apply_interaction(here, job.entries[-1], back)
        assert after.model_extra == {"lane": "fast"}

    def test_what_a_job_used_keeps_what_a_newer_one_counts(self) -> None:
        job = Recorder()
        usage = job.state.usage.model_copy(update={"cached_tokens": 7})
        here = job.state.model_copy(update={"usage": usage})
        job.answer(usage=Usage(cost_cents=1))
        after = fold.apply_interaction(here, job.entries[-1])
        assert (after.usage.model_extra, after.usage.cumulative_cost) == ({"cached_tokens": 7}, 1)

    @pytest.mark.parametrize(
        ("recorded", "same"),
        [
            ({"a": {"b": 1}}, True),
            ({"a": {"b": 1, "newest": 2}, "newest": 3}, True),
            ({"a": {"b": 2}}, False),
            ({"a": {}}, False),
            ({"a": None}, False),
            (None, False),
        ],
    )
    def test_what_is_recorded_holds_what_is_expected(self, recorded: Any, same: bool) -> None:
        assert newer_versions.has_expected_value(recorded, {"a": {"b": 1}}) is same


class TestReading:
    def test_what_this_logist_writes_is_read_strictly(self) -> None:
        for one in whole_history().entries:
            assert newer_versions.read_newer_interaction(one.model_dump(mode="json")) is None

    def test_an_unknown_kind(self) -> None:
        found = read(lane="fast")
        assert (found.kind, found.model_extra) == ("merge-queue", {"lane": "fast"})
        assert newer_versions.list_unknown_words(found) == ("kind merge-queue",)
        assert list(newer_versions.list_newer_warnings([found])) == [
            "interaction 2 is from a newer version of Logist (kind merge-queue): kept, but skipped"
        ]

    def test_its_own_kinds_are_nothing_to_warn_of(self) -> None:
        assert list(newer_versions.list_newer_warnings(whole_history().entries)) == []

    @pytest.mark.parametrize("name", sorted(set(entry()) - {"sequence"}))
    @pytest.mark.parametrize("value", [None, 3, [], {"shape": "new"}])
    def test_any_field_may_have_another_shape(self, name: str, value: Any) -> None:
        found = read(**{"version": 2, name: value})
        assert found.sequence == 2
        assert newer_versions.list_unknown_words(found)

    @pytest.mark.parametrize("name", sorted(set(entry()) - {"sequence", "kind"}))
    def test_any_field_may_be_gone(self, name: str) -> None:
        lying = {key: value for key, value in entry().items() if key != name}
        found = newer_versions.read_newer_interaction(lying)
        assert found is not None
        assert found.kind == "merge-queue"

    def test_a_place_that_does_not_read_is_where_it_says_it_ended(self) -> None:
        assert read(after={"at": "PENDING"}).after == Place(status=Status.PENDING)
        assert not read(after=None, state_after=None).after.status.is_known

    @pytest.mark.parametrize("version", [2, 99, "2", None, 2.5])
    def test_a_version_it_does_not_write_is_newer(self, version: Any) -> None:
        assert newer_versions.is_newer({"version": version})
        assert read(kind="ask", version=version).version > JOB.version

    @pytest.mark.parametrize("data", [{}, {"version": 1}])
    def test_its_own_version_is_not(self, data: Json) -> None:
        assert not newer_versions.is_newer(data)

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"actor": "robot"}, "actor robot"),
            ({"state_before": "PARKED"}, "state PARKED"),
            ({"after": {"status": "PARKED"}}, "state PARKED"),
            ({"after": {"status": "APPROVAL_REQUIRED", "awaiting": "merge"}}, "awaiting merge"),
            ({"observed": {"phase": "judge"}}, "phase judge"),
            ({"response": {"error": {"kind": "overloaded", "message": "m"}}}, "error overloaded"),
            ({"after": {"status": "SUSPENDED", "before": {"status": "PARKED"}}}, "state PARKED"),
            ({"version": 3}, "format 3"),
        ],
    )
    def test_each_word_that_decides_is_named(self, change: Json, said: str) -> None:
        assert said in newer_versions.list_unknown_words(
            Interaction.model_validate(entry(kind="ask", **change))
        )


class TestFold:
    def test_the_state_follows_an_unknown_kind(self) -> None:
        after = {"status": "STUCK", "step": "other", "attempts": 2}
        stuck = {"kind": "agent", "step": "other", "role": "Worker", "phase": "doer", "reason": "why"}
        usage = {"cost_cents": 5, "cost_microcents": 3, "seconds": 2.0, "input_tokens": 1, "output_tokens": 4}
        here = Recorder().state
        found = read(after={**after, "stuck": stuck}, usage=usage, checkpoint_after="c9", reason="as I say")
        state = fold.apply_interaction(here, found)
        assert (state.revision, state.status, state.step, state.place.attempts) == (2, "STUCK", "other", 2)
        assert state.place.stuck is not None
        assert (state.place.stuck.kind, state.reason, state.checkpoint) == ("agent", "as I say", "c9")
        assert (state.usage.cumulative_cost, state.usage.cumulative_cost_microcents) == (5, 3)
        assert (state.usage.cumulative_time_seconds, state.usage.input_tokens) == (2.0, 1)
        assert (state.usage.current_action_count, state.last, state.asked) == (0, here.last, 0)

    def test_an_agent_in_it_counts_as_asked(self) -> None:
        here = Recorder().state
        assert fold.apply_interaction(here, read(actor="agent")).usage.current_action_count == 1
        assert (
            fold.apply_interaction(here, read(actor="agent", simulated=True)).usage.current_action_count == 0
        )

    def test_an_unknown_error_counts_as_work(self) -> None:
        error = {"error": {"kind": "overloaded", "message": "m"}, "status": "ERROR"}
        asked = Interaction.model_validate(entry(kind="ask", actor="agent", response=error))
        assert fold.apply_interaction(Recorder().state, asked).usage.current_action_count == 1

    def test_the_newest_format_is_remembered(self) -> None:
        job = Recorder()
        state = fold.apply_interaction(job.state, read(version=3))
        assert state.version == 3
        job.answer()
        assert fold.apply_interaction(state, job.entries[-1]).version == 3
        job.decide(Kind.RESTEP, to=2)
        assert fold.apply_interaction(state, job.entries[-1], fold.fold_before(job.entries, 2)).version == 3
        job.decide(Kind.RERUN)
        assert fold.apply_interaction(state, job.entries[-1]).version == 3

    def test_a_state_of_a_newer_format_passes_it_on(self) -> None:
        folded = Recorder().state
        assert newer_versions.find_newer_fields(
            {"version": 4, "lane": "fast", "head": {}, "checksum": ""}, folded
        ) == {
            "version": 4,
            "lane": "fast",
        }
        assert newer_versions.find_newer_fields({"version": "x"}, folded) == {"version": JOB.version + 1}
        assert newer_versions.find_newer_fields({"version": JOB.version, "title": "t"}, folded) == {}


class TestMoving:
    @pytest.mark.parametrize(
        "place",
        [
            {"status": "PARKED"},
            {"status": "APPROVAL_REQUIRED", "awaiting": "merge"},
            {"status": "SUSPENDED", "before": {"status": "PARKED"}},
            {
                "status": "STUCK",
                "stuck": {"kind": "budget", "step": "s", "role": "r", "phase": "doer", "reason": ""},
            },
            {
                "status": "STUCK",
                "stuck": {"kind": "agent", "step": "s", "role": "r", "phase": "judge", "reason": ""},
            },
            {"status": "PENDING", "version": JOB.version + 1},
        ],
    )
    def test_a_job_is_moved_only_from_where_it_is_understood(self, place: Json) -> None:
        with pytest.raises(Refused, match="use the version of Logist that wrote it, or a newer one"):
            newer_versions.refuse_to_move(State.model_validate(place))

    def test_what_to_do_in_doubt_is_left_to_the_steward_unless_it_is_known(self) -> None:
        job = Recorder(on_doubt="ask the bank")
        assert step.conclude_in_doubt(job.spec, job.state, "Worker").place.status is Status.STUCK

    def test_every_place_of_this_logist_is(self) -> None:
        job = whole_history()
        for number in range(1, len(job.entries) + 1):
            moved = newer_versions.refuse_to_move(fold.fold(job.entries[:number]))  # type: ignore[func-returns-value]
            assert moved is None


class TestReplay:
    def test_an_unknown_kind_is_passed_over(self) -> None:
        job = Recorder()
        job.answer(command("RETRY", summary="Again."))
        after = job.entries[-1].after.model_dump(mode="json")
        job.entries.append(read(sequence=3, after=after))
        job.answer()
        assert list(replay.find_differences(job.entries, SCHEMA)) == []

    def test_what_follows_is_judged_from_where_it_left_the_job(self) -> None:
        job = Recorder()
        job.entries.append(read(after={"status": "REVIEW_REQUIRED"}, state_after="REVIEW_REQUIRED"))
        job.answer()
        wrong = job.entries[-1].model_copy(update={"state_after": Status.FAILED})
        assert list(replay.find_differences(job.entries, SCHEMA)) == []
        assert [d.sequence for d in replay.find_differences([*job.entries[:-1], wrong], SCHEMA)] == [3]

    def test_a_state_that_only_a_newer_one_knows_is_not_judged(self) -> None:
        job = Recorder()
        asked = Interaction.model_validate(entry(kind="ask", actor="agent", after={"status": "PARKED"}))
        job.entries.append(asked)
        assert list(replay.find_differences(job.entries, SCHEMA)) == []

    def test_a_history_may_begin_with_an_unknown_kind(self) -> None:
        job = Recorder()
        job.answer()
        begun = read(sequence=1, kind="import", after=job.entries[0].after.model_dump(mode="json"))
        assert list(replay.find_differences([begun, job.entries[1]], SCHEMA)) == []
        spec = job.spec.model_dump(mode="json")
        begun = begun.model_copy(update={"spec": EffectiveSpec.model_validate(spec)})
        wrong = job.entries[1].model_copy(update={"state_after": Status.FAILED})
        assert [d.sequence for d in replay.find_differences([begun, wrong], SCHEMA)] == [2]
