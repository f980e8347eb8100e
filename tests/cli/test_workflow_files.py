"""`logist workflow migrate|import|export`: the commands that write files."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.desk import Desk
from tests.support import ROOT

POSITIVE = ROOT / "fixtures" / "workflows" / "files" / "positive"
SHORT = "**Agent's Role:** Act as a critic.\n\nReview."
PROMPT = (
    "**Agent's Role:** Act as a code reviewer. Ask specific questions about the code quality.\n\n"
    "Please review the attached code and provide feedback on potential improvements."
)
MIXED = f"""{{
  "name": "Mixed",
  "steps": [
    {{"id": "a", "name": "A",
     "prompt": {json.dumps(PROMPT)},
     "guidance": []}},
    {{"id": "b", "prompt": "Done?"}}
  ]
}}"""


def mixed(desk: Desk, name: str = "mixed.json", text: str = MIXED) -> Path:
    path = desk.place / name
    path.write_bytes(text.encode())
    return path


# migrate


def test_migrate_shows_what_would_change_and_changes_nothing(desk: Desk) -> None:
    path = mixed(desk)
    ran = desk("workflow", "migrate", "mixed.json")
    assert (ran.code, ran.err) == (0, "1 step would change; use --write to change the file\n")
    assert path.read_text("utf-8") == MIXED
    lines = ran.out.splitlines()
    assert lines[:3] == ["--- a/mixed.json", "+++ b/mixed.json", "@@ -5 +5,2 @@"]
    assert [line for line in lines if line.startswith("-    ")] == [f'-     "prompt": {json.dumps(PROMPT)},']
    assert [line.split(":")[0] for line in lines if line.startswith("+    ")] == [
        '+     "prompt"',
        '+     "agentRole"',
    ]


def test_w3_migrate_shows_no_person_the_agent_role_of_another_step(desk: Desk) -> None:
    role = "Be as terse as you can."
    mixed(desk, text=MIXED.replace('"prompt": "Done?"', f'"prompt": "Done?", "agentRole": "{role}"'))
    assert role not in desk("workflow", "migrate", "mixed.json").out
    assert role in desk("workflow", "migrate", "mixed.json", "--json").json["data"]["diff"]


def test_the_diff_is_one_that_patch_takes(desk: Desk) -> None:
    path = mixed(desk)
    wanted = desk("workflow", "migrate", "mixed.json", "--json").json["data"]
    assert (wanted["moved"], wanted["changed"], wanted["written"]) == (["steps[0].prompt"], True, False)
    git = ["git", "apply", "--unsafe-paths", "-"]
    subprocess.run(git, cwd=desk.place, input=wanted["diff"].encode(), check=True)
    patched = path.read_text("utf-8")
    mixed(desk)
    assert desk("workflow", "migrate", "mixed.json", "--write").code == 0
    assert path.read_text("utf-8") == patched != MIXED


def test_migrate_writes_the_file_in_one_go_with_its_mode(desk: Desk) -> None:
    path = mixed(desk)
    path.chmod(0o640)
    ran = desk("workflow", "migrate", "mixed.json", "--write")
    assert (ran.code, ran.err) == (0, "1 step changed in mixed.json\n")
    step = json.loads(path.read_text("utf-8"))["steps"][0]
    assert step["prompt"] == PROMPT.split("\n\n")[1]
    assert step["agentRole"] == "Act as a code reviewer. Ask specific questions about the code quality."
    assert path.stat().st_mode & 0o777 == 0o640
    assert [file.name for file in desk.place.iterdir() if file.name.startswith(".mixed")] == []


def test_what_needs_no_change_is_not_touched(desk: Desk) -> None:
    path = mixed(desk, text=MIXED.replace("Agent's Role", "Agent's Goal"))
    before = path.stat()
    ran = desk("workflow", "migrate", "mixed.json", "--write")
    assert (ran.code, ran.out, ran.err) == (0, "", "nothing to move in mixed.json\n")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_migrate_follows_a_link_and_keeps_it(desk: Desk) -> None:
    path = mixed(desk)
    link = desk.place / "link.json"
    link.symlink_to("mixed.json")
    assert desk("workflow", "migrate", "link.json", "--write").code == 0
    assert link.is_symlink()
    assert "agentRole" in path.read_text("utf-8")


def test_migrate_names_what_it_cannot_move(desk: Desk) -> None:
    mixed(
        desk,
        text=MIXED.replace("Act as a code reviewer. Ask specific questions about the code quality.", "Ask."),
    )
    ran = desk("workflow", "migrate", "mixed.json")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith(
        "warning: mixed.json:5: `steps[0].prompt` is not changed: the role has 4 characters; an agentRole must have 10 to 1024"
    )


@pytest.mark.parametrize(
    ("name", "content", "code", "message"),
    [
        ("none.json", None, 2, "workflow `none.json` not found"),
        ("dir.json", "/", 2, "`dir.json` is a directory"),
        ("w.json", b"{", 5, "w.json:1:2: invalid JSON: "),
        ("w.mmd", b"\xff", 5, "w.mmd:1: not valid UTF-8"),
        ("w.yaml", b" " * 1_048_577, 5, "w.yaml: must not be larger than 1,048,576 bytes"),
        (
            "w.json",
            json.dumps({"steps": [{"prompt": SHORT}] * 10_001}).encode(),
            5,
            "w.json: too many prompts: 10,001; ",
        ),
    ],
    ids=["none", "directory", "broken", "bytes", "large", "many"],
)
def test_a_file_that_cannot_be_migrated(
    desk: Desk, name: str, content: bytes | str | None, code: int, message: str
) -> None:
    if isinstance(content, bytes):
        (desk.place / name).write_bytes(content)
    elif content:
        (desk.place / name).mkdir()
    ran = desk("workflow", "migrate", name, "--write")
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith("error: ")
    assert message in ran.err
    if isinstance(content, bytes):
        assert (desk.place / name).read_bytes() == content


# export


def test_export_has_the_steps_and_the_roles_that_they_name(desk: Desk) -> None:
    ran = desk("workflow", "export", str(POSITIVE / "article.yaml"))
    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    assert document["exportVersion"] == "2.0"
    assert [agent["id"] for agent in document["agents"]] == ["Worker", "Supervisor"]
    assert [step["id"] for step in document["workflow"]["steps"]] == ["outline", "draft", "sign-off", "print"]
    assert document["workflow"]["steps"][0]["agentRole"].startswith("You are an editor")


def test_export_to_a_file_that_is_not_there_yet(desk: Desk) -> None:
    source = str(POSITIVE / "pr-review.mmd")
    umask = os.umask(0o027)
    try:
        ran = desk("workflow", "export", source, "-o", "out.json")
    finally:
        os.umask(umask)
    assert (ran.code, ran.out, ran.err) == (0, "", "written: out.json\n")
    out = desk.place / "out.json"
    assert out.stat().st_mode & 0o777 == 0o640
    written = out.read_bytes()
    ran = desk("workflow", "export", source, "-o", "out.json")
    assert (ran.code, ran.out) == (8, "")
    assert ran.err == "error: out.json: file already exists (use --force to replace it)\n"
    assert out.read_bytes() == written
    assert desk("workflow", "export", str(POSITIVE / "article.yaml"), "-o", "out.json", "--force").code == 0
    assert json.loads(out.read_bytes())["workflow"]["name"] == "Article"


@pytest.mark.parametrize(
    ("target", "code", "message"),
    [
        (".", 8, ".: not a regular file"),
        ("no/where.json", 1, "no/where.json: can't read or write: No such file or directory"),
        ("/dev/full", 8, "/dev/full: not a regular file"),
    ],
)
def test_export_to_where_no_file_can_be(desk: Desk, target: str, code: int, message: str) -> None:
    ran = desk("workflow", "export", str(POSITIVE / "article.yaml"), "-o", target, "--force")
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err


def test_export_of_what_cannot_be_used(desk: Desk) -> None:
    (desk.place / "w.yaml").write_text(
        "name: W\nsteps: [{id: a, stepType: subflow, subflowId: X}]\n", "utf-8"
    )
    ran = desk("workflow", "export", "w.yaml")
    assert (ran.code, ran.out) == (5, "")
    assert ran.err.startswith("error: w.yaml:2: steps[0].subflowId: workflow `X` not found")


# import


def imported(desk: Desk, *args: str) -> list[Path]:
    ran = desk("workflow", "import", *args, "--json")
    assert ran.code == 0, ran.out
    return [Path(file) for file in ran.json["data"]["files"]]


@pytest.mark.parametrize(
    "name",
    ["pr-review.mmd", "shapes.mmd", "unicode.mmd", "article.yaml", "guided.json", "odd.json", "loops.json"],
)
def test_a_file_is_taken_byte_for_byte(desk: Desk, name: str) -> None:
    (file,) = imported(desk, str(POSITIVE / name))
    assert file == desk.home / "workflows" / name
    assert file.read_bytes() == (POSITIVE / name).read_bytes()


def test_the_diagram_of_an_export_and_its_config_block_come_back_byte_for_byte(desk: Desk) -> None:
    assert desk("workflow", "export", str(POSITIVE / "pr-review.mmd"), "-o", "out.json").code == 0
    ran = desk("workflow", "import", "out.json")
    assert (ran.code, ran.out, ran.err) == (0, "imported: .logist/workflows/pr-review.mmd\n", "")
    assert (desk.home / "workflows" / "pr-review.mmd").read_bytes() == (
        POSITIVE / "pr-review.mmd"
    ).read_bytes()
    again = desk("workflow", "export", "pr-review", "--json").json["data"]["document"]["workflow"]
    assert again == json.loads((desk.place / "out.json").read_bytes())["workflow"]


@pytest.mark.parametrize(
    ("source", "file"),
    [
        ("article.yaml", "Article.md"),
        ("page.md", "From a page.md"),
        ("mixed-prompts.yaml", "Mixed.mmd"),
        ("guided.json", "Guided review.json"),
        ("team.mmd#By day", "By day.mmd"),
    ],
)
def test_an_export_becomes_a_file_that_says_the_same(desk: Desk, source: str, file: str) -> None:
    assert desk("workflow", "export", str(POSITIVE / source), "-o", "out.json").code == 0
    assert imported(desk, "out.json") == [desk.home / "workflows" / file]
    name = json.loads((desk.place / "out.json").read_bytes())["workflow"]["name"]
    before, after = (
        desk("workflow", "show", of, "--json").json["data"] for of in (str(POSITIVE / source), name)
    )
    for field in ("name", "description", "start", "steps", "edges"):
        assert before[field] == after[field]


def test_the_workflows_inside_an_export_become_files_of_their_own(desk: Desk) -> None:
    folder = desk.home / "workflows"
    folder.mkdir()
    for name in ("triage.json", "fan-out.mmd", "security-scan.yaml"):
        (folder / name).write_bytes((POSITIVE / name).read_bytes())
    assert desk("workflow", "export", "fan-out", "-o", "out.json").code == 0
    for file in folder.iterdir():
        file.unlink()
    files = imported(desk, "out.json")
    assert [file.name for file in files] == ["fan-out.mmd", "Security Scan.mmd"]
    assert desk("workflow", "validate").code == 0
    assert "no role has the name" not in desk("workflow", "import", "out.json", "--force").err


def test_agents_that_are_no_role_are_named_and_not_made(desk: Desk) -> None:
    data = {
        "workflow": {"name": "W", "steps": [{"id": "a", "prompt": "x", "defaultAssigneeId": "poet"}]},
        "agents": [{"id": "poet", "displayName": "P", "agentPrompt": "Rhyme."}],
        "exportVersion": "2.0",
    }
    (desk.place / "w.json").write_text(json.dumps(data), "utf-8")
    ran = desk("workflow", "import", "w.json")
    assert (ran.code, ran.out) == (0, "imported: .logist/workflows/W.mmd\n")
    assert ran.err.startswith("warning: no role has the name of the agent `poet` in the imported file (")
    assert "warning: `W` can't be used here yet: @a.role: step `a` has the unknown role `poet`" in ran.err
    assert not (desk.home / "roles").exists()


def test_a_new_name(desk: Desk) -> None:
    (file,) = imported(desk, str(POSITIVE / "article.yaml"), "--name", "Essay")
    assert file.name == "Essay.yaml"
    text = (POSITIVE / "article.yaml").read_text("utf-8")
    assert file.read_text("utf-8") == text.replace("name: Article", "name: Essay", 1)
    (file,) = imported(desk, str(POSITIVE / "pr-review.mmd"), "--name", "PR")
    assert (file.name, file.read_bytes()) == ("PR.mmd", (POSITIVE / "pr-review.mmd").read_bytes())
    assert desk("workflow", "list", "--json").json["data"][1]["name"] == "PR"


@pytest.mark.parametrize("name", ["../../x", "a#b", "", " ", "a\nb", "\x1b[31m"])
def test_a_name_that_would_be_none(desk: Desk, name: str) -> None:
    before = desk.tree()
    ran = desk("workflow", "import", str(POSITIVE / "article.yaml"), "--name", name)
    assert (ran.code, ran.out) == (2, "")
    assert f"invalid workflow name {name!r}" in ran.err
    assert desk.tree() == before


@pytest.mark.parametrize(
    "name", ["../../evil", ".hidden", "-x", "a/b", "n" * 300, "\u202ea", "#", "..", "\u0085"]
)
def test_a_name_inside_a_file_leads_to_no_other_place(desk: Desk, name: str) -> None:
    workflow = {"name": name, "description": "d", "mermaidSource": "graph TD\nA[Do it]\n", "steps": []}
    (desk.place / "w.json").write_text(json.dumps({"workflow": workflow}), "utf-8")
    (file,) = imported(desk, "w.json")
    assert file.parent == desk.home / "workflows"
    assert list(file.parent.iterdir()) == [file]
    assert not file.name.startswith((".", "-"))
    assert file.name.isprintable()


def test_nothing_is_overwritten_unless_it_is_forced(desk: Desk) -> None:
    (file,) = imported(desk, str(POSITIVE / "article.yaml"))
    file.write_text(file.read_text("utf-8") + "# mine\n", "utf-8")
    mine = file.read_bytes()
    ran = desk("workflow", "import", str(POSITIVE / "article.yaml"))
    assert (ran.code, ran.out) == (8, "")
    assert ran.err == f"error: {file}: file already exists (use --force to replace it)\n"
    assert file.read_bytes() == mine
    assert imported(desk, str(POSITIVE / "article.yaml"), "--force") == [file]
    assert file.read_bytes() == (POSITIVE / "article.yaml").read_bytes()


def test_two_files_of_one_name_are_never_made(desk: Desk) -> None:
    (file,) = imported(desk, str(POSITIVE / "article.yaml"))
    assert desk("workflow", "export", "Article", "-o", "out.json").code == 0
    ran = desk("workflow", "import", "out.json", "--force")
    assert (ran.code, ran.out) == (8, "")
    assert ran.err.startswith(f"error: {file}: workflow `Article` already exists (use --name ")
    assert list(file.parent.iterdir()) == [file]


def test_to_another_directory(desk: Desk) -> None:
    assert imported(desk, str(POSITIVE / "article.yaml"), "--to", "flows/new") == [
        Path("flows/new/article.yaml")
    ]
    assert (desk.place / "flows" / "new" / "article.yaml").is_file()
    (desk.place / "file").touch()
    ran = desk("workflow", "import", str(POSITIVE / "article.yaml"), "--to", "file")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: file")


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("two.md", 2, "two.md contains 2 workflows (choose one, for example"),
        ("../negative/types.yaml", 5, "types.yaml:2: `description` must be text, not a list; 13 more errors"),
    ],
)
def test_what_cannot_be_imported_leaves_nothing(desk: Desk, name: str, code: int, message: str) -> None:
    before = desk.tree()
    ran = desk("workflow", "import", str(POSITIVE / name))
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert desk.tree() == before


def test_a_workflow_of_more_than_a_thousand_steps_needs_a_setting(desk: Desk) -> None:
    steps = [{"id": f"s{number}", "prompt": f"Do part {number}."} for number in range(1001)]
    (desk.place / "w.json").write_text(json.dumps({"name": "Long", "steps": steps}), "utf-8")
    ran = desk("workflow", "validate", "w.json")
    message = "the workflow has 1,001 steps; the limit is 1,000 (raise `workflow.max_steps` in the config)"
    assert (ran.code, ran.out) == (5, f"w.json:1: error: steps: {message}\n")
    ran = desk("job", "create", "--workflow", "w.json")
    assert (ran.code, message in ran.err) == (5, True)
    assert desk("config", "set", "workflow.max_steps", "10001").code == 2
    assert desk("config", "set", "workflow.max_steps", "1001").code == 0
    assert desk("workflow", "validate", "w.json").code == 0
    assert desk("job", "create", "--id", "j1", "--workflow", "w.json").code == 0
    assert "s1" in desk("workflow", "next", "w.json", "--completed", "s0").out
