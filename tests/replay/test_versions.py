"""Versions of Logist beside each other: old jobs under today's, today's jobs under a newer one, and two at work on one job.

The newer one is a copy of the package with a higher version. The older ones are commits of this repository, in processes of
their own; a clone without its history skips them. `fixtures/upgrades/first-layout.tar.gz` is a project of the earliest.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from logist import __version__
from tests import support
from tests.cli.desk import command
from tests.support import Ran

Json = dict[str, Any]
Run = Callable[..., Ran]

FIRST = support.ROOT / "fixtures" / "upgrades" / "first-layout.tar.gz"
COMMITS = ("5e352e8e", "4bbb0228", "840edc51", "a951864a")
"""Of the 22nd (the layout was complete for the first time), 23rd and 24th of November, with other requirements met."""
NEWER = "0.9.0"
STEPS = 6


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose agent always wants another attempt."""
    home = tmp_path / "project" / ".logist"
    home.mkdir(parents=True)
    limits = "limits: {max_attempts: 1000, max_allowed_iterations: 1000}\n"
    (home / "config.yaml").write_text(limits, "utf-8")
    answers = [{"text": command("RETRY")}] * 100
    (home.parent / "answers.json").write_text(json.dumps({"answers": answers}), "utf-8")
    return home.parent


def run_of(package: Path, project: Path) -> Run:
    """A function that runs the Logist in a directory, as a process of its own."""

    def run(*args: str) -> Ran:
        env = support.process_environment() | {
            "PYTHONPATH": os.pathsep.join([str(support.GUARDED), str(package)]),
            "LOGIST_AGENT": f"scripted:{project / 'answers.json'}",
            "LOGIST_STEWARD": "ada",
        }
        done = subprocess.run(
            [sys.executable, "-m", "logist", *args],
            cwd=project,
            env=env,
            capture_output=True,
            text=True,
            timeout=support.CRASHED,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


def make_newer(folder: Path, *, job_format: int) -> Path:
    """A copy of today's Logist that has a higher version, and perhaps a newer format of jobs."""
    shutil.copytree(support.ROOT / "logist", folder / "logist", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("roles", "schemas"):
        shutil.copytree(support.ROOT / name, folder / name)
    version, formats = folder / "logist" / "version.py", folder / "logist" / "formats.py"
    version.write_text(version.read_text("utf-8").replace(__version__, NEWER), "utf-8")
    old, new = ('JOB = FileFormat(\n    "job",\n    ' + f"{number}," for number in (1, job_format))
    assert old in formats.read_text("utf-8")
    formats.write_text(formats.read_text("utf-8").replace(old, new), "utf-8")
    return folder


def make_older(folder: Path, commit: str) -> Path:
    """The Logist of a commit."""
    archive = subprocess.run(
        ["git", "-C", str(support.ROOT), "archive", commit, "logist", "roles", "schemas"],
        capture_output=True,
        check=False,
    )
    if archive.returncode:
        pytest.skip(f"this clone has no commit {commit}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        support.extract_archive(tar, folder)
    return folder


def read_kinds(project: Path) -> list[str]:
    """The kinds of the interactions. Without `spec`: versions with other roles record that these have changed."""
    history: Json = json.loads((project / ".logist" / "jobs" / "j" / "jobHistory.json").read_bytes())
    return [entry["kind"] for entry in history["interactions"] if entry["kind"] != "spec"]


def read_files(project: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (project / ".logist").rglob("*") if path.is_file()}


def work_together(project: Path, one: Run, other: Run) -> None:
    """Steps of both in turns, then at the same time: each step that succeeded is recorded, and both can verify the job."""
    for run in (one, other) * 2:
        done = run("job", "step", "--job", "j")
        assert done.code == 0, done
    assert read_kinds(project) == ["create", *["ask"] * 4]
    with ThreadPoolExecutor(4) as pool:
        tries = list(pool.map(lambda run: run("job", "step", "--job", "j"), (one, other) * STEPS))
    assert {each.code for each in tries} <= {0, 8}, tries
    succeeded = sum(each.code == 0 for each in tries)
    assert succeeded >= 1
    assert read_kinds(project) == ["create", *["ask"] * (4 + succeeded)]
    for run in (one, other):
        verified = run("job", "verify", "--job", "j")
        assert verified.code == 0, verified
    replayed = one("job", "replay", "j", "--prompts", "accept")
    assert replayed.code == 0, replayed


def test_the_same_format_in_two_versions(tmp_path: Path, project: Path) -> None:
    today = run_of(support.ROOT, project)
    newer = run_of(make_newer(tmp_path / "newer", job_format=1), project)
    assert today("job", "create", "--id", "j", "--prompt", "Do it.", "--no-repo").code == 0
    work_together(project, today, newer)


def test_a_newer_format_is_refused_from_the_first_change_on(tmp_path: Path, project: Path) -> None:
    today = run_of(support.ROOT, project)
    newer = run_of(make_newer(tmp_path / "newer", job_format=2), project)
    assert today("job", "create", "--id", "j", "--prompt", "Do it.", "--no-repo").code == 0
    assert newer("job", "status", "--job", "j").code == 0
    assert today("job", "step", "--job", "j").code == 0  # reading raises nothing
    assert newer("job", "step", "--job", "j").code == 0
    before = read_files(project)
    for args in (["step"], ["status"], ["verify"], ["cancel"], ["history"]):
        ran = today("job", *args, "--job", "j")
        assert ran.code == 8, ran
        assert (
            f"job j was written by Logist {NEWER} (job format 2); this Logist {__version__} reads" in ran.err
        )
    assert read_files(project) == before
    assert newer("job", "verify", "--job", "j").code == 0


@pytest.mark.deep
@pytest.mark.parametrize("commit", COMMITS)
def test_an_older_version_and_today_s_on_one_job(tmp_path: Path, project: Path, commit: str) -> None:
    older = run_of(make_older(tmp_path / "older", commit), project)
    today = run_of(support.ROOT, project)
    made = older("job", "create", "--id", "j", "--prompt", "Do it.", "--no-repo")
    assert made.code == 0, made
    work_together(project, today, older)


def test_jobs_of_the_first_layout_go_on(tmp_path: Path) -> None:
    with tarfile.open(FIRST) as archive:
        support.extract_archive(archive, tmp_path)
    today = run_of(support.ROOT, tmp_path)
    listed = {row["id"]: row["status"] for row in today("job", "list", "--json").json["data"]}
    assert listed == {
        "stepped": "PENDING",
        "resolved": "REVIEW_REQUIRED",
        "ended": "SUCCESS",
        "draft": "DRAFT",
    }
    for job, steps in {"stepped": 3, "resolved": 11, "ended": None, "draft": None}.items():
        assert today("job", "verify", job).code == 0
        assert today("job", "replay", job, "--prompts", "accept").code == 0
        if steps is not None:
            assert today("job", "step", job).code == steps
            assert today("job", "verify", job).code == 0
    assert today("job", "config", "draft", "--set", "prompt=Do it.").code == 0
    assert today("job", "activate", "draft").code == 0
    assert today("job", "delete", "ended", "--yes", "--force").code == 0
