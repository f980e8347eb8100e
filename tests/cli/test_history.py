"""`logist job history`."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from syrupy.assertion import SnapshotAssertion

from logist.cli.show.view import entry_lines
from tests.cli.desk import Desk, answer, command


@pytest.fixture
def told(desk: Desk) -> Desk:
    """Made, answered well, answered badly, resubmitted, answered by a person."""
    desk.script(answer(command(summary="Wrote\nit."), usage={"cost_cents": 3}), answer("It is fine. 👍\r\n"))
    desk.create()
    desk("job", "run", "j1")
    desk("job", "resubmit", "j1", "--review", "--note", "Answer in JSON.")
    desk("job", "poststep", "j1", "--response-string", command(summary="Good."))
    return desk


def test_a_line_or_two_for_each_interaction(told: Desk, snapshot: SnapshotAssertion) -> None:
    before = told.tree()
    ran = told("job", "history", "j1")
    assert told.shown(ran) == snapshot
    assert told.tree() == before


def test_why_an_answer_led_where_it_led(desk: Desk) -> None:
    desk.script(answer(command(summary="All done.", evidence_files=["gone.txt"])))
    desk.create("j1", "--no-review")
    ran = desk("job", "step", "j1")
    why = "COMPLETED, but evidence not found: gone.txt"
    said = ["   All done.", f"   reason: {why}", "   no files changed"]
    lines = ["#2 Worker: COMPLETED, PENDING -> STUCK", *said]
    assert ran.code == 3
    assert ran.out.splitlines()[:4] == lines
    assert desk("job", "history", "j1").out.splitlines()[1:] == lines
    assert [*lines[1:], "   evidence: gone.txt"] == [
        line
        for line in desk("job", "show", "j1").out.splitlines()
        if line.startswith("   ") and " to " not in line
    ]


def test_a_reason_that_is_the_summary_is_told_once(desk: Desk) -> None:
    desk.script(answer(command("STUCK", summary="Need\nhelp.")))
    desk.create()
    out = desk("job", "step", "j1").out
    assert out.count("help.") == 1
    assert "reason: " not in out


def test_json_and_jsonl_are_the_entries_themselves(told: Desk) -> None:
    entries = told.history()
    assert told("job", "history", "j1", "--json").json["data"] == entries
    lines = told("job", "history", "j1", "--jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == entries


def test_raw_and_prompt_are_exact(told: Desk) -> None:
    assert told("job", "history", "j1", "--raw", "3") == (0, "It is fine. 👍\r\n", "")
    prompt = told.history()[2]["request"]["prompt"]
    assert told("job", "history", "j1", "--prompt", "3") == (0, prompt, "")
    assert told("job", "history", "j1", "--raw", "3", "--json").json["data"] == {
        "sequence": 3,
        "raw_response": "It is fine. 👍\r\n",
    }
    assert told("job", "history", "j1", "--prompt", "3", "--json").json["data"] == {
        "sequence": 3,
        "prompt": prompt,
    }


def test_raw_is_exact_whatever_the_encoding_of_the_terminal(told: Desk) -> None:
    done = told.process("job", "history", "j1", "--raw", "3", env={"PYTHONIOENCODING": "ascii"})
    assert (done.code, done.out) == (0, "It is fine. 👍\r\n")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--raw", "99"], "interaction 99 not found in j1"),
        (["--prompt", "0"], "interaction 0 not found in j1"),
        (["--raw", "1"], "interaction 1 (create) has no answer"),
        (["--prompt", "4"], "interaction 4 (resubmit) has no prompt"),
        (["--raw", "2", "--prompt", "2"], "can't use --raw and --prompt together"),
        (["--prompt", "2", "--diff", "2", "3"], "can't use --prompt and --diff together"),
        (["--diff", "1", "2"], "interaction 1 (create) has no prompt"),
        (["--diff", "2", "99"], "interaction 99 not found in j1"),
        (["--diff", "2"], "Option '--diff' requires 2 arguments"),
    ],
)
def test_what_is_not_there(told: Desk, args: list[str], message: str) -> None:
    ran = told("job", "history", "j1", *args)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    if "interaction" in message:
        assert "(to list the interactions: logist job history --job j1)" in ran.err


def test_two_prompts_part_by_part(told: Desk) -> None:
    ran = told("job", "history", "j1", "--diff", "2", "5")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0] == "#2 Worker -> #5 Supervisor"
    assert "role: Worker -> Supervisor" in lines
    place = lines.index("note: only in #5")
    assert lines[place + 1 : place + 4] == ["  +## Note from a person", "  +", "  +Answer in JSON."]
    assert "role:Worker: only in #2" in lines
    assert "equal: task, listing, contract" in lines
    again = told("job", "history", "j1", "--diff", "2", "2")
    assert again.out.splitlines()[1:] == [
        "equal: role:Worker, permissions, task, step, limits, listing, contract",
        "equal in the answers: exit_command, outcome",
    ]


def test_two_answers_are_compared_too(told: Desk) -> None:
    lines = told("job", "history", "j1", "--diff", "3", "5").out.splitlines()
    place = lines.index("exit_command: only in #5")
    assert lines[place + 1 : place + 5] == [
        "  +{",
        '  +  "action": "COMPLETED",',
        '  +  "summary_for_supervisor": "Good."',
        "  +}",
    ]
    assert lines[lines.index("text: only in #3") + 1] == "  -It is fine. 👍"
    assert lines[lines.index("outcome: not the same") + 1] == "  -REVIEW_REQUIRED -> STUCK"
    data = told("job", "history", "j1", "--diff", "3", "5", "--json").json["data"]["answers"]
    assert data["equal"] == []
    assert [(each["source"], each["change"], each["cause"]) for each in data["different"]] == [
        ("exit_command", "added", "the exit command: only in #5"),
        ("outcome", "changed", "the state after the answer: not the same"),
        ("text", "gone", "the text before the exit command: only in #3"),
    ]


@pytest.fixture
def forked(desk: Desk) -> Desk:
    """The job `j1`, and `f1`, which began as it and whose reviewer says something else."""
    first = answer(command(summary="Wrote it."))
    desk.script(first, answer("It is fine."))
    desk.create()
    desk("job", "run", "j1")
    assert desk("job", "fork", "j1", "--at", "2", "--id", "f1").code == 0
    desk.script(first, answer(command(summary="Good.")))
    desk("job", "run", "f1")
    return desk


def test_a_fork_is_compared_where_it_goes_its_own_way(forked: Desk) -> None:
    ran = forked("job", "history", "j1", "--with", "f1")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[:2] == [
        "j1 #3 Supervisor -> f1 #4 Supervisor",
        "identical before these: 1 prompt with its answer",
    ]
    assert lines[2].startswith("equal: role:Supervisor, permissions, ")
    assert "exit_command: only in f1 #4" in lines
    assert "text: only in j1 #3" in lines
    data = forked("job", "history", "j1", "--with", "f1", "--json").json["data"]
    assert (data["before"]["job"], data["before"]["sequence"]) == ("j1", 3)
    assert (data["after"]["job"], data["after"]["sequence"], data["same_before"]) == ("f1", 4, 1)
    assert (data["different"], data["answers"]["equal"]) == ([], [])


def test_jobs_without_a_difference(forked: Desk) -> None:
    assert forked("job", "fork", "j1", "--at", "2", "--id", "f2").code == 0
    assert (
        forked("job", "history", "j1", "--with", "j1").out
        == "no differences in 2 prompts with their answers\n"
    )
    for args, side in ((("j1", "--with", "f2"), "before"), (("f2", "--with", "j1"), "after")):
        out = forked("job", "history", *args).out.splitlines()
        assert out == ["no differences in 1 prompt with its answer", "only j1 continues, with #3 Supervisor"]
        data = forked("job", "history", *args, "--json").json["data"]
        assert {name: data[name] and data[name]["sequence"] for name in ("before", "after")} == {
            "before": None,
            "after": None,
            side: 3,
        }
        assert (data["same_before"], data["different"]) == (1, [])


def test_two_interactions_of_two_jobs_or_of_a_path(forked: Desk) -> None:
    assert forked("job", "export", "f1", "--fixture", "shared").code == 0
    for other in ("f1", "shared", "shared/jobHistory.json", ".logist/jobs/f1"):
        ran = forked("job", "history", "j1", "--diff", "2", "4", "--with", other)
        assert ran.code == 0, ran.err
        assert ran.out.splitlines()[0] == f"j1 #2 Worker -> {other} #4 Supervisor"
        assert f"role:Supervisor: only in {other} #4" in ran.out.splitlines()
    ran = forked("job", "history", "j1", "--diff", "2", "9", "--with", "shared")
    assert "interaction 9 not found in shared (to read the history: logist replay shared --json)" in ran.err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--with", "nope"], "no job or file named 'nope'"),
        (["--with", ".logist"], "jobHistory.json not found in .logist"),
        (["--with", "answers.json"], "answers.json: "),
        (
            ["--diff", "2", "9", "--with", "f1"],
            "interaction 9 not found in f1 (to list the interactions: logist job history --job f1)",
        ),
        (["--diff", "2", "3", "--with", "f1"], "interaction 3 (fork) has no prompt"),
        (["--raw", "2", "--with", "f1"], "can't use --raw and --with together"),
        (["--prompt", "2", "--diff", "2", "3", "--with", "f1"], "can't use --prompt and --diff together"),
    ],
)
def test_what_cannot_be_compared(forked: Desk, args: list[str], message: str) -> None:
    before = forked.tree()
    ran = forked("job", "history", "j1", *args)
    assert (ran.code in (2, 10), ran.out) == (True, ""), ran
    assert message in ran.err
    assert forked.tree() == before


def test_two_prompts_as_json(told: Desk) -> None:
    data = told("job", "history", "j1", "--diff", "2", "5", "--json").json["data"]
    assert (data["before"]["role"], data["after"]) == (
        "Worker",
        {"job": "j1", "sequence": 5, "role": "Supervisor", "step": "task", "attempt": 1},
    )
    assert data["equal"] == ["task", "listing", "contract"]
    assert data["settings"]["role"] == {"before": "Worker", "after": "Supervisor"}
    note = next(each for each in data["different"] if each["source"] == "note")
    assert (note["change"], note["cause"]) == ("added", "the steward's note: only in #5")


def test_damage_in_the_middle_is_told_after_what_is_good(told: Desk) -> None:
    file = told.job() / "jobHistory.json"
    lines = file.read_bytes().split(b"\n")
    lines[3] = lines[3].replace(b"It is fine", b"It is bad.")
    file.write_bytes(b"\n".join(lines))
    before = told.tree()
    ran = told("job", "history", "j1")
    assert ran.code == 10
    assert [line[:2] for line in ran.out.splitlines() if line.startswith("#")] == ["#1", "#2"]
    assert ran.err.startswith(f"error: {file}: interaction 3 ")
    assert ran.err.count("\n") == 1
    broken = told("job", "history", "j1", "--json")
    assert (broken.code, broken.json["data"]) == (10, None)
    assert broken.json["diagnostics"][0]["code"] == "damaged"
    for name in ("replay", "show", "verify"):
        assert told("job", name, "j1").code == 10
    assert told.tree() == before


def test_tools_and_a_breach_are_told(desk: Desk) -> None:
    desk.script(answer(files={"x": "y"}))
    desk.create("j1", "--role", "Planner")
    assert desk("job", "step", "j1").code == 3
    shown = desk("job", "history", "j1").out
    assert "COMPLETED, PENDING -> STUCK" in shown
    assert "the role Planner created x, but lacks create_files; the change was undone" in shown
    assert not (desk.job() / "workspace" / "x").exists()


def test_what_an_agent_called_is_counted() -> None:
    from tests.core.builders import whole_history

    entry = next(each for each in whole_history().entries if each.kind == "ask")
    response = entry.response.model_copy(update={"tools": {"read_file": 3, "search": 1}})
    assert "   tools: read_file x 3, search" in entry_lines(entry.model_copy(update={"response": response}))
    refused = entry.response.model_copy(update={"actions": []})
    assert entry.observed is not None
    seen = entry.observed.model_copy(update={"refusals": [{"message": "no"}]})
    line = entry_lines(entry.model_copy(update={"response": refused, "observed": seen}))[0]
    assert ": breach, " in "".join(span if isinstance(span, str) else span.text for span in line)


def test_the_document_is_the_same_as_one_that_is_written_at_once(told: Desk) -> None:
    document = {"schema_version": 1, "data": told.history(), "diagnostics": []}
    assert told("job", "history", "j1", "--json").out == json.dumps(document, separators=(",", ":")) + "\n"


def test_a_damaged_history_begins_no_document(told: Desk) -> None:
    path = told.job() / "jobHistory.json"
    path.write_bytes(path.read_bytes().replace(b"It is fine.", b"It is sure."))
    ran = told("job", "history", "j1", "--json")
    assert (ran.code, ran.json["data"]) == (10, None)
    assert [each["severity"] for each in ran.json["diagnostics"]] == ["error"]


def test_a_reader_that_has_enough_is_no_error(told: Desk) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    started = told.started("job", "history", "j1", "--json", stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert started.communicate()[1] == b""
    assert started.returncode == 0
