"""`logist blame`: from a line of a merged file to the interaction that wrote it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support import ROOT, RunLogist, git

COMMAND = json.dumps({"action": "COMPLETED", "evidence_files": [], "summary_for_supervisor": "Done."})
FIRST = "one\ntwo\n"
SECOND = "one\nTWO\nthree\n"


@pytest.fixture
def here(cli: RunLogist, git_repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a project, where we are."""
    monkeypatch.chdir(git_repo)
    git(git_repo, "config", "user.name", "Grace")
    git(git_repo, "config", "user.email", "grace@example.org")
    (git_repo / ".gitignore").write_text(".logist\n")
    (git_repo / "base.txt").write_text("base\n")
    git(git_repo, "add", "--all")
    git(git_repo, "commit", "--quiet", "--message", "base")
    assert cli("init").code == 0
    return git_repo


@pytest.fixture
def work(cli: RunLogist, here: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Do a job: each text is the file `new.txt` after one answer of the doer; all but the last are sent back."""

    def do(job: str, *texts: str, name: str = "new.txt") -> None:
        answers: list[dict[str, Any]] = []
        for number, text in enumerate(texts, 1):
            action = "COMPLETED" if number == len(texts) else "RETRY"
            judged = COMMAND.replace("COMPLETED", action)
            answers += [{"text": COMMAND, "files": {name: text}}, {"text": judged}]
        script = here.parent / "answers.json"
        script.write_text(json.dumps({"answers": answers}))
        monkeypatch.setenv("LOGIST_AGENT", f"scripted:{script}")
        assert cli("job", "create", "--id", job, "--prompt", "Do it.", "--title", "Do it").code == 0
        assert cli("job", "run", job).code == 11
        assert cli("job", "approve", job).code == 0

    return do


def origins(cli: RunLogist, file: str, code: int = 0) -> list[dict[str, Any]]:
    ran = cli("blame", file, "--json")
    assert ran.code == code, ran.err
    data = ran.json["data"]
    jsonschema.validate(data, json.loads((ROOT / "schemas" / "cli" / "blame.json").read_bytes()))
    found: list[dict[str, Any]] = data["origins"]
    return found


def summary(cli: RunLogist, file: str) -> list[tuple[Any, ...]]:
    return [
        (each["first"], each["last"], each["kind"], each["work"] and each["work"]["interaction"])
        for each in origins(cli, file)
    ]


def test_a_line_leads_to_the_interaction_that_wrote_it(
    cli: RunLogist, here: Path, work: Callable[..., None]
) -> None:
    work("j", FIRST, SECOND)
    assert cli("job", "merge", "j").code == 0
    assert summary(cli, "new.txt") == [(1, 1, "job", 2), (2, 3, "job", 4)]
    ran = cli("blame", "new.txt:2")
    commit = git(here, "rev-parse", "HEAD").strip()[:12]
    assert ran.code == 0
    assert f"new.txt:2: job j, interaction 4: Worker, scripted/grok-code-fast-1, $0.00 ({commit})" in ran.out
    assert "j: OK, 7 interactions verified" in ran.out
    (origin,) = origins(cli, "new.txt:2")
    assert (origin["recorded"], origin["job"]) == (True, "j")
    assert [(each["kind"], each["interaction"]) for each in origin["decisions"]] == [("approve", 6)]
    assert summary(cli, "base.txt") == [(1, 1, "person", None)]


def test_lines_of_people_are_not_from_a_job(cli: RunLogist, here: Path, work: Callable[..., None]) -> None:
    work("j", "one\ntwo\nthree\nfour\n")
    assert cli("job", "merge", "j").code == 0
    (here / "new.txt").write_text("zero\none\ntwo\n3\nfour\n")
    git(here, "commit", "--quiet", "--all", "--message", "mine")
    (here / "new.txt").write_text("zero\none\ntwo\n3\nfour\nfive\n")
    assert summary(cli, "new.txt") == [
        (1, 1, "person", None),
        (2, 3, "job", 2),
        (4, 4, "person", None),
        (5, 5, "job", 2),
        (6, 6, "uncommitted", None),
    ]
    assert "new.txt:6: not committed yet\n" in cli("blame", "new.txt").out


def test_a_renamed_file_is_followed(cli: RunLogist, here: Path, work: Callable[..., None]) -> None:
    work("j", FIRST)
    assert cli("job", "merge", "j").code == 0
    git(here, "mv", "new.txt", "a\tb ä.txt")
    git(here, "commit", "--quiet", "--message", "rename")
    assert summary(cli, "a\tb ä.txt") == [(1, 2, "job", 2)]


def test_a_name_that_git_quotes(cli: RunLogist, here: Path, work: Callable[..., None]) -> None:
    work("j", FIRST, name='a"ä.txt')
    assert cli("job", "merge", "j").code == 0
    git(here, "mv", 'a"ä.txt', "plain:1")
    git(here, "commit", "--quiet", "--message", "rename")
    assert summary(cli, "plain:1") == [(1, 2, "job", 2)]
    assert summary(cli, "plain:1:2") == [(2, 2, "job", 2)]


def test_a_squashed_commit_of_several_jobs(cli: RunLogist, here: Path, work: Callable[..., None]) -> None:
    """Only its message names the jobs, so each is looked at."""
    base = git(here, "rev-parse", "HEAD").strip()
    work("a", FIRST)
    work("b", "b\n", name="b.txt")
    assert cli("job", "merge", "a").code == cli("job", "merge", "b").code == 0
    git(here, "reset", "--quiet", "--soft", base)
    (here / "new.txt").write_text("one\ntwo, better\n")
    git(here, "add", "new.txt")
    git(here, "commit", "--quiet", "--message", "squashed\n\nLogist-Job: a\nLogist-Job: b\nLogist-Job: ../x")
    first, second = origins(cli, "new.txt")
    assert (first["job"], first["recorded"], first["work"]["interaction"]) == ("a", False, 2)
    assert (second["kind"], second["work"]) == ("person", None)
    assert [(each["job"], each["kind"]) for each in origins(cli, "b.txt")] == [("b", "job")]
    assert "its history doesn't name the commit" in cli("blame", "b.txt").out


def test_a_commit_can_claim_a_job_but_not_its_work(
    cli: RunLogist, here: Path, work: Callable[..., None]
) -> None:
    work("j", FIRST)
    (here / "new.txt").write_text("evil\n")
    git(here, "add", "new.txt")
    git(here, "commit", "--quiet", "--message", "x\n\nLogist-Job: j")
    (origin,) = origins(cli, "new.txt")
    assert (origin["kind"], origin["job"]) == ("person", None)
    (here / "base.txt").write_text("base\nmore\n")
    git(here, "commit", "--quiet", "--all", "--message", "x\n\nLogist-Job: gone")
    assert [each["kind"] for each in origins(cli, "base.txt")] == ["person", "unknown"]
    assert (
        "the job gone is not here: it was deleted, packed, or made elsewhere" in cli("blame", "base.txt").out
    )


def test_an_edit_by_a_person_in_the_workspace(cli: RunLogist, here: Path, work: Callable[..., None]) -> None:
    work("j", FIRST)
    assert cli("job", "rerun", "j").code == 0
    (here / ".logist/jobs/j/workspace/new.txt").write_text("mine\n")
    script = here.parent / "answers.json"
    script.write_text(json.dumps({"answers": [{"text": COMMAND}, {"text": COMMAND}]}))
    assert cli("job", "run", "j").code == 11
    assert cli("job", "approve", "j").code == 0
    assert cli("job", "merge", "j").code == 0
    (origin,) = origins(cli, "new.txt")
    assert (origin["work"]["by"], origin["work"]["model"]) == ("edit", "")
    assert "files changed before it, by a person or the setup" in cli("blame", "new.txt").out


def test_a_damaged_history_is_not_believed(cli: RunLogist, here: Path, work: Callable[..., None]) -> None:
    work("j", FIRST)
    assert cli("job", "merge", "j").code == 0
    file = here / ".logist/jobs/j/jobHistory.json"
    file.write_bytes(file.read_bytes().replace(b"Do it.", b"Do me.", 1))
    ran = cli("blame", "new.txt")
    assert ran.code == 10
    assert "new.txt:1-2: the job j is damaged" in ran.out
    assert "error: j:" in ran.err
    assert [each["kind"] for each in origins(cli, "new.txt", 10)] == ["unknown"]


def test_lost_checkpoints_are_damage(cli: RunLogist, here: Path, work: Callable[..., None]) -> None:
    work("j", FIRST)
    assert cli("job", "merge", "j").code == 0
    for pack in (here / ".logist/jobs/j").rglob("*.pack"):
        pack.unlink()
    for loose in (here / ".logist/jobs/j").glob("*/objects/??/*"):
        loose.unlink()
    assert cli("blame", "new.txt").code == 10


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "file not found"),
        ("base.txt:2", "no line 2: the file has 1"),
        ("base.txt:0", "not a range of lines: 0"),
        ("base.txt:2-1", "not a range of lines: 2-1"),
        ("untracked", "the checked-out commit doesn't have this file"),
        ("binary", "a binary file has no lines"),
        ("link", "a symbolic link"),
        ("..", "not a regular file"),
        ("../outside", "the file is not in a git repository"),
        (".git/HEAD", "the checked-out commit doesn't have this file"),
    ],
)
def test_what_has_no_origin_is_refused(cli: RunLogist, here: Path, name: str, said: str) -> None:
    (here / "untracked").write_text("a\n")
    (here / "binary").write_bytes(b"a\0b\n")
    (here.parent / "outside").write_text("a\n")
    (here / "link").symlink_to("base.txt")
    git(here, "add", "binary", "link")
    git(here, "commit", "--quiet", "--message", "more")
    ran = cli("blame", name)
    assert ran.code == 2
    assert said in ran.err


def test_no_configured_program_is_run(cli: RunLogist, here: Path) -> None:
    mark = here.parent / "ran"
    for name in ("filter.x.clean", "filter.x.process", "diff.x.textconv", "diff.external", "core.fsmonitor"):
        git(here, "config", name, f"touch {mark}; cat")
    git(here, "config", "blame.ignoreRevsFile", "/nowhere")
    (here / ".git" / "info" / "attributes").write_text("* filter=x diff=x\n")
    assert summary(cli, "base.txt") == [(1, 1, "person", None)]
    assert not mark.exists()


def test_an_empty_file(cli: RunLogist, here: Path) -> None:
    (here / "empty").write_text("")
    git(here, "add", "empty")
    git(here, "commit", "--quiet", "--message", "empty")
    assert origins(cli, "empty") == []
    assert cli("blame", "empty:1").code == 2


def test_a_child_of_a_foreach_wrote_it(cli: RunLogist, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def say(output: Any, **files: str) -> list[dict[str, Any]]:
        return [{"text": json.dumps({**json.loads(COMMAND), "output": output}), "files": files}]

    script = here.parent / "answers.json"
    parts = {"each[1]": say(1, one="1\n"), "each[2]": say(2, two="2\n")}
    steps = {"plan": say({"parts": ["a", "b"]}), **parts, "gather": say("all", all="all\n")}
    script.write_text(json.dumps({"steps": steps}))
    monkeypatch.setenv("LOGIST_AGENT", f"scripted:{script}")
    flow = str(ROOT / "fixtures" / "workflows" / "runs" / "fan-out.yaml")
    assert cli("job", "create", "--id", "j", "--workflow", flow).code == 0
    assert cli("job", "run", "j").code == 11
    assert cli("job", "approve", "j").code == 0
    assert cli("job", "merge", "j").code == 0
    found = {name: origins(cli, name)[0] for name in ("one", "two", "all")}
    assert {name: (each["job"], each["work"]["job"]) for name, each in found.items()} == {
        "one": ("j", "j--3-1"),
        "two": ("j", "j--3-2"),
        "all": ("j", "j"),
    }
    assert found["one"]["work"]["by"] == "agent"
    assert "merged with the work of its parent j\n" in cli("blame", "one").out
    shutil.rmtree(here / ".logist/jobs/j--3-1")
    (origin,) = origins(cli, "one")
    assert (origin["kind"], origin["message"]) == (
        "unknown",
        "a child of the job j wrote it, and that is not here",
    )


def test_what_was_there_before_the_job_is_not_from_it(
    cli: RunLogist, here: Path, work: Callable[..., None]
) -> None:
    """A squashed commit of a person and a job."""
    (here / "base.txt").write_text("base\nmine\n")
    git(here, "commit", "--quiet", "--all", "--message", "mine")
    work("j", "base\nmine\nits\n", name="base.txt")
    assert cli("job", "merge", "j").code == 0
    git(here, "reset", "--quiet", "--soft", "HEAD~2")
    git(here, "commit", "--quiet", "--message", "all\n\nLogist-Job: j")
    assert summary(cli, "base.txt") == [(1, 1, "person", None), (2, 2, "person", None), (3, 3, "job", 2)]


def test_a_branch_that_was_rebased_by_hand(cli: RunLogist, here: Path, work: Callable[..., None]) -> None:
    work("j", "base\nits\n", name="base.txt")
    assert cli("job", "merge", "j", "--branch").code == 0
    (here / "base.txt").write_text("above\nbase\n")
    git(here, "commit", "--quiet", "--all", "--message", "mine")
    git(here, "cherry-pick", "logist/j", "--strategy-option", "theirs")
    (here / "base.txt").write_text("above\nbase\nits\n")
    git(here, "commit", "--quiet", "--all", "--amend", "--no-edit")
    assert summary(cli, "base.txt") == [(1, 1, "person", None), (2, 2, "person", None), (3, 3, "job", 2)]


def test_a_fork_has_the_interactions_of_the_other_job(
    cli: RunLogist, here: Path, work: Callable[..., None]
) -> None:
    work("j", FIRST)
    assert cli("job", "fork", "j", "--at", "3", "--id", "f").code == 0
    assert cli("job", "approve", "f").code == 0
    assert cli("job", "merge", "f").code == 0
    (origin,) = origins(cli, "new.txt")
    assert (origin["job"], origin["work"]["interaction"]) == ("f", 2)


def test_the_settings_of_git_don_t_matter(cli: RunLogist, here: Path, work: Callable[..., None]) -> None:
    work("j", FIRST)
    assert cli("job", "merge", "j").code == 0
    (here / "ignored").write_text(git(here, "rev-parse", "HEAD"))
    git(here, "config", "blame.ignoreRevsFile", "ignored")
    git(here, "config", "core.autocrlf", "true")
    (here / "new.txt").write_bytes(FIRST.replace("\n", "\r\n").encode())
    assert summary(cli, "new.txt") == [(1, 2, "job", 2)]
