"""Temporary directories are where the user wants them, private, and removed at the end."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from logist.config.environment import Environment
from logist.workspace.files.temporary import open_temporary_directory


def test_it_is_private_and_removed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    with open_temporary_directory("a-", [str(tmp_path / "missing"), str(tmp_path)]) as folder:
        assert folder.parent == tmp_path
        assert folder.name.startswith("a-")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "b" / "c").mkdir(parents=True)
        (folder / "b" / "c" / "d").touch(0o400)
        (folder / "link").symlink_to(outside)
        with open_temporary_directory("a-", [str(tmp_path)]) as other:
            assert other != folder
    assert os.listdir(tmp_path) == ["outside"]
    assert os.listdir(outside) == ["kept"]


def test_it_is_removed_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="x"), open_temporary_directory("a-", [str(tmp_path)]):
        raise ValueError("x")
    assert os.listdir(tmp_path) == []


def test_the_variables_are_those_of_tempfile() -> None:
    environment = Environment({"TMP": "c", "TEMP": "", "TMPDIR": "a"})
    assert environment.list_temporary_directories() == ["a", "c"]
