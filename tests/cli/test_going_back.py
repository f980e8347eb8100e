"""`logist job restep` and `logist job rerun`."""

from __future__ import annotations

import json

import pytest

from tests.cli.desk import Desk, answer, command


@pytest.fixture
def reviewed(desk: Desk) -> Desk:
    """The Worker made a.txt, then the Supervisor sent it back, then the Worker changed it."""
    desk.script(
        answer(command(evidence_files=["a.txt"]), files={"a.txt": "one"}, usage={"cost_cents": 5}),
        answer(command("RETRY", summary="Again.")),
        answer(command(evidence_files=["a.txt"]), files={"a.txt": "two", "b.txt": "B"}),
        answer(),
    )
    desk.create()
    for _ in range(3):
        desk("job", "step", "j1")
    return desk


def workspace(desk: Desk) -> dict[str, str]:
    folder = desk.job() / "workspace"
    return {path.name: path.read_text("utf-8") for path in folder.iterdir() if path.is_file()}


def test_restep_goes_back_before_an_interaction(reviewed: Desk) -> None:
    ran = reviewed("job", "restep", "j1", "--to", "3", "--note", "From here.")
    assert ran.code == 0
    assert "j1 is REVIEW_REQUIRED\n" in ran.out
    assert workspace(reviewed) == {"a.txt": "one"}
    assert reviewed.state()["usage"]["cumulative_cost"] == 5
    assert [entry["kind"] for entry in reviewed.history()] == ["create", "ask", "ask", "ask", "restep"]
    assert reviewed("job", "verify", "j1").code == 0


@pytest.mark.parametrize("to", ["0", "1", "5", "-1"])
def test_restep_to_nowhere(reviewed: Desk, to: str) -> None:
    before = reviewed.history()
    ran = reviewed("job", "restep", "j1", "--to", to)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"error: --to: interaction {to} not found (choose 2 to 4)\n"
    assert reviewed.history() == before


def test_restep_wants_to_know_where(reviewed: Desk) -> None:
    assert "Missing option '--to'" in reviewed("job", "restep", "j1").err


def test_rerun_starts_over(reviewed: Desk) -> None:
    ran = reviewed("job", "rerun", "j1")
    assert (ran.code, workspace(reviewed)) == (0, {})
    assert reviewed.state()["usage"]["cumulative_cost"] == 0
    assert reviewed("job", "step", "j1").code == 0
    assert workspace(reviewed) == {"a.txt": "one"}


def test_rerun_may_leave_the_workspace(reviewed: Desk) -> None:
    assert reviewed("job", "rerun", "j1", "--no-clean-git").code == 0
    assert workspace(reviewed) == {"a.txt": "two", "b.txt": "B"}


def test_rerun_may_keep_the_artefacts(reviewed: Desk) -> None:
    assert reviewed("job", "rerun", "j1", "--keep-files").code == 0
    kept = [path for path in (reviewed.job() / "attachments").rglob("*") if path.is_file()]
    assert [(path.name, path.read_text("utf-8")) for path in kept] == [("a.txt", "two")]
    assert workspace(reviewed) == {}


def test_rerun_wakes_an_ended_job(reviewed: Desk) -> None:
    reviewed("job", "cancel", "j1")
    assert reviewed("job", "rerun", "j1", "--note", "Once more.").code == 0
    assert reviewed.state()["status"] == "PENDING"


def test_a_fork_says_where_it_is_from_wherever_it_is_shown(reviewed: Desk) -> None:
    ran = reviewed("job", "fork", "j1", "--at", "3")
    assert ran.code == 0
    assert ran.out.splitlines()[:2] == ["j1-fork-1 is PENDING", "forked from j1 at interaction 3"]
    assert ran.out.splitlines()[-1] == "next: logist job step --job j1-fork-1"
    assert ran.err.startswith("usage up to this point counts for the new job too")
    assert "forked from j1 at interaction 3\n" in reviewed("job", "show", "j1-fork-1").out
    assert "  forked from j1 at interaction 3\n" in reviewed("job", "status", "j1-fork-1").out
    told = reviewed("job", "history", "j1-fork-1").out
    assert told.endswith("#4 steward: forked from j1 at interaction 3, PENDING -> PENDING\n")
    assert "forked" not in reviewed("job", "status", "j1").out
    assert reviewed.state("j1-fork-1")["usage"]["cumulative_cost"] == 5


def test_what_was_imported_is_told(reviewed: Desk) -> None:
    answered = {"action": "STUCK", "evidence_files": [], "summary_for_supervisor": "Which one?"}
    (reviewed.place / "old.json").write_text(json.dumps([{"sequence": 0, "response": answered}]), "utf-8")
    ran = reviewed("job", "import", "old.json")
    assert ran.code == 0
    assert ran.out.splitlines()[:2] == ["old is STUCK", "imported: 2 interactions from old.json"]
    assert "`raw_response` was rebuilt from the fields of the response (interaction 2)\n" in ran.err
    assert reviewed("job", "verify", "old").code == 0
    assert reviewed("job", "replay", "old").code == 0
    assert "Which one?" in reviewed("job", "status", "old").out
