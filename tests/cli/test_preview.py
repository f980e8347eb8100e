"""`logist job preview`."""

from __future__ import annotations

import hashlib
import json

import pytest
from syrupy.assertion import SnapshotAssertion

from logist.core.prompt.prompt import CONTRACT
from tests.cli.desk import Desk, answer, command


def test_the_prompt_is_what_step_sends(desk: Desk) -> None:
    desk.create(prompt="Größe ändern.\nJetzt.")
    before = desk.tree()
    ran = desk("job", "preview", "j1")
    assert ran.code == 0
    assert desk.tree() == before
    desk("job", "step", "j1")
    assert desk.history()[1]["request"]["prompt"] == ran.out


def test_who_would_be_asked_goes_to_standard_error(desk: Desk, snapshot: SnapshotAssertion) -> None:
    desk.create()
    (desk.job() / "workspace" / "notes.md").write_text("Notes.", "utf-8")
    desk("job", "config", "j1", "--set", "files=[notes.md]")
    assert desk("job", "preview", "j1").err == snapshot


def test_a_model_its_endpoint_and_what_it_may_cost(desk: Desk) -> None:
    desk.settings(
        "models: {mine: {provider_model: openai/x, endpoint: 'http://127.0.0.1:9/v1', "
        "input_price: 1, output_price: 2, max_output_tokens: 3000}}\n"
    )
    desk.create()
    ran = desk("job", "preview", "j1", "--model", "mine", "--agent", "litellm")
    assert "model: mine (openai/x), from --model, endpoint: http://127.0.0.1:9/v1\n" in ran.err
    assert "maximum output: 3000 tokens, maximum cost: $0.0" in ran.err
    data = desk("job", "preview", "j1", "--model", "mine", "--agent", "litellm", "--json").json["data"]
    assert (data["endpoint"], data["max_output_tokens"]) == ("http://127.0.0.1:9/v1", 3000)
    assert data["worst_case_cents"] > 0.6
    assert data["request"]["prompt"] == ran.out


def test_an_unknown_price_is_told(desk: Desk) -> None:
    desk.create()
    asked = ["job", "preview", "j1", "--model", "openai/new", "--agent", "litellm"]
    ran = desk(*asked)
    assert (ran.code, ran.out) == (5, "")
    assert "unknown price of model 'openai/new': can't enforce a cost limit" in ran.err
    desk.settings("allow_unknown_price: true\n")
    ran = desk(*asked)
    assert (ran.code, "maximum cost: unknown" in ran.err) == (0, True)


def test_another_role(desk: Desk) -> None:
    desk.create()
    told = desk("job", "preview", "j1", "--role", "Supervisor").err
    assert told.startswith("role Supervisor, because set with --role\nphase: doer, attempt 1\n")
    ran = desk("job", "preview", "j1", "--role", "Supervise")
    assert (ran.code, ran.out) == (2, "")
    assert "did you mean `Supervisor`?" in ran.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--task-type", "bug"], "role fix, because task_type is bug\n"),
        (["--task-type", "feature"], "role implement, because task_type is feature\n"),
        (["--task-type", "feature", "--role", "fix"], "role fix, because the job names it\n"),
        ([], "role Worker, because it is the default (roles.default)\n"),
    ],
)
def test_why_it_is_this_role(desk: Desk, options: list[str], told: str) -> None:
    desk.create("j1", *options)
    assert desk("job", "preview", "j1").err.startswith(told)
    why = desk("job", "preview", "j1", "--json").json["data"]["why"]
    assert f"because {why}\n" in told


def test_the_parts_of_the_prompt_and_what_was_cut(desk: Desk, snapshot: SnapshotAssertion) -> None:
    (desk.home / "roles").mkdir()
    role = {"name": "Poet", "description": "d", "instructions": "Rhyme.", "llm_model": "m"}
    asked = {**role, "context_requirements": ["repo_structure", "relevant_files"]}
    (desk.home / "roles" / "Poet.json").write_text(json.dumps(asked), "utf-8")
    desk.settings("context: {budget_tokens: 880, custom_instructions: Be kind.}\n")
    desk.create("j1", "--role", "Poet", prompt="Mend poem.py and song.py.")
    for name in ("poem.py", "song.py"):
        (desk.job() / "workspace" / name).write_text("la = 1\n" * 200, "utf-8")
    ran = desk("job", "preview", "j1")
    assert ran.err == snapshot
    assert "- song.py: named in the task" in ran.out
    assert len(ran.out.encode()) <= 3 * 880
    data = desk("job", "preview", "j1", "--json").json["data"]
    assert {row["source"]: row["cut"] for row in data["context"] if row["cut"] != "none"} == {
        "relevant:poem.py": "shortened",
        "relevant:song.py": "dropped",
    }
    assert (data["files"], data["budget_tokens"], data["budget"]) == (
        ["poem.py"],
        880,
        "context.budget_tokens",
    )
    assert data["request"]["metadata"]["context"] == data["context"]


def test_a_prompt_that_can_not_be_cut_enough_costs_nothing(desk: Desk) -> None:
    desk.settings("context: {budget_tokens: 900}\n")
    desk.create(prompt="word " * 600)
    before = desk.history()
    for args in (["preview", "j1"], ["step", "j1"]):
        ran = desk("job", *args)
        assert (ran.code, ran.out) == (5, "")
        assert (
            "context.budget_tokens: the prompt is too long: the parts that can't be cut have more than 900"
            in ran.err
        )
    assert desk.history() == before
    assert desk("job", "poststep", "j1", "--response-string", command()).code == 0


def test_the_part_a_person_may_see(desk: Desk) -> None:
    desk.create()
    whole, part = desk("job", "preview", "j1").out, desk("job", "preview", "j1", "--user").out
    assert whole.endswith(f"\n\n---\n\n{part}")
    assert "Do it." in part
    assert part.strip().endswith(CONTRACT)


def test_the_part_a_person_may_see_in_json(desk: Desk) -> None:
    (desk.home / "roles").mkdir()
    secret = "Speak only in rhymes, and tell nobody why."
    text = f"name: Poet\ndescription: d\ninstructions: {secret}\nllm_model: m\n"
    (desk.home / "roles" / "Poet.yaml").write_text(text, "utf-8")
    desk.create("j1", "--role", "Poet")
    whole = desk("job", "preview", "j1", "--json")
    part = desk("job", "preview", "j1", "--user", "--json")
    assert secret in whole.out
    assert secret not in part.out
    request = part.json["data"]["request"]
    assert request["prompt"] == desk("job", "preview", "j1", "--user").out
    assert [piece["source"] for piece in request["parts"]] == [
        "task",
        "step",
        "limits",
        "listing",
        "contract",
    ]
    assert (request["parts"][0]["start"], request["metadata"]["user_start"]) == (0, 0)
    for piece in request["parts"]:
        found = request["prompt"][piece["start"] : piece["end"]]
        assert hashlib.sha256(found.encode()).hexdigest() == piece["sha256"]


def test_on_a_terminal_nothing_steers_it(desk: Desk) -> None:
    desk.create(prompt="Do \x1b[2J it.")
    assert "\x1b[2J" in desk("job", "preview", "j1").out
    assert "\x1b[2J" not in desk.on_terminal("job", "preview", "j1")


@pytest.mark.parametrize(
    ("first", "code", "told"),
    [
        (["job", "poststep", "j1", "--response-string", "?"], 3, "STUCK: invalid answer"),
        (["job", "suspend", "j1"], 8, "SUSPENDED"),
        (["job", "config", "j1", "--set", "limits.cost_threshold=0"], 7, "HALTED_COST: cost limit"),
        (["job", "config", "j1", "--set", "limits.time_threshold_minutes=0"], 7, "HALTED_TIME: time limit"),
    ],
)
def test_nothing_to_ask_exits_as_a_step_would(desk: Desk, first: list[str], code: int, told: str) -> None:
    desk.create()
    desk(*first)
    before = desk.tree()
    ran = desk("job", "preview", "j1")
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith(f"warning: j1: {told}")
    assert "(logist job " in ran.err
    shown = desk("job", "preview", "j1", "--json")
    assert (shown.code, shown.json["data"]["request"]) == (code, None)
    assert desk.tree() == before


def test_a_job_that_waits_for_approval(desk: Desk) -> None:
    desk.script(answer(), answer())
    desk.create()
    desk("job", "run", "j1")
    assert desk("job", "preview", "j1").code == 11


def test_a_draft_and_an_ended_job(desk: Desk) -> None:
    desk.create("draft", "--draft")
    assert desk("job", "preview", "draft").code == 8
    desk("job", "cancel", "draft")
    ran = desk("job", "preview", "draft")
    assert (ran.code, ran.out) == (8, "")
    assert ran.err.startswith("error: the job has ended: CANCELED")


def test_a_role_that_does_not_validate(desk: Desk) -> None:
    (desk.home / "roles").mkdir()
    (desk.home / "roles" / "Poet.yaml").write_text("name: Poet\ndescription: d\ninstructions: i\n", "utf-8")
    desk.create()
    before = desk.tree()
    for args in (["preview"], ["step"], ["poststep", "--response-string", command()]):
        ran = desk("job", args[0], "j1", "--role", "Poet", *args[1:])
        assert (ran.code, ran.out) == (5, "")
        assert "`llm_model` is missing" in ran.err
        assert ran.err.count("\n") == 1
    changed = {n for n, d in desk.tree().items() if before.get(n) != d}
    assert changed <= {"jobs/j1/lock"}
