"""`logist role set`: what is written, what is inherited, and what needs no trust."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.desk import Desk


@pytest.fixture
def file(desk: Desk) -> Path:
    return desk.home / "roles" / "Worker.yaml"


def read_role(desk: Desk, name: str = "Worker") -> dict[str, object]:
    shown: dict[str, object] = desk("role", "show", name, "--json").json["data"]
    return shown


def test_long_instructions_are_shown_as_one_short_line(desk: Desk, file: Path) -> None:
    before = read_role(desk)["instructions"]
    ran = desk("role", "set", "Worker", "instructions", "Do it.\nThen stop.")
    head, place = ran.out.splitlines()
    assert head.startswith("Worker: instructions: You are ")
    assert head.endswith(" -> Do it. Then stop.")
    assert len(head) < 300
    assert place == f"file: {file}"
    assert (
        desk("role", "set", "Worker", "instructions", "x", "--json").json["data"]["old"]
        == "Do it.\nThen stop."
    )
    assert isinstance(before, str)
    assert len(before) > 1000


def test_a_shipped_role_is_overridden_by_a_new_file(desk: Desk, file: Path) -> None:
    before = read_role(desk)
    ran = desk("role", "set", "Worker", "temperature", "0.5")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"Worker: temperature: not set -> 0.5\nfile: {file}\n"
    assert file.read_text("utf-8") == "name: Worker\nbase: Worker\ntemperature: 0.5\n"
    after = read_role(desk)
    assert after["temperature"] == 0.5
    assert {key for key in before if before[key] != after[key]} == {"temperature", "file", "base", "sources"}


def test_an_own_file_keeps_its_comments(desk: Desk, file: Path) -> None:
    file.parent.mkdir()
    file.write_text("# Ours.\nname: Worker\nbase: Worker\ntemperature: 0.5  # warm\n", "utf-8")
    assert desk("role", "set", "Worker", "llm_model", "ollama/llama3").code == 0
    assert desk("role", "set", "Worker", "temperature", "1").code == 0
    assert file.read_text("utf-8") == (
        "# Ours.\nname: Worker\nbase: Worker\ntemperature: 1  # warm\nllm_model: ollama/llama3\n"
    )
    assert desk("role", "set", "Worker", "temperature", "null").code == 0
    assert "temperature" not in file.read_text("utf-8")
    ran = desk("role", "set", "Worker", "llm_model", "ollama/llama3")
    assert ran.out == "Worker: llm_model is already ollama/llama3: nothing to change\n"


def test_a_model_that_nobody_knows_is_set_with_a_warning(desk: Desk, file: Path) -> None:
    ran = desk("role", "set", "Worker", "llm_model", "clawde")
    assert (ran.code, file.exists()) == (0, True)
    assert ran.err.startswith("warning: role `Worker`: unknown model `clawde`")
    assert desk("role", "set", "Worker", "llm_model", "null").err == ""
    ran = desk("role", "set", "Worker", "agent", "calude")
    assert (ran.code, "agent: calude" in file.read_text("utf-8")) == (0, True)
    assert ran.err.startswith(
        "warning: role `Worker`: unknown agent `calude`; known: model, litellm, aider, "
    )
    assert "did you mean `claude`?" in ran.err
    assert desk("role", "set", "Worker", "agent", "claude").err == ""


def test_an_invalid_config_does_not_stop_a_change_of_your_own_role(desk: Desk) -> None:
    desk.settings("agent: [\n")
    ran = desk("role", "set", "--user", "Worker", "agent", "calude")
    assert (ran.code, ran.err) == (0, "")


def test_what_a_person_sets_needs_no_trust_but_other_changes_do(desk: Desk, file: Path) -> None:
    assert desk("role", "set", "Worker", "llm_model", "elsewhere/x").code == 0
    assert desk("trust").code == 0
    assert desk("role", "set", "Worker", "network", "true").code == 0
    assert desk("trust").code == 0
    file.write_text(file.read_text("utf-8").replace("elsewhere", "somewhere"), "utf-8")
    assert desk("trust").code == 8


def test_dry_run_writes_nothing(desk: Desk) -> None:
    before = desk.tree()
    ran = desk("role", "set", "Worker", "temperature", "0.5", "--dry-run")
    assert (ran.code, "not set -> 0.5" in ran.out, "file not written" in ran.out) == (0, True, True)
    assert desk.tree() == before


def test_the_roles_of_the_user(desk: Desk, tmp_path: Path) -> None:
    user = {"XDG_CONFIG_HOME": str(tmp_path / "user")}
    assert desk("role", "set", "Worker", "temperature", "0.5", "--user", env=user).code == 0
    assert (tmp_path / "user" / "logist" / "roles" / "Worker.yaml").is_file()
    assert not (desk.home / "roles").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["Worker", "temprature", "1"], "unknown field `temprature` of a role (did you mean `temperature`?)"),
        (["Worker", "name", "x"], "unknown field `name`"),
        (["Worker", "temperature", "hot"], '`temperature` must be a number, not "hot"'),
        (["Nobody", "temperature", "1"], "unknown role `Nobody`"),
        (["Worker", "base", "Nobody"], "Nobody"),
    ],
)
def test_wrong_values_are_refused_and_nothing_is_written(desk: Desk, args: list[str], message: str) -> None:
    before = desk.tree()
    ran = desk("role", "set", *args)
    assert (ran.code in (2, 5), message in ran.err) == (True, True), ran.err
    assert desk.tree() == before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("many.yaml", "A: {base: Worker}\nB: {base: Worker}\n"),
        ("A.md", "---\nname: A\nbase: Worker\n---\nWrite.\n"),
    ],
)
def test_a_file_that_needs_a_hand_is_named(desk: Desk, name: str, text: str) -> None:
    folder = desk.home / "roles"
    folder.mkdir()
    (folder / name).write_text(text, "utf-8")
    before = desk.tree()
    ran = desk("role", "set", "A", "temperature", "1")
    assert (ran.code, "edit it by hand" in ran.err) == (8, True), ran.err
    assert desk.tree() == before


def test_json_roles_stay_json(desk: Desk) -> None:
    folder = desk.home / "roles"
    folder.mkdir()
    (folder / "A.json").write_text('{"name": "A", "base": "Worker"}\n', "utf-8")
    assert desk("role", "set", "A", "temperature", "1").code == 0
    assert json.loads((folder / "A.json").read_text("utf-8")) == {
        "name": "A",
        "base": "Worker",
        "temperature": 1,
    }
