"""A new optional field in any model of a job damages no job of an earlier version, and changes no spec.

`fixtures/upgrades/every-kind-of-interaction.tar.gz` is a project as version 0.1.0 left it before its code was reorganized.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from logist.core.model import Check, EffectiveSpec, Interaction, Kind, Limits, State
from logist.quick_model import BaseModel
from tests import support
from tests.replay.with_later_fields import STEPPED

ARCHIVE = support.ROOT / "fixtures" / "upgrades" / "every-kind-of-interaction.tar.gz"
PROGRAM = Path(__file__).with_name("with_later_fields.py")


REWORDED = (
    "Logist's own text has changed",
    "the schema of the exit command, llm-chat-schema.json, has changed",
)
"""The causes of all drift since the jobs were recorded: the texts for models were reworded once."""


def find_models(*shapes: Any) -> Iterator[type[BaseModel]]:
    """The models that a value of these types holds, at whatever depth; some more than once."""
    waiting, seen = [*shapes], set()
    while waiting:
        shape = waiting.pop()
        waiting += get_args(shape)
        if isinstance(shape, type) and issubclass(shape, BaseModel) and shape not in seen:
            seen.add(shape)
            waiting += [field.annotation for field in shape.model_fields.values()]
            yield shape


MODELS = sorted(find_models(EffectiveSpec, State, Interaction), key=lambda model: model.__name__)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        support.extract_archive(archive, tmp_path / "old")
    return tmp_path / "old"


def read_kinds(project: Path) -> dict[str, list[str]]:
    """The kinds of the interactions of each job."""
    jobs = (project / ".logist" / "jobs").glob("*/jobHistory.json")
    return {
        path.parent.name: [entry["kind"] for entry in json.loads(path.read_bytes())["interactions"]]
        for path in jobs
    }


def work(project: Path, *models: type[BaseModel]) -> dict[str, list[str]]:
    """Verifies, replays and steps the jobs with fields added to these models; the kinds that this has added to each job."""
    before = read_kinds(project)
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *(f"{model.__module__}:{model.__name__}" for model in models)],
        cwd=project,
        env=support.process_environment() | {"PYTHONPATH": f"{support.GUARDED}:{support.ROOT}"},
        capture_output=True,
        text=True,
        timeout=support.CRASHED,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ran = json.loads(done.stdout)
    assert [each for each in ran if each[1] and " step " not in each[0]] == []
    assert [out for command, _, out in ran if command.startswith("replay --prompts accept")] == [
        f"{len(before)} histories, {count} interactions: {len(before)} the same\n"
        for count in (sum(map(len, before.values())), sum(map(len, read_kinds(project).values())))
    ]
    drifts = [out for command, _, out in ran if command.startswith("replay --prompts warn")]
    causes = [cause for out in drifts for cause in re.findall(r"cause +(.*)", out)]
    assert causes
    assert [cause for cause in causes if not cause.startswith(REWORDED)] == []
    return {job: kinds[len(before[job]) :] for job, kinds in read_kinds(project).items()}


LATER = {Kind.NOTE, Kind.UPDATE, Kind.SCRUB}
"""Kinds that are newer than the recorded project."""


def test_every_kind_of_interaction_is_there(project: Path) -> None:
    assert {kind for kinds in read_kinds(project).values() for kind in kinds} == set(Kind) - LATER


def test_the_jobs_verify_replay_and_go_on(project: Path) -> None:
    added = work(project)
    assert {job for job, kinds in added.items() if kinds} == set(STEPPED)
    assert [added[job] for job in STEPPED] == [[Kind.ASK]] * len(STEPPED)


def test_with_optional_fields_in_every_model_they_do_the_same(project: Path) -> None:
    added = work(project, *MODELS)
    assert [added[job] for job in STEPPED] == [[Kind.ASK]] * len(STEPPED)


@pytest.mark.parametrize(
    "model",
    [pytest.param(each, marks=() if each in (Check, Limits) else pytest.mark.deep) for each in MODELS],
)
def test_with_optional_fields_in_one_model_they_do_the_same(project: Path, model: type[BaseModel]) -> None:
    added = work(project, model)
    assert [added[job] for job in STEPPED] == [[Kind.ASK]] * len(STEPPED)


def test_a_field_that_says_something_changes_the_spec(project: Path) -> None:
    config = project / ".logist" / "config.yaml"
    text = config.read_text("utf-8")
    assert text.count('{command: ["true"]}') == 1
    config.write_text(text.replace('{command: ["true"]}', '{command: ["true"], later_count: 2}'), "utf-8")
    added = work(project, Check)
    assert [added[job] for job in STEPPED] == [[Kind.SPEC, Kind.ASK]] * len(STEPPED)
