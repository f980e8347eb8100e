"""A history whose end was cut off, with state.json gone: sound in itself, and what else shows that it was longer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logist.core.model import Kind, Status
from logist.errors import Damaged
from logist.jobs.archive.job_fork import fork_job
from logist.jobs.base import job_reader, truncation
from logist.jobs.base.session import load_session, open_session
from logist.jobs.doctor import job_checks
from logist.jobs.doctor.backup import Backup
from logist.jobs.doctor.checks import Repairs
from logist.jobs.steward import job_merge, steward_decisions
from logist.store import HistoryProblem
from tests import support
from tests.jobs.bench import Bench, Json, answer, command, gave
from tests.jobs.conftest import MakeBench
from tests.jobs.test_recovery import left_in_flight, response
from tests.jobs.test_workflow_children import given_away, work
from tests.support import git


def cut(b: Bench, last: int, job_id: str = "j", *, state: bool = False) -> None:
    """Takes everything after interaction `last` out of a history, and state.json too unless that is to stay."""
    folder = b.folder(job_id)
    (folder / "damaged-on-purpose").touch()
    lines = (folder / "jobHistory.json").read_bytes().splitlines(keepends=True)
    (folder / "jobHistory.json").write_bytes(b"".join(lines[: last + 1]) + b"]}\n")
    if not state:
        (folder / "state.json").unlink()


def write_state(b: Bench, job_id: str = "j") -> None:
    """Makes the state.json that fits a history that was cut, as a command of an earlier version did."""
    session = load_session(b.project, b.project.open_job(job_id))
    session.write_state()


def problems(b: Bench, job_id: str = "j") -> list[str]:
    """What `job verify` finds; the history itself verifies to its end."""
    found = job_reader.verify_job(b.project, b.project.open_job(job_id))
    assert found.proof.problems == ()
    return [problem.message for problem in found.problems]


def stepped(b: Bench, steps: int = 3) -> Bench:
    b.create()
    for _ in range(steps):
        b.step()
    return b


WORK = [
    answer(files={"a.txt": "1"}),
    answer(command("RETRY")),
    answer(files={"a.txt": "2"}),
    answer(files={"a.txt": "3"}),
]


@pytest.mark.parametrize("last", [1, 2, 3])
def test_checkpoints_show_it(bench: MakeBench, last: int) -> None:
    b = stepped(bench(WORK))
    assert problems(b) == []
    commit = b.history()[-1].checkpoint_after
    cut(b, last)
    assert problems(b) == [
        f"the checkpoint {commit} belongs to interaction 4, but the history ends with {last}",
    ]


def test_a_state_that_was_put_back_with_the_history_hides_one_interaction_and_no_more(
    bench: MakeBench,
) -> None:
    b = stepped(bench(WORK), 2)
    old = (b.folder() / "state.json").read_bytes()
    b.step()
    cut(b, 3)
    (b.folder() / "state.json").write_bytes(old)
    assert problems(b) == []  # as after a kill between a checkpoint and the append
    b = stepped(bench(WORK), 1)
    old = (b.folder() / "state.json").read_bytes()
    b.step()
    b.step()
    cut(b, 2)
    (b.folder() / "state.json").write_bytes(old)
    assert "belongs to interaction 4, but the history ends with 2" in problems(b)[0]


@pytest.mark.parametrize("kind", ["restep", "rerun"])
def test_a_workspace_that_was_put_back_shows_it(bench: MakeBench, kind: str) -> None:
    """What a restep leaves is an older checkpoint: that is the last one in git, and not in the history."""
    b = stepped(bench(WORK))
    if kind == "restep":
        steward_decisions.restep_job(b.project, "j", 2)
    else:
        steward_decisions.rerun_job(b.project, "j")
    assert problems(b) == []
    cut(b, 4)
    assert problems(b) == [
        f"the last checkpoint, {b.history()[0].checkpoint_after}, belongs to no interaction of the history"
    ]


def test_a_history_without_its_state_that_was_not_cut_is_whole(bench: MakeBench) -> None:
    b = stepped(bench(WORK))
    steward_decisions.restep_job(b.project, "j", 3)
    steward_decisions.record_decision(b.project, "j", Kind.SUSPEND)
    (b.folder() / "state.json").unlink()
    assert problems(b) == []


def test_the_log_of_a_setup_shows_it(bench: MakeBench) -> None:
    """That of the next interaction proves nothing: the setup may have failed."""
    b = stepped(bench([answer()]), 1)
    (b.folder() / "logs").mkdir(exist_ok=True)
    (b.folder() / "logs" / "000003.setup.log").touch()
    assert problems(b) == []
    (b.folder() / "logs" / "000004.setup.log").touch()
    (b.folder() / "damaged-on-purpose").touch()
    assert problems(b) == ["logs/000004.setup.log belongs to interaction 4, but the history ends with 2"]


def test_nothing_is_paid_again_for_a_history_without_its_end(bench: MakeBench) -> None:
    """The first command that opens it would write a state.json, which then vouches for what is left."""
    b = stepped(bench(WORK))
    cut(b, 2)
    lost = "the end of the history is missing: the checkpoint .* belongs to interaction 4"
    with pytest.raises(Damaged, match=lost):
        b.step()
    with pytest.raises(Damaged, match=lost):
        steward_decisions.record_decision(b.project, "j", Kind.CANCEL)
    assert not (b.folder() / "state.json").exists()
    assert job_reader.verify_job(b.project, b.project.open_job("j")).notes == ()
    made = fork_job(b.project, "j", 2, new_id="left")
    assert b.state(made.job.id).revision == 3
    b.step(made.job.id)


def test_a_history_without_its_state_that_was_not_cut_goes_on(bench: MakeBench) -> None:
    b = stepped(bench(WORK), 2)
    (b.folder() / "state.json").unlink()
    b.step()
    assert len(b.history()) == 4


def test_what_a_killed_command_has_left_is_no_sign(bench: MakeBench) -> None:
    """The checkpoint after an answer, and its log, are there before the interaction is."""
    b = bench(WORK)
    b.create()
    job, _ = left_in_flight(b)
    job.mark_sent(1)
    job.save_response(1, response(command()))
    (b.workspace() / "a.txt").write_text("1")
    b.project.open_workspace(job).create_checkpoint("after interaction 2")
    job.write_log("000002.turns.jsonl", b"{}\n")
    assert problems(b) == []
    (b.folder() / "state.json").unlink()
    assert problems(b) == []
    b.step()
    assert problems(b) == []


def test_what_is_in_flight_shows_it(bench: MakeBench) -> None:
    b = stepped(bench(WORK), 2)
    left_in_flight(b)
    cut(b, 2)
    assert problems(b) == ["the unfinished call belongs to interaction 4, but the history ends with 2"]


def test_what_is_in_flight_names_the_entry_before_it(bench: MakeBench) -> None:
    b = stepped(bench([answer(), answer()]), 1)
    _, envelope = left_in_flight(b)
    envelope["after"] = "0" * 64
    b.project.open_job("j").begin_exchange(1, envelope)
    (b.folder() / "damaged-on-purpose").touch()
    assert problems(b) == ["the unfinished call was made after a different interaction 2"]


def test_an_end_that_left_no_trace_is_not_noticed(bench: MakeBench) -> None:
    """The limit: an answer that changed no file, and a decision; docs/reliability.md says so."""
    b = stepped(bench([answer(), answer()]), 1)
    steward_decisions.record_decision(b.project, "j", Kind.SUSPEND)
    cut(b, 1)
    assert problems(b) == []


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("logs/000003.turns.jsonl", 2),
        ("logs/000003.kept.json", 2),
        ("logs/torn-4.txt", 2),
        ("attachments/rerun-3", 2),
    ],
)
def test_the_number_of_a_file_shows_it(bench: MakeBench, name: str, last: int) -> None:
    b = stepped(bench([answer(), answer()]), 2)
    path = b.folder() / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    assert problems(b) == []
    cut(b, last)
    number = int("".join(filter(str.isdigit, name)))
    assert problems(b) == [f"{name} belongs to interaction {number}, but the history ends with {last}"]


def test_a_restore_that_was_begun_shows_it(bench: MakeBench) -> None:
    b = stepped(bench([answer(), answer()]), 2)
    b.project.open_job("j").begin_restore(4, b.state().checkpoint or "")
    assert problems(b) == []
    cut(b, 2)
    assert problems(b) == ["the file restoring belongs to interaction 4, but the history ends with 2"]


def test_children_show_it(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "one", "two")
    assert problems(b) == []
    cut(b, 2)
    assert problems(b) == [
        f"job {children[0]} was created as its child by an interaction that the history does not have"
    ]


def test_a_child_of_another_job_of_that_name_shows_nothing(bench: MakeBench) -> None:
    b = bench()
    given_away(b, "one")
    shutil.rmtree(b.folder())
    b.create(review=False, approval="none")
    assert problems(b) == []


def test_a_parent_shows_it(bench: MakeBench) -> None:
    b = bench()
    [child] = given_away(b, "one")
    work(b, child)
    assert b.step().state.status is Status.PENDING
    gathered = b.history()[-1].command["children"][0]
    assert (problems(b, child), gathered["status"]) == ([], "SUCCESS")
    cut(b, 1, child)
    ended = f"SUCCESS with the checkpoint {gathered['checkpoint']}"
    assert problems(b, child) == [
        f"its parent j recorded the result {ended}, but the history doesn't contain it"
    ]


def test_a_child_that_was_made_anew_is_not_the_one_that_was_gathered(bench: MakeBench) -> None:
    b = bench()
    [child] = given_away(b, "one", each={1: [gave("x"), gave("y")]})
    work(b, child)
    b.step()
    shutil.rmtree(b.folder(child))
    steward_decisions.restep_job(b.project, "j", 4)
    b.step()
    assert b.state(child).status is Status.PENDING
    assert problems(b, child) == []


def test_forks_show_it(bench: MakeBench) -> None:
    b = stepped(bench([answer(), answer(command("RETRY")), answer()]))
    fork_job(b.project, "j", 3, new_id="other")
    assert (problems(b), problems(b, "other")) == ([], [])
    cut(b, 2)
    assert problems(b) == ["job other was forked from interaction 3, but the history ends with 2"]
    write_state(b)
    steward_decisions.record_decision(b.project, "j", Kind.SUSPEND)
    assert problems(b) == ["job other was forked from a different interaction 3"]
    shutil.rmtree(b.folder())
    stepped(b, 1)
    assert problems(b) == []  # it is another job of that name


def test_a_fork_that_begins_with_a_later_checkpoint_of_the_other_job_is_whole(bench: MakeBench) -> None:
    b = bench([answer(command("STUCK")), answer(files={"a.txt": "2"})])
    b.create()
    b.step()
    (b.workspace() / "a.txt").write_text("by hand")
    steward_decisions.record_decision(b.project, "j", Kind.RESUBMIT)
    for kind in (Kind.SUSPEND, Kind.RESUME, Kind.SUSPEND, Kind.RESUME):
        steward_decisions.record_decision(b.project, "j", kind)
    b.step()
    made = fork_job(b.project, "j", 3)
    assert problems(b, made.job.id) == []
    (made.job.path / "state.json").unlink()
    assert problems(b, made.job.id) == []


def merged(place: Path) -> Bench:
    """A job whose work is in the repository that it came from; its last interactions are ask, approve, merge."""
    support.make_repository(place / "repo")
    b = Bench(place, [answer(), answer()])
    b.create(repo=str(place / "repo"), title="Do it", review=False)
    (b.workspace() / "new.txt").write_text("by hand")
    b.step()
    steward_decisions.record_decision(b.project, "j", Kind.APPROVE)
    job_merge.merge_job(b.project, "j")
    return b


def test_a_merge_into_the_repository_of_the_user_shows_it(tmp_path: Path) -> None:
    b = merged(tmp_path)
    assert problems(b) == []
    when = b.history()[-2].timestamp
    cut(b, 2)
    brought = f"{tmp_path / 'repo'} has work of this job from {when} on the branch logist/j"
    restored = "perhaps it was restored from an older backup"
    assert problems(b) == [f"{brought}, but the history has no such interaction: {restored}"]


def test_a_branch_that_is_no_work_of_this_job_shows_nothing(tmp_path: Path) -> None:
    b = merged(tmp_path)
    cut(b, 2)
    git(tmp_path / "repo", "commit", "--quiet", "--allow-empty", "--message", "theirs")
    git(tmp_path / "repo", "branch", "--force", "logist/j", "HEAD")
    assert problems(b) == []
    git(tmp_path / "repo", "branch", "--delete", "--force", "logist/j")
    assert problems(b) == []
    shutil.rmtree(tmp_path / "repo")
    assert problems(b) == []


def test_a_merge_that_was_killed_before_it_was_recorded_is_no_sign(tmp_path: Path) -> None:
    b = merged(tmp_path)
    cut(b, 3)
    assert problems(b) == []


def test_what_a_command_records_while_it_is_verified_is_no_sign(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = stepped(bench(WORK), 1)
    real, steps = truncation.find_truncation_signs, iter(range(2))

    def find_signs(*args: Any) -> Iterator[HistoryProblem]:
        for _ in steps:
            b.step()
        return real(*args)

    monkeypatch.setattr(truncation, "find_truncation_signs", find_signs)
    found = job_reader.verify_job(b.project, b.project.open_job("j"))
    assert (found.problems, b.state().revision) == ((), 4)


def test_doctor_makes_no_state_for_it(bench: MakeBench) -> None:
    """A state made from what is left would vouch for that."""
    b = stepped(bench(WORK))
    cut(b, 2)
    job = b.project.open_job("j")
    done = Repairs(Backup(b.project))
    job_checks.repair(b.project, job, done, deep=False)
    assert "not repaired: the checkpoint" in done.left[0].message
    assert not job.state_file.exists()
    assert "belongs to interaction 4" in " ".join(
        f.message for f in job_checks.examine(b.project, job, deep=True)
    )


def test_doctor_makes_a_state_where_only_an_append_was_cut_off(bench: MakeBench) -> None:
    b = stepped(bench(WORK), 1)
    job = b.project.open_job("j")
    (b.workspace() / "a.txt").write_text("2")
    b.project.open_workspace(job).create_checkpoint("after interaction 3")
    job.history_file.write_bytes(job.history_file.read_bytes().removesuffix(b"]}\n") + b',{"sequence":3,"ver')
    job.state_file.unlink()
    done = Repairs(Backup(b.project))
    job_checks.repair(b.project, job, done, deep=True)
    assert done.left == []
    assert (job.state_file.is_file(), problems(b)) == (True, [])


def test_a_kill_at_a_restep_is_no_sign(bench: MakeBench) -> None:
    b = stepped(bench(WORK))
    kept, start = b.state().checkpoint or "", b.state().start_checkpoint or ""
    with open_session(b.project, "j", "job restep") as session:
        session.job.begin_restore(session.state.revision + 1, kept)
        b.project.open_workspace(session.job).restore(start)
    (b.folder() / "state.json").unlink()
    assert problems(b) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"command": {"children": [1, {"id": 2}, {}]}},
        {"command": {"children": {"id": "x"}}},
        {"command": [], "observed": []},
        {"observed": {"found": 7}, "checkpoint_after": {}},
    ],
)
def test_an_entry_that_holds_anything_is_damage_and_no_surprise(bench: MakeBench, fields: Json) -> None:
    b = stepped(bench([answer()]), 1)
    (b.folder() / "damaged-on-purpose").touch()
    job = b.project.open_job("j")
    loaded = job.load()
    job.append_entries(loaded.position, [{"kind": "spawn", **fields}])
    assert "interaction 3 is invalid" in problems(b)[0]


@pytest.mark.parametrize("forked", [[], {"job": "j"}, {"job": "j", "at": -3, "head": ""}])
def test_a_state_may_hold_anything(bench: MakeBench, forked: object) -> None:
    b = stepped(bench([answer()]), 1)
    other = b.folder("other")
    shutil.copytree(b.folder(), other, symlinks=True)
    (other / "damaged-on-purpose").touch()
    (other / "state.json").write_text(json.dumps({"forked": forked}, indent=1))
    assert problems(b) == []
