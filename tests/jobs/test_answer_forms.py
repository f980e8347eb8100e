"""Answers whose form the provider enforces, and models that are asked again; over HTTP, with the real courier."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from logist.agents.courier.ask_files import collect_ask
from logist.agents.courier.follow_ups import FollowUp
from logist.agents.courier.tool_turns import AskProgress
from logist.config.environment import Environment
from logist.config.sections import Answers
from logist.config.settings import Settings
from logist.core.model import Reply, Status
from logist.core.permissions.tools import TOOLS
from logist.jobs.archive.archive_replay import replay_job
from logist.jobs.base.job_reader import verify_job
from logist.jobs.turn.answer_forms import NAME
from logist.store import JobDir
from tests.jobs.bench import Bench, Json, command
from tests.jobs.conftest import MakeBench
from tests.loopback import Loopback
from tests.shell.test_agents_courier import envelope

PROSE = {"text": "I have done it, I think.", "usage": {"input": 1000, "output": 100}}
VALID = {"text": command(summary="Made it."), "usage": {"input": 2000, "output": 200}}
REFUSED = {"status": 400, "message": "response_format is not supported"}
CALLS = {"calls": [{"name": "list_files", "args": {}}], "usage": {"input": 100, "output": 10}}


def asked(b: Bench, url: str, **settings: Any) -> Bench:
    """The bench with a server on this machine, which is known to enforce forms; its roles have no tools."""
    price = {"input_price": 0.5, "output_price": 2.0}
    entry = {"provider_model": "llamacpp/small", **price, "max_output_tokens": 4000}
    values: Json = {
        "providers": {"llamacpp": {"base_url": url}},
        "models": {"grok-code-fast-1": entry, "gemini-2.5-flash": entry},
        "retries": {"max_tries": 1},
        "tools": {"disabled": list(TOOLS)},
        **settings,
    }
    known = {"HOME": str(b.project.home), "PATH": os.environ["PATH"]}
    b.change(agent="model", settings=Settings.model_validate(values), environment=Environment(known))
    return b


def forms(server: Loopback) -> list[bool]:
    """Whether each request had a form."""
    return ["response_format" in received.body for received in server.requests]


def last(server: Loopback) -> list[Json]:
    messages: list[Json] = server.requests[-1].body["messages"]
    return messages


def test_a_provider_that_can_is_asked_to_enforce_the_form(bench: MakeBench) -> None:
    with Loopback(VALID) as server:
        b = asked(bench(), server.url)
        b.create()
        assert b.step().state.status is Status.REVIEW_REQUIRED
    form = server.requests[0].body["response_format"]
    assert form["type"] == "json_schema"
    schema = form["json_schema"]["schema"]
    assert (form["json_schema"]["name"], form["json_schema"]["strict"]) == ("exit_command", True)
    assert schema["required"] == ["summary_for_supervisor", "evidence_files", "action"]
    assert schema["properties"]["action"]["enum"] == ["COMPLETED", "STUCK", "RETRY"]
    assert b.history()[-1].request.metadata["answer_form"] == form["json_schema"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"answers": {"constrain": "never"}}, False),
        ({"answers": {"constrain": "always"}, "models": None}, True),
        ({"models": None}, False),
        ({"response_format": "sections"}, False),
    ],
)
def test_who_is_asked(bench: MakeBench, settings: Json, *, expected: bool) -> None:
    with Loopback(VALID) as server:
        if "models" in settings:  # an address that may belong to any server
            entry = {"provider_model": "openai/x", "endpoint": server.url, "price": "free"}
            settings = settings | {"models": {"grok-code-fast-1": entry, "gemini-2.5-flash": entry}}
        b = asked(bench(), server.url, **settings)
        b.create()
        b.step()
    assert forms(server) == [expected]


def test_a_free_output_is_not_strict_and_a_schema_of_a_role_is_merged(bench: MakeBench) -> None:
    with Loopback(VALID) as server:
        b = asked(bench(), server.url)
        b.create(role="Planner")
        b.step()
    form = server.requests[0].body["response_format"]["json_schema"]
    output = form["schema"]["properties"]["output"]
    assert output["anyOf"][0]["type"] == "object"
    assert {"type": "null"} in output["anyOf"]


def test_a_refused_form_is_left_out_at_once_and_remembered(bench: MakeBench) -> None:
    with Loopback(REFUSED, VALID) as server:
        b = asked(bench(), server.url)
        b.create()
        result = b.step()
        assert result.state.status is Status.REVIEW_REQUIRED
        warning = "the provider refused the schema of the answer: asked again without it"
        assert warning in b.history()[-1].response.warnings
        b.step()
        assert forms(server) == [True, False, False]
        (b.project.jobs_dir / NAME).unlink()
        b.create("k")
        b.step("k")
        assert forms(server)[3:] == [True]


def test_what_is_refused_for_another_reason_is_no_refusal_of_the_form(bench: MakeBench) -> None:
    with Loopback(REFUSED) as server:
        b = asked(bench(), server.url)
        b.create()
        result = b.step()
    assert (result.exit_code, forms(server)) == (6, [True, False])
    assert not (b.project.jobs_dir / NAME).exists()
    assert "not supported" in b.history()[-1].response.error.message  # type: ignore[union-attr]


def test_a_model_with_tools_writes_its_exit_command_in_a_last_turn(bench: MakeBench) -> None:
    with Loopback(CALLS, PROSE, VALID) as server:
        b = asked(bench(), server.url, tools={})
        b.create()
        assert b.step().state.status is Status.REVIEW_REQUIRED
    assert forms(server) == [False, False, True]
    body = server.requests[-1].body
    assert body["tool_choice"] == "none"
    assert last(server)[-2] == {"role": "assistant", "content": PROSE["text"]}
    assert last(server)[-1]["content"].startswith("Now write only the exit command")
    entry = b.history()[-1]
    assert entry.usage.input_tokens == 3100
    assert entry.response.warnings[0].startswith("asked again: no exit command")


def test_a_model_with_tools_whose_answer_is_valid_is_not_asked_again(bench: MakeBench) -> None:
    with Loopback(CALLS, VALID) as server:
        b = asked(bench(), server.url, tools={})
        b.create()
        assert b.step().state.status is Status.REVIEW_REQUIRED
    assert forms(server) == [False, False]


def test_without_reask_an_answer_without_exit_command_is_stuck(bench: MakeBench) -> None:
    with Loopback(PROSE) as server:
        b = asked(bench(), server.url)
        b.create()
        assert b.step().state.status is Status.STUCK
    assert len(server.requests) == 1


@pytest.mark.parametrize("answers", [[PROSE, VALID], [PROSE, PROSE, VALID]])
def test_the_model_is_told_what_was_wrong_and_asked_again(bench: MakeBench, answers: list[Json]) -> None:
    with Loopback(*answers) as server:
        b = asked(bench(), server.url, answers={"reask": 2, "constrain": "never"})
        b.create()
        assert b.step().state.status is Status.REVIEW_REQUIRED
    assert len(server.requests) == len(answers)
    said = last(server)[-1]["content"]
    assert said.startswith("Your answer can't be used: no exit command")
    assert [each["role"] for each in last(server)][-2:] == ["assistant", "user"]
    entry = b.history()[-1]
    assert entry.usage.output_tokens == 100 * (len(answers) - 1) + 200
    turns = (b.folder() / "logs" / "000002.turns.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line).get("follow_up", {}).get("why") for line in turns] == [
        None,
        *["invalid"] * (len(answers) - 1),
    ]


def test_after_the_last_time_the_job_is_stuck_with_the_last_answer(bench: MakeBench) -> None:
    with Loopback(PROSE, PROSE | {"text": "Still prose."}) as server:
        b = asked(bench(), server.url, answers={"reask": 1})
        b.create()
        assert b.step().state.status is Status.STUCK
    assert len(server.requests) == 2
    assert b.history()[-1].response.raw_response == "Still prose."


def test_an_output_that_breaks_the_schema_of_its_role_is_asked_for_again(bench: MakeBench) -> None:
    good = command(output={"plan": "x", "summary": "x", "steps": []})
    with Loopback(VALID, {"text": good}) as server:
        b = asked(bench(), server.url, answers={"reask": 1})
        b.create(role="Planner")
        b.step()
    assert len(server.requests) == 2
    assert "missing `output`" in last(server)[-1]["content"]


def test_a_cut_answer_gets_a_higher_limit_once(bench: MakeBench) -> None:
    cut = {"text": "I beg", "finish": "length", "usage": {"input": 10, "output": 4000}}
    with Loopback(cut, cut) as server:
        b = asked(bench(), server.url, answers={"reask": 1})
        entry = {"provider_model": "openai/gpt-5-mini", "max_output_tokens": 3000}
        values = b.project.settings.model_dump(mode="json") | {
            "providers": {"openai": {"base_url": server.url, "api_key_env": None}},
            "models": {"grok-code-fast-1": entry},
        }
        b.change(settings=Settings.model_validate(values))
        b.create(limits={"cost_threshold": 100_000})
        assert b.step().state.status is Status.STUCK
    limits = [received.body["max_completion_tokens"] for received in server.requests]
    assert limits == [3000, 128_000]
    assert server.requests[0].body["messages"] == server.requests[1].body["messages"]


def test_a_limit_of_cost_ends_it_with_the_answer_before(bench: MakeBench) -> None:
    dear = PROSE | {"usage": {"input": 1000, "output": 4000}}
    with Loopback(dear, VALID) as server:
        b = asked(bench(), server.url, answers={"reask": 1})
        b.create(limits={"cost_threshold": 1.2})
        result = b.step()
    assert (result.state.status, len(server.requests)) == (Status.STUCK, 1)
    assert b.history()[-1].response.raw_response == PROSE["text"]


@pytest.mark.parametrize(
    "failure", [{"close": "middle", "text": command()}, {"status": 403}, {"status": 520}]
)
def test_if_asking_again_fails_the_answer_before_counts(bench: MakeBench, failure: Json) -> None:
    with Loopback(PROSE, failure) as server:
        b = asked(bench(), server.url, answers={"reask": 1})
        b.create()
        result = b.step()
    assert (result.state.status, len(server.requests)) == (Status.STUCK, 2)
    response = b.history()[-1].response
    assert response.raw_response == PROSE["text"]
    assert any(each.startswith("asked again without success: ") for each in response.warnings)


def test_an_outage_while_asking_again_is_waited_for_and_nothing_is_paid_twice(bench: MakeBench) -> None:
    with Loopback(PROSE, {"status": 503}, VALID) as server:
        b = asked(bench(), server.url, answers={"reask": 1}, retries={"max_tries": 1, "backoff_seconds": 0})
        b.create()
        first = b.step()
        assert (first.exit_code, first.state.status) == (6, Status.PENDING)
        (b.folder() / "provider-wait.json").unlink()
        assert b.step().state.status is Status.REVIEW_REQUIRED
    assert len(server.requests) == 3
    assert last(server)[-1]["content"].startswith("Your answer can't be used")
    assert b.history()[-1].usage.input_tokens == 3000


def test_a_history_with_forms_and_follow_ups_verifies_and_replays(bench: MakeBench) -> None:
    with Loopback(REFUSED, PROSE, VALID) as server:
        b = asked(bench(), server.url, answers={"reask": 1})
        b.create()
        assert b.step().state.status is Status.REVIEW_REQUIRED
        job = b.project.open_job("j")
        assert verify_job(b.project, job).problems == ()
        for setting in ("never", "auto"):
            values = b.project.settings.model_copy(update={"answers": Answers(constrain=setting)})
            b.change(settings=values)
            replayed = replay_job(b.project, job, prompts=None)
            assert replayed.differences == ()
    assert len(server.requests) == 3


def test_a_courier_killed_while_asking_again_loses_no_answer(tmp_path: Path) -> None:
    """Its files at both moments: the next request is recorded, and it is sent."""
    with JobDir.create_job(tmp_path / "jobs", "j"):
        pass
    job = JobDir.open(tmp_path / "jobs", "j")
    job.begin_exchange(1, envelope("http://127.0.0.1:9/v1"))
    job.mark_sent(1)
    job.save_response(1, Reply(text=str(PROSE["text"])).model_dump(mode="json"))
    job.begin_exchange(2, FollowUp("invalid", "Answer again.", "no exit command").to_request())
    before = collect_ask(job.read_exchanges())
    assert (before.kind, before.reply.text) == ("answered", PROSE["text"])
    turns = AskProgress.from_exchanges(job.read_exchanges()).turns
    assert [(turn.text, turn.follow_up) for turn in turns] == [(PROSE["text"], "Answer again.")]
    job.mark_sent(2)
    assert collect_ask(job.read_exchanges()).kind == "in_doubt"


def test_a_reviewer_must_give_its_verdict(bench: MakeBench) -> None:
    review = command(output={"verdict": "PASS", "issues": [], "suggestions": []})
    with Loopback(VALID, {"text": review}) as server:
        b = asked(bench(), server.url)
        b.create()
        b.step()
        assert b.step().state.status is Status.APPROVAL_REQUIRED
    form = server.requests[1].body["response_format"]["json_schema"]
    assert form["strict"] is True
    assert form["schema"]["properties"]["output"]["properties"]["verdict"]["enum"] == ["PASS", "FAIL"]
    assert "output" in form["schema"]["required"]


def test_in_a_workflow_any_output_and_metadata_are_allowed(bench: MakeBench, tmp_path: Path) -> None:
    flow = tmp_path / "flow.yaml"
    flow.write_text("name: f\nsteps: [{id: a, prompt: Do it.}]\n", "utf-8")
    with Loopback(VALID) as server:
        b = asked(bench(), server.url)
        b.create(workflow=str(flow))
        b.step()
    form = server.requests[0].body["response_format"]["json_schema"]
    assert form["strict"] is False
    assert {"output", "metadata"} <= form["schema"]["properties"].keys()
    assert not {"output", "metadata"} & set(form["schema"]["required"])
