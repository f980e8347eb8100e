"""Exports whose patterns find numbers or the wording of a role, and manifests of a great many interactions."""

from __future__ import annotations

import json
import os
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logist.config.sections import RedactRules
from logist.core.share import Replacing
from logist.errors import Damaged, Refused, UsageError
from logist.jobs.archive import archive_drift, archive_replay, job_fixture, recorded_jobs
from logist.jobs.archive.fixture_export import export_fixture
from logist.jobs.archive.job_fixture import Manifest, Moves, Transition
from logist.resources import find_resource
from logist.roles import load_roles
from tests.jobs.bench import Bench, answer, command

POET = {
    "name": "Poet",
    "description": "d",
    "instructions": "Rhyme like Quibble, as /home/quux/poems has it.",
    "llm_model": "m",
}
SETTINGS = {"redact": {"patterns": [r"\b\d{6}\b", "Quibble"]}, "approval": "none"}
OUTPUT = {"employee": 123456, "ratio": 123456.5}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The job `j` of a role of the project, with numbers that a pattern finds."""
    b = Bench(tmp_path_factory.mktemp("shelf"), [answer(command(output=OUTPUT))], SETTINGS)
    write(b, POET)
    b.create(prompt="Write.", role="Poet", input=OUTPUT)
    b.run()
    return b


def write(b: Bench, role: dict[str, Any]) -> None:
    place = b.project.home / "roles" / "Poet.json"
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps(role), "utf-8")
    b.change(roles=load_roles([find_resource("roles"), place.parent]))


def test_numbers_that_a_pattern_finds_are_taken_out_everywhere(shelf: Bench, tmp_path: Path) -> None:
    done = export_fixture(shelf.project, shelf.project.open_job("j"), tmp_path / "f", redacted=True)
    text = (done.path / "jobHistory.json").read_text("utf-8")
    assert not re.search("123456|Quibble|quux", text)
    response = json.loads(text)["interactions"][1]["response"]
    assert json.loads(response["raw_response"])["output"] == response["output"]
    assert response["output"].keys() == OUTPUT.keys()
    assert job_fixture.find_disagreements(done.path) == ()


def test_a_pattern_that_finds_a_piece_of_a_value_leaves_no_rest_of_it(shelf: Bench, tmp_path: Path) -> None:
    """As one of a project could, beside those of the user."""
    overlapping = RedactRules(patterns=("Quibble, as", "like Q"))
    project = replace(
        shelf.project, settings=shelf.project.settings.model_copy(update={"redact": overlapping})
    )
    done = export_fixture(project, project.open_job("j"), tmp_path / "f", redacted=True)
    assert not re.search("uibble|like Q", (done.path / "jobHistory.json").read_text("utf-8"))


def test_what_a_pattern_finds_after_all_is_refused(
    shelf: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Replacing, "number", lambda self, value, *, own: value)
    with pytest.raises(
        Refused, match=r"interaction 1, spec\.input\.\*: a match of redact\.patterns"
    ) as refused:
        export_fixture(shelf.project, shelf.project.open_job("j"), tmp_path / "f", redacted=True)
    assert "123456" not in str(refused.value)
    assert os.listdir(tmp_path) == []


def test_the_wording_of_a_role_that_was_taken_out_is_no_drift(shelf: Bench, tmp_path: Path) -> None:
    done = export_fixture(shelf.project, shelf.project.open_job("j"), tmp_path / "f", redacted=True)
    write(shelf, POET | {"permissions": {"can_read_files": True}})
    other = replayed(shelf, done.path)
    write(shelf, POET)
    found = replayed(shelf, done.path)
    assert found.drifts == ()
    assert found.notes == (
        "1 part of a prompt was redacted by the export and not compared with the current version",
    )
    assert "permissions" in {each.source for each in other.drifts}
    assert archive_replay.replay_file(shelf.project.schema, done.path).notes == ()


def replayed(b: Bench, folder: Path) -> archive_replay.Replayed:
    (archive,) = recorded_jobs.find_histories([str(folder)])
    return archive_replay.replay_archive(
        archive, b.project.schema, prompts=archive_drift.build_drift_finder(b.project)
    )


def test_a_redacted_fixture_is_replaced_by_a_redacted_one_alone(shelf: Bench, tmp_path: Path) -> None:
    done = export_fixture(shelf.project, shelf.project.open_job("j"), tmp_path / "f", redacted=True)
    before = (done.path / "jobHistory.json").read_bytes()
    with pytest.raises(UsageError, match="contains a redacted fixture"):
        export_fixture(shelf.project, shelf.project.open_job("j"), tmp_path / "f", force=True)
    assert (done.path / "jobHistory.json").read_bytes() == before


def manifest(count: int) -> Manifest:
    moves = Moves()
    for number in range(1, count + 1):
        moves.append(Transition(number, "ask", "PENDING", "STUCK" if number % 7 else "PENDING"))
    return Manifest(
        logist="1", job="j", head="0" * 64, fixture_head="0" * 64, interactions=count, redacted=False,
        transitions=moves, certified=True,
    )  # fmt: skip


@pytest.mark.parametrize("count", [0, 1, 999, 1000, 1001])
def test_a_manifest_reads_as_it_was_written(tmp_path: Path, count: int) -> None:
    wanted = [*manifest(max(count, 1)).transitions][:count]
    whole = manifest(max(count, 1)).model_copy(update={"transitions": moves(wanted)})
    job_fixture.write_manifest(tmp_path, whole)
    in_lines = job_fixture.read_manifest(tmp_path)
    path = tmp_path / "fixture.json"
    data = json.loads(path.read_bytes())
    assert data["transitions"] == [each._asdict() for each in wanted]
    path.write_text(json.dumps(data), "utf-8")
    in_one = job_fixture.read_manifest(tmp_path)
    assert in_lines is not None
    assert in_one is not None
    assert [*in_lines.transitions] == [*in_one.transitions] == wanted


def moves(rows: list[Transition]) -> Moves:
    found = Moves()
    for row in rows:
        found.append(row)
    return found


def test_a_long_manifest_takes_little_memory(tmp_path: Path) -> None:
    """A model for each row would take more than 4 MB here."""
    job_fixture.write_manifest(tmp_path, manifest(4_000))
    tracemalloc.start()
    found = job_fixture.read_manifest(tmp_path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None
    assert len(found.transitions) == 4_000
    assert most < 1_000_000


@pytest.mark.parametrize("row", ["{}", "7", '{"sequence": 1, "kind": 2}', '{"sequence": 1e9}'])
def test_a_row_that_does_not_read_is_named(tmp_path: Path, row: str) -> None:
    job_fixture.write_manifest(tmp_path, manifest(3))
    path = tmp_path / "fixture.json"
    lines = path.read_text("utf-8").split("\n")
    lines[10] = f"  {row},"
    path.write_text("\n".join(lines), "utf-8")
    with pytest.raises(Damaged, match=r"the manifest is invalid: transitions\."):
        job_fixture.find_disagreements(tmp_path)
