"""What interactions record of what was asked for: read into classes, and written as it was."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from typing import Any

import pytest

from logist.core.machine.kinds import KINDS, command_of, read_command
from logist.core.model import Interaction, Kind, Totals, commands
from logist.core.model.commands import (
    ApproveCommand,
    AskCommand,
    CollectCommand,
    ForkCommand,
    RecordedCommand,
    RestepCommand,
    ResubmitCommand,
    SpawnCommand,
)
from logist.quick_model import ValidationError
from tests import support

ARCHIVE = support.ROOT / "fixtures" / "upgrades" / "every-kind-of-interaction.tar.gz"


def iterate_recorded() -> Iterator[Any]:
    """The interactions of an earlier version, which has all kinds; and those of the other fixtures."""
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            if member.name.endswith("jobHistory.json"):
                yield from json.load(archive.extractfile(member) or pytest.fail(member.name))["interactions"]
    for path in support.ROOT.glob("fixtures/*/*/jobHistory.json"):
        yield from json.loads(path.read_bytes())["interactions"]


def test_what_is_read_is_written_the_same_and_all_of_it_is_known() -> None:
    seen = set()
    for each in iterate_recorded():
        entry = Interaction.model_validate(each)
        command = command_of(entry)
        assert type(command).__name__ == KINDS[entry.kind].command_name
        assert command.write() == entry.command
        assert not command.model_extra
        seen.add(entry.kind)
    # No earlier version has these; test_inbox.py and test_updating.py verify and replay one.
    assert seen == set(Kind) - {Kind.NOTE, Kind.UPDATE, Kind.SCRUB}


@pytest.mark.parametrize(
    "wrong", [3, 1.5, "x", True, None, [], [3], {}, {"a": 3}, [{"id": 3}], {"a": ["\ud800"]}]
)
@pytest.mark.parametrize("kind", Kind)
def test_a_value_of_a_wrong_type_is_as_absent(kind: Kind, wrong: object) -> None:
    shape = getattr(commands, KINDS[kind].command_name)
    names = [field.serialization_alias or name for name, field in shape.model_fields.items()]
    command = read_command(kind, dict.fromkeys(names, wrong))
    for name in shape.model_fields:
        read_command(kind, {name: [wrong, {"id": wrong, "a": wrong}]})
    again = read_command(kind, command.write())
    assert again.write() == command.write()
    json.dumps(command.write())


def test_what_a_newer_logist_writes_is_kept_and_has_no_say() -> None:
    recorded = {"to": 3, "softly": True}
    assert RestepCommand.read(recorded).write() == recorded
    command = read_command(Kind("pause"), {"to": 3})
    assert type(command) is RecordedCommand
    assert command.write() == {"to": 3}


def test_none_is_not_written_but_an_output_may_be_null() -> None:
    assert ResubmitCommand(review=True, step=None).write() == {"review": True}
    assert ApproveCommand().write() == {}
    assert ApproveCommand(output=None).write() == {"output": None}
    assert not ApproveCommand.read({"override": True}).gives_output
    assert CollectCommand.read({"children": [{"id": "a", "output": None}]}).write() == {
        "children": [{"id": "a", "output": None}]
    }


def test_names_that_python_has_taken() -> None:
    command = ForkCommand(from_job="j", at=2)
    assert command.write() == {"from": "j", "at": 2}
    assert ForkCommand.read({"from": "j", "at": 2}) == command


def test_a_booking_is_written_whole() -> None:
    used = {"a": Totals(cumulative_cost=3)}
    written = ResubmitCommand(spawn=3, runs=1, used=used).write()
    assert written["used"] == {"a": Totals(cumulative_cost=3).model_dump(mode="json")}
    assert ResubmitCommand.read(written).used == used


def test_a_child_that_is_no_object_leaves_the_others_to_read() -> None:
    recorded = {"children": [{"id": "a"}, 3, {"id": "b", "status": 4}], "gathered": "later"}
    collect = CollectCommand.read(recorded)
    assert [(child.id, child.status) for child in collect.children] == [("a", ""), ("b", "")]
    assert collect.gathered is None
    assert [child.id for child in SpawnCommand.read(recorded).children] == ["a", "b"]


def test_who_makes_a_command_gets_told_of_a_wrong_type() -> None:
    with pytest.raises(ValidationError):
        RestepCommand.model_validate({"to": "3"})


def test_the_findings_of_a_review_that_read_count() -> None:
    command = AskCommand.read({"findings": [3, {"message": "m"}], "verdict": 3})
    assert (command.findings, command.verdict) == ([{"message": "m"}], None)
