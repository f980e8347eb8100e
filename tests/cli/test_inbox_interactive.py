"""`logist inbox -i` on a real terminal: what a person sees of each job, which keys there are, and what they do."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from logist.core.model import Kind, State
from logist.errors import LogistError
from logist.jobs.steward.inbox_decisions import Input, list_decisions, make_decision
from tests import support
from tests.cli.desk import Desk, answer, command
from tests.cli.faults import asked, project
from tests.cli.terminal import CTRL_C, Terminal

PLAIN = {"NO_COLOR": "1"}
QUESTION = {
    "type": "question",
    "question": "Which database?",
    "options": ["postgres", {"value": "sqlite", "label": "a file"}],
}


def step(desk: Desk, job_id: str, *answers: dict[str, Any], options: tuple[str, ...] = ()) -> None:
    desk.script(*answers)
    desk.create(job_id, *options)
    for _ in answers:
        desk("job", "step", job_id)


def follow(desk: Desk, job_id: str, steps: str, *answers: dict[str, Any]) -> None:
    """A job that follows a workflow, after as many steps as there are answers and one more."""
    (desk.place / "inner.yaml").write_text("name: I\nsteps:\n- {id: s, prompt: x}\n", "utf-8")
    (desk.place / f"{job_id}.yaml").write_text(f"name: W\nsteps:\n{steps}", "utf-8")
    desk.script(*answers)
    assert desk("job", "create", "--id", job_id, "--workflow", f"{job_id}.yaml").code == 0
    desk("job", "step", job_id)


def asks_question(desk: Desk) -> None:
    step(desk, "asks", answer(command("STUCK", "I need to know.", output=QUESTION)))


def invalid(desk: Desk) -> None:
    step(desk, "invalid", answer("I did it, I think.\nReally."))


def out_of_attempts(desk: Desk) -> None:
    step(desk, "attempts", answer(command("RETRY", "Not yet.")), options=("--max-attempts", "1"))


def stuck_in_review(desk: Desk) -> None:
    step(desk, "review", answer(files={"a.txt": "a\n"}), answer(command("STUCK", "I can't judge it.")))


def forbidden(desk: Desk) -> None:
    step(desk, "forbidden", answer(files={"a.txt": "a\n"}), options=("--role", "Planner"))


def in_doubt(desk: Desk) -> None:
    desk.create("j2")
    asked(sent=True)(desk)
    assert desk("job", "step", "j2").code == 3


NO_BRANCH = """\
- {id: ask, prompt: Ask.}
- id: which
  stepType: decision
  branches: [{condition: output.ok == true, targetStepId: send}]
- {id: send, prompt: Send.}
"""


def no_branch(desk: Desk) -> None:
    follow(desk, "branch", NO_BRANCH, answer(command(output={"ok": False})))


def too_few_children(desk: Desk) -> None:
    follow(desk, "share", "- {id: sub, stepType: subflow, subflowId: inner}\n")
    (child,) = desk.state("share")["children"]
    assert desk("job", "fail", child).code == 0
    assert desk("job", "step", "share").code == 3


STUCK_JOBS: dict[str, tuple[Callable[[Desk], None], str, str]] = {
    "asks": (asks_question, "question", "PENDING"),
    "invalid": (invalid, "agent", "PENDING"),
    "attempts": (out_of_attempts, "attempts", "PENDING"),
    "review": (stuck_in_review, "agent", "PENDING"),
    "forbidden": (forbidden, "permission", "PENDING"),
    "j2": (in_doubt, "in_doubt", "PENDING"),
    "branch": (no_branch, "no_branch", "PENDING"),
    "share": (too_few_children, "share", "WAITING"),
}


class Person:
    """A person at `logist inbox -i`, who types what the screen offers."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self._read = 0

    def wait_for(self, text: str) -> str:
        """Wait until the text is on the screen after what was read before; return what came before it."""
        self.terminal.wait_for(text, self._read)
        before, _, _ = self.terminal.seen[self._read :].partition(text)
        self._read += len(before) + len(text)
        return before

    def answer(self, prompt: str, keys: str) -> str:
        """Type a line at the next prompt; return what was shown before it."""
        page = self.wait_for(prompt)
        self.wait_for(": ")
        self.terminal.type(keys.encode() + b"\n")
        return page


@pytest.fixture
def sit(desk: Desk) -> Iterator[Callable[..., Person]]:
    opened: list[Terminal] = []

    def begin(*options: str, columns: int = 80, env: dict[str, str] | None = None) -> Person:
        terminal = Terminal(desk, "inbox", "-i", *options, columns=columns, env=PLAIN | (env or {}))
        opened.append(terminal.__enter__())
        return Person(terminal)

    yield begin
    for terminal in opened:
        terminal.__exit__(None, None, None)


Sit = Callable[..., Person]


def test_eight_different_stuck_jobs_are_resolved_with_one_key_each(desk: Desk, sit: Sit) -> None:
    for make, _, _ in STUCK_JOBS.values():
        make(desk)
    listed = desk("inbox", "--json").json["data"]
    assert {row["job"]: row["kind"] for row in listed} == {
        job: kind for job, (_, kind, _) in STUCK_JOBS.items()
    }
    person = sit()
    for row in listed:
        page = person.answer(f"{row['job']} [", "r")
        assert "\nTask" in page
        assert re.search(r"^  r  \w", page, re.MULTILINE)
        match row["kind"]:
            case "question":
                person.answer("number of an option", "2")
            case "in_doubt":
                person.answer("Was it charged?", "n")
            case "no_branch":
                person.answer("Step to continue at (Enter: ask)", "")
            case "share":
                pass
            case _:
                person.answer("Note for the agent", "Try it.")
        person.wait_for(f"{row['job']} is now {STUCK_JOBS[row['job']][2]}")
    assert person.terminal.wait() == 0  # nothing waits before an agent has worked again
    assert "8 decisions made" in person.terminal.seen
    assert "to let the agents continue: logist run" in person.terminal.seen
    assert desk.history("asks")[-1]["steward"]["note"] == "sqlite"
    assert desk.history("j2")[-1]["command"]["doubt"] == "retry"
    assert desk.state("invalid")["note"] == "Try it."


def test_the_page_shows_question_answer_and_options(desk: Desk, sit: Sit) -> None:
    asks_question(desk)
    page = sit().wait_for("asks [")
    assert "asks: STUCK, the agent asks you something" in page
    for text in ("Do it.", "Worker said (#2, STUCK):", "I need to know.", "1. postgres", "2. sqlite: a file"):
        assert text in page
    assert "  r  reply: the agent reads your answer, and tries again" in page


def test_the_number_of_an_option_answers_the_question(desk: Desk, sit: Sit) -> None:
    asks_question(desk)
    person = sit()
    person.answer("asks [1-2/r/", "3")
    person.wait_for("Unknown key '3'. The keys are:")
    person.answer("asks [", "2")
    person.wait_for("asks is now PENDING")
    assert desk.history("asks")[-1]["steward"]["note"] == "sqlite"


def test_no_option_of_a_reviewers_question_accepts_the_work(desk: Desk, sit: Sit) -> None:
    step(desk, "j1", answer(files={"a.txt": "a\n"}), answer(command("STUCK", "Which?", output=QUESTION)))
    person = sit()
    person.answer("j1 [r/v/a/", "1")
    person.wait_for("Unknown key '1'. The keys are:")
    assert desk.state("j1")["status"] == "STUCK"


def test_a_question_mark_shows_the_keys(desk: Desk, sit: Sit) -> None:
    asks_question(desk)
    person = sit()
    person.answer("asks [", "?")
    page = person.answer("asks [", "q")
    assert "c  cancel the job" in page
    assert "Unknown key" not in page


def test_approve_after_the_diff(desk: Desk, sit: Sit) -> None:
    step(desk, "j1", answer(files={"a.txt": "new line\n"}), answer(command(summary="Well done.")))
    person = sit()
    page = person.answer("j1 [", "d")
    assert "Well done." in page
    assert "+new line" in page  # a short diff is shown before a person asks for it
    assert "A       +1 -0  a.txt" in page
    assert "a  approve: accept the work" in page
    person.wait_for("+new line")
    person.answer("j1 [", "a")
    person.wait_for("j1 is now SUCCESS")
    assert person.terminal.wait() == 0
    assert "1 decision made, none of them waits any more" in person.terminal.seen


def test_after_an_approval_it_says_how_to_merge(desk: Desk, sit: Sit) -> None:
    repo = support.make_repository(desk.place / "repo")
    step(desk, "j1", answer(files={"new.txt": "x"}), answer(), options=("--repo", str(repo)))
    person = sit()
    person.answer("j1 [", "a")
    person.wait_for("to merge its work: logist job merge --job j1")
    assert person.terminal.wait() == 0


def test_an_approval_is_bound_to_what_was_shown(desk: Desk, sit: Sit) -> None:
    step(desk, "j1", answer(files={"a.txt": "a\n"}), answer())
    person = sit()
    person.wait_for("j1 [")
    person.wait_for(": ")
    (desk.job("j1") / "workspace" / "a.txt").write_text("edited meanwhile\n")
    person.terminal.type(b"a\n")
    assert "files" in person.answer("j1 [", "q")
    assert person.terminal.wait() == 11
    assert desk.state("j1")["status"] == "APPROVAL_REQUIRED"


def test_an_approval_records_that_the_work_was_seen(desk: Desk, sit: Sit) -> None:
    step(desk, "j1", answer(files={"a.txt": "a\n"}), answer())
    person = sit()
    person.answer("j1 [", "a")
    person.wait_for("j1 is now SUCCESS")
    assert desk.history("j1")[-1]["command"]["seen"] is True


def test_reject_needs_a_note(desk: Desk, sit: Sit) -> None:
    step(desk, "j1", answer(), answer())
    person = sit()
    person.answer("j1 [", "r")
    person.answer("What is wrong", "")
    person.wait_for("Nothing was decided")
    person.answer("j1 [", "r")
    person.answer("What is wrong", "Add a test.")
    person.wait_for("j1 is now PENDING")
    assert desk.history("j1")[-1]["steward"]["note"] == "Add a test."


def test_failed_checks_and_findings_are_shown(desk: Desk, sit: Sit) -> None:
    lines = "; ".join(f"echo line {number}" for number in range(1, 31))
    check = json.dumps(["sh", "-c", f"{lines}; exit 3"])
    desk.settings(
        f"review: {{checks: {{tests: {{severity: error, command: {check}}}}}}}\nsandbox: {{mode: 'off'}}\n"
    )
    assert desk("trust", "--yes").code == 0
    step(desk, "j1", answer(), answer(), options=("--max-attempts", "1"))
    page = sit().wait_for("j1 [")
    assert "Check tests: the check failed (exit status 3)" in page
    assert "| line 30" in page
    assert "| line 21" in page
    assert "| line 20\n" not in page.replace("\r", "")
    assert "a  accept the work in spite of the review" in page


def test_accept_in_spite_of_the_review(desk: Desk, sit: Sit) -> None:
    stuck_in_review(desk)
    person = sit()
    person.answer("review [", "a")
    person.answer("Reason", "It is fine.")
    person.wait_for("review is now SUCCESS")
    assert desk.history("review")[-1]["command"]["override"] is True


def test_a_merge_conflict_is_merged_after_it_is_resolved(desk: Desk, sit: Sit) -> None:
    repo = support.make_repository(desk.place / "repo")
    (repo / "a.txt").write_text("old\n", "utf-8")
    commit = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qam")
    support.git(repo, "add", ".")
    support.git(repo, *commit, "old")
    desk.settings("review: {mode: yolo}\n")
    assert desk("trust", "--yes").code == 0
    passed = {"verdict": "PASS", "issues": [], "suggestions": []}
    done = command(evidence_files=["a.txt"])
    desk.script(answer(done, files={"a.txt": "by the agent\n"}), answer(command(output=passed)))
    desk.create("j1", "--repo", "repo")
    (repo / "a.txt").write_text("by a person\n", "utf-8")
    support.git(repo, *commit, "theirs")
    assert desk("job", "run", "j1").code == 3
    person = sit()
    page = person.answer("j1 [", "m")
    assert "the work conflicts with later commits in the repository" in page
    person.wait_for("merge conflict with ")
    (repo / "a.txt").write_text("old\n", "utf-8")
    support.git(repo, *commit, "resolved")
    person.answer("j1 [", "m")
    person.wait_for("j1 is now SUCCESS")
    assert (repo / "a.txt").read_text("utf-8") == "by the agent\n"


def test_another_role_may_do_what_the_first_one_may_not(desk: Desk, sit: Sit) -> None:
    forbidden(desk)
    person = sit()
    person.answer("forbidden [", "x")
    person.answer("Name of the role", "Nobody")
    person.wait_for("unknown role")
    person.answer("forbidden [", "x")
    person.answer("Name of the role", "Worker")
    person.wait_for("forbidden is now PENDING")
    assert desk.state("forbidden")["agent_role"] == "Worker"


def test_a_plan_is_carried_out(desk: Desk, sit: Sit) -> None:
    steps = [{"step_number": 1, "action": "Look at a.py.", "reason": "None."}]
    plan = {"goal": "It works.", "steps": steps, "risks": ["None."]}
    step(desk, "plan", answer(command(output=plan)), answer(), options=("--role", "Planner"))
    person = sit()
    page = person.answer("plan [", "a")
    assert "Look at a.py" in page
    assert "a  approve the plan: the role Actor carries it out next" in page
    person.wait_for("plan is now PENDING")
    assert desk.state("plan")["agent_role"] == "Actor"


def test_a_manual_step_with_its_result(desk: Desk, sit: Sit) -> None:
    steps = "- {id: look, execution: manual, prompt: Look at the logs.}\n- {id: next, prompt: Go on.}\n"
    follow(desk, "hand", steps)
    person = sit()
    page = person.answer("hand [", "a")
    assert "Look at the logs." in page
    person.answer("Result as JSON", "{oops")
    person.wait_for("the result is not valid JSON")
    person.answer("hand [", "a")
    person.answer("Result as JSON", '{"ok": true}')
    person.wait_for("hand is now PENDING")
    assert desk.state("hand")["outputs"] == {"look": {"ok": True}}


def test_the_task_of_a_manual_step_has_its_values(desk: Desk, sit: Sit) -> None:
    follow(desk, "hand", "- {id: look, name: Look around, execution: manual, prompt: 'Look at {{title}}.'}\n")
    assert "manual step look: Look around\n" in desk("inbox").out
    assert "Look at W." in sit().wait_for("hand [")


def test_a_limit_is_raised(desk: Desk, sit: Sit) -> None:
    desk.create("j1", "--max-allowed-iterations", "0")
    assert desk("job", "step", "j1").code == 7
    person = sit()
    person.answer("j1 [", "l")
    person.answer("New limit in runs (now 0)", "0")
    person.wait_for("expected a number above 0")
    person.answer("j1 [", "l")
    person.answer("New limit in runs (now 0)", "7")
    person.wait_for("j1 is now PENDING")
    assert desk.state("j1")["limits"]["max_allowed_iterations"] == 7


def test_an_answer_by_hand_without_an_editor(desk: Desk, sit: Sit) -> None:
    invalid(desk)
    person = sit()
    person.answer("invalid [", "w")
    person.answer("What was done, in a sentence", "I did it by hand.")
    person.wait_for("invalid is now REVIEW_REQUIRED")
    assert desk.history("invalid")[-1]["simulated"] is True


def test_an_answer_by_hand_in_an_editor(desk: Desk, sit: Sit) -> None:
    invalid(desk)
    editor = desk.place / "editor"
    editor.write_text(
        '#!/bin/sh\nsed -i \'s/"summary_for_supervisor": ""/"summary_for_supervisor": "Edited."/\' "$1"\n'
    )
    editor.chmod(0o755)
    person = sit(env={"EDITOR": str(editor)})
    person.answer("invalid [", "w")
    person.wait_for("invalid is now REVIEW_REQUIRED")
    assert desk.history("invalid")[-1]["response"]["summary_for_supervisor"] == "Edited."


def test_the_files_open_in_the_editor(desk: Desk, sit: Sit) -> None:
    invalid(desk)
    person = sit(env={"EDITOR": "echo opened"})
    person.answer("invalid [", "e")
    person.wait_for(f"opened {desk.job('invalid') / 'workspace'}")


def test_note_snooze_skip_and_quit(desk: Desk, sit: Sit) -> None:
    for job_id in ("j1", "j3", "j4"):
        step(desk, job_id, answer(command("STUCK", "Hm.")))
    person = sit()
    person.answer("j1 [", "n")
    person.answer("Note", "Ask Bob.")
    person.wait_for("The note is recorded")
    person.answer("j1 [", "z")
    person.answer("Hide it until", "soon")
    person.wait_for("not a time in the future: ")
    person.answer("j1 [", "z")
    person.answer("Hide it until", "2h")
    person.wait_for("j1 is hidden until ")
    person.answer("j3 [", "s")
    person.answer("j4 [", "q")
    assert person.terminal.wait() == 3
    assert "0 decisions made, 2 jobs still waiting" in person.terminal.seen
    assert [len(desk.history(job_id)) for job_id in ("j1", "j3", "j4")] == [3, 2, 2]


def test_a_job_that_changed_is_shown_again_and_not_decided(desk: Desk, sit: Sit) -> None:
    step(desk, "j1", answer(), answer())
    person = sit()
    person.wait_for("j1 [")
    person.wait_for(": ")
    assert desk("inbox", "note", "j1", "Wait!").code == 0
    person.terminal.type(b"a\n")
    person.wait_for("j1 has changed since you looked at it: it is now APPROVAL_REQUIRED; nothing was decided")
    person.wait_for("-- 1 of 1 ")
    assert desk.state("j1")["status"] == "APPROVAL_REQUIRED"
    person.answer("j1 [", "a")
    person.wait_for("j1 is now SUCCESS")


def test_a_job_that_somebody_else_decided_is_skipped(desk: Desk, sit: Sit) -> None:
    for job_id in ("j1", "j3"):
        step(desk, job_id, answer(), answer())
    person = sit()
    person.wait_for("j1 [")
    person.wait_for(": ")
    assert desk("job", "approve", "j1").code == desk("job", "approve", "j3").code == 0
    person.terminal.type(b"a\n")
    person.wait_for("j1 has changed since you looked at it: it is now SUCCESS; nothing was decided")
    person.wait_for("j3 does not wait any more")
    assert person.terminal.wait() == 0


def test_what_is_typed_ahead_decides_nothing(desk: Desk, sit: Sit) -> None:
    for job_id in ("j1", "j3"):
        step(desk, job_id, answer(), answer())
    person = sit()
    person.wait_for("j1 [")
    person.wait_for(": ")
    person.terminal.type(b"a\na\na\n")
    person.wait_for("j3 [")
    person.wait_for(": ")
    assert desk.state("j3")["status"] == "APPROVAL_REQUIRED"
    person.terminal.type(CTRL_C)
    assert person.terminal.wait() == 130
    assert desk.state("j1")["status"] == "SUCCESS"


@pytest.mark.parametrize("columns", [60, 80])
def test_no_line_is_wider_than_the_terminal(desk: Desk, sit: Sit, columns: int) -> None:
    step(desk, "fix-the-login", answer(command("STUCK", "word " * 100, output=QUESTION)))
    person = sit(columns=columns)
    page = person.wait_for("fix-the-login [")
    assert max(len(line) for line in page.replace("\r", "").splitlines()) <= columns


def test_the_question_about_a_lost_call_fits_the_terminal(desk: Desk, sit: Sit) -> None:
    in_doubt(desk)
    person = sit(columns=60)
    person.answer("j2 [", "r")
    page = person.wait_for("Was it charged?")
    assert "the highest possible cost stays booked" in page
    assert max(len(line) for line in page.replace("\r", "").splitlines()) <= 60


def test_text_by_agents_controls_no_terminal(desk: Desk, sit: Sit) -> None:
    step(desk, "j1", answer(command("STUCK", "\x1b]0;owned\x07\x1b[2Jfake\n-- 1 of 1 --\n  a  approve")))
    person = sit()
    person.wait_for("j1 [")
    assert "\x1b]0;" not in person.terminal.raw
    assert "\x1b[2J" not in person.terminal.raw
    assert "\n-- 1 of 1 --\r" not in person.terminal.raw


def test_a_damaged_job_says_what_to_run(desk: Desk, sit: Sit) -> None:
    desk.create("j1")
    (desk.job("j1") / "state.json").write_text("{", "utf-8")
    (desk.job("j1") / "damaged-on-purpose").touch()
    person = sit()
    page = person.answer("Your choice [s skip, q quit]", "s")
    assert "to fix it, run: logist doctor --fix" in page
    assert person.terminal.wait() == 10


def test_jobs_of_all_projects_are_decided_in_their_projects(desk: Desk, sit: Sit) -> None:
    there = Desk(desk.place.parent / "there", desk._run)
    step(there, "j1", answer(), answer())
    config = desk.place.parent / "config" / "logist"
    config.mkdir(parents=True)
    (config / "config.yaml").write_text(f"projects: [{there.place}]\n", "utf-8")
    person = sit("--all", env={"XDG_CONFIG_HOME": str(config.parent)})
    page = person.answer("j1 [", "a")
    assert f"j1 in {there.place}: " in page
    person.wait_for("j1 is now SUCCESS")
    assert there.state("j1")["status"] == "SUCCESS"
    assert list(desk.jobs.iterdir()) == []


def test_without_a_terminal_it_says_so(desk: Desk) -> None:
    ran = desk("inbox", "-i")
    assert (ran.code, ran.err) == (2, "error: -i: needs a terminal (to list the jobs: logist inbox)\n")


def test_not_together_with_json(desk: Desk) -> None:
    with Terminal(desk, "inbox", "-i", "--json") as terminal:
        assert terminal.wait() == 2
        assert "can't use -i with --json or --jsonl" in terminal.seen


@pytest.mark.parametrize("job", [*STUCK_JOBS, "approval", "manual", "halted"])
def test_every_decision_that_is_offered_is_allowed(desk: Desk, tmp_path: Path, job: str) -> None:
    """Each is made on a fresh copy of the job."""
    make = {
        "approval": lambda desk: step(desk, "approval", answer(), answer()),
        "manual": lambda desk: follow(desk, "manual", "- {id: look, execution: manual, prompt: Look.}\n"),
        "halted": lambda desk: step(desk, "halted", answer(), options=("--cost-threshold", "0")),
    }.get(job) or STUCK_JOBS[job][0]
    make(desk)
    entered = {
        Input.NOTE: "Worker",
        Input.LIMIT: "5000",
        Input.PAID: "assume_paid",
    }
    state = State.model_validate({k: v for k, v in desk.state(job).items() if k not in ("head", "checksum")})
    choices = list_decisions(state)
    assert choices[-1].name == "cancel"
    assert len({each.key for each in choices}) == len(choices)
    kept = tmp_path / "kept"
    shutil.copytree(desk.jobs, kept, symlinks=True)
    for choice in choices:
        if choice.input is Input.ANSWER:
            continue
        shutil.rmtree(desk.jobs)
        shutil.copytree(kept, desk.jobs, symlinks=True)
        try:
            result = make_decision(project(desk), job, state, choice, entered.get(choice.input, ""))
        except LogistError as error:
            pytest.fail(f"{job}, {choice.name}: {error}")
        assert result.entries[-1].kind is not Kind.NOTE
        assert result.state.revision > state.revision
