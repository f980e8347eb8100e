"""A new directory is durable before it gets its name: flushed at once, or file by file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logist.store import files, flushing


def filled(folder: Path, count: int) -> Path:
    """A job in the making, with so many files in its workspace."""
    (folder / "workspace" / "deep").mkdir(parents=True)
    for number in range(count):
        (folder / "workspace" / "deep" / f"{number}").touch()
    (folder / "state.json").touch()
    (folder / "workspace" / "link").symlink_to("nowhere")
    return folder


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is flushed by itself."""
    paths: list[str] = []
    flush = flushing._flush_path

    def noted(path: Path) -> None:
        flush(path)
        paths.append(path.name)

    monkeypatch.setattr(flushing, "_flush_path", noted)
    monkeypatch.setattr(flushing, "_is_one_flush_quicker", lambda folder, bulk: False)
    return paths


def test_few_files_are_flushed_one_by_one_and_each_directory_after_what_is_in_it(
    tmp_path: Path, flushed: list[str]
) -> None:
    folder = filled(tmp_path / "new", 2)
    flushing.flush_tree(folder, folder / "workspace")
    assert sorted(flushed) == sorted(["0", "1", "deep", "workspace", "state.json", "new"])
    assert flushed.index("0") < flushed.index("deep") < flushed.index("workspace")
    assert flushed[-1] == "new"


def test_of_a_workspace_with_many_files_no_file_is_flushed_by_itself(
    tmp_path: Path, flushed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sync", lambda: None)  # it would write out all that other tests have written
    folder = filled(tmp_path / "new", flushing.MANY)
    flushing.flush_tree(folder, folder / "workspace")
    assert sorted(flushed) == ["new", "state.json"]


def test_a_file_system_that_is_not_known_to_flush_everything_is_flushed_one_by_one() -> None:
    assert not flushing._is_one_flush_quicker(Path("/proc"), Path("/nonexistent"))


def test_much_that_waits_for_the_disk_speaks_against_flushing_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flushing, "filesystem_type", lambda path: "ext4")
    monkeypatch.setattr(flushing, "_REPORTS_ERRORS", (1, 0))
    monkeypatch.setattr(flushing, "LITTLE", -1)
    few, many = filled(tmp_path / "few", 1), filled(tmp_path / "many", flushing.MANY)
    assert not flushing._is_one_flush_quicker(few, few / "workspace")
    assert flushing._is_one_flush_quicker(many, many / "workspace")
    monkeypatch.setattr(flushing, "LITTLE", 1 << 60)
    assert flushing._is_one_flush_quicker(few, few / "workspace")


def test_nothing_is_flushed_in_what_is_unpublished_and_all_else_is(tmp_path: Path) -> None:
    inside, beside = tmp_path / "new" / "file", tmp_path / "newer"
    _, pipe = os.pipe()
    with files.defer_flushes(tmp_path / "new"):
        files.fsync(pipe, inside)  # a pipe can't be flushed
        with pytest.raises(OSError, match="Invalid argument"):
            files.fsync(pipe, beside)
    files._unsynced.clear()
    with pytest.raises(OSError, match="Invalid argument"):
        files.fsync(pipe, inside)
    files._unsynced.clear()
    os.close(pipe)
