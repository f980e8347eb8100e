"""The examples are in the states that they are named after."""

from __future__ import annotations

from tests.cli.desk import Desk
from tests.web.example_jobs import EXAMPLES
from tests.web.visitor import Visitor


def test_each_example_is_in_its_state(examples: Desk) -> None:
    listed = {row["job"]: row["kind"] for row in examples("inbox", "--json").json["data"]}
    for job_id, (_, status, kind) in EXAMPLES.items():
        assert examples.state(job_id)["status"] == status, job_id
        assert listed.get(job_id, "") == kind, job_id
        assert examples("job", "verify", job_id).code == 0, job_id


def test_each_job_has_a_page(visitor: Visitor) -> None:
    for job_id in EXAMPLES:
        answered = visitor.get(f"/jobs/{job_id}")
        assert answered.status_code == 200, answered.text
        assert f"<h1>{job_id} " in answered.text


def test_the_work_and_its_review_are_both_shown(visitor: Visitor) -> None:
    text = visitor.get("/jobs/approval").text
    assert text.index(">Worker said<") < text.index(">Supervisor said")
    assert "Supervisor said" not in visitor.get("/jobs/question").text
