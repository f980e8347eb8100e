"""Files that may come from elsewhere: read whole where they are regular and small enough, refused at once otherwise."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from logist.regular_files import IRREGULAR, read_regular


@pytest.mark.parametrize("size", [0, 1, 65_536, 3_000_000])
def test_a_regular_file_is_read_whole(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "file").write_bytes(data)
    assert read_regular(tmp_path / "file", size) == data
    assert read_regular(str(tmp_path / "file")) == data


def link_to_file(path: Path) -> None:
    (path.parent / "target").write_bytes(b"a secret")
    path.symlink_to("target")


@pytest.mark.parametrize(
    "make",
    [os.mkfifo, os.mkdir, link_to_file, lambda path: path.symlink_to("/dev/zero")],
    ids=["pipe", "directory", "link to a file", "link to a device"],
)
def test_anything_else_is_refused_at_once(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "file")
    with pytest.raises(OSError, match=r"not a regular file|symbolic links") as raised:
        read_regular(tmp_path / "file")
    assert raised.value.errno in IRREGULAR


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_regular(file, 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes") as raised:
        read_regular(file, 4)
    assert raised.value.errno == errno.EFBIG
    os.truncate(file, 1 << 40)
    with pytest.raises(OSError, match="larger than"):
        read_regular(file)


def test_a_file_that_does_not_know_its_size_is_read_to_its_end() -> None:
    assert read_regular("/proc/self/status").startswith(b"Name:")
