"""`logist workflow list|show|validate|lint`."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.desk import Desk
from tests.support import ROOT

FILES = ROOT / "fixtures" / "workflows" / "files"
POSITIVE = sorted(path for path in (FILES / "positive").iterdir() if path.suffix != ".expect")
NEGATIVE = sorted(path for path in (FILES / "negative").iterdir() if path.suffix != ".expect")
SECRET = "You are terse and nobody may know."

LETTER = f"""\
name: Letter
description: From a draft to the post
steps:
  - id: draft
    name: Write a draft
    prompt: |
      Write it.

      Not too long.
    agentRole: {SECRET}
    guidance: [be kind, be short]
    role: Worker
  - id: good
    name: Good enough?
    stepType: decision
    branches:
      - {{condition: output.ok, targetStepId: send}}
      - {{condition: null, targetStepId: draft}}
  - {{id: send, execution: manual, agentRole: {SECRET}, prompt: Send it.}}
"""
BROKEN = "graph TD\nA --> \n"


@pytest.fixture
def folder(desk: Desk) -> Path:
    """The project's workflows: one that is good and one that is broken."""
    folder = desk.home / "workflows"
    folder.mkdir()
    (folder / "letter.yaml").write_text(LETTER, "utf-8")
    (folder / "broken.mmd").write_text(BROKEN, "utf-8")
    return folder


def test_list(desk: Desk, folder: Path) -> None:
    ran = desk("workflow", "list")
    assert ran.code == 0
    broken, letter = (line.split("\t") for line in ran.out.splitlines())
    assert broken[:3] == ["broken", "invalid", ".logist/workflows/broken.mmd"]
    assert broken[3].startswith("line 2: ")
    assert letter == ["Letter", "3", ".logist/workflows/letter.yaml", "From a draft to the post"]
    assert ran.err == "warning: 1 of 2 workflows is invalid (logist workflow validate)\n"
    rows = desk("workflow", "list", "--json").json["data"]
    assert [(row["name"], row["steps"], row["file"]) for row in rows] == [
        ("broken", None, str(folder / "broken.mmd")),
        ("Letter", 3, str(folder / "letter.yaml")),
    ]
    assert (rows[0]["error"]["line"], rows[1]["error"]) == (2, None)


def test_list_without_any(desk: Desk) -> None:
    ran = desk("workflow", "list")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("no workflows found (put a file into ")


def test_the_project_comes_before_the_user(desk: Desk, folder: Path) -> None:
    user = Path(os.environ["XDG_CONFIG_HOME"]) / "logist" / "workflows"
    user.mkdir(parents=True)
    (user / "letter.yaml").write_text(LETTER.replace("send", "post"), "utf-8")
    (user / "mine.mmd").write_text("graph TD\nA[Do]\n", "utf-8")
    rows = {row["name"]: row for row in desk("workflow", "list", "--json").json["data"]}
    assert set(rows) == {"broken", "Letter", "mine"}
    assert (rows["Letter"]["file"], rows["Letter"]["hides"]) == (
        str(folder / "letter.yaml"),
        str(user / "letter.yaml"),
    )
    assert "\nsend\tmanual\t" in desk("workflow", "show", "Letter").out
    assert desk("workflow", "list").out.splitlines()[2].split("\t")[2] == str(user / "mine.mmd")


def test_show(desk: Desk, folder: Path, snapshot: SnapshotAssertion) -> None:
    assert desk.shown(desk("workflow", "show", "Letter", "--prompts")) == snapshot


@pytest.mark.deep
def test_show_on_a_terminal_has_colours_and_fits_and_is_ascii_where_that_shows_no_more(
    desk: Desk, folder: Path
) -> None:
    shown = desk.on_terminal("workflow", "show", "letter", columns=40, env={"PYTHONIOENCODING": "latin-1"})
    assert "\x1b[1mdraft\x1b[0m" in shown
    assert shown.isascii()
    drawing = re.sub(r"\x1b\[\d*m", "", shown).split("\n\n")[1]
    assert "? good" in drawing
    assert max(map(len, drawing.splitlines())) <= 40


@pytest.mark.parametrize(
    "args",
    [
        ["show", "Letter", "--prompts"],
        ["show", "Letter", "--mermaid"],
        ["list"],
        ["lint"],
        ["validate"],
        ["next", "Letter"],
        ["next", "Letter", "--completed", "draft", "--context", '{"ok": true}'],
    ],
    ids=" ".join,
)
def test_what_is_for_agents_alone_is_in_no_view_for_people(desk: Desk, folder: Path, args: list[str]) -> None:
    ran = desk("workflow", *args)
    assert ran.out + ran.err != ""
    assert "terse" not in ran.out + ran.err


def test_and_it_is_there_for_programs(desk: Desk, folder: Path) -> None:
    steps = {step["id"]: step for step in desk("workflow", "show", "Letter", "--json").json["data"]["steps"]}
    assert steps["draft"]["agentRole"] == SECRET
    assert "agentRole" not in steps["good"]
    assert steps["draft"]["guidance"] == ["be kind", "be short"]


def test_a_diagram_is_written_without_its_config(desk: Desk) -> None:
    ran = desk("workflow", "show", str(FILES / "positive" / "pr-review.mmd"), "--mermaid")
    text = (FILES / "positive" / "pr-review.mmd").read_text("utf-8")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == text.split("\n\n%%")[0] + "\n"
    whole = desk("workflow", "show", str(FILES / "positive" / "pr-review.mmd"), "--json").json["data"]
    assert whole["mermaid"] == text
    assert (len(whole["steps"]), len(whole["edges"])) == (11, 12)


def test_the_shell_completes_names_and_else_files(desk: Desk, folder: Path) -> None:
    for typed, wanted in (("l", "plain,letter\n"), ("", "plain,broken\nplain,letter\n"), ("x", "file,x\n")):
        words = {"COMP_WORDS": f"logist workflow show {typed}", "COMP_CWORD": "3"}
        assert desk(env={"_LOGIST_COMPLETE": "bash_complete", **words}).out == wanted


def test_validate_says_everything_with_its_place(desk: Desk, snapshot: SnapshotAssertion) -> None:
    shutil.copy(FILES / "negative" / "types.yaml", desk.place)
    shutil.copy(FILES / "negative" / "agent-role.yaml", desk.place)
    assert desk.shown(desk("workflow", "validate", "types.yaml", "agent-role.yaml")) == snapshot


def test_validate_checks_all_that_can_be_named(desk: Desk, folder: Path) -> None:
    ran = desk("workflow", "validate")
    assert ran.code == 5
    assert ran.out.startswith(f"{folder / 'broken.mmd'}:2:")
    assert ": error: " in ran.out
    assert ran.err == "error: 2 workflows checked, 1 with problems: 1 error\n"
    (folder / "broken.mmd").unlink()
    assert desk("workflow", "validate") == (0, "", "1 workflow checked: no problems found\n")
    (folder / "letter.yaml").unlink()
    (folder / "pages").mkdir()
    added = f"put a file into {folder}, or run: logist workflow import FILE"
    for verb in ("validate", "lint"):
        ran = desk("workflow", verb)
        message = "this project has no workflows: nothing was checked"
        assert ran == (0, "", f"warning: {message} ({added})\n")
        document = desk("workflow", verb, "--json").json
        assert document["data"] == {"ok": True, "workflows": [], "problems": []}
        assert [each["message"] for each in document["diagnostics"]] == [message]
        ran = desk("workflow", verb, str(folder / "pages"))
        assert ran.err.startswith(
            f"warning: no workflow found in {folder / 'pages'}: nothing was checked (pass "
        )
        assert (ran.code, ran.out) == (0, "")


def test_validate_in_json_has_every_finding_twice_once_as_a_diagnostic(desk: Desk, folder: Path) -> None:
    document = desk("workflow", "validate", "--json").json
    (problem,) = document["data"]["problems"]
    (diagnostic,) = document["diagnostics"]
    assert not document["data"]["ok"]
    assert [(one["name"], one["ok"]) for one in document["data"]["workflows"]] == [
        ("broken", False),
        ("Letter", True),
    ]
    assert diagnostic["message"] == problem["message"]
    assert diagnostic["target"] == f"{folder / 'broken.mmd'}:{problem['line']}:{problem['column']}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (LETTER.replace("role: Worker", "role: Worcer"), "step `draft` has the unknown role `Worcer` (did you mean `Worker`?)"),
        (LETTER.replace("role: Worker", "subflowId: Post, stepType: subflow"), ""),
        (LETTER.replace("[be kind", "[be kind, 3"), "`steps[0].guidance[1]` must be text"),
        (LETTER.replace("output.ok", "output.ok >"), "the expression is incomplete: missing value"),
        (LETTER.replace("{condition: null, targetStepId: draft}", "{condition: null, to: drft}"), "did you mean `draft`?"),
    ],
    ids=["role", "yaml", "guidance", "condition", "target"],
)  # fmt: skip
def test_validate_finds(desk: Desk, text: str, found: str) -> None:
    (desk.place / "w.yaml").write_text(text, "utf-8")
    ran = desk("workflow", "validate", "w.yaml")
    assert ran.code == 5
    assert ran.out.startswith("w.yaml:")
    assert found in ran.out


def test_a_job_that_cannot_be_made_says_what_validate_says(desk: Desk) -> None:
    shutil.copy(FILES / "negative" / "agent-role.yaml", desk.place)
    validated = desk("workflow", "validate", "agent-role.yaml", "--json").json["diagnostics"]
    created = desk("job", "create", "--workflow", "agent-role.yaml", "--json").json["diagnostics"]
    errors = [each["message"] for each in validated if each["severity"] == "error"]
    assert errors
    assert [each["message"] for each in created if "steps[" in each["message"]] == errors


def test_validate_knows_whom_a_role_may_give_work_to(desk: Desk) -> None:
    text = "name: W\nsteps:\n  - {id: a, stepType: foreach, itemsPath: output.x, role: Tester, prompt: x}\n"
    (desk.place / "w.yaml").write_text(text, "utf-8")
    assert desk("workflow", "validate", "w.yaml").code == 0
    ran = desk("workflow", "validate", "w.yaml", "--role", "Commander")
    assert ran.code == 5
    assert "the role `Commander` may not delegate work to `Tester`" in ran.out
    assert desk("workflow", "validate", "w.yaml", "--role", "Comander").code == 2


def test_lint_has_more_to_say_and_lets_it_pass(desk: Desk) -> None:
    shutil.copy(FILES / "positive" / "mixed-prompts.yaml", desk.place)
    validated = desk("workflow", "validate", "mixed-prompts.yaml")
    linted = desk("workflow", "lint", "mixed-prompts.yaml")
    assert (validated.code, linted.code) == (0, 0)
    more = set(linted.out.splitlines()) - set(validated.out.splitlines())
    assert set(validated.out.splitlines()) < set(linted.out.splitlines())
    assert any(
        "mixed-prompts.yaml:4: warning: steps[0].prompt: the prompt of `review`" in line for line in more
    )
    assert linted.err == "1 workflow checked: 7 warnings\n"
    strict = desk("workflow", "lint", "mixed-prompts.yaml", "--strict")
    assert (strict.code, strict.out) == (5, linted.out)
    assert not desk("workflow", "lint", "mixed-prompts.yaml", "--strict", "--json").json["data"]["ok"]


def test_a_directory_is_every_workflow_in_it_and_pages_without_a_diagram_are_passed_over(desk: Desk) -> None:
    place = desk.place / "flows"
    shutil.copytree(FILES / "positive", place)
    (place / "README.md").write_text("# Read me\n", "utf-8")
    shutil.copytree(FILES / "positive", desk.home / "workflows")
    data = desk("workflow", "validate", "flows", "--json").json["data"]
    assert data["ok"]
    files = {Path(one["file"]).name for one in data["workflows"]}
    assert files == {path.name for path in POSITIVE}
    assert len(data["workflows"]) > len(files)


def test_every_bad_fixture_has_an_error_with_a_line(desk: Desk) -> None:
    data = desk("workflow", "validate", str(FILES / "negative"), "--json").json["data"]
    errors = [problem for problem in data["problems"] if problem["severity"] == "error"]
    assert {Path(problem["file"]) for problem in errors} == set(NEGATIVE) - {
        FILES / "negative" / "no-flowchart.md"
    }
    assert all(problem["line"] for problem in errors)


@pytest.mark.parametrize("path", POSITIVE, ids=lambda path: path.name)
def test_every_good_fixture_is_drawn_step_by_step(desk: Desk, path: Path) -> None:
    names = [
        one["name"] for one in desk("workflow", "validate", str(path), "--json").json["data"]["workflows"]
    ]
    for name in names:
        data = desk("workflow", "show", f"{path}#{name}", "--json").json["data"]
        shown = desk("workflow", "show", f"{path}#{name}")
        assert (shown.code, shown.err) == (0, "")
        table = shown.out.rsplit("\n\n", 1)[1]
        ids = [line.split("\t")[0] for line in table.splitlines()]
        assert ids == [step["id"] for step in data["steps"]]
        roles = {step["agentRole"] for step in data["steps"] if "agentRole" in step}
        assert not any(role in shown.out for role in roles)
        assert json.dumps(data)


ITEMS = """\
steps:
  - {id: each, stepType: foreach, itemsPath: input.parts, prompt: Do it., review: true, itemLimits: {maxAllowedIterations: 1}}
"""


def test_limits_that_can_not_be_enough_are_told_by_validate_and_create(desk: Desk) -> None:
    (desk.place / "items.yaml").write_text(ITEMS, "utf-8")
    ran = desk("workflow", "validate", "items.yaml")
    own = "an item of `each` needs at least 2 runs, but its itemLimits allow 1"
    assert (ran.code, own in ran.out) == (0, True)
    assert "items.yaml:2: warning: " in ran.out
    given = json.dumps({"parts": list(range(30))})
    made = desk("job", "create", "--id", "j1", "--workflow", "items.yaml", "--input", given)
    assert made.code == 0
    assert own in made.err
    assert "this workflow needs limits.max_allowed_iterations of at least 60, but it is 50" in made.err
    desk.settings("limits: {max_allowed_iterations: 60}\n")
    made = desk("job", "create", "--id", "j2", "--workflow", "items.yaml", "--input", given)
    assert "needs limits.max_allowed_iterations" not in made.err
    desk.settings("limits: broken\n")
    assert own not in desk("workflow", "validate", "items.yaml").out, (
        "a broken config is no fault of the workflow"
    )


def test_limits_of_items_are_checked_and_kept(desk: Desk) -> None:
    wrong = ITEMS.replace("maxAllowedIterations: 1", "max_runs: 1")
    (desk.place / "items.yaml").write_text(wrong, "utf-8")
    ran = desk("workflow", "validate", "items.yaml")
    assert ran.code == 5
    assert "unknown key `steps[0].itemLimits.max_runs`" in ran.out
    (desk.place / "items.yaml").write_text(ITEMS.replace("foreach", "task"), "utf-8")
    assert (
        "`steps[0].itemLimits` is only allowed in a foreach" in desk("workflow", "validate", "items.yaml").out
    )
    (desk.place / "items.yaml").write_text(ITEMS, "utf-8")
    assert desk("workflow", "export", "items.yaml", "-o", "out.json").code == 0
    (step,) = json.loads((desk.place / "out.json").read_text("utf-8"))["workflow"]["steps"]
    assert step["itemLimits"] == {"maxAllowedIterations": 1}


def test_show_fails_for_what_validate_refuses_and_draws_it_all_the_same(desk: Desk) -> None:
    (desk.place / "w.yaml").write_text("steps:\n- {id: a, prompt: x, role: Nobody}\n")
    ran = desk("workflow", "show", "w.yaml")
    assert ran.code == desk("workflow", "validate", "w.yaml").code == 5
    assert "○ a" in ran.out
    assert "step `a` has the unknown role `Nobody`" in ran.err


def test_the_diagram_of_a_list_of_steps_has_its_configuration(desk: Desk, folder: Path) -> None:
    ran = desk("workflow", "show", "Letter", "--mermaid")
    (desk.place / "drawn.mmd").write_text(ran.out, "utf-8")
    assert desk("workflow", "validate", "drawn.mmd").code == 0
    shown = desk("workflow", "show", "drawn.mmd", "--json").json["data"]["steps"]
    wanted = desk("workflow", "show", "Letter", "--json").json["data"]["steps"]
    assert shown == [{key: value for key, value in step.items() if key != "agentRole"} for step in wanted]


def test_an_unreadable_condition_is_shown_as_people_write_it(desk: Desk) -> None:
    (desk.place / "w.yaml").write_text("steps:\n- {id: a, prompt: x, when: {var: output.x, is: 1}}\n")
    ran = desk("workflow", "next", "w.yaml")
    assert ran.code == 5
    assert "{'" not in ran.err


@pytest.mark.parametrize("name", ["w.mmd", "w.md"])
def test_front_matter_that_is_no_yaml_is_an_error_as_in_mermaid(desk: Desk, name: str) -> None:
    diagram = "---\ntitle: [x\n---\ngraph TD\nA[Do it]\n"
    (desk.place / name).write_text(f"```mermaid\n{diagram}```\n" if name.endswith(".md") else diagram)
    ran = desk("workflow", "validate", name)
    assert ran.code == 5
    assert "front matter" in ran.out
    (desk.place / name).write_text((desk.place / name).read_text().replace("[x", "x"))
    assert desk("workflow", "validate", name).code == 0


def test_importing_an_export_names_the_steps_that_differ_from_its_diagram(desk: Desk, folder: Path) -> None:
    assert desk("workflow", "export", "Letter", "-o", "out.json").code == 0
    document = json.loads((desk.place / "out.json").read_text("utf-8"))
    steps = {step["id"]: step for step in document["workflow"]["steps"]}
    steps["draft"]["prompt"] = "Write something else."
    steps["good"]["branches"][0]["condition"] = "output.fine"
    (desk.place / "out.json").write_text(json.dumps(document), "utf-8")
    ran = desk("workflow", "import", "out.json", "--to", "elsewhere")
    assert ran.code == 0
    assert "`prompt` of step `draft` differs from the diagram" in ran.err
    assert "`branches` of step `good` differs from the diagram" in ran.err
