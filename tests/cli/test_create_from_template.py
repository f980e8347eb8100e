"""`logist job create --from`: jobs from a template."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.desk import Desk
from tests.cli.test_create_batch import left, write_lines

FIX = """\
# One issue.
id: fix-{{issue}}
title: "{{title}}"
prompt: |
  Fix issue {{ issue }}: {{.title}}
  {{if hint}}Hint: {{hint}}{{end}}
rank: "{{rank}}"
tags: [bug, "{{area}}"]
limits:
  cost_threshold: "{{cents}}"
review: "{{review}}"
"""
VALUES = ("issue=12", "title=Über: all", "rank=3", "area=ui", "cents=5.5", "review=false")


def write_template(desk: Desk, text: str = FIX, name: str = "fix.yaml") -> Path:
    folder = desk.home / "templates"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, "utf-8")
    return folder / name


def give(*values: str) -> list[str]:
    return [word for value in values for word in ("--set", value)]


def test_a_template_is_filled_and_options_override_it(desk: Desk) -> None:
    write_template(desk)
    ran = desk("job", "create", "--from", "fix", *give(*VALUES), "--tag", "other")
    assert ran.code == 0, ran.err
    state, spec = desk.state("fix-12"), desk.history("fix-12")[0]["spec"]
    assert spec["title"] == "Über: all"
    assert spec["prompt"] == "Fix issue 12: Über: all\n\n"
    assert (state["rank"], state["tags"], spec["review"]) == (3, ["other"], False)
    assert spec["limits"]["cost_threshold"] == 5.5
    assert "{{" not in (desk.job("fix-12") / "job.yaml").read_text()


def test_a_value_adds_no_fields_and_is_no_template(desk: Desk) -> None:
    write_template(desk, "id: a\nprompt: 'Do {{what}}'\n")
    text = "x\nauto_merge: true\n{{other}}"
    assert desk("job", "create", "--from", "fix", "--set", f"what={text}").code == 0
    assert desk.history("a")[0]["spec"]["prompt"] == f"Do {text}"
    assert desk.history("a")[0]["spec"].get("auto_merge") is None


def test_each_line_of_a_batch_has_the_values_of_a_job(desk: Desk) -> None:
    write_template(desk)
    common = {"title": "t", "area": "a", "cents": 10, "review": True}
    file = write_lines(
        desk,
        {"issue": 1, "rank": 1, **common},
        {"issue": "2b", "rank": 2, "hint": "yes", **common, "title": 34},
    )
    ran = desk("job", "create", "--from", "fix", "--batch", file, "--set", "area=overridden")
    assert (ran.code, ran.out) == (0, "fix-1\nfix-2b\n"), ran.err
    specs = [desk.history(job_id)[0]["spec"] for job_id in ("fix-1", "fix-2b")]
    assert [spec["prompt"] for spec in specs] == ["Fix issue 1: t\n\n", "Fix issue 2b: 34\nHint: yes\n"]
    assert [(spec["rank"], spec["tags"], spec["title"]) for spec in specs] == [(1, ["bug", "a"], "t"), (2, ["bug", "a"], "34")]  # fmt: skip


def test_a_list_and_an_object_are_values_too(desk: Desk) -> None:
    text = "id: a\nprompt: '{{range criteria}}- {{.}}\n\n{{end}}{{issue.number}}'\nacceptance_criteria: '{{criteria}}'\ninput: {n: '{{issue.number}}'}\n"
    write_template(desk, text)
    file = write_lines(desk, {"criteria": ["one", "two"], "issue": {"number": 7}})
    ran = desk("job", "create", "--from", "fix", "--batch", file)
    assert ran.code == 0, ran.err
    spec = desk.history("a")[0]["spec"]
    assert (spec["acceptance_criteria"], spec["input"]) == (["one", "two"], {"n": 7})
    assert spec["prompt"] == "- one\n- two\n7"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--from", "fix"], 2, "fix.yaml:2: missing value for `issue`, `title`, `rank`, `area`, `cents`, `review` (to set them: --set issue=VALUE --set title=VALUE "),
        (["--from", "fix", *give(*VALUES[1:])], 2, "fix.yaml:2: missing value for `issue`"),
        (["--from", "fix", *give(*VALUES, "titel=x")], 2, "fix.yaml: the template has no placeholder `titel` (did you mean `title`?)"),
        (["--from", "fix", *give(*VALUES, "issue=13")], 2, "--set: two values for `issue`"),
        (["--from", "fix", "--set", "issue"], 2, "--set: missing '=' in 'issue' (use --set NAME=VALUE)"),
        (["--from", "fix", *give("issue=1", "title=t", "rank=high", "area=x", "cents=1", "review=true")], 5, 'fix.yaml:7: `rank` must be an integer, not "high"'),
        (["--from", "fxi"], 2, "--from: template not found: fxi (did you mean `fix`?)"),
        (["--from", "no/such.yaml"], 2, "--from: template file not found: no/such.yaml"),
        (["--from", "broken"], 5, "broken.yaml:1: `prompt`: `if` needs a path"),
        (["--from", "misspelled", "--set", "x=1"], 5, "misspelled.yaml:1: unknown key `promt` (did you mean `prompt`?)"),
        (["--from", "empty", "--set", "x=1"], 2, "empty.yaml: the template has no placeholder `x` (it has no placeholders)"),
        (["--from", "bare", "--set", "x=1"], 5, 'bare.yaml:1:10: keys must be text, not a list or a mapping (write placeholders in quotes: "{{NAME}}")'),
        (["--from", "fix", "spec.yaml"], 2, "can't use SPEC and --from together"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(desk: Desk, words: list[str], code: int, message: str) -> None:
    write_template(desk)
    write_template(desk, "prompt: '{{x}} {{if}}'\n", "broken.yaml")
    write_template(desk, "promt: '{{x}}'\n", "misspelled.yaml")
    write_template(desk, "prompt: x\n", "empty.yaml")
    write_template(desk, "prompt: {{x}}\n", "bare.yaml")
    ran = desk("job", "create", *words)
    assert (ran.code, left(desk)) == (code, set())
    assert message in ran.err


def test_a_line_of_a_batch_is_named_too(desk: Desk) -> None:
    write_template(desk, "prompt: 'Do {{what}}'\n")
    file = write_lines(desk, {"what": "x"}, {"waht": "x"})
    ran = desk("job", "create", "--from", "fix", "--batch", file)
    assert (ran.code, left(desk)) == (2, set())
    assert "batch.jsonl:2: " in ran.err
    assert "fix.yaml: the template has no placeholder `waht`; no job was created" in ran.err
    ran = desk("job", "create", "--from", "fix", "--batch", write_lines(desk, {"what": "x"}, {}))
    assert "batch.jsonl:2: " in ran.err
    assert "fix.yaml:1: missing value for `what`; no job was created" in ran.err


def test_a_template_is_also_a_file_or_one_of_the_user(desk: Desk) -> None:
    (desk.place / "own.yml").write_text("id: a\nprompt: x\n")
    assert desk("job", "create", "--from", "own.yml").code == 0
    user = desk.place / "user" / "logist" / "templates"
    user.mkdir(parents=True)
    (user / "mine.json").write_text('{"id": "{{id}}", "prompt": "of the user", "auto_merge": true}')
    env = {"XDG_CONFIG_HOME": str(desk.place / "user")}
    assert desk("job", "create", "--from", "mine", "--set", "id=b", env=env).code == 0
    write_template(desk, "id: '{{id}}'\nprompt: of the project\n", "mine.yaml")
    assert desk("job", "create", "--from", "mine", "--set", "id=c", env=env).code == 0
    assert desk.history("c")[0]["spec"]["prompt"] == "of the project"


@pytest.mark.parametrize(
    "line",
    ["auto_merge: true", "review_mode: yolo", "approval: none", "approval: false", "repo: /tmp", "review_mode: '{{if x}}yolo{{end}}'"],
)  # fmt: skip
def test_what_merges_without_a_person_needs_trust(desk: Desk, line: str) -> None:
    env = {"XDG_CONFIG_HOME": str(desk.place / "user")}
    file = write_template(desk, f"id: a\nprompt: '{{{{x}}}}'\n{line}\n")
    for name in ("fix", str(file)):
        ran = desk("job", "create", "--from", name, "--set", "x=1", env=env)
        assert (ran.code, left(desk)) == (5, set())
        assert (
            f"`templates/fix.{line.split(':')[0]}` can run programs, reach other hosts, or merge" in ran.err
        )
        assert "check it, then run: logist trust" in ran.err
    desk.create("other")
    assert desk("job", "step", "other", env=env).code == 0, "only the template needs it"
    shown = desk("trust", "--yes", "--json", env=env).json["data"]
    assert list(shown["powers"]) == [f"templates/fix.{line.split(':')[0]}"]
    ran = desk("job", "create", "--from", "fix", "--set", "x=1", "--no-repo", env=env)
    assert ran.code == 0, ran.err
    assert desk("job", "run", "other", env=env).code == 11
    file.write_text(
        file.read_text()
        + "# more\n"
        + ("auto_merge: true\n" if "auto_merge" not in line else "approval: none\n")
    )
    assert desk("job", "create", "--from", "fix", "--set", "x=1", "--id", "b", env=env).code == 5


@pytest.mark.parametrize(
    "line", ["approval: end", "review_mode: strict", "auto_merge: false", "repo: false", "approval: '{{x}}'"]
)
def test_what_is_harmless_needs_none(desk: Desk, line: str) -> None:
    write_template(desk, f"id: a\nprompt: 'x {{{{x}}}}'\n{line}\n")
    env = {"XDG_CONFIG_HOME": str(desk.place / "user")}
    ran = desk("job", "create", "--from", "fix", "--set", "x=none", env=env)
    assert ran.code == 0, ran.err


def test_json_has_the_job(desk: Desk) -> None:
    write_template(desk, "id: a\nprompt: x\n")
    assert json.loads(desk("job", "create", "--from", "fix", "--json").out)["data"]["job"] == "a"
