"""`logist job update`: what a person sees, what a script reads, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import support
from tests.support import RunLogist, git

COMMAND = json.dumps({"action": "COMPLETED", "evidence_files": [], "summary_for_supervisor": "Done."})


@pytest.fixture
def moved(cli: RunLogist, git_repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job that waits for its approval, and the repository it came from, where we are; that has a new commit."""
    script = git_repo.parent / "answers.json"
    work = {"text": COMMAND, "files": {"src/app.py": "ANSWER = 43\n"}}
    script.write_text(json.dumps({"answers": [work, {"text": COMMAND}]}))
    monkeypatch.setenv("LOGIST_AGENT", f"scripted:{script}")
    monkeypatch.setenv("LOGIST_STEWARD", "ada")
    monkeypatch.chdir(git_repo)
    assert cli("init").code == 0
    assert cli("job", "create", "--id", "j", "--prompt", "Do it.", "--title", "Do it").code == 0
    assert cli("job", "run", "j").code == 11
    (git_repo / "README.md").write_text("# Example\nmore\n")
    git(git_repo, "commit", "--quiet", "--all", "--message", "theirs")
    return git_repo


def clash(place: Path) -> str:
    (place / "src" / "app.py").write_text("ANSWER = 1\n")
    git(place, "commit", "--quiet", "--all", "--message", "theirs too")
    return head(place)


def head(place: Path) -> str:
    return git(place, "rev-parse", "HEAD").strip()[:12]


def test_an_update_shows_what_it_brings_and_what_follows(cli: RunLogist, moved: Path) -> None:
    told = f"{head(moved)}, main of {moved}: 1 new commit, 1 file of the workspace"
    before = support.tree(moved)
    dry = cli("job", "update", "j", "--dry-run")
    assert dry.code == 0
    assert dry.out.splitlines() == [f"would be updated to {told}", "         +1 -0  README.md"]
    assert support.tree(moved) == before
    ran = cli("job", "update", "j")
    assert ran.code == 0
    assert ran.out.splitlines() == [
        f"updated to {told}",
        "         +1 -0  README.md",
        f"#4 steward: update to {head(moved)} of main, APPROVAL_REQUIRED -> REVIEW_REQUIRED",
        f"   updated to {told}",
        "j is REVIEW_REQUIRED",
        "next: logist job step --job j",
    ]
    again = cli("job", "update", "j")
    assert again.out.startswith(f"already up to date with main of {moved} ({head(moved)})\n")
    assert f"#4 update to {head(moved)} of main: by ada" in cli("job", "show", "j").out
    assert "#4 steward: update to" in cli("job", "history", "j").out
    assert (cli("job", "replay", "j").code, cli("job", "verify", "j").code) == (0, 0)


def test_a_conflict_is_refused_with_the_files_and_the_way_out(cli: RunLogist, moved: Path) -> None:
    clash(moved)
    ran = cli("job", "update", "j")
    assert (ran.code, ran.out) == (8, "")
    assert ran.err == (
        "error: j: merge conflict with main in: src/app.py (both changed it) "
        "(to have the agent resolve that as its next task: logist job update --job j --resolve)\n"
    )
    dry = cli("job", "update", "j", "--dry-run")
    assert (dry.code, "  conflict: src/app.py (both changed it)" in dry.out) == (8, True)
    assert "logist job update --job j --resolve" in dry.err
    for options in ((), ("--dry-run",)):
        ran = cli("job", "update", "j", "--onto", "HEAD", "--repo", str(moved), *options)
        assert f"logist job update --job j --onto HEAD --repo {moved} --resolve" in ran.err
    resolved = cli("job", "update", "j", "--resolve")
    assert resolved.code == 0
    assert "1 conflict" in resolved.out
    assert "j is PENDING" in resolved.out
    assert "src/app.py (both changed it)" in cli("job", "preview", "j").out


def test_json_has_all_of_it(cli: RunLogist, moved: Path) -> None:
    clash(moved)
    told = cli("job", "update", "j", "--resolve", "--json").json["data"]
    assert [entry["kind"] for entry in told["interactions"]] == ["update"]
    assert told["update"]["commits"] == 2
    assert told["update"]["conflicts"] == [
        {"path": "src/app.py", "kind": "both changed it", "has_markers": True}
    ]
    assert [each["path"] for each in told["update"]["files"]] == ["README.md", "src/app.py"]


def test_a_merge_says_that_the_source_has_moved_on(cli: RunLogist, moved: Path) -> None:
    assert cli("job", "approve", "j").code == 0
    dry = cli("job", "merge", "j", "--dry-run")
    assert dry.code == 0
    assert "main has 1 new commit that the work was not tested with" in dry.err
    assert "logist job update --job j" in dry.err
    assert cli("job", "merge", "j", "--dry-run", "--json").json["data"]["merge"]["ahead"] == 1
    clash(moved)
    ran = cli("job", "merge", "j")
    assert ran.code == 8
    assert "merge conflict with main in: src/app.py (main has 2 new commits)" in ran.err
    assert "to have the agent resolve it: logist job update --job j --resolve" in ran.err
    dry = cli("job", "merge", "j", "--dry-run")
    assert (dry.code, "next task: logist job update --job j --resolve" in dry.err) == (8, True)


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        (["--dry-run", "--note", "x"], 2, "can't use --dry-run and --note together"),
        (["--repo", "nowhere"], 2, "not a directory"),
        (["--onto", "nothing"], 2, "commit not found: nothing"),
    ],
)
def test_wrong_options(cli: RunLogist, moved: Path, more: list[str], code: int, told: str) -> None:
    ran = cli("job", "update", "j", *more)
    assert (ran.code, told in ran.err) == (code, True)
