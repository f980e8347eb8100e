"""What agents are asked at the steps of a workflow, by which role, and what comes of their answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from logist.core.model import Kind, Phase, Status, StuckKind
from logist.core.model.commands import ApproveCommand
from logist.core.step.step import StepPlan
from logist.errors import InvalidFile
from logist.jobs.base import job_reader
from logist.jobs.doctor import job_checks
from logist.jobs.doctor.backup import Backup
from logist.jobs.doctor.checks import Repairs
from logist.jobs.steward.role_switch import switch_role
from logist.jobs.steward.steward_decisions import record_decision
from logist.jobs.turn.next_request import Choice, preview_request
from tests.jobs.bench import PLAN, Bench, answer, command, gave
from tests.jobs.conftest import MakeBench


def prompt_of(b: Bench, step: str, job_id: str = "j") -> str:
    """The last prompt at a step."""
    found = [entry for entry in b.history(job_id) if entry.kind is Kind.ASK and entry.step == step]
    return found[-1].request.prompt


def halves(b: Bench, step: str) -> tuple[str, str]:
    """The system half and the user half of the last prompt at a step."""
    entry = [entry for entry in b.history() if entry.kind is Kind.ASK and entry.step == step][-1]
    start = entry.request.metadata["user_start"]
    return entry.request.prompt[:start], entry.request.prompt[start:]


# --- frozen ---


def test_a_workflow_is_frozen_when_the_job_is_made(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    file = tmp_path / "w.yaml"
    file.write_text("name: W\nsteps:\n- {id: a, prompt: The old one.}\n- {id: b, prompt: The old end.}\n")
    b.follow(file, steps={"a": [gave()], "b": [gave()]})
    file.write_text("name: W\nsteps: []\n")
    b.step()
    file.unlink()
    assert b.run().state.status is Status.SUCCESS
    assert "The old one." in prompt_of(b, "a")
    assert "The old end." in prompt_of(b, "b")
    assert [entry.kind for entry in b.history()] == [Kind.CREATE, Kind.ASK, Kind.ASK]


@pytest.mark.parametrize("text", [None, "{", "[]", '{"name": "W"}', "\udcff"])
def test_a_frozen_workflow_that_is_gone_is_made_again_by_the_doctor(
    bench: MakeBench, text: str | None
) -> None:
    b = bench()
    b.follow("decisions.mmd", steps={"A": [gave({"sound": True, "size": 1})], "S": [gave()]})
    job = b.project.open_job("j")
    before = job.workflow_file.read_bytes()
    if text is None:
        job.workflow_file.unlink()
    else:
        job.workflow_file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InvalidFile, match=r"frozen workflow: .*doctor --fix"):
        b.step()
    job_checks.repair(b.project, job, Repairs(Backup(b.project)), deep=False)
    assert job.workflow_file.read_bytes() == before
    assert b.run().state.status is Status.SUCCESS


def test_a_frozen_workflow_that_was_changed_is_not_followed(bench: MakeBench) -> None:
    b = bench()
    b.follow("decisions.mmd", steps={"A": [gave({"sound": True, "size": 1})], "S": [gave()]})
    job = b.project.open_job("j")
    before = job.workflow_file.read_bytes()
    job.workflow_file.write_bytes(before.replace(b"Measure", b"Guess"))
    history = job.history_file.read_bytes()
    with pytest.raises(InvalidFile, match=r"was changed after the job was created .*doctor --fix"):
        b.step()
    assert job.history_file.read_bytes() == history
    job_checks.repair(b.project, job, Repairs(Backup(b.project)), deep=False)
    assert job.workflow_file.read_bytes() == before
    assert b.run().state.status is Status.SUCCESS


def test_a_workflow_that_can_not_be_used_leaves_nothing_behind(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    file = tmp_path / "w.yaml"
    file.write_text(
        "name: W\nsteps:\n- {id: a, prompt: x, role: Nobody}\n"
        "- {id: c, stepType: foreach, itemsPath: output.x, subflowId: missing.yaml}\n"
        "- {id: d, stepType: decision, branches: [{condition: 'output. >', to: nowhere}]}\n"
    )
    with pytest.raises(InvalidFile) as refused:
        b.follow(file)
    for word in ("Nobody", "missing.yaml", "nowhere", "output. >"):
        assert word in str(refused.value)
    assert not b.project.jobs_dir.exists() or list(b.project.jobs_dir.iterdir()) == []


def test_six_workflows_within_each_other_are_refused(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    for number in range(1, 7):
        inner = f"stepType: subflow, subflowId: w{number + 1}.yaml" if number < 6 else "prompt: Do it."
        (tmp_path / f"w{number}.yaml").write_text(f"name: w{number}\nsteps:\n- {{id: s, {inner}}}\n")
    with pytest.raises(InvalidFile, match="the limit is 5"):
        b.follow(tmp_path / "w1.yaml")
    assert b.follow(tmp_path / "w2.yaml").status is Status.PENDING


def test_a_job_that_is_too_deep_gives_nothing_away(bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench()
    for number in range(1, 6):
        b.create(f"p{number}", parent=f"p{number - 1}" if number > 1 else None)
    monkeypatch.setattr("logist.jobs.base.family.require_wanted", lambda *given: None)
    b.follow("fan-out.yaml", parent="p5", steps={"plan": [gave({"parts": [1]})]})
    b.step()
    assert "workflows are nested 6 levels deep; the limit is 5" in b.step().state.reason
    assert b.children() == []


# --- prompts ---


def test_the_prompt_of_a_step(bench: MakeBench) -> None:
    b = bench()
    b.follow(
        "roles.yaml",
        steps={"plan": [gave({**PLAN, "n": "{{input}}"})], "do": [gave(), gave()]},
        title="All of it",
    )
    b.step()
    system, user = halves(b, "plan")
    assert "## Agent Role\nYou speak like a pirate, and only to other agents." in system
    assert "pirate" not in user
    expected = (
        "## Workflow Step: plan\n\n## Step Guidance\n- keep it short\n- leave {{braces}} alone\n\nPlan."
    )
    assert expected in user
    assert user.index("## Workflow Step") < user.index("## Task: All of it")
    b.step()
    system, user = halves(b, "do")
    assert "## Agent Role" not in system
    assert '"n": "{{input}}"' in user
    assert "Steps so far" not in user
    _, plan = preview_request(b.project, "j", Choice())
    assert isinstance(plan, StepPlan)
    assert plan.phase is Phase.REVIEWER
    assert "pirate" not in plan.request.prompt


def test_what_was_done_before_is_told(bench: MakeBench) -> None:
    b = bench()
    b.follow(
        "roles.yaml",
        steps={
            "plan": [answer(command(summary="Planned\nin two lines.", output=PLAN))],
            "do": [
                answer(command(summary="Did it.", output={"made": 2})),
                answer(command(summary="It is good.", output=None)),
            ],
            "ask": [answer(command(summary="Asked.", output={"asked": 3}))],
            "last": [gave()],
        },
    )
    for _ in range(4):
        b.step()
    asked = prompt_of(b, "ask")
    assert "## Steps so far\n\n- plan: Planned in two lines.\n- do: Did it." in asked
    assert "Tester ended with COMPLETED: It is good." in asked
    assert '## Output of the previous step\n\n```\n{\n "made": 2\n}\n```' in asked
    record_decision(b.project, "j", Kind.APPROVE, command=ApproveCommand(output={"asked": 4}))
    b.step()
    last = prompt_of(b, "last")
    assert '"asked": 4' in last
    assert '"asked": 3' not in last
    assert "- plan: Planned in two lines.\n- do: Did it." in last
    assert "Output of the previous step" not in last


def test_data_is_never_read_as_a_template(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    file = tmp_path / "w.yaml"
    file.write_text(
        "name: W\nsteps:\n- {id: a, prompt: x}\n- {id: b, prompt: 'See {{output.x}} {{input.y}} {{gone}}'}\n"
    )
    b.follow(
        file,
        input={"y": "{{output}}"},
        steps={"a": [gave({"x": "{{if input}}{{steps.a.output}}"})], "b": [gave()]},
    )
    b.run()
    assert "See {{if input}}{{steps.a.output}} {{output}} {{gone}}" in prompt_of(b, "b")
    assert any("gone" in said for said in b.said)


# --- roles ---


def roles_asked(b: Bench, job_id: str = "j") -> list[str]:
    return [entry.observed.role for entry in b.history(job_id) if entry.observed]


def test_each_step_has_its_role_and_its_reviewer(bench: MakeBench) -> None:
    b = bench()
    b.follow(
        "roles.yaml",
        role="Actor",
        steps={"plan": [gave(PLAN)], "do": [gave(), gave()], "ask": [gave()], "last": [gave()]},
    )
    shown = [(b.state().step, b.state().agent_role, b.state().agent_role_source)]
    while b.step().entries:
        shown.append((b.state().step, b.state().agent_role, b.state().agent_role_source))
    assert shown == [
        ("plan", "Planner", "step"),
        ("do", "Actor", "step"),
        ("do", "Actor", "step"),
        ("ask", "Actor", "job"),
        ("ask", "Actor", "job"),
    ]
    assert b.state().badge
    state = b.state()
    assert (state.status, state.place.awaiting) == (Status.APPROVAL_REQUIRED, "review")
    record_decision(b.project, "j", Kind.APPROVE)
    assert b.run().state.status is Status.SUCCESS
    assert roles_asked(b) == ["Planner", "Actor", "Tester", "Actor", "Actor"]


def test_a_switch_holds_at_every_step_until_it_is_taken_back(bench: MakeBench) -> None:
    b = bench()
    b.follow("roles.yaml", steps={"plan": [gave(PLAN), gave(PLAN)], "do": [gave(), gave()], "ask": [gave()]})
    switch_role(b.project, "j", "Designer")
    b.step()
    assert (b.state().step, b.state().agent_role, b.state().agent_role_source) == ("do", "Designer", "switch")
    switch_role(b.project, "j", None)
    state = b.state()
    assert (state.agent_role, state.agent_role_source) == ("Actor", "step")
    b.step()
    b.step()
    assert roles_asked(b) == ["Designer", "Actor", "Tester"]


def test_a_role_for_one_step_comes_before_all(bench: MakeBench) -> None:
    b = bench()
    b.follow("roles.yaml", steps={"plan": [gave(PLAN)]})
    b.step(role="Designer")
    assert roles_asked(b) == ["Designer"]


def test_a_review_that_asks_for_more_is_rework_of_the_same_step(bench: MakeBench) -> None:
    b = bench()
    b.follow(
        "roles.yaml",
        steps={
            "plan": [gave(PLAN)],
            "do": [gave(), gave(action="RETRY", role="Tester"), gave({"made": 1}), gave()],
        },
    )
    for _ in range(3):
        b.step()
    assert (b.state().status, b.state().step, b.state().place.attempts) == (Status.PENDING, "do", 1)
    b.step()
    b.step()
    assert b.state().step == "ask"


def test_no_review_wins_over_the_steps(bench: MakeBench) -> None:
    b = bench()
    b.follow("roles.yaml", review=False, steps={"plan": [gave(PLAN)], "do": [gave()]})
    b.step()
    assert b.step().state.step == "ask"


def test_children_are_reviewed_as_their_parent_says(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    file = tmp_path / "w.yaml"
    file.write_text(
        "name: W\nsteps:\n- {id: s, stepType: foreach, itemsPath: input.x, prompt: y, review: true}\n"
    )
    for job_id, review in (("j", None), ("k", False)):
        b.follow(
            file, job_id, input={"x": [1]}, review=review, review_role="Tester", steps={"s": [gave(), gave()]}
        )
        assert b.run(job_id).state.status is Status.SUCCESS
    assert roles_asked(b, "j--2-1") == ["Worker", "Tester"]
    assert roles_asked(b, "k--2-1") == ["Worker"]


LISTED = "name: W\nsteps:\n- {id: p, prompt: x}\n- {id: s, stepType: %s, role: %s}\n"
FOREACH = "foreach, itemsPath: output.x, prompt: y"


@pytest.mark.parametrize(
    ("role", "fine"), [("Actor", True), ("Planner", True), ("Worker", False), ("Commander", True)]
)
def test_a_commander_gives_work_to_the_roles_it_lists(
    bench: MakeBench, tmp_path: Path, role: str, fine: bool
) -> None:
    b = bench()
    file = tmp_path / "w.yaml"
    file.write_text(LISTED % (FOREACH, role))
    if fine:
        assert b.follow(file, role="Commander").status is Status.PENDING
        return
    with pytest.raises(InvalidFile, match=r"`Commander` may not delegate work to `Worker`"):
        b.follow(file, role="Commander")
    assert not b.folder().exists()


def test_a_commander_by_default_or_by_a_switch_is_bound_too(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    file = tmp_path / "w.yaml"
    file.write_text(LISTED % (FOREACH, "Worker"))
    b.follow(file, steps={"p": [gave({"x": [1]}), gave({"x": [1]})]})
    b.step()
    switch_role(b.project, "j", "Commander")
    stuck = b.step().state
    assert (stuck.status, b.children()) == (Status.STUCK, [])
    assert "the role Commander may not delegate work to Worker; allowed roles: Planner, Actor" in stuck.reason
    switch_role(b.project, "j", None)
    record_decision(b.project, "j", Kind.RESUBMIT)
    assert b.step().state.status is Status.WAITING
    other = bench(settings={"roles": {"default": "Commander"}})
    with pytest.raises(InvalidFile, match="may not delegate work to `Worker`"):
        other.follow(file)


def test_what_a_commander_lists_holds_for_workflows_within(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    (tmp_path / "inner.yaml").write_text(
        "name: I\nsteps:\n- {id: a, prompt: x, role: Actor, reviewRole: Tester}\n"
    )
    file = tmp_path / "w.yaml"
    file.write_text("name: W\nsteps:\n- {id: s, stepType: subflow, subflowId: inner.yaml}\n")
    with pytest.raises(InvalidFile, match="may not delegate work to `Tester`"):
        b.follow(file, role="Commander")
    b.follow(file)
    switch_role(b.project, "j", "Commander")
    assert "may not delegate work to Tester" in b.step().state.reason


# --- answers in sections, and how sure they are ---


def in_sections(
    status: str = "SUCCESS", action: str = "COMPLETE", output: Any = None, **metadata: Any
) -> dict[str, Any]:
    told = {"confidence": 0.9, **metadata}
    text = (
        f"## Status\n{status}\n\n## Summary\nSorted.\n\n## Output\n{json.dumps(output)}\n\n"
        f"## Next Action\n{action}\n\n## Metadata\n```json\n{json.dumps(told)}\n```\n"
    )
    return answer(text)


def test_an_answer_in_sections_is_followed(bench: MakeBench) -> None:
    b = bench()
    b.follow("sections.yaml", steps={"sort": [in_sections(output={"kind": "bug"})], "fix": [gave()]})
    assert b.run().state.status is Status.SUCCESS
    entry = b.history()[1]
    assert entry.route[0]["branch"] == "fix"
    assert entry.response.metadata is not None
    assert entry.response.metadata["confidence"] == 0.9
    assert entry.response.summary_for_supervisor == "Sorted."
    system, user = halves(b, "sort")
    assert "## Next Action" in user
    assert "evidence_files" not in user
    assert "## Agent Context\n" in system
    assert "**Tags:** None" in user
    assert "`evidence_files` (required)" in halves(b, "fix")[1]


@pytest.mark.parametrize(
    ("status", "action", "leads"),
    [
        ("PARTIAL", "COMPLETE", Status.PENDING),
        ("PARTIAL", "CONTINUE", Status.PENDING),
        ("BLOCKED", "COMPLETE", Status.STUCK),
        ("FAILED", "CONTINUE", Status.STUCK),
        ("SUCCESS", "ESCALATE", Status.STUCK),
        ("SUCCESS", "HOLD", Status.STUCK),
        ("GREAT", "COMPLETE", Status.STUCK),
    ],
)
def test_what_sections_say_decides(bench: MakeBench, status: str, action: str, leads: Status) -> None:
    b = bench()
    b.follow("sections.yaml", steps={"sort": [in_sections(status, action, {"kind": "bug"})]})
    state = b.step().state
    assert state.status is leads
    assert state.step == ("fix" if (status, action) == ("PARTIAL", "COMPLETE") else "sort")


def test_an_exit_command_is_no_answer_in_sections(bench: MakeBench) -> None:
    b = bench()
    b.follow("sections.yaml", steps={"sort": [gave({"kind": "bug"})]})
    assert b.step().state.status is Status.STUCK


@pytest.mark.parametrize(
    ("kind", "suggestion", "taken"),
    [
        ("none", "wish", "wish"),
        ("none", "Grant the wish", "wish"),
        ("none", "other", "file"),
        ("none", None, "file"),
        ("none", "sort", "file"),
        ("bug", "wish", "fix"),
    ],
)
def test_a_suggestion_leads_only_to_a_step_that_may_follow(
    bench: MakeBench, kind: str, suggestion: str | None, taken: str
) -> None:
    b = bench()
    told = in_sections(output={"kind": kind}, suggested_next_stage=suggestion)
    b.follow("sections.yaml", steps={"sort": [told]})
    assert b.step().state.step == taken
    assert b.history()[1].route[0].get("suggested") == (suggestion if taken == "wish" else None)


@pytest.mark.parametrize(("sure", "asks"), [(0.59, True), (0.6, False), (1, False), (0, True)])
def test_an_agent_that_is_not_sure_asks_for_a_steward(bench: MakeBench, sure: float, asks: bool) -> None:
    b = bench()
    b.follow(
        "sections.yaml",
        steps={"sort": [in_sections(output={"kind": "wish"}, confidence=sure)], "wish": [gave()]},
    )
    state = b.step().state
    assert (state.status is Status.APPROVAL_REQUIRED, state.place.awaiting == "review") == (asks, asks)
    if asks:
        assert (state.step, b.history()[1].route) == ("sort", [])
        record_decision(b.project, "j", Kind.APPROVE)
        assert b.history()[-1].route[0]["branch"] == "wish"
    assert b.run().state.status is Status.SUCCESS


def test_a_steward_who_rejects_what_was_done_has_it_done_again(bench: MakeBench) -> None:
    b = bench()
    unsure = in_sections(output={"kind": "wish"}, confidence=0.1)
    b.follow("sections.yaml", steps={"sort": [unsure, in_sections(output={"kind": "bug"})]})
    b.step()
    record_decision(b.project, "j", Kind.REJECT, note="Look again.")
    assert (b.state().status, b.state().step) == (Status.PENDING, "sort")
    assert b.step().state.step == "fix"
    assert "Look again." in prompt_of(b, "sort")


def gated(b: Bench, tmp_path: Path, metadata: Any, *, more: str = "", reviewer: str = "") -> None:
    """A job at a step that asks for a confidence of at least 0.8, and its answer with these metadata."""
    file = tmp_path / "gated.yaml"
    file.write_text(
        f"name: G\nsteps:\n- {{id: rate, prompt: Rate it., confidence: 0.8{more}}}\n- {{id: b, prompt: Go on.}}\n"
    )
    said = command(output=1, **({} if metadata is None else {"metadata": metadata}))
    reviewed = [answer(reviewer)] if reviewer else []
    b.follow(file, steps={"rate": [answer(said), *reviewed], "b": [gave()]})


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        (None, "the answer has no confidence"),
        ({"confidence": 1.5}, "is 1.5, which is not a number from 0 to 1"),
        ({"confidence": "high"}, 'is "high", which is not a number from 0 to 1'),
        ({"confidence": True}, "is true, which is not a number from 0 to 1"),
        ({"confidence": 0.79}, "is 0.79; this step requires at least 0.8"),
    ],
)
def test_a_confidence_that_is_missing_or_no_number_waits_for_approval(
    bench: MakeBench, tmp_path: Path, metadata: Any, why: str
) -> None:
    b = bench()
    gated(b, tmp_path, metadata)
    state = b.step().state
    assert (state.status, state.place.awaiting) == (Status.APPROVAL_REQUIRED, "review")
    assert why in state.reason
    record_decision(b.project, "j", Kind.APPROVE)
    assert b.run().state.status is Status.SUCCESS


def test_the_prompt_of_a_step_with_a_threshold_asks_for_the_confidence(
    bench: MakeBench, tmp_path: Path
) -> None:
    b = bench()
    gated(b, tmp_path, {"confidence": 0.8})
    assert b.run().state.status is Status.SUCCESS
    system, _ = halves(b, "rate")
    assert '"metadata": {"confidence": NUMBER}' in system
    assert "0.8" not in system
    assert "confidence" not in prompt_of(b, "b")
    file = tmp_path / "in-sections.yaml"
    file.write_text("steps:\n- {id: a, prompt: x, confidence: 0.5, responseFormat: sections}\n")
    b.follow(file, "k", steps={"a": [in_sections(confidence=0.5)]})
    b.step("k")
    assert "In the section Metadata, `confidence` is required: one number" in prompt_of(b, "a", "k")


def test_the_reason_is_there_after_the_review_too(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    passed = command(output={"verdict": "PASS", "findings": []})
    gated(b, tmp_path, None, more=", review: true", reviewer=passed)
    assert b.step().state.status is Status.REVIEW_REQUIRED
    assert "confidence" not in b.state().reason
    assert b.step().state.status is Status.APPROVAL_REQUIRED
    assert "the answer has no confidence" in b.state().reason
    assert job_reader.verify_job(b.project, b.project.open_job("j")).problems == ()


# --- jobs from before ---


def test_a_job_without_a_workflow_ends_after_its_task(bench: MakeBench) -> None:
    b = bench([gave({"score": 1})])
    b.create(review=False, approval="none")
    assert b.step().state.status is Status.SUCCESS
    raw = json.loads((b.folder() / "state.json").read_text())
    assert (raw["workflow"], raw["children"], raw["visits"]) == (None, [], None)
    assert b.history()[1].route == []


def test_a_state_from_before_workflows_verifies(bench: MakeBench) -> None:
    b = bench([gave({"score": 1})])
    b.create()
    b.step()
    job = b.project.open_job("j")
    raw = json.loads((b.folder() / "state.json").read_text())
    job.write_state({name: value for name, value in raw.items() if value is not None and name != "checksum"})
    assert job_reader.verify_job(b.project, job).problems == ()
    record_decision(b.project, "j", Kind.CANCEL)


def test_an_answer_for_another_step_is_kept_and_not_used(bench: MakeBench) -> None:
    b = bench()
    b.follow("roles.yaml", steps={"plan": [gave(PLAN)], "do": [gave()]})
    assert b.state().place.stuck is None
    from tests.jobs.test_recovery import left_in_flight, response

    job, _ = left_in_flight(b)
    job.mark_sent(1)
    job.save_response(1, response(command(summary="Of the plan.")))
    request = job.inflight / "1.request"
    asked = json.loads(request.read_text())
    request.write_text(json.dumps({**asked, "step": "last"}))
    result = b.step()
    assert result.state.place.stuck is not None
    assert (result.state.place.stuck.kind, result.state.step) == (StuckKind.IN_DOUBT, "plan")
    assert "late answer" in result.state.reason
    assert "Of the plan." in b.history()[-1].response.raw_response


def test_a_secret_that_a_steward_gives_reaches_no_file(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    file = tmp_path / "w.yaml"
    file.write_text("name: W\nsteps:\n- {id: m, execution: manual, prompt: x}\n")
    b.follow(file)
    key = "sk-ant-api03-" + "A" * 93 + "AA"
    record_decision(
        b.project, "j", Kind.APPROVE, command=ApproveCommand(output={"keys": [key], "text": "a\ud800b"})
    )
    assert b.state().outputs["m"]["keys"] == ["[redacted]"]
    assert not any(key.encode() in content for content in b.files().values())
