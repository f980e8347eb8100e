"""`logist job verify`: what it says of a job that is not whole."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from logist.store import JobDir
from logist.workspace.checkpoint import baseline
from logist.workspace.checkpoint.baseline import Baseline
from logist.workspace.checkpoint.scan import make_stamp, pack_stamp
from logist.workspace.git import Git
from tests.cli.desk import Desk, answer, command
from tests.support import git


def stepped(desk: Desk) -> Path:
    """A job with three interactions; its history."""
    desk.script(answer(command(), files={"a.txt": "A"}), answer())
    desk.create()
    desk("job", "step", "j1")
    desk("job", "step", "j1")
    return desk.job() / "jobHistory.json"


def damaged(desk: Desk) -> int:
    """The second interaction changed; the byte where it begins."""
    (desk.job() / "damaged-on-purpose").touch()
    history = desk.job() / "jobHistory.json"
    data = history.read_bytes()
    history.write_bytes(
        data.replace(b'"summary_for_supervisor":"Done."', b'"summary_for_supervisor":"Gone."', 1)
    )
    return data.index(b',{"sequence":2,')


def test_all_is_well(desk: Desk) -> None:
    stepped(desk)
    ran = desk("job", "verify", "j1")
    assert ran == (0, "j1: OK, 3 interactions verified, state matches\n", "")


def test_damage_in_the_middle(desk: Desk) -> None:
    stepped(desk)
    offset = damaged(desk)
    before = desk.tree()
    ran = desk("job", "verify", "j1")
    assert ran.code == 10
    assert ran.out.splitlines() == [
        "interaction 1 is valid",
        f"interaction 2 (byte {offset:,}) is invalid",
        "3: checksum valid, but not linked to the interactions before",
    ]
    assert "interaction 2: the entry failed verification" in ran.err
    assert f"cp -a {desk.job()} {desk.job()}.copy" in ran.err
    assert desk.tree() == before


def test_the_same_in_json(desk: Desk) -> None:
    stepped(desk)
    offset = damaged(desk)
    data = desk("job", "verify", "j1", "--json").json["data"]
    assert (data["ok"], data["interactions"]) == (False, 1)
    assert data["trustworthy"] == {"first": 1, "last": 1}
    assert data["first_bad"] == {"sequence": 2, "offset": offset}
    assert [problem["sequence"] for problem in data["problems"]] == [2]


def test_a_cut_end_is_told_with_its_mend(desk: Desk) -> None:
    history = stepped(desk)
    size = history.stat().st_size
    with open(history, "ab") as file:
        file.write(b'{"sequence":4,')
    ran = desk("job", "verify", "j1")
    assert (ran.code, ran.out.splitlines()[1]) == (
        10,
        f"the rest (from byte {size - 3:,}) is an incomplete interaction",
    )
    assert "logist doctor --fix" in ran.err
    assert desk("doctor", "--deep", "--fix").code == 0
    assert desk("job", "verify", "j1").code == 0


def test_a_state_that_is_not_what_the_history_gives(desk: Desk) -> None:
    stepped(desk)
    (desk.job() / "state.json").write_text("{}", "utf-8")
    ran = desk("job", "verify", "j1")
    assert (ran.code, ran.out) == (10, "interactions 1 to 3 are valid\n")
    assert "state.json failed verification" in ran.err
    assert "logist doctor --fix" in ran.err


def test_checkpoints_that_are_gone(desk: Desk) -> None:
    stepped(desk)
    commit = desk.history()[1]["checkpoint_after"]
    for pack in (desk.job() / "git" / "objects" / "pack").iterdir():
        pack.unlink()
    ran = desk("job", "verify", "j1")
    assert ran.code == 10
    assert f"interaction 2: checkpoint {commit} not found in git" in ran.err
    assert "doctor --deep" not in ran.err
    shutil.rmtree(desk.job() / "git")
    assert "not found in git" in desk("job", "verify", "j1").err


def test_a_job_yaml_that_does_not_read_is_a_note(desk: Desk) -> None:
    stepped(desk)
    (desk.job() / "job.yaml").write_text("prompt: [\n", "utf-8")
    ran = desk("job", "verify", "j1")
    assert ran.code == 0
    assert "job.yaml: " in ran.err
    (desk.job() / "job.yaml").unlink()
    assert "job.yaml: can't read the file: No such file" in desk("job", "verify", "j1").err


def test_a_state_that_is_missing_is_a_note(desk: Desk) -> None:
    stepped(desk)
    (desk.job() / "state.json").unlink()
    ran = desk("job", "verify", "j1")
    assert (ran.code, ran.out) == (0, "j1: OK, 3 interactions verified\n")
    assert "state.json is missing; the next change to the job recreates it" in ran.err


def edit(desk: Desk) -> Path:
    """What a person does to the workspace."""
    workspace = desk.job() / "workspace"
    (workspace / "a.txt").write_text("by hand", "utf-8")
    (workspace / "new").mkdir()
    (workspace / "new" / "b.txt").write_text("B", "utf-8")
    (workspace / "__pycache__").mkdir()
    (workspace / "__pycache__" / "a.pyc").write_bytes(b"")
    return workspace


def test_edits_by_hand_are_allowed_and_listed(desk: Desk) -> None:
    stepped(desk)
    edit(desk)
    before = desk.tree()
    ran = desk("job", "verify", "j1")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "j1: OK, 3 interactions verified, state matches",
        "the workspace has 2 changes since the last checkpoint:",
        "  modified a.txt",
        "  created new/b.txt",
    ]
    ran = desk("doctor", "--deep")
    assert ran.code == 0
    changed = "workspace changed since the last checkpoint: modified a.txt, created new/b.txt"
    assert f"3 interactions; {changed}" in ran.out
    assert desk.tree() == before
    desk("job", "approve", "j1")
    desk("job", "rerun", "j1", "--no-clean-git")
    assert desk("job", "verify", "j1").out.splitlines()[1:] == []


def test_the_same_edits_in_json(desk: Desk) -> None:
    stepped(desk)
    commit = desk.state()["checkpoint"]
    nothing = {"checkpoint": commit, "changes": [], "omitted": 0}
    assert desk("job", "verify", "j1", "--json").json["data"]["workspace"] == nothing
    (desk.job() / "workspace" / "a.txt").unlink()
    data = desk("job", "verify", "j1", "--json").json["data"]
    assert (data["ok"], data["problems"]) == (True, [])
    assert data["workspace"]["changes"] == [{"path": "a.txt", "kind": "deleted"}]


def test_of_many_edits_some_are_listed(desk: Desk) -> None:
    stepped(desk)
    for number in range(1030):
        (desk.job() / "workspace" / f"{number:04d}.txt").touch()
    (desk.job() / "workspace" / "a.txt").unlink()
    lines = desk("job", "verify", "j1").out.splitlines()
    assert lines[1] == "the workspace has 1,031 changes since the last checkpoint:"
    assert (len(lines), lines[-1]) == (23, "  and 1011 more")
    found = desk("job", "verify", "j1", "--json").json["data"]["workspace"]
    assert (len(found["changes"]), found["omitted"]) == (1000, 31)
    assert {"path": "a.txt", "kind": "deleted"} in found["changes"]


def test_a_workspace_that_is_gone_is_damage(desk: Desk) -> None:
    stepped(desk)
    shutil.rmtree(desk.job() / "workspace")
    ran = desk("job", "verify", "j1")
    assert ran.code == 10
    assert "the directory 'workspace' of the job is missing" in ran.err
    assert "logist doctor --fix" in ran.err
    assert desk("doctor", "--deep", "--fix").code == 0
    assert desk("job", "verify", "j1").code == 0


@pytest.mark.parametrize("kind", ["blob", "tree"])
def test_a_checkpoint_that_is_not_all_there_is_damage(desk: Desk, kind: str) -> None:
    stepped(desk)
    place = desk.job() / "git"
    (desk.job() / "damaged-on-purpose").touch()
    commit = desk.state()["checkpoint"]
    name = git(place, "rev-parse", f"{commit}:a.txt" if kind == "blob" else f"{commit}^{{tree}}").strip()
    packs = list((place / "objects" / "pack").iterdir())
    for path in packs:
        path.rename(desk.place / path.name)
    for path in desk.place.glob("*.pack"):
        with path.open("rb") as pack:
            subprocess.run(["git", "-C", str(place), "unpack-objects", "-q"], stdin=pack, check=True)
    assert desk("job", "verify", "j1").code == 0
    (place / "objects" / name[:2] / name[2:]).unlink()
    ran = desk("job", "verify", "j1")
    assert ran.code == 10
    lost = (
        f"the checkpoint {commit} is incomplete: missing {name}" if kind == "blob" else "git ls-tree failed"
    )
    assert lost in ran.err
    assert desk("job", "verify", "j1", "--json").json["data"]["workspace"] is None


def test_a_change_that_no_time_of_the_file_shows_is_for_doctor_to_find(desk: Desk) -> None:
    """As a failing disk makes one; here the record of times is made to fit."""
    stepped(desk)
    path = desk.job() / "workspace" / "a.txt"
    path.write_text("B", "utf-8")
    repository = Git(desk.job() / "git")
    last = baseline.load_baseline(repository)
    assert last.commit
    stamps = last.stamps | {b"a.txt": pack_stamp(make_stamp(path.lstat()))}
    baseline.save_baseline(
        repository, Baseline.from_table(last.commit, last.table, last.tree, last.unstored, stamps)
    )
    assert desk("job", "verify", "j1").out == "j1: OK, 3 interactions verified, state matches\n"
    assert "modified a.txt" in desk("doctor", "--deep").out


def test_without_git_the_workspace_is_not_compared(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    stepped(desk)
    edit(desk)
    monkeypatch.setattr("logist.workspace.reading.GIT_PATH", str(desk.place))
    ran = desk("job", "verify", "j1")
    assert ran.code == 0
    assert "the workspace and its checkpoints were not checked: git is not installed" in ran.err


def test_the_workspace_of_a_job_at_work_is_not_compared(desk: Desk) -> None:
    stepped(desk)
    edit(desk)
    with JobDir.open(desk.jobs, "j1").hold_lock(command="job step", since="2026-01-02T03:04:05Z"):
        ran = desk("job", "verify", "j1")
    assert ran.code == 0
    assert "the workspace was not compared with the last checkpoint: job step (pid" in ran.err
    assert "a.txt" not in ran.out


def test_work_of_a_killed_command_may_be_among_the_edits(desk: Desk) -> None:
    stepped(desk)
    (desk.job() / "inflight").mkdir(mode=0o700)
    edit(desk)
    ran = desk("job", "verify", "j1")
    assert ran.code == 0
    assert "may contain changes of a killed command" in ran.err


def test_a_history_without_its_end_is_damage(desk: Desk) -> None:
    history = stepped(desk)
    (desk.job() / "damaged-on-purpose").touch()
    lines = history.read_bytes().splitlines(keepends=True)
    history.write_bytes(lines[0] + lines[1] + b"]}\n")
    (desk.job() / "state.json").unlink()
    ran = desk("job", "verify", "j1")
    assert (ran.code, ran.out) == (10, "interaction 1 is valid\n")
    assert "belongs to interaction 2, but the history ends with 1" in ran.err
    assert f"cp -a {desk.job()} {desk.job()}.copy" in ran.err
    assert desk("doctor", "--deep").code == 10
    ran = desk("doctor", "--fix")
    assert "not repaired" in ran.out + ran.err
    assert not os.path.lexists(desk.job() / "state.json")
