"""`.pre-commit-hooks.yaml` and `action.yml`: what they run is run here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped] # stubs are not among the test requirements

TOP = Path(__file__).parents[1]
HISTORY = next(iter(sorted((TOP / "fixtures/today").glob("*/jobHistory.json"))), None)


def build_environment(home: Path) -> dict[str, str]:
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {"PATH": programs, "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8"} | {
        f"GIT_{who}_{what}": "ada" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }


def git(place: Path, *arguments: str) -> str:
    environment = build_environment(place)
    command = ["git", *arguments]
    ran = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a role, a workflow and a recorded job."""
    assert HISTORY is not None
    project = tmp_path / "project"
    (project / ".logist/roles").mkdir(parents=True)
    shutil.copytree(HISTORY.parent, project / "tests/agents/job")
    (project / ".logist/workflows").mkdir()
    (project / ".logist/workflows/w.mermaid").write_text("flowchart TD\n  a[Do it] --> b[Check it]\n")
    git(project, "init", "--quiet")
    return project


def run_pre_commit(project: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run the shipped hooks; Logist is the installed one, because an installation would need the network."""
    hooks = tmp_path / "hooks"
    if not hooks.exists():
        hooks.mkdir()
        shutil.copy(TOP / ".pre-commit-hooks.yaml", hooks)
        git(hooks, "init", "--quiet")
        git(hooks, "add", "--all")
        git(hooks, "commit", "--quiet", "-m", "Hooks")
    ids = [hook["id"] for hook in yaml.safe_load((TOP / ".pre-commit-hooks.yaml").read_text())]
    chosen = [{"id": each, "language": "system"} for each in ids]
    config = {"repos": [{"repo": str(hooks), "rev": git(hooks, "rev-parse", "HEAD"), "hooks": chosen}]}
    (project / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    git(project, "add", "--all")
    environment = build_environment(tmp_path) | {"PRE_COMMIT_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "pre_commit", "run", "--all-files", "--color=never"]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


def test_the_hooks_run(project: Path, tmp_path: Path) -> None:
    ran = run_pre_commit(project, tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("Passed") >= 2
    (project / ".logist/roles/Worker.yaml").write_text("name: Worker\n")
    (project / ".logist/workflows/w.mermaid").write_text("flowchart TD\n  a[Do it] -->\n")
    (project / "tests/agents/job/jobHistory.json").write_text("[{}]")
    broken = run_pre_commit(project, tmp_path)
    assert broken.returncode == 1
    assert broken.stdout.count("Failed") == 3, broken.stdout


def run_step(name: str, project: Path, tmp_path: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run a step of action.yml as GitHub does: `bash -e -o pipefail`, with the inputs in its environment."""
    action: dict[str, Any] = yaml.safe_load((TOP / "action.yml").read_text())
    step = next(each for each in action["runs"]["steps"] if each["name"] == name)
    values = {key: each["default"] for key, each in action["inputs"].items()} | inputs
    environment = build_environment(tmp_path) | {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    for variable, text in step["env"].items():
        environment[variable] = values[text.removeprefix("${{ inputs.").removesuffix(" }}")]
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


def test_the_steps_of_the_action_run(project: Path, tmp_path: Path) -> None:
    assert run_step("Replay", project, tmp_path).returncode == 0
    assert run_step("Summary", project, tmp_path).returncode == 0
    assert "0 failed" in (tmp_path / "summary.md").read_text()
    (project / "tests/agents/job/jobHistory.json").write_text("[{}]")
    assert run_step("Replay", project, tmp_path).returncode == 10
    run_step("Summary", project, tmp_path)
    assert "1 failed" in (tmp_path / "summary.md").read_text()


def test_inputs_of_the_action_are_never_part_of_a_script(project: Path, tmp_path: Path) -> None:
    for step in yaml.safe_load((TOP / "action.yml").read_text())["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
    ran = run_step("Replay", project, tmp_path, path="$(touch planted)\n--help\n`touch planted`")
    assert ran.returncode == 2
    assert not (project / "planted").exists()
    run_step("Summary", project, tmp_path, junit="nowhere.xml")
    assert "No report was written" in (tmp_path / "summary.md").read_text()
