"""Scans are compared without reading files: no change is missed, however it was made, and nothing is written for none."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from logist.workspace import Checkpoint, Workspace
from logist.workspace.checkpoint import baseline, objects
from logist.workspace.checkpoint.baseline import Baseline
from logist.workspace.checkpoint.objects import FILE_MODE, LINK_MODE, PROGRAM_MODE, Tree, TreeEntry
from logist.workspace.checkpoint.scan import UNSURE, FileStamp, pack_stamp
from logist.workspace.files import file_names


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path / "job" / "workspace", tmp_path / "job" / "git")
    made.populate(None)
    (tmp_path / "outside").mkdir()
    return made


def read_all(root: bytes, inside: bytes = b"") -> Tree:
    """The tree that a checkpoint must have, from the content of every file."""
    tree: Tree = {}
    names = [name for name in os.listdir(root) if inside or name != b".git"]
    for name in names:
        path, raw = os.path.join(root, name), inside + name
        status = os.lstat(path)
        if stat.S_ISDIR(status.st_mode):
            tree |= read_all(path, raw + b"/")
        elif stat.S_ISLNK(status.st_mode):
            tree[file_names.to_stored(raw)] = TreeEntry(LINK_MODE, hash_blob(os.readlink(path)))
        elif stat.S_ISREG(status.st_mode):
            mode = PROGRAM_MODE if status.st_mode & stat.S_IXUSR else FILE_MODE
            tree[file_names.to_stored(raw)] = TreeEntry(mode, hash_blob(Path(os.fsdecode(path)).read_bytes()))
    if inside and not tree:
        placeholder = file_names.to_stored(inside[:-1]) + b"/" + file_names.PLACEHOLDER
        tree[placeholder] = TreeEntry(FILE_MODE, hash_blob(b""))
    return tree


def hash_blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0%s" % (len(content), content), usedforsecurity=False).hexdigest()


def check_exact(workspace: Workspace) -> Checkpoint:
    """Make a checkpoint, and compare it with every file in the workspace."""
    made = workspace.create_checkpoint("compared")
    assert objects.read_tree(workspace.git, made.commit) == read_all(os.fsencode(workspace.root))
    return made


def settle(workspace: Workspace) -> str:
    """Make checkpoints until every stamp is older than a tick of the clock, so that no file is read again."""
    while True:
        commit = workspace.create_checkpoint("settled").commit
        if UNSURE not in baseline.load_baseline(workspace.git).table.list_stamps():
            return commit


def keep_times(change: Callable[[Path], None], file: Path) -> None:
    """Change a file without a change of its times, as far as a program can do that."""
    before = os.lstat(file)
    change(file)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns), follow_symlinks=False)


def write_over(file: Path) -> None:
    with open(file, "r+b") as opened:
        opened.write(b"B")


def rename_over(file: Path) -> None:
    other = file.parents[2] / "outside" / "other"
    other.write_bytes(b"B")
    other.chmod(stat.S_IMODE(file.stat().st_mode))
    before = file.stat()
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(file)


def link_over(file: Path) -> None:
    rename_over(file)
    os.link(file, file.parents[2] / "outside" / "second name")


def write_through_hard_link(file: Path) -> None:
    second = file.parents[2] / "outside" / "second name"
    os.link(file, second)
    write_over(second)


def swap_with_link(file: Path) -> None:
    file.unlink()
    file.symlink_to("B")


def swap_with_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def make_program(file: Path) -> None:
    file.chmod(0o755)


CHANGES = [
    write_over,
    rename_over,
    link_over,
    write_through_hard_link,
    swap_with_link,
    swap_with_directory,
    make_program,
]


@pytest.mark.parametrize("name", [b"caf\xe9", b".GIT"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_noticed_though_size_and_time_are_the_same(
    workspace: Workspace, change: Callable[[Path], None], name: bytes
) -> None:
    file = workspace.root / os.fsdecode(name)
    file.write_bytes(b"A")
    (workspace.root / "other").write_bytes(b"A")
    before = settle(workspace)
    keep_times(change, file)
    assert check_exact(workspace).commit != before


def test_names_that_differ_in_case_are_different_files(workspace: Workspace) -> None:
    file = workspace.root / "file"
    file.write_bytes(b"A")
    before = settle(workspace)
    keep_times(lambda path: os.link(path, path.with_name("kept")), file)
    file.rename(workspace.root / "FILE")
    (workspace.root / "kept").unlink()
    after = check_exact(workspace).commit
    kinds = [(each.kind, each.path) for each in workspace.list_changes(before, after)[0]]
    assert kinds == [("created", "FILE"), ("deleted", "file")]


def test_two_files_that_change_places_are_noticed(workspace: Workspace) -> None:
    for name, content in (("a", b"A"), ("b", b"B")):
        (workspace.root / name).write_bytes(content)
        os.utime(workspace.root / name, ns=(1, 1))
    before = settle(workspace)
    a, b, aside = (workspace.root / name for name in ("a", "b", "aside"))
    a.rename(aside)
    b.rename(a)
    aside.rename(b)
    assert check_exact(workspace).commit != before


NAMES = [
    b"a",
    b"A",
    b"b",
    b"caf\xe9",
    b".git",
    b".GIT",
    b".gitignore",
    b".logist~",
    b".logist~.git",
    b"d",
    b"D",
]


class Vandal:
    """Changes a workspace at random, mostly without a change of sizes and times."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.chance = root, random.Random(seed)
        self.outside = root.parents[1] / "outside"

    def change(self) -> None:
        below = self.root.joinpath(*(self.name() for _ in range(self.chance.choice([0, 1, 1, 2]))))
        if not below.is_dir() or below.is_symlink():
            remove(below)
            if any(parent.is_symlink() or not parent.is_dir() for parent in [*below.parents][:-1]):
                return
            below.mkdir()
        path = below / self.name()
        if path == self.root / ".git":  # no checkpoint holds it
            return
        self.chance.choice([self.write, self.write, self.replace, self.link, self.remove, self.chmod])(path)

    def name(self) -> str:
        return os.fsdecode(self.chance.choice(NAMES))

    def content(self) -> bytes:
        return self.chance.choice([b"A", b"B"])

    def write(self, path: Path) -> None:
        if path.is_file() and not path.is_symlink():
            times = path.stat()
            with open(path, "r+b") as file:
                file.write(self.content())
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        elif not path.is_symlink() and not path.is_dir():
            path.write_bytes(self.content())
            os.utime(path, ns=(1, 1))

    def replace(self, path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        other = self.outside / "other"
        other.unlink(missing_ok=True)
        other.write_bytes(self.content())
        os.utime(other, ns=(1, 1))
        if self.chance.random() < 0.3:
            second = self.outside / str(self.chance.randrange(3))
            second.unlink(missing_ok=True)
            os.link(other, second)
        os.rename(other, path)
        for second in self.outside.iterdir():  # written to through another name
            if self.chance.random() < 0.3:
                second.write_bytes(self.content())
                os.utime(second, ns=(1, 1))

    def link(self, path: Path) -> None:
        remove(path)
        path.symlink_to(os.fsdecode(self.content()))
        os.utime(path, ns=(1, 1), follow_symlinks=False)

    def remove(self, path: Path) -> None:
        remove(path)

    def chmod(self, path: Path) -> None:
        if path.is_file() and not path.is_symlink():
            path.chmod(self.chance.choice([0o644, 0o755]))


def remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


@pytest.mark.deep_beyond(5)
@pytest.mark.parametrize("seed", range(100))
def test_checkpoints_hold_what_reading_every_file_finds(workspace: Workspace, seed: int) -> None:
    vandal = Vandal(workspace.root, seed)
    commits = [check_exact(workspace).commit]
    for _ in range(12):
        for _ in range(vandal.chance.choice([0, 1, 1, 3, 10])):
            vandal.change()
        commits.append(check_exact(workspace).commit)
        assert workspace.list_changes(commits[-1], None) == ([], 0)
        assert workspace.create_checkpoint("again").commit == commits[-1]
        if vandal.chance.random() < 0.1:
            workspace.restore(vandal.chance.choice(commits))
            check_exact(workspace)


def note_everything(folder: Path) -> dict[Path, tuple[int, ...]]:
    """By path what every kind of writing changes: inode, size, and times."""
    everything = [folder, *folder.rglob("*")]
    return {
        path: (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        for path in everything
        for status in [path.lstat()]
    }


def test_without_a_change_nothing_is_written(workspace: Workspace) -> None:
    for number in range(30):
        folder = workspace.root / f"d{number % 3}"
        folder.mkdir(exist_ok=True)
        (folder / str(number)).write_text(str(number))
    (workspace.root / "node_modules").mkdir()
    (workspace.root / "empty").mkdir()
    os.mkfifo(workspace.root / "pipe")
    commit = settle(workspace)
    before = note_everything(workspace.root.parent)
    for _ in range(3):
        assert workspace.create_checkpoint("again").commit == commit
    assert note_everything(workspace.root.parent) == before
    (workspace.root / "d1" / "1").write_text("2")
    assert workspace.create_checkpoint("changed").commit != commit
    assert note_everything(workspace.root.parent) != before


@pytest.mark.parametrize("year", [1950, 2400])
def test_a_file_of_another_century_is_scanned_and_settles(workspace: Workspace, year: int) -> None:
    file = workspace.root / "file"
    file.write_bytes(b"A")
    seconds = (year - 1970) * 31_556_952
    os.utime(file, (seconds, seconds))
    settle(workspace)
    file.write_bytes(b"B")
    os.utime(file, (seconds, seconds))
    check_exact(workspace)


def test_numbers_of_all_64_bits_fit_into_a_stamp() -> None:
    large = FileStamp(1, 2**63, -(2**62), 2**64 - 1, 0o100644)
    assert pack_stamp(large) != pack_stamp(large._replace(inode=2**64 - 2))
    assert pack_stamp(large) != UNSURE


def make_old_stamps(workspace: Workspace, commit: str) -> bytes:
    """The file of an earlier Logist, but it claims that `file` still has its first content."""
    status = (workspace.root / "file").stat()
    stamp = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode]
    files = {"file": [FILE_MODE, hash_blob(b"A"), *stamp]}
    document = {"version": 1, "commit": commit, "files": files, "unstored": {}}
    data = json.dumps(document).encode()
    return hashlib.sha256(data).hexdigest().encode() + b"\n" + data


def damage(data: bytes, how: str) -> bytes:
    magic, _, rest = data.split(b"\n", 2)
    if how == "cut":
        return data[:-1]
    if how == "empty":
        return b""
    head, _, parts = rest.partition(b"\n")
    fields = json.loads(head)
    if how == "counts":
        fields["counts"][0] += 1
    elif how == "sizes":
        fields["sizes"][1] -= 1
    elif how == "modes":
        parts = parts[:-21] + b"\x09" + parts[-20:]
    rest = json.dumps(fields).encode() + b"\n" + parts
    return b"%s\n%s\n%s" % (magic, hashlib.sha256(rest).hexdigest().encode(), rest)


def test_the_stamps_of_an_earlier_version_are_not_believed_but_replaced(workspace: Workspace) -> None:
    file, stamps = workspace.root / "file", workspace.git.git_dir / baseline.FILE
    file.write_bytes(b"A")
    commit = settle(workspace)
    file.write_bytes(b"B")
    stamps.write_bytes(make_old_stamps(workspace, commit))
    assert check_exact(workspace).commit != commit
    assert stamps.read_bytes().startswith(baseline.MAGIC)


@pytest.mark.parametrize("how", ["cut", "empty", "counts", "sizes", "modes"])
def test_an_invalid_file_of_stamps_is_replaced(workspace: Workspace, how: str) -> None:
    for name in ("a", "d/b"):
        (workspace.root / name).parent.mkdir(exist_ok=True)
        (workspace.root / name).write_text(name)
    commit = settle(workspace)
    stamps = workspace.git.git_dir / baseline.FILE
    valid = stamps.read_bytes()
    stamps.write_bytes(damage(valid, how))
    assert check_exact(workspace).commit == commit
    assert stamps.read_bytes() == valid


def test_a_baseline_keeps_every_entry_of_a_tree(workspace: Workspace) -> None:
    names = [b"a", b"d/e/f", b".logist~x", b".logist~.logist~x", b"x/.logist~.git/c", b"empty/.logist~"]
    tree = {name: TreeEntry(FILE_MODE, hash_blob(name)) for name in names}
    tree |= {b"module": TreeEntry(objects.GITLINK_MODE, "1" * 40), b"run": TreeEntry(PROGRAM_MODE, "2" * 40)}
    tip = objects.read_tip(workspace.git)
    assert tip
    made = Baseline.from_tree(tip, tree, {})
    baseline.save_baseline(workspace.git, made)
    loaded = baseline.load_baseline(workspace.git)
    assert (loaded, loaded.tree) == (made, tree)
    assert loaded.list_directories() == {b"d", b"d/e", b"x", b"x/.git", b"empty"}


def test_a_listing_is_the_same_from_the_scan_of_a_checkpoint(workspace: Workspace) -> None:
    root = workspace.root
    for path in (
        "b",
        "node_modules/held",
        "d/__pycache__/x",
        "d/.git/x",
        "d/e/a",
        "e/.git",
        "z-a",
        "z/a",
        "z.a",
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff")).write_text("x")
    (root / "link").symlink_to("b")
    (root / "empty").mkdir()
    os.mkfifo(root / "pipe")
    everything = Workspace(root, workspace.git.git_dir, caches=())
    assert "node_modules/held" in everything.list_files(found=everything.create_checkpoint("all")).paths
    prepared = Workspace(root, workspace.git.git_dir, outputs=["z"])
    for reader in (workspace, everything, prepared):
        found = reader.create_checkpoint("again")
        for limit in (1, 4, 500):
            expected = reader.list_files(limit, lambda path: path == "b")
            assert reader.list_files(limit, lambda path: path == "b", found=found) == expected
    assert workspace.list_files().paths == ("b", "d/e/a", "e/.git", "z-a", "z.a", "z/a", "\\xff")
