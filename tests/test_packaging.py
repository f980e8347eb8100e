"""What is shipped works by itself: the sdist, the wheel made from it, and a job stepped with the wheel alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import ROOT

ANSWER = {
    "answers": [{"exit": {"action": "COMPLETED", "evidence_files": [], "summary_for_supervisor": "done"}}]
}


class Dist(NamedTuple):
    sdist: Path
    wheel: Path


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    clean = {"PATH": os.environ["PATH"], "HOME": str(cwd), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        command, cwd=cwd, env=clean | (env or {}), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Dist:
    """The sdist of this checkout, and the wheel built from the sdist."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    return Dist(next(out.glob("*.tar.gz")), next(out.glob("*.whl")))


@pytest.fixture(scope="module")
def elsewhere(dist: Dist, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of a new environment with the wheel; its dependencies are those of the running one."""
    home = tmp_path_factory.mktemp("elsewhere")
    venv.create(home / "venv", with_pip=False, symlinks=True)
    python = home / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    run(*pip, "install", "--no-deps", "--no-index", dist.wheel, cwd=home)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python.parent


def shipped(*names: str) -> set[str]:
    """The files below these directories of the checkout, as paths relative to it."""
    found = (path for name in names for path in (ROOT / name).rglob("*") if path.is_file())
    return {str(path.relative_to(ROOT)) for path in found if "__pycache__" not in path.parts}


@pytest.mark.deep
def test_the_sdist_holds_what_the_wheel_needs(dist: Dist) -> None:
    with tarfile.open(dist.sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert shipped("logist", "schemas", "roles", "fixtures/jobs") | {"LICENSE", "pyproject.toml"} <= held
    assert not [name for name in held if name.startswith((".", "requirements")) and name != ".gitignore"]


@pytest.mark.deep
def test_the_wheel_holds_the_package_and_its_data_and_nothing_else(dist: Dist) -> None:
    with zipfile.ZipFile(dist.wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    data = {f"logist/_data/{name}" for name in shipped("schemas", "roles", "fixtures/jobs")}
    assert held == shipped("logist") | data
    assert "logist/_data/schemas/llm-chat-schema.json" in held
    assert [name for name in held if name.startswith("logist/_data/roles/")]


def test_pytest_finds_the_plugin_of_the_wheel(dist: Dist) -> None:
    with zipfile.ZipFile(dist.wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/entry_points.txt"))
        assert "[pytest11]\nlogist = logist.pytest_plugin\n" in archive.read(name).decode()


@pytest.mark.deep
def test_the_wheel_says_what_it_is(elsewhere: Path) -> None:
    from logist import __version__

    home = elsewhere.parent
    where = run(elsewhere / "python", "-c", "import logist; print(logist.__file__)", cwd=home)
    assert Path(where.strip()).is_relative_to(home)
    assert run(elsewhere / "logist", "--version", cwd=home).split()[-1] == __version__


@pytest.mark.deep
def test_a_job_is_stepped_with_the_wheel_alone(elsewhere: Path, tmp_path: Path) -> None:
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps(ANSWER), encoding="utf-8")
    work = tmp_path / "work"
    work.mkdir()
    logist = elsewhere / "logist"
    run(logist, "init", cwd=work)
    run(logist, "job", "create", "--id", "j1", "--prompt", "do it", "--no-repo", cwd=work)
    run(logist, "job", "step", "--job", "j1", cwd=work, env={"LOGIST_AGENT": f"scripted:{answers}"})
    state = json.loads((work / ".logist" / "jobs" / "j1" / "state.json").read_text(encoding="utf-8"))
    assert state["status"] == "REVIEW_REQUIRED"
    assert {"Worker", "Supervisor"} <= set(run(logist, "role", "list", cwd=work).split())
