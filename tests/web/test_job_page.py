"""What the page of a job shows first, and what it offers."""

from __future__ import annotations

import json
import time

from tests.cli.desk import Desk
from tests.web.visitor import Visitor


def test_a_person_reads_the_question_before_the_forms_and_only_once(visitor: Visitor) -> None:
    text = visitor.get("/jobs/question").text
    assert text.index("Which database?") < text.index('id="decide-title"') < text.index('id="task-title"')
    assert 'id="question-title"' in text
    assert "Send the reply</button>" in text


def test_the_next_prompt_is_only_for_jobs_that_have_not_ended(visitor: Visitor) -> None:
    assert "Next prompt" in visitor.get("/jobs/pending").text
    assert "Next prompt" not in visitor.get("/jobs/success").text


def test_steps_and_roles_are_chosen_from_a_list(visitor: Visitor) -> None:
    steps = visitor.get("/jobs/branch").text
    assert all(f'<option value="{step}"' in steps for step in ("ask", "which", "send"))
    roles = visitor.get("/jobs/permission").text.partition('name="decision" value="switch"')[2]
    roles = roles.partition("</form>")[0]
    assert '<option value="Worker"' in roles
    assert '<option value="Planner"' not in roles  # it does the work already


def test_the_task_of_a_manual_step_has_its_values(visitor: Visitor) -> None:
    assert "Look at the logs of W." in visitor.get("/jobs/manual").text


def test_a_job_that_does_not_wait_shows_what_comes_next(visitor: Visitor) -> None:
    for job, said in (
        ("pending", "An agent works on it at the next run"),
        ("parent", "It waits for its child jobs"),
        ("success", "It has ended"),
    ):
        text = visitor.get(f"/jobs/{job}").text
        assert said in text, job
        assert "Next that waits for you: " in text, job
    for job, action in (("draft", "activate"), ("suspended", "resume"), ("success", "look_at_merge")):
        text = visitor.get(f"/jobs/{job}").text
        assert text.count(f'/act/{action}"') == 1, job
        assert text.index(f'/act/{action}"') < text.index("More that you can do"), job


def test_a_step_or_role_that_is_not_in_the_list_decides_nothing(visitor: Visitor) -> None:
    for job, decision, said in (
        ("branch", "resubmit_at", "unknown step"),
        ("permission", "switch", "unknown role"),
    ):
        answered = visitor.decide(job, decision, "none")
        assert answered.status_code == 400
        assert said in answered.text


def test_a_job_that_waits_for_others_links_them(examples: Desk, visitor: Visitor) -> None:
    examples.create("next", "--after", "pending", "--after", "success")
    text = visitor.get("/jobs/next").text
    assert "It begins when this job has succeeded:" in text
    assert '/jobs/pending">pending</a>' in text
    assert '/jobs/success">' not in text
    assert "waits for pending (PENDING)" in visitor.get("/jobs?q=next").text


def test_a_job_whose_predecessor_failed_may_begin_without_it(examples: Desk, visitor: Visitor) -> None:
    examples.create("next", "--after", "pending", "--after", "failed")
    text = visitor.get("/jobs/next").text
    assert "waits for pending (PENDING) and failed (FAILED)" in text
    assert visitor.decide("next", "drop_failed").status_code == 303
    assert examples.state("next")["after"] == ["pending"]


def test_a_job_without_a_decision_shows_the_command_that_helps(examples: Desk, visitor: Visitor) -> None:
    began = {"began": time.time(), "began_monotonic": time.monotonic(), "pause": 3600.0}
    waits = {"b1": ("daily", "logist budget show"), "b2": ("--max-cost", "logist run")}
    for job, (budget, _) in waits.items():
        examples.create(job)
        wait = {"provider": "budget", "revision": 1, "reason": "used up", "message": "all is used", **began}
        text = json.dumps({**wait, "budget": budget})
        (examples.job(job) / "provider-wait.json").write_text(text, "utf-8")
    for job, (_, command) in waits.items():  # all are there before the first look, which is used for a moment
        assert f'in a terminal:</p><pre tabindex="0">{command}</pre>' in visitor.get(f"/jobs/{job}").text
    assert "in a terminal:</p>" not in visitor.get("/jobs/question").text
