"""Records that are read without pydantic have the attributes of their models, or are not read at all."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from logist.core.history import fold
from logist.core.machine.kinds import KINDS, command_of, get_command_name, plain_command_of
from logist.core.model import Interaction, JobSpec, Kind, State, command_kinds, commands, plain
from logist.core.model.shapes import SHAPES
from logist.jobs.base.stored_records import STORED_ONLY, dump_state
from logist.quick_model import BaseModel, ValidationError
from logist.store import Position
from tests import support

ARCHIVE = support.ROOT / "fixtures" / "upgrades" / "every-kind-of-interaction.tar.gz"


def test_the_tables_are_those_of_the_models() -> None:
    printed = subprocess.run(
        [sys.executable, str(support.ROOT / "scripts" / "shapes"), "--print"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    modules = ("core/model/shapes.py", "config/shapes.py", "roles/shipped.py")
    written = (*(f"logist/{name}" for name in modules), "schemas/config.json", "schemas/job.json")
    assert printed == "".join((support.ROOT / name).read_text("utf-8") for name in written), (
        "run scripts/shapes"
    )


def recorded_entries() -> list[list[dict[str, Any]]]:
    """The interactions of each fixture, and those of an earlier version, which has all kinds."""
    histories = [
        json.loads(path.read_bytes())["interactions"]
        for path in support.ROOT.glob("fixtures/*/*/jobHistory.json")
    ]
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            if member.name.endswith("jobHistory.json"):
                file = archive.extractfile(member) or pytest.fail(member.name)
                histories.append(json.load(file)["interactions"])
    return histories


HISTORIES = recorded_entries()


def assert_same(model: Any, record: Any, where: str) -> None:
    """Every attribute has the same value, of the same type, all the way down."""
    if isinstance(model, BaseModel):
        assert isinstance(record, plain.PlainRecord), where
        assert record.model_fields_set == model.model_fields_set, where
        for name in type(model).model_fields:
            assert_same(getattr(model, name), getattr(record, name), f"{where}.{name}")
    elif isinstance(model, dict):
        assert model.keys() == record.keys(), where
        for key, value in model.items():
            assert_same(value, record[key], f"{where}[{key}]")
    elif isinstance(model, list | tuple):
        assert type(record) is type(model), where
        assert len(record) == len(model), where
        for number, value in enumerate(model):
            assert_same(value, record[number], f"{where}[{number}]")
    else:
        assert record == model or (record != record and model != model), where  # NaN
        assert type(record) is type(model) or isinstance(model, int | float), where


@pytest.mark.parametrize("number", range(len(HISTORIES)))
def test_an_interaction_has_the_attributes_of_the_model(number: int) -> None:
    for entry in HISTORIES[number]:
        record: Any = plain.read_interaction(entry)
        model = Interaction.model_validate(entry)
        if record is None:
            assert has_more_than_the_model(model), entry
            continue
        assert_same(model, record, f"#{model.sequence}")
        assert type(record).__name__ == "PlainRecord"
        assert record.model_dump() == model.model_dump(mode="json")
        assert_same(command_of(model), plain_command_of(record), f"#{model.sequence}.command")


def has_more_than_the_model(value: object) -> bool:
    """Whether something in it is not known to this Logist, so that only the model can read it."""
    if isinstance(value, BaseModel):
        return bool(value.model_extra) or any(
            has_more_than_the_model(getattr(value, name)) for name in type(value).model_fields
        )
    if isinstance(value, list | tuple):
        return any(map(has_more_than_the_model, value))
    return any(map(has_more_than_the_model, value.values())) if isinstance(value, dict) else False


def test_nearly_all_of_what_is_recorded_is_read() -> None:
    entries = [entry for history in HISTORIES for entry in history]
    unread = [entry for entry in entries if plain.read_interaction(entry) is None]
    assert len(unread) * 5 < len(entries)
    assert {entry["kind"] for entry in entries if plain.read_interaction(entry)} >= set(Kind) - {
        Kind.NOTE,
        Kind.UPDATE,
        Kind.SCRUB,
    }


@pytest.mark.parametrize("number", range(len(HISTORIES)))
def test_a_state_has_the_attributes_of_the_model(number: int) -> None:
    state = fold.fold(map(Interaction.model_validate, HISTORIES[number]))
    data = {**json.loads(json.dumps(dump_state(state, Position(1, "a", 1)))), "checksum": "a"}
    model = State.model_validate({name: value for name, value in data.items() if name not in STORED_ONLY})
    record = plain.read_state(data)
    if record is None:
        assert has_more_than_the_model(model)
        return
    assert_same(model.place, record.place, "place")
    assert_same(model, record, "state")
    assert (record.status, record.step) == (model.status, model.step)
    dumped = record.model_dump()
    assert dumped == model.model_dump(mode="json")
    assert list(dumped) == list(model.model_dump(mode="json"))


def read_plain_history(history: list[dict[str, Any]]) -> list[Any] | None:
    """The interactions as plain records; None if only the models can read one of them, or its command."""
    entries: list[Any] = [*map(plain.read_interaction, history)]
    if not all(entries) or not all(
        plain.read_command(get_command_name(entry.kind), entry.command) for entry in entries
    ):
        return None
    return entries


def assert_same_fold(history: list[dict[str, Any]]) -> bool:
    """The state is the same, folded of plain records and of models; returns whether the first is possible."""
    entries = read_plain_history(history)
    if entries is None:
        return False
    record: Any = fold.fold(entries)
    model = fold.fold(map(Interaction.model_validate, history))
    assert isinstance(record, plain.PlainRecord)
    assert_same(json.loads(model.model_dump_json()), json.loads(json.dumps(record.model_dump())), "state")
    assert fold.sum_usage(entries).model_dump() == fold.sum_usage(
        map(Interaction.model_validate, history)
    ).model_dump(mode="json")
    return True


def test_plain_records_are_folded_to_the_same_state() -> None:
    folded = [
        history[:count]
        for history in HISTORIES
        for count in range(1, len(history) + 1)
        if assert_same_fold(history[:count])
    ]
    kinds = {entry["kind"] for history in folded for entry in history}
    assert kinds >= set(Kind) - {Kind.NOTE, Kind.UPDATE, Kind.SCRUB}
    assert any(entry.get("spec", {}).get("workflow") for history in folded for entry in history)


def test_plain_records_with_other_values_are_folded_to_the_same_state() -> None:
    """Also if the values are unusual: those of another interaction, or of another kind."""
    chance = random.Random(26)
    same = 0
    for history in HISTORIES:
        if read_plain_history(history) is None:
            continue
        for _ in range(15):
            changed = copy.copy(history)
            for number in chance.choices(range(len(history)), k=3):
                entry = history[number]
                path = chance.choice(list(walk_places(entry))[1:])
                value = chance.choice([*WRONG, *map(partial(follow, path), chance.choices(history, k=3))])
                changed[number] = with_value(entry, path, value)
            changed[0] = history[0]  # without a first place, there is no state
            try:
                fold.fold(map(Interaction.model_validate, changed))
            except ValidationError:
                continue
            same += assert_same_fold(changed)
    assert same > 50


def follow(path: tuple[Any, ...], value: Any) -> Any:
    """The value at this place; None if there is no such place."""
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"id": "a", "prompt": "x", "tags": ["a"], "limits": {"cost_threshold": 5}, "repo": False},
        {"approval": True, "acceptance_criteria": "x", "rank": 3, "limits": {}},
        {"approval": "each", "acceptance_criteria": ["x", "y"], "review": False, "input": {"a": [1, None]}},
        {"review_mode": "yolo", "auto_merge": True, "title": None, "description": ""},
    ],
    ids=str,
)
def test_a_spec_is_written_as_by_the_model(data: dict[str, Any]) -> None:
    model, record = JobSpec.model_validate(data), plain.read_job_spec(data)
    assert record is not None
    assert_same(model, record, "spec")
    every: list[dict[str, Any]] = [
        {},
        {"exclude_none": True},
        {"exclude_none": True, "exclude_defaults": True},
    ]
    for options in every:
        assert record.model_dump(mode="json", **options) == model.model_dump(mode="json", **options)


@pytest.mark.parametrize("key", JobSpec.model_fields)
def test_a_spec_is_not_read_differently(key: str) -> None:
    for wrong in [*WRONG, "a\n", "../a", "end", {"cost_threshold": 1}, {"cost_threshold": float("inf")}]:
        record = plain.read_job_spec({key: wrong})
        if record is not None:
            assert_same(JobSpec.model_validate({key: wrong}), record, f"{key} = {wrong!r}")


WRONG = [
    None,
    3,
    -1,
    1.5,
    "x",
    "",
    True,
    [],
    ["a"],
    {},
    {"a": 1},
    "\ud800",
    10**400,
    float("nan"),
    float("inf"),
    ["\ud800"],
]


def walk_places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, each in members:
        yield from walk_places(each, (*path, key))


def with_value(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    changed = copy.copy(data)
    changed[path[0]] = with_value(data[path[0]], path[1:], value)
    return changed


def test_what_the_model_refuses_or_converts_is_not_read() -> None:
    """Nothing is read differently: either the model reads the same, or only the model reads it."""
    chance = random.Random(25)
    entries = [chance.choice(history) for history in HISTORIES]
    read = 0
    for entry in entries:
        for path in chance.sample(list(walk_places(entry))[1:], 12):
            for wrong in chance.sample(WRONG, 5):
                changed = with_value(entry, path, wrong)
                if chance.random() < 0.2:
                    changed = {**changed, "unknown": 1}
                record = plain.read_interaction(changed)
                if record is not None:
                    read += 1
                    assert_same(Interaction.model_validate(changed), record, f"{path} = {wrong!r}")
    assert read


@pytest.mark.parametrize("kind", Kind)
def test_a_command_with_a_wrong_value_is_read_by_its_class(kind: Kind) -> None:
    name = KINDS[kind].command_name
    for key in SHAPES[name][1]:
        for wrong in WRONG:
            record = plain.read_command(name, {key: wrong})
            if record is not None:
                assert_same(command_of(entry_with(kind, {key: wrong})), record, f"{key} = {wrong!r}")


def entry_with(kind: Kind, command: dict[str, Any]) -> Interaction:
    known = next(entry for history in HISTORIES for entry in history if plain.read_interaction(entry))
    return Interaction.model_validate(known).model_copy(update={"kind": kind, "command": command})


def test_a_newer_format_is_left_to_the_model() -> None:
    entry = next(each for each in HISTORIES[0] if plain.read_interaction(each))
    assert plain.read_interaction({**entry, "version": 2}) is None
    assert plain.read_interaction({**entry, "kind": "pause"}) is None
    assert plain.read_interaction({**entry, "new": 1}) is None
    assert plain.read_state({"status": "PENDING", "place": {}}) is None


def test_a_record_is_read_only() -> None:
    record = plain.read_record("Usage", {})
    with pytest.raises(AttributeError, match="read-only"):
        record.seconds = 3  # type: ignore[union-attr]
    with pytest.raises(AttributeError, match="Usage has no attribute 'price'"):
        _ = record.price  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["Place", "Usage", "CheckResult", "Last"])
def test_the_models_refuse_what_lacks_a_required_field(name: str) -> None:
    from logist.core.model import record as records
    from logist.core.model import state as states

    model = getattr(records, name, None) or getattr(states, name)
    try:
        expected: Any = model.model_validate({})
    except ValidationError:
        assert plain.read_record(name, {}) is None
    else:
        assert_same(expected, plain.read_record(name, {}), name)


def test_the_name_of_a_command_tells_its_class() -> None:
    predicates = {name: check for name, check in vars(command_kinds).items() if name.startswith("is_")}
    classes = {
        each
        for each in vars(commands).values()
        if isinstance(each, type) and issubclass(each, commands.RecordedCommand)
    }
    assert len(predicates) > 10
    for name, is_command in predicates.items():
        expected = getattr(commands, f"{name.removeprefix('is_').title()}Command")
        assert {each for each in classes if is_command(each.__new__(each))} == {
            each for each in classes if issubclass(each, expected)
        }
