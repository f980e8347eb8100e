"""`logist init`, `logist config show`, `logist completion`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.desk import Desk
from tests.support import RunLogist


def test_init_makes_a_project_and_leaves_what_is_there(cli: RunLogist, tmp_path: Path) -> None:
    first = cli("init", cwd=tmp_path)
    assert (first.code, first.out) == (0, f"created: {tmp_path / '.logist'}\n")
    assert (tmp_path / ".logist" / ".gitignore").read_text("utf-8") == "jobs/\ncurrent_job\n"
    (tmp_path / ".logist" / "config.yaml").write_text("rank: mine\n", "utf-8")
    again = cli("init", "--json", cwd=tmp_path)
    assert again.json["data"] == {"home": str(tmp_path / ".logist"), "made": [], "model": None}
    assert (tmp_path / ".logist" / "config.yaml").read_text("utf-8") == "rank: mine\n"


def test_the_config_that_init_writes_is_valid(cli: RunLogist, tmp_path: Path) -> None:
    cli("init", cwd=tmp_path)
    file = tmp_path / ".logist" / "config.yaml"
    lines = file.read_text("utf-8").splitlines()[2:]
    file.write_text("\n".join(line.removeprefix("# ") for line in lines), "utf-8")
    rows = cli("config", "show", "--json", cwd=tmp_path).json["data"]
    values = {row["field"]: row["value"] for row in rows}
    assert values["models.my-model.input_price"] == 0.2


def test_config_show_tells_each_source(desk: Desk, tmp_path: Path) -> None:
    user = tmp_path / "user" / "logist"
    user.mkdir(parents=True)
    (user / "config.yaml").write_text("limits: {max_attempts: 7, cost_threshold: 5}\n", "utf-8")
    desk.settings("limits: {cost_threshold: 6}\non_stuck: [notify, me]\n")
    env = {"XDG_CONFIG_HOME": str(tmp_path / "user")}
    ran = desk("config", "show", env=env)
    assert ran.code == 0
    rows = {line.split("\t")[0]: line.split("\t")[1:] for line in ran.out.splitlines()}
    project, shared = str(desk.home / "config.yaml"), str(user / "config.yaml")
    assert rows["limits.cost_threshold"] == ["6.0", project]
    assert rows["limits.max_attempts"] == ["7", shared]
    assert rows["limits.time_threshold_minutes"] == ["60.0", "default"]
    assert rows["on_stuck"] == ['["notify", "me"]', project]
    assert rows["models.grok-code-fast-1.provider_model"] == ["xai/grok-code-fast-1", "default"]
    lines = [json.loads(line) for line in desk("config", "show", "--jsonl", env=env).out.splitlines()]
    assert lines == desk("config", "show", "--json", env=env).json["data"]


def test_config_show_tells_what_holds_by_another_setting_or_a_role(desk: Desk) -> None:
    def rows() -> dict[str, list[str]]:
        lines = [line.split("\t") for line in desk("config", "show").out.splitlines()]
        return {line[0]: line[1:] for line in lines}

    shown = rows()
    assert shown["approval"] == ["end", "review.mode"]
    assert shown["roles.type_mapping.bug"][0] == "fix"
    assert shown["roles.type_mapping.bug"][1].endswith("fix.yaml")
    assert "roles.type_mapping" not in shown
    desk.settings("review: {mode: strict}\nroles: {type_mapping: {Bug: Worker}}\n")
    shown = rows()
    assert shown["approval"] == ["each", "review.mode"]
    assert shown["roles.type_mapping.Bug"] == ["Worker", str(desk.home / "config.yaml")]
    assert "roles.type_mapping.bug" not in shown
    assert shown["review.auto_merge"] == ["false", "review.mode"]
    assert shown["agent"] == [desk.env["LOGIST_AGENT"], "LOGIST_AGENT"]
    desk.settings("review: {mode: yolo, auto_merge: false}\nagent: codex\n")
    assert rows()["review.auto_merge"] == ["false", str(desk.home / "config.yaml")]
    lines = desk("config", "show", env={"LOGIST_AGENT": ""}).out.splitlines()
    assert f"agent\tcodex\t{desk.home / 'config.yaml'}" in lines
    desk.settings("review: {mode: yolo}\n")
    assert rows()["review.auto_merge"] == ["true", "review.mode"]
    desk.settings("review: {mode: strict}\napproval: none\n")
    assert rows()["approval"] == ["none", str(desk.home / "config.yaml")]
    (desk.home / "roles").write_text("", "utf-8")
    assert rows()["approval"][0] == "none"


def test_a_config_that_does_not_validate(desk: Desk) -> None:
    desk.create()
    desk.settings("limits:\n  cost_treshold: 5\n")
    for args in (["config", "show"], ["job", "step", "j1"], ["job", "create", "--prompt", "x"], ["run"]):
        ran = desk(*args)
        assert (ran.code, ran.out) == (5, "")
        assert ran.err.startswith(f"error: {desk.home / 'config.yaml'}:2: unknown key `limits.cost_treshold`")
        assert "did you mean `cost_threshold`?" in ran.err
        assert ran.err.count("\n") == 1
    for name in ("status", "history", "show", "config"):
        assert desk("job", name, "j1").code == 0
