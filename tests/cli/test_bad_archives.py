"""One bad history among good ones: replay, whatif and stats tell the same of it, with the same exit code."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import ROOT, RunLogist

GOOD = ROOT / "fixtures" / "jobs" / "main-job"
COMMANDS = {
    "replay": ("replay", "--prompts", "accept"),
    "whatif": ("whatif", "--set", "limits.attempts=9"),
    "stats": ("stats",),
}
Spoil = Callable[[Path], None]


def cut_off(history: Path) -> None:
    history.write_bytes(history.read_bytes()[:-3])


def newer(history: Path) -> None:
    history.write_bytes(history.read_bytes().replace(b'{"version":1', b'{"version":99', 1))


def nonsense(history: Path) -> None:
    history.write_text('[{"kind": "zzz", "after": null, "sequence": "x"}]')


def linked(history: Path) -> None:
    history.rename(history.with_name("elsewhere.json"))
    history.symlink_to("elsewhere.json")


def a_loop(history: Path) -> None:
    history.unlink()
    history.symlink_to(history.name)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("bad", "good"):
        (tmp_path / "archive" / name).mkdir(parents=True)
        shutil.copy(GOOD / "jobHistory.json", tmp_path / "archive" / name)
    return tmp_path / "archive"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("spoil", "code"), [(cut_off, 10), (newer, 8), (nonsense, 10), (linked, 0), (a_loop, 10)]
)
def test_it_is_told_alike(cli: RunLogist, place: Path, command: str, spoil: Spoil, code: int) -> None:
    spoil(place / "bad" / "jobHistory.json")
    ran = cli(*COMMANDS[command], str(place), "--json")
    assert ran.code == code, ran.err
    assert "main-job" not in ran.out
    data = ran.json["data"]
    histories = data["histories"]
    assert (len(histories) if isinstance(histories, list) else histories + data["left_out"]) == 2


@pytest.mark.parametrize(
    ("pattern", "count"),
    [("**", 2), ("**/jobHistory.json", 2), ("./**/good", 1), ("archive/**/b*/*.json", 1), ("[a-b]*/g**d", 1)],
)
def test_a_pattern_follows_no_link_and_enters_no_workspace(
    cli: RunLogist, place: Path, pattern: str, count: int
) -> None:
    for name in ("one", "other"):
        (place / name).symlink_to(".")
    nested = place / "good" / "workspace" / "vendored"
    nested.mkdir(parents=True)
    shutil.copy(GOOD / "jobHistory.json", nested)
    ran = cli("replay", "--prompts", "accept", pattern, cwd=place.parent)
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[-1].startswith(f"{count} histor")


def test_a_linked_job_directory_is_a_job(cli: RunLogist, place: Path) -> None:
    shutil.move(place / "bad", place.parent / "elsewhere")
    (place / "bad").symlink_to(place.parent / "elsewhere")
    ran = cli("replay", "--prompts", "accept", "archive", cwd=place.parent)
    assert (ran.code, ran.out) == (0, "2 histories, 16 interactions: 2 the same\n")
