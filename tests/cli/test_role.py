"""`logist role list|show|validate|new`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.desk import Desk

CAPITAL = ["Actor", "Commander", "Designer", "Planner", "Reviewer", "Supervisor", "Tester", "Worker"]
SHIPPED = [*CAPITAL, "fix", "implement", "refactor", "review", "test"]
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
    assert found["Poet"] == ["m", "everything", "", str(roles / "poet.yaml"), "Writes verse."]
    assert (found["fix"][2], found["implement"][2], found["review"][2]) == ("bug", "feature, task", "")
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
    assert "models not checked: " in ran.err


HEIR = "name: heir\nbase: Poet\ntemperature: 0.1\n"


def test_show_says_where_each_value_comes_from(desk: Desk, roles: Path, snapshot: SnapshotAssertion) -> None:
    (roles / "poet.yaml").write_text(POET, "utf-8")
    (roles / "heir.yaml").write_text(HEIR, "utf-8")
    assert desk.shown(desk("role", "show", "heir")) == snapshot
    data = desk("role", "show", "heir", "--json").json["data"]
    poet, heir = str(roles / "poet.yaml"), str(roles / "heir.yaml")
    assert (data["base"], data["file"], data["llm_model"]) == ("Poet", heir, "m")
    wanted = {
        "temperature": {"from": "file", "file": heir, "line": 3, "role": None},
        "instructions": {"from": "base", "file": poet, "line": 3, "role": "Poet"},
        "badge": {"from": "default", "file": None, "line": None, "role": None},
    }
    assert {key: data["sources"][key] for key in wanted} == wanted


def test_show_of_a_role_with_a_template(desk: Desk, roles: Path) -> None:
    (roles / "t.yaml").write_text("name: t\ndescription: d\nprompt_template: Do {{.Title}}\n", "utf-8")
    ran = desk("role", "show", "t")
    assert ran.out.endswith("\nprompt_template:  [line 3]\nDo {{.Title}}\n")
    assert "llm_model: grok-code-fast-1  [from Worker, " in ran.out
    assert "\ninstructions: none  [default]\n" in ran.out


def test_show_has_every_field(desk: Desk) -> None:
    shown = desk("role", "show", "Worker").out
    assert "\nprompt_template: none  [default]\n" in shown
    fields = desk("role", "show", "Worker", "--json").json["data"]["sources"]
    assert [name for name in {*fields} - {"name", "description"} if f"\n{name}:" not in shown] == []


class TestValidateSome:
    """Files, directories and names."""

    @pytest.fixture(autouse=True)
    def files(self, desk: Desk, roles: Path) -> None:
        (roles / "poet.yaml").write_text(POET, "utf-8")
        (roles / "heir.yaml").write_text(HEIR, "utf-8")
        (roles / "bad.yaml").write_text("name: bad\nbase: nobody\n", "utf-8")
        (desk.place / "more").mkdir()
        (desk.place / "more" / "one.md").write_text(f"---\n{HEIR.replace('heir', 'one')}---\nRun.\n", "utf-8")
        (desk.place / "more" / "README.md").write_text("# Roles\n", "utf-8")

    @pytest.mark.parametrize(
        ("names", "valid"),
        [
            (["heir"], "1 role is valid: heir\n"),
            ([".logist/roles/heir.yaml"], "1 role is valid: heir\n"),
            (["more"], "1 role is valid: one\n"),
            (["more/one.md", "fix", "heir"], "3 roles are valid: fix, heir, one\n"),
        ],
    )
    def test_good_ones(self, desk: Desk, names: list[str], valid: str) -> None:
        ran = desk("role", "validate", *names)
        assert (ran.code, ran.out) == (0, valid)
        assert "bad" not in ran.err

    @pytest.mark.parametrize("name", ["bad", ".logist/roles/bad.yaml", ".logist/roles"])
    def test_bad_ones(self, desk: Desk, roles: Path, name: str) -> None:
        ran = desk("role", "validate", name)
        assert (ran.code, ran.out) == (5, "")
        errors = [line for line in ran.err.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1
        assert errors[0].startswith(f"error: {roles / 'bad.yaml'}:2: base `nobody` not found")

    def test_every_problem_is_in_the_json(self, desk: Desk, roles: Path) -> None:
        ran = desk("role", "validate", "bad", "--json")
        (problem,) = ran.json["data"]["problems"]
        assert (ran.code, problem["severity"], problem["where"]) == (5, "error", f"{roles / 'bad.yaml'}:2")

    @pytest.mark.parametrize(
        ("name", "code", "message"),
        [
            ("nobody", 2, "no file, directory or role named `nobody`"),
            ("answers.json", 5, "`name` is missing"),
            ("more/README.md", 5, "missing front matter"),
            (".logist/jobs", 2, "no role files found"),
        ],
    )
    def test_what_is_none(self, desk: Desk, name: str, code: int, message: str) -> None:
        ran = desk("role", "validate", name)
        assert (ran.code, ran.out) == (code, "")
        assert message in ran.err


UNLIKE = {"name": "", "file": "", "base": "", "sources": {}}


class TestNew:
    @pytest.mark.parametrize(
        ("form", "base"),
        [("yaml", None), ("json", None), ("md", None), ("yaml", "fix"), ("json", "fix"), ("md", "review")],
    )
    def test_it_loads_as_it_is(self, desk: Desk, form: str, base: str | None) -> None:
        based = ["--base", base] if base else []
        file = desk.home / "roles" / f"mine.{form}"
        assert desk("role", "new", "mine", *based, "--format", form) == (0, f"written: {file}\n", "")
        found = desk("role", "show", "mine", "--json").json["data"]
        assert (found["file"], found["base"]) == (str(file), base)
        if base:
            like = desk("role", "show", base, "--json").json["data"]
            assert {**found, **UNLIKE} == {**like, **UNLIKE}

    def test_every_field_of_the_base_is_there_to_be_changed(self, desk: Desk) -> None:
        desk("role", "new", "mine", "--base", "review")
        file = desk.home / "roles" / "mine.yaml"
        before = desk("role", "show", "mine", "--json").json["data"]
        head, _, fields = file.read_text("utf-8").partition("base: review\n")
        shown = "".join(line.removeprefix("#").removeprefix(" ") for line in fields.splitlines(keepends=True))
        file.write_text(f"{head}{shown}", "utf-8")
        after = desk("role", "show", "mine", "--json").json["data"]
        assert {source["from"] for source in after.pop("sources").values()} == {"file"}
        del before["sources"]
        assert after == {**before, "base": None}

    def test_one_in_the_place_of_a_shipped_one(self, desk: Desk) -> None:
        ran = desk("role", "new", "fix", "--base", "fix", "--description", "Ours.")
        assert ran.code == 0
        assert ran.err.startswith("overrides /")
        found = desk("role", "show", "fix", "--json").json["data"]
        assert (found["description"], found["applicable_task_types"]) == ("Ours.", ["bug"])

    def test_elsewhere(self, desk: Desk) -> None:
        assert desk("role", "new", "mine", "--to", "a/b").code == 0
        assert desk("role", "validate", "a/b").out == "1 role is valid: mine\n"

    def test_it_takes_the_place_only_of_one_that_lies_in_a_weaker_directory(
        self, desk: Desk, roles: Path, tmp_path: Path
    ) -> None:
        (roles / "poet.yaml").write_text(POET, "utf-8")
        env = {"XDG_CONFIG_HOME": str(tmp_path / "user")}
        for folder in ("a/b", str(tmp_path / "user" / "logist" / "roles")):
            ran = desk("role", "new", "Poet", "--to", folder, "--json", env=env)
            assert (ran.code, ran.json["data"]["replaces"]) == (0, None)
        assert desk("role", "show", "Poet", env=env).out.startswith("Poet: Writes verse.")
        ran = desk("role", "new", "fix", "--to", str(tmp_path / "user" / "logist" / "roles"), env=env)
        assert ran.err.startswith("overrides /")

    @pytest.mark.parametrize(
        ("args", "code", "message"),
        [
            (["Poet"], 8, "role `Poet` already exists"),
            (["poet", "--format", "md"], 8, "role `poet` already exists"),
            (["torn"], 8, "role `torn` already exists"),
            (["ripped"], 8, "role `ripped` already exists"),
            (["poet", "--to", ".logist/roles"], 8, "role `poet` already exists"),
            (["x", "--base", "nobody"], 2, "unknown role `nobody`"),
            (["x", "--base", "torn"], 5, "torn.yaml:2:5: invalid YAML: "),
            (["fix", "--base", "other"], 8, "cycle of base roles: `fix` -> `other` -> `fix`"),
            (["a/b"], 2, "invalid role name 'a/b'"),
            (["../b"], 2, "invalid role name '../b'"),
            ([".b"], 2, "invalid role name '.b'"),
            (["b\n"], 2, r"invalid role name 'b\n'"),
            ([""], 2, "invalid role name ''"),
            (["x" * 101], 2, "invalid role name 'xxx"),
            (["x", "--description", " "], 2, "the description is empty"),
            (["x", "--format", "toml"], 2, "toml"),
        ],
    )
    def test_what_is_refused_writes_nothing(
        self, desk: Desk, roles: Path, args: list[str], code: int, message: str
    ) -> None:
        (roles / "lines.yaml").write_text(POET, "utf-8")
        (roles / "heir.yaml").write_text(HEIR, "utf-8")
        (roles / "other.yaml").write_text("name: other\nbase: fix\n", "utf-8")
        (roles / "torn.yaml").write_text("name: torn\na: b: c\n", "utf-8")
        (roles / "r.yaml").write_text("name: ripped\na: b: c\n", "utf-8")
        before = desk.tree()
        ran = desk("role", "new", *args)
        assert (ran.code, ran.out) == (code, "")
        assert message in ran.err
        assert desk.tree() == before
