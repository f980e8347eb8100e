"""What `gc` removes and keeps: only what has ended, long ago, and is kept elsewhere; families together; forks live on."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from datetime import timedelta
from pathlib import Path

import pytest

from logist.core.model import Kind
from logist.core.relevance.word_table import WordTableBuilder
from logist.errors import Refused
from logist.jobs.archive import archive_replay, archive_statistics, job_fork, recorded_jobs
from logist.jobs.archive.fixture_export import export_fixture
from logist.jobs.archive.job_pack import pack_job
from logist.jobs.base import job_reader
from logist.jobs.base.session import open_session
from logist.jobs.doctor import job_checks
from logist.jobs.steward.job_deletion import delete_job
from logist.jobs.steward.job_diff import Scope, compare_job
from logist.jobs.steward.job_merge import merge_job
from logist.jobs.steward.retention import GarbageCollection, KeepReason, collect_garbage
from logist.jobs.steward.steward_decisions import record_decision, rerun_job, restep_job
from logist.store import list_jobs
from logist.store.cleaned import NAME, UNDER_WAY
from logist.workspace.context import WORDS_FOLDER, WordIndex
from logist.workspace.context.word_index import IndexPart
from tests import support
from tests.jobs.bench import Bench
from tests.jobs.conftest import MakeBench
from tests.jobs.test_deleting import ENDS, finished, list_branches, parent_and_child

NOW = timedelta(0)


def clean(b: Bench, *, dry_run: bool = False) -> GarbageCollection:
    return collect_garbage(b.project, NOW, keep_history=True, dry_run=dry_run)


def reasons(done: GarbageCollection) -> dict[str, str]:
    return {each.job_id: each.reason.value for each in done.kept}


def removed(done: GarbageCollection) -> list[str]:
    return [each.job_id for each in done.removed]


def test_without_its_files_a_job_keeps_its_history(bench: MakeBench, tmp_path: Path) -> None:
    b = finished(bench)
    (b.folder() / "logs" / "000002.turns.jsonl").write_text("x" * 10_000)
    (b.folder() / "attachments").mkdir(0o700)
    (b.folder() / "attachments" / "original.json").touch(0o600)
    before = (b.folder() / "jobHistory.json").read_bytes()
    done = clean(b)
    (gone,) = done.removed
    assert (gone.job_id, gone.freed > 10_000, done.freed >= gone.freed) == ("j", True, True)
    assert gone.ended_at == job_reader.find_interaction(b.project.open_job("j"), 2).timestamp
    kept = {path.name for path in b.folder().iterdir()}
    assert kept == {"attachments", "job.yaml", "jobHistory.json", "lock", "logs", "state.json", NAME}
    assert list((b.folder() / "logs").iterdir()) == []
    assert (b.folder() / "jobHistory.json").read_bytes() == before
    job = b.project.open_job("j")
    verified = job_reader.verify_job(b.project, job)
    assert verified.problems == ()
    assert "were removed by ada at 2026-" in str(verified.removal)
    assert archive_replay.replay_job(b.project, job).differences == ()
    gathered = archive_statistics.gather_statistics([recorded_jobs.Archive.from_job(job)], ("job",))
    assert gathered.exit_code == 0
    assert export_fixture(b.project, job, tmp_path / "fixture").manifest.interactions == 2
    record_decision(b.project, "j", Kind.NOTE, note="Archived.")
    assert job_reader.verify_job(b.project, job).problems == ()
    assert [each.level for each in job_checks.examine(b.project, job, deep=True)] == ["ok"]
    again = clean(b)
    assert (again.removed, reasons(again)) == ((), {"j": "cleaned"})


def test_a_second_removal_has_its_own_record(bench: MakeBench, tmp_path: Path) -> None:
    b = finished(bench)
    for name in ("workspace", "git"):
        shutil.copytree(b.folder() / name, tmp_path / name, symlinks=True)
    clean(b)
    record_decision(b.project, "j", Kind.NOTE, note="Restored from a backup.")
    for name in ("workspace", "git"):
        shutil.copytree(tmp_path / name, b.folder() / name, symlinks=True)
    clean(b)
    second = b.project.open_job("j").read_cleaned()
    assert second is not None
    assert second.revision == len(b.history())


def test_what_needs_the_files_is_refused_in_one_line(bench: MakeBench, tmp_path: Path) -> None:
    b = finished(bench)
    clean(b)
    job = b.project.open_job("j")
    state = b.state()
    before = support.tree(b.folder())

    def compare() -> None:
        with compare_job(b.project, job, state, Scope()):
            pass

    for refused_action in (
        lambda: restep_job(b.project, "j", 2),
        lambda: rerun_job(b.project, "j"),
        lambda: job_fork.fork_job(b.project, "j"),
        lambda: merge_job(b.project, "j"),
        lambda: pack_job(b.project, "j", tmp_path / "j.tar.gz"),
        compare,
    ):
        with pytest.raises(Refused, match=r"were removed by ada at .* \(logist gc\)") as refused:
            refused_action()
        assert "\n" not in str(refused.value)
        assert "its history is kept: logist job show --job j" in str(refused.value.fix)
    assert {name: data for name, data in support.tree(b.folder()).items() if name != "lock"} == {
        name: data for name, data in before.items() if name != "lock"
    }
    assert list(list_jobs(b.project.jobs_dir)) == ["j"]


def test_lost_files_are_not_taken_for_removed_ones(bench: MakeBench) -> None:
    """Neither without a record, nor with that of another history."""
    b = finished(bench)
    b.create("other", **ENDS)
    b.step("other")
    clean(b)
    b.create("lost", **ENDS)
    b.step("lost")
    job = b.project.open_job("lost")
    (b.folder("lost") / "damaged-on-purpose").touch()
    for name in ("workspace", "git"):
        shutil.rmtree(b.folder("lost") / name)
    assert "checkpoint" in job_reader.verify_job(b.project, job).problems[0].message
    shutil.copy(b.folder("other") / NAME, b.folder("lost") / NAME)
    (problem,) = job_reader.verify_job(b.project, job).problems
    assert problem.message == f"{NAME} was written after a different interaction 2"
    (b.folder("lost") / NAME).write_text("?")
    (problem,) = job_reader.verify_job(b.project, job).problems
    assert "can't read the record of a removal" in problem.message
    levels = {each.level for each in job_checks.examine(b.project, job, deep=False)}
    assert "error" in levels


def test_a_removal_proves_that_the_end_of_a_history_is_missing(bench: MakeBench) -> None:
    b = finished(bench)
    clean(b)
    history = b.folder() / "jobHistory.json"
    kept = history.read_bytes().splitlines(keepends=True)
    (b.folder() / "damaged-on-purpose").touch()
    history.write_bytes(b"".join(kept[:2]) + b"]}\n")
    (b.folder() / "state.json").unlink()
    problems = job_reader.verify_job(b.project, b.project.open_job("j")).problems
    assert f"the file {NAME} belongs to interaction 2, but the history ends with 1" in problems[0].message


def test_files_from_a_backup_make_the_job_complete_again(bench: MakeBench, tmp_path: Path) -> None:
    b = finished(bench)
    shutil.copytree(b.folder(), tmp_path / "backup", symlinks=True)
    clean(b)
    for name in ("workspace", "git"):
        shutil.copytree(tmp_path / "backup" / name, b.folder() / name, symlinks=True)
    assert job_reader.verify_job(b.project, b.project.open_job("j")).removal is None
    restep_job(b.project, "j", 2)
    record_decision(b.project, "j", Kind.CANCEL)
    assert removed(clean(b)) == ["j"]
    assert job_reader.verify_job(b.project, b.project.open_job("j")).problems == ()


def test_deleted_are_only_jobs_with_merged_work_and_their_branches(bench: MakeBench, git_repo: Path) -> None:
    b = finished(bench, git_repo, **{"new.txt": "x"})
    dry = collect_garbage(b.project, NOW, dry_run=True)
    assert (dry.removed, reasons(dry)) == ((), {"j": "unmerged"})
    for keep_history in (True, False):
        done = collect_garbage(b.project, NOW, keep_history=keep_history)
        assert (done.removed, done.freed) == ((), 0)
    (kept,) = done.kept
    assert (kept.why, kept.exit_code) == ("it has changes that are not merged: new.txt", 0)
    merge_job(b.project, "j")
    (b.workspace() / "new.txt").write_text("by hand")
    assert reasons(clean(b)) == {"j": "unmerged"}
    (b.workspace() / "new.txt").write_text("x")
    planned = collect_garbage(b.project, NOW, dry_run=True)
    done = collect_garbage(b.project, NOW)
    (gone,) = done.removed
    assert (gone.branch, list_branches(git_repo)) == ("logist/j", [])
    assert [(each.job_id, each.ended_at) for each in planned.removed] == [(gone.job_id, gone.ended_at)]
    assert list(list_jobs(b.project.jobs_dir)) == []


def test_a_job_without_its_files_is_deleted_later(bench: MakeBench, git_repo: Path) -> None:
    b = finished(bench, git_repo, **{"new.txt": "x"})
    merge_job(b.project, "j")
    assert removed(clean(b)) == ["j"]
    b.create("k")
    record_decision(b.project, "k", Kind.CANCEL)
    assert removed(clean(b)) == ["k"]
    delete_job(b.project, "k")
    (gone,) = collect_garbage(b.project, NOW).removed
    assert (gone.job_id, gone.branch) == ("j", "logist/j")


def test_the_age_counts_from_the_end(bench: MakeBench, git_repo: Path) -> None:
    """Neither from the creation, nor from a merge or a note afterwards."""
    b = bench([])
    b.create("open")
    b.create("j", repo=str(git_repo), **ENDS)
    clock = b.project.clock
    b.give('{"action": "COMPLETED", "evidence_files": [], "summary_for_supervisor": "Done."}')
    end = job_reader.find_interaction(b.project.open_job("j"), 2).timestamp
    ticking = clock.now.__self__  # type: ignore[attr-defined]
    ticking.at += timedelta(days=20)
    merge_job(b.project, "j")
    record_decision(b.project, "j", Kind.NOTE, note="Late.")
    ticking.at += timedelta(days=20)
    assert reasons(collect_garbage(b.project, timedelta(days=41))) == {"j": "too_new", "open": "not_ended"}
    (gone,) = collect_garbage(b.project, timedelta(days=40), keep_history=True).removed
    assert gone.ended_at == end
    assert reasons(collect_garbage(b.project, timedelta(days=10**8)))["j"] == "too_new"


def test_a_family_goes_together_or_not_at_all(bench: MakeBench, tmp_path: Path) -> None:
    b = parent_and_child(bench, tmp_path)
    (child,) = b.children()
    b.run(child)
    for dry_run in (True, False):
        done = clean(b, dry_run=dry_run)
        assert (done.removed, reasons(done)) == ((), {"j": "not_ended", child: "family"})
    assert next(each.why for each in done.kept if each.job_id == child) == "its parent j is WAITING"
    b.run()
    (b.workspace(child) / "by-hand.txt").write_text("x")
    assert sorted(removed(clean(b, dry_run=True))) == ["j", child]
    restep_job(b.project, child, 2)
    assert reasons(clean(b)) == {"j": "family", child: "not_ended"}
    record_decision(b.project, child, Kind.CANCEL)
    with open_session(b.project, child, "job verify"):
        assert reasons(clean(b)) == {"j": "family", child: "busy"}
    assert sorted(removed(clean(b))) == ["j", child]
    for each in ("j", child):
        assert not (b.folder(each) / "git").exists()
        assert job_reader.verify_job(b.project, b.project.open_job(each)).problems == ()
    assert sorted(removed(collect_garbage(b.project, NOW))) == ["j", child]


def test_a_child_whose_work_is_nowhere_keeps_its_parent(bench: MakeBench, tmp_path: Path) -> None:
    b = parent_and_child(bench, tmp_path, **{"new.txt": "x"})
    (child,) = b.children()
    b.run(child)
    record_decision(b.project, "j", Kind.CANCEL)
    for keep_history in (True, False):
        done = collect_garbage(b.project, NOW, keep_history=keep_history)
        assert (done.removed, reasons(done)) == ((), {"j": "family", child: "unmerged"})
    assert f"its child job {child} is kept" in next(each.why for each in done.kept if each.job_id == "j")


@pytest.mark.parametrize("keep_history", [True, False])
def test_a_fork_lives_on_without_its_original(
    bench: MakeBench, git_repo: Path, *, keep_history: bool
) -> None:
    b = finished(bench, git_repo)
    job_fork.fork_job(b.project, "j", 1, new_id="fork")
    done = collect_garbage(b.project, NOW, keep_history=keep_history)
    assert (removed(done), reasons(done)) == (["j"], {"fork": "not_ended"})
    fork = b.project.open_job("fork")
    assert job_reader.verify_job(b.project, fork, read_all=True).problems == ()
    assert [each.level for each in job_checks.examine(b.project, fork, deep=True)] == ["ok"]
    b.step("fork")
    restep_job(b.project, "fork", 3)
    assert support.git(b.folder("fork") / "git", "fsck", "--full") is not None
    record_decision(b.project, "fork", Kind.CANCEL)
    assert removed(collect_garbage(b.project, NOW, keep_history=keep_history)) == ["fork"]


def test_unfinished_busy_and_unreadable_jobs_stay(bench: MakeBench) -> None:
    b = finished(bench)
    for name in ("bad", "half", "busy"):
        b.create(name, **ENDS)
        b.step(name)
    (b.folder("half") / "inflight").mkdir()
    for name in ("bad", "half"):
        (b.folder(name) / "damaged-on-purpose").touch()
    (b.folder("bad") / "state.json").write_text("?")
    with open_session(b.project, "busy", "job verify"):
        for keep_history, dry_run in ((True, True), (False, True), (True, False)):
            done = collect_garbage(b.project, NOW, keep_history=keep_history, dry_run=dry_run)
            expected = {"bad": "unreadable", "half": "unfinished", "busy": "busy"}
            assert (removed(done), reasons(done)) == (["j"], expected)
    assert {each.job_id: each.exit_code for each in done.kept} == {"bad": 10, "half": 0, "busy": 0}


def test_a_removal_that_was_cut_off_is_finished_by_the_next_command(bench: MakeBench) -> None:
    b = finished(bench)
    job = b.project.open_job("j")
    job.begin_cleaning()
    verified = job_reader.verify_job(b.project, job)
    assert (verified.problems, "are being removed" in str(verified.removal)) == ((), True)
    (found,) = job_checks.examine(b.project, job, deep=True)
    assert (found.level, "logist gc" in str(found.fix)) == ("warning", True)
    with pytest.raises(Refused, match=r"can't fork j: .* are being removed"):
        job_fork.fork_job(b.project, "j")
    with pytest.raises(Refused, match="were removed by ada"):  # it finishes it first
        rerun_job(b.project, "j")
    assert not (b.folder() / UNDER_WAY).exists()
    b.create("k", **ENDS)
    b.step("k")
    b.project.open_job("k").begin_cleaning()
    never = collect_garbage(b.project, timedelta(days=9999))
    assert removed(never) == ["k"]
    assert never.removed[0].ended_at == ""
    assert job_reader.verify_job(b.project, b.project.open_job("k")).problems == ()


def test_what_cannot_be_removed_is_named_and_finished_later(bench: MakeBench) -> None:
    b = finished(bench)
    subprocess.run(["mkdir", "-p", str(b.folder() / NAME)], check=True)  # the record can't be written
    done = clean(b)
    (kept,) = done.kept
    assert (kept.reason, kept.exit_code in (1, 10)) == (KeepReason.FAILED, True)
    assert not (b.folder() / "git").exists()
    assert "are being removed" in str(job_reader.verify_job(b.project, b.project.open_job("j")).removal)
    (b.folder() / NAME).rmdir()
    assert removed(clean(b)) == ["j"]


def test_what_agents_have_locked_or_nested_is_removed(bench: MakeBench) -> None:
    b = finished(bench)
    folder = os.open(b.workspace(), os.O_RDONLY | os.O_DIRECTORY)
    os.mkdir("node_modules", dir_fd=folder)  # a cache: no change that could be merged
    below = os.open("node_modules", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
    for _ in range(1500):
        os.mkdir("deep", dir_fd=below)
        deeper = os.open("deep", os.O_RDONLY | os.O_DIRECTORY, dir_fd=below)
        os.close(below)
        below = deeper
    os.fchmod(below, 0)
    os.close(below)
    os.close(folder)
    assert removed(clean(b)) == ["j"]
    assert not (b.folder() / UNDER_WAY).exists()


def test_what_no_job_needs_any_more_is_removed(bench: MakeBench, git_repo: Path) -> None:
    b = finished(bench, git_repo)
    jobs_dir = b.project.jobs_dir
    copies = jobs_dir / ".setup" / "copies"
    shared, own, other = "a" * 64, f"{'b' * 64}-j", f"{'c' * 64}-k"
    for name in (shared, own, other):
        (copies / name / "0").mkdir(parents=True)
        (copies / name / "0" / "file").write_bytes(b"x" * 50_000)
    (jobs_dir / ".setup" / "packages" / "cache").mkdir(parents=True)
    b.create("k", repo=str(git_repo), **ENDS)
    now = time.time()
    os.utime(copies / shared, (now + 10**9, now + 10**9))
    assert (jobs_dir / ".packs").is_dir()
    old = timedelta(0)
    for each in (copies / own, copies / other):
        os.utime(each, (now + 10**9, now + 10**9))
    dry = collect_garbage(b.project, old, dry_run=True)
    done = collect_garbage(b.project, old)
    assert removed(done) == ["j"]
    assert (dry.freed_setup, dry.freed_packs) == (done.freed_setup, done.freed_packs)
    assert done.freed_setup > 50_000
    assert {path.name for path in copies.iterdir()} == {shared, other}  # used later; and of a job that exists
    assert (jobs_dir / ".setup" / "packages").is_dir()
    assert (jobs_dir / ".packs").is_dir()  # k has its files
    b.step("k")
    os.utime(copies / shared, (0, 0))
    os.utime(jobs_dir / ".setup" / "packages", (0, 0))
    dry = clean(b, dry_run=True)
    done = clean(b)
    assert removed(done) == ["k"]
    assert not (jobs_dir / ".packs").exists()
    assert list(copies.iterdir()) == []
    assert not (jobs_dir / ".setup" / "packages").exists()
    assert (dry.freed_setup, dry.freed_packs) == (done.freed_setup, done.freed_packs)
    assert dry.freed == done.freed > 100_000


def test_nothing_outside_is_removed_through_a_link(bench: MakeBench, tmp_path: Path) -> None:
    """Whoever wrote the jobs directory, as in a clone, may have put links into it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine.txt").write_text("mine")
    b = finished(bench)
    for name in ("linked", "marked"):
        b.create(name, **ENDS)
    b.step("linked")
    shutil.rmtree(b.folder("linked") / "logs")
    (b.folder("linked") / "logs").symlink_to(outside)
    shutil.move(b.workspace(), tmp_path / "moved")
    b.workspace().symlink_to(tmp_path / "moved")
    (b.folder() / "damaged-on-purpose").touch()
    (b.folder("marked") / UNDER_WAY).mkdir()
    done = clean(b)
    assert (removed(done), reasons(done)) == (["linked"], {"j": "unreadable", "marked": "not_ended"})
    assert (outside / "mine.txt").read_text() == "mine"
    assert list((tmp_path / "moved").iterdir())
    b.step("marked")  # of a job that has not ended, nothing is being removed
    assert (b.folder("marked") / "git").is_dir()
    (b.folder("marked") / UNDER_WAY).rmdir()


def test_a_directory_does_not_hide_that_files_of_an_open_job_are_lost(bench: MakeBench) -> None:
    b = bench()
    b.create()
    (b.folder() / "damaged-on-purpose").touch()
    (b.folder() / UNDER_WAY).mkdir()
    shutil.rmtree(b.folder() / "git")
    verified = job_reader.verify_job(b.project, b.project.open_job("j"))
    assert (verified.removal, "not found in git" in verified.problems[0].message) == (None, True)


def test_lost_checkpoints_are_not_taken_for_merged_work(bench: MakeBench) -> None:
    b = finished(bench)
    (b.folder() / "damaged-on-purpose").touch()
    shutil.rmtree(b.folder() / "git" / "objects")
    for keep_history in (True, False):
        done = collect_garbage(b.project, NOW, keep_history=keep_history)
        (kept,) = done.kept
        assert (done.removed, kept.reason, kept.exit_code) == ((), KeepReason.UNREADABLE, 10)


def test_a_word_index_that_no_job_needs_is_removed(bench: MakeBench) -> None:
    b = finished(bench)
    b.create("k", **ENDS)
    words = b.project.jobs_dir / WORDS_FOLDER
    index = WordIndex(words)
    for number in (1, 2):
        builder = WordTableBuilder()
        builder.add_text(b"word")
        index.save_part(IndexPart([bytes([number]) * 20], builder.finish()))
    old, new = index.list_parts()
    later = time.time() + 10**9
    os.utime(words / new, (later, later))
    os.utime(words / old, (0, 0))
    dry = collect_garbage(b.project, NOW, dry_run=True)
    assert index.list_parts() == [old, new]
    done = collect_garbage(b.project, NOW)
    assert dry.freed_words == done.freed_words > 0
    assert index.list_parts() == [new]
    b.step("k")
    assert removed(collect_garbage(b.project, NOW)) == ["k"]
    assert index.list_parts() == []
