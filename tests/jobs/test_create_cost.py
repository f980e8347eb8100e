"""What making a job costs, in facts that every machine counts alike: processes of git, and flushes to disk."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from logist.workspace import Workspace
from logist.workspace.checkpoint import checkpoint, packs
from logist.workspace.checkpoint.baseline import Baseline
from tests import support
from tests.torture.lab import JOB, World, command
from tests.torture.suite import Skip
from tests.torture.tracer import Call, trace

CREATE = ("job", "create", "--id", JOB, "--prompt", "Do it.")
FLUSHES = ("fsync", "fdatasync", "sync", "syncfs")
MOST_FLUSHES = 8


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World.made(tmp_path / "world")
    answers = [{"text": command(), "files": {"a.txt": "1\n"}}]
    (made.place / "answers.json").write_text(json.dumps({"answers": answers}), "utf-8")
    return made


def calls(world: World, variant: str, *args: str) -> list[Call]:
    """What `logist ARGS` changes on the machine, call by call."""
    argv = [world.python, "-m", "tests.torture.mutants", variant, *args]
    env = world.env | {"PYTHONPATH": str(support.ROOT)}
    try:
        ran = trace(argv, cwd=world.place, env=env)
    except Skip as reason:
        pytest.skip(str(reason))
    assert ran.code == 0, ran.err
    return ran.calls


def processes(made: Sequence[Call]) -> list[str]:
    """The programs that were started, without logist itself."""
    return [call.paths[0] for call in made if call.name == "execve" and call.result == 0 and call.process]


def flushes(made: Sequence[Call]) -> list[tuple[str, str]]:
    return [(call.name, call.paths[0] if call.paths else "") for call in made if call.name in FLUSHES]


def test_a_job_without_a_repository_needs_no_git_and_a_few_flushes(world: World) -> None:
    made = calls(world, "flushed_at_once", *CREATE, "--no-repo")
    assert processes(made) == []
    flushed = flushes(made)
    assert [name for name, _ in flushed].count("syncfs") == 1
    assert len(flushed) <= MOST_FLUSHES


def test_on_a_busy_disk_each_file_and_directory_is_flushed_once_before_the_job_has_its_name(
    world: World,
) -> None:
    made = calls(world, "flushed_one_by_one", *CREATE, "--no-repo")
    assert processes(made) == []
    (renamed,) = (call for call in made if call.name == "rename" and call.paths[1] == str(world.folder))
    before = Counter(path for _, path in flushes(made[: renamed.index]) if path.startswith(renamed.paths[0]))
    inside = {str(path).replace(str(world.folder), renamed.paths[0]) for path in world.folder.rglob("*")}
    assert before == dict.fromkeys(inside | {renamed.paths[0]}, 1)
    assert flushes(made[renamed.index :]) == [("fsync", str(world.jobs))]


def test_a_job_from_a_repository_asks_git_for_no_more_than_its_files(world: World) -> None:
    support.make_repository(world.place / "repo")
    made = calls(world, "flushed_at_once", *CREATE, "--repo", "repo")
    started = [call for call in made if call.name in ("fork", "vfork", "clone") and call.process == 0]
    assert len(started) <= 9  # one of them verifies the objects that were copied
    assert len(flushes(made)) <= MOST_FLUSHES


def test_more_files_need_no_more_work_of_logist_than_looking_at_them(world: World) -> None:
    """git writes them, each once, under its own name."""
    repository = support.make_repository(world.place / "repo")
    few = calls(world, "flushed_at_once", *CREATE, "--repo", "repo")
    shutil.rmtree(world.folder)
    shutil.rmtree(world.jobs / ".packs")  # so that the second job is made in the same way
    for number in range(60):
        (repository / f"{number}.txt").write_text(f"{number}\n")
    support.git(repository, "add", "--all")
    support.git(repository, "commit", "--quiet", "--message", "more")
    many = calls(world, "flushed_at_once", *CREATE, "--repo", "repo")
    assert count_names(many, of_logist=True) <= count_names(few, of_logist=True)
    assert count_names(many)["rename"] == count_names(few)["rename"]
    assert count_names(many).total() - count_names(few).total() <= 3 * 60


def count_names(made: Sequence[Call], *, of_logist: bool = False) -> Counter[str]:
    return Counter(call.name for call in made if not of_logist or call.process == 0)


def test_the_first_step_pays_for_its_checkpoint_alone(world: World) -> None:
    world.create()
    made = calls(world, "flushed_at_once", "job", "step", JOB)
    git = f"{world.folder}/git/"
    assert {os.path.basename(path) for path in processes(made)} <= {"git", "git-fast-import"}
    own = [path for _, path in flushes(made) if not path.startswith(git)]
    assert len(own) <= 4
    assert max(Counter(path for _, path in flushes(made) if path.startswith(git)).values()) == 1


def test_the_first_checkpoint_is_the_one_that_git_makes(tmp_path: Path) -> None:
    ours = Workspace(tmp_path / "a", tmp_path / "a-git")
    first = ours.populate(None)
    gits = Workspace(tmp_path / "b", tmp_path / "b-git")
    gits.populate(None)
    with gits._open_root() as top:
        last = Baseline(None)
        shot = gits._take_snapshot(top, last, last.list_directories())
        assert (
            checkpoint.write_checkpoint(gits.git, gits._make_reading(top, last), shot, "Empty workspace")
            == first
        )


def test_git_finds_nothing_wrong_with_the_repositories_of_a_new_job(world: World) -> None:
    world.create()
    for place in (world.folder / "git", world.folder / "workspace"):
        assert support.git(place, "fsck", "--full", "--strict", "--no-progress") == ""
        assert support.git(place, "log", "--all", "--format=%an %s").strip() == "Logist Empty workspace"
    (index,) = packs.list_indexes(world.folder / "git")
    assert support.git(world.folder / "git", "verify-pack", str(index)) == ""
    assert packs.find_cut_off(world.folder / "git") == []


def test_a_pack_of_large_objects_reads_like_any_other(tmp_path: Path) -> None:
    support.git(tmp_path, "init", "--quiet")
    who = "A <a@localhost> 0 +0000"
    tree = packs.hash_object("tree", b"")
    contents = [
        f"tree {tree}\nauthor {who}\ncommitter {who}\n\n{'x' * size}\n" for size in (1, 9, 5000, 70_000)
    ]
    objects = [("commit", content.encode()) for content in contents]
    packs.write_pack(tmp_path / ".git", [*objects, ("tree", b"")])
    for kind, content in objects:
        assert support.git(tmp_path, "cat-file", kind, packs.hash_object(kind, content)) == content.decode()
    assert support.git(tmp_path, "fsck", "--full", "--no-dangling", "--no-progress") == ""
