"""The nouns: what a file may say, what a newer Logist may add, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from logist.core import model
from logist.core.history.fold import fold
from logist.core.model import (
    HALTED,
    TERMINAL,
    EffectiveSpec,
    Frozen,
    Interaction,
    JobSpec,
    Kind,
    Limits,
    PartialLimits,
    Place,
    Recorded,
    Role,
    State,
    Status,
)
from logist.quick_model import BaseModel, ValidationError
from tests.core.builders import SUPERVISOR, stuck, whole_history

BASES = (BaseModel, Frozen, Recorded)
VALUES = [
    value
    for value in vars(model).values()
    if isinstance(value, type) and issubclass(value, BaseModel) and value not in BASES
]
NOT_RECORDED = {
    *(Kind.ACTIVATE, Kind.NOTE, Kind.FORK, Kind.SPAWN, Kind.COLLECT, Kind.MERGE),
    *(Kind.UPDATE, Kind.SCRUB),
}
"""Kinds that the recorded history does not have."""
ROLE = {"name": "n", "description": "d", "instructions": "i", "llm_model": "m"}


def test_every_noun_is_either_exact_or_open() -> None:
    for value in VALUES:
        assert issubclass(value, Frozen) != issubclass(value, Recorded)


@pytest.mark.parametrize("value", VALUES)
def test_values_do_not_change(value: type[BaseModel]) -> None:
    assert value.model_config["frozen"] is True


def test_a_place_can_not_be_changed() -> None:
    with pytest.raises(ValidationError):
        Place(status=Status.DRAFT).status = Status.SUCCESS  # type: ignore[misc]


@pytest.mark.parametrize("value", [JobSpec, model.ConfiguredLimits, PartialLimits, Role])
def test_what_a_person_writes_has_no_unknown_fields(value: type[BaseModel]) -> None:
    given = ROLE if value is Role else {}
    value.model_validate(given)
    with pytest.raises(ValidationError, match="no_such_field"):
        value.model_validate({**given, "no_such_field": 1})


@pytest.mark.parametrize("missing", ROLE)
@pytest.mark.parametrize("empty", [True, False])
def test_a_role_has_four_attributes(missing: str, empty: bool) -> None:
    given = {name: value for name, value in ROLE.items() if name != missing} | (
        {missing: ""} if empty else {}
    )
    with pytest.raises(ValidationError, match=missing):
        Role.model_validate(given)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cost_threshold", -1),
        ("cost_threshold", float("inf")),
        ("cost_threshold", float("nan")),
        ("time_threshold_minutes", -0.1),
        ("time_threshold_minutes", float("inf")),
        ("max_allowed_iterations", -1),
        ("max_allowed_iterations", 1.5),
        ("max_attempts", 0),
    ],
)
def test_a_limit_is_a_number_that_can_be_reached(field: str, value: Any) -> None:
    for noun in (Limits, PartialLimits):
        with pytest.raises(ValidationError, match=field):
            noun.model_validate({field: value})


def test_defaults() -> None:
    assert Limits().model_dump() == {
        "cost_threshold": 1000,
        "time_threshold_minutes": 60,
        "max_allowed_iterations": 50,
        "max_attempts": 3,
    }
    spec = EffectiveSpec(title="t")
    assert (spec.review, spec.approval, spec.on_doubt) == (True, "end", "stuck")
    assert (spec.doer, spec.reviewer) == ("Worker", SUPERVISOR.name)


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 128, "-", "_"])
def test_ids(name: str) -> None:
    assert JobSpec(id=name).id == name


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a.b", "ä", "x" * 129, "a\n", "a b", "\0"])
def test_no_ids(name: str) -> None:
    with pytest.raises(ValidationError):
        JobSpec(id=name)


def test_states_are_those_of_the_design() -> None:
    assert {*TERMINAL} == {"SUCCESS", "FAILED", "CANCELED"}
    assert {*HALTED} == {"HALTED_COST", "HALTED_TIME", "HALTED_ITERATION"}
    resting = ["DRAFT", "PENDING", "REVIEW_REQUIRED", "WAITING", "APPROVAL_REQUIRED", "STUCK", "SUSPENDED"]
    assert {*Status} == {*TERMINAL, *HALTED, *resting}
    assert all(member.name == member.value for member in Status)


def test_kinds_are_those_of_the_design() -> None:
    names = (
        "ask create spec activate approve reject resubmit role note suspend resume cancel fail restep rerun fork "
        "halt recover spawn collect merge update scrub"
    )
    assert [kind.value for kind in Kind] == names.split()


class TestRoundTrip:
    def added(self, value: Any) -> Any:
        """The document of a newer Logist: each object that is a noun of ours has one field more."""
        if isinstance(value, list):
            return [self.added(item) for item in value]
        return (
            {**{k: self.added(v) for k, v in value.items()}, "new": {"a": None}}
            if isinstance(value, dict)
            else value
        )

    def test_every_interaction_of_a_history(self) -> None:
        entries = whole_history().entries
        assert {entry.kind for entry in entries} == set(Kind) - NOT_RECORDED
        for entry in entries:
            dumped = entry.model_dump(mode="json", exclude_none=True)
            assert Interaction.model_validate(dumped) == entry
            assert Interaction.model_validate_json(entry.model_dump_json(exclude_none=True)) == entry

    def test_a_state(self) -> None:
        job = whole_history()
        for count in range(1, len(job.entries) + 1):
            state = fold(job.entries[:count])
            assert State.model_validate(state.model_dump(mode="json")) == state
            assert State.model_validate(state.model_dump(mode="json", exclude_none=True)) == state

    @pytest.mark.parametrize(
        "entry",
        [entry for entry in whole_history().entries if entry.spec is None],
        ids=lambda e: str(e.sequence),
    )
    def test_fields_of_a_newer_logist_are_kept(self, entry: Interaction) -> None:
        newer = self.added(entry.model_dump(mode="json", exclude_none=True))
        read = Interaction.model_validate(newer)
        assert read.model_dump(mode="json", exclude_none=True) == newer

    def test_a_newer_state_and_a_newer_spec_keep_their_fields(self) -> None:
        for value in (whole_history().state, EffectiveSpec(title="t"), stuck()):
            newer = {**value.model_dump(mode="json"), "new": {"a": [None]}}
            assert type(value).model_validate(newer).model_dump(mode="json") == newer

    def test_null_in_free_objects_survives(self) -> None:
        free = {"a": None, "b": [None, {"c": None}]}
        entry = whole_history().entries[1]
        entry = entry.model_copy(
            update={
                "response": entry.response.model_copy(update={"output": free, "metadata": free}),
                "request": entry.request.model_copy(update={"metadata": free, "command": free}),
                "command": free,
                "route": [free],
            }
        )
        assert Interaction.model_validate(entry.model_dump(mode="json", exclude_none=True)) == entry

    def test_output_null_is_output_absent(self) -> None:
        entry = whole_history().entries[1]
        response = entry.response.model_copy(update={"output": None})
        dumped = entry.model_copy(update={"response": response}).model_dump(mode="json", exclude_none=True)
        assert "output" not in dumped["response"]
        assert Interaction.model_validate(dumped).response.output is None


def test_a_test_of_a_person_reads_the_place_as_fields_of_the_state() -> None:
    state: Any = State(place=stuck(attempts=2))
    assert {name: getattr(state, name) for name in Place.model_fields} == dict(state.place)
    with pytest.raises(AttributeError, match="'State' object has no attribute 'lane'"):
        _ = state.lane


def test_the_json_of_a_state_has_the_fields_of_its_place() -> None:
    for place in (
        stuck(),
        Place(status=Status.SUSPENDED, before=stuck(), attempts=2),
        Place(status=Status.HALTED_TIME, before=Place(status=Status.PENDING), halted_at=60.0),
        Place(status=Status.APPROVAL_REQUIRED, awaiting="review", step="other"),
    ):
        state = State(place=place)
        dumped = state.model_dump(mode="json")
        assert place.model_dump(mode="json").items() <= dumped.items()
        assert "place" not in dumped
        assert State.model_validate(dumped) == State.model_validate_json(state.model_dump_json()) == state
