"""`logist doctor`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from logist.store import JobDir
from tests.cli.desk import Desk


def checks(desk: Desk, *args: str, code: int = 0) -> dict[str, dict[str, Any]]:
    ran = desk("doctor", "--json", *args)
    assert ran.code == code
    assert ran.json["data"]["ok"] is (code == 0)
    return {check["check"]: check for check in ran.json["data"]["checks"]}


def test_all_is_well_and_nothing_is_changed(desk: Desk) -> None:
    desk.create()
    before = desk.tree()
    ran = desk("doctor")
    assert (ran.code, ran.err) == (0, "")
    for line in (
        "python: 3.",
        "git: 2.",
        f"home: {desk.home}",
        "config: all defaults",
        "job j1: 1 interactions",
    ):
        assert f"ok      {line}" in ran.out
    assert "roles: Supervisor, Worker" in ran.out
    assert desk.tree() == before


@pytest.mark.parametrize("deep", [[], ["--deep"]])
def test_a_damaged_job(desk: Desk, deep: list[str]) -> None:
    desk.create("bad")
    desk.create("good")
    (desk.job("bad") / "state.json").write_text("{", "utf-8")
    found = checks(desk, *deep, code=10)
    assert (found["job bad"]["level"], found["job good"]["level"]) == ("error", "ok")
    assert found["job bad"]["fix"].startswith("move it away")


def test_only_a_deep_look_sees_damage_in_the_middle(desk: Desk) -> None:
    desk.create()
    desk("job", "step", "j1")
    desk("job", "step", "j1")
    file = desk.job() / "jobHistory.json"
    file.write_bytes(
        file.read_bytes().replace(b'"summary_for_supervisor":"Done."', b'"summary_for_supervisor":"Gone."', 1)
    )
    assert checks(desk)["job j1"]["level"] == "ok"
    found = checks(desk, "--deep", code=10)["job j1"]
    assert (found["level"], found["fix"]) == ("error", "logist job verify --job j1")


def test_a_config_and_a_role_that_do_not_validate(desk: Desk) -> None:
    desk.create()
    desk.settings("limts: {}\n")
    (desk.home / "roles").mkdir()
    (desk.home / "roles" / "Poet.yaml").write_text("name: Poet\n", "utf-8")
    found = checks(desk, "--deep", code=5)
    assert "did you mean `limits`?" in found["config"]["fix"]
    assert f"{desk.home / 'config.yaml'}:1: unknown key `limts`" in found["config"]["message"]
    assert "`description` is missing" in found["roles"]["message"]
    assert found["job j1"]["level"] == "warning"


def test_what_killed_commands_left(desk: Desk) -> None:
    desk.create("flying")
    desk.create("stateless")
    (desk.jobs / ".new-x-0123").mkdir()
    JobDir.open(desk.jobs, "flying").begin_exchange(1, {})
    (desk.job("stateless") / "state.json").unlink()
    ran = desk("doctor")
    assert ran.code == 0
    assert f"rm -r {desk.jobs / '.new-x-0123'}" in ran.out
    assert (
        "warning job flying: a command was killed while an agent was out (logist job step --job flying)"
        in ran.out
    )
    assert "warning job stateless: state.json is missing" in ran.out


def test_no_git_and_an_old_one(desk: Desk, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    assert "git can't be run" in desk("doctor", env={"PATH": str(programs)}).out
    git = programs / "git"
    git.write_text("#!/bin/sh\necho git version 2.20.1\n", "utf-8")
    git.chmod(0o755)
    ran = desk("doctor", env={"PATH": f"{programs}{os.pathsep}/usr/bin:/bin"})
    assert (ran.code, "warning git: 2.20.1 is older" in ran.out) == (0, True)


def test_what_is_not_there_yet(desk: Desk) -> None:
    found = checks(desk, "--jobs-dir", "later/jobs")
    assert "is not there yet" in found["jobs"]["message"]
    assert not (desk.place / "later").exists()
