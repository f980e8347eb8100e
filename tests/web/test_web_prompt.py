"""The prompt of the next step on the page: the exact text, its parts and its cost, and what differs from the last one."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from tests.cli.desk import Desk, answer, command
from tests.cli.test_interrupted import paid
from tests.cli.test_progress import SETTINGS
from tests.support import RunLogist
from tests.web.action_page import ActionPage, strip_tags, write_file


@pytest.fixture
def desk(tmp_path: Path, cli: RunLogist) -> Desk:
    made = Desk(tmp_path, cli)
    made.create(prompt="Say <b>hello</b>.")
    return made


@pytest.fixture
def page(desk: Desk) -> ActionPage:
    return ActionPage(desk)


def test_the_prompt_is_that_of_the_command_and_nothing_is_written(desk: Desk, page: ActionPage) -> None:
    write_file(desk, "notes.txt", "a file\n")
    page.get("/")
    before = desk.tree()
    shown = page.get("/jobs/j1/prompt").text
    assert desk.tree() == before
    whole = shown.rpartition("<summary>The whole prompt")[2].partition("<pre")[2].partition(">")[2]
    printed = desk("job", "preview", "j1").out
    assert html.unescape(whole.partition("</pre>")[0]).rstrip() == printed.rstrip()
    assert "<b>hello" not in shown
    text = strip_tags(shown)
    assert "This is the first prompt of Worker in this job" in text
    assert "Worker, because" in text
    for part in ("contract", "role:Worker", "task", "listing"):
        assert re.search(rf'<th scope="row">{part}', shown), part
    assert 'aria-current="page">Next prompt' in shown


def test_the_highest_cost_is_that_of_the_command(tmp_path: Path, desk: Desk) -> None:
    desk.settings(SETTINGS.replace("{url}", "http://127.0.0.1:9/v1"))
    page = ActionPage(desk, env=paid(desk))
    ran = desk("job", "preview", "j1", env=paid(desk))
    found = re.search(r"maximum cost: (\S+)", ran.err)
    assert found
    assert f"Highest cost {found[1]} for one call" in page.read("/jobs/j1/prompt")


def test_the_page_says_which_files_are_there_only_in_parts(desk: Desk) -> None:
    desk.settings("context: {relevant_files_tokens: 400}\n")
    desk.create("j2", "--task-type", "bug", prompt="Fix the poem.")
    for name, lines in (("poem.py", 1_000), ("poem_short.py", 2)):
        text = "".join(f"def poem{number}(): refrain\n" for number in range(lines))
        (desk.job("j2") / "workspace" / name).write_text(text, "utf-8")
    shown = ActionPage(desk).get("/jobs/j2/prompt").text
    rows = {name: re.search(rf"relevant:{name}.*", shown) for name in ("poem.py", "poem_short.py")}
    assert {name: bool(row and "parts of the file" in row[0]) for name, row in rows.items()} == {
        "poem.py": True,
        "poem_short.py": False,
    }
    assert all(rows.values())


def test_the_differences_from_the_last_prompt_are_shown_part_by_part(desk: Desk, page: ActionPage) -> None:
    desk.script(answer(command("STUCK", "Which file?")))
    desk("job", "run", "j1")
    assert "The next step would send nothing" in page.read("/jobs/j1/prompt")
    assert desk("job", "resubmit", "j1", "--note", "Take <i>a.txt</i>.").code == 0
    assert desk("job", "config", "j1", "--set", "prompt=Say goodbye.").code == 0
    shown = page.get("/jobs/j1/prompt").text
    text = strip_tags(shown)
    assert "Differences from the last prompt of Worker, interaction 2" in text
    assert '<span class="minus">- Say &lt;b&gt;hello&lt;/b&gt;.' in shown or "Say &lt;b&gt;hello" in shown
    assert re.search(r'<span class="plus">[^<]*Say goodbye', shown)
    assert "only in the next prompt" in text
    assert "<i>" not in shown
    assert "The same: " in text


@pytest.mark.parametrize(
    ("prepare", "expected", "next_command"),
    [
        (("job", "suspend", "j1"), "SUSPENDED", "logist job resume --job j1"),
        (("job", "cancel", "j1"), "the job has ended: CANCELED", "logist job rerun --job j1"),
        (
            ("job", "config", "j1", "--set", "limits.max_allowed_iterations=0"),
            "HALTED_ITERATION",
            "--set limits.",
        ),
    ],
)
def test_where_nothing_would_be_sent_the_page_says_why(
    desk: Desk, page: ActionPage, prepare: tuple[str, ...], expected: str, next_command: str
) -> None:
    assert desk(*prepare).code == 0
    response = page.get("/jobs/j1/prompt")
    assert response.status_code == 200
    text = strip_tags(response.text)
    assert "The next step would send nothing" in text
    assert expected in text
    assert next_command in text
    assert "What the next step sends" not in text


def test_an_invalid_role_is_reported_on_the_page(desk: Desk, page: ActionPage) -> None:
    roles = desk.home / "roles"
    roles.mkdir()
    (roles / "Worker.yaml").write_text("name: Worker\nno_such_key: [\n", "utf-8")
    text = page.read("/jobs/j1/prompt")
    assert "The next step would send nothing" in text
    assert "Worker" in text
