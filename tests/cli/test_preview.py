"""`logist job preview`."""

from __future__ import annotations

import hashlib
import json
import re

import pytest
from syrupy.assertion import SnapshotAssertion

from logist.core.money.amounts import format_money
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
    free = [{**row, "input_cents": 0} for row in data["request"]["metadata"]["context"]]
    assert data["context"] == free
    assert data["left_out"]["cut_tokens"] == sum(
        row["whole"] - row["tokens"] for row in data["context"] if "whole" in row
    )


MODELS = """\
models:
  mine: {provider_model: openai/x, input_price: 3, output_price: 6, tiers: [{above: 5000, input_price: 30, output_price: 60}]}
"""
ASKED = ("job", "preview", "j1", "--model", "mine", "--agent", "litellm")


def test_what_each_part_costs(desk: Desk) -> None:
    desk.settings(MODELS)
    desk.create()
    ran = desk(*ASKED)
    data = desk(*ASKED, "--json").json["data"]
    tokens = data["prompt_tokens"] + data["offered_tokens"]
    assert data["input_cents"] == pytest.approx(tokens * 3e-4)
    assert [row["input_cents"] for row in data["context"]] == [
        pytest.approx(row["tokens"] * 3e-4) for row in data["context"]
    ]
    assert f"; input price about {format_money(round(tokens * 300))}\n" in ran.err
    head, role = ran.err.splitlines()[6:8]
    assert head.split() == ["tokens", "price", "priority", "from", "cut", "part"]
    assert role.split() == ["825", "$0.0025", "never", "role", "role:Worker"]


def test_a_long_prompt_has_the_price_of_its_length(desk: Desk) -> None:
    desk.settings(MODELS)
    desk.create(prompt="word " * 4_000)
    data = desk(*ASKED, "--json").json["data"]
    assert {round(row["input_cents"] / row["tokens"], 6) for row in data["context"]} == {3e-3}


def test_tools_are_part_of_the_price(desk: Desk) -> None:
    desk.settings(MODELS)
    desk.create()
    asked = (*ASKED, "--role", "fix")
    data = desk(*asked, "--json").json["data"]
    assert data["offered_tokens"] > 500
    assert f"tools and form of the answer: {data['offered_tokens']:,}; input price" in desk(*asked).err


def test_without_a_known_price_there_are_only_tokens(desk: Desk) -> None:
    desk.settings("allow_unknown_price: true\n")
    desk.create()
    asked = ("job", "preview", "j1", "--model", "openai/new", "--agent", "litellm")
    ran = desk(*asked)
    assert "; input price unknown\n" in ran.err
    assert ran.err.splitlines()[6].split() == ["tokens", "priority", "from", "cut", "part"]
    data = desk(*asked, "--json").json["data"]
    assert {data["input_cents"], *(row["input_cents"] for row in data["context"])} == {None}


def poems(desk: Desk) -> None:
    """A job whose role wants the relevant files, of which two are listed."""
    (desk.home / "roles").mkdir()
    role = {"name": "Poet", "description": "d", "instructions": "Rhyme.", "llm_model": "m"}
    asked = {**role, "context_requirements": ["relevant_files"]}
    (desk.home / "roles" / "Poet.json").write_text(json.dumps(asked), "utf-8")
    desk.settings("context: {relevant_files_limit: 3, relevant_files_tokens: 20}\n")
    desk.create("j1", "--role", "Poet", prompt="Mend the refrain of the poem. See .env and poem.py.")
    workspace = desk.job() / "workspace"
    (workspace / "tests").mkdir()
    for name, text in {
        "poem.py": "def refrain(): 1\n",
        "song.py": "def poem(): refrain\n" * 9,
        "tests/test_poem.py": "refrain\n",
        ".env": "REFRAIN=hunter2\n",
        "b.txt": "x\n",
        "uv.lock": f"refrain {'x ' * 5_000}\n",
    }.items():
        (workspace / name).write_text(text, "utf-8")


def mask_scores(text: str) -> str:
    """Replace the digits of scores, which change with the weights of the ranking."""
    return re.sub(r"\d+\.\d\d", lambda match: "9" * (len(match[0]) - 3) + ".99", text)


def test_what_was_left_out(desk: Desk, snapshot: SnapshotAssertion) -> None:
    poems(desk)
    assert desk("job", "preview", "j1").err == snapshot
    assert desk("job", "preview", "j1", "--json").json["data"]["left_out"] == {
        "texts": [
            {"path": ".env", "note": "may contain secrets: not shown"},
            {"path": "song.py", "note": "text not shown: no room left"},
        ],
        "in_parts": [],
        "below_limit": 1,
        "below_floor": 1,
        "cut_tokens": 0,
    }


def test_files_of_which_there_are_only_parts(desk: Desk) -> None:
    poems(desk)
    desk.settings("context: {relevant_files_tokens: 400}\n")
    text = "".join(f"def poem{number}(): refrain\n" for number in range(1_000))
    (desk.job() / "workspace" / "song.py").write_text(text, "utf-8")
    (row,) = [line for line in desk("job", "preview", "j1").err.splitlines() if "relevant:song.py" in line]
    assert row.split()[1:] == ["6", "workspace", "parts", "relevant:song.py"]
    assert desk("job", "preview", "j1", "--json").json["data"]["left_out"]["in_parts"] == ["song.py"]
    why = desk("job", "preview", "j1", "--why", "--file", "song.py").out
    assert "      parts of a file of 1,000 lines\n" in why


def test_why_the_files_were_picked(desk: Desk, snapshot: SnapshotAssertion) -> None:
    poems(desk)
    before = desk.tree()
    ran = desk("job", "preview", "j1", "--why")
    assert (ran.err, ran.code) == ("", 0)
    assert mask_scores(ran.out) == snapshot
    assert max(map(len, ran.out.splitlines())) <= 80
    assert desk.tree() == before
    found = desk("job", "preview", "j1", "--why", "--json").json["data"]["relevance"]
    assert [(file["path"], file["listed"], file["rank"]) for file in found["files"]] == [
        (".env", True, 1),
        ("poem.py", True, 2),
        ("song.py", True, 3),
    ]
    assert "hunter2" not in f"{ran.out}{found}"


def test_why_a_file_was_not_picked(desk: Desk, snapshot: SnapshotAssertion) -> None:
    poems(desk)
    names = ("tests/test_poem.py", "b.txt", "uv.lock", "gone.py", ".env", "poem.py")
    ran = desk("job", "preview", "j1", "--why", *(f"--file={name}" for name in names))
    assert (ran.code, ran.err) == (0, "")
    assert mask_scores(ran.out) == snapshot
    assert "hunter2" not in ran.out


def test_the_name_of_a_file_stays_on_its_line(desk: Desk) -> None:
    poems(desk)
    desk.settings("")
    (desk.job() / "workspace" / "poem\n   9  9.99  x.py").write_text("def poem(): 1\n", "utf-8")
    lines = desk("job", "preview", "j1", "--why").out.splitlines()
    (line,) = [line for line in lines if "x.py" in line]
    assert line.endswith('  "poem\\n   9  9.99  x.py"')
    lines = desk("job", "preview", "j1", "--why", "--file", "a\nb/poem.py").out.splitlines()
    assert lines[-2:] == [
        '   -        -        -  "a\\nb/poem.py"',
        "      not listed: not found in the workspace; did you mean poem.py?",
    ]


def test_a_file_is_explained_only_on_request(desk: Desk) -> None:
    desk.create()
    ran = desk("job", "preview", "j1", "--file", "x.py")
    assert (ran.code, ran.out) == (2, "")
    assert (
        ran.err == "error: --file: it explains why a file was picked or not, so it needs --why (add --why)\n"
    )


def test_a_role_without_relevant_files_has_nothing_to_explain(desk: Desk) -> None:
    desk.create()
    ran = desk("job", "preview", "j1", "--why")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("warning: j1: role Worker requires no relevant files, so none are picked")
    assert desk("job", "preview", "j1", "--why", "--json").json["data"]["relevance"] is None


def test_no_files_are_wanted(desk: Desk) -> None:
    """It is not the fault of the task."""
    poems(desk)
    desk.settings("context: {relevant_files_limit: 0}\n")
    for words in (["--why"], ["--why", "--file", "poem.py"]):
        ran = desk("job", "preview", "j1", *words)
        assert (ran.out, ran.code) == ("", 0)
        assert ran.err.splitlines() == [
            "warning: j1: context.relevant_files_limit is 0, so no files are picked (set it to 1 or more)"
        ]


def test_many_words_of_the_task_fit_a_narrow_terminal(desk: Desk) -> None:
    poems(desk)
    text = "mend " + " ".join(f"word{number}_of_{number}" for number in "abcdefghijklmnopqrst")
    desk.create("j2", "--role", "Poet", prompt=text)
    before, after = desk("job", "preview", "j2", "--why").out.split("\n\n")[0].split(":\n")
    assert before.startswith("Words of the task")
    lines = [line for line in after.splitlines() if line.startswith("  ")]
    assert len(lines) > 3
    assert max(map(len, lines)) < 80
    assert all(line.endswith("),") for line in lines[:-1]), "no item is broken"


def test_a_task_without_words_picks_nothing(desk: Desk) -> None:
    desk.create(prompt="...")
    ran = desk("job", "preview", "j1", "--why", "--role", "fix")
    assert (ran.code, ran.err) == (0, "")
    assert "No file is relevant by these rules." in ran.out


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


def test_a_job_that_waits_for_another_one_says_so(desk: Desk) -> None:
    desk.create("first")
    desk.create("j1", "--after", "first")
    ran = desk("job", "preview", "j1")
    assert (ran.code, ran.err.splitlines()[0]) == (
        0,
        "waits for first (PENDING): nothing is sent before that",
    )
    assert "Do it." in ran.out
