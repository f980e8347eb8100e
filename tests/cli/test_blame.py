"""`logist blame`: lines of merged files, with real git repositories and jobs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.desk import Desk, answer, command
from tests.support import git

PASS = command(output={"verdict": "PASS"})
BEFORE = "one\ntwo\nthree\n"


@pytest.fixture
def shop(desk: Desk) -> Desk:
    """A repository with a file, around a project."""
    (desk.place / "a.txt").write_text(BEFORE, "utf-8")
    (desk.place / ".gitignore").write_text(".logist/\nanswers.json\n", "utf-8")
    git(desk.place, "init", "--quiet", "--initial-branch=main")
    git(desk.place, "add", ".")
    git(desk.place, "commit", "--quiet", "-m", "Begin")
    return desk


def run(desk: Desk, job: str, *texts: str) -> None:
    """Do a job whose agent writes these texts to a file, one in each attempt, and merge it."""
    answers = []
    for number, text in enumerate(texts):
        is_last = number == len(texts) - 1
        verdict = PASS if is_last else command(output={"verdict": "FAIL", "issues": [], "suggestions": []})
        answers += [answer(files={"a.txt": text}), answer(verdict)]
    desk.script(*answers)
    desk.create(job, "--repo", str(desk.place))
    assert desk("job", "run", job).code == 11
    assert desk("job", "approve", job).code == 0


def merge(desk: Desk, job: str, *options: str) -> None:
    ran = desk("job", "merge", job, *options)
    assert ran.code == 0, ran.err


def blame(desk: Desk, place: str = "a.txt") -> list[dict[str, Any]]:
    ran = desk("blame", place, "--json")
    assert ran.code == 0, ran.err
    groups: list[dict[str, Any]] = ran.json["data"]["groups"]
    return groups


def where(group: dict[str, Any]) -> tuple[int, int, str | None, int | None]:
    return group["first"], group["last"], group["job"], group["interaction"]


def test_each_line_has_the_interaction_that_wrote_it(shop: Desk) -> None:
    run(shop, "j1", "one\nTWO\nthree\n", "one\nTWO\nthree\nfour\n")
    merge(shop, "j1")
    groups = blame(shop)
    assert [where(each) for each in groups] == [
        (1, 1, None, None),
        (2, 2, "j1", 2),
        (3, 3, None, None),
        (4, 4, "j1", 4),
    ]
    fourth = groups[3]
    assert (fourth["role"], fourth["attempt"], fourth["review"], fourth["verdict"]) == (
        "Worker",
        2,
        5,
        "PASS",
    )
    assert (fourth["decision"], fourth["steward"], fourth["override"]) == (6, "ada", False)
    assert (fourth["merge"], fourth["lines"]) == (7, ["four"])
    assert "role:Worker" in fourth["prompt_parts"]
    shown = shop("blame", "a.txt:4").out
    assert shown.startswith("line 4: job j1 #4, Worker with scripted/")
    assert "  review: #5 Supervisor, verdict PASS\n  approved: #6 by ada\n  merged: #7, commit " in shown


def test_the_later_of_two_jobs_has_its_lines(shop: Desk) -> None:
    run(shop, "j1", "ONE\ntwo\nthree\n")
    merge(shop, "j1")
    run(shop, "j2", "ONE\ntwo\nTHREE\n")
    merge(shop, "j2")
    assert [where(each)[2:] for each in blame(shop)] == [("j1", 2), (None, None), ("j2", 2)]


def test_a_merge_beside_other_commits(shop: Desk) -> None:
    run(shop, "j1", "one\ntwo\nTHREE\n")
    (shop.place / "a.txt").write_text("zero\none\ntwo\nthree\n", "utf-8")
    git(shop.place, "commit", "--quiet", "-am", "By hand")
    merge(shop, "j1")
    assert [where(each) for each in blame(shop, "a.txt")] == [
        (1, 1, None, None),
        (2, 3, None, None),
        (4, 4, "j1", 2),
    ]


def test_a_commit_whose_message_names_no_job_is_found_by_the_history(shop: Desk) -> None:
    run(shop, "j1", "ONE\ntwo\nthree\n")
    merge(shop, "j1", "--branch")
    git(shop.place, "merge", "--quiet", "--squash", "logist/j1")
    git(shop.place, "commit", "--quiet", "-m", "Squashed")
    assert blame(shop)[0]["note"] == "not the work of a job"
    merge(shop, "j1")  # records that it is merged already
    assert where(blame(shop)[0]) == (1, 1, "j1", 2)


def test_a_renamed_file(shop: Desk) -> None:
    run(shop, "j1", "ONE\ntwo\nthree\n")
    merge(shop, "j1")
    git(shop.place, "mv", "a.txt", "ä b.txt")
    git(shop.place, "commit", "--quiet", "-m", "Rename")
    assert where(blame(shop, "ä b.txt:1")[0]) == (1, 1, "j1", 2)


def test_lines_that_are_not_committed_or_were_edited_by_a_person(shop: Desk) -> None:
    run(shop, "j1", "ONE\ntwo\nthree\n")
    merge(shop, "j1")
    (shop.place / "a.txt").write_text("ONE\ntwo\nthree\nmine\n", "utf-8")
    last = blame(shop, "a.txt:4")[0]
    assert (last["commit"], last["note"]) == (None, "not committed")


def test_what_a_person_wrote_into_the_workspace(shop: Desk) -> None:
    shop.script(answer(files={"b.txt": "b\n"}), answer(PASS))
    shop.create("j1", "--repo", str(shop.place))
    assert shop("job", "step", "j1").code == 0
    (shop.job("j1") / "workspace" / "a.txt").write_text("by hand\ntwo\nthree\n", "utf-8")
    assert shop("job", "run", "j1").code == 11
    assert shop("job", "approve", "j1").code == 0
    merge(shop, "j1")
    first = blame(shop, "a.txt:1")[0]
    assert (first["job"], first["interaction"], first["edited_before"]) == ("j1", None, 3)
    assert "a person wrote it into the workspace before interaction 3" in shop("blame", "a.txt:1").out


def test_a_job_that_is_gone(shop: Desk) -> None:
    run(shop, "j1", "ONE\ntwo\nthree\n")
    merge(shop, "j1")
    shutil.rmtree(shop.job("j1"))
    first = blame(shop, "a.txt:1")[0]
    assert (first["job"], first["interaction"]) == ("j1", None)
    assert "deleted, packed, or is in another project" in first["note"]


def test_a_damaged_history_is_no_witness(shop: Desk) -> None:
    run(shop, "j1", "ONE\ntwo\nthree\n")
    merge(shop, "j1")
    file = shop.job("j1") / "jobHistory.json"
    file.write_bytes(file.read_bytes().replace(b'"ada"', b'"eve"', 1))
    (shop.job("j1") / "damaged-on-purpose").touch()
    assert shop("blame", "a.txt:1").code == 10


def test_the_child_job_that_wrote_a_line(shop: Desk) -> None:
    workflow = (
        "steps:\n"
        "- {id: plan, prompt: Plan.}\n"
        "- {id: each, stepType: foreach, itemsPath: output.parts, prompt: 'Do {{item}}.'}\n"
        "- {id: end, stepType: join, prompt: Sum up.}\n"
    )
    (shop.place / "w.yaml").write_text(workflow, "utf-8")
    shop.script(answer(command(output={"parts": ["x"]})))
    shop.create("j1", "--repo", str(shop.place), "--workflow", "w.yaml")
    assert shop("job", "step", "j1").code == 0
    # The first answer of the child, and the second one of its parent.
    shop.script(answer(files={"a.txt": "one\nCHILD\nthree\n"}), answer())
    shop("job", "run", "j1")
    [child] = [path.name for path in shop.jobs.iterdir() if path.name.startswith("j1-")]
    assert shop.state("j1")["status"] == "APPROVAL_REQUIRED", shop("job", "status", "j1").out
    assert shop("job", "approve", "j1").code == 0
    merge(shop, "j1")
    second = blame(shop, "a.txt:2")[0]
    assert (second["job"], second["role"], second["merge"] is not None) == (child, "Worker", True)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("a.txt:30", "has only 3 lines"),
        ("a.txt:3-1", "not lines of a file"),
        ("a.txt:0", "not lines of a file"),
        ("nothing.txt", "no such file"),
        ("answers.json", "no such path 'answers.json' in HEAD"),
        (".logist", "no such file"),
    ],
)
def test_what_can_not_be_blamed(shop: Desk, place: str, message: str) -> None:
    ran = shop("blame", place)
    assert (ran.code, message in ran.err) == (2, True), ran.err


def test_a_file_outside_of_a_repository(desk: Desk) -> None:
    (desk.place / "a.txt").write_text("a", "utf-8")
    ran = desk("blame", "a.txt")
    assert (ran.code, "not in a git repository" in ran.err) == (2, True)


def test_programs_of_the_repository_are_not_started(shop: Desk, tmp_path: Path) -> None:
    run(shop, "j1", "ONE\ntwo\nthree\n")
    merge(shop, "j1")
    trap = tmp_path / "trap"
    for name in ("diff.x.textconv", "filter.x.clean", "filter.x.process", "core.fsmonitor", "diff.external"):
        git(shop.place, "config", name, f"touch {trap}; cat")
    (shop.place / ".gitattributes").write_text("* diff=x filter=x\n", "utf-8")
    (shop.place / "a.txt").write_text("ONE\ntwo\nthree\nfour\n", "utf-8")
    assert [where(each)[2] for each in blame(shop)] == ["j1", None, None]
    assert not trap.exists()
