"""`logist job diff`: what a person sees, what `git apply` accepts, and what can't hide a change."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from logist.store import JobDir
from tests import support
from tests.cli.desk import Desk, answer, command
from tests.cli.terminal import Terminal
from tests.support import git

CODE = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"


@pytest.fixture
def desk(desk: Desk) -> Desk:
    """A project with the job `j1` of a repository: an agent has changed code.py and written new.txt."""
    repo = support.make_repository(desk.place / "repo")
    for name, text in {"code.py": CODE, "gone.txt": "gone\n", "old.txt": "a\nb\nc\nd\n"}.items():
        (repo / name).write_text(text, "utf-8")
    git(repo, "add", ".")
    git(repo, "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", "more")
    changed = {"code.py": CODE.replace("return 1", "return 10"), "new.txt": "new\n"}
    desk.script(answer(files=changed), answer(), answer(files={"new.txt": "newer\n"}), answer())
    desk.create("j1", "--repo", "repo")
    return desk


@pytest.fixture
def reviewed(desk: Desk) -> Desk:
    assert desk("job", "run", "j1").code == 11
    return desk


def workspace(desk: Desk, job_id: str = "j1") -> Path:
    return desk.job(job_id) / "workspace"


def list_files(desk: Desk, *args: str) -> list[tuple[str, str]]:
    data = desk("job", "diff", *args, "--json").json["data"]
    return [(each["kind"], each["path"]) for each in data["files"]]


def test_it_compares_the_files_on_disk_with_the_start(reviewed: Desk) -> None:
    assert list_files(reviewed, "j1") == [("modified", "code.py"), ("created", "new.txt")]
    (workspace(reviewed) / "by-hand.txt").write_text("x\n", "utf-8")
    ran = reviewed("job", "diff", "j1", "--stat")
    assert ran.out.splitlines() == [
        "start of the job -> workspace",
        "  A       +1 -0  by-hand.txt",
        "  M       +1 -1  code.py",
        "  A       +1 -0  new.txt",
        "3 files, +3 -1",
    ]
    assert reviewed("job", "diff", "j1", "--name-only").out == "by-hand.txt\ncode.py\nnew.txt\n"
    assert reviewed("job", "diff", "j1", "--path", "new.txt", "--name-only").out == "new.txt\n"


def test_before_anything_has_changed(desk: Desk) -> None:
    assert desk("job", "diff", "j1").out == ""
    assert desk("job", "diff", "j1", "--stat").out == "start of the job -> workspace\nno changes\n"


def test_since_the_last_decision(reviewed: Desk) -> None:
    assert list_files(reviewed, "j1", "--since", "review") == []
    ran = reviewed("job", "diff", "j1", "--since", "approval")
    assert (ran.code, "j1 has not been approved yet" in ran.err) == (8, True)
    assert reviewed("job", "reject", "j1", "--note", "again").code == 0
    assert reviewed("job", "step", "j1").code == 0
    assert list_files(reviewed, "j1", "--since", "review") == [("modified", "new.txt")]
    assert reviewed("job", "run", "j1").code == 11
    assert reviewed("job", "approve", "j1").code == 0
    (workspace(reviewed) / "code.py").write_text(CODE, "utf-8")
    assert list_files(reviewed, "j1", "--since", "approval") == [("modified", "code.py")]


def test_between_two_interactions(reviewed: Desk) -> None:
    assert reviewed("job", "reject", "j1", "--note", "again").code == 0
    assert reviewed("job", "step", "j1").code == 0
    assert list_files(reviewed, "j1", "0..2") == [("modified", "code.py"), ("created", "new.txt")]
    assert list_files(reviewed, "j1", "2..5") == [("modified", "new.txt")]
    assert list_files(reviewed, "--job", "j1", "5..") == []
    ran = reviewed("job", "diff", "j1", "2..9")
    assert (ran.code, "interaction 9 not found in j1" in ran.err) == (2, True)


def test_between_two_jobs(reviewed: Desk) -> None:
    assert reviewed("job", "fork", "j1", "--id", "j2", "--at", "3").code == 0
    (workspace(reviewed, "j2") / "code.py").write_text(CODE, "utf-8")
    assert list_files(reviewed, "j1", "j2") == [("modified", "code.py")]
    assert "+    return 1\n" in reviewed("job", "diff", "j1", "j2").out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["j1", "j2", "j3"], "too many arguments"),
        (["j1", "1..2", "2..3"], "too many arguments"),
        (["j1", "1..2", "--since", "review"], "can't use A..B and --since together"),
        (["j1", "j1", "1..2"], "can't use A..B and OTHER together"),
        (["j1", "--stat", "--name-only"], "can't use --stat and --name-only together"),
        (["nobody"], "nobody"),
    ],
)
def test_wrong_arguments(desk: Desk, args: list[str], message: str) -> None:
    ran = desk("job", "diff", *args)
    assert (ran.code, message in ran.err) == (2, True), ran.err


def test_a_draft_has_not_changed(desk: Desk) -> None:
    desk.create("d", "--draft")
    assert desk("job", "diff", "d", "--stat").out == "start of the job -> workspace\nno changes\n"


def change_everything(place: Path) -> None:
    """Change a workspace in all ways that git can store."""
    (place / "code.py").write_bytes(b"latin \xe9\nno newline")
    (place / "gone.txt").unlink()
    (place / "old.txt").rename(place / "renamed here.txt")
    (place / "program").write_text("#!/bin/sh\n", "utf-8")
    (place / "program").chmod(0o755)
    (place / "binary").write_bytes(bytes(range(256)) * 20)
    (place / "empty").write_bytes(b"")
    (place / "link").symlink_to("code.py")
    (place / "deep").mkdir()
    (place / "deep" / 'quoted "name"\n').write_text("x\n", "utf-8")
    (place / os.fsdecode(b"raw\xff")).write_text("x\n", "utf-8")
    (place / "empty folder").mkdir()


def test_git_apply_makes_the_same_files(reviewed: Desk) -> None:
    change_everything(workspace(reviewed))
    before = reviewed.tree()
    patch = reviewed.place / "patch"
    with patch.open("wb") as file:
        assert reviewed.started("job", "diff", "j1", stdout=file).wait() == 0
    assert reviewed.tree() == before
    other = reviewed.place / "repo"
    git(other, "apply", str(patch))
    expected, found = support.tree(workspace(reviewed)), support.tree(other)
    for files in (expected, found):
        for name in [name for name in files if name == ".git" or name.startswith((".git/", "empty folder"))]:
            del files[name]
    assert found == expected
    assert (other / "program").stat().st_mode & 0o100


def test_nothing_of_the_agent_hides_a_change(reviewed: Desk) -> None:
    place = workspace(reviewed)
    (place / ".gitattributes").write_text("* -diff binary\n*.py filter=evil diff=evil\n", "utf-8")
    (place / ".gitignore").write_text("*\n", "utf-8")
    (place / "secret.py").write_text("evil = 1\n", "utf-8")
    git(place, "config", "diff.external", "true")
    git(place, "config", "diff.evil.textconv", "true")
    git(place, "add", "-f", ".")
    git(place, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all mine")
    ran = reviewed("job", "diff", "j1")
    assert "+evil = 1\n" in ran.out
    assert "+    return 10\n" in ran.out


def test_what_no_checkpoint_holds_is_named(reviewed: Desk) -> None:
    place = workspace(reviewed)
    (place / "__pycache__").mkdir()
    (place / "__pycache__" / "x.pyc").write_bytes(b"x")
    os.mkfifo(place / "pipe")
    (place / "inner" / ".git").mkdir(parents=True)
    (place / "inner" / ".git" / "HEAD").write_text("x", "utf-8")
    reviewed.settings("workspace: {max_checkpoint_bytes: 1000}\n")
    (place / "large").write_bytes(b"x" * 2000)
    ran = reviewed("job", "diff", "j1", "--name-only")
    assert ran.out == "code.py\nnew.txt\n"
    assert (
        "left out, because no checkpoint holds them: __pycache__/ (cache), inner/.git/HEAD (part of a git repository), "
        "large (too large), pipe (fifo)" in ran.err
    )


def test_the_ends_of_a_job_and_children_have_a_diff_too(reviewed: Desk) -> None:
    assert reviewed("job", "approve", "j1").code == 0
    assert list_files(reviewed, "j1") == [("modified", "code.py"), ("created", "new.txt")]
    assert reviewed("job", "rerun", "j1").code == 0
    assert list_files(reviewed, "j1") == []


def test_a_missing_workspace_is_named(reviewed: Desk) -> None:
    shutil.rmtree(workspace(reviewed))
    ran = reviewed("job", "diff", "j1")
    assert (ran.code, "the directory 'workspace' of the job is missing" in ran.err) == (10, True), ran.err
    assert list_files(reviewed, "j1", "0..2") == [("modified", "code.py"), ("created", "new.txt")]


def test_a_reader_that_stops_early_is_no_error(reviewed: Desk) -> None:
    (workspace(reviewed) / "long.txt").write_text("".join(f"{n}\n" for n in range(300_000)), "utf-8")
    started = reviewed.started("job", "diff", "j1", stdout=-1, stderr=-1)
    assert started.stdout is not None
    assert started.stderr is not None
    started.stdout.readline()
    started.stdout.close()
    with started.stderr as errors:
        assert (errors.read(), started.wait()) == (b"", 0)


def test_a_terminal_gets_colors_and_highlighted_code(reviewed: Desk) -> None:
    (workspace(reviewed) / "evil.txt").write_text("\x1b[2Jgone\n", "utf-8")
    seen = reviewed.on_terminal("job", "diff", "j1", env={"PAGER": "cat"})
    assert "start of the job -> workspace" in seen
    assert "\x1b[32m+\x1b[0m" in seen
    assert "\x1b[31m-    return 1\x1b[0m" in seen
    assert "\x1b[94;49mreturn\x1b[0m" in seen  # the code of a line that is there
    assert "\x1b[2J" not in seen
    plain = reviewed.on_terminal("job", "diff", "j1", env={"PAGER": "cat", "NO_COLOR": "1"})
    assert "\x1b[" not in plain
    assert "+    return 10\n" in plain


def test_a_long_diff_is_shown_in_the_pager(reviewed: Desk) -> None:
    (workspace(reviewed) / "long.txt").write_text("".join(f"line {n}\n" for n in range(9_000)), "utf-8")
    with Terminal(reviewed, "job", "diff", "j1", env={"PAGER": "sh -c 'head -3; echo paged'"}) as terminal:
        terminal.wait_for("paged")
        assert terminal.wait() == 0
    assert "line 9" not in terminal.seen


def test_json_has_the_patch(reviewed: Desk) -> None:
    data: dict[str, Any] = json.loads(reviewed("job", "diff", "j1", "--json").out)["data"]
    assert data["files"][0] == {
        "path": "code.py",
        "kind": "modified",
        "old_path": None,
        "added": 1,
        "deleted": 1,
        "mode_before": "100644",
        "mode_after": "100644",
    }
    assert (data["before"], data["after"], data["whole"]) == ("start of the job", "workspace", True)
    assert "+    return 10\n" in data["patch"]


def test_it_says_if_an_agent_may_still_change_files(reviewed: Desk) -> None:
    with JobDir.open(reviewed.jobs, "j1").hold_lock(command="job step", since="2026-11-24T10:00:00Z"):
        ran = reviewed("job", "diff", "j1", "--name-only")
    assert ran.code == 0
    assert "is working on j1: its files may still change" in ran.err


def test_the_work_of_a_failed_attempt_is_shown(desk: Desk) -> None:
    desk.script(answer(command("RETRY"), files={"x.txt": "x\n"}), answer())
    assert desk("job", "step", "j1").code == 0
    assert list_files(desk, "j1", "0..2") == [("created", "x.txt")]


def test_the_review_hash_names_exactly_the_work(reviewed: Desk) -> None:
    def read_hashes() -> set[str]:
        diff, show = (reviewed("job", name, "j1", "--json").json["data"] for name in ("diff", "show"))
        return {diff["review_hash"], show["review_hash"]}

    before = reviewed.tree()
    (first,) = read_hashes()
    assert first.startswith(f"{reviewed.state()['revision']}-")
    (workspace(reviewed) / "cache").mkdir()
    (workspace(reviewed) / "__pycache__").mkdir()
    (workspace(reviewed) / "__pycache__" / "x.pyc").write_bytes(b"x")
    (workspace(reviewed) / "cache").rmdir()
    assert read_hashes() == {first}
    (workspace(reviewed) / "new.txt").write_text("by hand\n", "utf-8")
    (edited,) = read_hashes()
    assert edited != first
    assert edited.split("-")[0] == first.split("-")[0]
    (workspace(reviewed) / "new.txt").write_text("new\n", "utf-8")
    assert read_hashes() == {first}
    os.chmod(workspace(reviewed) / "new.txt", 0o755)
    assert read_hashes() != {first}
    os.chmod(workspace(reviewed) / "new.txt", 0o644)
    changed = {path for path, data in reviewed.tree().items() if before.get(path) != data}
    assert not [path for path in changed if not path.startswith("jobs/j1/workspace/__pycache__")]
    assert reviewed("job", "diff", "j1", "0..2", "--json").json["data"]["review_hash"] is None
    shown = reviewed.on_terminal("job", "diff", "j1", "--stat", columns=200)
    assert f"to approve exactly this work: logist job approve --job j1 --seen {first}" in shown
    partly = reviewed.on_terminal("job", "diff", "j1", "--stat", "--path", "new.txt", columns=200)
    assert "to approve" not in partly
