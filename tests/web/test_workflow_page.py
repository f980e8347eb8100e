"""The workflow tab of a job: the drawing with live states, the child jobs, and the steps as a list."""

from __future__ import annotations

import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from logist.web.examples.making import complete
from logist.web.examples.project import ExampleProject, create_example_project
from tests.web.reader import Reader

NOTES = "/jobs/notes-15/workflow"


@pytest.fixture
def example(tmp_path: Path) -> ExampleProject:
    return create_example_project(tmp_path, os.environ)


def drawing(page: str) -> ElementTree.Element:
    found = re.search(r"<svg .*</svg>", page, re.DOTALL)
    assert found
    return ElementTree.fromstring(found[0])


def test_the_drawing_the_children_and_what_the_job_waits_for(example: ExampleProject, tmp_path: Path) -> None:
    example.make_job("notes-15")
    reader = Reader(example, tmp_path / "serve")
    page = reader.read(NOTES)
    svg = drawing(page)
    [here] = [each for each in svg.iter() if each.get("id") == "here"]
    assert here.get("class") == "box foreach waiting"
    assert "◌ waiting · 2 of 4 done" in [each.text for each in svg.iter()]
    assert " style=" not in page
    text = reader.read_text(NOTES)
    assert "release-notes: step 2 of 7" in text
    assert (
        "The job goes on as soon as none of its 4 child jobs is open and 60 % of them are done. "
        "Now: 2 done, 1 can go on by itself, 1 waits for a person."
    ) in text
    rows = re.findall(r'<tr><th scope="row"><a href="[^"]*/jobs/([^"]+)">', page)
    assert rows == [f"notes-15--3-{number}" for number in (2, 4, 1, 3)]
    assert "Dark colours Is this in the release at all?" in text
    assert "Write a paragraph (write, foreach) : waiting, 2 of 4 done. Then together." in text
    assert (
        'How long are they? (length, decision) : not reached. Then “output.length == "long"”: shorten; “default”: spelling.'
        in text
    )


def test_a_change_of_a_child_makes_it_another_page(example: ExampleProject, tmp_path: Path) -> None:
    example.make_job("notes-15")
    reader = Reader(example, tmp_path / "serve")

    def find(name: str) -> str:
        found = re.search(f'data-{name}="([^"]*)"', reader.read(NOTES))
        assert found
        return found[1]

    before = find("revision")
    assert find("follows").split() == [f"notes-15--3-{number}" for number in (1, 2, 3, 4)]
    assert find("revision") == before
    job = example.start_job("notes-15", 0)
    job.find_child(2).cancel("It is not in this release.")
    assert find("revision") != before


def test_the_tab_is_only_for_jobs_with_a_workflow(example: ExampleProject, tmp_path: Path) -> None:
    example.make_job("notes-15")
    example.make_job("round-prices")
    reader = Reader(example, tmp_path / "serve")
    assert "/jobs/notes-15/workflow" in reader.read("/jobs/notes-15")
    assert "step write of release-notes" in reader.read_text("/jobs/notes-15")
    assert "/workflow" not in reader.read("/jobs/round-prices")
    assert "this job has no workflow" in reader.read_text("/jobs/round-prices/workflow", 409)


def test_the_branch_that_was_taken_and_gathered_children_are_shown(
    example: ExampleProject, tmp_path: Path
) -> None:
    example.make_job("notes-14")
    reader = Reader(example, tmp_path / "serve")
    page = reader.read("/jobs/notes-14/workflow")
    assert page.count("edge taken") == 1
    assert "Child jobs of the step write (2)" in page
    assert 'href="#here"' not in page
    assert "took spelling" in page


def test_hostile_names_are_text(example: ExampleProject, tmp_path: Path) -> None:
    evil = "</svg><script>alert(1)</script>"
    (tmp_path / "evil.yaml").write_text(
        f"name: '{evil}'\nsteps:\n"
        f"- {{id: divide, name: '{evil}', prompt: x}}\n"
        f"- {{id: each, stepType: foreach, itemsPath: output.parts, itemVariable: part, prompt: 'Do {{{{part}}}}'}}\n"
        f"- {{id: join, stepType: join, prompt: '{evil}'}}\n"
    )
    job = example.start_job("evil", 1)
    job.create(None, complete(evil, output={"parts": [evil, "b"]}), workflow=str(tmp_path / "evil.yaml"))
    job.job.step()
    job.job.step()
    reader = Reader(example, tmp_path / "serve")
    page = reader.read("/jobs/evil/workflow")
    assert "<script>alert" not in page
    assert page.count("</svg>") == 1
    assert page.count("&lt;script&gt;alert(1)") >= 4
    drawing(page)
