"""Wrong input of every kind to the workflow commands, and texts that would steer a terminal."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.desk import Desk
from tests.cli.test_hostile_text import ALL, CLASSES, for_json, for_names, seen
from tests.torture.hostile_texts import faults

COMMANDS = ("show", "validate", "lint", "migrate", "next", "export", "import")
HOSTILE = (ALL, "a forged row by return", "line separators")
CYCLE = "name: Cycle\nsteps:\n  - {id: a, stepType: subflow, subflowId: Cycle, prompt: x}\n"
TWO = "# Build\n\n```mermaid\ngraph TD\nA --> B\n```\n\n# Release\n\n```mermaid\ngraph TD\nC --> D\n```\n"

USAGE = dict.fromkeys(COMMANDS, 2)
INVALID = dict.fromkeys(COMMANDS, 5)
LOOKING = {"validate": 0, "lint": 0, "migrate": 0}

WRONG: dict[str, tuple[str, dict[str, int], str]] = {
    "no such name": ("nothing", USAGE, "workflow `nothing` not found"),
    "no such file": ("no/such.mmd", USAGE, "workflow file `no/such.mmd` not found"),
    "no text": ("", USAGE, "missing file or workflow name in `"),
    "only a part": ("#x", USAGE, "missing file or workflow name in `"),
    "a dangling link": ("dangling.mmd", USAGE, "workflow `dangling.mmd` not found"),
    "a pipe": ("pipe.mmd", USAGE, "workflow file `pipe.mmd` not found"),
    "a device": ("/dev/null", USAGE, "workflow file `/dev/null` not found"),
    "an empty directory": ("dir", USAGE | {"validate": 0, "lint": 0}, "dir"),
    "several": ("two.md", USAGE | LOOKING, "two.md contains 2 workflows"),
    "one that is not in it": ("two.md#Test", USAGE, "two.md has no workflow `Test`"),
    "bytes": ("bytes.mmd", INVALID, "bytes.mmd:1: "),
    "too large": ("large.yaml", INVALID, "large.yaml: "),
    "empty": ("empty.mmd", INVALID | {"migrate": 0}, "empty.mmd:1:1: "),
    "nested too deep": ("deep.json", INVALID, "deep.json: "),
    "a cycle": ("cycle", INVALID | {"migrate": 0, "import": 0}, "contains itself: Cycle > Cycle"),
    "not to be read": ("locked.mmd", INVALID | {"migrate": 2}, "Permission denied"),
}


@pytest.fixture
def wrong(desk: Desk) -> Iterator[Desk]:
    place = desk.place
    (place / "dangling.mmd").symlink_to("nowhere.mmd")
    os.mkfifo(place / "pipe.mmd")
    (place / "dir").mkdir()
    (place / "two.md").write_text(TWO, "utf-8")
    (place / "bytes.mmd").write_bytes(b"\xff\xfe\0graph TD")
    (place / "large.yaml").write_bytes(b"#" * 1_048_577)
    (place / "empty.mmd").touch()
    (place / "deep.json").write_text('{"steps":' + "[" * 100_000, "utf-8")
    (desk.home / "workflows").mkdir()
    (desk.home / "workflows" / "cycle.yaml").write_text(CYCLE, "utf-8")
    (place / "locked.mmd").write_text("graph TD\nA --> B\n", "utf-8")
    (place / "locked.mmd").chmod(0)
    yield desk
    (place / "locked.mmd").chmod(0o600)


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_input(wrong: Desk, kind: str) -> None:
    name, codes, message = WRONG[kind]
    if kind == "not to be read" and os.access(wrong.place / name, os.R_OK):
        pytest.skip("this user may read everything")
    before = wrong.tree()
    for command in COMMANDS:
        more = ["--to", "elsewhere"] if command == "import" else []
        ran = wrong("workflow", command, name, *more)
        assert ran.code == codes[command], (command, ran)
        if ran.code:
            assert message in ran.out + ran.err
            assert ran.err.startswith("error: ")
            assert ran.err.count("\n") == 1
        assert wrong.tree() == before


def test_a_name_that_is_no_utf8_is_a_usage_error(desk: Desk) -> None:
    ran = desk("workflow", "show", "\udcff")
    assert (ran.code, ran.out) == (2, "")
    assert "is not UTF-8 text" in ran.err


def spoiled(desk: Desk, text: str) -> None:
    """Workflows with that text in every field that may hold it."""
    said, name = for_json(text), for_names(text)
    folder = desk.home / "workflows"
    folder.mkdir()
    first = {
        "id": "a",
        "name": said,
        "prompt": f"**Agent's Role:** Behave {said}\n\n{said}",
        "guidance": [said],
    }
    branches = [{"condition": f"output.x == {json.dumps(said)}", "targetStepId": "a"}, {"to": "end"}]
    data = {
        "name": f"w{said}",
        "description": said,
        said: said,
        "steps": [
            {**first, said: said, "role": said},
            {"id": "d", "stepType": "decision", "branches": branches},
        ],
    }
    (folder / "w.json").write_text(json.dumps(data), "utf-8")
    (folder / "broken.json").write_text(
        json.dumps({"name": f"b{said}", "steps": [{"id": said[:100]}], "description": 1}), "utf-8"
    )
    (folder / os.fsdecode(os.fsencode(f"n{name}.mmd"))).write_text(
        f'graph TD\nA["{" ".join(said.replace(chr(34), "").split())}"] --> B\n%% @step(A): {{"prompt": {json.dumps(said)}}}\n',
        "utf-8",
    )
    agents = [{"id": said, "displayName": said, "agentPrompt": said}]
    (desk.place / "export.json").write_text(json.dumps({"workflow": data, "agents": agents}), "utf-8")


def looks(desk: Desk, text: str) -> Iterator[list[str]]:
    given = for_names(text)
    files = [str(path) for path in sorted((desk.home / "workflows").iterdir())]
    yield from (["list"], ["validate"], ["lint", "--strict"])
    for file in files:
        yield from (
            ["show", file, "--prompts"],
            ["show", file, "--mermaid"],
            ["next", file],
            ["next", file, "--completed", given],
        )
        yield from (["migrate", file], ["export", file])
    yield from (["show", given], ["next", "w", "--context", given], ["validate", "--role", given])
    yield from (
        ["import", "export.json"],
        ["import", "export.json"],
        ["import", "export.json", "--name", given],
    )
    yield ["export", "w", "-o", f"{given}/x"]


def is_raw(args: list[str]) -> bool:
    """Whether several lines are the content."""
    return args[0] == "export" or "--mermaid" in args


@pytest.mark.parametrize("name", HOSTILE)
def test_on_a_terminal(desk: Desk, name: str) -> None:
    text = CLASSES[name]
    spoiled(desk, text)
    found: list[str] = []
    for args in looks(desk, text):
        code, shown = seen(desk, ["workflow", *args], {"NO_COLOR": "1"})
        found += [f"{args}: {fault}" for fault in faults(shown, lines=not is_raw(args))]
        if (code == 1 and "-o" not in args) or b"Traceback" in shown or b"\x1b" in shown:
            found.append(f"{args}: exit {code}: {shown[-300:]!r}")
    assert found == []


def test_in_a_pipe_and_as_json(desk: Desk) -> None:
    text = CLASSES[ALL]
    spoiled(desk, text)
    found: list[str] = []
    for args in looks(desk, text):
        ran = desk("workflow", *args)
        shown = ran.err if is_raw(args) else ran.out + ran.err
        found += [f"{args}: {fault}" for fault in faults(shown.encode("utf-8", "surrogatepass"))]
        document = desk("workflow", *args, "--json")
        assert document.out.isascii(), args
        assert document.out.count("\n") == 1, args
        assert isinstance(json.loads(document.out), dict), args
    assert found == []
    assert [
        desk("workflow", name, ".logist/workflows/w.json").code
        for name in ("show", "validate", "next", "export")
    ] == [5, 5, 0, 0]


def test_nothing_is_written_outside_the_folder(desk: Desk) -> None:
    spoiled(desk, CLASSES[ALL])
    desk("workflow", "import", "export.json", "--name", "ok")
    there = {path for path in desk.place.rglob("*") if path.is_file()}
    assert {path.parent for path in there} <= {desk.place, desk.home, desk.home / "workflows"}
    assert any(path.stem == "ok" for path in there)


def test_the_folder_may_be_a_file(desk: Desk) -> None:
    (desk.home / "workflows").touch()
    assert desk("workflow", "list").code == 0
    source = Path("w.mmd")
    (desk.place / source).write_text("graph TD\nA --> B\n", "utf-8")
    ran = desk("workflow", "import", str(source))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"error: {desk.home / 'workflows'}")


def test_w3_a_comment_ends_at_whatever_ends_a_line() -> None:
    from logist.cli.show.graph import without_comments

    for end in ("\n", "\r\n", "\r"):
        diagram = end.join(["graph TD", "A --> B", '%% @A: {"agentRole": "secret words"}', "B --> C", ""])
        assert "secret" not in without_comments(diagram)
        assert "B --> C" in without_comments(diagram)
