"""`logist role list|show|validate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.desk import Desk

SHIPPED = ["Actor", "Commander", "Designer", "Planner", "Reviewer", "Supervisor", "Tester", "Worker"]
POET = "name: Poet\ndescription: Writes verse.\ninstructions: |\n  Rhyme.\n  Always.\nllm_model: m\ntemperature: 0.9\n"


def valid(*more: str) -> str:
    names = sorted([*SHIPPED, *more])
    return f"{len(names)} roles are valid: {', '.join(names)}\n"


@pytest.fixture
def roles(desk: Desk) -> Path:
    folder = desk.home / "roles"
    folder.mkdir()
    return folder


def test_list(desk: Desk, roles: Path) -> None:
    (roles / "poet.yaml").write_text(POET, "utf-8")
    ran = desk("role", "list")
    assert (ran.code, ran.err) == (0, "")
    rows = [line.split("\t") for line in ran.out.splitlines()]
    assert [row[0] for row in rows] == sorted([*SHIPPED, "Poet"])
    found = {row[0]: row[1:] for row in rows}
    assert found["Poet"] == ["m", "everything", str(roles / "poet.yaml"), "Writes verse."]
    may = {name: cells[1] for name, cells in found.items()}
    assert (may["Planner"], may["Tester"]) == ("read", "read, execute")
    lines = [json.loads(line) for line in desk("role", "list", "--jsonl").out.splitlines()]
    assert lines == desk("role", "list", "--json").json["data"]


def test_the_project_comes_before_what_ships(desk: Desk, roles: Path) -> None:
    (roles / "w.yaml").write_text(POET.replace("Poet", "Worker"), "utf-8")
    data = desk("role", "show", "Worker", "--json").json["data"]
    assert (data["file"], data["llm_model"]) == (str(roles / "w.yaml"), "m")


def test_show(desk: Desk, roles: Path, snapshot: SnapshotAssertion) -> None:
    (roles / "poet.yaml").write_text(POET, "utf-8")
    assert desk.shown(desk("role", "show", "Poet")) == snapshot


def test_an_unknown_role(desk: Desk) -> None:
    ran = desk("role", "show", "worker")
    assert (ran.code, ran.out) == (2, "")
    assert "did you mean `Worker`?" in ran.err


@pytest.mark.parametrize("missing", ["name", "description", "instructions", "llm_model"])
def test_a_role_without_one_of_its_four_attributes(desk: Desk, roles: Path, missing: str) -> None:
    keys = {"name": "Poet", "description": "d", "instructions": "i", "llm_model": "m"}
    del keys[missing]
    (roles / "Poet.json").write_text(json.dumps(keys), "utf-8")
    before = desk.tree()
    ran = desk("role", "validate")
    assert (ran.code, ran.out) == (5, "")
    assert ran.err.startswith(f"error: {roles / 'Poet.json'}")
    assert f"`{missing}` is missing" in ran.err
    assert ran.err.count("\n") == 1
    assert desk("role", "show", "Poet").code == 5
    listed = desk("role", "list")
    assert (listed.code, listed.out.count("\n")) == (0, len(SHIPPED))
    assert listed.err.startswith("warning: ")
    assert desk.tree() == before


def test_validate(desk: Desk, roles: Path) -> None:
    assert desk("role", "validate") == (0, valid(), "")
    (roles / "poet.yaml").write_text(POET + "colour: red\n", "utf-8")
    ran = desk("role", "validate")
    assert (ran.code, ran.out) == (0, valid("Poet"))
    assert ran.err.startswith("warning: ")
    assert "did you mean `color`?" in ran.err


def test_a_model_that_the_settings_do_not_know_is_a_warning(desk: Desk, roles: Path) -> None:
    (roles / "poet.yaml").write_text(POET, "utf-8")
    ran = desk("role", "validate")
    assert (ran.code, ran.out) == (0, valid("Poet"))
    told = f"warning: {roles / 'poet.yaml'}: role `Poet`: unknown model `m`; known: "
    assert ran.err.startswith(told)
    assert ran.err.count("\n") == 1
    desk.settings("models: {m: {provider_model: openai/m}}\n")
    assert desk("role", "validate").err == ""


def test_models_can_not_be_checked_without_settings(desk: Desk) -> None:
    desk.settings("limts: 1\n")
    ran = desk("role", "validate")
    assert (ran.code, ran.out) == (0, valid())
    assert "the models were not checked: " in ran.err
