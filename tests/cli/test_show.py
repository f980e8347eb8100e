"""`logist job show`."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from tests.cli.desk import Desk, answer, command


def test_what_was_asked_answered_and_made(desk: Desk, snapshot: SnapshotAssertion) -> None:
    desk.script(
        answer(
            command(summary="Wrote a.", evidence_files=["a.txt"], output={"lines": 1}), files={"a.txt": "A"}
        ),
        answer("Looks fine to me."),
    )
    desk.create("j1", "--title", "Write a", prompt="Write a.\nNo b.\n")
    desk("job", "run", "j1")
    before = desk.tree()
    ran = desk("job", "show", "j1")
    assert ran.code == 0
    assert desk.shown(ran) == snapshot
    assert desk.tree() == before


def test_a_new_job_has_nothing_to_show_but_its_spec(desk: Desk) -> None:
    desk.create("j1", "--draft", "--rank", "3")
    data = desk("job", "show", "j1", "--json").json["data"]
    assert data["spec"] == {"id": "j1", "prompt": "Do it.", "rank": 3}
    assert (data["answers"], data["artefacts"], data["outputs"]) == ([], [], {})
    assert data["paths"]["workspace"] == str(desk.job() / "workspace")


def test_completed_without_a_change_is_said(desk: Desk) -> None:
    desk.create("j1")
    stepped = desk("job", "step", "j1", "--json").json["data"]["interactions"]
    assert [row["unchanged"] for row in stepped] == [True]
    assert "   no files changed" in desk("job", "show", "j1").out.splitlines()
    assert "## The last run changed no file" in desk("job", "preview", "j1").out
    desk.script(answer(files={"a.txt": "A"}))
    desk.create("j2")
    desk("job", "step", "j2")
    assert "no files changed" not in desk("job", "show", "j2").out
    assert "## The last run changed no file" not in desk("job", "preview", "j2").out


def test_changed_files_that_are_no_evidence_are_pointed_out(desk: Desk) -> None:
    files = {"a.txt": "A", "b.txt": "B", "docs/c.txt": "C", "docs/d.txt": "D"}
    desk.script(answer(command(evidence_files=["a.txt", "docs"]), files=files))
    desk.create("j1")
    desk("job", "step", "j1")
    shown = desk("job", "show", "j1").out
    assert "   evidence: a.txt, docs\n" in shown
    assert "   changed: a.txt, b.txt, docs/c.txt, docs/d.txt\n" in shown
    assert "   changed, but not listed as evidence: b.txt\n" in shown
    row = desk("job", "show", "j1", "--json").json["data"]["answers"][0]
    assert row["unnamed_changes"] == ["b.txt"]
    prompt = desk("job", "preview", "j1").out
    assert "- created: a.txt\n" in prompt
    assert "- created: b.txt (not named as evidence)\n" in prompt
    assert "- created: docs/c.txt\n" in prompt
    assert "Check the files that are not named as evidence too" in prompt


def test_named_files_are_not_pointed_out(desk: Desk) -> None:
    desk.script(answer(command(evidence_files=["a.txt"]), files={"a.txt": "A"}))
    desk.create("j1")
    desk("job", "step", "j1")
    assert "not listed as evidence" not in desk("job", "show", "j1").out
    assert "not named as evidence" not in desk("job", "preview", "j1").out
