"""Checkpoints: exact, durable, cheap when nothing changed, and healed after a crash."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from logist.errors import Damaged, StorageError
from logist.workspace import Workspace
from logist.workspace.checkpoint import baseline, checkout, checkpoint, objects, packs, repository, snapshot
from logist.workspace.checkpoint.objects import TreeEntry
from logist.workspace.checkpoint.scan import (
    FileStamp,
    FileTable,
    ScanRules,
    WorkspaceScan,
    pack_stamp,
    scan_workspace,
)
from logist.workspace.files import file_names, safe_open
from logist.workspace.git import Git, quote_alternate
from tests import support

Contents = dict[bytes, tuple[str, bytes]]


def new(tmp_path: Path, max_checkpoint_bytes: int = 100_000_000) -> Workspace:
    workspace = Workspace(
        tmp_path / "job" / "workspace", tmp_path / "job" / "git", max_checkpoint_bytes=max_checkpoint_bytes
    )
    workspace.populate(None)
    return workspace


def look(root: Path) -> Contents:
    """What is in a workspace, but its own `.git`: kind (with the x bit) and bytes of everything."""
    found: Contents = {}
    for place, directories, files in os.walk(os.fsencode(root)):
        for name in directories + files:
            path = os.path.join(place, name)
            found[os.path.relpath(path, os.fsencode(root))] = _kind(path)
        if place == os.fsencode(root):
            directories[:] = [name for name in directories if name != b".git"]
    found.pop(b".git", None)
    return found


def _kind(path: bytes) -> tuple[str, bytes]:
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return "link", os.readlink(path)
    if stat.S_ISDIR(mode):
        return "directory", b""
    with open(path, "rb") as file:
        return "program" if mode & stat.S_IXUSR else "file", file.read()


def awkward(root: Path) -> None:
    """Everything that a version control system likes to change, refuse or forget."""
    (root / ".gitattributes").write_text("* text=auto\n*.txt filter=x ident\n*.big -diff\n")
    (root / ".gitignore").write_text("ignored/\n*.log\n")
    (root / "ignored").mkdir()
    (root / "ignored" / "kept.log").write_bytes(b"ignored, and kept\n")
    (root / "crlf.txt").write_bytes(b"one\r\ntwo\nthree\r$Id$\n")
    (root / "nothing").touch()
    (root / "large.big").write_bytes(random.Random(1).randbytes(5_000_000))
    (root / "binary").write_bytes(bytes(range(256)))
    (root / "run").write_text("#!/bin/sh\n")
    (root / "run").chmod(0o755)
    for link, target in [("in", "run"), ("out", "/etc/passwd"), ("dangling", "no/where"), ("up", "../..")]:
        (root / link).symlink_to(target)
    (root / "empty" / "deeper").mkdir(parents=True)
    for name in [
        b"new\nline",
        b"tab\t",
        b'quo"te',
        b"back\\slash",
        b"-rf",
        b" ",
        b"\xff\xfe",
        b"\xc3\xa9",
        b":!x",
    ]:
        Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_bytes(name)
    (root / "x" / ".git" / "hooks").mkdir(parents=True)
    (root / "x" / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\n")
    (root / "x" / ".GIT").write_text("a file\n")
    (root / ".GIT").write_text("a file\n")
    (root / ".Git").mkdir()
    (root / ".logist~").write_text("the placeholder's own name\n")
    (root / ".logist~.git").write_text("an escaped name\n")
    (root / ".logist~x").mkdir()
    support.make_repository(root / "nested clone")


def test_a_round_trip_is_exact_to_the_byte(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    empty = workspace.create_checkpoint("start").commit
    awkward(workspace.root)
    before = look(workspace.root)
    full = workspace.create_checkpoint("everything")
    assert full.skipped == ()

    workspace.restore(empty)
    assert look(workspace.root) == {}
    workspace.restore(full.commit)
    assert look(workspace.root) == before


def test_restoring_into_a_lost_workspace_brings_everything_back(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    awkward(workspace.root)
    before = look(workspace.root)
    commit = workspace.create_checkpoint("everything").commit
    workspace.root.rename(tmp_path / "lost")
    workspace.restore(commit)
    assert look(workspace.root) == before
    assert stat.S_IMODE(workspace.root.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "raw",
    [
        b"a/b",
        b".git/x",
        b"a/.GiT",
        b".logist~",
        b".logist~/a",
        b".logist~.git",
        b".logist~.logist~",
        b".gitignore",
    ],
)
def test_every_name_is_stored_under_one_that_git_takes_and_comes_back(raw: bytes) -> None:
    stored = file_names.to_stored(raw)
    assert file_names.from_stored(stored) == raw
    assert b".git" not in stored.lower().split(b"/")
    assert not file_names.is_placeholder(stored)


def test_an_unchanged_workspace_keeps_its_checkpoint_and_starts_no_git(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    awkward(workspace.root)
    commit = workspace.create_checkpoint("everything")
    without_git = Workspace(workspace.root, workspace.git.git_dir, path="/nonexistent")
    assert without_git.create_checkpoint("again") == commit

    (workspace.root / "nothing").write_text("something")
    with pytest.raises(StorageError, match="git is not installed"):
        without_git.create_checkpoint("changed")
    assert workspace.create_checkpoint("changed").commit != commit.commit


def test_without_its_stamps_an_unchanged_workspace_still_keeps_its_checkpoint(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    awkward(workspace.root)
    commit = workspace.create_checkpoint("everything")
    stamps = workspace.git.git_dir / baseline.FILE
    stamps.unlink()
    assert workspace.create_checkpoint("again") == commit
    stamps.write_bytes(stamps.read_bytes()[:-7])
    assert workspace.create_checkpoint("again") == commit


def test_stamps_of_an_older_checkpoint_are_not_believed(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    stamps = workspace.git.git_dir / baseline.FILE
    old = stamps.read_bytes()
    (workspace.root / "a").write_text("a")
    commit = workspace.create_checkpoint("a")
    stamps.write_bytes(old)
    assert workspace.create_checkpoint("again") == commit


def test_a_change_within_one_tick_of_the_clock_is_noticed(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    file = workspace.root / "counter"
    seen = set()
    for count in range(60):
        with open(file, "r+b" if count else "wb") as out:
            out.write(b"%03d" % count)
        os.utime(file, ns=(0, 0))
        seen.add(_content_id(workspace))
    assert len(seen) == 60


def _content_id(workspace: Workspace) -> str:
    """As a checkpoint sees the counter; the stamps are kept as a checkpoint keeps them, without the time git takes."""
    last = baseline.load_baseline(workspace.git)
    with safe_open.open_root(workspace.root) as top:
        found = scan_workspace(top, ScanRules(frozenset()))
        shot = snapshot.take_snapshot(
            workspace.git, snapshot.SnapshotReading(top, last, 1000, writing=True), found
        )
    assert last.commit
    baseline.save_baseline(
        workspace.git, baseline.Baseline.from_table(last.commit, found.table, shot.tree, {}, shot.stamps)
    )
    return shot.tree[b"counter"].id


def test_a_stamp_of_the_tick_in_which_it_was_taken_is_not_relied_on() -> None:
    stamps = {
        name: FileStamp(1, 1, changed, 1, 0) for name, changed in ((b"old", 4), (b"now", 5), (b"later", 6))
    }
    assert set(baseline.pack_reliable_stamps(stamps, since=5)) == {b"old"}


@pytest.mark.parametrize("since", [3, 5, 7])
def test_a_new_workspace_relies_on_the_same_stamps(since: int) -> None:
    stamps = [FileStamp(1, 1, changed, 1, 0o100600) for changed in (4, 5, 6)]
    paths = [b"a", b"d/b", b"d/c"]
    table = replace(FileTable.from_paths(paths, [b"d"]), stamps=b"".join(map(pack_stamp, stamps)))
    tree = {path: TreeEntry("100644", f"{number:040x}") for number, path in enumerate(paths)}
    reliable = baseline.pack_reliable_stamps(dict(zip(paths, stamps, strict=True)), since)
    commit = "0" * 40
    made = baseline.Baseline.from_scan(commit, table, tree, {}, since)
    assert made == baseline.Baseline.from_table(commit, table, tree, {}, reliable)
    assert made.tree == tree


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ({}, {}),
        (
            {b"a": 0o100600, b"d/b": 0o100700, b"l": 0o120777},
            {b"a": "100644", b"d/b": "100755", b"l": "120000"},
        ),
        ({b"a": 0o100600}, {b"a": "100755"}),
        ({b"a": 0o120777}, {b"a": "100644"}),
        ({b"a": 0o100600}, {b"a": "100644", b"b": "100644"}),
        ({b"a": 0o100600, b"b": 0o100600}, {b"a": "100644"}),
        ({b".logist~.git": 0o100600}, {b".logist~.git": "100644"}),
        ({b"d/.logist~": 0o100600}, {b"d/.logist~": "100644"}),
        ({b".logist~x": 0o100600}, {b".logist~x": "100644"}),
        ({}, {b"submodule": "160000"}),
    ],
)
def test_what_git_has_written_is_recognized_at_once(
    written: dict[bytes, int], target: dict[bytes, str]
) -> None:
    """With the same result as file by file."""
    directories = {path.rpartition(b"/")[0] for path in written} - {b""}
    table = FileTable.from_paths(written, directories)
    stamps = b"".join(pack_stamp(FileStamp(1, 1, 1, 1, written[path])) for path in table.paths)
    scanned = WorkspaceScan(replace(table, stamps=stamps))
    tree = {path: TreeEntry(mode, "0" * 40) for path, mode in target.items()}
    one_by_one = checkout.recognize_files(scanned, tree).tree
    assert checkout.has_written_all(scanned.table, tree) == (one_by_one == tree)


def test_the_time_of_a_file_may_be_set_back_after_a_change(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    file = workspace.root / "a"
    file.write_text("one")
    os.utime(file, ns=(1, 1))
    first = workspace.create_checkpoint("one").commit
    file.write_text("two")
    os.utime(file, ns=(1, 1))
    second = workspace.create_checkpoint("two").commit
    assert [change.kind for change in workspace.list_changes(first, second)[0]] == ["modified"]


def test_what_is_no_file_is_named_and_not_stored(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    os.mkfifo(workspace.root / "pipe")
    (workspace.root / "d").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(workspace.root / "d")
        listener.bind("s")
    assert workspace.create_checkpoint("special").skipped == ("d/s (socket)", "pipe (fifo)")


def test_of_very_much_that_is_not_stored_only_the_first_is_named(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    for number in range(100):
        os.mkfifo(workspace.root / f"{number:03}")
    named = workspace.create_checkpoint("100").skipped
    assert (len(named), named[-1]) == (100, "099 (fifo)")
    for number in range(100, 150):
        os.mkfifo(workspace.root / f"{number:03}")
    assert workspace.create_checkpoint("150").skipped == (*named, "... and 50 more")


def test_caches_are_named_and_a_change_in_one_is_noticed(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    module = workspace.root / "web" / "node_modules" / "left-pad" / "index.js"
    module.parent.mkdir(parents=True)
    module.write_text("1")
    first = workspace.create_checkpoint("one")
    assert first.skipped == ("web/node_modules/ (cache)",)
    assert workspace.create_checkpoint("same") == first

    module.write_text("22")
    second = workspace.create_checkpoint("two")
    (change,) = workspace.list_changes(first.commit, second.commit)[0]
    assert (change.path, change.kind, change.mode) == ("web/node_modules/", "modified", "040000")
    workspace.restore(first.commit)
    assert module.read_text() == "22"


def test_a_git_directory_in_a_cache_is_part_of_its_digest(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    hidden = workspace.root / "node_modules" / ".git" / "config"
    hidden.parent.mkdir(parents=True)
    hidden.write_text("1")
    first = workspace.create_checkpoint("one")
    hidden.write_text("22")
    assert workspace.create_checkpoint("two") != first


def test_beyond_the_limit_the_largest_new_files_are_left_out_and_named(tmp_path: Path) -> None:
    workspace = new(tmp_path, max_checkpoint_bytes=1000)
    for name, size in [("a", 400), ("b", 700), ("c", 500), ("huge", 1001)]:
        (workspace.root / name).write_bytes(name[:1].encode() * size)
    first = workspace.create_checkpoint("one")
    assert first.skipped == ("b (too large)", "huge (too large)")
    assert workspace.create_checkpoint("the rest").skipped == ("huge (too large)",)

    (workspace.root / "huge").write_bytes(b"h" * 2000)
    last = workspace.create_checkpoint("three")
    changes = {change.path: change.kind for change in workspace.list_changes(first.commit, last.commit)[0]}
    assert changes == {"b": "modified", "huge": "modified"}


def test_content_that_only_moved_is_not_new(tmp_path: Path) -> None:
    workspace = new(tmp_path, max_checkpoint_bytes=1000)
    for name in ("a", "b"):
        (workspace.root / name).write_bytes(name.encode() * 900)
        assert workspace.create_checkpoint(name).skipped == ()
    (workspace.root / "sub").mkdir()
    for name in ("a", "b"):
        (workspace.root / name).rename(workspace.root / "sub" / name)
    assert workspace.create_checkpoint("moved").skipped == ()


@pytest.mark.deep
def test_directories_beyond_the_depth_that_is_followed_are_named(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    (workspace.root / "/".join("d" * 250)).mkdir(parents=True)
    (skipped,) = workspace.create_checkpoint("deep").skipped
    assert skipped == "d/" * 101 + " (too deep)"


def test_what_its_owner_locked_is_stored_all_the_same(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    empty = workspace.create_checkpoint("start").commit
    locked = workspace.root / "locked" / "secret"
    locked.parent.mkdir()
    locked.write_text("kept")
    locked.chmod(0)
    locked.parent.chmod(0)
    commit = workspace.create_checkpoint("locked")
    assert commit.skipped == ()
    locked.parent.chmod(0o500)
    workspace.restore(empty)
    assert look(workspace.root) == {}
    workspace.restore(commit.commit)
    assert locked.read_text() == "kept"


def test_what_a_killed_git_left_behind_is_healed(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    first = workspace.create_checkpoint("start").commit
    git_dir = workspace.git.git_dir
    left = [
        git_dir / name
        for name in (
            "HEAD.lock",
            "config.lock",
            "packed-refs.lock",
            "index.lock",
            "shallow.lock",
            "fast_import_crash_1",
        )
    ]
    left += [
        git_dir / "refs/heads/checkpoints.lock",
        git_dir / "objects/pack/tmp_pack_x",
        git_dir / "logist-stamps.new",
    ]
    for place in left:
        place.touch()
    (workspace.root / "a").write_text("a")
    second = workspace.create_checkpoint("a").commit
    for place in left:
        place.touch()
    workspace.restore(first)
    assert look(workspace.root) == {}
    workspace.restore(second)
    assert look(workspace.root) == {b"a": ("file", b"a")}
    assert not any(place.exists() for place in left[:-1])


def test_checkpoints_stay_reachable_after_going_back(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    start = workspace.create_checkpoint("start").commit
    (workspace.root / "a").write_text("a")
    left = workspace.create_checkpoint("a").commit
    workspace.restore(start)
    assert workspace.create_checkpoint("again").commit == start
    (workspace.root / "b").write_text("b")
    new_tip = workspace.create_checkpoint("b").commit
    git_dir = workspace.git.git_dir
    assert support.git(git_dir, "rev-parse", f"{new_tip}^").strip() == start
    assert left in support.git(git_dir, "rev-list", "--all")
    assert support.git(git_dir, "fsck", "--strict", "--unreachable").strip() == ""


CHECKING_IN = """
import signal, sys
from pathlib import Path
from logist.workspace import Workspace
job, programs = Path(sys.argv[1]), sys.argv[2]
signal.signal(signal.SIGINT, lambda *_: print("interrupted", flush=True))
workspace = Workspace(job / "workspace", job / "git", path=f"{programs}:/usr/bin:/bin")
print(workspace.create_checkpoint("the file").commit, flush=True)
"""


def test_an_interrupt_at_the_terminal_does_not_reach_git(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    (workspace.root / "file").write_text("x")
    programs, waiting, go = tmp_path / "programs", tmp_path / "waiting", tmp_path / "go"
    programs.mkdir()
    git = shutil.which("git")
    (programs / "git").write_text(
        f'#!/bin/sh\n: > {waiting}\nwhile [ ! -e {go} ]; do sleep 0.02; done\nexec {git} "$@"\n'
    )
    (programs / "git").chmod(0o755)
    with subprocess.Popen(
        [sys.executable, "-c", CHECKING_IN, str(tmp_path / "job"), str(programs)],
        env=support.process_environment() | {"PYTHONPATH": str(support.ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as stepper:
        assert stepper.stdout is not None
        while not waiting.exists():
            assert stepper.poll() is None
            time.sleep(0.02)
        os.killpg(stepper.pid, signal.SIGINT)  # as a terminal does it
        assert stepper.stdout.readline() == "interrupted\n"
        go.touch()
        commit = stepper.stdout.readline().strip()
    assert stepper.returncode == 0
    assert workspace.create_checkpoint("the same").commit == commit


def test_the_same_work_gives_the_same_id(tmp_path: Path) -> None:
    ids = set()
    for name in ("one", "two"):
        workspace = new(tmp_path / name)
        (workspace.root / "a").write_text("a")
        (workspace.root / "node_modules").mkdir()
        ids.add(workspace.create_checkpoint("everything").commit)
    assert len(ids) == 1


def test_nothing_of_the_repository_is_open_to_others(tmp_path: Path) -> None:
    os.umask(0)
    workspace = new(tmp_path)
    (workspace.root / "a").write_text("a")
    workspace.create_checkpoint("a")
    for place in [workspace.root, workspace.git.git_dir, *workspace.git.git_dir.rglob("*")]:
        assert stat.S_IMODE(place.stat().st_mode) & 0o077 == 0, place


def test_a_message_may_hold_anything(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    (workspace.root / "node_modules").mkdir()
    commit = workspace.create_checkpoint('Logist-Unstored: {"a": 1}\n\0 from x\n\ndone\n \ud800').commit
    (workspace.git.git_dir / baseline.FILE).unlink()
    assert workspace.create_checkpoint("again").skipped == ("node_modules/ (cache)",)
    assert workspace.create_checkpoint("again").commit == commit


def test_a_checkpoint_that_is_not_there_is_damage(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    (workspace.root / "a").write_text("a")
    for commit in ("0" * 40, "HEAD", "--output=x", ""):
        with pytest.raises(Damaged, match="missing in the checkpoint repository"):
            workspace.restore(commit)
    assert (workspace.root / "a").read_text() == "a"


def test_a_failing_git_says_why(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    objects = workspace.git.git_dir / "objects"
    objects.rename(objects.with_name("moved"))
    objects.touch()
    (workspace.root / "a").write_text("a")
    with pytest.raises(StorageError, match=r"git \S+ failed: fatal: "):
        workspace.create_checkpoint("a")
    objects.unlink()
    objects.with_name("moved").rename(objects)
    assert workspace.create_checkpoint("a").skipped == ()


def test_a_lost_workspace_is_said_to_be_lost(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    workspace.root.rename(tmp_path / "lost")
    with pytest.raises(Damaged, match="'workspace' of the job is missing") as raised:
        workspace.create_checkpoint("a")
    assert raised.value.where == str(workspace.root)


def test_a_lost_repository_is_said_to_be_lost(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    start = workspace.create_checkpoint("start").commit
    workspace.git.git_dir.rename(tmp_path / "lost")
    for act in (
        workspace.create_checkpoint,
        workspace.restore,
        lambda commit: workspace.list_changes(commit, None),
    ):
        with pytest.raises(Damaged, match="'git' of the job is missing") as raised:
            act(start)
        assert raised.value.where == str(workspace.git.git_dir)


@pytest.mark.usefixtures("ordinary_owner")
@pytest.mark.parametrize("mode", [0o000, 0o400, 0o300])
def test_a_workspace_that_was_locked_itself_is_checkpointed_and_restored(tmp_path: Path, mode: int) -> None:
    workspace = new(tmp_path)
    (workspace.root / "d").mkdir()
    (workspace.root / "d" / "file").write_text("1")
    (workspace.root / "d").chmod(mode)
    workspace.root.chmod(mode)
    made = workspace.create_checkpoint("locked")
    assert made.skipped == ()
    (workspace.root / "d" / "file").write_text("2")
    workspace.root.chmod(mode)
    workspace.restore(made.commit)
    assert (workspace.root / "d" / "file").read_text() == "1"


def test_what_is_sent_counts_not_what_was_looked_at(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    for name in ("changed", "gone", "shorter"):
        (workspace.root / name).write_text(name)
    last = baseline.load_baseline(workspace.git)
    with safe_open.open_root(workspace.root) as top:
        reading = snapshot.SnapshotReading(top, last, 1000, writing=True)
        shot = snapshot.take_snapshot(workspace.git, reading, scan_workspace(top, ScanRules(frozenset())))
        (workspace.root / "changed").write_text("CHANGED")
        (workspace.root / "gone").unlink()
        (workspace.root / "shorter").write_text("s")
        commit = checkpoint.write_checkpoint(workspace.git, reading, shot, "meanwhile")
    assert set(shot.tree) == {b"changed", b"shorter"}
    assert shot.tree == objects.read_tree(workspace.git, commit)
    assert shot.stamps.keys() & {b"changed", b"shorter"} == set()
    workspace.restore(commit)
    assert look(workspace.root) == {b"changed": ("file", b"CHANGED"), b"shorter": ("file", b"s\0\0\0\0\0\0")}


def test_a_file_that_is_written_to_meanwhile_does_not_break_the_checkpoint(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    file = workspace.root / "busy"
    # One process, so that nothing of it is at work when it is gone.
    script = (
        "import os, random, sys\n"
        "while True:\n"
        "    with open(sys.argv[1], 'wb') as file: file.write(bytes(random.randrange(300_000)))\n"
        "    os.unlink(sys.argv[1])\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", script, str(file)])
    try:
        for count in range(20):
            workspace.create_checkpoint(str(count))
    finally:
        writer.kill()
        writer.wait()
    before = look(workspace.root)
    commit = workspace.create_checkpoint("quiet").commit
    file.unlink(missing_ok=True)
    workspace.restore(commit)
    assert look(workspace.root) == before
    assert support.git(workspace.git.git_dir, "fsck", "--strict") == ""


def test_a_commit_is_read_from_a_pack_as_git_reads_it(tmp_path: Path) -> None:
    """Starting git takes longer than all else that a quick command does with a checkpoint."""
    workspace = new(tmp_path)
    git = workspace.git
    for number in range(3):
        (workspace.root / "a.txt").write_text(f"{number}\n" * 50)
        (workspace.root / f"large-{number}").write_bytes(bytes(200_000))
        os.mkfifo(workspace.root / f"pipe-{number}")  # no checkpoint holds it, so the message names it
        workspace.create_checkpoint(f"number {number}")
    commits = git.run("rev-list", "--all").decode().split()
    assert len(commits) == 4
    for commit in commits:
        assert packs.read_commit(git.git_dir, commit) == git.run("cat-file", "commit", commit)
    assert packs.read_commit(git.git_dir, "1" * 40) is None
    assert (
        packs.read_commit(git.git_dir, git.run("rev-parse", f"{commits[0]}^{{tree}}").decode().strip())
        is None
    )


def test_a_commit_that_is_not_in_a_sound_pack_is_left_to_git(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    (workspace.root / "a.txt").write_text("1\n")
    commit = workspace.create_checkpoint("first").commit
    git_dir = workspace.git.git_dir
    content = packs.read_commit(git_dir, commit)
    (pack,) = (
        index.with_suffix(".pack")
        for index in packs.list_indexes(git_dir)
        if commit in packs.list_names(index)
    )
    sound = pack.read_bytes()
    pack.chmod(0o600)
    for at in range(len(sound)):
        pack.write_bytes(sound[:at] + bytes([sound[at] ^ 0x55]) + sound[at + 1 :])
        assert packs.read_commit(git_dir, commit) in (content, None)
        pack.write_bytes(sound[:at])
        assert packs.read_commit(git_dir, commit) in (content, None)
    pack.write_bytes(sound)
    assert objects.read_commits(workspace.git, commit) == [content]
    pack.write_bytes(sound[:12] + bytes(len(sound) - 32) + sound[-20:])
    with pytest.raises((Damaged, StorageError)):
        objects.read_commits(workspace.git, commit)
    pack.write_bytes(sound)
    moved = tmp_path / "moved.pack"
    pack.rename(moved)
    pack.with_suffix(".idx").rename(tmp_path / "moved.idx")
    with moved.open("rb") as file:
        subprocess.run(["git", f"--git-dir={git_dir}", "unpack-objects", "-q"], stdin=file, check=True)
    assert packs.read_commit(git_dir, commit) is None  # a loose file
    assert objects.read_commits(workspace.git, commit) == [content]


def without_git(workspace: Workspace) -> Git:
    """The repository, where git can't be started."""
    return replace(workspace.git, path="/nonexistent")


def test_a_small_checkpoint_is_read_without_git(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    awkward(workspace.root)
    shutil.rmtree(workspace.root / "nested clone")  # has many directories
    workspace.create_checkpoint("first")
    (workspace.root / "empty" / "deeper" / "a.txt").write_text("1")
    (workspace.root / "crlf.txt").unlink()
    workspace.create_checkpoint("after interaction 2")
    quick, git = without_git(workspace), workspace.git
    checkpoints = objects.list_checkpoints(quick)
    assert checkpoints == objects.list_checkpoints_with_git(git)
    assert [each.subject for each in checkpoints.values()] == [
        "after interaction 2",
        "first",
        "Empty workspace",
    ]
    for commit in checkpoints:
        assert objects.read_tree(quick, commit) == objects.read_listing(git, commit).tree
    with pytest.raises(StorageError, match="git is not installed"):
        objects.read_tree(quick, "1" * 40)


def test_the_commits_that_git_lists_are_read_without_git(tmp_path: Path) -> None:
    """Merges, shallow repositories, and messages of people, whose first paragraph is the subject."""
    workspace = new(tmp_path)
    git, quick = workspace.git, without_git(workspace)
    first = workspace.create_checkpoint("first").commit
    tree = git.run("rev-parse", f"{first}^{{tree}}").decode().strip()

    def commit(message: str, *parents: str) -> str:
        each = [part for parent in parents for part in ("-p", parent)]
        data = git.run_with_input(message.encode("utf-8", "surrogateescape"), "commit-tree", tree, *each)
        return data.decode().strip()

    one = commit("\n  \n two  \r\nlines\t\n \nbody\n", first)
    side = commit("side\n")
    two = commit("\udcff caf\u00e9", one, side)
    kept = commit("", two)
    git.run("update-ref", f"{objects.KEPT}5", kept)
    git.run("repack", "-a", "-d", "-q", "-F", "--depth=0")
    found = objects.list_checkpoints(quick)
    assert found == objects.list_checkpoints_with_git(git)
    assert found[one] == (first, " two lines")
    assert found[two] == (one, "\u00ff caf\u00e9")
    assert found[kept] == (two, "")
    assert side not in found
    (git.git_dir / "shallow").write_text(f"{two}\n")
    found = objects.list_checkpoints(quick)
    assert found == objects.list_checkpoints_with_git(git)
    assert found[two].after is None
    assert one not in found


@pytest.mark.parametrize(
    "unusual",
    [
        "HEAD",
        "config",
        "packed-refs",
        "commondir",
        "a loose commit",
        "many directories",
        "many commits",
        "encoding",
    ],
)
def test_what_only_git_can_read_is_left_to_git(tmp_path: Path, unusual: str) -> None:
    workspace = new(tmp_path)
    git, quick = workspace.git, without_git(workspace)
    (workspace.root / "a.txt").write_text("1")
    last = workspace.create_checkpoint("first").commit
    objects.read_tree(quick, last)
    objects.list_checkpoints(quick)
    if unusual == "packed-refs":
        git.run("pack-refs", "--all")
    elif unusual == "many directories":
        for number in range(30):
            (workspace.root / str(number)).mkdir()
            (workspace.root / str(number) / "a").touch()
        last = workspace.create_checkpoint("many").commit
        with pytest.raises(StorageError, match="git is not installed"):
            objects.read_tree(quick, last)
        return
    elif unusual in ("a loose commit", "many commits", "encoding"):
        tree = git.run("rev-parse", f"{last}^{{tree}}").decode().strip()
        encoding = ("-c", "i18n.commitEncoding=ISO-8859-1") if unusual == "encoding" else ()
        for number in range(50 if unusual == "many commits" else 1):
            last = git.run(*encoding, "commit-tree", tree, "-p", last, "-m", f"{number}").decode().strip()
        git.run("update-ref", objects.BRANCH, last)
        if unusual != "a loose commit":
            git.run("repack", "-a", "-d", "-q", "-F", "--depth=0")
    elif unusual == "commondir":
        (git.git_dir / unusual).write_text(".\n")
    else:
        with (git.git_dir / unusual).open("a") as file:
            file.write("\n")
    if unusual in ("HEAD", "config", "packed-refs", "commondir"):
        assert objects.read_tree(git, last) == objects.read_listing(git, last).tree
        with pytest.raises(StorageError, match="git is not installed"):
            objects.read_tree(quick, last)
    assert objects.list_checkpoints(git) == objects.list_checkpoints_with_git(git)
    with pytest.raises(StorageError, match="git is not installed"):
        objects.list_checkpoints(quick)


def test_a_repository_with_a_pipe_is_refused_without_git(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    last = workspace.create_checkpoint("first").commit
    os.mkfifo(workspace.git.git_dir / "packed-refs")
    with pytest.raises(Damaged, match="not a regular file"):
        objects.read_tree(without_git(workspace), last)


def test_a_damaged_tree_is_not_read_without_git(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    (workspace.root / "a").mkdir()
    (workspace.root / "a" / "b.txt").write_text("1\n")
    commit = workspace.create_checkpoint("first").commit
    git_dir = workspace.git.git_dir
    expected = packs.PackReader(git_dir).list_tree(commit)
    assert expected is not None
    for index in packs.list_indexes(git_dir):
        pack = index.with_suffix(".pack")
        sound = pack.read_bytes()
        pack.chmod(0o600)
        for at in range(len(sound)):
            pack.write_bytes(sound[:at] + bytes([sound[at] ^ 0x55]) + sound[at + 1 :])
            assert packs.PackReader(git_dir).list_tree(commit) in (expected, None)
        pack.write_bytes(sound)


@pytest.mark.parametrize(
    "damage", ["a pack without its end", "the end of a pack", "an index", "the cut-off commits"]
)
def test_what_git_refuses_to_read_is_not_read_without_it(tmp_path: Path, damage: str) -> None:
    """Although the commit and its tree are intact: otherwise `job verify` would report a job as sound that can't go on."""
    workspace = new(tmp_path)
    (workspace.root / "a.txt").write_text("1\n")
    last = workspace.create_checkpoint("first").commit
    git_dir = workspace.git.git_dir
    (index,) = (each for each in packs.list_indexes(git_dir) if last in packs.list_names(each))
    path = index if damage == "an index" else index.with_suffix(".pack")
    if damage == "the cut-off commits":
        (git_dir / "shallow").write_text(f"{last}\nnot a commit\n")
    else:
        path.chmod(0o600)
        content = bytearray(path.read_bytes())
        if damage == "an index":
            content[8 + 4 * 255] ^= 1  # the number of objects that git believes, at the end of a table
        elif damage == "the end of a pack":
            content[-1] ^= 1
        path.write_bytes(content[:-1] if damage == "a pack without its end" else content)
    for read in (lambda git: objects.read_tree(git, last), objects.list_checkpoints):
        with pytest.raises(StorageError, match="git is not installed"):
            read(without_git(workspace))
        with pytest.raises(StorageError):
            read(workspace.git)


def test_no_flipped_bit_in_an_index_is_read_past(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    last = workspace.create_checkpoint("first").commit
    git_dir = workspace.git.git_dir
    assert packs.read_commit(git_dir, last)
    for index in packs.list_indexes(git_dir):
        sound = index.read_bytes()
        index.chmod(0o600)
        for at in (*range(12), *range(8 + 4 * 250, len(sound))):
            index.write_bytes(sound[:at] + bytes([sound[at] ^ 0x10]) + sound[at + 1 :])
            assert packs.read_commit(git_dir, last) is None
        index.write_bytes(sound)


def test_a_small_commit_is_the_one_that_git_writes(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    awkward(workspace.root)
    (workspace.root / "large.big").write_bytes(b"not large")
    shutil.rmtree(workspace.root / "nested clone")
    workspace.create_checkpoint("first")
    (workspace.root / "crlf.txt").write_text("other\n")
    (workspace.root / "copy").write_text("other\n")
    (workspace.root / "a").mkdir()
    (workspace.root / "a" / "b").write_text("1\n")
    (workspace.root / "a.txt").write_text("2\n")  # sorts before the directory
    (workspace.root / "empty" / "other").mkdir()
    os.mkfifo(workspace.root / "pipe")
    written = []
    for number, quick in enumerate((without_git(workspace), workspace.git)):
        scratch = replace(quick, git_dir=tmp_path / f"scratch-{number}", of_job=False)
        repository.create_repository(scratch.git_dir, bare=True, long_names=False)
        (scratch.git_dir / "objects" / "info").mkdir()
        alternates = quote_alternate(workspace.git.git_dir / "objects")
        (scratch.git_dir / "objects" / "info" / "alternates").write_bytes(alternates)
        written.append(workspace.write_current(scratch))
        assert "missing" not in support.git(scratch.git_dir, "fsck", "--strict", "--full", "--no-dangling")
        if number == 0:
            for path in range(600):  # too many, so git is needed
                (workspace.root / f"many-{path}").touch()
            with pytest.raises(StorageError, match="git is not installed"):
                workspace.write_current(scratch)
            for path in range(600):
                (workspace.root / f"many-{path}").unlink()
            (workspace.root / "bytes").write_bytes(bytes(2 << 20))
            with pytest.raises(StorageError, match="git is not installed"):
                workspace.write_current(scratch)
            (workspace.root / "bytes").unlink()
    last = baseline.load_baseline(workspace.git)
    with safe_open.open_root(workspace.root) as top:
        rules = ScanRules(workspace.caches, last.list_directories(), False, workspace.prepared)
        reading = snapshot.SnapshotReading(top, last, 1 << 20)
        shot = snapshot.take_snapshot(workspace.git, reading, scan_workspace(top, rules))
        with_git = checkpoint.write_checkpoint(scratch, reading, shot, "now")
    assert written[0] == written[1]
    assert written[0].commit == with_git
