"""The work of a job into the repository it came from: by a person, by itself, and what follows when it does not fit."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from logist.core.model import Actor, Kind, Status, StuckKind
from logist.errors import Refused
from logist.jobs import job_queue
from logist.jobs.base import specs
from logist.jobs.steward import job_merge, steward_decisions
from tests import support
from tests.jobs.bench import Bench, answer, gave
from tests.support import git

PASSES = gave({"verdict": "PASS"})
CHANGES = {"src/app.py": "ANSWER = 43\n", "new.txt": "new\n"}


def bench(place: Path, *, settings: dict[str, Any] | None = None, **spec: Any) -> Bench:
    """A job from a repository whose worker changes files, and whose reviewer is content."""
    support.make_repository(place / "repo")
    made = Bench(place, [answer(files=CHANGES), PASSES] * 3, settings)
    made.create(repo=str(place / "repo"), title="Do it", **spec)
    return made


def subjects(place: Path) -> str:
    return git(place / "repo", "log", "--format=%s")


def theirs(place: Path) -> None:
    (place / "repo" / "src" / "app.py").write_text("ANSWER = 1\n")
    git(place / "repo", "commit", "--quiet", "--all", "--message", "theirs")


def test_the_source_is_as_it_was_until_the_merge(tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    desk = bench(tmp_path)
    before = support.tree(repository)
    desk.run()
    steward_decisions.record_decision(desk.project, "j", Kind.APPROVE)
    assert support.tree(repository) == before
    assert desk.state().merge is None

    made = job_merge.merge_job(desk.project, "j")
    assert (made.published.how, made.result.state.merge) == ("fast_forward", "merged")
    assert subjects(tmp_path) == "Do it\nsecond\nfirst\n"
    entry = desk.history()[-1]
    assert (entry.kind, entry.actor, entry.state_after) == (Kind.MERGE, Actor.STEWARD, Status.SUCCESS)
    assert entry.command["files"] == ["new.txt", "src/app.py"]
    assert entry.command["revert"] == made.published.revert

    after = support.tree(repository)
    again = job_merge.merge_job(desk.project, "j")
    assert (again.published.how, again.result.entries) == ("already", ())
    assert support.tree(repository) == after


def test_only_finished_work_is_merged(tmp_path: Path) -> None:
    desk = bench(tmp_path)
    before = support.tree(tmp_path / "repo")
    for mode in ("merge", "branch", "look"):
        with pytest.raises(Refused, match="can't merge: the job is PENDING"):
            job_merge.merge_job(desk.project, "j", mode=mode)
    assert support.tree(tmp_path / "repo") == before


def test_a_job_without_a_repository_has_nothing_to_merge(tmp_path: Path) -> None:
    desk = Bench(tmp_path, [answer(), PASSES])
    desk.create(approval="none", auto_merge=True)
    assert desk.run().state.merge is None
    with pytest.raises(Refused, match="was not created from a git repository"):
        job_merge.merge_job(desk.project, "j")


def test_the_work_of_a_child_is_its_parents(tmp_path: Path) -> None:
    repository = support.make_repository(tmp_path / "repo")
    desk = Bench(tmp_path, settings={"review": {"auto_merge": True}})
    desk.create("c", repo=str(repository), parent="p", approval="none", review=False)
    desk.script({}, [answer(files=CHANGES)])
    before = support.tree(repository)
    assert desk.run("c").state.merge is None
    with pytest.raises(Refused, match="its work is merged with its parent job p"):
        job_merge.merge_job(desk.project, "c")
    assert support.tree(repository) == before


ENDS: dict[str, Callable[[Bench], Any]] = {
    "run": Bench.run,
    "step": lambda desk: (desk.step(), desk.step())[1],
    "poststep": lambda desk: (desk.step(), desk.give(PASSES["text"]))[1],
    "the queue": lambda desk: next(job_queue.run_queue(desk.project, 2, lambda _: None)).result,
}


@pytest.mark.parametrize("how", ENDS)
def test_without_an_approval_the_command_that_ends_it_merges_it(how: str, tmp_path: Path) -> None:
    desk = bench(tmp_path, review_mode="yolo")
    result = ENDS[how](desk)
    assert (result.state.status, result.state.merge, result.exit_code) == (Status.SUCCESS, "merged", 0)
    assert (result.entries[-1].kind, result.entries[-1].actor) == (Kind.MERGE, Actor.SYSTEM)
    assert subjects(tmp_path) == "Do it\nsecond\nfirst\n"


FLOW = """\
name: W
steps:
  - {id: a, prompt: Do., review: true}
  - {id: b, prompt: Do it.}
"""


@pytest.mark.parametrize(
    ("spec", "answers"),
    [
        ({"workflow": "w.yaml", "prompt": None}, [answer(), PASSES, answer(files=CHANGES)]),
        ({"review": False}, [answer(files=CHANGES)]),
    ],
    ids=["the last step is not reviewed", "nothing is"],
)
def test_what_nobody_has_reviewed_is_not_merged_by_itself(
    spec: dict[str, Any], answers: list[Any], tmp_path: Path
) -> None:
    support.make_repository(tmp_path / "repo")
    (tmp_path / "w.yaml").write_text(FLOW)
    desk = Bench(tmp_path, answers, {"review": {"mode": "yolo"}})
    given = {**spec, "workflow": str(tmp_path / "w.yaml")} if "workflow" in spec else spec
    desk.create(repo=str(tmp_path / "repo"), title="Do it", **given)
    result = desk.run()
    assert (result.state.status, result.state.merge, result.exit_code) == (Status.SUCCESS, None, 0)
    assert "to merge it, run: logist job merge --job j" in result.warnings[-1]
    assert subjects(tmp_path) == "second\nfirst\n"
    assert job_queue.list_ready_jobs(desk.project) == []
    assert job_merge.merge_job(desk.project, "j").result.state.merge == "merged"


def test_with_auto_merge_the_approval_merges_it(tmp_path: Path) -> None:
    desk = bench(tmp_path, settings={"review": {"auto_merge": True}})
    assert desk.run().state.status is Status.APPROVAL_REQUIRED
    assert subjects(tmp_path) == "second\nfirst\n"
    result = steward_decisions.record_decision(desk.project, "j", Kind.APPROVE)
    assert [entry.kind for entry in result.entries] == [Kind.APPROVE, Kind.MERGE]
    assert subjects(tmp_path) == "Do it\nsecond\nfirst\n"


def test_a_conflict_makes_it_stuck_and_a_later_merge_heals_it(tmp_path: Path) -> None:
    desk = bench(tmp_path, auto_merge=True)
    desk.run()
    theirs(tmp_path)
    before = support.tree(tmp_path / "repo")
    result = steward_decisions.record_decision(desk.project, "j", Kind.APPROVE)
    assert (result.state.status, result.exit_code) == (Status.STUCK, 3)
    assert result.state.place.stuck is not None
    assert result.state.place.stuck.kind is StuckKind.MERGE
    assert "src/app.py" in result.state.place.stuck.reason
    assert "logist job merge --job j" in result.next_command
    assert support.tree(tmp_path / "repo") == before
    with pytest.raises(Refused, match=r"merge conflict with main in: src/app\.py"):
        job_merge.merge_job(desk.project, "j")
    assert desk.state().status is Status.STUCK

    git(tmp_path / "repo", "revert", "--no-edit", "HEAD")
    healed = job_merge.merge_job(desk.project, "j")
    assert (healed.result.state.status, healed.result.state.merge) == (Status.SUCCESS, "merged")
    assert git(tmp_path / "repo", "show", "HEAD:src/app.py") == "ANSWER = 43\n"


def test_a_conflict_can_go_back_to_work(tmp_path: Path) -> None:
    desk = bench(tmp_path, auto_merge=True, approval="none")
    theirs(tmp_path)
    assert desk.run().exit_code == 3
    result = steward_decisions.record_decision(desk.project, "j", Kind.RESUBMIT, note="Leave app.py alone.")
    assert (result.state.status, result.state.note) == (Status.PENDING, "Leave app.py alone.")


def test_a_person_who_meets_a_conflict_is_refused_and_nothing_is_recorded(tmp_path: Path) -> None:
    desk = bench(tmp_path, approval="none")
    desk.run()
    theirs(tmp_path)
    before = desk.state()
    with pytest.raises(Refused, match=r"src/app\.py") as refused:
        job_merge.merge_job(desk.project, "j")
    assert "--branch" in str(refused.value.fix)
    assert desk.state() == before


def test_what_can_not_be_merged_now_stays_due(tmp_path: Path) -> None:
    desk = bench(tmp_path, auto_merge=True, approval="none")
    mine = tmp_path / "repo" / "src" / "app.py"
    mine.write_text("MINE = 1\n")
    result = desk.run()
    assert (result.state.status, result.state.merge, result.exit_code) == (Status.SUCCESS, "due", 8)
    assert "src/app.py" in result.warnings[-1]
    assert job_queue.list_ready_jobs(desk.project) == ["j"]
    mine.write_text("ANSWER = 42\n")
    result = desk.step()
    assert (result.state.merge, result.exit_code) == ("merged", 0)
    assert job_queue.list_ready_jobs(desk.project) == []
    with pytest.raises(Refused):
        desk.step()


def today_nobody_wants_it(desk: Desk) -> Bench:
    desk.job_file("auto_merge", False)
    return desk.bench


def today_it_leads_elsewhere(desk: Desk) -> Bench:
    support.make_repository(desk.place / "other")
    desk.job_file("repo", str(desk.place / "other"))
    return desk.bench


def it_came_from_another_project(desk: Desk) -> Bench:
    other = Bench(desk.place / "mine")
    shutil.copytree(desk.bench.project.jobs_dir, other.project.jobs_dir, symlinks=True)
    return other


class Desk(NamedTuple):
    """A job whose merge is due."""

    place: Path
    bench: Bench

    def job_file(self, key: str, value: object) -> None:
        specs.edit_spec(self.bench.project, self.bench.project.open_job("j"), {(key,): value}, draft=False)


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (today_nobody_wants_it, "the current config and job.yaml don't allow an automatic merge"),
        (today_it_leads_elsewhere, "now it is .*other"),
        (it_came_from_another_project, "created in another directory"),
    ],
)
def test_only_what_is_wanted_here_today_is_merged_by_itself(
    change: Callable[[Desk], Bench], told: str, tmp_path: Path
) -> None:
    desk = bench(tmp_path, auto_merge=True, approval="none")
    mine = tmp_path / "repo" / "src" / "app.py"
    mine.write_text("MINE = 1\n")
    assert desk.run().state.merge == "due"
    mine.write_text("ANSWER = 42\n")
    changed = change(Desk(tmp_path, desk))
    result = changed.step()
    assert (result.state.merge, result.exit_code) == ("due", 8)
    assert re.search(told, result.warnings[-1])
    assert "logist job merge --job j --repo DIR" in result.warnings[-1]
    assert subjects(tmp_path) == "second\nfirst\n"
    job_merge.merge_job(changed.project, "j", repository=tmp_path / "repo")
    assert subjects(tmp_path) == "Do it\nsecond\nfirst\n"


def test_what_is_left_out_of_a_merge_by_itself_is_told(tmp_path: Path) -> None:
    repository = support.make_repository(tmp_path / "repo")
    (repository / ".gitignore").write_text("*.log\n")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "rules")
    desk = Bench(tmp_path, [answer(files={**CHANGES, "new.log": "x\n"}), PASSES])
    desk.create(repo=str(repository), title="Do it", review_mode="yolo")
    result = desk.run()
    assert result.state.merge == "merged"
    assert result.warnings[-1] == "left out of the merge: new.log (git-ignored)"
    assert not (repository / "new.log").exists()


def test_a_merge_that_was_not_recorded_any_more_still_tells_how_to_take_it_back(tmp_path: Path) -> None:
    desk = bench(tmp_path, approval="none")
    desk.run()
    job = shutil.copytree(tmp_path / ".logist", tmp_path / "before", symlinks=True)
    made = job_merge.merge_job(desk.project, "j")
    shutil.rmtree(tmp_path / ".logist")
    job.rename(tmp_path / ".logist")
    again = job_merge.merge_job(desk.project, "j")
    assert again.published.how == "already"
    assert desk.history()[-1].command["revert"] == made.published.revert != ""


def test_several_jobs_into_one_repository_take_turns(tmp_path: Path) -> None:
    repository = support.make_repository(tmp_path / "repo")
    desk = Bench(tmp_path)
    desk.script({}, [PASSES] * 2)
    for number in range(3):
        name = f"j{number}"
        desk.create(name, repo=str(repository), title=name, approval="none", auto_merge=True)
        (desk.workspace(name) / f"{name}.txt").write_text("x\n")
    ended = list(job_queue.run_queue(desk.project, 3, lambda _: None))
    assert [each.exit_code for each in ended] == [0, 0, 0]
    assert {f"j{number}.txt" for number in range(3)} <= {path.name for path in repository.iterdir()}
    assert git(repository, "status", "--porcelain") == ""


def test_a_bare_repository_can_be_worked_on_and_merged_into(tmp_path: Path) -> None:
    support.make_repository(tmp_path / "first")
    git(tmp_path, "clone", "--quiet", "--bare", "first", "repo.git")
    desk = Bench(tmp_path, [answer(files=CHANGES)])
    desk.create(repo=str(tmp_path / "repo.git"), title="Do it", review=False, approval="none")
    assert desk.run().state.source == str(tmp_path / "repo.git")
    assert job_merge.merge_job(desk.project, "j").published.how == "fast_forward"
    assert git(tmp_path / "repo.git", "show", "main:new.txt") == "new\n"


def test_another_clone_may_take_the_work(tmp_path: Path) -> None:
    desk = bench(tmp_path, approval="none")
    desk.run()
    git(tmp_path, "clone", "--quiet", "repo", "clone")
    (tmp_path / "repo").rename(tmp_path / "moved")
    with pytest.raises(Refused, match=r"git repository not found: .*repo"):
        job_merge.merge_job(desk.project, "j")
    made = job_merge.merge_job(desk.project, "j", repository=tmp_path / "clone")
    assert made.published.place == tmp_path / "clone"
    assert (tmp_path / "clone" / "new.txt").read_text() == "new\n"


def test_a_job_that_was_started_over_merges_its_new_work_on_top(tmp_path: Path) -> None:
    desk = bench(tmp_path, approval="none", auto_merge=True)
    desk.run()
    steward_decisions.rerun_job(desk.project, "j")
    desk.script({}, [answer(files={**CHANGES, "new.txt": "newer\n"}), PASSES])
    assert desk.run().state.merge == "merged"
    assert (tmp_path / "repo" / "new.txt").read_text() == "newer\n"
    assert subjects(tmp_path) == "Do it\nDo it\nsecond\nfirst\n"
