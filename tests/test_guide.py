"""The guide to workflows says what is true: its workflows run, its commands show what they show, its tables hold."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logist.core.model import MAX_DEPTH, MAX_ITEMS, Step
from logist.core.model.flow import MAX_STEPS
from logist.core.text import problem
from logist.core.workflow import form
from logist.resources import find_resource
from tests.support import ROOT, Ran, RunLogist

TEXT = (ROOT / "docs" / "workflows.md").read_text("utf-8")
FIXTURES = ROOT / "fixtures" / "workflows" / "guide"
SAVED = re.compile(r"`([\w.-]+\.(?:mmd|yaml))`[^`\n]*:\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SESSION = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
GAP = "..."
SCHEMA = json.loads(find_resource("schemas", "workflow.json").read_text("utf-8"))
OF_MODEL = {"rendered", "config", "id", "name", "description"}
"""Fields of a step that no file writes, or that have no default."""
NAMES = {"subflow": "subflow_id"}


def saved() -> dict[str, str]:
    """The files that a reader is told to save, by name."""
    return dict(SAVED.findall(TEXT))


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command of the guide, with the lines it shows."""
    for session in SESSION.findall(TEXT):
        for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
            command, *shown = part.splitlines()
            yield command, shown


def shows(expected: list[str], seen: list[str]) -> bool:
    """Whether the lines are all there in this order; a line of dots stands for any number of others."""
    text = "\n".join(["", *seen, ""])
    blocks = [["", *block, ""] for block in _split(expected)]
    if len(blocks) == 1:
        return text == "\n".join(blocks[0])
    begin, *middle, end = ["\n".join(block) for block in blocks]
    place = len(begin) - 1
    for block in middle:
        found = text.find(block, place)
        if found < 0:
            return False
        place = found + len(block) - 1
    return text.startswith(begin) and text.endswith(end) and len(text) - len(end) >= place


def _split(lines: list[str]) -> Iterator[list[str]]:
    block: list[str] = []
    for line in lines:
        if line == GAP:
            yield block
            block = []
        else:
            block.append(line)
    yield block


def test_the_files_of_the_guide_are_the_fixtures() -> None:
    files = saved()
    assert {
        "three.mmd",
        "haiku.mmd",
        "release.yaml",
        "spelling.yaml",
        "pr-review.mmd",
        "lost.yaml",
        "dispatch.yaml",
    } < set(files)
    kept = {path.name: path.read_text("utf-8") for path in FIXTURES.iterdir()}
    assert {name: text for name, text in files.items() if name in kept} == {
        name: text for name, text in kept.items() if name in files
    }
    for name in ("haiku.mmd", "haiku.answers.yaml", "release.yaml", "spelling.yaml", "pr-review.mmd"):
        assert name in kept


def test_the_commands_of_the_guide_show_what_they_show(cli: RunLogist, tmp_path: Path) -> None:
    place = tmp_path / "guide"
    place.mkdir()
    for path in FIXTURES.glob("*.answers.yaml"):
        (place / path.name).write_bytes(path.read_bytes())
    for name, text in saved().items():
        (place / name).write_text(text, "utf-8")
    ran = 0
    for command, expected in commands():
        program, *words = shlex.split(command)
        assert program == "logist"
        done = cli(*words, env={"LOGIST_STEWARD": "ada"}, cwd=place)
        assert shows(expected, (done.out + done.err).splitlines()), f"{command}\n{done.out}\n{done.err}"
        assert done.code in (0, 3, 11), command
        ran += 1
    assert ran > 20
    _ended_well(cli, place)


def _ended_well(cli: RunLogist, place: Path) -> None:
    """The notes are merged in the order of the items; the children of the review did their parts."""
    jobs = place / ".logist" / "jobs"
    assert (jobs / "notes" / "workspace" / "NOTES.md").exists()
    assert sorted(path.name for path in (jobs / "notes" / "workspace" / "notes").iterdir()) == [
        "0.md",
        "2.md",
    ]
    shown: Ran = cli("job", "list", "--json", cwd=place)
    assert {row["id"]: row["parent"] for row in shown.json["data"] if row["parent"]} == {
        **{f"notes--3-{number}": "notes" for number in (1, 2, 3)},
        "notes--7-1": "notes",
        **{f"pr--4-{number}": "pr" for number in (1, 2, 3)},
        **{f"dispatched--6-{number}": "dispatched" for number in (1, 2)},
    }


@pytest.mark.parametrize(
    ("expected", "seen", "holds"),
    [
        (["a"], ["a"], True),
        (["a"], ["a", "b"], False),
        (["a", GAP], ["a", "b"], True),
        ([GAP, "b"], ["a", "b"], True),
        ([GAP, "b"], ["a", "bb"], False),
        (["a", GAP, "b", GAP, "c"], ["a", "x", "b", "c"], True),
        (["a", GAP, "b", GAP, "c"], ["a", "c", "b"], False),
        ([GAP], [], True),
    ],
)
def test_what_a_session_of_the_guide_may_leave_out(expected: list[str], seen: list[str], holds: bool) -> None:
    assert shows(expected, seen) is holds


def table(heading: str) -> list[list[str]]:
    """The rows of the table below a heading, without its head."""
    section = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[2:]]


def type_of(schema: dict[str, Any]) -> str:
    """A type of the schema in words; that a field may be null as well goes without saying."""
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(type_of(each) for each in schema["anyOf"] if each.get("type") != "null")
    if schema.get("type") == "array":
        return f"list of {type_of(schema['items'])}"
    referred = {"#/$defs/BranchForm": "branch", "#/$defs/ItemLimitsForm": "limits"}
    return referred[schema["$ref"]] if "$ref" in schema else str(schema["type"])


def limits_of(schema: dict[str, Any]) -> str:
    """The bounds of a field, in words."""
    one = next((each for each in schema.get("anyOf", ()) if each.get("type") != "null"), schema)
    low, high = one.get("minimum"), one.get("maximum")
    short, long = one.get("minLength"), one.get("maxLength")
    if short is not None:
        return f"{short} to {long} characters" if long else f"at least {short} character"
    if low is not None:
        return f"{low} to {high}" if high is not None else f"at least {low}"
    return "a name" if "pattern" in one else ""


def default_of(name: str) -> str:
    """What a step has where a file says nothing, from the model."""
    snake = re.sub(r"([A-Z])", lambda match: "_" + match[1].lower(), name)
    own = next((field for field, written in NAMES.items() if written == snake), snake)
    known = Step.model_fields.get(own)
    if known is None or own in OF_MODEL or known.default in (None, "", (), {}):
        return ""
    value = known.default
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def own_fields(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        name: field
        for name, field in schema["properties"].items()
        if not field.get("description", "").startswith("The same as")
    }


def also(schema: dict[str, Any], name: str) -> set[str]:
    same = f"The same as `{name}`."
    return {other for other, field in schema["properties"].items() if field.get("description") == same}


def test_the_reference_has_every_field_of_a_step_as_the_model_and_the_schema_have_it() -> None:
    step = SCHEMA["$defs"]["StepForm"]
    rows = {row[0].strip("`"): row for row in table("Reference: fields of a step")}
    assert list(rows) == list(own_fields(step))
    for name, field in own_fields(step).items():
        _, kind, default, limits, meaning, *_ = rows[name]
        assert (kind, default.strip("`"), limits) == (type_of(field), default_of(name), limits_of(field)), (
            name
        )
        assert meaning
        spellings = also(step, name) - {re.sub(r"([A-Z])", lambda m: "_" + m[1].lower(), name)}
        said = set(re.findall(r"`(\w+)`", meaning.partition("Also ")[2]))
        assert said == {other for other in spellings if "_" not in other}, name


def test_every_field_of_the_model_is_in_the_reference() -> None:
    rows = {row[0].strip("`") for row in table("Reference: fields of a step")}
    camel = {
        re.sub(r"_(\w)", lambda match: match[1].upper(), NAMES.get(name, name)) for name in Step.model_fields
    }
    assert camel - rows == {"rendered", "config"}
    assert {"start", "next", "branches", "defaultBranch", "description"} == rows - camel


def test_the_reference_has_every_field_of_a_workflow_and_of_a_branch() -> None:
    assert {row[0].strip("`") for row in table("Reference: fields of a workflow")} == {
        *own_fields(SCHEMA),
        *(f"branches[].{name}" for name in own_fields(SCHEMA["$defs"]["BranchForm"])),
    }


def test_the_reference_has_the_limits() -> None:
    section = TEXT.split("## Reference: limits")[1].split("\n## ")[0]
    for number in (MAX_ITEMS, form.MAX_CHILDREN, MAX_DEPTH, MAX_STEPS):
        assert re.search(rf"\| {number:,} \|", section), number


def test_the_reference_has_every_error() -> None:
    folder = Path(str(problem.__file__)).parent
    text = "".join(path.read_text("utf-8") for path in folder.glob("*.py"))
    raised = set(re.findall(r'"error",\s*"(\w+)"', text)) - {"warning"}
    found = (FIXTURES.parent / "files").glob("**/*.expect")
    expected = {
        code
        for path in found
        for code in re.findall(r"^  error (\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    assert len(expected) > 20
    assert (raised | expected) - {
        name for row in table("Reference: errors") for name in re.findall(r"\w+", row[0])
    } == set()
