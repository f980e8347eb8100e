"""`logist inbox`: what waits for a person, in which order, how it fits a terminal; snooze and note."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logist.core.machine import waiting
from tests.cli.desk import Desk, answer, command
from tests.cli.faults import asked
from tests.support import tree

QUESTION = {"type": "question", "question": "Which database?", "options": ["postgres", "sqlite"]}
HOUR = 3600


def test_the_help_names_every_kind(desk: Desk) -> None:
    listed = " ".join(desk("inbox", "--help").out.split()).partition("Kinds: ")[2].partition(". ")[0]
    assert sorted(re.findall(r"[a-z_]+", re.sub(r"\(.*?\)", "", listed))) == sorted(waiting.KINDS)


def stuck(desk: Desk, job_id: str = "stuck", summary: str = "Hm.", **more: Any) -> None:
    desk.script(answer(command("STUCK", summary, **more)))
    desk.create(job_id)
    assert desk("job", "step", job_id).code == 3


def approvable(desk: Desk, job_id: str = "approve-me", *options: str) -> None:
    desk.script(answer(files={"a.txt": "a\n", "b.txt": "b\n"}), answer())
    desk.create(job_id, *options)
    assert desk("job", "run", job_id).code == 11


def manual(desk: Desk, job_id: str = "by-hand") -> None:
    step = "{id: look, execution: manual, prompt: Look at it., role: Worker}"
    (desk.place / "w.yaml").write_text(f"name: W\nsteps:\n- {step}\n", "utf-8")
    assert desk("job", "create", "--id", job_id, "--workflow", "w.yaml").code == 0


def halted(desk: Desk) -> None:
    desk.create("halted", "--cost-threshold", "0")
    assert desk("job", "step", "halted").code == 7


def in_doubt(desk: Desk) -> None:
    desk.create("j2")
    asked(sent=True)(desk)
    assert desk("job", "step", "j2").code == 3


def damaged(desk: Desk) -> None:
    desk.create("broken")
    (desk.job("broken") / "state.json").write_text("{", "utf-8")
    (desk.job("broken") / "damaged-on-purpose").touch()


def change_state(desk: Desk, job_id: str, **fields: Any) -> None:
    """A state that no short series of commands makes. The list reads it without checking its checksum."""
    state = desk.state(job_id) | fields
    (desk.job(job_id) / "state.json").write_text(json.dumps(state), "utf-8")
    (desk.job(job_id) / "damaged-on-purpose").touch()


def rows(desk: Desk, *options: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = desk("inbox", "--json", *options).json["data"]
    return listed


def kinds(desk: Desk, *options: str) -> dict[str, str]:
    return {row["job"]: row["kind"] for row in rows(desk, *options)}


def test_nothing_waits(desk: Desk) -> None:
    desk.create("pending")
    desk.create("draft", "--draft")
    ran = desk("inbox")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "nothing waits for you\n"


CASES: dict[str, tuple[Callable[[Desk], None], str, int, str, str]] = {
    "stuck": (stuck, "agent", 3, "Hm.", 'logist job resubmit --job stuck --note "..."'),
    "question": (
        lambda desk: stuck(desk, "asks", output=QUESTION),
        "question",
        3,
        "Which database?",
        'logist job resubmit --job asks --note "..."',
    ),
    "approval": (approvable, "approval", 11, "Done.", "logist job approve --job approve-me"),
    "manual": (
        manual,
        "manual",
        11,
        "manual step look: Look at it.",
        "logist job approve --job by-hand --output '{...}'",
    ),
    "halted": (
        halted,
        "cost",
        7,
        "$0.00 of $0.00 used",
        "logist job config --job halted --set limits.cost_threshold=CENTS",
    ),
    "damaged": (damaged, "damaged", 10, "state.json is not valid JSON", "logist doctor --fix"),
}


@pytest.mark.parametrize("case", CASES)
def test_each_kind_with_its_reason_one_command_and_exit_code(desk: Desk, case: str) -> None:
    make, kind, code, reason, one_command = CASES[case]
    make(desk)
    before = tree(desk.home)
    ran = desk("inbox", "--json")
    assert ran.code == code
    (row,) = ran.json["data"]
    assert (row["kind"], row["exit_code"], row["command"]) == (kind, code, one_command)
    assert reason in row["reason"]
    assert tree(desk.home) == before  # it only reads


def test_the_exit_code_is_the_first_that_applies(desk: Desk) -> None:
    approvable(desk)
    assert desk("inbox").code == 11
    halted(desk)
    assert desk("inbox").code == 7
    stuck(desk)
    assert desk("inbox").code == 3
    damaged(desk)
    assert desk("inbox").code == desk("run").code == 10
    assert desk("inbox", "--kind", "halted").code == 7


@pytest.mark.parametrize("kind", sorted(set(waiting.STUCK_KINDS) - {"question"}))
def test_every_kind_of_stuck_is_listed(desk: Desk, kind: str) -> None:
    stuck(desk)
    problem = desk.state("stuck")["stuck"] | {"kind": kind, "reason": "some\nreason"}
    change_state(desk, "stuck", stuck=problem)
    (row,) = rows(desk, "--kind", kind)
    assert (row["kind"], row["reason"]) == (kind, "some reason")
    verbs = ("resubmit", "merge", "update")
    assert row["command"].startswith(tuple(f"logist job {verb} --job stuck" for verb in verbs))
    assert ", or" not in row["command"]
    assert [each["job"] for each in rows(desk, "--kind", "stuck")] == [
        "stuck"
    ]  # not its age: a second may pass
    assert rows(desk, "--kind", "halted") == []


def test_a_tool_that_needs_approval_is_allowed_by_its_command(desk: Desk) -> None:
    stuck(desk)
    reason = "the tool write_file needs a steward's approval (job resubmit --allow write_file): a.txt"
    change_state(desk, "stuck", stuck=desk.state("stuck")["stuck"] | {"kind": "permission", "reason": reason})
    assert rows(desk)[0]["command"] == "logist job resubmit --job stuck --allow write_file"


def test_a_call_in_doubt_is_not_retried_by_its_command(desk: Desk) -> None:
    in_doubt(desk)
    (row,) = rows(desk)
    assert (row["kind"], row["command"]) == ("in_doubt", "logist job resubmit --job j2 --assume-paid")


def test_a_job_that_gave_up_waiting_for_its_provider(desk: Desk) -> None:
    desk.create("j1")
    wait = {"provider": "openai", "revision": 1, "reason": "503", "message": "try later", "waited": 3600.0}
    file = desk.job("j1") / "provider-wait.json"
    file.write_text(json.dumps(wait | {"pause": 60.0}), "utf-8")
    assert rows(desk) == []  # it is tried again without a person
    file.write_text(json.dumps(wait | {"pause": 3600.0, "gave_up": True}), "utf-8")
    (row,) = rows(desk)
    assert (row["kind"], row["command"]) == ("provider", "logist job step --job j1")
    assert row["reason"] == "openai, not available for 60 min of waiting (503): try later"
    assert desk("inbox").code == 6
    stuck(desk)
    assert desk("inbox").code == 3


def family(desk: Desk) -> None:
    """A parent that waits for two children, the first of which is STUCK; and an older STUCK job."""
    stuck(desk, "a-older")
    for job_id in ("parent", "child-1", "child-2"):
        stuck(desk, job_id)
    change_state(desk, "parent", status="WAITING", stuck=None, children=["child-1", "child-2"], workflow="W")
    change_state(desk, "child-1", parent="parent")
    change_state(desk, "child-2", parent="parent", status="PENDING", stuck=None)


def test_what_blocks_most_comes_first_then_what_is_oldest(desk: Desk) -> None:
    family(desk)
    stuck(desk, "b-newest")
    change_state(desk, "b-newest", updated_at="2099-01-01T00:00:00Z")
    assert [(row["job"], row["blocks"]) for row in rows(desk)] == [
        ("child-1", 1),
        ("a-older", 0),
        ("b-newest", 0),
    ]
    assert rows(desk)[2]["age_seconds"] == 0


def test_a_parent_at_a_limit_blocks_the_children_that_would_run(desk: Desk) -> None:
    family(desk)
    change_state(desk, "parent", status="HALTED_TIME")
    assert [(row["job"], row["blocks"]) for row in rows(desk)][:2] == [("parent", 1), ("a-older", 0)]


@pytest.mark.parametrize("fields", [{"status": []}, {"status": {}}, {"stuck": {"kind": []}}])
def test_an_invalid_state_hides_no_other_job(desk: Desk, fields: dict[str, Any]) -> None:
    stuck(desk, "good")
    stuck(desk, "strange")
    change_state(desk, "strange", **fields)
    assert kinds(desk) == {"good": "agent", "strange": "damaged"}


def test_jobs_that_are_children_of_each_other_are_counted_once(desk: Desk) -> None:
    for name, other in (("one", "two"), ("two", "one")):
        desk.create(name)
        change_state(desk, name, status="HALTED_TIME", children=[other] * 3)
    desk.create("three")
    change_state(desk, "one", children=["two", "two", "three", "three"])
    assert {row["job"]: row["blocks"] for row in rows(desk)} == {"one": 1, "two": 1}


def test_a_child_that_its_parent_no_longer_waits_for_is_left_out(desk: Desk) -> None:
    family(desk)
    change_state(desk, "parent", status="SUCCESS", children=[])
    assert [row["job"] for row in rows(desk)] == ["a-older"]


def test_changed_files_are_counted_from_the_history(desk: Desk) -> None:
    approvable(desk)
    assert rows(desk)[0]["changed_files"] == 2
    assert desk("job", "reject", "approve-me", "--note", "no").code == 0
    desk.script(answer(), answer(), answer(files={"a.txt": "a2\n", "c.txt": "c\n"}), answer())
    assert desk("job", "run", "approve-me").code == 11
    assert rows(desk)[0]["changed_files"] == 3
    assert desk("job", "restep", "approve-me", "--to", "5").code == 0
    assert desk("job", "rerun", "approve-me").code == 0
    stuck(desk)
    assert {row["job"]: row["changed_files"] for row in rows(desk)} == {"stuck": 0}
    history = desk.job("stuck") / "jobHistory.json"
    os.truncate(history, history.stat().st_size - 2)
    assert rows(desk)[0]["changed_files"] in (0, None)


def test_json_has_the_review_hash_that_an_approval_accepts(desk: Desk) -> None:
    approvable(desk)
    stuck(desk)
    hashes = {row["job"]: row["review_hash"] for row in desk("inbox", "--json").json["data"]}
    assert hashes["stuck"] is None
    (desk.job("approve-me") / "workspace" / "a.txt").write_text("edited\n")
    refused = desk("job", "approve", "approve-me", "--seen", hashes["approve-me"])
    assert refused.code == 8
    assert "files" in refused.err
    (desk.job("approve-me") / "workspace" / "a.txt").write_text("a\n")
    assert desk("job", "approve", "approve-me", "--seen", hashes["approve-me"]).code == 0


def test_an_undone_change_is_not_counted(desk: Desk) -> None:
    desk.script(answer(files={"a.txt": "a\n"}))
    desk.create("j1", "--role", "Planner")
    assert desk("job", "step", "j1").code == 3
    (row,) = rows(desk)
    assert (row["kind"], row["changed_files"]) == ("permission", 0)


def test_filters_by_tag_and_assignee(desk: Desk) -> None:
    approvable(desk, "tagged", "--tag", "web")
    manual(desk)
    change_state(desk, "by-hand", doers={"look": {"role": "ada", "source": "assignee"}})
    assert list(kinds(desk, "--tag", "web")) == ["tagged"]
    assert list(kinds(desk, "--assignee", "ada")) == ["by-hand"]
    assert list(kinds(desk, "--assignee", "bob")) == []


def test_a_pipe_gets_every_column(desk: Desk) -> None:
    stuck(
        desk, summary="A reason that is much longer than a terminal of eighty columns is wide, and goes on."
    )
    (line,) = desk("inbox").out.splitlines()
    job, kind, age, blocks, cost, files, one_command, reason = line.split("\t")
    assert (job, kind, blocks, cost, files) == ("stuck", "agent", "0", "$0.00", "0")
    assert age.endswith("s")
    assert one_command == 'logist job resubmit --job stuck --note "..."'
    assert reason.endswith("goes on.")


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_a_terminal_is_not_too_narrow(desk: Desk, columns: int) -> None:
    stuck(desk, "fix-the-login", "A reason that is longer than a terminal. " * 5)
    approvable(desk, "write-docs")
    seen = desk.on_terminal("inbox", columns=columns, env={"NO_COLOR": "1"})
    lines = seen.splitlines()
    assert max(map(len, lines)) <= columns
    head = lines[0].split()
    assert head[0] == "JOB"
    assert head[-1] == "REASON"
    assert ("COST" in head, "FILES" in head) == (columns > 60, columns > 60)
    assert "NEXT" in head
    assert len(lines) == 4
    assert lines[-1] == "to decide one by one: logist inbox -i"
    if columns == 200:
        assert 'logist job resubmit --job fix-the-login --note "..."' in seen


def test_the_directory_of_the_jobs_is_part_of_the_commands(desk: Desk) -> None:
    (desk.place / "there").mkdir()
    desk.create("j1", "--jobs-dir", "there")
    desk.script(answer(command("STUCK")))
    desk("job", "step", "j1", "--jobs-dir", "there")
    wanted = 'logist job resubmit --jobs-dir there --job j1 --note "..."'
    assert desk("inbox", "--jobs-dir", "there").out.split("\t")[6] == wanted
    assert rows(desk, "--jobs-dir", "there")[0]["command"] == wanted


def test_text_by_agents_controls_no_terminal(desk: Desk) -> None:
    stuck(desk, summary="\x1b[2J\rfake\tline\n[red]x[/red]")
    (line,) = desk("inbox").out.splitlines()
    assert line.count("\t") == 7
    assert "\x1b" not in line
    assert "[red]x[/red]" in line


# All projects


def other_project(desk: Desk, name: str) -> Path:
    place = desk.place.parent / name
    there = Desk(place, desk._run)
    there.script(answer(command("STUCK", f"From {name}.")))
    there.create(f"job-{name}")
    assert there("job", "step", f"job-{name}").code == 3
    return place


def list_projects(desk: Desk, *paths: object) -> dict[str, str]:
    home = desk.place.parent / "home"
    (home / ".config" / "logist").mkdir(parents=True, exist_ok=True)
    text = f"projects: {json.dumps([str(path) for path in paths])}\n"
    (home / ".config" / "logist" / "config.yaml").write_text(text, "utf-8")
    return {"HOME": str(home), "XDG_CONFIG_HOME": ""}


def test_all_projects_of_the_users_config(desk: Desk) -> None:
    stuck(desk)
    one, two = other_project(desk, "one"), other_project(desk, "two")
    missing = desk.place.parent / "missing"
    env = list_projects(desk, one, two, missing, two)
    ran = desk("inbox", "--all", env=env)
    assert ran.code == 3
    assert ran.err == (
        f"warning: {missing}: project not found (correct `projects` in your config: logist config show projects)\n"
    )
    lines = [line.split("\t") for line in ran.out.splitlines()]
    assert [line[:3] for line in lines] == [[str(one), "job-one", "agent"], [str(two), "job-two", "agent"]]
    assert lines[0][7] == f'cd {one} && logist job resubmit --job job-one --note "..."'
    assert [row["project"] for row in desk("inbox", "--all", "--json", env=env).json["data"]] == [
        str(one),
        str(two),
    ]


def test_a_project_below_the_home_directory(desk: Desk) -> None:
    env = list_projects(desk, "~/code/app")
    place = Path(env["HOME"]) / "code" / "app"
    there = Desk(place, desk._run)
    there.script(answer(command("STUCK")))
    there.create("j1")
    there("job", "step", "j1")
    assert desk("inbox", "--all", env=env).out.startswith(f"{place}\tj1\t")


def test_without_projects_it_says_how_to_list_them(desk: Desk) -> None:
    ran = desk("inbox", "--all", env=list_projects(desk))
    assert ran.code == 2
    assert "no projects are listed (add them to " in ran.err
    ran = desk("inbox", "--all", "--jobs-dir", ".")
    assert "can't use --all and --jobs-dir together" in ran.err


def test_a_project_can_not_list_projects(desk: Desk) -> None:
    desk.settings("review: true\nprojects: [/etc]\n")
    ran = desk("config", "show")
    assert ran.code == 5
    assert (
        "config.yaml:2: `projects` can't be set by a project, only in your own config (move it to " in ran.err
    )
    assert desk("inbox").code == 0


# Snooze and note


def test_a_snoozed_job_is_hidden_until_then(desk: Desk) -> None:
    stuck(desk)
    before = {name: data for name, data in tree(desk.home).items() if not name.endswith("snooze.json")}
    ran = desk("inbox", "snooze", "stuck", "--until", "2h")
    assert ran.code == 0
    assert ran.out.startswith("stuck is snoozed until ")
    after = tree(desk.home)
    assert {name: data for name, data in after.items() if not name.endswith("snooze.json")} == before
    ran = desk("inbox")
    assert (ran.code, ran.out) == (0, "")
    assert "1 job snoozed (to list: logist inbox --snoozed)" in ran.err
    assert desk("inbox", "--snoozed").code == 3
    assert "\t(until " in desk("inbox", "--snoozed").out
    assert desk("run").code == 3  # it still counts
    file = desk.job("stuck") / "snooze.json"
    snooze = json.loads(file.read_bytes())
    assert abs(snooze["until"] - time.time() - 2 * HOUR) < 60
    file.write_text(json.dumps(snooze | {"until": time.time() - 1}), "utf-8")
    assert list(kinds(desk)) == ["stuck"]


def test_a_snooze_ends_when_the_job_changes(desk: Desk) -> None:
    stuck(desk)
    assert desk("inbox", "snooze", "stuck", "--until", "3d").code == 0
    assert desk("job", "resubmit", "stuck").code == 0
    desk.script(answer(), answer(command("STUCK", "Hm again.")))
    assert desk("job", "step", "stuck").code == 3
    assert list(kinds(desk)) == ["stuck"]


def test_a_snooze_can_be_ended_and_its_file_deleted(desk: Desk) -> None:
    stuck(desk)
    for end in (
        lambda: desk("inbox", "snooze", "stuck", "--until", "now"),
        (desk.job("stuck") / "snooze.json").unlink,
    ):
        assert desk("inbox", "snooze", "stuck", "--until", "2099-12-01T09:00").code == 0
        assert list(kinds(desk)) == []
        end()
        assert list(kinds(desk)) == ["stuck"]


@pytest.mark.parametrize(
    "until", ["yesterday", "2001-01-01", "0h", "-1h", "99999999d", "inf", "", "9999999999"]
)
def test_a_time_that_can_not_be_read(desk: Desk, until: str) -> None:
    stuck(desk)
    ran = desk("inbox", "snooze", "stuck", "--until", until)
    assert ran.code == 2
    assert f"not a time in the future: {until!r}" in ran.err
    assert list(kinds(desk)) == ["stuck"]


def test_only_what_waits_can_be_snoozed(desk: Desk) -> None:
    desk.create("j1")
    ran = desk("inbox", "snooze", "j1", "--until", "1h")
    assert (ran.code, ran.err) == (
        8,
        "error: nothing to snooze: j1 does not wait for a person (logist job status --job j1)\n",
    )
    assert desk("inbox", "snooze", "nope", "--until", "1h").code == 2


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"until": "x", "revision": 2}', '{"until": 1e400}', "9" * 9000]
)
def test_a_strange_snooze_file_hides_nothing(desk: Desk, content: str) -> None:
    stuck(desk)
    (desk.job("stuck") / "snooze.json").write_text(content, "utf-8")
    assert list(kinds(desk)) == ["stuck"]


def test_a_note_changes_nothing_and_is_shown(desk: Desk) -> None:
    stuck(desk)
    before = desk.state("stuck")
    ran = desk("inbox", "note", "stuck", "Asked Bob.")
    assert ran.code == 0
    after = desk.state("stuck")
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"revision", "head", "checksum"}
    assert desk.history("stuck")[-1]["kind"] == "note"
    assert desk.history("stuck")[-1]["steward"] == {"name": "ada", "note": "Asked Bob.", "via": "pipe"}
    assert "Asked Bob." in desk("job", "history", "stuck").out
    assert "#3 note by ada: Asked Bob.\n" in desk("job", "show", "stuck").out
    assert desk("job", "resubmit", "stuck").code == 0
    assert "Asked Bob." not in desk("job", "preview", "stuck").out  # only people read it
    assert desk("job", "verify", "stuck").code == desk("job", "replay", "stuck").code == 0


def test_a_note_without_a_text_says_so(desk: Desk) -> None:
    stuck(desk)
    ran = desk("inbox", "note", "stuck")
    assert ran.code == 2
    assert ran.err == 'error: TEXT: expected a job and a text in quotes (use logist inbox note JOB "TEXT")\n'


def test_a_note_on_a_job_that_has_ended(desk: Desk) -> None:
    approvable(desk)
    assert desk("job", "approve", "approve-me").code == 0
    assert desk("inbox", "note", "approve-me", "Well done.").code == 0
    assert desk.state("approve-me")["status"] == "SUCCESS"


@pytest.mark.parametrize("words", [[], ["j1", "two", "words"], ["j1", " "]])
def test_a_note_needs_a_text(desk: Desk, words: list[str]) -> None:
    desk.create("j1")
    ran = desk("inbox", "note", *words)
    assert ran.code == 2
    assert 'logist inbox note JOB "TEXT"' in ran.err


def test_an_option_before_a_command_is_not_ignored(desk: Desk) -> None:
    stuck(desk)
    ran = desk("inbox", "--kind", "agent", "note", "stuck", "x")
    assert ran.code == 2
    assert "--kind has no effect before note (logist inbox note --help)" in ran.err
    assert len(desk.history("stuck")) == 2
