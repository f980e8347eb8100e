"""`logist job merge`: what a person sees, what a script reads, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import support
from tests.support import RunLogist, git

COMMAND = json.dumps({"action": "COMPLETED", "evidence_files": [], "summary_for_supervisor": "Done."})


@pytest.fixture
def done(cli: RunLogist, git_repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job that has succeeded, and the repository it came from, where we are."""
    files = {"src/app.py": "ANSWER = 43\n", "build/x.o": "junk", ".gitignore": "build/\n"}
    script = git_repo.parent / "answers.json"
    script.write_text(json.dumps({"answers": [{"text": COMMAND, "files": files}, {"text": COMMAND}]}))
    monkeypatch.setenv("LOGIST_AGENT", f"scripted:{script}")
    monkeypatch.chdir(git_repo)
    git(git_repo, "config", "user.name", "Grace")
    git(git_repo, "config", "user.email", "grace@example.org")
    assert cli("init").code == 0
    assert cli("job", "create", "--id", "j", "--prompt", "Do it.", "--title", "Do it").code == 0
    assert cli("job", "run", "j").code == 11
    assert cli("job", "approve", "j").code == 0
    return git_repo


def test_merge_shows_what_goes_in_and_how_to_take_it_back(cli: RunLogist, done: Path) -> None:
    assert "next: logist job merge --job j" in cli("job", "status", "j").out
    ran = cli("job", "merge", "j")
    commit = git(done, "rev-parse", "HEAD").strip()
    assert ran.code == 0
    assert ran.out.splitlines() == [
        f"merged into main of {done}: 2 files, fast-forward",
        "         +1 -0  .gitignore",
        "         +1 -1  src/app.py",
        f"To undo: git -C {done} revert --no-edit {commit}",
        "#5 steward: merge, SUCCESS -> SUCCESS",
        f"   merged into main of {done}: 2 files, fast-forward",
        "j is SUCCESS",
        "next: logist job history --job j",
    ]
    assert "left out of the merge: build/x.o (git-ignored)" in ran.err
    assert git(done, "log", "-1", "--format=%an|%B").strip() == "Grace|Do it\n\nLogist-Job: j"

    again = cli("job", "merge", "j")
    assert (again.code, again.out.splitlines()[0]) == (0, f"main of {done} already contains the work")
    assert (cli("job", "replay", "j").code, cli("job", "verify", "j").code) == (0, 0)


def test_a_dry_run_shows_the_patch_and_changes_nothing(cli: RunLogist, done: Path) -> None:
    before = support.tree(done)
    ran = cli("job", "merge", "j", "--dry-run", "--diff")
    assert ran.code == 0
    assert "would be merged into main" in ran.out
    assert "+ANSWER = 43" in ran.out
    assert "revert" not in ran.out  # there is no commit yet that could be reverted
    told = cli("job", "merge", "j", "--dry-run", "--json").json["data"]["merge"]
    assert (told["commit"], told["after"], told["revert"]) == (None, None, None)
    assert told["before"] == git(done, "rev-parse", "HEAD").strip()
    assert support.tree(done) == before


def test_what_is_in_the_way_is_told_by_a_dry_run_too(cli: RunLogist, done: Path) -> None:
    (done / "src" / "app.py").write_text("MINE = 1\n")
    for more in ([], ["--dry-run"]):
        ran = cli("job", "merge", "j", *more)
        assert ran.code == 8
        assert "src/app.py" in ran.err
        assert "commit, stash or move them away" in ran.err
    told = cli("job", "merge", "j", "--dry-run", "--json").json
    assert told["data"]["merge"]["outcome"] == "fast_forward"
    assert [item["code"] for item in told["diagnostics"] if item["severity"] == "error"] == ["refused"]


def test_a_conflict_is_refused_with_the_files_and_the_way_out(cli: RunLogist, done: Path) -> None:
    (done / "src" / "app.py").write_text("ANSWER = 1\n")
    git(done, "commit", "--quiet", "--all", "--message", "theirs")
    ran = cli("job", "merge", "j")
    assert ran.code == 8
    assert "merge conflict with main in: src/app.py" in ran.err
    assert f"logist job merge --job j --branch, then: git -C {done} merge logist/j" in ran.err
    dry = cli("job", "merge", "j", "--dry-run")
    assert (dry.code, "conflict: src/app.py" in dry.out) == (8, True)
    branched = cli("job", "merge", "j", "--branch")
    assert branched.code == 0
    assert "on the branch logist/j" in branched.out
    assert git(done, "show", "logist/j:src/app.py") == "ANSWER = 43\n"


def test_json_has_all_of_it(cli: RunLogist, done: Path) -> None:
    told = cli("job", "merge", "j", "--json").json["data"]
    assert told["status"] == "SUCCESS"
    assert [entry["kind"] for entry in told["interactions"]] == ["merge"]
    assert told["merge"]["files"] == [
        {"path": ".gitignore", "added": 1, "deleted": 0},
        {"path": "src/app.py", "added": 1, "deleted": 1},
    ]
    assert told["merge"]["left_out"] == ["build/x.o (git-ignored)"]
    assert told["merge"]["after"] == git(done, "rev-parse", "HEAD").strip()


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        (["--dry-run", "--branch"], 2, "can't use --dry-run and --branch together"),
        (["--repo", "nowhere"], 2, "not a directory"),
        (["--job", "k"], 2, "k"),
    ],
)
def test_wrong_options_are_told(
    cli: RunLogist, git_repo: Path, more: list[str], code: int, told: str
) -> None:
    ran = cli("job", "merge", *more, *(["j"] if "--job" not in more else []))
    assert ran.code == code
    assert told in ran.err


def test_a_merge_is_independent_of_the_root_directory(
    cli: RunLogist, git_repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository may have files with the names of those in `/`."""
    (git_repo / "etc").mkdir()
    (git_repo / "etc" / "passwd").write_text("first\n")
    git(git_repo, "add", "--all")
    git(git_repo, "commit", "--quiet", "--message", "etc")
    script = git_repo.parent / "answers.json"
    answer = {"text": COMMAND, "files": {"etc/passwd": "second\n"}}
    script.write_text(json.dumps({"answers": [answer, {"text": COMMAND}]}))
    monkeypatch.setenv("LOGIST_AGENT", f"scripted:{script}")
    monkeypatch.chdir(git_repo)
    git(git_repo, "config", "user.name", "Grace")
    git(git_repo, "config", "user.email", "grace@example.org")
    assert cli("init").code == 0
    assert cli("job", "create", "--id", "j", "--prompt", "Do it.", "--title", "Do it").code == 0
    assert cli("job", "run", "j").code == 11
    assert cli("job", "approve", "j").code == 0
    assert cli("job", "merge", "j").code == 0
    assert (git_repo / "etc" / "passwd").read_text() == "second\n"
    assert git(git_repo, "status", "--porcelain", "--untracked-files=no") == ""
