"""What is shipped works by itself: the sdist, the wheel made from it, and a job stepped with the wheel alone."""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from logist.jobs.setup.workspace_code import LOGIST
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
def test_another_build_of_the_same_files_gives_the_same_bytes(dist: Dist, tmp_path: Path) -> None:
    """The files have other times, and the build another umask and time zone."""
    copy = tmp_path / "copy"
    shutil.copytree(
        ROOT, copy, ignore=shutil.ignore_patterns(".venv*", "__pycache__", ".git", ".*_cache", "more")
    )
    for path in copy.rglob("*.py"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    command = f"umask 027; exec {sys.executable} -m build --no-isolation --outdir {tmp_path} {copy}"
    run("bash", "-c", command, cwd=tmp_path, env={"TZ": "Pacific/Apia"})
    built = Dist(next(tmp_path.glob("*.tar.gz")), next(tmp_path.glob("*.whl")))
    assert [path.read_bytes() for path in built] == [path.read_bytes() for path in dist]


@pytest.mark.deep
def test_what_a_package_index_checks_is_right(dist: Dist, tmp_path: Path) -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *dist, cwd=tmp_path)
    run(sys.executable, "-m", "check_wheel_contents", dist.wheel, cwd=tmp_path)


@pytest.mark.deep
def test_the_sdist_holds_what_the_wheel_needs(dist: Dist) -> None:
    with tarfile.open(dist.sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert (
        shipped("logist", "schemas", "roles", "skills", "fixtures/jobs") | {"LICENSE", "pyproject.toml"}
        <= held
    )
    assert not [name for name in held if name.startswith((".", "requirements")) and name != ".gitignore"]


@pytest.mark.deep
def test_the_wheel_holds_the_package_and_its_data_and_nothing_else(dist: Dist) -> None:
    with zipfile.ZipFile(dist.wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    data = {f"logist/_data/{name}" for name in shipped("schemas", "roles", "skills", "fixtures/jobs")}
    assert held == shipped("logist") | data
    assert "logist/_data/schemas/llm-chat-schema.json" in held
    assert [name for name in held if name.startswith("logist/_data/roles/")]


def test_the_distribution_has_a_name_that_is_no_other_projects(dist: Dist) -> None:
    """The command and the import are `logist`; on the package index, that is the name of another project."""
    assert dist.wheel.name.startswith("logist_jobs-")
    with zipfile.ZipFile(dist.wheel) as archive:
        names = {Path(name).name: name for name in archive.namelist() if ".dist-info/" in name}
        assert (
            "[console_scripts]\nlogist = logist.__main__:main\n"
            in archive.read(names["entry_points.txt"]).decode()
        )
        metadata = email.message_from_bytes(archive.read(names["METADATA"]))
    assert metadata["Name"] == "logist-jobs"
    assert LOGIST == "logist_jobs"
    assert "litellm" in metadata.get_all("Provides-Extra", [])
    assert metadata["Requires-Python"] == ">=3.11"
    classifiers = metadata.get_all("Classifier", [])
    for version in ("3.11", "3.12", "3.13", "3.14"):
        assert f"Programming Language :: Python :: {version}" in classifiers


INSTALLER = re.compile(
    r"\b(?:pip[\d.]*|pipx|uv|uv tool|poetry|pdm|rye|hatch|conda)\s+"
    r"(?:[\w=/.-]+\s+)*?(?:install|add|run|inject|upgrade|download|wheel)\s+([^`;|&#\n]*)|\buvx\s+([^`;|&#\n]*)"
)
BY_NAME = re.compile(r"logist(?:-jobs)?(?:\[.*\]?)?(?:[=<>~!@].*)?[.,:)\"']*", re.IGNORECASE)


def installs_from_the_index(text: str) -> list[str]:
    """What in a text would install Logist by its name: another project's package, or one that is not published."""
    found = [f"an extra: {match.group()}" for match in re.finditer(r"(?i)\blogist(?:-jobs)?\[[a-z]", text)]
    for match in INSTALLER.finditer(text):
        words = (match.group(1) or match.group(2)).replace("'", "").replace('"', "").split()
        if any(BY_NAME.fullmatch(word) for word in words):
            found.append(match.group())
    return found


@pytest.mark.parametrize(
    "text",
    [
        "pip install 'logist[litellm]'",
        "run `pip install logist pytest`",
        "python -m pip install --upgrade logist==0.1",
        "pip install logist-jobs",
        "pipx install logist.",
        "uv tool install --python 3.13 logist",
        "uvx logist demo",
        "Calling models needs `logist[litellm]`.",
        "        - run: pip install -q logist pytest",
        "uv add logist",
    ],
)
def test_a_line_that_installs_a_foreign_package_is_noticed(text: str) -> None:
    assert installs_from_the_index(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install .",
        "pip install './logist[litellm]'".replace("logist[", "["),
        "pip install ./logist-source pytest",
        "pip install . && logist demo",
        "uv tool uninstall logist-jobs",
        "pip install -r requirements.txt, then run `logist job step`",
    ],
)
def test_a_line_that_installs_from_the_repository_is_fine(text: str) -> None:
    assert installs_from_the_index(text) == []


def test_no_line_installs_the_package_of_another_project() -> None:
    """Code, messages, docs, roles, scripts: whatever a user may read and paste."""
    places = (
        "logist",
        "docs",
        "roles",
        "skills",
        "schemas",
        "fixtures",
        "scripts",
        "benchmarks",
        "requirements",
        "tests",
    )
    files = [
        ROOT / name
        for name in shipped(*places)
        if "__snapshots__" in name or Path(name).name != "test_packaging.py"
    ]
    files += [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "pyproject.toml", ROOT / ".ci" / "run"]
    found = {
        str(path.relative_to(ROOT)): lines
        for path in files
        if (lines := installs_from_the_index(path.read_text("utf-8", errors="replace")))
    }
    assert found == {}


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
