"""The guard of conftest.py holds: what a test must not do is refused, in its process and in those it starts."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import FENCE
from tests.guarded.sitecustomize import Trespass
from tests.support import ROOT, git, make_repository, process_environment


@pytest.fixture
def forgiven() -> Iterator[None]:
    """These trespasses are wanted: they don't fail the test."""
    yield
    assert FENCE.seen
    FENCE.seen.clear()


@pytest.mark.usefixtures("forgiven")
def test_a_file_outside_is_refused() -> None:
    with pytest.raises(Trespass):
        (ROOT / "litter.txt").write_text("x", encoding="utf-8")
    with pytest.raises(Trespass):
        (ROOT / "litter").mkdir()
    with pytest.raises(Trespass):
        os.open(ROOT / "litter.txt", os.O_CREAT | os.O_WRONLY)
    assert not list(ROOT.glob("litter*"))


@pytest.mark.usefixtures("forgiven")
def test_a_link_does_not_lead_outside(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(ROOT)
    with pytest.raises(Trespass):
        (tmp_path / "link" / "litter.txt").write_text("x", encoding="utf-8")


@pytest.mark.usefixtures("forgiven")
def test_the_network_is_refused() -> None:
    with pytest.raises(Trespass):
        socket.getaddrinfo("example.org", 443)
    with socket.socket() as out, pytest.raises(Trespass):
        out.connect(("192.0.2.1", 9))


def test_loopback_works() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        with socket.create_connection((host, port)):
            pass


def test_own_places_are_writable(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x", encoding="utf-8")
    with tempfile.NamedTemporaryFile() as file:
        assert Path(file.name).is_relative_to(os.environ["TMPDIR"])
    assert Path.cwd() == tmp_path
    assert Path.home() == Path(os.environ["HOME"])
    assert not Path(os.environ["XDG_CONFIG_HOME"]).exists()


def test_the_environment_is_an_allow_list() -> None:
    kept = {"HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "VIRTUAL_ENV", "GIT_CONFIG_NOSYSTEM", "TEST_FENCE"}
    left = {name for name in os.environ if not name.startswith(("PYTEST_", "XDG_"))}
    assert left <= kept


def test_a_program_started_is_fenced_too() -> None:
    for crime in ("open('litter.txt', 'w')", "__import__('socket').getaddrinfo('example.org', 443)"):
        done = subprocess.run(
            [sys.executable, "-c", crime],
            env=process_environment(),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert "Trespass" in done.stderr
    assert not (ROOT / "litter.txt").exists()


def test_the_repository_is_the_same_every_time(git_repo: Path, tmp_path: Path) -> None:
    assert git(git_repo, "log", "--format=%s").split() == ["second", "first"]
    assert git(git_repo, "status", "--porcelain") == ""
    again = make_repository(tmp_path / "again")
    assert git(again, "rev-parse", "HEAD") == git(git_repo, "rev-parse", "HEAD")
