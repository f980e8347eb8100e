"""A manual step's assignee may be a person: who it is where a job waits, and what asks for roles leaves that name alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from logist.core.history.workflow_state import ASSIGNEE
from logist.core.model import State
from logist.jobs.archive import recorded_jobs
from tests import support
from tests.cli.desk import Desk, answer, command
from tests.cli.test_completion import completed
from tests.cli.test_show_workflow import data

FLOW: dict[str, Any] = {
    "name": "release",
    "steps": [
        {"id": "write", "prompt": "Write the notes."},
        {"id": "check", "execution": "manual", "assignee": "alice", "prompt": "Read NOTES.md."},
        {"id": "publish", "execution": "manual", "assignee": "Actor", "prompt": "Publish."},
        {"id": "thank", "prompt": "Thank them."},
    ],
}
OLD = support.ROOT / "fixtures/upgrades/manual-step-of-a-role"


@pytest.fixture
def waiting(desk: Desk) -> Desk:
    """Job `j1` waits for alice, `j2` for the role Actor, `other` for an agent."""
    (desk.place / "w.json").write_text(json.dumps(FLOW), "utf-8")
    (desk.place / "answers.json").write_text(
        json.dumps({"steps": {"write": [answer()], "thank": [answer()]}}), "utf-8"
    )
    for job_id in ("j1", "j2"):
        made = desk("job", "create", "--id", job_id, "--workflow", "w.json")
        assert made.code == 0, made.err
        assert desk("job", "run", job_id).code == 11
    assert desk("job", "approve", "j2").code == 0
    desk.create("other")
    return desk


def test_status_show_and_list_name_who_is_waited_for(waiting: Desk) -> None:
    rows = {row[0]: row[2] for row in map(str.split, waiting("job", "list").out.splitlines())}
    assert rows == {"j1": "alice", "j2": "Actor", "other": "Worker"}
    assert "\n  assignee: alice\n  to do:\n    Read NOTES.md.\n" in waiting("job", "status", "j1").out
    assert "\nassignee: alice\nto do:\n" in waiting("job", "show", "j1").out
    assert "check · manual · waiting for alice\n" in waiting("job", "show", "j1", "--graph").out
    for words in (("job", "status", "j1"), ("job", "show", "j1")):
        assert data(waiting, *words)["assignee"] == "alice"
    listed = data(waiting, "job", "list")
    assert [(row["id"], row["assignee"], row["role"]) for row in listed] == [
        ("j1", "alice", "Worker"),
        ("j2", "Actor", "Actor"),
        ("other", None, "Worker"),
    ]
    assert "assignee" not in waiting("job", "status", "other").out


def test_a_listing_can_be_of_one_assignee(waiting: Desk) -> None:
    def ids(*words: str) -> list[str]:
        return [line.split("\t")[0] for line in waiting("list", *words).out.splitlines()]

    assert ids("--assignee", "alice") == ["j1"]
    assert ids("--assignee", "Actor") == ["j2"]
    assert ids("--assignee", "Alice") == ids("--assignee", "Worker") == []
    assert ids("--assignee", "alice", "--status", "PENDING") == []
    assert waiting("job", "approve", "j1").code == 0
    assert ids("--assignee", "alice") == [], "she has done her step"
    assert ids("--assignee", "Actor") == ["j1", "j2"]


def test_a_shell_completes_the_assignees_that_jobs_wait_for(waiting: Desk) -> None:
    assert completed(waiting, "logist job list --assignee ") == ["Actor", "alice"]


@pytest.mark.parametrize("doers", ["x", {"check": 1}, {"check": {"role": 1}}, {}, None])
def test_a_state_that_names_nobody_is_listed_all_the_same(waiting: Desk, doers: Any) -> None:
    file = waiting.job("j1") / "state.json"
    file.write_text(json.dumps(waiting.state("j1") | {"doers": doers}), "utf-8")
    assert waiting("job", "list").out.startswith("j1\tAPPROVAL_REQUIRED\tWorker\t")


def test_a_person_is_no_role_whoever_is_switched_to(waiting: Desk) -> None:
    assert waiting("job", "role", "j1", "Actor").code == 0
    assert data(waiting, "job", "status", "j1")["assignee"] == "alice"
    assert waiting("list", "--assignee", "alice").out.startswith("j1\tAPPROVAL_REQUIRED\talice\t")
    assert waiting("job", "role", "j1", "--reset").code == 0
    state = State.model_validate(waiting.state("j1"))
    assert (state.agent_role, state.agent_role_source) == ("Worker", "default")
    assert state.doers is not None
    assert state.doers["check"].source == ASSIGNEE
    assert waiting("job", "reject", "j1", "--note", "Not yet.").code == 0
    given = waiting("job", "poststep", "j1", "--response-string", command(summary="Read it."))
    assert (given.code, "#6 Worker: COMPLETED" in given.out) == (11, True), given.err
    for words in (("verify", "j1"), ("replay", "j1")):
        assert waiting("job", *words).code == 0


def test_a_role_of_that_name_is_the_doer_as_ever(waiting: Desk) -> None:
    state = State.model_validate(waiting.state("j2"))
    assert (state.agent_role, state.agent_role_source) == ("Actor", "step")
    assert "  role: Actor (step)\n" in waiting("job", "status", "j2").out
    waiting("job", "reject", "j2", "--note", "Not yet.")
    given = waiting("job", "poststep", "j2", "--response-string", command(summary="Out."))
    assert "Actor: COMPLETED" in given.out


def test_a_job_of_an_earlier_version_names_its_assignee_too(desk: Desk) -> None:
    old = recorded_jobs.find_history(OLD).job
    assert old.verify() == []
    imported = desk.jobs / "j1"
    imported.mkdir()
    for name in ("jobHistory.json", "state.json"):
        (imported / name).write_bytes((OLD / name).read_bytes())
    assert desk("list", "--assignee", "Actor").out.split("\t")[:3] == ["j1", "APPROVAL_REQUIRED", "Actor"]


def test_a_history_that_goes_on_after_its_state_names_the_assignee(waiting: Desk) -> None:
    file = waiting.job("j1") / "state.json"
    before = file.read_bytes()
    assert waiting("job", "approve", "j1").code == 0
    file.write_bytes(before)
    assert waiting("list", "--assignee", "Actor").out.split("\t")[0] == "j1"


NO_NAME = "the assignee of step `a` must be one line of printable text (use at most 128 characters, "


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ({"assignee": "alice"}, "step `a` has the unknown role `alice`"),
        ({"assignee": "alice"}, "for a person, set `execution: manual`"),
        ({"assignee": "{{input.who}}"}, "only a foreach can have a template as its role"),
        ({"execution": "manual", "assignee": "{{input.who}}"}, NO_NAME),
        ({"execution": "manual", "assignee": "al\tice"}, NO_NAME),
        ({"execution": "manual", "assignee": " alice"}, NO_NAME),
        ({"execution": "manual", "assignee": "a" * 129}, NO_NAME),
    ],
)
def test_what_can_be_no_assignee_is_an_error_of_the_workflow(
    desk: Desk, step: dict[str, Any], error: str
) -> None:
    (desk.place / "w.json").write_text(json.dumps({"steps": [{"id": "a", "prompt": "x", **step}]}), "utf-8")
    ran = desk("workflow", "validate", "w.json")
    assert ran.code == 5
    assert error in ran.err + ran.out
    assert desk("job", "create", "--id", "j1", "--workflow", "w.json").code == 5


def test_a_person_in_a_workflow_within_another_gets_no_delegated_work(desk: Desk) -> None:
    inner = {"name": "inner", "steps": [FLOW["steps"][1]]}
    outer = {"name": "outer", "steps": [{"id": "s", "stepType": "subflow", "subflowId": "inner.json"}]}
    for name, flow in (("inner.json", inner), ("outer.json", outer)):
        (desk.place / name).write_text(json.dumps(flow), "utf-8")
    made = desk("job", "create", "--id", "j1", "--workflow", "outer.json", "--role", "Commander")
    assert made.code == 0, made.err
    assert desk("job", "run", "j1").code == 11
    assert desk("list", "--assignee", "alice").out.startswith("j1--2-1\tAPPROVAL_REQUIRED\talice\t")
