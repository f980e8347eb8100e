"""Jobs that start from the same repository share the verified objects of its commit, and nothing else."""

from __future__ import annotations

import os
import shutil
import zlib
from pathlib import Path

import pytest

from logist.core.model import Kind
from logist.errors import StorageError
from logist.jobs.steward.job_deletion import delete_job
from logist.jobs.steward.steward_decisions import record_decision
from logist.workspace.checkpoint import kept_packs, packs, sharing
from logist.workspace.files import removal
from tests import support
from tests.jobs.bench import Bench
from tests.jobs.conftest import MakeBench


@pytest.fixture
def b(bench: MakeBench) -> Bench:
    return bench()


def create(b: Bench, job_id: str, repository: Path) -> str:
    """Create a job and return its first checkpoint."""
    b.create(job_id, repo=str(repository))
    start = b.history(job_id)[0].checkpoint_after
    assert start is not None
    return start


def list_packs(b: Bench, job_id: str) -> dict[str, os.stat_result]:
    return {path.name: path.stat() for path in (b.folder(job_id) / "git" / "objects" / "pack").iterdir()}


def list_inodes(b: Bench, job_id: str) -> set[int]:
    return {status.st_ino for status in list_packs(b, job_id).values()}


def find_folder(b: Bench) -> Path:
    return b.project.jobs_dir / kept_packs.FOLDER


def commit_file(repository: Path, name: str, text: str) -> str:
    (repository / name).write_text(text)
    support.git(repository, "add", "--all")
    support.git(repository, "commit", "--quiet", "--message", name)
    return support.git(repository, "rev-parse", "HEAD").strip()


def require_sound(b: Bench, job_id: str) -> None:
    """The repositories of a job are complete, and have the objects of its commit only."""
    for place in (b.folder(job_id) / "git", b.workspace(job_id)):
        assert support.git(place, "fsck", "--full", "--strict", "--no-progress") == ""
        assert support.git(place, "count-objects").startswith("0 objects")
        held = support.git(place, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
        wanted = support.git(place, "rev-list", "--objects", "--no-object-names", "--all").split()
        assert sorted(held) == sorted(wanted)
    assert support.git(b.workspace(job_id), "status", "--porcelain") == ""


def test_the_next_job_from_a_commit_shares_its_packs(b: Bench, git_repo: Path) -> None:
    create(b, "one", git_repo)
    create(b, "two", git_repo)
    assert list_inodes(b, "one") == list_inodes(b, "two")
    require_sound(b, "two")
    agents = b.workspace("two") / ".git"
    assert all(path.lstat().st_nlink == 1 for path in agents.rglob("*") if path.is_file())


def test_shared_packs_are_not_read_from_the_repository_again(b: Bench, git_repo: Path) -> None:
    create(b, "one", git_repo)
    forge(git_repo, "HEAD:README.md")
    create(b, "two", git_repo)
    assert (b.workspace("two") / "README.md").read_text() == "# Example\n"


def forge(repository: Path, what: str) -> None:
    """Replace the content of an object; its name stays."""
    name = support.git(repository, "rev-parse", what).strip()
    forged = repository / ".git" / "objects" / name[:2] / name[2:]
    forged.chmod(0o600)
    forged.write_bytes(zlib.compress(b"blob 6\0forged"))


def test_a_later_commit_takes_what_it_has_in_common(b: Bench, git_repo: Path) -> None:
    create(b, "one", git_repo)
    forge(git_repo, "HEAD:README.md")  # it is not read again
    later = commit_file(git_repo, "run.sh", "changed\n")
    assert create(b, "two", git_repo) == later
    assert (b.workspace("two") / "README.md").read_text() == "# Example\n"
    assert (b.workspace("two") / "run.sh").read_text() == "changed\n"
    require_sound(b, "two")
    assert [path.name for path in find_folder(b).iterdir()] == [later]
    create(b, "three", git_repo)
    assert list_inodes(b, "three") == list_inodes(b, "two")


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few objects are divided as thousands are."""
    monkeypatch.setattr(sharing, "_LEAST_PART", 8)
    monkeypatch.setattr(sharing, "_MOST_SHARED", 12)


def write_folders(repository: Path) -> None:
    for folder in "abcdefgh":
        (repository / folder).mkdir()
        for name in "1234567":
            (repository / folder / name).write_text(f"{folder}{name}\n")


@pytest.mark.usefixtures("small_parts")
def test_a_later_commit_shares_the_packs_of_unchanged_directories(b: Bench, git_repo: Path) -> None:
    write_folders(git_repo)
    commit_file(git_repo, "new", "new\n")
    create(b, "one", git_repo)
    commit_file(git_repo, "c/1", "changed\n")
    create(b, "two", git_repo)
    before, after = list_packs(b, "one"), list_packs(b, "two")
    assert len(before) >= 2 * 6
    assert len(before.keys() & after.keys()) >= len(before) - 2 * 2, "all but that of c, and that of the root"
    for job_id in ("one", "two"):
        require_sound(b, job_id)


@pytest.mark.usefixtures("small_parts")
def test_many_loose_objects_come_in_one_pack_which_a_later_commit_divides(
    b: Bench, git_repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "_MANY_LOOSE", 0)
    write_folders(git_repo)
    commit_file(git_repo, "new", "new\n")
    (git_repo / ".git" / "objects" / "17").mkdir(exist_ok=True)
    (git_repo / ".git" / "objects" / "17" / ("0" * 38)).touch()
    create(b, "one", git_repo)
    commit_file(git_repo, "c/1", "changed\n")
    create(b, "two", git_repo)
    assert len(list_packs(b, "one")) == 2
    assert len(list_packs(b, "two")) > 2 * 6
    for job_id in ("one", "two"):
        require_sound(b, job_id)


@pytest.mark.usefixtures("small_parts")
def test_packs_do_not_become_more_with_each_commit(b: Bench, git_repo: Path) -> None:
    write_folders(git_repo)
    commit_file(git_repo, "new", "new\n")
    counts = []
    for number in range(12):
        create(b, f"j{number}", git_repo)
        counts.append(len(list_packs(b, f"j{number}")) // 2)
        commit_file(git_repo, f"new{number}", f"{number}\n")
    assert max(counts) <= counts[0] + 3
    require_sound(b, "j11")


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name", ["a/1", "h/7"])
def test_objects_in_every_pack_are_verified(b: Bench, git_repo: Path, name: str) -> None:
    write_folders(git_repo)
    commit_file(git_repo, "new", "new\n")
    forge(git_repo, f"HEAD:{name}")
    with pytest.raises(StorageError, match="index-pack failed"):
        create(b, "one", git_repo)
    assert not b.folder("one").exists()


def test_new_objects_of_a_later_commit_are_verified(b: Bench, git_repo: Path) -> None:
    create(b, "one", git_repo)
    commit_file(git_repo, "new", "new\n")
    forge(git_repo, "HEAD:new")
    with pytest.raises(StorageError, match="index-pack failed"):
        create(b, "two", git_repo)
    assert not b.folder("two").exists()


@pytest.mark.parametrize("suffix", [".pack", ".idx"])
@pytest.mark.parametrize("damage", ["a changed byte", "cut off", "missing"])
def test_damaged_packs_are_not_shared(b: Bench, git_repo: Path, suffix: str, damage: str) -> None:
    create(b, "one", git_repo)
    (pack,) = find_folder(b).glob(f"*/objects/pack/*{suffix}")
    data = pack.read_bytes()
    if damage == "missing":
        pack.unlink()
    else:
        pack.chmod(0o600)
        pack.write_bytes(data[:-1] if damage == "cut off" else data[:60] + bytes([data[60] ^ 1]) + data[61:])
    create(b, "two", git_repo)
    require_sound(b, "two")
    assert list_inodes(b, "one").isdisjoint(list_inodes(b, "two"))
    create(b, "three", git_repo)
    assert list_inodes(b, "three") == list_inodes(b, "two")
    (b.folder("one") / "damaged-on-purpose").touch()


def test_packs_that_came_with_a_clone_are_not_used(b: Bench, git_repo: Path) -> None:
    """Its author can choose their content and their times."""
    create(b, "one", git_repo)
    folder = find_folder(b)
    shutil.copytree(folder, folder.with_name("copy"))
    shutil.rmtree(folder)
    folder.with_name("copy").rename(folder)
    create(b, "two", git_repo)
    assert list_inodes(b, "one").isdisjoint(list_inodes(b, "two"))
    assert {path.stat().st_ino for path in folder.glob("*/objects/pack/*")} == list_inodes(b, "two")


def test_nothing_is_written_where_a_link_leads(b: Bench, git_repo: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ("0" * 40)).mkdir(parents=True)
    find_folder(b).parent.mkdir(exist_ok=True)
    find_folder(b).symlink_to(elsewhere)
    create(b, "one", git_repo)
    record_decision(b.project, "one", Kind.CANCEL)
    delete_job(b.project, "one", force=True)
    assert [path.name for path in elsewhere.iterdir()] == ["0" * 40]


def test_packs_stay_until_no_job_has_them(b: Bench, git_repo: Path) -> None:
    for job_id in ("one", "two"):
        create(b, job_id, git_repo)
        record_decision(b.project, job_id, Kind.CANCEL)
    delete_job(b.project, "one", force=True)
    require_sound(b, "two")
    assert len(list(find_folder(b).glob("*/objects/pack/*"))) == 2
    delete_job(b.project, "two", force=True)
    assert not find_folder(b).exists()


def test_without_hard_links_nothing_is_kept(
    b: Bench, git_repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError("no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    create(b, "one", git_repo)
    assert list(find_folder(b).iterdir()) == []
    create(b, "two", git_repo)
    require_sound(b, "two")


def test_packs_that_another_command_removes_are_copied(
    b: Bench, git_repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any time; also those that are linked already."""
    create(b, "one", git_repo)
    link = os.link

    def link_first(source: Path, target: Path, **options: bool) -> None:
        link(source, target, **options)
        shutil.rmtree(find_folder(b), ignore_errors=True)

    monkeypatch.setattr(os, "link", link_first)
    create(b, "two", git_repo)
    require_sound(b, "two")
    assert list_inodes(b, "one").isdisjoint(list_inodes(b, "two"))
    assert not list((b.folder("two") / "git").glob("pack-*"))


def test_packs_that_are_removed_before_they_are_listed_are_copied(
    b: Bench, git_repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(b, "one", git_repo)
    find = kept_packs.find_kept

    def find_and_remove(folder: Path, commit: str) -> Path | None:
        found = find(folder, commit)
        assert found is not None
        shutil.rmtree(folder)
        return found

    monkeypatch.setattr(kept_packs, "find_kept", find_and_remove)
    create(b, "two", git_repo)
    require_sound(b, "two")


@pytest.mark.parametrize("what", ["", "COMMIT", "COMMIT/objects", "COMMIT/objects/pack"])
def test_packs_that_a_link_leads_to_are_not_used(b: Bench, git_repo: Path, tmp_path: Path, what: str) -> None:
    """A clone may contain a link to a directory of another user of this machine, who knows its inode and times."""
    start = create(b, "one", git_repo)
    linked = find_folder(b) / what.replace("COMMIT", start)
    elsewhere = linked.rename(tmp_path / "elsewhere")
    linked.symlink_to(elsewhere)
    create(b, "two", git_repo)
    require_sound(b, "two")
    assert list_inodes(b, "one").isdisjoint(list_inodes(b, "two"))


def test_what_a_killed_removal_has_left_is_removed(b: Bench, git_repo: Path) -> None:
    create(b, "one", git_repo)
    trash = find_folder(b) / removal.TRASH.decode()
    trash.mkdir()
    next(find_folder(b).glob("*/objects")).parent.rename(trash / "0")
    record_decision(b.project, "one", Kind.CANCEL)
    delete_job(b.project, "one", force=True)
    assert not find_folder(b).exists()


def test_what_a_killed_command_has_left_is_removed(b: Bench, git_repo: Path) -> None:
    left = find_folder(b) / ".new-0123456789ab" / "objects"
    left.mkdir(parents=True)
    (find_folder(b) / "mine").touch()
    start = create(b, "one", git_repo)
    assert sorted(path.name for path in find_folder(b).iterdir()) == sorted([start, "mine"])


def test_only_the_packs_of_the_start_are_kept(b: Bench, git_repo: Path) -> None:
    """Not those of checkpoints that another command has made meanwhile."""
    start = create(b, "one", git_repo)
    git_dir = b.folder("one") / "git"
    (b.workspace("one") / "secret").write_text("secret\n")
    before = frozenset(index.name for index in packs.list_indexes(git_dir))
    b.project.open_workspace(b.project.open_job("one")).create_checkpoint("later")
    shutil.rmtree(find_folder(b))
    kept_packs.keep_packs(find_folder(b), git_dir, start, before)
    create(b, "two", git_repo)
    require_sound(b, "two")
