"""A job whose history is closed and compressed at every change: each command sees one history."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import support
from tests.cli.desk import Desk, answer, command
from tests.support import RunLogist

MODEL: dict[str, Path] = {}
"""The project that every test takes a copy of; made by the first."""
SECRET = "canary-Key?0123~9"
PROMPT = f"Make two files with {SECRET}."


@pytest.fixture
def place(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, cli: RunLogist) -> Desk:
    """A job `j1` of six interactions in six files: three asks, a rejection, a pause."""
    if "path" not in MODEL:
        made = Desk(tmp_path_factory.mktemp("model") / "project", cli)
        made.settings("history: {rotate_at: 1}\n")
        first = answer(command(evidence_files=["a.txt"]), files={"a.txt": "A"})
        made.script(first, answer(), answer(files={"b.txt": "B"}), answer())
        made.create("j1", "--approval", "end", "--no-repo", prompt=PROMPT)
        made("job", "step", "j1")
        made("job", "step", "j1")
        made("job", "reject", "j1", "--note", "And b.txt.")
        made("job", "step", "j1")
        made("job", "suspend", "j1")
        MODEL["path"] = made.place
    desk = Desk(tmp_path / "project", cli)
    shutil.rmtree(desk.place)
    shutil.copytree(MODEL["path"], desk.place, symlinks=True)
    return desk


def closed(desk: Desk) -> list[str]:
    return sorted(path.name for path in desk.job().glob("jobHistory.*.json.gz"))


def segment(desk: Desk, number: int) -> Path:
    return desk.job() / f"jobHistory.{number}.json.gz"


def numbers(desk: Desk) -> list[int]:
    shown = json.loads(desk("job", "history", "j1", "--json").out)
    return [entry["sequence"] for entry in shown["data"]]


def test_every_command_that_looks_sees_one_history_and_writes_nothing(place: Desk) -> None:
    before = place.tree()
    assert closed(place) == [f"jobHistory.{number}.json.gz" for number in range(1, 6)]
    assert numbers(place) == [1, 2, 3, 4, 5, 6]
    assert "j1: OK, 6 interactions verified" in place("job", "verify", "j1").out
    assert place("job", "replay", "j1").code == 0
    assert PROMPT in place("job", "history", "j1", "--prompt", "2").out
    for name in ("status", "show", "list"):
        ran = place("job", name, *(["j1"] if name != "list" else []))
        assert (ran.code, "SUSPENDED" in ran.out) == (0, True), ran
    ran = place("doctor", "--deep")
    assert [line for line in ran.out.splitlines() if "j1" in line and "warning" in line] == []
    assert place.tree() == before


def test_all_files_of_a_history_are_one_history(place: Desk) -> None:
    ran = place("replay", *(str(path) for path in sorted(place.job().glob("jobHistory*"))))
    assert (ran.code, "1 history, 6 interactions: 1 the same" in ran.out) == (0, True), ran
    assert place("job", "replay", "--archive", str(segment(place, 2))).code == 0


def test_the_job_goes_on_back_and_over_its_segments(place: Desk) -> None:
    assert place("job", "resume", "j1").code == 0
    assert place("job", "restep", "j1", "--to", "2").code == 0
    assert [path.name for path in (place.job() / "workspace").iterdir() if path.suffix] == []
    assert numbers(place) == list(range(1, 9))
    place.script(answer(), answer(), answer(), answer(files={"c.txt": "C"}), answer())
    assert place("job", "step", "j1").code == 0
    assert len(closed(place)) == 8
    assert place("job", "verify", "j1").code == place("job", "replay", "j1").code == 0


@pytest.mark.parametrize("lost", ["state.json", "job.yaml"])
def test_what_can_be_made_again_is_made_from_all_segments(place: Desk, lost: str) -> None:
    was = (place.job() / lost).read_bytes()
    (place.job() / lost).unlink()
    ran = place("doctor", "--fix")
    assert ran.code == 0, ran
    again = (place.job() / lost).read_bytes()
    assert again == was if lost == "state.json" else SECRET.encode() in again
    assert place("job", "verify", "j1").code == 0


def test_rotation_is_off_where_the_config_says_so(place: Desk) -> None:
    place.settings("history: {rotate_at: 0}\n")
    assert place("job", "resume", "j1").code == 0
    assert len(closed(place)) == 5
    place.settings("history: {rotate_at: -1}\n")
    ran = place("job", "suspend", "j1")
    assert (ran.code, "history.rotate_at" in ran.err) == (5, True)


def test_its_answers_can_be_given_again_to_another_job(place: Desk) -> None:
    place.create("j2", "--no-repo")
    agent = f"scripted:{place.job()}"
    assert place("job", "step", "j2", "--agent", agent).code == 0
    assert place.state("j2")["last"]["evidence_files"] == ["a.txt"]
    segment(place, 2).unlink()
    ran = place("job", "step", "j2", "--agent", agent)
    assert (ran.code, "jobHistory.2.json.gz is missing" in ran.err) == (5, True)
    (place.job() / "damaged-on-purpose").touch()


def test_a_secret_in_a_segment_is_found(place: Desk) -> None:
    ran = place("job", "verify", "j1", "--secrets", env={"SOME_API_KEY": SECRET})
    assert ran.code == 3
    assert "jobHistory.1.json.gz" in ran.out + ran.err
    assert SECRET not in ran.out + ran.err
    segment(place, 1).write_bytes(segment(place, 1).read_bytes()[:-9])
    ran = place("job", "verify", "j1", "--secrets", env={"SOME_API_KEY": SECRET})
    assert "jobHistory.1.json.gz: can't decompress: the file is truncated" in ran.out + ran.err
    (place.job() / "damaged-on-purpose").touch()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def another_text(path: Path) -> None:
    text = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(text.replace(b"And b.txt", b"And x.txt")))


def swapped(path: Path) -> None:
    other = path.with_name("jobHistory.2.json.gz")
    path.rename(path.with_name("x"))
    other.rename(path)
    path.with_name("x").rename(other)


def linked(path: Path) -> None:
    path.rename(path.with_name("elsewhere.gz"))
    path.symlink_to("elsewhere.gz")


DAMAGE: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "missing": (Path.unlink, "jobHistory.4.json.gz is missing", "interactions 1 to 3 are valid\n"),
    "cut": (cut, "jobHistory.4.json.gz: can't decompress it", "interactions 1 to 3 are valid\n"),
    "changed": (
        another_text,
        "jobHistory.4.json.gz: interaction 4 failed verification",
        "interactions 1 to 3 are valid\n",
    ),
    "a link": (linked, "jobHistory.4.json.gz is a symbolic link", "interactions 1 to 3 are valid\n"),
    "swapped": (
        swapped,
        "jobHistory.2.json.gz: it contains segment 4, expected 2",
        "interaction 1 is valid\n",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_segment_that_is_no_good_is_damage(place: Desk, kind: str) -> None:
    spoil, message, extent = DAMAGE[kind]
    (place.job() / "damaged-on-purpose").touch()
    spoil(segment(place, 4))
    before = place.tree()
    ran = place("job", "verify", "j1")
    assert (ran.code, message in ran.err, extent in ran.out) == (10, True, True), ran
    data = json.loads(place("job", "verify", "j1", "--json").out)["data"]
    assert data["first_bad"]["offset"] is None
    for args in (("job", "replay", "j1"), ("job", "history", "j1")):
        ran = place(*args)
        assert (ran.code, message.partition(" ")[0].rstrip(":") in ran.err) == (10, True), ran
    assert place("job", "status", "j1").code in (0, 8)
    assert place.tree() == before
    assert place("doctor", "--deep").code == 10


def test_doctor_tells_what_lies_about_and_takes_away_only_what_is_held_twice(place: Desk) -> None:
    live = (place.job() / "jobHistory.json").read_bytes()
    segment(place, 6).write_bytes(gzip.compress(live))
    segment(place, 9).write_bytes(segment(place, 1).read_bytes())
    os.chmod(segment(place, 6), 0o600)
    os.chmod(segment(place, 9), 0o600)
    segment(place, 3).chmod(0o644)
    ran = place("doctor")
    said = ran.out + ran.err
    assert "jobHistory.6.json.gz was left by a killed command" in said
    assert "jobHistory.9.json.gz does not belong to jobHistory.json, which is segment 6" in said
    assert "wrong permissions, open to other users or closed to you: jobHistory.3.json.gz" in said
    place("doctor", "--fix")
    assert not segment(place, 6).exists()
    assert segment(place, 9).exists()
    assert segment(place, 3).stat().st_mode & 0o777 == 0o600
    [kept] = (place.home / "backup").glob("*/jobs/j1/jobHistory.6.json.gz")
    assert gzip.decompress(kept.read_bytes()) == live
    assert support.tree(place.job())["jobHistory.json"] == live


def test_doctor_is_quick_to_say_that_a_segment_is_missing(place: Desk) -> None:
    (place.job() / "damaged-on-purpose").touch()
    segment(place, 2).unlink()
    segment(place, 3).unlink()
    ran = place("doctor")
    assert ran.code == 10
    assert (
        "jobHistory.2.json.gz to jobHistory.3.json.gz are missing: the history is incomplete"
        in ran.out + ran.err
    )
