"""`job fork`: the same beginning byte for byte, and its own way from there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from logist.core.model import Kind, Status
from logist.errors import Damaged, LogistError, Refused, UsageError
from logist.jobs.archive.history_import import import_history
from logist.jobs.archive.job_fork import ForkedJob, fork_job
from logist.jobs.base import job_reader
from logist.jobs.steward import steward_decisions
from logist.store import history_copy, list_jobs
from tests import support
from tests.jobs.bench import Bench, Json, answer, command, gave
from tests.jobs.conftest import MakeBench
from tests.jobs.test_recovery import left_in_flight, response
from tests.jobs.test_workflow_children import given_away, work

COST = {"cost_cents": 5, "input_tokens": 7, "seconds": 1.0}
ANSWERS: list[Json] = [
    answer(command(evidence=["a.txt"]), files={"a.txt": "one"}, usage=COST),
    answer(command("RETRY", summary="Again.")),
    answer(command(evidence=["a.txt"]), files={"a.txt": "two", "b.txt": "B"}),
    answer(),
    answer(),
]


def reviewed(b: Bench, steps: int = 3) -> Bench:
    """Made (1), done (2), sent back (3), changed (4), accepted (5)."""
    b.create()
    for _ in range(steps):
        b.step()
    return b


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """The job `j`, which nobody changes: after what `reviewed` says it was put back to before 3 (6)."""
    b = reviewed(Bench(tmp_path_factory.mktemp("shelf"), ANSWERS), 4)
    steward_decisions.restep_job(b.project, "j", 3)
    yield b
    for job_id in list_jobs(b.project.jobs_dir):
        assert job_reader.verify_job(b.project, b.project.open_job(job_id)).problems == ()


def files(b: Bench, job_id: str) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in b.workspace(job_id).iterdir() if path.is_file()}


def lines(b: Bench, job_id: str) -> list[bytes]:
    return (b.folder(job_id) / "jobHistory.json").read_bytes().splitlines()


def forked(b: Bench, job_id: str = "j", at: int | None = None, **more: str) -> ForkedJob:
    """A fork, of which the other job notices nothing."""
    before = b.files(job_id)
    made = fork_job(b.project, job_id, at, new_id=more.get("new_id"), note=more.get("note"))
    assert b.files(job_id) == before
    return made


def test_a_fork_at_a_decision_has_what_was_edited_by_hand_before_it(bench: MakeBench) -> None:
    b = bench([answer(command("STUCK"), files={"a.txt": "agent"}), answer(files={"a.txt": "again"})])
    b.create()
    b.step()
    (b.workspace() / "a.txt").write_text("by hand", "utf-8")
    steward_decisions.record_decision(b.project, "j", Kind.RESUBMIT)
    steward_decisions.record_decision(b.project, "j", Kind.SUSPEND)
    steward_decisions.record_decision(b.project, "j", Kind.RESUME)
    assert files(b, forked(b).job.id) == {"a.txt": "agent"}  # the workspace of the other job is not read
    b.step()
    assert files(b, forked(b, at=2).job.id) == {"a.txt": "agent"}
    assert files(b, forked(b, at=3).job.id) == {"a.txt": "by hand"}
    assert files(b, forked(b, at=6).job.id) == {"a.txt": "again"}


@pytest.mark.parametrize(
    ("at", "status", "held", "spent"),
    [
        (1, Status.PENDING, {}, 0),
        (4, Status.REVIEW_REQUIRED, {"a.txt": "two", "b.txt": "B"}, 5),
        (None, Status.REVIEW_REQUIRED, {"a.txt": "one"}, 5),
    ],
)
def test_it_begins_as_the_other_was_there(
    shelf: Bench, at: int | None, status: Status, held: dict[str, str], spent: int
) -> None:
    made = forked(shelf, at=at)
    name, count = made.job.id, at or 6
    assert (made.state.status, files(shelf, name)) == (status, held)
    assert lines(shelf, name)[: count + 1] == lines(shelf, "j")[: count + 1]
    last = shelf.history(name)[-1]
    head = shelf.history()[count - 1].checksum
    assert (last.sequence, last.kind, last.previous) == (count + 1, Kind.FORK, head)
    assert last.command == {"from": "j", "at": count, "head": head}
    assert last.workspace_path == str(shelf.workspace(name))
    state = shelf.state(name)
    assert state.forked is not None
    assert (state.forked.job, state.forked.at, state.forked.head) == ("j", count, head)
    assert (state.usage.cumulative_cost, state.status) == (spent, status)
    later = {entry.checkpoint_after for entry in shelf.history()[count:]}
    earlier = {entry.checkpoint_after for entry in shelf.history()[:count]}
    held_by_git = set(support.git(shelf.folder(name) / "git", "rev-list", "--all").split())
    assert earlier <= held_by_git
    assert not (later - earlier) & held_by_git
    packed = support.git(
        shelf.folder(name) / "git", "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"
    )
    assert not (later - earlier) & set(packed.split())
    for pack in (shelf.folder(name) / "git" / "objects" / "pack").iterdir():
        assert pack.samefile(shelf.folder() / "git" / "objects" / "pack" / pack.name)


def test_it_goes_its_own_way(shelf: Bench) -> None:
    name = forked(shelf, at=2).job.id
    assert [shelf.step(name).state.status for _ in range(2)] == [Status.PENDING, Status.REVIEW_REQUIRED]
    assert files(shelf, name) == {"a.txt": "two", "b.txt": "B"}
    assert (len(shelf.history(name)), shelf.state(name).asked) == (5, 3)


def test_it_can_be_put_back_to_before_the_fork_and_started_over(shelf: Bench) -> None:
    name = forked(shelf).job.id
    there = steward_decisions.restep_job(shelf.project, name, 5)  # a restep had left that behind
    assert (there.state.status, len(files(shelf, name))) == (Status.REVIEW_REQUIRED, 2)
    assert there.state.forked is not None
    assert there.state.forked.at == 6
    over = steward_decisions.rerun_job(shelf.project, name)
    assert (over.state.status, files(shelf, name)) == (Status.PENDING, {})
    assert over.state.forked == there.state.forked
    assert over.state.usage.cumulative_cost == 0


def test_a_fork_of_a_fork(shelf: Bench) -> None:
    first = forked(shelf, at=2, note="Try it without a file.").job.id
    assert forked(shelf, first, new_id="mine").job.id == "mine"
    assert [entry.kind for entry in shelf.history("mine")][-2:] == [Kind.FORK, Kind.FORK]
    seen = shelf.state("mine").forked
    assert seen is not None
    assert (seen.job, seen.at) == (first, 3)
    prompt = shelf.step("mine").entries[-1].request.prompt
    assert "Try it without a file." in prompt


def test_the_names_they_get(bench: MakeBench) -> None:
    b, long = bench(), "x" * 128
    b.create(long)
    made: list[str] = []
    both = [threading.Thread(target=lambda: made.append(forked(b, long).job.id)) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert sorted(made) == ["x" * 121 + "-fork-1", "x" * 121 + "-fork-2"]


@pytest.mark.parametrize(
    ("at", "new_id", "said", "error"),
    [
        (0, None, "interaction 0 not found in j", UsageError),
        (-1, None, "interaction -1 not found in j", UsageError),
        (7, None, "interaction 7 not found in j", UsageError),
        (2, "j", "already exists", Refused),
        (2, "../x", "invalid job id '../x'", UsageError),
    ],
)
def test_what_can_not_be_forked(
    shelf: Bench, at: int, new_id: str | None, said: str, error: type[LogistError]
) -> None:
    before = sorted(shelf.project.jobs_dir.iterdir())
    with pytest.raises(error, match=said):
        fork_job(shelf.project, "j", at, new_id=new_id)
    assert sorted(shelf.project.jobs_dir.iterdir()) == before


def test_nothing_is_left_of_one_that_could_not_be_made(bench: MakeBench) -> None:
    b = reviewed(bench(ANSWERS), 1)
    (b.folder() / "damaged-on-purpose").touch()
    for pack in (b.folder() / "git" / "objects" / "pack").iterdir():
        pack.unlink()
    with pytest.raises(Damaged, match="missing in the checkpoint repository:"):
        fork_job(b.project, "j")
    assert list(b.project.jobs_dir.iterdir()) == [b.folder()]


def test_it_has_what_was_asked_with_its_comments_and_its_own_name(bench: MakeBench) -> None:
    b = bench(ANSWERS)
    b.create()
    (b.folder() / "job.yaml").write_text("# mine\nid: j  # this\nprompt: Do it.\nrank: 4\n", "utf-8")
    forked(b)
    assert (b.folder("j-fork-1") / "job.yaml").read_text("utf-8") == (
        "# mine\nid: j-fork-1  # this\nprompt: Do it.\nrank: 4\n"
    )
    assert b.step("j-fork-1").state.rank == 4
    assert [entry.kind for entry in b.history("j-fork-1")] == [Kind.CREATE, Kind.FORK, Kind.SPEC, Kind.ASK]


def test_what_is_in_flight_stays_with_the_other(bench: MakeBench) -> None:
    b = bench([answer(usage=COST)])
    b.create()
    job, _ = left_in_flight(b)
    job.mark_sent(1)
    job.save_response(1, response(command(summary="It came late.")))
    made = forked(b)
    assert made.notes[0].startswith("an unfinished call of j was not copied")
    assert not (made.job.path / "inflight").exists()
    assert b.step("j-fork-1").state.usage.cumulative_cost == 5
    assert (b.step().state.usage.cumulative_cost, len(b.history())) == (3, 2)


def test_an_agent_may_be_at_work_on_the_other(shelf: Bench) -> None:
    with shelf.project.open_job("j").hold_lock(command="job step", since="now"):
        assert fork_job(shelf.project, "j", 1).state.status is Status.PENDING


def test_nothing_is_merged_because_of_a_fork(bench: MakeBench, tmp_path: Path) -> None:
    support.make_repository(tmp_path / "repo")
    b = bench([ANSWERS[0], gave({"verdict": "PASS"})])
    b.create(repo=str(tmp_path / "repo"), auto_merge=True, approval="none")
    b.step()
    b.step()
    assert [entry.kind for entry in b.history()][2:] == [Kind.ASK, Kind.MERGE]
    before = forked(b, at=3)
    assert (before.state.status, before.state.merge) == (Status.SUCCESS, None)
    assert before.state.source == str(tmp_path / "repo")
    assert (b.workspace("j-fork-1") / "src" / "app.py").exists()
    assert support.git(b.workspace("j-fork-1"), "status", "--short") == "?? a.txt\n"
    assert before.state.start_checkpoint == b.history()[0].checkpoint_after
    after = forked(b)
    assert (after.state.merge, after.notes[-1]) == ("merged", "the work up to this point is already merged")


# --- children ---


def test_it_can_not_wait_for_the_children_of_another(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "one", "two", input={"who": "me"})
    with pytest.raises(Refused, match="can't import a job that waits for child jobs: j--3-1"):
        import_history(b.project, b.folder(), new_id="other")
    with pytest.raises(Refused, match="waits for child jobs: j--3-1, j--3-2") as refused:
        fork_job(b.project, "j")
    assert refused.value.fix == "fork before they were created: --at 2, or after their work was gathered"
    assert forked(b, at=2).state.place.spawns
    b.step("j-fork-1")
    assert b.children("j-fork-1") == ["j-fork-1--4-1", "j-fork-1--4-2"]
    work(b, *children)
    assert b.step().state.status is not Status.WAITING
    gathered = forked(b)
    with pytest.raises(Refused, match="before interaction 4, j was waiting for its own child jobs") as back:
        steward_decisions.restep_job(b.project, gathered.job.id, 4)
    assert back.value.fix == (
        f"to create new child jobs for this job: logist job restep --job {gathered.job.id} --to 3"
    )
    anew = steward_decisions.restep_job(b.project, gathered.job.id, 3)
    assert (anew.state.place.spawns, anew.state.children) == (True, [])
    assert {b.state(child).status for child in children} == {Status.SUCCESS}


def test_a_fork_of_a_child_is_nobodys_child(bench: MakeBench) -> None:
    b = bench(ANSWERS)
    b.create("p--3-1", parent="p")
    made = forked(b, "p--3-1")
    assert (made.state.parent, b.state("p--3-1").parent) == (None, "p")
    assert "parent" not in (b.folder(made.job.id) / "job.yaml").read_text("utf-8")
    assert made.notes == ("the new job is not a child of p, which waits only for p--3-1",)
    b.step(made.job.id)
    kinds = [entry.kind for entry in b.history(made.job.id)]
    assert kinds == [Kind.CREATE, Kind.FORK, Kind.ASK]
    assert steward_decisions.restep_job(b.project, made.job.id, 2).state.parent is None
    assert import_history(b.project, b.folder("p--3-1"), new_id="other").state.parent is None


# --- of a long history, and one that is damaged behind the fork ---


def test_what_comes_after_may_be_damaged(bench: MakeBench) -> None:
    b = reviewed(bench(ANSWERS), 2)
    (b.folder() / "damaged-on-purpose").touch()
    history = b.folder() / "jobHistory.json"
    history.write_bytes(history.read_bytes().replace(b"Again.", b"Never."))
    assert forked(b, at=2).state.status is Status.REVIEW_REQUIRED
    with pytest.raises(Damaged):
        fork_job(b.project, "j", 3)


def test_a_pack_that_is_damaged_is_damage_of_the_other(bench: MakeBench) -> None:
    b = reviewed(bench(ANSWERS), 1)
    (b.folder() / "damaged-on-purpose").touch()
    for path in (b.folder() / "git" / "objects").rglob("*"):
        if path.suffix == ".pack" or len(path.name) == 38:
            path.chmod(0o600)
            data = path.read_bytes()
            path.write_bytes(data[:12] + bytes(byte ^ 255 for byte in data[12:-20]) + data[-20:])
    with pytest.raises(Damaged, match="the checkpoint repository is damaged") as caught:
        fork_job(b.project, "j")
    assert caught.value.where == str(b.folder() / "git")
    assert list(list_jobs(b.project.jobs_dir)) == ["j"]


def test_entries_that_their_checksums_do_not_hold_are_not_taken(shelf: Bench, tmp_path: Path) -> None:
    entries = list(shelf.project.open_job("j").read_entries())
    end = history_copy.copy_history(tmp_path / "jobHistory.json", entries)
    assert (tmp_path / "jobHistory.json").read_bytes() == (shelf.folder() / "jobHistory.json").read_bytes()
    assert (end.sequence, end.hash) == (6, entries[-1]["checksum"])
    (tmp_path / "jobHistory.json").unlink()
    entries[0]["timestamp"] = "2000-01-01T00:00:00Z"
    with pytest.raises(Damaged, match="checksum mismatch in interaction 1"):
        history_copy.copy_history(tmp_path / "jobHistory.json", entries)
    assert list(tmp_path.glob("*.json*")) == []


def test_of_a_history_in_segments_the_fork_has_all_in_one(bench: MakeBench) -> None:
    b = reviewed(bench(ANSWERS, {"history": {"rotate_at": 1}}), 1)
    assert (b.folder() / "jobHistory.1.json.gz").exists()
    forked(b, at=2)
    entries = list(b.project.open_job("j").read_entries())
    assert list(b.project.open_job("j-fork-1").read_entries())[:2] == entries
    assert b.step("j-fork-1").state.status is Status.PENDING
