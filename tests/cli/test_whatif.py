"""`logist whatif`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from logist.core.answer.answer_faults import find_schema_faults
from logist.core.whatif import KEYS
from logist.errors import InvalidFile
from logist.jobs.archive import trial_schema
from logist.resources import find_resource
from tests import support
from tests.cli.desk import Desk
from tests.support import Ran, RunLogist

FIXTURES = support.ROOT / "fixtures" / "jobs"
NAMES = sorted(path.parent.name for path in FIXTURES.glob("*/jobHistory.json"))


@pytest.fixture
def here(cli: RunLogist, tmp_path: Path) -> Desk:
    """The recorded jobs of the project, in a project of their own; no job is run."""
    desk = Desk(tmp_path / "desk", cli)
    for name in NAMES:
        folder = desk.jobs / name
        folder.mkdir()
        (folder / "jobHistory.json").write_bytes((FIXTURES / name / "jobHistory.json").read_bytes())
    return desk


def changed_schema(**changes: Any) -> dict[str, Any]:
    """The schema of the exit command with other rules for its fields; `summary` is the longest of them."""
    schema: dict[str, Any] = json.loads(find_resource("schemas", "llm-chat-schema.json").read_text("utf-8"))
    fields = schema["properties"]["response"]["properties"]
    for name, value in changes.items():
        fields[name] = value
    return schema


def written(desk: Desk, name: str, value: Any) -> str:
    (desk.place / name).write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return name


def by_name(ran: Ran) -> dict[str, dict[str, Any]]:
    return {Path(row["source"]).name: row for row in ran.json["data"]["histories"]}


def test_the_help_names_every_setting_as_the_config_does(here: Desk) -> None:
    words = here("whatif", "--help").out.replace(",", " ").replace(". ", " ").split()
    assert [key for key in KEYS if key not in words and f"{key}." not in words] == []


def test_the_jobs_that_would_have_ended_elsewhere(here: Desk) -> None:
    before = here.tree()
    ran = here("whatif", "--set", "limits.attempts=1")
    job, why, total = ran.out.splitlines()
    assert job == "main-job at interaction 3: SUCCESS -> STUCK (attempts); saves $0.00 (3 calls)"
    assert why.startswith("    The option works as asked")
    assert total == (
        "5 jobs: 1 would have ended differently, 2 would have reached the same result in a different way, "
        "$0.00 (7 calls) saved"
    )
    assert (ran.code, ran.err) == (0, "")
    assert here.tree() == before


@pytest.mark.parametrize(
    "paths", [[str(FIXTURES)], [str(FIXTURES / "*")], [str(FIXTURES / n) for n in NAMES]]
)
def test_wherever_they_lie(here: Desk, paths: list[str]) -> None:
    found = by_name(here("whatif", *paths, "--set", "limits.attempts=1", "--json"))
    assert sorted(found) == NAMES
    assert [name for name in NAMES if not found[name]["same"]] == ["main-job"]
    assert found["main-job"]["would_be"] == {
        "status": "STUCK",
        "step": "task",
        "awaiting": None,
        "stuck": "attempts",
    }


@pytest.mark.parametrize(
    "rule", ["limits.attempts=3", "limits.cost=1000", "review.mode=normal", "on_doubt=stuck"]
)
def test_rules_that_held_anyway(here: Desk, rule: str) -> None:
    ran = here("whatif", "--set", rule, "--expect", "same", "--json")
    assert ran.code == 0
    assert [(row["same"], row["differs_at"], row["reason"]) for row in ran.json["data"]["histories"]] == [
        (True, None, "")
    ] * len(NAMES)


def test_a_gate(here: Desk) -> None:
    ran = here("whatif", "--set", "limits.attempts=1", "--expect", "same")
    assert (ran.code, ran.err) == (9, "error: 1 job would have ended differently\n")
    assert here("whatif", "--set", "limits.attempts=2", "--expect", "same").code == 0


def test_lines(here: Desk) -> None:
    ran = here("whatif", "--set", "limits.attempts=1", "--jsonl")
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert rows == here("whatif", "--set", "limits.attempts=1", "--json").json["data"]["histories"]


def test_what_more_it_would_cost(here: Desk) -> None:
    ran = here("whatif", "--set", "review.mode=strict", "--json")
    totals = ran.json["data"]["totals"]
    assert totals["elsewhere"] == sum(not row["same"] for row in ran.json["data"]["histories"]) > 0
    assert totals["estimate_microcents"] is None or totals["needs"]


def test_a_stricter_schema(here: Desk) -> None:
    name = written(here, "s.json", changed_schema(summary_for_supervisor={"type": "string", "maxLength": 40}))
    found = by_name(here("whatif", "--schema", name, "--json"))
    assert found["main-job"]["differs_at"] == 2
    assert found["main-job"]["reason"] == (
        "invalid answer: `summary_for_supervisor` has 87 characters; at most 40 are allowed"
    )


def test_permissions(here: Desk) -> None:
    ran = here("whatif", "--permissions", "Worker:read_files", "--permissions", "Poet:none")
    assert "STUCK (permission)" in ran.out
    assert ran.err == "warning: no recorded answers of the role Poet\n"
    role = "name: Worker\ndescription: Looks.\ninstructions: Look.\nllm_model: m\npermissions: [read_files]\n"
    by_file = here("whatif", "--role-file", written(here, "worker.yaml", role))
    assert by_file.out == here("whatif", "--permissions", "Worker:read_files").out
    assert "the role file of Worker has changed" in by_file.err
    twice = here("whatif", "--role-file", "worker.yaml", "--permissions", "Worker:none")
    assert (twice.code, "conflicting permissions for the role Worker" in twice.err) == (2, True)


FLOW = """\
name: Letter
steps:
  - {id: draft, prompt: Write it., agentRole: You write short letters.}
  - {id: send, prompt: Send it., agentRole: You are the postman.}
"""


def test_a_workflow(desk: Desk) -> None:
    written(desk, "letter.yaml", FLOW)
    desk("job", "create", "--id", "j1", "--workflow", "letter.yaml", "--approval", "none")
    assert desk("job", "run", "j1").code == 0
    assert desk("whatif", "--workflow", "letter.yaml", "--expect", "same").code == 0
    written(desk, "letter.yaml", FLOW.replace("Send it.,", "Send it., execution: manual,"))
    ran = desk("whatif", "--workflow", "letter.yaml", "--expect", "same", "--json")
    (row,) = ran.json["data"]["histories"]
    assert (ran.code, row["differs_at"], row["would_be"]["awaiting"]) == (9, 2, "manual")
    assert row["open"]["calls"] == 1
    written(desk, "letter.yaml", FLOW.replace("Letter", "Parcel"))
    unused = desk("whatif", "--workflow", "letter.yaml")
    assert (unused.code, unused.err) == (0, "warning: no recorded job follows the workflow Parcel\n")
    gate = desk("whatif", "--workflow", "letter.yaml", "--expect", "same")
    assert (gate.code, gate.err) == (2, "error: no recorded job follows the workflow Parcel\n")


def test_a_damaged_history_stops_no_other(here: Desk) -> None:
    file = here.jobs / "main-job" / "jobHistory.json"
    file.write_bytes(file.read_bytes().replace(b"greet", b"Greet", 1))
    ran = here("whatif", "--set", "limits.attempts=1", "--expect", "same", "--json")
    found = by_name(ran)
    assert (ran.code, ran.json["data"]["totals"]["damaged"]) == (10, 1)
    assert found["main-job"]["error"]["code"] == "damaged"
    assert (found["main-job"]["same"], found["main-job"]["would_be"]) == (None, None)
    assert found["halted-raised-and-resumed"]["same"] is True
    assert here("whatif", "--set", "limits.attempts=1").err.startswith("error: main-job: interaction")
    assert here("whatif", ".logist/jobs", "--set", "limits.attempts=1").err.startswith(
        "error: .logist/jobs/main-job: interaction"
    )


def test_a_reason_that_says_no_more_than_the_line_above_is_left_out(desk: Desk) -> None:
    answered = {"action": "COMPLETED", "evidence_files": [], "summary_for_supervisor": "Done."}
    (desk.place / "old.json").write_text(json.dumps([{"response": answered}]), "utf-8")
    job, _ = desk("whatif", "old.json", "--set", "review=off").out.splitlines()
    assert job == "old.json at interaction 2: REVIEW_REQUIRED -> APPROVAL_REQUIRED (end)"


def test_an_end_that_is_missing_is_damage_where_nobody_knows_how_much(here: Desk) -> None:
    file = here.jobs / "main-job" / "jobHistory.json"
    file.write_bytes(file.read_bytes().removesuffix(b"]}\n"))
    ran = here("whatif", "--set", "limits.attempts=9")
    assert (ran.code, "it may have had more than 8 interactions" in ran.err) == (10, True)


def test_a_history_of_an_older_shape_is_told_to_be_one(here: Desk) -> None:
    answer = {"action": "RETRY", "evidence_files": [], "summary_for_supervisor": "Again."}
    (here.place / "old.json").write_text(json.dumps([{"response": answer}, {"response": answer}]), "utf-8")
    (row,) = here("whatif", "old.json", "--set", "limits.attempts=1", "--json").json["data"]["histories"]
    assert (row["differs_at"], row["would_be"]["stuck"]) == (2, "attempts")
    assert any("rebuilt" in note for note in row["notes"])


def test_what_differs_today_without_the_change_is_told(here: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    other = changed_schema(summary_for_supervisor={"type": "string", "maxLength": 40})
    monkeypatch.setattr("logist.resources.load_schema", lambda name: other)
    ran = here("whatif", "--set", "limits.iterations=40")
    assert "1 job would now end differently even without the change" in ran.err


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        ([], 2, "no rule to change (use --set, "),
        (["--set", "limits.atempts=1"], 2, "limits.max_allowed_iterations, limits.max_attempts"),
        (["--set", "limits.attempts=x"], 2, "must be an integer of at least 1"),
        (["--permissions", "Worker"], 2, "'Worker' has no `ROLE:` part"),
        (["--permissions", "Worker:fly"], 2, "execute_commands"),
        (["nowhere", "--set", "review=off"], 2, "no history found at nowhere"),
        (["--set", "review=off", "--jobs-dir", "empty"], 2, "no recorded jobs found"),
        (["x", "--set", "review=off", "--jobs-dir", "empty"], 2, "can't use paths and --jobs-dir together"),
        (["--workflow", "nothing"], 2, "workflow `nothing` not found"),
        (["--role-file", "nothing.yaml"], 2, "nothing.yaml: role file not found"),
        (["--role-file", "bad.yaml"], 5, "bad.yaml"),
        (["--role-file", "."], 5, "not a regular file"),
        (["--schema", "nothing.json"], 2, "nothing.json: schema file not found"),
        (["--schema", "."], 5, "s a directory"),
        (["--expect", "other", "--set", "review=off"], 2, "same"),
    ],
)
def test_what_is_wrong_is_said(here: Desk, args: list[str], code: int, said: str) -> None:
    written(here, "bad.yaml", "name: Worker\n")
    (here.place / "empty").mkdir()
    ran = here("whatif", *args)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


@pytest.mark.parametrize("args", [["replay"], ["stats"], ["whatif", "--set", "review=off"]])
def test_where_the_job_lies_whose_name_was_given_for_a_path(here: Desk, args: list[str]) -> None:
    ran = here(*args, "main-job")
    place = here.jobs.relative_to(here.place) / "main-job"
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"error: PATH: history not found: main-job (for the job of that id, use {place})\n"


SUMMARY = "#/properties/response/properties/summary_for_supervisor"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "invalid JSON: "),
        ("[]", "must be a mapping"),
        ({}, "must not accept an exit command with no `action`"),
        ({"type": "thing"}, "is not a valid JSON Schema"),
        (
            changed_schema(evidence_files={"type": "array"}),
            "must not accept an exit command with evidence that is not a string",
        ),
        (
            changed_schema(evidence_files={"type": "array", "items": {"type": "string"}}),
            "outside the workspace",
        ),
        (changed_schema(action={"type": "string"}), "an unknown `action`"),
        (changed_schema(metadata={}), "`metadata` that is not an object"),
        (
            changed_schema(summary_for_supervisor={"$ref": "https://example.org/s.json"}),
            "only references inside the file",
        ),
        (changed_schema(summary_for_supervisor={"$ref": "other.json"}), "only references inside the file"),
        (changed_schema(summary_for_supervisor={"$ref": "#/$defs/none"}), "which does not exist in the file"),
        (changed_schema(summary_for_supervisor={"$ref": "#none"}), "can't be applied"),
        (changed_schema(summary_for_supervisor={"$ref": SUMMARY}), "contains an endless reference"),
        (changed_schema(summary_for_supervisor={"type": "string", "pattern": "("}), "summary_for_supervisor"),
        ("[" * 5000 + "]" * 5000, "levels"),
    ],
)
def test_schemas_that_can_not_be_tried(tmp_path: Path, content: Any, said: str) -> None:
    file = tmp_path / "s.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    with pytest.raises(InvalidFile) as error:
        trial_schema.load_trial_schema(file)
    assert said in str(error.value)


def test_a_schema_of_ones_own_is_told_in_words() -> None:
    own = {
        "properties": {
            "response": {
                "additionalProperties": False,
                "properties": {
                    "action": {"enum": [1, None]},
                    "summary_for_supervisor": {"minLength": 9},
                    "output": {"type": ["object", "null"]},
                },
            }
        }
    }
    said = find_schema_faults({"response": {"action": "x", "summary_for_supervisor": "a", "output": 1}}, own)
    assert said[1] == "`summary_for_supervisor` has 1 characters; at least 9 are required"
    assert find_schema_faults(
        {"response": {"x": 1}}, {"properties": {"response": {"additionalProperties": False}}}
    )
    assert find_schema_faults({"response": 1}, {"properties": {"response": {"type": ["object", "null"]}}})


def test_one_is_not_true_for_a_schema() -> None:
    for constant, other in ((1, True), (True, 1), (0, False)):
        assert not find_schema_faults(
            {"response": constant}, {"properties": {"response": {"const": constant}}}
        )
        assert find_schema_faults({"response": other}, {"properties": {"response": {"const": constant}}})


def test_the_page_shows_what_happens(cli: RunLogist) -> None:
    page = (support.ROOT / "docs" / "what-if.md").read_text("utf-8")
    block = next(each for each in page.split("\n\n") if each.startswith("    $ logist whatif"))
    asked, *shown = (line.removeprefix("    ") for line in block.split("\n"))
    ran = cli(*asked.removeprefix("$ logist ").split(), cwd=support.ROOT)
    assert ran.out.splitlines() == shown


def test_the_page_names_every_key() -> None:
    page = (support.ROOT / "docs" / "what-if.md").read_text("utf-8")
    assert [key for key in KEYS if f"`{key}`" not in page] == []


def test_a_check_that_no_job_has_proves_nothing(here: Desk) -> None:
    known = here("whatif", "--set", "review.checks.security.enabled=false", "--expect", "same")
    assert (known.code, known.err) == (0, "")
    ran = here("whatif", "--set", "review.checks.secrity.enabled=false", "--expect", "same")
    assert (ran.code, ran.err) == (2, "error: no recorded job has the check secrity\n")
