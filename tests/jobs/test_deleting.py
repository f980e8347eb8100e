"""Deleting jobs: only what is over and kept elsewhere goes, at once; and the branches of merges."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from logist.core.model import Kind
from logist.errors import Busy, Refused
from logist.jobs.base.session import open_session
from logist.jobs.steward.job_deletion import delete_job, list_with_children, prune_branches
from logist.jobs.steward.job_merge import merge_job
from logist.jobs.steward.steward_decisions import record_decision
from logist.store import list_jobs
from tests import support
from tests.jobs.bench import Bench, Json, answer
from tests.jobs.conftest import MakeBench

ENDS: Json = {"review": False, "approval": "none"}


def finished(bench: MakeBench, repository: Path | None = None, **files: str) -> Bench:
    """A job that has succeeded, and written these files."""
    b = bench([answer(files=files or {})])
    b.create(repo=str(repository) if repository else False, **ENDS)
    b.step()
    return b


def list_branches(repository: Path) -> list[str]:
    return support.git(repository, "for-each-ref", "--format=%(refname:short)", "refs/heads/logist").split()


def test_a_job_without_changes_goes_with_everything(bench: MakeBench) -> None:
    b = finished(bench)
    assert delete_job(b.project, "j").notes == ()
    assert list(b.project.jobs_dir.iterdir()) == []


def test_what_an_agent_has_locked_or_nested_goes_too(bench: MakeBench) -> None:
    b = finished(bench)
    folder = os.open(b.workspace(), os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(3000):  # far more than a path can have
        os.mkdir("deep", dir_fd=folder)
        below = os.open("deep", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.fchmod(folder, 0)
    os.close(folder)
    assert delete_job(b.project, "j", force=True).notes == ()
    assert list(b.project.jobs_dir.iterdir()) == []


@pytest.mark.parametrize("decision", [None, Kind.SUSPEND])
def test_only_a_job_that_has_ended_goes(bench: MakeBench, decision: Kind | None) -> None:
    b = bench()
    b.create()
    if decision:
        record_decision(b.project, "j", decision)
    for force in (False, True):
        with pytest.raises(Refused, match="only jobs that have ended") as refused:
            delete_job(b.project, "j", force=force)
        assert refused.value.fix == "to end it: logist job cancel --job j"
    record_decision(b.project, "j", Kind.CANCEL)
    delete_job(b.project, "j")
    assert list(list_jobs(b.project.jobs_dir)) == []


def test_a_job_that_is_worked_on_stays(bench: MakeBench) -> None:
    b = finished(bench)
    with open_session(b.project, "j", "job verify"), pytest.raises(Busy):
        delete_job(b.project, "j", force=True)


@pytest.mark.parametrize("repository", [False, True])
def test_changes_that_are_nowhere_else_stay(bench: MakeBench, git_repo: Path, *, repository: bool) -> None:
    b = finished(bench, git_repo if repository else None, **{"new.txt": "x"})
    with pytest.raises(Refused, match=r"not merged: new\.txt") as refused:
        delete_job(b.project, "j")
    assert ("logist job merge" in str(refused.value.fix)) is repository
    delete_job(b.project, "j", force=True)
    assert list(list_jobs(b.project.jobs_dir)) == []


def test_merged_work_goes_with_its_branch_but_not_edits_after_it(bench: MakeBench, git_repo: Path) -> None:
    b = finished(bench, git_repo, **{"new.txt": "x"})
    merge_job(b.project, "j")
    assert list_branches(git_repo) == ["logist/j"]
    (b.workspace() / "new.txt").write_text("by hand")
    with pytest.raises(Refused, match=r"changes after the merge: new\.txt"):
        delete_job(b.project, "j")
    (b.workspace() / "new.txt").write_text("x")
    assert delete_job(b.project, "j").branch == "logist/j"
    assert list_branches(git_repo) == []
    assert (git_repo / "new.txt").read_text() == "x"


def test_a_branch_that_is_checked_out_or_has_other_commits_stays(bench: MakeBench, git_repo: Path) -> None:
    b = finished(bench, git_repo, **{"new.txt": "x"})
    merge_job(b.project, "j")
    support.git(git_repo, "checkout", "-q", "logist/j")
    deleted = delete_job(b.project, "j", force=True)
    assert deleted.branch is None
    assert "it is checked out in" in deleted.notes[0]
    (git_repo / "mine.txt").write_text("mine")
    support.git(git_repo, "add", ".")
    support.git(git_repo, "commit", "-qm", "mine")
    support.git(git_repo, "checkout", "-q", "--detach")
    assert prune_branches(b.project, force=True) == []
    assert list_branches(git_repo) == ["logist/j"]


def test_prune_deletes_merged_branches_and_names_the_others(bench: MakeBench, git_repo: Path) -> None:
    b = finished(bench, git_repo, **{"new.txt": "x"})
    merge_job(b.project, "j", mode="branch")
    support.git(git_repo, "branch", "logist/mine")
    (kept,) = prune_branches(b.project)
    assert (kept.branch, kept.kept.startswith("it is not merged")) == ("logist/j", True)
    assert prune_branches(b.project, force=True)[0].kept
    merge_job(b.project, "j")
    (pruned,) = prune_branches(b.project)
    assert (pruned.branch, pruned.kept) == ("logist/j", "")
    assert list_branches(git_repo) == ["logist/mine"]
    assert merge_job(b.project, "j").published.how == "already"


def test_force_prunes_branches_of_jobs_that_are_gone(bench: MakeBench, git_repo: Path) -> None:
    b = finished(bench, git_repo, **{"new.txt": "x"})
    b.create("other", repo=str(git_repo))
    merge_job(b.project, "j", mode="branch")
    (b.folder() / "workspace").rename(b.folder("other") / "aside")
    support.git(git_repo, "checkout", "-q", "logist/j")
    delete_job(b.project, "j", force=True)
    support.git(git_repo, "checkout", "-q", "-")
    assert prune_branches(b.project)[0].kept
    assert not prune_branches(b.project, force=True)[0].kept
    assert list_branches(git_repo) == []


def parent_and_child(bench: MakeBench, tmp_path: Path, **files: str) -> Bench:
    (tmp_path / "inner.yaml").write_text("name: I\nsteps:\n- {id: s, prompt: x}\n")
    (tmp_path / "outer.yaml").write_text(
        "name: O\nsteps:\n- {id: o, stepType: subflow, subflowId: inner.yaml}\n"
    )
    b = bench([answer(files=files)] if files else [answer()])
    b.follow(tmp_path / "outer.yaml", review=False)
    b.step()
    return b


def test_a_child_stays_while_its_parent_needs_it(bench: MakeBench, tmp_path: Path) -> None:
    b = parent_and_child(bench, tmp_path)
    (child,) = b.children()
    b.run(child)
    with pytest.raises(Refused, match="still needs it"):
        delete_job(b.project, child, force=True)
    b.run()
    assert list_with_children(b.project, ["j", child]) == [child, "j"]
    for each in list_with_children(b.project, ["j"]):
        delete_job(b.project, each)
    assert list(list_jobs(b.project.jobs_dir)) == []


def test_work_of_a_child_that_is_not_in_its_parent_stays(bench: MakeBench, tmp_path: Path) -> None:
    b = parent_and_child(bench, tmp_path, **{"new.txt": "x"})
    (child,) = b.children()
    b.run(child)
    record_decision(b.project, "j", Kind.CANCEL)
    with pytest.raises(Refused, match=r"not merged: new\.txt") as refused:
        delete_job(b.project, child)
    assert f"logist job pack --job {child}" in str(refused.value.fix)
    delete_job(b.project, child, force=True)


def test_a_job_that_cannot_be_read_goes_by_force(bench: MakeBench) -> None:
    b = finished(bench)
    (b.folder() / "damaged-on-purpose").touch()
    (b.folder() / "jobHistory.json").write_bytes(b"?")
    (b.folder() / "state.json").write_bytes(b"?")
    with pytest.raises(Refused, match="can't delete j"):
        delete_job(b.project, "j")
    delete_job(b.project, "j", force=True)
    assert list(list_jobs(b.project.jobs_dir)) == []


def test_a_killed_deletion_is_finished_by_the_next_one(bench: MakeBench, tmp_path: Path) -> None:
    """The program kills itself when the job has its hidden name."""
    b = finished(bench)
    b.create("k", **ENDS)
    b.step("k")
    program = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from logist.store import JobDir\n"
        f"job = JobDir.open(Path({str(b.project.jobs_dir)!r}), 'j')\n"
        "with job.hold_lock(command='job delete', since=''):\n"
        "    job.begin_removal()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(support.ROOT), "PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    names = sorted(path.name for path in b.project.jobs_dir.iterdir())
    assert (len(names), names[0].startswith(".new-j-"), names[1]) == (2, True, "k")
    assert list(list_jobs(b.project.jobs_dir)) == ["k"]
    delete_job(b.project, "k")
    assert list(b.project.jobs_dir.iterdir()) == []
