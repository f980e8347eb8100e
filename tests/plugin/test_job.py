"""The fixture `logist_job`: a job whose answers a test says, in a person's own tests."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logist.core.model import Kind, Status
from logist.errors import InvalidFile, LogistError, UsageError
from logist.testing import LogistJob, answer
from logist.testing.job import to_script_answer
from logist.testing.offline import forbid_network
from tests.plugin.conftest import Run, recorded

Make = Callable[..., LogistJob]
PLAIN = {"action": "COMPLETED", "evidence_files": [], "summary_for_supervisor": "done"}


def test_a_job_from_its_prompt_to_its_approval(logist_job: Make) -> None:
    job = logist_job(
        prompt="Write notes.md.",
        files={"src/a.txt": "A"},
        answers=[answer(evidence=["notes.md"], files={"notes.md": "N"}), PLAIN],
    )
    assert job.step().state.status is Status.REVIEW_REQUIRED
    assert job.run().state.status is Status.APPROVAL_REQUIRED
    assert job.approve("good").state.status is job.status is Status.SUCCESS
    assert [entry.kind for entry in job.history] == ["create", "ask", "ask", "approve"]
    assert (job.workspace / "notes.md").read_text() == "N"
    assert (job.workspace / "src" / "a.txt").read_text() == "A"
    assert "Write notes.md." in job.prompts[0]
    assert "- src/a.txt" in job.prompts[0]
    assert job.replay().differences == ()
    assert job.verify().problems == ()


def test_two_runs_of_a_test_give_the_same_history(logist_job: Make) -> None:
    def told(job: LogistJob) -> list[Any]:
        job.run()
        return [(each.timestamp, each.request, each.response, each.after) for each in job.history]

    first, second = (told(logist_job(answers=[PLAIN, PLAIN])) for _ in range(2))
    assert first == second


def test_it_goes_back_and_on(logist_job: Make) -> None:
    job = logist_job(answers=["no command", PLAIN])
    assert job.step().exit_code == 3
    assert job.resubmit("Answer in JSON.").state.status is Status.PENDING
    assert job.poststep(PLAIN).state.status is Status.REVIEW_REQUIRED
    assert job.restep(2).state.status is Status.PENDING
    assert job.rerun().state.status is Status.PENDING
    assert job.decide("cancel", "enough").state.status is Status.CANCELED
    assert job.replay().differences == ()


def test_roles_config_and_workflow_of_the_test(logist_job: Make, tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text(
        "---\nname: Checker\ndescription: d\nllm_model: m\n---\nCheck it all.\n"
    )
    job = logist_job(
        roles={
            "Builder": {"instructions": "Build with care."},
            "Checker": tmp_path / "mine.md",
            "Careful": "name: Careful\nbase: Worker\ndescription: More careful.\n",
        },
        config={"review": {"role": "Checker"}, "limits": {"max_attempts": 2}},
        role="Builder",
        answers=[answer(role="Builder"), answer(role="Checker")],
    )
    assert job.run().state.status is Status.APPROVAL_REQUIRED
    assert "Build with care." in job.prompts[0]
    assert "Check it all." in job.prompts[1]
    assert job.state.limits.max_attempts == 2
    flow = {"name": "two", "steps": [{"id": "a", "prompt": "Do A."}, {"id": "b", "prompt": "Do B."}]}
    job = logist_job(
        workflow=flow, steps={"a": [PLAIN], "b": [answer(output=3)]}, review=False, approval="none"
    )
    assert job.run().state.status is Status.SUCCESS
    assert job.said == []


def test_the_project_of_the_person(logist_job: Make, tmp_path: Path) -> None:
    own = tmp_path / "own" / ".logist"
    (own / "roles").mkdir(parents=True)
    role = {"name": "Mine", "description": "d", "instructions": "My way.", "llm_model": "m"}
    (own / "roles" / "Mine.json").write_text(json.dumps(role))
    (own / "config.yaml").write_text("roles: {default: Mine}\nlimits: {max_attempts: 7}\n")
    job = logist_job(project=tmp_path / "own", config={"review": {"enabled": False}}, answers=[PLAIN])
    job.run()
    assert "My way." in job.prompts[0]
    assert (job.state.limits.max_attempts, job.status) == (7, Status.APPROVAL_REQUIRED)
    assert not (own / "jobs").exists()
    with pytest.raises(UsageError, match=r"no \.logist in"):
        logist_job(project=tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"answers": [{"text": 3}]}, InvalidFile, "answers"),
        ({"answers": [{"files": {"/etc/x": ""}, **PLAIN}]}, InvalidFile, "is outside the workspace"),
        ({"answers": [5]}, UsageError, "an answer must be a text or a mapping, got int"),
        ({"limit": {"cost_threshold": 5}}, InvalidFile, "limit"),
        ({"rank": "high"}, InvalidFile, "rank"),
        ({"roles": {"../../R": {}}}, UsageError, "invalid file name"),
        ({"files": {"../x": ""}}, UsageError, "is outside the workspace"),
        ({"config": {"limit": {}}}, InvalidFile, "limit"),
        ({"role": "Nobody"}, LogistError, "Nobody"),
        ({"workflow": "nowhere.yaml"}, LogistError, "nowhere.yaml"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_what_is_wrong_is_said(logist_job: Make, given: Any, error: type[LogistError], said: str) -> None:
    with pytest.raises(error, match=said):
        logist_job(**given)


@pytest.mark.parametrize("kind", ["aprove", "ask"])
def test_what_is_no_decision_is_said(logist_job: Make, kind: str) -> None:
    with pytest.raises(UsageError, match=f"unknown decision '{kind}'.*approve"):
        logist_job().decide(kind)


@pytest.mark.parametrize(
    ("given", "script"),
    [
        ("text", {"text": "text"}),
        (PLAIN, {"exit": PLAIN}),
        ({**PLAIN, "files": {"a": "b"}}, {"exit": PLAIN, "files": {"a": "b"}}),
        ({"text": "t", "role": "R"}, {"text": "t", "role": "R"}),
        ({"error": {"kind": "timeout", "message": "m"}}, {"error": {"kind": "timeout", "message": "m"}}),
        (answer("STUCK", "why", output=[1]), {"exit": {**PLAIN, "action": "STUCK", "summary_for_supervisor": "why", "output": [1]}}),
    ],
)  # fmt: skip
def test_the_ways_to_say_an_answer(given: Any, script: dict[str, Any]) -> None:
    assert to_script_answer(given) == script


def test_no_key_and_no_setting_of_the_person_is_seen(
    logist_job: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-person-12345678")
    monkeypatch.setenv("LOGIST_AGENT", "litellm")
    monkeypatch.setenv("LOGIST_STEWARD", "somebody")
    job = logist_job(answers=[PLAIN])
    job.step()
    assert job.project.secrets == ()
    assert job.project.environment.agent_name() is None
    assert job.history[0].steward.name == "tester"  # type: ignore[union-attr]


def test_only_the_thread_of_a_job_is_without_network() -> None:
    def serve() -> None:
        socket.socket().close()
        served.append(True)

    served: list[bool] = []
    with forbid_network():
        thread = threading.Thread(target=serve)
        thread.start()
        thread.join()
        with pytest.raises(pytest.fail.Exception, match="unexpected network access"):
            socket.getaddrinfo("localhost", 80)
    assert served == [True]
    serve()


def test_an_answer_more_than_there_is(logist_job: Make) -> None:
    job = logist_job()
    result = job.step()
    assert (result.exit_code, result.entries[-1].kind) == (6, Kind.ASK)
    job.script("", PLAIN)  # the first was asked for
    assert job.step().state.status is Status.REVIEW_REQUIRED


def test_a_test_of_a_person_uses_it(pytester: pytest.Pytester, run: Run) -> None:
    recorded(pytester.path / "rec")
    pytester.makepyfile(
        """
        from logist.testing import answer

        def test_it(logist_job):
            job = logist_job(prompt="Write notes.md.", answers=[answer(files={"notes.md": "..."})])
            job.step()
            assert job.status == "REVIEW_REQUIRED"

        def test_it_fails(logist_job):
            job = logist_job(answers=["I am done."])
            job.step()
            assert job.status == "REVIEW_REQUIRED", job.state.stuck.reason
        """
    )
    result = run()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["E*AssertionError: *exit command*"])
