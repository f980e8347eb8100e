"""Role files: what is a role, which one holds, and that a broken one stops no other."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from logist.config.environment import Environment
from logist.config.settings import Settings, resolve_model
from logist.core.model import EVERYTHING, Permission, Permissions, Role
from logist.documents import dump_yaml
from logist.errors import InvalidFile, UsageError
from logist.jobs.base.project_opening import load_known_roles
from logist.resources import find_resource
from logist.roles import RoleProblem, Roles, load_roles, role_hash
from logist.roles.loading import read_roles_on_use

ATTRIBUTES = ("name", "description", "instructions", "llm_model")


ALL = ["read_files", "write_files", "delete_files", "execute_commands", "create_files"]
SHIPPED: list[tuple[str, list[str], list[str], str, str | None]] = [
    ("Worker", ALL, [], "", None),
    ("Supervisor", ["read_files", "execute_commands"], [], "", None),
    ("Planner", ["read_files"], [], "🔍", "blue"),
    ("Actor", ALL, [], "⚡", "green"),
    ("Commander", ["read_files"], ["Planner", "Actor"], "🧭", "magenta"),
    ("Designer", ["read_files", "create_files"], [], "🎨", "cyan"),
    ("Reviewer", ["read_files"], [], "👀", "yellow"),
    ("Tester", ["read_files", "execute_commands"], [], "🧪", "red"),
    ("implement", ALL, [], "", None),
    ("fix", ALL, [], "", None),
    ("refactor", ALL, [], "", None),
    ("test", ALL, [], "", None),
    ("review", ["read_files", "execute_commands"], [], "", None),
]
"""Name, permissions, delegates, badge, colour."""

QUESTION = ["`type`", "`question`", "`options`", "`label`", "`value`", "`severity`", "`default`"]
PROMPTS = {
    "Planner": [
        *("`goal`", "`steps`", "`step_number`", "`action`", "`reason`", "`tools_needed`", "`risks`"),
        *("You may only read.", "Be thorough", "When to ask"),
        *("the exit command's `output`", "`logist job role JOB Actor`", *QUESTION),
    ],
    "Actor": ["read, write, create and delete files", "approved plan", "Ask first:", "Proceed", *QUESTION],
    "Commander": ["Planner", "Actor", "`assignments`", "change nothing"],
    "Designer": ["create new files", "`created`", "`changes_needed`"],
    "Reviewer": ["`output`", "`verdict`", "`findings`", "`severity`", "You may only read"],
    "Tester": ["execute commands", "`commands`", "`failures`", "leave code and tests as they are"],
}
"""What each prompt has to say; a role of this list says first what it is."""


def role(name: str = "Tester", **attributes: object) -> dict[str, object]:
    return {"name": name, "description": "d", "instructions": "i", "llm_model": "m", **attributes}


def loaded(directory: Path, **files: object) -> Roles:
    """The roles of a directory with these files: values by stem (as YAML), or texts by file name."""
    directory.mkdir(exist_ok=True)
    for name, content in files.items():
        text = content if isinstance(content, str) else dump_yaml(content)  # type: ignore[arg-type]
        (directory / (name if "." in name else f"{name}.yaml")).write_text(text, "utf-8")
    return load_roles([directory])


def errors(roles: Roles) -> list[RoleProblem]:
    return [problem for problem in roles.problems if problem.severity == "error"]


class TestOutputSchema:
    def test_p52_four_shipped_roles_have_one(self) -> None:
        roles = load_roles([find_resource("roles")])
        having = {name for name, each in roles.by_name.items() if each.role.output_schema}
        assert having == {"Planner", "Commander", "Reviewer", "Tester"}

    def test_it_is_a_schema_or_the_name_of_a_shipped_one_and_is_inherited(self, tmp_path: Path) -> None:
        wanted = {"type": "object", "required": ["a"]}
        roles = loaded(
            tmp_path / "r",
            own=role("own", output_schema=wanted),
            named=role("named", output_schema="plan"),
            heir={"name": "heir", "base": "own"},
            free={"name": "free", "base": "own", "output_schema": None},
        )
        assert errors(roles) == []
        assert roles.get("own").output_schema == roles.get("heir").output_schema == wanted
        assert roles.get("free").output_schema is None
        assert (roles.get("named").output_schema or {})["title"] == "A plan"

    @pytest.mark.parametrize(
        ("wanted", "said"),
        [
            ("nope", "expected a schema or one of plan, assignments, feedback, test-report"),
            ({"$ref": "x.json"}, "uses `$ref`, which is not supported"),
            ({"type": 7}, "is not a valid JSON Schema"),
        ],
    )
    def test_one_that_can_not_be_used_is_an_error_with_its_line(
        self, tmp_path: Path, wanted: object, said: str
    ) -> None:
        (problem,) = errors(loaded(tmp_path / "r", own=role("own", output_schema=wanted)))
        assert said in problem.message
        assert problem.where.endswith("own.yaml:5")

    def test_the_hash_of_a_role_without_one_is_as_before(self) -> None:
        plain = Role(name="r", description="d", instructions="i", llm_model="m")
        assert (
            role_hash(plain)
            == hashlib.sha256(
                b'{"description":"d","instructions":"i","llm_model":"m","name":"r"}'
            ).hexdigest()
        )


class TestShipped:
    roles = load_roles([find_resource("roles")])

    def test_they_load_without_a_problem(self) -> None:
        assert not self.roles.problems
        assert not self.roles.broken

    @pytest.mark.parametrize(
        ("name", "model"), [("Worker", "grok-code-fast-1"), ("Supervisor", "gemini-2.5-flash")]
    )
    def test_worker_and_supervisor(self, name: str, model: str) -> None:
        assert self.roles.get(name).llm_model == model

    @pytest.mark.parametrize("name", sorted(roles.by_name))
    def test_each_has_a_model_with_a_price_and_says_how_to_end(self, name: str) -> None:
        found = self.roles.get(name)
        assert resolve_model(Settings(), found.llm_model).input_price is not None
        for action in ("COMPLETED", "RETRY", "STUCK"):
            assert f"- {action}:" in found.instructions

    @pytest.mark.parametrize(("name", "permissions", "delegates", "badge", "color"), SHIPPED)
    def test_p14_to_p21_what_each_may_do(
        self, name: str, permissions: list[str], delegates: list[str], badge: str, color: str | None
    ) -> None:
        found = self.roles.get(name)
        assert found.permissions.list_names() == permissions
        assert list(found.can_delegate_to_roles) == delegates
        assert (found.badge, found.color) == (badge, color)
        assert found.network is False

    def test_no_role_is_left_out_of_the_table(self) -> None:
        assert {name for name, *_ in SHIPPED} == set(self.roles.by_name)
        badges = [found.role.badge for found in self.roles.by_name.values() if found.role.badge]
        assert len(set(badges)) == len(badges) == 6

    @pytest.mark.parametrize(("name", "phrases"), PROMPTS.items())
    def test_p30_p31_what_each_prompt_says(self, name: str, phrases: list[str]) -> None:
        text = " ".join(self.roles.get(name).instructions.split())
        assert text.startswith(f"You work in the {name.upper()} role.")
        assert [phrase for phrase in phrases if phrase not in text] == []

    def test_p22_no_two_prompts_say_the_same(self) -> None:
        prompts = [found.role.instructions for found in self.roles.by_name.values()]
        assert len(set(prompts)) == len(prompts)
        assert sum("You work in the " in prompt for prompt in prompts) == len(PROMPTS)

    def test_the_contract_is_not_repeated(self) -> None:
        for name in self.roles.by_name:
            for key in ("evidence_files", "summary_for_supervisor", '"action"'):
                assert key not in self.roles.get(name).instructions

    def test_none_looks_for_a_history_that_a_workspace_does_not_have(self) -> None:
        words = ("git log", "git blame", "git diff", "commit")
        assert not [
            (name, word)
            for name, found in self.roles.by_name.items()
            for word in words
            if word in found.role.instructions
        ]

    def test_the_defaults_are_there(self) -> None:
        assert {Settings().roles.default, Settings().review.role} <= set(self.roles.by_name)


class TestOneFile:
    def test_its_attributes_and_its_path(self, tmp_path: Path) -> None:
        text = "Line one.\n\n  Line two, {{as it is}}.\n"
        found = loaded(tmp_path / "r", a=role(instructions=text, temperature=0.5, max_output_tokens=9))
        assert found.get("Tester") == Role(
            name="Tester",
            description="d",
            instructions=text,
            llm_model="m",
            temperature=0.5,
            max_output_tokens=9,
        )
        assert found.by_name["Tester"].path == tmp_path / "r" / "a.yaml"
        assert found.problems == []

    @pytest.mark.parametrize("name", ["a.yaml", "a.yml", "a.json", "a.YAML"])
    def test_the_suffixes_that_count(self, name: str, tmp_path: Path) -> None:
        assert set(loaded(tmp_path, **{name: json.dumps(role())}).by_name) == {"Tester"}

    @pytest.mark.parametrize("name", ["a.txt", "a.yaml~", ".a.yaml", "README.md", ".a.md", "yaml."])
    def test_the_files_that_do_not(self, name: str, tmp_path: Path) -> None:
        assert loaded(tmp_path, **{name: "a: b: c"}) == Roles({}, [], {})

    def test_a_directory_is_no_role(self, tmp_path: Path) -> None:
        (tmp_path / "a.yaml").mkdir()
        assert load_roles([tmp_path]) == Roles({}, [], {})

    @pytest.mark.parametrize("attribute", ATTRIBUTES)
    def test_each_attribute_is_mandatory(self, attribute: str, tmp_path: Path) -> None:
        data = {key: value for key, value in role().items() if key != attribute}
        found = loaded(tmp_path, Tester=data)
        wanted = f"`{attribute}` is missing"
        assert found.problems == [RoleProblem("error", wanted, f"{tmp_path / 'Tester.yaml'}:1")]
        with pytest.raises(InvalidFile, match=wanted) as caught:
            found.get("Tester")
        assert caught.value.where == f"{tmp_path / 'Tester.yaml'}:1"

    @pytest.mark.parametrize("attribute", ATTRIBUTES)
    @pytest.mark.parametrize("empty", ["", "''", "' '", '"\\n"', "~"])
    def test_none_of_them_may_be_empty(self, attribute: str, empty: str, tmp_path: Path) -> None:
        lines = [f"{key}: {empty if key == attribute else value}" for key, value in role().items()]
        found = loaded(tmp_path, Tester="\n".join(lines))
        place = f"{tmp_path / 'Tester.yaml'}:{ATTRIBUTES.index(attribute) + 1}"
        assert found.problems == [RoleProblem("error", f"`{attribute}` is empty", place)]
        assert not found.by_name

    @pytest.mark.parametrize(
        ("text", "place", "message"),
        [
            ("name: [x]\ndescription: d\ninstructions: i\nllm_model: m", ":1", "`name` must be text"),
            ("name: 5\ndescription: d\ninstructions: i\nllm_model: m", ":1", "`name` must be text, not 5"),
            ("llm_model: {a: b}\nname: n\ndescription: d\ninstructions: i", ":1", "`llm_model` must be text"),
            (
                "name: n\ndescription: d\ninstructions: i\nllm_model: m\ntemperature: 3",
                ":5",
                "`temperature` must",
            ),
            (
                "name: n\ndescription: d\ninstructions: i\nllm_model: m\nmax_output_tokens: 0",
                ":5",
                "`max_out",
            ),
            ('name: "a\\nb"\ndescription: d\ninstructions: i\nllm_model: m', ":1", "`name` must be one line"),
            ('name: " a"\ndescription: d\ninstructions: i\nllm_model: m', ":1", "`name` must be one line"),
            ("name: n\nname: n", ":2:1", "duplicate key `name`"),
            ("name: !!python/object:os.system n", ":1:7", "tags"),
            ("a: b: c", ":1:5", "invalid YAML"),
            ("- name: n", ":1", "must be a mapping"),
            ("# nothing", ":1", "`name` is missing"),
        ],
    )
    def test_what_is_refused(self, text: str, place: str, message: str, tmp_path: Path) -> None:
        found = loaded(tmp_path, x=text)
        assert not found.by_name
        assert {problem.where for problem in found.problems} == {f"{tmp_path / 'x.yaml'}{place}"}
        assert message in found.problems[0].message

    def test_an_unknown_key_is_only_a_warning(self, tmp_path: Path) -> None:
        later = role(prompt_templates="{{task}}", temprature=1)
        found = loaded(tmp_path, x=later)
        assert found.get("Tester") == Role(name="Tester", description="d", instructions="i", llm_model="m")
        ignored = "has no effect"
        path = tmp_path / "x.yaml"
        assert found.problems == [
            RoleProblem(
                "warning",
                f"unknown field `prompt_templates` {ignored}",
                f"{path}:5",
                "did you mean `prompt_template`?",
            ),
            RoleProblem(
                "warning", f"unknown field `temprature` {ignored}", f"{path}:6", "did you mean `temperature`?"
            ),
        ]

    def test_but_not_one_that_was_to_narrow_the_rights(self, tmp_path: Path) -> None:
        found = loaded(tmp_path, x=role(permissons=["read_files"]))
        assert not found.by_name
        (problem,) = found.problems
        assert (problem.severity, problem.where) == ("error", f"{tmp_path / 'x.yaml'}:5")
        assert problem.message.endswith("so the role would have all permissions")
        assert problem.fix == "did you mean `permissions`?"


class TestPermissions:
    """P11: what a role may do, and who may do it for it."""

    @pytest.mark.parametrize(
        ("written", "names"),
        [
            ("{can_read_files: true}", ["read_files"]),
            ("{can_read_files: true, can_write_files: false}", ["read_files"]),
            ("{}", []),
            ("[]", []),
            ("[read_files, create_files]", ["read_files", "create_files"]),
            ("[can_execute_commands, read_files]", ["read_files", "execute_commands"]),
            ("[read_files, read_files]", ["read_files"]),
        ],
    )
    def test_as_a_mapping_or_as_a_list(self, written: str, names: list[str], tmp_path: Path) -> None:
        found = loaded(tmp_path, x=f"{dump_yaml(role())}permissions: {written}\n")
        assert found.problems == []
        assert found.get("Tester").permissions.list_names() == names

    def test_p6_p47_a_role_that_says_nothing_may_do_everything(self, tmp_path: Path) -> None:
        found = loaded(tmp_path, x=role()).get("Tester")
        assert found.permissions == EVERYTHING
        assert found.permissions.list_names() == [permission.value for permission in Permission]

    @pytest.mark.parametrize(
        ("written", "line", "message", "fix"),
        [
            (
                "\n  can_read_files: true\n  can_writ_files: true",
                7,
                "unknown key `permissions.can_writ_files`",
                "did you mean `can_write_files`, `can_create_files` or `can_read_files`?",
            ),
            ("\n  can_read_files: yes please", 6, "`permissions.can_read_files` must be true or false", None),
            ("\n  can_read_files: 1", 6, "`permissions.can_read_files` must be true or false, not 1", None),
            ("\n- read_files\n- fly", 7, "`permissions[1]` must be one of read_files, write_files", None),
            ("\n- read_files\n- 7", 7, "`permissions[1]` must be one of", None),
            (" all", 5, "`permissions` must be a mapping to true or false, or a list of names", None),
            ("", 5, "`permissions` must be a mapping to true or false, or a list of names", None),
            ("\n  can_delegate_to_roles: Actor", 6, "`can_delegate_to_roles` must be a list", None),
            (
                "\n  can_delegate_to_roles: []\ncan_delegate_to_roles: []",
                6,
                "duplicate `can_delegate_to_roles`: outside and inside `permissions`",
                None,
            ),
        ],
    )
    def test_what_is_refused(
        self, written: str, line: int, message: str, fix: str | None, tmp_path: Path
    ) -> None:
        found = loaded(tmp_path, x=f"{dump_yaml(role())}permissions:{written}\n")
        assert not found.by_name
        (problem,) = found.problems
        assert (problem.severity, problem.where) == ("error", f"{tmp_path / 'x.yaml'}:{line}")
        assert message in problem.message
        assert problem.fix == fix

    @pytest.mark.parametrize("inside", [True, False])
    def test_p18_who_it_may_give_work_to_stands_in_it_or_beside_it(
        self, inside: bool, tmp_path: Path
    ) -> None:
        delegates = {"can_delegate_to_roles": ["Tester", "Nobody"]}
        permissions = {"can_read_files": True, **(delegates if inside else {})}
        found = loaded(tmp_path, x={**role(permissions=permissions), **({} if inside else delegates)})
        assert found.get("Tester").can_delegate_to_roles == ("Tester", "Nobody")
        assert found.get("Tester").permissions.list_names() == ["read_files"]
        message = "role `Tester` may delegate to the unknown role `Nobody`"
        assert [(one.severity, one.message) for one in found.problems] == [("warning", message)]

    def test_in_a_file_of_several_roles(self, tmp_path: Path) -> None:
        text = "A: {description: d, instructions: i, llm_model: m, permissions: [fly]}\n"
        (problem,) = loaded(tmp_path, x=text).problems
        assert problem.message.startswith("role `A`: `permissions[0]` must be one of")

    @pytest.mark.parametrize("badge", ["🔍", "⚡", "QA", ""])
    @pytest.mark.parametrize("color", ["blue", "white"])
    def test_badge_and_color(self, badge: str, color: str, tmp_path: Path) -> None:
        found = loaded(tmp_path, x=role(badge=badge, color=color)).get("Tester")
        assert (found.badge, found.color) == (badge, color)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"badge": "long"},
            {"badge": " x"},
            {"badge": "a\n"},
            {"badge": "⚙\ufe0f"},
            {"badge": "\x1b["},
            {"color": "pink"},
            {"color": "red bold"},
            {"network": "yes"},
            {"agent": 7},
        ],
    )
    def test_what_listings_could_not_show(self, wrong: dict[str, object], tmp_path: Path) -> None:
        found = loaded(tmp_path, x={**role(), **wrong})
        assert not found.by_name
        assert f"`{next(iter(wrong))}` must be" in found.problems[0].message
        assert found.problems[0].where == f"{tmp_path / 'x.yaml'}:5"

    @pytest.mark.parametrize("name", ["agent", "color", "badge", "network"])
    def test_a_role_may_have_the_name_of_an_attribute(self, name: str, tmp_path: Path) -> None:
        text = f"{name}: {{description: d, instructions: i, llm_model: m}}\n"
        assert set(loaded(tmp_path, x=text).by_name) == {name}


class TestManyInOne:
    @pytest.mark.parametrize("under", [None, "roles"])
    @pytest.mark.parametrize("suffix", ["yaml", "json"])
    @pytest.mark.parametrize("named", [True, False])
    def test_like_one_file_each(self, under: str | None, suffix: str, named: bool, tmp_path: Path) -> None:
        roles = {name: role(name, description=f"of {name}") for name in ("Worker", "Supervisor")}
        if not named:
            roles = {name: {k: v for k, v in data.items() if k != "name"} for name, data in roles.items()}
        data = {under: roles} if under else roles
        text = dump_yaml(data) if suffix == "yaml" else json.dumps(data)
        found = loaded(tmp_path, **{f"all.{suffix}": text})
        assert found.problems == []
        assert {name: found.get(name).description for name in found.by_name} == {
            "Worker": "of Worker",
            "Supervisor": "of Supervisor",
        }

    @pytest.mark.parametrize("under", [None, "roles"])
    def test_one_that_is_broken_stops_no_other(self, under: str | None, tmp_path: Path) -> None:
        roles = {"Good": role("Good"), "Bad": {"description": "d", "instructions": "i"}, "Odd": "text"}
        found = loaded(tmp_path, x={under: roles} if under else roles)
        first = 6 if under is None else 7
        path = tmp_path / "x.yaml"
        assert list(found.by_name) == ["Good"]
        assert found.problems == [
            RoleProblem("error", "role `Bad`: `llm_model` is missing", f"{path}:{first}"),
            RoleProblem("error", "role `Odd`: must be a mapping of fields", f"{path}:{first + 3}"),
        ]
        for name in ("Bad", "Odd"):
            with pytest.raises(InvalidFile, match=f"role `{name}`"):
                found.get(name)

    def test_key_and_name_must_agree(self, tmp_path: Path) -> None:
        found = loaded(tmp_path, x={"Worker": role("Walker")})
        message = "role `Worker`: the key and the `name` differ: `Walker`"
        assert found.problems == [RoleProblem("error", message, f"{tmp_path / 'x.yaml'}:2")]
        with pytest.raises(InvalidFile, match="Walker"):
            found.get("Worker")

    def test_lines_and_warnings_are_those_of_the_role(self, tmp_path: Path) -> None:
        found = loaded(tmp_path, x={"roles": {"A": role("A"), "B": role("B", extra=1)}})
        message = "role `B`: unknown field `extra` has no effect"
        assert found.problems == [RoleProblem("warning", message, f"{tmp_path / 'x.yaml'}:12")]
        assert set(found.by_name) == {"A", "B"}


class TestSameName:
    @pytest.mark.parametrize("other", ["Worker", "worker", "WORKER"])
    def test_two_files_of_one_directory(self, other: str, tmp_path: Path) -> None:
        found = loaded(tmp_path, a=role("Worker"), b=role(other), c=role("Tester"))
        assert list(found.by_name) == ["Tester"]
        (problem,) = found.problems
        assert problem.severity == "error"
        assert str(tmp_path / "a.yaml") in problem.message
        assert str(tmp_path / "b.yaml") in problem.message
        for name in {"Worker", other}:
            with pytest.raises(InvalidFile, match=r"duplicate role .* in one directory"):
                found.get(name)

    def test_three_files(self, tmp_path: Path) -> None:
        found = loaded(tmp_path, a=role("Worker"), b=role("Worker"), c=role("Worker"))
        assert not found.by_name
        assert len(errors(found)) == 2

    def test_two_keys_of_one_file(self, tmp_path: Path) -> None:
        found = loaded(tmp_path, a={"Worker": role("Worker"), "worker": role("worker")})
        assert not found.by_name
        assert "duplicate role `Worker` and `worker`" in errors(found)[0].message

    def test_a_later_directory_wins(self, tmp_path: Path) -> None:
        for directory in ("shipped", "user", "project"):
            loaded(tmp_path / directory, x=role("Worker", description=directory), y=role(directory))
        found = load_roles([tmp_path / name for name in ("shipped", "user", "none", "project")])
        assert found.get("Worker").description == "project"
        assert found.by_name["Worker"].path == tmp_path / "project" / "x.yaml"
        assert set(found.by_name) == {"Worker", "shipped", "user", "project"}
        assert not found.problems

    def test_another_spelling_replaces_nothing_and_is_pointed_out(self, tmp_path: Path) -> None:
        loaded(tmp_path / "shipped", x=role("Worker"))
        loaded(tmp_path / "project", x=role("worker"))
        found = load_roles([tmp_path / "shipped", tmp_path / "project"])
        assert set(found.by_name) == {"Worker", "worker"}
        assert [(problem.severity, problem.fix) for problem in found.problems] == [
            ("warning", "rename it to `Worker` to override that role")
        ]

    def test_a_broken_file_hides_what_it_would_have_replaced(self, tmp_path: Path) -> None:
        loaded(
            tmp_path / "shipped", Worker=role("Worker"), Supervisor=role("Supervisor"), Tester=role("Tester")
        )
        loaded(
            tmp_path / "project",
            mine="name: Worker\nllm_model: [",
            Supervisor="a: b: c",
            **{"t.json": '{"name": "Tester", "description": "d",}'},
        )
        found = load_roles([tmp_path / "shipped", tmp_path / "project"])
        assert not found.by_name
        assert set(found.broken) == {"Worker", "Supervisor", "Tester"}

    def test_a_good_file_later_mends_a_broken_one(self, tmp_path: Path) -> None:
        loaded(tmp_path / "user", Worker="a: b: c")
        loaded(tmp_path / "project", x=role("Worker"))
        found = load_roles([tmp_path / "user", tmp_path / "project"])
        assert found.get("Worker").name == "Worker"
        assert len(errors(found)) == 1

    def test_a_broken_file_and_a_good_one_of_one_directory(self, tmp_path: Path) -> None:
        found = loaded(tmp_path, Worker="name: Worker\na: b: c", x=role("Worker"))
        assert not found.by_name
        with pytest.raises(InvalidFile, match="invalid YAML"):
            found.get("Worker")


class TestGet:
    def test_the_name_is_exact(self, tmp_path: Path) -> None:
        found = loaded(tmp_path, a=role("Worker"), b=role("Tester"))
        with pytest.raises(UsageError) as caught:
            found.get("worker")
        assert caught.value.message == "unknown role `worker`"
        assert caught.value.fix == "did you mean `Worker`? valid roles: Tester, Worker"

    def test_the_valid_names_are_listed(self, tmp_path: Path) -> None:
        found = loaded(tmp_path, a=role("Worker"), b=role("Tester"), c="name: Broken")
        with pytest.raises(UsageError) as caught:
            found.get("xyz")
        assert caught.value.fix == "valid roles: Tester, Worker"

    def test_there_may_be_none(self) -> None:
        with pytest.raises(UsageError, match="valid roles: none"):
            load_roles([]).get("Worker")


class TestStrangeFiles:
    def test_links_are_followed_but_only_to_files(self, tmp_path: Path) -> None:
        (tmp_path / "r").mkdir()
        (tmp_path / "outside").write_text(dump_yaml(role()), "utf-8")
        os.mkfifo(tmp_path / "pipe")
        for name, target in {
            "good": tmp_path / "outside",
            "pipe": tmp_path / "pipe",
            "zero": Path("/dev/zero"),
            "gone": tmp_path / "gone",
            "loop": tmp_path / "r" / "loop.yaml",
        }.items():
            (tmp_path / "r" / f"{name}.yaml").symlink_to(target)
        found = load_roles([tmp_path / "r"])
        assert list(found.by_name) == ["Tester"]
        assert {
            str(problem.where).removeprefix(f"{tmp_path}/r/"): problem.message for problem in found.problems
        } == {
            "gone.yaml": "can't read the file: No such file or directory",
            "loop.yaml": "can't read the file: Too many levels of symbolic links",
            "pipe.yaml": "not a regular file",
            "zero.yaml": "not a regular file",
        }

    def test_a_file_that_is_too_large(self, tmp_path: Path) -> None:
        found = loaded(tmp_path, Big=role("Big", instructions="x" * (1024 * 1024)), ok=role())
        assert list(found.by_name) == ["Tester"]
        with pytest.raises(InvalidFile, match="larger than"):
            found.get("Big")

    def test_bytes_that_are_no_text(self, tmp_path: Path) -> None:
        (tmp_path / "Bin.yaml").write_bytes(b"name: \xff\xfe")
        assert load_roles([tmp_path]).problems[0].message == "not valid UTF-8"


class TestHash:
    def test_it_is_of_the_role_not_of_its_file(self, tmp_path: Path) -> None:
        one = loaded(tmp_path / "one", a=role())
        two = loaded(
            tmp_path / "two", **{"b.json": json.dumps(dict(reversed(role(temperature=None).items())))}
        )
        assert role_hash(one.get("Tester")) == role_hash(two.get("Tester"))
        assert len(role_hash(one.get("Tester"))) == 64

    def test_it_stays_the_same_from_version_to_version(self) -> None:
        text = '{"description":"d","instructions":"ü","llm_model":"m","name":"n"}'
        found = role_hash(Role(name="n", description="d", instructions="ü", llm_model="m"))
        assert found == hashlib.sha256(text.encode()).hexdigest()

    @pytest.mark.parametrize(
        ("attribute", "value"),
        [
            *((attribute, "other") for attribute in ATTRIBUTES),
            *(("temperature", 1), ("max_output_tokens", 1), ("permissions", Permissions())),
            *(("permissions", Permissions.from_names(["read_files"])), ("can_delegate_to_roles", ("A",))),
            *(("network", True), ("agent", "codex"), ("badge", "x"), ("color", "red")),
            *(("prompt_template", "x"), ("applicable_task_types", ("bug",)), ("context_requirements", ())),
        ],
    )
    def test_every_attribute_counts(self, attribute: str, value: object) -> None:
        base = Role.model_validate(role())
        assert role_hash(base.model_copy(update={attribute: value})) != role_hash(base)


def test_the_shipped_roles_are_read_when_they_are_used(tmp_path: Path) -> None:
    """They are the same as when all are read at once, which finds no problems and no bases."""
    eager = load_roles([find_resource("roles")])
    assert (eager.problems, eager.broken, eager.hidden) == ([], {}, [])
    assert {loaded.base for loaded in eager.by_name.values()} == {None}
    known = load_known_roles(Environment({"HOME": str(tmp_path)}), tmp_path)
    assert known.are_shipped
    assert dict(known.by_name) == eager.by_name
    assert list(known.by_name) == list(eager.by_name)
    assert known.find_for_task_type("bug") == eager.find_for_task_type("bug") == "fix"
    with pytest.raises(UsageError, match="unknown role"):
        known.get("missing")


def test_a_role_of_the_user_is_loaded_with_all_others(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "logist" / "roles"
    folder.mkdir(parents=True)
    (folder / "own.yaml").write_text("{name: own, base: fix, description: d}\n", "utf-8")
    known = load_known_roles(Environment({"HOME": str(tmp_path)}), tmp_path)
    assert not known.are_shipped
    assert known.by_name["own"].base == "fix"


def test_a_role_that_is_not_used_is_not_read(tmp_path: Path) -> None:
    fix = find_resource("roles") / "fix.yaml"
    roles = read_roles_on_use({"fix": fix, "gone": tmp_path / "gone.yaml"})
    assert roles.get("fix").name == "fix"
    assert "gone" in roles.by_name
    with pytest.raises(UsageError, match="unknown role `gone`"):
        roles.get("gone")
