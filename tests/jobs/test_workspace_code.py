"""Checks run the code of the workspace, also where Python knows another copy of it: real Pythons, real installs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from logist.config.environment import Environment
from logist.core.model import CheckResult, Permissions
from logist.jobs.base.session import open_session
from logist.jobs.turn import agent_calls
from tests.jobs.bench import Bench, Json, answer
from tests.jobs.conftest import MakeBench

BASE = Path(os.path.realpath(sys.executable))
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
WRONG, RIGHT = "def price():\n    return 999\n", "def price():\n    return 1\n"
MODES = ("off", "auto")


def environment_of(place: Path) -> Path:
    """A virtual environment without anything in it; returns its site-packages."""
    site = place / "lib" / VERSION / "site-packages"
    site.mkdir(parents=True)
    (place / "bin").mkdir()
    (place / "bin" / "python3").symlink_to(BASE)
    (place / "pyvenv.cfg").write_text(f"home = {BASE.parent}\n", "utf-8")
    return site


def installed(site: Path, name: str, place: Path) -> None:
    """What an editable install leaves, beside what puts it on the path."""
    folder = site / f"{name}-1.0.dist-info"
    folder.mkdir()
    record = {"url": place.as_uri(), "dir_info": {"editable": True}}
    (folder / "direct_url.json").write_text(json.dumps(record), "utf-8")


def checkout(place: Path, package: str = "src/shop") -> Path:
    """The user's own repository, with one package."""
    folder = place / package
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(RIGHT, "utf-8")
    done = "git init -q . && git add -A && git -c user.name=a -c user.email=a@b.c commit -qm first"
    subprocess.run(done, shell=True, cwd=place, check=True)
    return place


def checked(
    bench: MakeBench, tmp_path: Path, work: Json, mode: str, command: str | list[str], **spec: Any
) -> Json:
    """The result of one check on an agent's work, in a project in which the environment `venv` is active."""
    settings = {"sandbox": {"mode": mode}, "review": {"checks": {"ours": {"command": command}}}}
    b = bench([answer(files=work)], settings)
    b.change(environment=Environment({"HOME": str(tmp_path), "PATH": f"{tmp_path}/venv/bin:/usr/bin:/bin"}))
    b.create(**{"repo": False, **spec})
    b.step()
    (result,) = b.state().checks or [CheckResult()]
    return result.model_dump(mode="json")


TEST = ["python3", "-c", "import shop; assert shop.price() == 1, shop.price()"]


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("code", [WRONG, RIGHT])
def test_an_editable_install_of_the_checkout_does_not_judge_the_work(
    bench: MakeBench, tmp_path: Path, mode: str, code: str
) -> None:
    repo = checkout(tmp_path / "repo")
    site = environment_of(tmp_path / "venv")
    (site / "shop.pth").write_text(f"{repo / 'src'}\n", "utf-8")
    installed(site, "shop", repo)
    found = checked(bench, tmp_path, {"src/shop/__init__.py": code}, mode, TEST, repo=str(repo))
    assert found["outcome"] == ("passed" if code == RIGHT else "failed")
    assert "reason" not in found


@pytest.mark.parametrize("mode", MODES)
def test_a_package_of_a_monorepo_is_that_of_the_workspace(
    bench: MakeBench, tmp_path: Path, mode: str
) -> None:
    repo = checkout(tmp_path / "repo", "packages/a/src/shop")
    site = environment_of(tmp_path / "venv")
    (site / "shop.pth").write_text(f"{repo / 'packages/a/src'}\n", "utf-8")
    work = {"packages/a/src/shop/__init__.py": WRONG}
    assert checked(bench, tmp_path, work, mode, TEST, repo=str(repo))["outcome"] == "failed"


def test_a_check_is_not_run_where_only_the_checkout_has_the_package(bench: MakeBench, tmp_path: Path) -> None:
    """The package was installed from a directory that is not committed, so no workspace has it."""
    repo = checkout(tmp_path / "repo")
    site = environment_of(tmp_path / "venv")
    (repo / "drafts" / "shop").mkdir(parents=True)
    (site / "shop.pth").write_text(f"{repo / 'drafts'}\n", "utf-8")
    found = checked(bench, tmp_path, {"a.txt": ""}, "off", TEST, repo=str(repo))
    assert found["outcome"] == "not_run"
    assert found["reason"] == (
        "it would run your checkout of the repository, not the workspace: drafts (Python)"
    )
    hidden = checked(bench, tmp_path / "second", {"a.txt": ""}, "off", "true", repo=False)
    assert hidden["outcome"] == "passed"


def test_a_check_is_not_run_where_an_import_hook_goes_before_the_workspace(
    bench: MakeBench, tmp_path: Path
) -> None:
    repo = checkout(tmp_path / "repo")
    installed(environment_of(tmp_path / "venv"), "shop", repo)
    found = checked(bench, tmp_path, {"src/shop/__init__.py": WRONG}, "off", TEST, repo=str(repo))
    assert (found["outcome"], "shop (Python)" in found["reason"]) == ("not_run", True)


def editable_shop(tmp_path: Path, package: str = "src/shop") -> Path:
    """A checkout that is installed in editable mode in the active environment."""
    repo = checkout(tmp_path / "repo", package)
    site = environment_of(tmp_path / "venv")
    (site / "shop.pth").write_text(f"{(repo / package).parent}\n", "utf-8")
    installed(site, "shop", repo)
    return repo


@pytest.mark.parametrize(
    ("work", "command"),
    [
        ({"src/shop/__init__.py": None, "src/shop/more.py": ""}, TEST),
        ({"src/shop/__init__.py": None, "src/other.py": ""}, TEST),
        ({"src/shop/__init__.py": WRONG}, ["python3", "-I", *TEST[1:]]),
        ({"src/shop/__init__.py": WRONG}, f"python3 -sE -c '{TEST[2]}'"),
    ],
    ids=["no __init__.py", "no package", "isolated", "without the environment"],
)
def test_a_check_is_not_run_where_the_checkout_would_pass_it(
    bench: MakeBench, tmp_path: Path, work: Json, command: str | list[str]
) -> None:
    repo = editable_shop(tmp_path)
    result = checked(bench, tmp_path, work, "off", command, repo=str(repo))
    assert (result["outcome"], "shop (Python)" in result["reason"]) == ("not_run", True)


def test_a_check_runs_no_package_that_a_link_of_the_workspace_leads_away_from(
    bench: MakeBench, tmp_path: Path
) -> None:
    repo = editable_shop(tmp_path)
    committed = (
        "rm -r src && ln -s lib src && git add -A && git -c user.name=a -c user.email=a@b.c commit -qm 2"
    )
    subprocess.run(f"{committed} && rm src && mkdir -p src/shop", shell=True, cwd=repo, check=True)
    (repo / "src" / "shop" / "__init__.py").write_text(RIGHT, "utf-8")
    work = {"lib/shop/__init__.py": WRONG}
    assert checked(bench, tmp_path, work, "off", TEST, repo=str(repo))["outcome"] == "not_run"


def test_what_is_new_in_the_checkout_is_in_no_check_s_way(bench: MakeBench, tmp_path: Path) -> None:
    repo = editable_shop(tmp_path)
    (repo / "src" / "later.py").touch()
    result = checked(bench, tmp_path, {"src/shop/__init__.py": RIGHT}, "off", TEST, repo=str(repo))
    assert result["outcome"] == "passed"


def test_the_python_of_any_word_of_a_command_is_looked_at(bench: MakeBench, tmp_path: Path) -> None:
    """The package was renamed by its install, so no directory on the path could replace it."""
    repo = checkout(tmp_path / "repo", "code")
    site = environment_of(tmp_path / "other")
    (site / "shop").symlink_to(repo / "code")
    command = f"cd . && MORE=1 {tmp_path}/other/bin/python3 -c '{TEST[2]}'"
    for line in (command, ["sh", "-c", command]):
        place = tmp_path / str(len(line))
        result = checked(bench, place, {"code/__init__.py": WRONG}, "off", line, repo=str(repo))
        assert result["outcome"] == "not_run"


def test_a_project_around_the_workspace_is_not_checked_instead_of_it(
    bench: MakeBench, tmp_path: Path
) -> None:
    """npm, go, cargo and pytest look in the directories above for the file that the agent has deleted."""
    settings = {"sandbox": {"mode": "off"}, "review": {"checks": {"ours": {"command": "true"}}}}
    b = bench([answer(files={"pytest.ini": None})], settings)
    repo = b.project.home.parent
    (repo / "pytest.ini").write_text("[pytest]\npythonpath = src\n", "utf-8")
    (repo / ".gitignore").write_text(".logist\n", "utf-8")
    b.create(repo=str(checkout(repo)))
    b.step()
    (result,) = b.state().checks or [CheckResult()]
    assert (result.outcome, str(repo) in (result.reason or "")) == ("not_run", False)
    assert f"check ours: the workspace has no pytest.ini, so tools use the one in {repo}" in b.said


def test_another_package_from_outside_is_told_and_not_in_the_way(bench: MakeBench, tmp_path: Path) -> None:
    repo = checkout(tmp_path / "repo")
    (tmp_path / "libfoo").mkdir()
    site = environment_of(tmp_path / "venv")
    (site / "x.pth").write_text(f"{tmp_path / 'libfoo'}\n", "utf-8")
    found = checked(bench, tmp_path, {"a.txt": ""}, "auto", TEST, repo=str(repo))
    assert found["outcome"] == "passed"
    assert found["reason"] == "packages installed from outside the workspace: libfoo (Python)"
    assert str(tmp_path) not in found["reason"]


def test_a_logist_that_is_installed_from_a_checkout_breaks_no_check(bench: MakeBench, tmp_path: Path) -> None:
    """pytest imports its plugin in every run; where the sandbox hid it, no test could pass."""
    own = tmp_path / "checkouts" / "own"
    (own / "logist").mkdir(parents=True)
    (own / "logist" / "__init__.py").touch()
    (own / "logist" / "pytest_plugin.py").touch()
    (own / "private.txt").write_text("private", "utf-8")
    site = environment_of(tmp_path / "venv")
    (site / "logist.pth").write_text(f"{own}\n", "utf-8")
    installed(site, "logist_jobs", own)
    command = f"python3 -c 'import logist.pytest_plugin' && cat {own}/private.txt"
    found = checked(bench, tmp_path, {"a.txt": ""}, "required", command)
    assert "ModuleNotFoundError" not in found["output"]
    assert "private.txt" in found["output"]
    assert "private\n" not in found["output"]
    assert "reason" not in found


def test_node_modules_of_the_checkout_are_not_run(bench: MakeBench, tmp_path: Path) -> None:
    """Without a sandbox Node finds those of the directory around `.logist`, linked to the user's own files."""
    b = bench(
        [answer(files={"package.json": "{}"})],
        {"sandbox": {"mode": "off"}, "review": {"checks": {"ours": {"command": "true"}}}},
    )
    repo = checkout(b.project.home.parent, "packages/core")
    (repo / "node_modules").mkdir()
    (repo / "node_modules" / "core").symlink_to("../packages/core")
    b.create(repo=str(repo))
    b.step()
    (found,) = b.state().checks or [CheckResult()]
    assert (found.outcome, "core (Node)" in (found.reason or "")) == ("not_run", True)


def test_a_go_work_above_the_workspace_counts_for_nothing(bench: MakeBench, tmp_path: Path) -> None:
    environment_of(tmp_path / "venv")
    command = 'test "$GOWORK" = off'
    assert checked(bench, tmp_path, {"go.mod": "module x\n"}, "auto", command)["outcome"] == "passed"
    own = {"go.mod": "module x\n", "go.work": "go 1.22\nuse .\n"}
    assert checked(bench, tmp_path, own, "auto", 'test -z "$GOWORK"')["outcome"] == "passed"


def test_the_commands_of_an_agent_find_the_same(bench: MakeBench, tmp_path: Path) -> None:
    repo = checkout(tmp_path / "repo", "packages/a/src/shop")
    site = environment_of(tmp_path / "venv")
    (site / "shop.pth").write_text(f"{repo / 'packages/a/src'}\n", "utf-8")
    b: Bench = bench([])
    b.change(environment=Environment({"HOME": str(tmp_path), "PATH": f"{tmp_path}/venv/bin:/usr/bin:/bin"}))
    b.create(repo=str(repo))
    with open_session(b.project, "j", "test") as session:
        worker = b.project.roles.get("Worker")
        reader = worker.model_copy(update={"permissions": Permissions()})
        assert agent_calls.describe_agent_work(session, "litellm", worker, []).data()["code"] == {
            "python_path": ["packages/a/src"]
        }
        assert "code" not in agent_calls.describe_agent_work(session, "litellm", reader, []).data()
