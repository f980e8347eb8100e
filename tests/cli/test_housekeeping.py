"""`pack`, `unpack`, `delete`, `du` and `open` as a person runs them."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from tests import support
from tests.cli.desk import Desk, answer, command


def finished(desk: Desk, *names: str) -> None:
    desk.settings("review: {enabled: false}\napproval: end\n")
    desk.script(answer(command()))
    for name in names:
        desk.create(name)
        assert desk("job", "run", name).code == 11
        assert desk("job", "approve", name).code == 0


def test_a_job_travels_in_a_file(desk: Desk) -> None:
    finished(desk, "j1")
    ran = desk("job", "pack", "j1")
    assert (ran.code, ran.out.startswith("j1 is packed into j1.tar.gz (")) == (0, True), ran.err
    again = desk("job", "pack", "j1")
    assert (again.code, "use --force to replace it" in again.err) == (8, True)
    assert desk("job", "pack", "j1", "--force").code == 0
    ran = desk("job", "unpack", "j1.tar.gz")
    assert (ran.code, "job 'j1' already exists" in ran.err) == (8, True)
    assert desk("job", "delete", "j1", "--yes").code == 0
    ran = desk("unpack", "j1.tar.gz")
    assert (ran.code, ran.out.splitlines()[0]) == (0, "j1 is SUCCESS")
    assert desk("job", "verify", "j1").code == 0
    ran = desk("job", "unpack", "nothing.tar.gz")
    assert (ran.code, "file not found" in ran.err) == (2, True)


def test_deleting_needs_a_yes(desk: Desk) -> None:
    finished(desk, "j1")
    ran = desk("job", "delete", "j1")
    assert (ran.code, "add --yes" in ran.err) == (8, True)
    assert desk.job("j1").exists()
    assert desk("job", "delete", "--yes").code == 2


def test_each_of_several_jobs_is_reported(desk: Desk) -> None:
    finished(desk, "j1", "j3")
    desk.create("j2")
    desk("job", "select", "j1")
    ran = desk("job", "delete", "j1", "j2", "j3", "j1", "--yes")
    assert (ran.code, ran.out) == (8, "j1 was deleted\nj3 was deleted\n")
    assert ran.err.count("\n") == 1
    assert "can't delete j2: it is PENDING" in ran.err
    assert sorted(path.name for path in desk.jobs.iterdir()) == ["j2"]
    assert not (desk.home / "current_job").exists()
    assert desk("job", "delete", "j2", "nope", "--yes").code == 2


def test_the_children_of_a_job_that_is_kept_are_kept(desk: Desk) -> None:
    desk.settings("review: {enabled: false}\napproval: none\n")
    desk.script(answer(command(), files={"new.txt": "x"}))
    (desk.place / "inner.yaml").write_text("name: I\nsteps:\n- {id: s, prompt: x}\n")
    (desk.place / "w.yaml").write_text(
        "name: W\nsteps:\n- {id: o, stepType: subflow, subflowId: inner.yaml}\n"
    )
    assert desk("job", "create", "--id", "j1", "--workflow", "w.yaml").code == 0
    assert desk("run").code == 0
    before = sorted(path.name for path in desk.jobs.iterdir())
    assert len(before) == 2
    ran = desk("job", "delete", "j1", "--yes")
    assert (ran.code, ran.out) == (8, "")
    assert "can't delete j1: it has changes that are not merged: new.txt" in ran.err
    assert "its parent j1 is not deleted either" in ran.err
    assert sorted(path.name for path in desk.jobs.iterdir()) == before
    assert desk("job", "delete", "j1", "--yes", "--force").code == 0
    assert list(desk.jobs.iterdir()) == []


def test_du_sorts_by_size(desk: Desk) -> None:
    finished(desk, "small", "large")
    (desk.job("large") / "workspace" / "data").write_bytes(b"x" * 3_000_000)
    os.link(desk.job("large") / "workspace" / "data", desk.job("large") / "workspace" / "again")
    (desk.jobs / ".setup").mkdir()
    (desk.jobs / ".setup" / "kept").write_bytes(b"x" * 100_000)
    rows = [line.split("\t") for line in desk("du").out.splitlines()]
    assert [row[-1] for row in rows] == ["large", "small", ".setup, shared by jobs", "in all"]
    assert rows[0][1].startswith("3.")
    assert rows[0][1].endswith(" MB")
    data = desk("job", "du", "--json").json["data"]
    assert data["total"] == sum(each["total"] for each in data["jobs"]) + data["shared"]
    for each in data["jobs"]:
        parts = ("workspace", "checkpoints", "history", "logs", "attachments", "other")
        assert each["total"] == sum(each[part] for part in parts)
    assert [each["job"] for each in desk("job", "du", "small", "--json").json["data"]["jobs"]] == ["small"]
    assert "can't" not in desk("du").err


def test_du_lists_the_objects_that_are_kept_for_the_next_jobs(desk: Desk) -> None:
    repository = support.make_repository(desk.place / "repo")
    (repository / "large").write_bytes(os.urandom(300_000))
    support.git(repository, "add", ".")
    support.git(repository, "commit", "-qm", "large")
    assert desk("job", "create", "--id", "j1", "--prompt", "x", "--repo", "repo").code == 0
    data = desk("du", "--json").json["data"]
    assert 0 < data["packs"] < 100_000  # the job shares the objects, and they count for it
    assert data["total"] == sum(each["total"] for each in data["jobs"]) + data["packs"]
    assert ".packs, shared by jobs" in desk("du").out
    shutil.rmtree(desk.job("j1"))
    assert desk("du", "--json").json["data"]["packs"] > 300_000


def test_du_lists_the_word_index(desk: Desk) -> None:
    assert desk("job", "create", "--id", "j1", "--prompt", "x").code == 0
    assert desk("du", "--json").json["data"]["words"] == 0
    (desk.job("j1").parent / ".words").mkdir()
    (desk.job("j1").parent / ".words" / "0.words").write_bytes(b"x" * 50_000)
    assert 50_000 < desk("du", "--json").json["data"]["words"] < 100_000
    assert ".words, shared by jobs" in desk("du").out


def test_du_counts_what_jobs_share_once(desk: Desk) -> None:
    finished(desk, "first")
    (desk.job("first") / "git" / "objects" / "pack" / "extra").write_bytes(b"x" * 3_000_000)
    before = desk("du", "--json").json["data"]["total"]
    desk("job", "fork", "--job", "first", "--id", "second")
    os.link(
        desk.job("first") / "git" / "objects" / "pack" / "extra",
        desk.job("second") / "git" / "objects" / "extra",
    )
    data = desk("du", "--json").json["data"]
    assert data["total"] < before + 1_000_000
    assert data["total"] == sum(each["total"] for each in data["jobs"])
    (alone,) = desk("job", "du", "second", "--json").json["data"]["jobs"]
    assert alone["checkpoints"] > 3_000_000


def test_du_follows_no_link(desk: Desk, tmp_path: Path) -> None:
    desk.create()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "data").write_bytes(b"x" * 3_000_000)
    before = desk("du", "--json").json["data"]["total"]
    os.symlink(outside, desk.job() / "workspace" / "link")
    assert desk("du", "--json").json["data"]["total"] - before < 100_000
    os.symlink(outside, desk.jobs / "j9")
    assert desk("du", "j9").code == 2


def test_open_prints_the_path_in_a_pipe(desk: Desk) -> None:
    desk.create()
    assert desk("open", "j1", env={"EDITOR": "false"}).out == f"{desk.job() / 'workspace'}\n"


def make_editor(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize(
    ("editor", "expected"),
    [
        ('echo "$# $1 $2"; pwd', "2 --wait {workspace}\n{workspace}\n"),
        ("exit 3", "it ended with exit status 3"),
        (None, "to open it in an editor, set $VISUAL or $EDITOR"),
    ],
)
def test_open_runs_the_editor_on_a_terminal(
    desk: Desk, tmp_path: Path, editor: str | None, expected: str
) -> None:
    desk.create()
    env = {"VISUAL": f"{make_editor(tmp_path / 'my editor', editor)!r} --wait"} if editor else {}
    seen = desk.on_terminal("open", "j1", columns=400, env=env, stdin_too=True)
    assert expected.format(workspace=desk.job() / "workspace") in seen


def test_a_scrub_says_where_it_is_recorded_and_how_to_verify_it(desk: Desk) -> None:
    desk.create("j", prompt="By Anna Schmidt.")
    file = desk.place / "j.tar.gz"
    assert desk("job", "pack", "j", "-o", str(file)).code == 0
    words = ("--pattern", "Anna Schmidt", "--note", "customer data", "--yes")
    ran = desk("job", "scrub", "j", *words, "--jobs-dir", str(desk.jobs))
    assert ran.out.splitlines()[1] == (
        f"recorded as interaction 2; to verify: logist job verify --jobs-dir {desk.jobs} --job j"
    )
    assert "(customer data)" in desk("job", "verify", "j").out
    ran = desk("job", "scrub", str(file), *words)
    assert ran.out.splitlines()[1] == f"recorded as interaction 2 in {file}, and verified"


def test_a_scrub_without_the_text_in_the_job_removes_the_past_commits_and_says_only_that(
    desk: Desk, git_repo: Path
) -> None:
    """The text may be in any of them."""
    desk.settings("workspace: {history: full}\n")
    assert desk("trust", "--yes").code == 0
    desk.create("j", "--repo", str(git_repo))
    ran = desk("job", "scrub", "j", "--pattern", "Anna Schmidt", "--yes")
    assert (ran.code, ran.out) == (0, "j: the text was not found; nothing was replaced\n")
    assert ran.err == "j: the past commits in its workspace were removed, because they may have the text\n"
