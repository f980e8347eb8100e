"""`logist job verify`: what it says of a job that is not whole."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.cli.desk import Desk, answer, command


def stepped(desk: Desk) -> Path:
    """A job with three interactions; its history."""
    desk.script(answer(command(), files={"a.txt": "A"}), answer())
    desk.create()
    desk("job", "step", "j1")
    desk("job", "step", "j1")
    return desk.job() / "jobHistory.json"


def damaged(desk: Desk) -> int:
    """The second interaction changed; the byte where it begins."""
    (desk.job() / "damaged-on-purpose").touch()
    history = desk.job() / "jobHistory.json"
    data = history.read_bytes()
    history.write_bytes(
        data.replace(b'"summary_for_supervisor":"Done."', b'"summary_for_supervisor":"Gone."', 1)
    )
    return data.index(b',{"sequence":2,')


def test_all_is_well(desk: Desk) -> None:
    stepped(desk)
    ran = desk("job", "verify", "j1")
    assert ran == (0, "j1 verifies: 3 interactions, and the state they give\n", "")


def test_damage_in_the_middle(desk: Desk) -> None:
    stepped(desk)
    offset = damaged(desk)
    before = desk.tree()
    ran = desk("job", "verify", "j1")
    assert ran.code == 10
    assert ran.out.splitlines() == [
        "interaction 1 verifies and chains",
        f"2 (byte {offset:,}) does not",
        "3: whole in itself, but no longer proven to follow",
    ]
    assert "interaction 2: the entry does not verify" in ran.err
    assert f"cp -a {desk.job()} {desk.job()}.copy" in ran.err
    assert desk.tree() == before


def test_the_same_in_json(desk: Desk) -> None:
    stepped(desk)
    offset = damaged(desk)
    data = desk("job", "verify", "j1", "--json").json["data"]
    assert (data["ok"], data["interactions"]) == (False, 1)
    assert data["trustworthy"] == {"first": 1, "last": 1}
    assert data["first_bad"] == {"sequence": 2, "offset": offset}
    assert [problem["sequence"] for problem in data["problems"]] == [2]


def test_a_cut_end_is_told_with_its_mend(desk: Desk) -> None:
    history = stepped(desk)
    size = history.stat().st_size
    with open(history, "ab") as file:
        file.write(b'{"sequence":4,')
    ran = desk("job", "verify", "j1")
    assert (ran.code, ran.out.splitlines()[1]) == (
        10,
        f"what follows (byte {size - 3:,}) was never a whole interaction",
    )
    assert "logist doctor --deep --fix" in ran.err
    assert desk("doctor", "--deep", "--fix").code == 0
    assert desk("job", "verify", "j1").code == 0


def test_a_state_that_is_not_what_the_history_gives(desk: Desk) -> None:
    stepped(desk)
    (desk.job() / "state.json").write_text("{}", "utf-8")
    ran = desk("job", "verify", "j1")
    assert (ran.code, ran.out) == (10, "interactions 1 to 3 verify and chain\n")
    assert "state.json does not verify" in ran.err
    assert "logist doctor --deep --fix" in ran.err


def test_checkpoints_that_are_gone(desk: Desk) -> None:
    stepped(desk)
    commit = desk.history()[1]["checkpoint_after"]
    for pack in (desk.job() / "git" / "objects" / "pack").iterdir():
        pack.unlink()
    ran = desk("job", "verify", "j1")
    assert ran.code == 10
    assert f"interaction 2: its checkpoint {commit} is not in git" in ran.err
    assert "doctor --deep" not in ran.err
    shutil.rmtree(desk.job() / "git")
    assert "is not in git" in desk("job", "verify", "j1").err


def test_a_job_yaml_that_does_not_read_is_a_note(desk: Desk) -> None:
    stepped(desk)
    (desk.job() / "job.yaml").write_text("prompt: [\n", "utf-8")
    ran = desk("job", "verify", "j1")
    assert ran.code == 0
    assert "job.yaml: " in ran.err
    (desk.job() / "job.yaml").unlink()
    assert "job.yaml: cannot be read" in desk("job", "verify", "j1").err


def test_a_state_that_is_missing_is_a_note(desk: Desk) -> None:
    stepped(desk)
    (desk.job() / "state.json").unlink()
    ran = desk("job", "verify", "j1")
    assert (ran.code, ran.out) == (0, "j1 verifies: 3 interactions\n")
    assert "state.json is missing; the next change makes it anew" in ran.err
