"""`logist job show --graph`, `--mermaid`, and what `job show` and `job status` say of a job's workflow."""

from __future__ import annotations

import json
from typing import Any

import pytest

from logist.cli.show import workflow_standing
from logist.core.machine import advice
from logist.core.model import Edge, EffectiveSpec, Place, State, Status, Step, Workflow
from logist.jobs.followed_workflow import Followed
from logist.jobs.workflow_progress import ProgressRecord, Way
from logist.store import JobDir
from tests.cli.desk import Desk, answer, command
from tests.cli.test_json import schemas, validate
from tests.support import Ran

SECRET_ROLE = "Behave like a very careful clerk."
SECRET_PROMPT = "Find all the files."
FAN = {
    "name": "fan",
    "steps": [
        {"id": "list", "prompt": SECRET_PROMPT, "agentRole": SECRET_ROLE},
        {"id": "each", "name": "Fix one", "stepType": "foreach", "itemsPath": "output.files", "prompt": "Fix {{item}}."},
        {"id": "person", "execution": "manual", "prompt": "Is {{output}} right?", "agentRole": SECRET_ROLE},
        {
            "id": "gate",
            "stepType": "decision",
            "branches": [{"condition": "output.fine", "targetStepId": "end"}],
            "defaultBranch": "list",
        },
    ],
}  # fmt: skip
OUTER = {"name": "outer", "steps": [{"id": "inner", "stepType": "subflow", "subflowId": "fan.json"}]}
LISTED = answer(command(output={"files": ["a", "b"]}))
ASKS = answer(command("STUCK", summary="Which style?"))
STUCK_ONE = {"list": [LISTED], "each[1]": [answer(command(output=1))], "each[2]": [ASKS]}
CONFLICT = {
    "list": [LISTED],
    "each[1]": [answer(files={"x.txt": "one\n"})],
    "each[2]": [answer(files={"x.txt": "two\n"})],
}


def follow(desk: Desk, steps: dict[str, Any], *options: str, flow: str = "fan.json") -> Ran:
    """A job that follows the workflow, run as far as it goes."""
    for name, content in (("fan.json", FAN), ("outer.json", OUTER)):
        (desk.place / name).write_text(json.dumps(content), "utf-8")
    (desk.place / "answers.json").write_text(json.dumps({"steps": steps}), "utf-8")
    made = desk("job", "create", "--id", "j1", "--workflow", flow, *options)
    assert made.code == 0, made.err
    return desk("job", "run", "j1")


def data(desk: Desk, *words: str) -> Any:
    """The JSON of a command, which its schema allows."""
    ran = desk(*words, "--json")
    assert ran.code == 0, ran.err
    found = ran.json["data"]
    validate(found, schemas()[f"job-{words[1]}"])
    return found


def test_a_child_that_is_stuck_a_share_that_is_not_reached_and_what_helps(desk: Desk) -> None:
    follow(desk, STUCK_ONE)
    before = desk.tree()
    status = desk("job", "status", "j1").out
    child = "j1--3-2"
    assert (
        "  step: each, Fix one (2 of 4, foreach)\n"
        "  child jobs: 1 of 2 done\n"
        f"    {child} (b) is STUCK (agent): Which style?\n"
        f'      logist job resubmit --job {child} --note "..."\n'
        "    j1--3-1 (a) is SUCCESS\n"
    ) in status
    assert f'\nnext: logist job resubmit --job {child} --note "..."\n' in status
    graph = desk("job", "show", "j1", "--graph").out
    assert graph.startswith("j1 is WAITING: fan\n\n✓ list · done\n◌ each  Fix one · foreach · waiting 1/2\n")
    assert "    ✓ j1--3-1 (a) · done\n    ! j1--3-2 (b) · stuck Which style?\n○ person · manual\n" in graph
    shown = data(desk, "job", "show", "j1", "--graph")["workflow"]
    assert [(step["id"], step["state"]) for step in shown["steps"]] == [
        ("list", "done"), ("each", "waiting"), ("person", None), ("gate", None),
    ]  # fmt: skip
    assert [(row["id"], row["name"], row["status"]) for row in shown["children"]] == [
        ("j1--3-1", "a", "SUCCESS"),
        (child, "b", "STUCK"),
    ]
    assert desk.tree() == before
    desk("job", "cancel", child)
    assert desk("job", "step", "j1").code == 3
    status = desk("job", "status", "j1").out
    assert status.startswith("j1 is STUCK (share)\n")
    for words in ("", " --force", " --to each"):
        assert f"    logist job resubmit --job j1{words} " in status
    assert f"next: {advice.next_command('STUCK', 'j1', 'share')}\n" in status
    assert "--to STEP to create new child jobs\n" in status
    rows = desk("job", "list", "--json").json["data"]
    assert [(row["id"], row["parent"]) for row in rows] == [("j1", None), ("j1--3-1", "j1"), (child, "j1")]
    assert rows[2]["title"] == "b (fan: Fix one [2/2])"


def test_files_that_do_not_fit_together_are_named(desk: Desk) -> None:
    assert follow(desk, CONFLICT).code == 3
    status = desk("job", "status", "j1").out
    assert status.startswith("j1 is STUCK (conflict)\n")
    assert "  merge conflict with j1--3-2: x.txt\n" in status
    assert "--force " in desk("job", "show", "j1").out
    assert "! each  Fix one · foreach · stuck 2/2 conflict\n" in desk("job", "show", "j1", "--graph").out


def test_what_could_not_be_brought_over_is_named(desk: Desk) -> None:
    (desk.place / ".logist" / "config.yaml").write_text("workspace: {max_checkpoint_bytes: 100}\n", "utf-8")
    big = answer(files={"big.bin": "x" * 101})
    ran = follow(desk, {"list": [LISTED], "each[1]": [big], "each[2]": [answer()]})
    assert "not copied because no checkpoint contains it: j1--3-1: big.bin (too large)" in ran.out + ran.err
    assert "files not copied from j1--3-1: big.bin (too large)\n" in desk("job", "show", "j1").out
    assert "j1--3-1 (a) · done not copied: big.bin (too large)\n" in desk("job", "show", "j1", "--graph").out


def test_a_person_sees_what_is_asked_and_no_view_shows_what_is_for_agents_alone(desk: Desk) -> None:
    given = {"list": [answer(command(output={"files": []}))]}
    assert follow(desk, given, "--input", '{"n": 1}').code == 11
    status = desk("job", "status", "j1").out
    assert (
        "  step: person (3 of 4, manual)\n"
        "  to do:\n"
        "    Is [] right?\n"
        "  input:\n"
        "    {\n"
        '      "n": 1\n'
        "    }\n"
        "  next step, depending on the output:\n"
        "    output.fine: the end\n"
        "    default: list (list)\n"
    ) in status
    answered = "logist job approve --job j1 --output '{...}'"
    assert f'\nnext: {answered}, or: logist job reject --job j1 --note "..."\n' in status
    assert f"  {answered}  the step is done; later steps read the output" in desk("job", "show", "j1").out
    found = data(desk, "job", "status", "j1")
    assert found["next_command"].startswith(answered)
    assert found["workflow"]["asked"] == {"prompt": "Is [] right?", "inputs": {"input": {"n": 1}}}
    assert found["workflow"]["onward"] == [
        {"condition": "output.fine", "target": None}, {"condition": "default", "target": "list"},
    ]  # fmt: skip
    for words in (["status"], ["status", "-v"], ["show"], ["show", "--graph"], ["show", "--mermaid"]):
        ran = desk("job", *words, "j1")
        assert ran.code == 0
        assert ran.out
        assert SECRET_ROLE not in ran.out
        assert SECRET_PROMPT not in ran.out
    drawn = data(desk, "job", "show", "j1", "--mermaid")["mermaid"]
    assert SECRET_ROLE in drawn
    assert "class list,each logist_done\n" in drawn
    assert "class person logist_waiting\n" in drawn


def test_a_job_below_a_job_that_wants_something_is_found(desk: Desk) -> None:
    follow(desk, STUCK_ONE, flow="outer.json")
    below = "j1--2-1--3-2"
    status = desk("job", "status", "j1").out
    assert f"    j1--2-1 is WAITING\n      {below} is STUCK (agent): Which style?\n" in status
    assert f'\nnext: logist job resubmit --job {below} --note "..."\n' in status
    graph = desk("job", "show", "j1", "--graph").out
    assert f"    ◌ j1--2-1 · waiting {below} is STUCK\n" in graph
    found = data(desk, "job", "status", "j1")["workflow"]["children"][0]
    assert [row["id"] for row in found["children"]] == ["j1--2-1--3-1", below]
    desk("job", "resubmit", below)
    assert "\nnext: logist job run --job j1\n" in desk("job", "status", "j1").out


def test_children_at_work_behind_missing_and_damaged(desk: Desk) -> None:
    follow(desk, {"list": [LISTED]})
    first, second = desk.job("j1--3-1"), desk.job("j1--3-2")
    JobDir.open(desk.jobs, first.name).begin_exchange(1, {})
    with JobDir.open(desk.jobs, first.name).hold_lock(command="job step", since="2026-01-02T03:04:05Z"):
        assert "    ● j1--3-1 (a) · running\n" in desk("job", "show", "j1", "--graph").out
    (second / "state.json").unlink()
    assert "j1--3-2 (b) is PENDING\n" in desk("job", "status", "j1").out
    (second / "state.json").write_text("{", "utf-8")
    (second / "damaged-on-purpose").touch()
    assert "    j1--3-2 (b) is ?\n" in desk("job", "status", "j1").out
    second.rename(desk.place / "elsewhere")
    assert "    ▸ j1--3-2 (b) · next not created yet\n" in desk("job", "show", "j1", "--graph").out


def test_a_history_that_does_not_read_is_told_and_the_rest_is_shown(desk: Desk) -> None:
    follow(desk, {"list": [ASKS]})
    history = desk.job() / "jobHistory.json"
    text = history.read_text("utf-8")
    history.write_text(text.replace('"name":"fan"', '"name":7    ', 1), "utf-8")
    (desk.job() / "damaged-on-purpose").touch()
    ran = desk("job", "status", "j1")
    assert (ran.code, ran.out.splitlines()[0]) == (0, "j1 is STUCK (agent)")
    assert "can't read the workflow: " in ran.err
    assert "  step: list\n" in ran.out


def test_a_step_whose_id_no_diagram_can_have_gets_its_class_under_another() -> None:
    steps = (Step(id="a b", name="A"), Step(id="1.2", name="B"), Step(id="c", name="C"))
    flow = Workflow(name="f", start="a b", steps=steps, edges=(Edge(source="a b", target="1.2"),))
    told = ProgressRecord(EffectiveSpec(title="T", workflow=flow), Way(times={"a b": 1}))
    found = Followed("j1", flow, State(place=Place(status=Status.PENDING, step="1.2")), told, ())
    text = workflow_standing.build_diagram(found)
    assert "class step1 logist_done\n" in text
    assert "class step2 logist_next\n" in text
    assert '%%   "id": "a b"' in text
    assert "%%   " not in workflow_standing.build_diagram(found, spoken=True)


def test_the_status_of_a_job_with_a_workflow_judges_nothing(desk: Desk) -> None:
    follow(desk, {"list": [ASKS]})
    ran = desk.process("job", "status", "j1", env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert "step: list (1 of 4, task)" in ran.out
    loaded = {line.rpartition("|")[2].strip() for line in ran.err.splitlines()}
    assert "logist.jobs.workflow_progress" in loaded
    assert {"lark", "logist.core.condition", "jsonschema", "litellm"} & loaded == set()


def test_a_workflow_in_a_newer_format_is_refused(desk: Desk) -> None:
    follow(desk, {"list": [ASKS]})
    job = JobDir.open(desk.jobs, "j1")
    last = desk.history()[-1]
    newer = {**last, "version": 99, "sequence": last["sequence"] + 1, "spec": {"title": 7}}
    job.append_entries(job.load().position, [newer], b"")
    (job.path / "damaged-on-purpose").touch()
    for words in (["status"], ["show"], ["show", "--graph"]):
        ran = desk("job", *words, "j1")
        assert (ran.code, ran.out) == (8, ""), words
        assert "job j1 was written by a newer Logist (job format 99)" in ran.err


@pytest.mark.parametrize("option", ["--graph", "--mermaid"])
def test_a_job_of_one_step_has_no_graph(desk: Desk, option: str) -> None:
    desk.create()
    ran = desk("job", "show", "j1", option)
    assert (ran.code, ran.out) == (8, "")
    assert "the built-in workflow" in ran.err


def test_a_run_says_which_of_its_jobs_has_taken_a_step(desk: Desk) -> None:
    told = follow(desk, STUCK_ONE).out.splitlines()
    assert "j1--3-1 #2 Worker: COMPLETED, PENDING -> SUCCESS" in told
    assert "j1--3-2 #2 Worker: STUCK, PENDING -> STUCK" in told
    assert told[0] == "#2 Worker: COMPLETED, PENDING -> PENDING"


def test_all_that_is_wrong_with_a_workflow_is_told_when_the_job_is_created(desk: Desk) -> None:
    steps = [{"id": "a", "prompt": "x", "role": "Nobody"}, {"id": "b", "agentRole": "short"}]
    (desk.place / "bad.json").write_text(json.dumps({"name": "bad", "steps": steps}, indent=1), "utf-8")
    made = desk("job", "create", "--id", "j1", "--workflow", "bad.json")
    assert made.code == 5
    told = [line for line in made.err.splitlines() if line.startswith("error: ")]
    assert [line.split(":")[1] for line in told[:-1]] == [" bad.json"] * 2
    assert "the workflow can't be used: it has 2 errors (logist workflow validate " in told[-1]
    shown = desk("job", "create", "--id", "j1", "--workflow", "bad.json", "--json").json
    validate(shown, schemas()["envelope"])
    assert [each["target"] for each in shown["diagnostics"]][:2] == ["bad.json:7", "bad.json:11"]
    assert not desk.job("j1").exists()


GATED = {
    "name": "gated",
    "steps": [
        {"id": "rate", "prompt": "Rate it."},
        {
            "id": "gate",
            "stepType": "decision",
            "branches": [{"condition": "output.score >= 80", "targetStepId": "ship"}],
            "defaultBranch": "drop",
        },
        {"id": "ship", "prompt": "Ship it.", "next": "end"},
        {"id": "drop", "prompt": "Drop it."},
    ],
}
FELL_BACK = "decision gate took its default, drop, because the types of the values don't match: `output.score` is text"


def test_a_decision_that_could_not_judge_its_condition_says_so_everywhere(desk: Desk) -> None:
    (desk.place / "gated.json").write_text(json.dumps(GATED), "utf-8")
    steps = {"rate": [answer(command(output={"score": "high"}))], "drop": [answer()]}
    ran = follow(desk, steps, "--approval", "end", flow="gated.json")
    line = f'   {FELL_BACK} (output.score = "high")\n'
    assert line in ran.out
    assert line in desk("job", "history", "j1").out
    assert line[1:] in desk("job", "status", "j1").out
    assert line[3:] in desk("job", "show", "j1").out
    graph = desk("job", "show", "j1", "--graph").out
    assert "✓ gate · decision · done took its default, drop: the types of the values don't match:" in graph
    desk("job", "rerun", "j1")
    assert FELL_BACK in desk("run").out
    desk("job", "rerun", "j1")
    ran = desk("job", "run", "j1", "--json")
    assert ran.json["data"]["interactions"][0]["route"][0]["errors"]


def test_only_the_history_shows_a_decision_that_judged_its_condition(desk: Desk) -> None:
    (desk.place / "gated.json").write_text(json.dumps(GATED), "utf-8")
    steps = {"rate": [answer(command(output={"score": 85}))], "ship": [answer()]}
    ran = follow(desk, steps, flow="gated.json")
    line = "decision gate took ship, because `output.score >= 80` matches (output.score = 85)"
    assert line in desk("job", "history", "j1").out
    assert "decision gate" not in ran.out + desk("job", "status", "j1").out


def test_a_family_at_its_limit_says_so_and_goes_on_when_it_is_raised(desk: Desk) -> None:
    steps = {"list": [LISTED], "each": [answer(command(output=1))]}
    (desk.place / ".logist" / "config.yaml").write_text("max_concurrent_agents: 1\n", "utf-8")
    follow(desk, steps, flow="fan.json")
    desk("job", "restep", "j1", "--to", "3")
    assert desk("job", "step", "j1").code == 0
    first, second = sorted(desk.state()["children"])
    assert desk("job", "config", "j1", "--set", "limits.max_allowed_iterations=4").code == 0
    shown = data(desk, "job", "status", second)
    assert shown["shares_limits_of"] == "j1"
    assert (
        "  shares the limits of its parent j1: logist job status --job j1\n"
        in desk("job", "status", second).out
    )
    ran = desk("run")
    assert ran.code == 7
    assert "j1: HALTED_ITERATION: iteration limit: 4 of 4 runs used; this includes its child jobs" in ran.err
    ran = desk("job", "run", "j1")
    assert (ran.code, "j1 is HALTED_ITERATION\n" in ran.out) == (7, True)
    assert "limits.max_allowed_iterations=" in ran.out
    assert desk("job", "step", second).code == 8
    assert desk("run").code == 7
    desk("job", "config", "j1", "--set", "limits.max_allowed_iterations=20")
    desk("job", "resume", "j1")
    assert desk("job", "run", "j1").code == 11
    assert (desk.state(first)["status"], desk.state(second)["status"]) == ("SUCCESS", "SUCCESS")
    assert desk("job", "verify", "j1").code == desk("job", "replay", "j1").code == 0
