"""Role files: Markdown with front matter, bases, templates, types of tasks, and where each field comes from."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.core.model import EVERYTHING, Role
from logist.documents import MAX_BYTES, Document, dump_yaml
from logist.documents import read_document as document
from logist.errors import InvalidFile, UsageError
from logist.resources import find_resource
from logist.roles import LoadedRole, Origin, RoleProblem, Roles, load_roles
from logist.roles.loading import MOST_ADVICE
from tests.support import examples

BUILDER = """\
name: builder
description: Builds what is asked for
applicable_task_types: [feature, task]

prompt_template: |
  You are building something.

  ## What
  {{.Title}}

  {{if .Description}}
  ## More
  {{.Description}}
  {{end}}

  {{if .AcceptanceCriteria}}
  {{range .AcceptanceCriteria}}
  - {{.}}
  {{end}}
  {{end}}

  ## Around it
  {{.RepoContext}}

  {{if .CustomInstructions}}
  {{.CustomInstructions}}
  {{end}}

context_requirements:
  - repo_structure
  - relevant_files
  - related_tasks
"""
"""A role as Coven has them: a template, and neither instructions nor a model."""

SHIPPED = load_roles([find_resource("roles")])
PAGE = """\
---
name: Poet
description: Writes verse.
llm_model: m
permissions: [read_files]
---

Rhyme.

---
Always.
"""


def role(name: str, **attributes: object) -> dict[str, object]:
    return {"name": name, "description": "d", "instructions": "i", "llm_model": "m", **attributes}


def put(folder: Path, **files: object) -> Path:
    """A directory with these files: values by stem (as YAML), or texts by file name."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        text = content if isinstance(content, str) else dump_yaml(content)  # type: ignore[arg-type]
        (folder / (name if "." in name else f"{name}.yaml")).write_text(text, "utf-8", newline="")
    return folder


def load(tmp_path: Path, *layers: Mapping[str, object]) -> Roles:
    """The roles of several directories, each with these files, the strongest last."""
    return load_roles([put(tmp_path / str(number), **files) for number, files in enumerate(layers)])


def only_problem(roles: Roles) -> RoleProblem:
    (problem,) = roles.problems
    return problem


class TestMarkdown:
    def test_the_text_below_the_fields_is_the_instructions(self, tmp_path: Path) -> None:
        roles = load(tmp_path, {"p.md": PAGE})
        assert roles.problems == []
        found = roles.get("Poet")
        assert found.instructions == "Rhyme.\n\n---\nAlways.\n"
        assert found.permissions.list_names() == ["read_files"]
        assert roles.by_name["Poet"].origins["instructions"].line == 8

    def test_it_is_the_template_where_the_fields_hold_the_instructions(self, tmp_path: Path) -> None:
        text = PAGE.replace("llm_model: m", "llm_model: m\ninstructions: Be brief.")
        found = load(tmp_path, {"p.md": text}).get("Poet")
        assert found.instructions == "Be brief."
        assert found.prompt_template == "Rhyme.\n\n---\nAlways.\n"

    @pytest.mark.parametrize("change", ["windows", "mark", "blanks", "suffix"])
    def test_ways_to_write_the_same(self, change: str, tmp_path: Path) -> None:
        text = {
            "windows": PAGE.replace("\n", "\r\n"),
            "mark": "\ufeff" + PAGE,
            "blanks": PAGE.replace("---\n", "---  \n", 2) + "\n \n\n",
            "suffix": PAGE,
        }[change]
        name = "p.MARKDOWN" if change == "suffix" else "p.md"
        assert load(tmp_path, {name: text}).get("Poet").instructions == "Rhyme.\n\n---\nAlways.\n"

    @pytest.mark.parametrize("text", ["# Notes\n\n---\nname: x\n", "", "--\nname: x\n---\n", " ---\n"])
    def test_a_page_without_front_matter_is_no_role(self, text: str, tmp_path: Path) -> None:
        assert load(tmp_path, {"README.md": text}) == Roles({}, [], {})

    def test_unless_it_is_named(self, tmp_path: Path) -> None:
        file = put(tmp_path / "r", **{"README.md": "# Notes\n"}) / "README.md"
        problem = only_problem(load_roles([file]))
        assert (problem.message, problem.where) == ("missing front matter", f"{file}:1")

    @pytest.mark.parametrize(
        ("text", "place", "message"),
        [
            ("---\nname: Poet\n", ":1", "the front matter is not closed"),
            (PAGE.replace("llm_model: m\n", ""), ":2", "`llm_model` is missing"),
            (PAGE.replace("llm_model: m", "llm_model: 5"), ":4", "`llm_model` must be text, not 5"),
            (PAGE.replace("llm_model: m", "llm_model: [m"), ":5:12", "invalid YAML"),
            (PAGE.replace("name: Poet", "name: !x Poet"), ":2:7", "tags"),
            (PAGE.partition("\n\n")[0] + "\n", ":2", "`instructions` is missing"),
            (PAGE.replace("name:", "prompt_template: a\ninstructions: b\nname:"), ":10", "duplicate"),
            ("---\n- name: x\n---\n", ":2", "must be a mapping"),
            ("---\ndescription: d\nllm_model: m\n---\nText.\n", ":2", "`name` is missing"),
            ("---\n" + "x" * MAX_BYTES, "", "must not be larger than"),
        ],
    )
    def test_what_is_refused(self, text: str, place: str, message: str, tmp_path: Path) -> None:
        roles = load(tmp_path, {"p.md": text})
        problem = only_problem(roles)
        assert message in problem.message
        assert problem.where.startswith(f"{tmp_path / '0' / 'p.md'}{place}")
        assert not roles.by_name

    def test_bytes_that_are_no_text(self, tmp_path: Path) -> None:
        (tmp_path / "p.md").write_bytes(b"---\nname: \xff\n---\n")
        problem = only_problem(load_roles([tmp_path]))
        assert (problem.message, problem.where) == ("not valid UTF-8", f"{tmp_path / 'p.md'}:2")


class TestTemplate:
    def test_c7_a_role_with_a_template_needs_neither_instructions_nor_a_model(self, tmp_path: Path) -> None:
        roles = load_roles([find_resource("roles"), put(tmp_path, builder=BUILDER)])
        assert roles.problems == []
        assert roles.find_for_task_type("feature") == "builder"
        found = roles.by_name["builder"]
        assert (found.role.instructions, found.role.llm_model) == ("", roles.get("Worker").llm_model)
        assert found.role.permissions == EVERYTHING
        assert found.role.context_requirements == ("repo_structure", "relevant_files", "related_tasks")
        assert found.role.prompt_template is not None
        assert found.role.prompt_template.startswith("You are building something.\n\n## What\n{{.Title}}\n")
        model = found.origins["llm_model"]
        assert (model.kind, model.role) == ("fallback", "Worker")
        assert str(model.path).endswith("Worker.yaml")

    def test_the_model_is_that_of_the_strongest_worker_that_names_one(self, tmp_path: Path) -> None:
        worker = {"name": "Worker", "base": "Worker", "description": "mine"}
        roles = load(tmp_path, {"w": role("Worker", llm_model="a")}, {"w": worker, "b": BUILDER})
        assert roles.get("builder").llm_model == "a"
        roles = load(tmp_path, {"w": role("Worker", llm_model="a")}, {"w": {**worker, "llm_model": "b"}})
        assert roles.get("builder").llm_model == "b"

    def test_the_model_is_that_which_worker_has_in_the_end(self, tmp_path: Path) -> None:
        shipped = {"w": role("Worker", llm_model="a"), "p": role("Planner", llm_model="p")}
        over = {"w": {"name": "Worker", "base": "Planner"}, "b": BUILDER}
        found = load(tmp_path, shipped, over).by_name["builder"]
        assert (found.role.llm_model, found.origins["llm_model"].role) == ("p", "Worker")
        assert found.origins["llm_model"].path == str(tmp_path / "0" / "p.yaml")

    def test_a_worker_that_is_refused_decides_nothing(self, tmp_path: Path) -> None:
        broken = {"w": {"name": "Worker", "llm_model": "x"}, "b": BUILDER}
        roles = load(tmp_path, {"w": role("Worker", llm_model="a")}, broken)
        assert set(roles.broken) == {"Worker"}
        assert roles.get("builder").llm_model == "a"

    def test_without_any_worker_the_model_is_missing(self, tmp_path: Path) -> None:
        assert only_problem(load(tmp_path, {"b": BUILDER})).message == "`llm_model` is missing"

    @pytest.mark.parametrize("lacks", ["name", "description"])
    def test_name_and_description_must_be_there_all_the_same(self, lacks: str, tmp_path: Path) -> None:
        text = "".join(line for line in BUILDER.splitlines(True) if not line.startswith(f"{lacks}:"))
        roles = load(tmp_path, {"b": text, "w": role("Worker")})
        assert only_problem(roles).message == f"`{lacks}` is missing"

    @pytest.mark.parametrize(
        ("line", "broken", "message"),
        [
            (11, "{{if .Description", "`{{` is not closed"),
            (11, "{{if}}", "`if` needs a path"),
            (9, "{{.Title | upper}}", "is neither a path nor a known keyword"),
            (9, "{{template x}}", "`template` is not supported"),
        ],
    )
    def test_c39_a_broken_one_is_refused_with_its_line_and_the_others_load(
        self, line: int, broken: str, message: str, tmp_path: Path
    ) -> None:
        lines = BUILDER.splitlines()
        lines[line - 1] = f"  {broken}"
        roles = load(tmp_path, {"b": "\n".join(lines), "w": role("Worker")})
        errors = [problem for problem in roles.problems if problem.severity == "error"]
        assert list(roles.by_name) == ["Worker"]
        assert list(roles.broken) == ["builder"]
        assert "`prompt_template`" in errors[0].message
        if "not closed" not in message:
            assert message in errors[0].message
            assert errors[0].where == f"{tmp_path / '0' / 'b.yaml'}:{line}"
        with pytest.raises(InvalidFile, match="prompt_template"):
            roles.get("builder")

    @pytest.mark.parametrize(
        ("name", "text", "line", "inside"),
        [
            (
                "a.yaml",
                'name: a\ndescription: d\nprompt_template: "x\\n{{.Tilte}}"\n',
                3,
                " (line 2 of the template)",
            ),
            (
                "a.json",
                '{"name": "a", "description": "d",\n"prompt_template": "x\\n{{.Tilte}}"}',
                2,
                " (line 2 of the template)",
            ),
            ("a.md", "---\nname: a\ndescription: d\ninstructions: i\n---\n\nx\n{{.Tilte}}\n", 8, ""),
            ("a.yaml", "name: a\ndescription: d\nprompt_template: |\n  x\n  {{.Tilte}}\n", 5, ""),
        ],
    )
    def test_a_name_that_nothing_stands_for_is_a_warning(
        self, name: str, text: str, line: int, inside: str, tmp_path: Path
    ) -> None:
        roles = load(tmp_path, {"w": role("Worker")}, {name: text})
        message = f"`prompt_template`{inside}: unknown name `Tilte` in `{{{{.Tilte}}}}`"
        wanted = RoleProblem("warning", message, f"{tmp_path / '1' / name}:{line}", "did you mean `Title`?")
        assert roles.problems == [wanted]
        assert roles.get("a").prompt_template == "x\n{{.Tilte}}" + ("" if inside else "\n")

    @pytest.mark.parametrize(
        "known",
        [
            *("Title", "Prompt", "Description", "AcceptanceCriteria", "RepoContext", "CustomInstructions"),
            *("Type", "ID", "RelevantFiles", "PriorAttempts", "SessionContext", "RelatedTasks", "Tags"),
            *("title", "task_type", "input.x", "output.y", "steps.a.output"),
        ],
    )
    def test_c9_the_names_it_may_use(self, known: str, tmp_path: Path) -> None:
        assert load(tmp_path, {"a": role("a", prompt_template=f"{{{{.{known}}}}}")}).problems == []

    def test_a_template_as_long_as_a_file_may_be_is_done_with_quickly(self, tmp_path: Path) -> None:
        text = "{{if .Title}}" * 60_000
        problem = only_problem(load(tmp_path, {"a": role("a", prompt_template=text)}))
        assert "too long" in problem.message


class TestBase:
    """C39: what a role does not say is as in its base."""

    BASE = role(
        "fix", temperature=0.5, permissions=["read_files"], applicable_task_types=["bug"], color="red"
    )

    def test_what_is_not_said_is_inherited_but_for_the_name(self, tmp_path: Path) -> None:
        roles = load(tmp_path, {"fix": self.BASE, "x": {"name": "x", "base": "fix", "temperature": None}})
        assert roles.problems == []
        expected = {**roles.get("fix").model_dump(), "name": "x", "temperature": None}
        assert roles.get("x").model_dump() == expected
        assert roles.by_name["x"].base == "fix"

    def test_what_is_said_stands_in_its_place_whole(self, tmp_path: Path) -> None:
        own = {"name": "x", "base": "fix", "permissions": {"can_create_files": True}, "llm_model": "other"}
        found = load(tmp_path, {"fix": self.BASE, "x": own}).get("x")
        assert (found.permissions.list_names(), found.llm_model) == (["create_files"], "other")

    def test_where_each_field_comes_from(self, tmp_path: Path) -> None:
        roles = load(tmp_path, {"fix": self.BASE}, {"x": "name: x\nbase: fix\ncolor: blue\n"})
        path = str(tmp_path / "0" / "fix.yaml")
        found = roles.by_name["x"].origins
        assert set(found) == set(Role.model_fields)
        assert found["color"] == Origin("file", str(tmp_path / "1" / "x.yaml"), 3)
        assert found["instructions"] == Origin("base", path, 3, "fix")
        assert found["badge"] == Origin("default")
        assert roles.by_name["fix"].origins["color"].place.startswith(f"{path}:")

    @pytest.mark.parametrize("inside", [True, False])
    def test_delegates_are_inherited_from_wherever_they_stand(self, inside: bool, tmp_path: Path) -> None:
        said = {"can_delegate_to_roles": ["x"]}
        base = role("b", permissions={"can_read_files": True, **(said if inside else {})})
        roles = load(tmp_path, {"b": {**base, **({} if inside else said)}, "x": {"name": "x", "base": "b"}})
        assert roles.get("x").can_delegate_to_roles == ("x",)
        assert roles.get("x").permissions.list_names() == ["read_files"]

    def test_a_role_over_the_one_it_replaces(self, tmp_path: Path) -> None:
        own = {"name": "fix", "base": "fix", "description": "ours"}
        roles = load(tmp_path, {"fix": self.BASE}, {}, {"fix": own})
        assert (roles.get("fix").description, roles.get("fix").temperature) == ("ours", 0.5)
        assert roles.by_name["fix"].path == tmp_path / "2" / "fix.yaml"
        assert [one.path for one in roles.hidden] == [tmp_path / "0" / "fix.yaml"]

    @pytest.mark.parametrize("layers", [("b", "x"), ("x", "b")])
    def test_the_base_may_be_in_any_directory(self, layers: tuple[str, str], tmp_path: Path) -> None:
        files = {"b": role("b", description="base"), "x": {"name": "x", "base": "b"}}
        roles = load(tmp_path, *({name: files[name]} for name in layers))
        assert roles.get("x").description == "base"

    def test_of_several_bases_the_strongest_holds(self, tmp_path: Path) -> None:
        x = {"name": "x", "base": "b"}
        roles = load(
            tmp_path, {"b": role("b", description="weak"), "x": x}, {"b": role("b", description="strong")}
        )
        assert roles.get("x").description == "strong"

    def test_the_four_must_be_there_after_that(self, tmp_path: Path) -> None:
        roles = load(
            tmp_path, {"b": role("b"), "x": {"base": "b"}, "y": {"name": "y", "base": "b", "llm_model": None}}
        )
        said = {(problem.message, Path(problem.where).name) for problem in roles.problems}
        assert said == {("`name` is missing", "x.yaml:1"), ("`llm_model` is empty", "y.yaml:3")}

    @pytest.mark.parametrize(
        ("named", "message", "fix"),
        [
            ("Fix", "base `Fix` not found", "did you mean `fix`?"),
            ("x", "base `x` not found except this role itself", "known: fix, two"),
            ("twp", "base `twp` not found", "did you mean `two`?"),
            ("bax", "base `bax` not found", "known: fix, two"),
            ("bad", "the base `bad` is invalid: ", None),
            ("torn", "the base `torn` is invalid: ", None),
            ("", "`base` must be the name of a role", None),
            ("[a]", "`base` must be the name of a role", None),
            ("7", "`base` must be the name of a role", None),
        ],
    )
    def test_what_is_refused(self, named: str, message: str, fix: str | None, tmp_path: Path) -> None:
        files = {
            "bad": {"name": "bad", "description": "d"},
            "torn": "a: b: c",
            "fix": self.BASE,
            "two": {"name": "two", "base": "fix"},
            "x": f"name: x\nbase: {named}\n",
        }
        roles = load(tmp_path, files)
        (problem,) = (problem for problem in roles.problems if "x.yaml" in problem.where)
        assert (problem.severity, problem.where) == ("error", f"{tmp_path / '0' / 'x.yaml'}:2")
        assert problem.message.startswith(message)
        assert (problem.fix or "").startswith(fix or "")
        assert set(roles.by_name) == {"fix", "two"}
        with pytest.raises(InvalidFile, match="base"):
            roles.get("x")

    def test_agent_prompt_is_another_name_of_instructions(self, tmp_path: Path) -> None:
        text = "name: x\ndescription: d\nagentPrompt: Be kind.\nllm_model: m\n"
        roles = load(tmp_path, {"x": text, "y": text.replace("x", "y") + "instructions: Be fast.\n"})
        assert roles.get("x").instructions == "Be kind."
        assert roles.by_name["x"].origins["instructions"].line == 3
        problem = only_problem(roles)
        assert problem.message == "`agentPrompt` and `instructions` are the same field"
        assert problem.where.endswith("y.yaml:3")

    def test_two_that_name_each_other(self, tmp_path: Path) -> None:
        roles = load(tmp_path, {"a": {"name": "a", "base": "b"}, "b": {"name": "b", "base": "a"}})
        assert set(roles.broken) == {"a", "b"}
        assert {problem.message for problem in roles.problems} == {
            "the bases form a cycle: `a` -> `b` -> `a`",
            "the bases form a cycle: `b` -> `a` -> `b`",
        }

    def test_a_cycle_over_two_directories(self, tmp_path: Path) -> None:
        """The base of `x` is the strongest `fix`, which inherits from `x`."""
        roles = load(
            tmp_path, {"fix": self.BASE, "x": {"name": "x", "base": "fix"}}, {"fix": "name: fix\nbase: x\n"}
        )
        assert set(roles.broken) == {"fix", "x"}
        assert all("form a cycle" in problem.message for problem in roles.problems)

    def test_two_files_may_extend_the_same_role(self, tmp_path: Path) -> None:
        user = {"name": "fix", "base": "fix", "description": "the user's", "temperature": 0.5}
        project = {"name": "fix", "base": "fix", "description": "the project's"}
        roles = load(tmp_path, {"fix": self.BASE}, {"fix": user}, {"fix": project})
        assert roles.problems == []
        found = roles.get("fix")
        assert (found.description, found.temperature) == ("the project's", 0.5)
        assert found.instructions == self.BASE["instructions"]

    def test_a_chain_of_bases(self, tmp_path: Path) -> None:
        chain = {f"r{n}": {"name": f"r{n}", "base": f"r{n + 1}" if n < 20 else "b"} for n in range(21)}
        chain["r3"]["description"] = "third"
        roles = load(tmp_path, {"b": role("b"), **chain})
        (problem,) = roles.problems
        assert problem.message == "the chain of bases is longer than 20"
        assert set(roles.broken) == {"r0"}
        assert [roles.get(f"r{n}").description for n in (1, 3, 4)] == ["third", "third", "d"]
        origin = roles.by_name["r1"].origins["description"]
        assert (origin.kind, Path(str(origin.path)).name, origin.role) == ("base", "r3.yaml", "r3")

    def test_a_fault_far_up_is_named(self, tmp_path: Path) -> None:
        roles = load(
            tmp_path, {"a": "name: a\nbase: b\n", "b": "name: b\nbase: c\n", "c": "name: c\nbase: d\n"}
        )
        assert set(roles.broken) == {"a", "b", "c"}
        assert all(problem.message.endswith("base `d` not found") for problem in roles.problems)

    def test_in_a_file_of_several_roles(self, tmp_path: Path) -> None:
        text = {
            "a": {k: v for k, v in role("a").items() if k != "name"},
            "b": {"base": "a"},
            "c": {"base": "d"},
        }
        roles = load(tmp_path, {"x": text})
        assert roles.get("b").description == "d"
        assert only_problem(roles).message == "role `c`: base `d` not found"

    def test_template_of_the_base_and_instructions_of_its_own(self, tmp_path: Path) -> None:
        own = {"name": "x", "base": "builder", "instructions": "Slowly."}
        roles = load(tmp_path, {"w": role("Worker", llm_model="w"), "b": BUILDER, "x": own})
        found = roles.by_name["x"]
        assert found.role.instructions == "Slowly."
        assert found.role.prompt_template == roles.get("builder").prompt_template
        assert (found.role.llm_model, found.origins["llm_model"].kind) == ("w", "fallback")


class TestTaskTypes:
    """C10, C11: which role's file says that it does tasks of a type."""

    @pytest.mark.parametrize(
        ("task_type", "name"),
        [
            *(("feature", "implement"), ("task", "implement"), ("bug", "fix"), ("refactor", "refactor")),
            *(("test", "test"), ("Bug", "fix"), ("review", None), ("chore", None), ("", None)),
        ],
    )
    def test_c10_the_shipped_ones(self, task_type: str, name: str | None) -> None:
        assert SHIPPED.find_for_task_type(task_type) == name

    def test_the_stronger_directory_comes_first(self, tmp_path: Path) -> None:
        of_bugs = {"applicable_task_types": ["bug"]}
        roles = load(tmp_path, {"a": role("a", **of_bugs)}, {"b": role("b", **of_bugs)}, {"c": role("c")})
        assert roles.find_for_task_type("bug") == "b"
        assert roles.problems == []

    def test_what_is_only_inherited_takes_nothing_from_the_base(self, tmp_path: Path) -> None:
        roles = load(tmp_path, {"fix": TestBase.BASE}, {"x": {"name": "x", "base": "fix"}})
        assert roles.get("x").applicable_task_types == ("bug",)
        assert roles.find_for_task_type("bug") == "fix"
        roles = load(tmp_path, {}, {"x": {"name": "x", "base": "fix", "applicable_task_types": ["bug"]}})
        assert roles.find_for_task_type("bug") == "x"

    def test_but_one_over_the_role_it_replaces_does_its_tasks(self, tmp_path: Path) -> None:
        roles = load(tmp_path, {"fix": TestBase.BASE}, {"fix": {"name": "fix", "base": "fix"}})
        assert roles.find_for_task_type("bug") == "fix"

    def test_of_two_in_one_directory_the_first_name_and_a_warning(self, tmp_path: Path) -> None:
        files = {name: role(name, applicable_task_types=["Bug"]) for name in ("b", "a")}
        roles = load(tmp_path, files)
        assert roles.find_for_task_type("bug") == "a"
        problem = only_problem(roles)
        message = "`a` and `b` both apply to tasks of type `bug`; `a` is used"
        assert (problem.severity, problem.message) == ("warning", message)
        assert problem.fix == "choose one in the config: roles.type_mapping.bug"

    def test_c10_review_is_never_among_them(self, tmp_path: Path) -> None:
        roles = load(tmp_path, {"r": role("review", applicable_task_types=["review"])})
        assert roles.find_for_task_type("review") is None
        assert only_problem(roles).message == "the role `review` is never chosen by task type"

    @pytest.mark.parametrize(
        ("key", "value", "message"),
        [
            ("applicable_task_types", "bug", "`applicable_task_types` must be a list"),
            ("applicable_task_types", ["bug", " "], "`applicable_task_types[1]` is empty"),
            ("applicable_task_types", [1], "`applicable_task_types[0]` must be text"),
            ("context_requirements", ["repo"], "`context_requirements[0]` must be one of"),
            ("context_requirements", "repo_structure", "`context_requirements` must be a list"),
            ("prompt_template", ["x"], "`prompt_template` must be text"),
        ],
    )
    def test_what_is_refused(self, key: str, value: object, message: str, tmp_path: Path) -> None:
        assert only_problem(load(tmp_path, {"a": role("a", **{key: value})})).message.startswith(message)

    def test_custom_instructions_are_for_every_role(self, tmp_path: Path) -> None:
        wanted = ["custom_instructions", "repo_structure"]
        found = load(tmp_path, {"a": role("a", context_requirements=wanted)}).get("a")
        assert found.context_requirements == ("repo_structure",)


def test_near_names_are_looked_for_only_so_often(tmp_path: Path) -> None:
    many = {f"r{n}": {"base": "nobody"} for n in range(MOST_ADVICE + 10)}
    roles = load(tmp_path, {"fix": role("fix"), "x": {"roles": many}})
    assert [problem.fix for problem in roles.problems].count("known: fix") == MOST_ADVICE
    assert len(roles.problems) == len(many)


class TestEveryError:
    """Of one role all that is wrong is told at once, each with its line."""

    def test_the_fields_and_the_template(self, tmp_path: Path) -> None:
        text = """\
name: x
llm_model: ''
temperature: 3
permissions: [fly]
badge: long
color: pink
applicable_task_types: [bug, " "]
prompt_template: |
  {{.Title}}
  {{.Titel}}
colour: red
"""
        roles = load(tmp_path, {"x": text})
        told = [
            (p.severity, int(p.where.rpartition(":")[2]), p.message.split("`")[1]) for p in roles.problems
        ]
        assert sorted(told) == sorted(
            [
                *(("error", 1, "description"), ("error", 2, "llm_model"), ("error", 3, "temperature")),
                *(("error", 4, "permissions[0]"), ("error", 5, "badge"), ("error", 6, "color")),
                ("error", 7, "applicable_task_types[1]"),
                *(("warning", 10, "prompt_template"), ("warning", 11, "colour")),
            ]
        )
        assert roles.broken["x"].message == roles.problems[0].message

    def test_beside_a_base_that_can_not_be_had(self, tmp_path: Path) -> None:
        roles = load(tmp_path, {"x": {"name": "x", "base": "nobody", "color": "pink", "badge": "long"}})
        assert [p.message.split(" ")[0] for p in roles.problems] == ["base", "`color`", "`badge`"]
        assert roles.broken["x"].message == roles.problems[0].message


def test_a_process_reads_a_shipped_file_once_and_again_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = put(tmp_path / "shipped", a=role("a"))
    monkeypatch.setattr("logist.roles.files.find_resource", lambda name: folder)
    read: list[Path] = []

    def reading(path: Path) -> Document:
        read.append(path)
        return document(path)

    monkeypatch.setattr("logist.roles.files.read_document", reading)
    for _ in range(3):
        assert load_roles([folder]).get("a").description == role("a")["description"]
    assert read == [folder / "a.yaml"]
    put(folder, a=role("a", description="another one"))
    assert load_roles([folder]).get("a").description == "another one"


def test_a_role_made_by_hand_has_no_origins() -> None:
    made = LoadedRole(Role.model_validate(role("a", applicable_task_types=("x",))), Path("a"))
    assert made.has_own_task_types
    assert Roles({"a": made}, [], {}).find_for_task_type("X") == "a"


def test_a_single_file_may_be_named(tmp_path: Path) -> None:
    folder = put(tmp_path / "r", a=role("a"), b=role("b"), **{"c.txt": "x", "d.json": json.dumps(role("d"))})
    assert set(load_roles([folder / "a.yaml", folder / "d.json"]).by_name) == {"a", "d"}
    assert only_problem(load_roles([folder / "c.txt"])).message == "not a role file"
    with pytest.raises(UsageError):
        load_roles([folder / "none.yaml"]).get("a")


FRAGMENTS = st.sampled_from(
    [
        *("---\n", "name: a\n", "description: d\n", "llm_model: m\n", "base: a\n", "base: b\n", "roles:\n"),
        *("  x:\n", "    base: x\n", "prompt_template: |\n", "  {{if .Title}}\n", "  {{end}}\n", "{{", "}}"),
        *(
            '{"name": "a"',
            "}",
            "[",
            "*x",
            "&x",
            "!!",
            "\x00",
            "\ufeff",
            "\r",
            "permissions: [",
            "- read_files\n",
        ),
        *("applicable_task_types: [bug]\n", "context_requirements:\n", "~", "\n\n", "'", '"', ": "),
    ]
)


@settings(max_examples=examples(120), deadline=None)
@given(
    st.lists(FRAGMENTS, max_size=14).map(lambda parts: "".join(parts).encode()) | st.binary(max_size=60),
    st.sampled_from(["a.yaml", "a.json", "a.md"]),
)
def test_whatever_a_file_holds_it_is_a_role_or_a_problem(content: bytes, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, name).write_bytes(content)
        roles = load_roles([Path(folder)])
    assert all(problem.where.startswith(folder) and problem.message for problem in roles.problems)
    assert set(roles.broken).isdisjoint(roles.by_name)
    assert roles.by_name or roles.broken or name == "a.md" or b"roles" in content
