"""`logist bisect`: which commit of a project made its recorded jobs replay differently."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests import support
from tests.cli.desk import Desk, answer
from tests.support import RunLogist

ROLE = "name: Worker\ndescription: Works.\nllm_model: model-x\ninstructions: |\n  {}\n"
PAST = "2020-01-01T00:00:{:02}+00:00"
LATER = "2099-01-01T00:00:{:02}+00:00"


class Repository:
    """A project in git; commits before the job are of 2020, later ones of 2099."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.count = 0
        self.git("init", "--quiet", "--initial-branch=main")
        (desk.place / ".gitignore").write_text(".logist/jobs/\nanswers.json\n")

    def git(self, *arguments: str, date: str = "", place: Path | None = None) -> str:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{who}_{what}": "ada" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
            **({"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date} if date else {}),
        }
        command = ["git", "-c", "core.hooksPath=/dev/null", *arguments]
        ran = subprocess.run(
            command, cwd=place or self.desk.place, env=environment, capture_output=True, text=True, check=True
        )
        return ran.stdout.strip()

    def commit(self, subject: str, date: str = LATER) -> str:
        self.count += 1
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", subject, date=date.format(self.count))
        return self.git("rev-parse", "HEAD")

    def role(self, text: str, subject: str, date: str = LATER) -> str:
        (self.desk.home / "roles").mkdir(exist_ok=True)
        (self.desk.home / "roles/Worker.yaml").write_text(ROLE.format(text))
        return self.commit(subject, date)


@pytest.fixture
def desk(tmp_path: Path, run_logist: RunLogist) -> Desk:
    return Desk(tmp_path / "project", run_logist)


@pytest.fixture
def repository(desk: Desk) -> Repository:
    """A job `j1`, which ran with the role of the first commit."""
    repository = Repository(desk)
    repository.role("Be careful.", "First role", PAST)
    desk("job", "create", "--id", "j1", "--prompt", "Say hello.", "--no-repo")
    desk.script(answer(), answer())
    assert desk("job", "step", "j1").code == 0
    return repository


def bisect(desk: Desk, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    ran = desk("bisect", *arguments, "--json")
    return ran.code, json.loads(ran.out)["data"]["histories"]


def list_commits(history: dict[str, Any]) -> list[list[str]]:
    return [[commit["id"] for commit in each["commits"]] for each in history["culprits"]]


def test_the_commit_and_the_cause_are_named(desk: Desk, repository: Repository) -> None:
    for number in range(5):
        repository.commit(f"Unrelated {number}")
    culprit = repository.role("Be quick.", "Make the worker quick")
    for number in range(5):
        repository.commit(f"Later {number}")
    before = repository.git("status", "--porcelain=v2", "--branch")
    refs = repository.git("for-each-ref")
    ran = desk("bisect")
    assert ran.code == 9
    assert f"commit {culprit[:12]} Make the worker quick (ada, 2099-01-01)" in ran.out
    assert "changed: .logist/roles/Worker.yaml" in ran.out
    assert "the role file Worker (.logist/roles/Worker.yaml) has changed" in ran.out
    assert "+Be quick." in ran.out
    assert repository.git("status", "--porcelain=v2", "--branch") == before
    assert repository.git("for-each-ref") == refs
    assert not list((desk.place / ".git").glob("BISECT*"))


def test_nothing_differs(desk: Desk, repository: Repository) -> None:
    repository.commit("Unrelated")
    code, (history,) = bisect(desk)
    assert (code, history["different"], history["culprits"]) == (0, False, [])


def test_an_adopted_job_whose_prompts_can_t_be_compared_is_not_different(
    desk: Desk, repository: Repository
) -> None:
    session = next((support.ROOT / "fixtures" / "sessions" / "claude" / "plain").rglob("*.jsonl"))
    job = json.loads(desk("adopt", str(session), "--json").out)["data"]["sessions"][0]["job"]
    ran = desk("bisect", f".logist/jobs/{job}")
    assert ran.code == 0, ran.err
    assert "its prompts can't be compared" in ran.out
    assert "differently" not in ran.err


def test_changes_that_are_not_committed_don_t_count(desk: Desk, repository: Repository) -> None:
    role = desk.home / "roles/Worker.yaml"
    role.write_text(ROLE.format("Be quick."))
    assert desk("replay", "--prompts", "fail").code == 9
    ran = desk("bisect")
    assert ran.code == 0
    assert "not committed yet" in ran.out
    assert role.read_text() == ROLE.format("Be quick.")


def test_each_of_two_causes_has_its_commit(desk: Desk, repository: Repository) -> None:
    instructions = repository.role("Be quick.", "Instructions")
    model = desk.home / "roles/Worker.yaml"
    model.write_text(model.read_text().replace("model-x", "model-y"))
    other = repository.commit("Another model")
    code, (history,) = bisect(desk)
    assert code == 9
    assert list_commits(history) == [[instructions], [other]]
    assert {drift["source"] for drift in history["culprits"][1]["prompts"]} == {"model"}


def test_broken_commits_are_skipped(desk: Desk, repository: Repository) -> None:
    repository.commit("Unrelated")
    (desk.home / "config.yaml").write_text("limits: [\n")
    (desk.home / "roles/Worker.yaml").write_text("name: Worker\n")
    repository.commit("Break the role and the config")
    (desk.home / "config.yaml").unlink()
    repository.commit("Repair the config")
    repository.role("Be careful.", "Repair the role")
    repository.commit("Unrelated")
    culprit = repository.role("Be quick.", "Change")
    code, (history,) = bisect(desk)
    assert (code, list_commits(history)) == (9, [[culprit]])


def test_candidates_are_listed_if_only_broken_commits_are_left(desk: Desk, repository: Repository) -> None:
    (desk.home / "config.yaml").write_text("limits: [\n")
    broken = repository.commit("Break the config")
    changed = repository.role("Be quick.", "Change the role")
    (desk.home / "config.yaml").unlink()
    repaired = repository.commit("Repair the config")
    code, (history,) = bisect(desk)
    assert code == 9
    assert sorted(list_commits(history)[0]) == sorted([broken, changed, repaired])
    assert "can't be tested" in desk("bisect").out


def test_a_role_that_is_invalid_at_the_end_is_what_is_searched(desk: Desk, repository: Repository) -> None:
    repository.commit("Unrelated")
    (desk.home / "roles/Worker.yaml").write_text("name: Worker\n")
    culprit = repository.commit("Break the role")
    repository.commit("Unrelated")
    code, (history,) = bisect(desk)
    assert (code, list_commits(history)) == (9, [[culprit]])


def test_an_invalid_config_at_the_end_is_refused(desk: Desk, repository: Repository) -> None:
    (desk.home / "config.yaml").write_text("limits: [\n")
    repository.commit("Break the config")
    ran = desk("bisect")
    assert ran.code == 5
    assert "can't test the bad commit" in ran.err
    assert "logist-bisect-" not in ran.err


def test_a_commit_of_a_merged_branch_is_found(desk: Desk, repository: Repository) -> None:
    repository.git("checkout", "--quiet", "-b", "side")
    culprit = repository.role("Be quick.", "Change on a branch")
    repository.git("checkout", "--quiet", "main")
    repository.commit("Unrelated")
    repository.git("merge", "--quiet", "--no-ff", "-m", "Merge", "side", date=LATER.format(50))
    repository.commit("Unrelated")
    code, (history,) = bisect(desk)
    assert (code, list_commits(history)) == (9, [[culprit]])


def test_a_good_commit_that_is_not_good(desk: Desk, repository: Repository) -> None:
    repository.role("Be quick.", "Change")
    repository.commit("Unrelated")
    ran = desk("bisect", "--good", "HEAD~1")
    assert ran.code == 2
    assert "replays differently at the good commit" in ran.err
    assert desk("bisect", "--good", "HEAD", "--bad", "HEAD~1").code == 2
    unknown = desk("bisect", "--good", "nowhere")
    assert (unknown.code, "unknown commit: nowhere" in unknown.err) == (2, True)
    option = desk("bisect", "--good=--exec")
    assert (option.code, "unknown commit" in option.err) == (2, True)


def test_an_archive_in_the_repository_is_read_as_it_is_now(desk: Desk, repository: Repository) -> None:
    shutil.copytree(desk.jobs / "j1", desk.place / "archive/j1")
    repository.commit("Keep the job")
    culprit = repository.role("Be quick.", "Change")
    (desk.place / "archive/j1/jobHistory.json").rename(desk.place / "moved.json")
    repository.commit("Move the history")
    code, (history,) = bisect(desk, "moved.json")
    assert (code, list_commits(history)) == (9, [[culprit]])


def test_a_shallow_clone_says_what_is_missing(
    desk: Desk, repository: Repository, run_logist: RunLogist
) -> None:
    repository.role("Be quick.", "Change")
    repository.commit("Unrelated")
    clone = desk.place.parent / "clone"
    repository.git("clone", "--quiet", "--depth=1", f"file://{desk.place}", str(clone))
    ran = run_logist("bisect", str(desk.jobs / "j1"), env=desk.env, cwd=clone)
    assert ran.code == 2
    assert "git fetch --unshallow" in ran.err


def test_a_linked_work_tree_and_a_subdirectory(tmp_path: Path, run_logist: RunLogist) -> None:
    desk = Desk(tmp_path / "top/part/project", run_logist)
    top = Repository(desk)
    shutil.move(desk.place / ".git", tmp_path / "top/.git")
    top.role("Be careful.", "First role", PAST)
    desk("job", "create", "--id", "j1", "--prompt", "Say hello.", "--no-repo")
    desk("job", "step", "j1")
    culprit = top.role("Be quick.", "Change")
    top.git("worktree", "add", "--quiet", str(tmp_path / "linked"))
    ran = run_logist(
        "bisect", str(desk.jobs / "j1"), "--json", env=desk.env, cwd=tmp_path / "linked/part/project"
    )
    assert ran.code == 9
    (history,) = json.loads(ran.out)["data"]["histories"]
    assert list_commits(history) == [[culprit]]
    assert history["culprits"][0]["files"] == [".logist/roles/Worker.yaml"]


def test_nothing_of_the_repository_runs(desk: Desk, repository: Repository, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    trap = f"touch {ran}"
    (desk.place / ".gitattributes").write_text("* filter=trap diff=trap export-subst\n")
    (desk.home / "config.yaml").write_text(
        f"workspace:\n  setup: ['{trap}']\nagent: trap\nagents:\n  trap:\n    argv: [touch, {ran}]\n    metered: false\n"
    )
    repository.commit("Traps")
    repository.role("Be quick.", "Change")
    hooks = desk.place / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "reference-transaction", "post-index-change", "fsmonitor"):
        (hooks / name).write_text(f"#!/bin/sh\n{trap}\n")
        (hooks / name).chmod(0o755)
    for key in (
        "filter.trap.smudge",
        "filter.trap.clean",
        "diff.trap.textconv",
        "diff.external",
        "core.fsmonitor",
    ):
        repository.git("config", key, trap)
    assert desk("bisect").code == 9
    assert not ran.exists()


def test_links_and_odd_names_in_a_commit_are_not_written(desk: Desk, repository: Repository) -> None:
    (desk.home / "roles/Link.yaml").symlink_to("/etc/passwd")
    repository.commit("A link")
    culprit = repository.role("Be quick.", "Change")
    code, (history,) = bisect(desk)
    assert (code, list_commits(history)) == (9, [[culprit]])


def test_a_damaged_history(desk: Desk, repository: Repository) -> None:
    repository.role("Be quick.", "Change")
    history = desk.jobs / "j1/jobHistory.json"
    history.write_text(history.read_text().replace("Say hello.", "Say good."))
    assert desk("bisect").code == 10


def test_outside_of_a_repository(desk: Desk) -> None:
    desk("job", "create", "--id", "j1", "--prompt", "Say hello.", "--no-repo")
    ran = desk("bisect")
    assert (ran.code, "not in a git repository" in ran.err) == (2, True)


def test_ctrl_c_leaves_nothing_behind(desk: Desk, repository: Repository, tmp_path: Path) -> None:
    repository.role("Be quick.", "Change")
    places = tmp_path / "temporary"
    places.mkdir()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    repository.git("config", "include.path", str(pipe))  # git waits here
    running = desk.started(
        "bisect", env={"TMPDIR": str(places)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while (writer := support.open_writer(pipe)) is None:
        assert running.poll() is None
        time.sleep(0.01)
    assert list(places.glob("logist-bisect-*"))
    running.send_signal(signal.SIGINT)
    pipe.unlink()
    os.close(writer)
    _, error = running.communicate()
    assert (running.returncode, b"stopped" in error) == (130, True)
    assert list(places.iterdir()) == []
