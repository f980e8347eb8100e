"""One-time links, and where they are kept."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from logist.errors import Refused, StorageError
from logist.web import server
from logist.web.server import claim_folder, find_servers
from logist.web.sessions import LINK_SECONDS, Sessions, create_link
from tests.cli.desk import Desk

PORT = 8722


def get_key(link: str) -> str:
    return link.partition("key=")[2]


def test_a_link_works_once(desk: Desk) -> None:
    with claim_folder(desk.home, PORT) as folder:
        sessions = Sessions(folder, PORT, "ada")
        key = get_key(create_link(folder, PORT))
        assert sessions.start(key) is not None
        assert sessions.start(key) is None


@pytest.mark.parametrize(
    ("age", "works"), [(LINK_SECONDS - 60, True), (LINK_SECONDS + 1, False), (-60, False)]
)
def test_a_link_works_for_an_hour(desk: Desk, age: float, works: bool) -> None:
    with claim_folder(desk.home, PORT) as folder:
        key = get_key(create_link(folder, PORT))
        (file,) = (folder / "links").iterdir()
        file.write_text(json.dumps(json.loads(file.read_bytes()) | {"made_at": time.time() - age}))
        assert (Sessions(folder, PORT, "ada").start(key) is not None) is works


@pytest.mark.parametrize("key", ["", "../../x", "a" * 43, "a" * 42 + "\n", "%00", "é" * 43])
def test_no_other_key_works(desk: Desk, key: str) -> None:
    with claim_folder(desk.home, PORT) as folder:
        create_link(folder, PORT)
        assert Sessions(folder, PORT, "ada").start(key) is None


def test_the_files_of_links_do_not_give_access(desk: Desk) -> None:
    with claim_folder(desk.home, PORT) as folder:
        key = get_key(create_link(folder, PORT))
        (file,) = (folder / "links").iterdir()
        assert key not in file.name + file.read_text()
        assert file.stat().st_mode & 0o077 == 0
        assert folder.stat().st_mode & 0o077 == 0
        assert (folder / "links").stat().st_mode & 0o077 == 0


def test_a_new_server_removes_the_links_of_an_earlier_one(desk: Desk) -> None:
    with claim_folder(desk.home, PORT) as folder:
        key = get_key(create_link(folder, PORT))
    with claim_folder(desk.home, PORT) as folder:
        assert Sessions(folder, PORT, "ada").start(key) is None


@pytest.mark.parametrize("place", ["serve", f"serve/{PORT}", f"serve/{PORT}/links"])
def test_a_symbolic_link_that_came_with_a_repository_is_not_followed(
    desk: Desk, tmp_path: Path, place: str
) -> None:
    mine = tmp_path / "mine"
    (mine / str(PORT) / "links").mkdir(parents=True)
    for each in (mine, mine / str(PORT), mine / str(PORT) / "links", mine / "links"):
        each.mkdir(exist_ok=True)
        (each / "precious.txt").write_text("Keep me.")
    planted = desk.home / place
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.symlink_to(mine)
    before = sorted(mine.rglob("*"))
    with pytest.raises(StorageError, match="no link"), claim_folder(desk.home, PORT):
        pass
    assert sorted(mine.rglob("*")) == before
    assert find_servers(desk.home) == []


def test_a_gitignore_that_is_a_symbolic_link_is_replaced(desk: Desk, tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("Keep me.")
    (desk.home / "serve").mkdir()
    (desk.home / "serve" / ".gitignore").symlink_to(mine)
    with claim_folder(desk.home, PORT):
        pass
    assert mine.read_text() == "Keep me."


def test_a_directory_of_links_that_others_could_write_to_is_closed(desk: Desk) -> None:
    links = desk.home / "serve" / str(PORT) / "links"
    links.mkdir(parents=True)
    for each in (links, links.parent, links.parent.parent):
        each.chmod(0o777)
    with claim_folder(desk.home, PORT):
        assert links.stat().st_mode & 0o777 == 0o700


def test_two_servers_do_not_use_one_directory(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STOP_SECONDS", 0)
    with claim_folder(desk.home, PORT):
        assert find_servers(desk.home) == [(PORT, desk.home / "serve" / str(PORT))]
        with pytest.raises(Refused, match="another server"), claim_folder(desk.home, PORT):
            pass
    assert find_servers(desk.home) == []
