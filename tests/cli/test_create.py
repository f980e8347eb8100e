"""`logist job create`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests import support
from tests.cli.desk import Desk
from tests.support import RunLogist

SPEC = """\
# A spec with a comment.
id: from-spec
title: A title
prompt: |
  Do it.
limits: {cost_threshold: 50}
"""


def test_what_a_person_sees(desk: Desk, snapshot: SnapshotAssertion) -> None:
    assert desk.shown(desk("job", "create", "--id", "j1", "--prompt", "Do it.")) == snapshot


def test_a_spec_file_is_kept_as_it_is_and_options_win(desk: Desk) -> None:
    (desk.place / "spec.yaml").write_text(SPEC, "utf-8")
    assert desk("job", "create", "spec.yaml").code == 0
    assert (desk.job("from-spec") / "job.yaml").read_text("utf-8") == SPEC
    options = ["--id", "other", "--title", "Mine", "--cost-threshold", "7", "--no-review"]
    assert desk("job", "create", "spec.yaml", *options).code == 0
    text = (desk.job("other") / "job.yaml").read_text("utf-8")
    assert text.startswith("# A spec with a comment.\nid: other\ntitle: Mine\n")
    assert desk.state("other")["limits"]["cost_threshold"] == 7


def test_json_and_standard_input(desk: Desk) -> None:
    (desk.place / "spec.json").write_text(json.dumps({"id": "a", "prompt": "From JSON."}), "utf-8")
    assert desk("job", "create", "spec.json").code == 0
    assert desk("job", "create", "-", stdin="id: b\nprompt: From a pipe.\n").code == 0
    assert desk("job", "create", "--id", "c", "--file", "-", stdin="The prompt.\n").code == 0
    (desk.place / "prompt.md").write_text("# From a file\n", "utf-8")
    assert desk("job", "create", "--id", "d", "--file", "prompt.md").code == 0
    prompts = [desk.history(job_id)[0]["spec"]["prompt"] for job_id in "abcd"]
    assert prompts == ["From JSON.", "From a pipe.", "The prompt.\n", "# From a file\n"]


def test_an_id_is_made_of_the_title(desk: Desk) -> None:
    made = [
        desk("job", "create", "--prompt", "Rename `foo` to bar!", "--json").json["data"]["job"] for _ in "12"
    ]
    assert made[0] != made[1]
    assert all(job_id.startswith("rename-foo-to-bar-") for job_id in made)


def test_an_id_has_the_letters_of_a_title_without_their_accents(desk: Desk) -> None:
    created = desk("job", "create", "--prompt", "Füge Größe à la carte hinzu").out
    assert created.startswith("fuge-grosse-a-la-carte-")


def test_the_workspace_starts_from_the_repository_around(desk: Desk) -> None:
    support.git(desk.place, "init", "--quiet")
    (desk.place / "kept.txt").write_text("kept", "utf-8")
    support.git(desk.place, "add", "kept.txt")
    support.git(desk.place, "commit", "--quiet", "--message", "one")
    (desk.place / "loose.txt").write_text("loose", "utf-8")
    ran = desk("job", "create", "--id", "j1", "--prompt", "x")
    assert (desk.job() / "workspace" / "kept.txt").read_text("utf-8") == "kept"
    assert not (desk.job() / "workspace" / "loose.txt").exists()
    assert ran.err.startswith(
        f"warning: the workspace contains HEAD of {desk.place}, without uncommitted changes: "
    )
    assert "loose.txt" in ran.err
    desk.create("empty", "--no-repo")
    assert [path.name for path in (desk.job("empty") / "workspace").iterdir()] == [".git"]


def test_a_repository_without_a_commit_is_told(desk: Desk) -> None:
    support.git(desk.place, "init", "--quiet")
    ran = desk("job", "create", "--id", "j1", "--prompt", "x")
    assert (ran.code, ran.err) == (
        0,
        f"warning: {desk.place} has no commits yet, so the workspace is empty\n",
    )
    shown = desk("job", "create", "--id", "j2", "--prompt", "x", "--json").json
    assert "no commits yet" in shown["diagnostics"][0]["message"]


@pytest.mark.parametrize(
    ("args", "stdin", "code", "told"),
    [
        ([], "", 2, "a job needs a prompt"),
        (["--prompt", "  "], "", 2, "the prompt is empty"),
        (["--prompt", "x", "--file", "y"], "", 2, "more than one prompt"),
        (["--prompt", "x", "--repo", ".", "--no-repo"], "", 2, "can't use --repo and --no-repo together"),
        (["--prompt", "x", "--repo", "nowhere"], "", 2, "is not a git repository"),
        (["nowhere.yaml"], "", 2, "can't read the spec: No such file"),
        (["notes.md"], "", 2, "notes.md is not a spec file"),
        (["-"], "prompt: [\n", 5, "standard input:2:1: invalid YAML: "),
        (["-"], "promt: x\n", 5, "did you mean `prompt`?"),
        (["-"], "just text\n", 5, "standard input"),
        (["-"], "prompt: 5\n", 5, "prompt"),
        (["-"], "prompt: &a x\ntitle: *a\n", 5, "standard input"),
        (["-"], "", 2, "a job needs a prompt"),
        (["--prompt", "x", "--id", "../x"], "", 2, "invalid job id '../x' (an id must match"),
        (["--prompt", "x", "--id", ""], "", 2, "invalid job id '' (an id must match"),
        (["-"], "prompt: x\nid: ../x\n", 5, "standard input:2: `id`"),
        (["--prompt", "x", "--cost-threshold", "-1"], "", 2, "--cost-threshold"),
        (["--prompt", "x", "--cost-threshold", "inf"], "", 2, "'inf' is not a finite number"),
        (["--prompt", "x", "--time-threshold-minutes", "nan"], "", 2, "'nan' is not a finite number"),
        (["--prompt", "x", "--approval", "maybe"], "", 2, "'maybe' is not one of"),
    ],
)
def test_what_is_refused_leaves_nothing(
    desk: Desk, args: list[str], stdin: str, code: int, told: str
) -> None:
    (desk.place / "notes.md").write_text("x", "utf-8")
    ran = desk("job", "create", *args, stdin=stdin)
    assert (ran.code, ran.out) == (code, ""), ran.err
    assert told in ran.err
    assert ran.err.count("\n") == 1
    assert list(desk.jobs.iterdir()) == []


def test_an_id_that_is_taken(desk: Desk) -> None:
    desk.create()
    before = desk.tree()
    ran = desk("job", "create", "--id", "j1", "--prompt", "Another.")
    assert (ran.code, ran.out) == (8, "")
    assert ran.err == f"error: {desk.job()}: job 'j1' already exists (choose another --id)\n"
    assert desk.tree() == before


def test_a_spec_that_is_no_text(desk: Desk, tmp_path: Path) -> None:
    (desk.place / "spec.yaml").write_bytes(b"\xff\xfe\x00")
    ran = desk("job", "create", "spec.yaml")
    assert (ran.code, ran.err) == (2, "error: spec.yaml: the spec is not UTF-8 text\n")


def test_outside_of_a_project_it_says_where_the_job_is(cli: RunLogist, tmp_path: Path) -> None:
    data = Path(os.environ["XDG_DATA_HOME"], "logist", "jobs")
    words = ("job", "create", "--id", "j1", "--prompt", "x")
    ran = cli(*words, cwd=tmp_path)
    assert ran.code == 0
    assert ran.err == (
        f"no project here, so the job j1 is in {data}; to create a project in this directory instead, run: "
        "logist init, then create the job again\n"
    )
    assert (data / "j1").is_dir()
    assert cli("init", cwd=tmp_path).code == 0
    inside = cli(*words, cwd=tmp_path)
    assert (inside.code, inside.err) == (0, "")
    assert (tmp_path / ".logist" / "jobs" / "j1").is_dir()


@pytest.mark.parametrize("named", [["--jobs-dir", "jobs"], []], ids=["option", "environment"])
def test_who_names_a_directory_knows_where_the_job_is(
    cli: RunLogist, tmp_path: Path, named: list[str]
) -> None:
    env = {} if named else {"LOGIST_JOBS_DIR": "jobs"}
    ran = cli("job", "create", "--id", "j1", "--prompt", "x", *named, env=env, cwd=tmp_path)
    assert (ran.code, ran.err) == (0, "")


def test_an_argument_of_several_words_is_the_task(desk: Desk) -> None:
    assert desk("job", "create", "Fix the\nbug", "--id", "j1", "--title", "A bug").code == 0
    assert desk.history()[0]["spec"]["prompt"] == "Fix the\nbug"
    (desk.place / "my spec.yaml").write_text(SPEC, "utf-8")
    assert desk("job", "create", "my spec.yaml").code == 0
    assert (desk.job("from-spec") / "job.yaml").read_text("utf-8") == SPEC


def test_a_task_that_reads_like_a_missing_file_is_a_warning(desk: Desk) -> None:
    ran = desk("job", "create", "my specs.yaml", "--id", "j1")
    assert ran.code == 0
    assert ran.err == "warning: file not found: 'my specs.yaml'; using it as the text of the task\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["refactor"],
            "refactor: can't read the spec: No such file or directory (to use a text as the task: --prompt TEXT)",
        ),
        (
            ["one", "--prompt", "x"],
            "one: can't read the spec: No such file or directory (to choose the id: --id one)\n",
        ),
        (["one", "--prompt", "x", "--id", "two"], "one: can't read the spec: No such file or directory\n"),
        (["one.yaml", "--prompt", "x"], "one.yaml: can't read the spec: No such file or directory\n"),
        (["a/b", "--prompt", "x"], "a/b: can't read the spec: No such file or directory\n"),
        (["fix it", "--prompt", "x"], "TASK: more than one prompt"),
        (["fix it", "--file", "x"], "TASK: more than one prompt"),
        (["x y", "--files", "../secret"], "files: '../secret' is not a path inside the workspace"),
        (["x y", "--files", "/etc/passwd"], "files: '/etc/passwd' is not a path inside the workspace"),
        (["x y", "--files", ".git/config"], "files: '.git/config' is not a path inside the workspace"),
        (["x y", "--files", ""], "files: '' is not a path inside the workspace"),
        (["-"], "files: '../secret' is not a path inside the workspace"),
    ],
)
def test_a_task_or_a_file_that_is_refused(desk: Desk, args: list[str], message: str) -> None:
    ran = desk("job", "create", *args, stdin="prompt: x\nfiles: [../secret]\n")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {message}")
    assert list(desk.jobs.iterdir()) == []


def test_criteria_files_and_tags(desk: Desk) -> None:
    support.git(desk.place, "init", "--quiet")
    (desk.place / "kept.txt").write_text("kept", "utf-8")
    support.git(desk.place, "add", "kept.txt")
    support.git(desk.place, "commit", "--quiet", "--message", "one")
    options = ["--criteria", "It works.", "--criteria", "It is short.", "--files", "kept.txt"]
    tags = ["--tag", "urgent", "--tag", "docs"]
    assert desk("job", "create", "Do it now.", "--id", "j1", *options, *tags).code == 0
    spec = desk.history()[0]["spec"]
    assert spec["acceptance_criteria"] == ["It works.", "It is short."]
    assert (spec["files"], spec["tags"]) == (["kept.txt"], ["urgent", "docs"])
    assert "kept" in desk("job", "preview", "j1").out
    assert [row["id"] for row in desk("job", "list", "--tag", "docs", "--json").json["data"]] == ["j1"]


def test_options_take_the_place_of_lists_in_a_spec(desk: Desk) -> None:
    given = "id: j1\nprompt: x\ntags: [a, b]  # why\nacceptance_criteria: It works.\n"
    ran = desk("job", "create", "-", "--tag", "c", "--criteria", "It is short.", stdin=given)
    assert ran.code == 0, ran.err
    spec = desk.history()[0]["spec"]
    assert (spec["tags"], spec["acceptance_criteria"]) == (["c"], ["It is short."])


def test_a_file_that_no_prompt_can_show_is_a_warning(desk: Desk) -> None:
    ran = desk("job", "create", "Do it now.", "--id", "j1", "--files", "src/missing.py", "--no-repo")
    assert ran.code == 0
    reason = "not found, or not a regular file in the workspace"
    assert ran.err == f"warning: files: src/missing.py can't be included in a prompt: {reason}\n"
    changed = desk("job", "config", "j1", "--set", "files=[other.py]")
    assert (changed.code, changed.err) == (
        0,
        f"warning: files: other.py can't be included in a prompt: {reason}\n",
    )
    before = (desk.job() / "job.yaml").read_bytes()
    refused = desk("job", "config", "j1", "--set", "files=[../other.py]")
    assert refused.code == 2
    assert "'../other.py' is not a path inside the workspace" in refused.err
    assert (desk.job() / "job.yaml").read_bytes() == before


def test_a_model_that_no_config_defines_is_a_warning(desk: Desk, tmp_path: Path) -> None:
    """Else the job would fail first when `logist run` begins it, maybe at night."""
    env = desk.env | {"LOGIST_AGENT": "model"}
    warning = "warning: steps will be refused: unknown model `gemini-2.5-flsh`; known: "
    made = desk("job", "create", "--id", "one", "--prompt", "Do it.", "--model", "gemini-2.5-flsh", env=env)
    assert made.code == 0
    assert made.err.startswith(warning)
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"prompt": "a", "model": "gemini-2.5-flsh"}\n' * 2 + '{"prompt": "b"}\n')
    made = desk("job", "create", "--batch", str(lines), env=env)
    assert (made.code, made.err.count(warning)) == (0, 1)
