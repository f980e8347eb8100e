"""The schemas of config.yaml and job.yaml for editors accept what Logist reads, and refuse what it refuses.

`test_roles_schema.py` and `test_workflows_schema.py` do the same for the other two.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from logist import documents
from logist.config.settings import load_settings
from logist.core.model import JobSpec
from logist.documents import Document
from logist.errors import InvalidFile
from logist.jobs.base import editor_schemas, project_home
from tests.support import ROOT, examples

SCHEMAS = {name: json.loads(editor_schemas.read_schema(name)) for name in editor_schemas.SCHEMAS}
CONFIG, JOB = (Draft202012Validator(SCHEMAS[name]) for name in ("config", "job"))

LIMITS: list[Any] = [
    *({}, {"cost_threshold": 5}, {"cost_threshold": 0.5}, {"cost_threshold": -1}, {"cost_threshold": "5"}),
    *(
        {"max_attempts": 0},
        {"max_attempts": 2},
        {"max_allowed_iterations": 1.5},
        {"cost_treshold": 5},
        [],
        "x",
    ),
    {"time_threshold_minutes": True},
]
PRICED = {"provider_model": "p/m", "input_price": 1, "output_price": 2.5}
CONFIGS: dict[str, list[Any]] = {
    "limits": [*LIMITS, None],
    "review": [
        *(True, False, None, "off", {}, {"enabled": "no"}, {"mode": "yolo"}, {"mode": "wild"}, {"role": ""}),
        *({"checks": None}, {"checks": {"security": None}}, {"checks": {"mine": {"command": ["a", "b"]}}}),
        *(
            {"checks": {"mine": {"command": []}}},
            {"checks": {"mine": {"severity": "fatal"}}},
            {"checks": {"mine": None}},
        ),
        *({"checks": {"security": {"severity": "warning"}}}, {"checks": {"": {}}}, {"auto_merge": None}),
        {"checks": {"mine": {"comand": "x"}}},
    ],
    "approval": ["end", "each", "none", "never", True, None, 3],
    "roles": [
        {"default": "A"},
        {"type_mapping": {"Bug": "A"}},
        {"type_mapping": {"bug": ""}},
        {"defualt": "A"},
        None,
    ],
    "model": ["a/b", "", None, 5],
    "models": [
        *(
            {},
            None,
            {"m": PRICED},
            {"m": {}},
            {"m": None},
            {"": PRICED},
            {"m": {**PRICED, "input_price": -1}},
        ),
        *(
            {"gemini-2.5-flash": {"max_output_tokens": 9}},
            {"gemini-2.5-flash": None},
            {"m": {"provider_model": ""}},
        ),
        *({"m": {**PRICED, "tiers": [{"above": 5, "input_price": 1, "output_price": 1}]}}, {"m": "x"}),
        *({"m": {**PRICED, "tiers": [{"above": 5}]}}, {"m": {**PRICED, "price": "cheap"}}),
    ],
    "providers": [
        *(
            {"own": {"base_url": "http://127.0.0.1:1/v1"}},
            {"own": {}},
            {"Own": {"base_url": "http://127.0.0.1:1"}},
        ),
        *({"own": {"base_url": "http://127.0.0.1:1", "protocol": "smoke"}}, None),
    ],
    "agent": ["model", "scripted:x.json", "scripted:", "Codex", "codex", "", None],
    "max_concurrent_agents": [1, 0, 2.5, "3", True, None],
    "agent_timeout_minutes": [0.5, 0, -1, "1", None],
    "on_stuck": ["say it", ["say", "it"], [], "", None, 5],
    "notify": [
        {"done": "x"},
        {"done": []},
        {"timeout_seconds": 0},
        {"environment": ["A_B"]},
        {"environment": ["1"]},
        None,
    ],
    "on_doubt": ["stuck", "retry", "pay", None],
    "response_format": ["json", "sections", "xml"],
    "workspace": [
        *({"setup": "make"}, {"setup": ["make", ["a", "b"]]}, {"setup": {"commands": ["a"]}}, {"setup": ""}),
        *(
            {"setup": {"commands": "a"}},
            {"setup": 5},
            {"setup": {"rerun": "maybe"}},
            {"caches": ["a/b"]},
            {"setup": None},
        ),
        {"max_checkpoint_bytes": 0},
    ],
    "context": [
        {"excluded_paths": ["a"]},
        {"excluded_paths": "a"},
        {"budget_tokens": 0},
        {"custom_instructions": "x"},
        None,
    ],
    "workflow": [{"max_steps": 10_000}, {"max_steps": 10_001}, {"steps": 1}],
    "history": [{"rotate_at": 0}, {"rotate_at": -1}],
    "redact": [{"patterns": ["a+"]}, {"patterns": [""]}, {"patterns": "a"}, {"patterns": ["x" * 1001]}],
    "answers": [{"reask": 10}, {"reask": 11}, {"constrain": "auto"}, {"constrain": False}],
    "sandbox": [{"mode": "off"}, {"mode": False}, {"readable": ["/a"]}, {"processes": 0}],
    "projects": [["/a"], ["~/a"], ["a"], None],
    "steward": [{"sign": "ssh"}, {"sign": "gpg"}, {"key": ""}],
    "unknown": [1],
}
JOBS: dict[str, list[Any]] = {
    "id": ["a-b_1", "a b", "", None, 5],
    "title": ["t", None, 5],
    "acceptance_criteria": [[], ["a"], "a", [1], None],
    "tags": [[], ["a"], "a", None],
    "review": [True, "yes", None],
    "model": ["m", "", None],
    "approval": ["end", "each", True, "now", None],
    "limits": [*LIMITS, {"cost_threshold": None}],
    "rank": [0, -5, 1.5, "1"],
    "repo": [False, True, "..", 5, None],
    "input": [{"a": 1}, [1], None, "x"],
    "review_mode": ["yolo", "strict", "Yolo", None],
    "promt": ["x"],
}


def reads_config(data: dict[str, Any]) -> bool:
    """Whether the user's own config may say this."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.yaml").write_text(json.dumps(data), "utf-8")
        try:
            load_settings(Path(folder, "none"), Path(folder))
        except InvalidFile:
            return False
    return True


def reads_job(data: dict[str, Any]) -> bool:
    try:
        documents.validate_document(JobSpec, Document("job.yaml", data, {}))
    except InvalidFile:
        return False
    return True


def list_cases(table: dict[str, list[Any]]) -> list[tuple[str, Any]]:
    return [(key, value) for key, values in table.items() for value in values]


def draw_from(table: dict[str, list[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    fields = {key: st.sampled_from(values) for key, values in table.items()}
    return st.fixed_dictionaries({}, optional=fields)


@pytest.mark.parametrize(("key", "value"), list_cases(CONFIGS), ids=repr)
def test_each_key_of_a_config(key: str, value: object) -> None:
    assert CONFIG.is_valid({key: value}) == reads_config({key: value})


@pytest.mark.parametrize(("key", "value"), list_cases(JOBS), ids=repr)
def test_each_key_of_a_job(key: str, value: object) -> None:
    assert JOB.is_valid({key: value}) == reads_job({key: value})


@settings(max_examples=examples(50), deadline=None)
@given(draw_from(CONFIGS))
def test_all_keys_of_a_config_together(data: dict[str, Any]) -> None:
    assert CONFIG.is_valid(data) == reads_config(data)


@settings(max_examples=examples(50), deadline=None)
@given(draw_from(JOBS))
def test_all_keys_of_a_job_together(data: dict[str, Any]) -> None:
    assert JOB.is_valid(data) == reads_job(data)


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_key_has_a_description(name: str) -> None:
    schema = SCHEMAS[name]
    Draft202012Validator.check_schema(schema)
    parts = [schema, *schema.get("$defs", {}).values()]
    properties = [each for part in parts for each in part.get("properties", {}).items()]
    missing = [key for key, shape in properties if not shape.get("description") and "$ref" not in shape]
    assert properties
    assert missing == []


def list_examples() -> Iterator[tuple[str, Any]]:
    """The configs and jobs that Logist ships as examples: its template, the docs, the recorded projects."""
    template = re.sub(r"^# (?=[a-z ])", "", project_home.CONFIG.partition("#\n")[2], flags=re.MULTILINE)
    yield "config", read_mapping(template)
    for path in sorted((ROOT / "fixtures").rglob("config.yaml")):
        yield "config", read_mapping(path.read_text("utf-8"))
    for path in sorted((ROOT / "fixtures").rglob("job.yaml")):
        yield "job", read_mapping(path.read_text("utf-8"))
    known = {name: set(SCHEMAS[name]["properties"]) for name in ("config", "job")}
    for page in sorted((ROOT / "docs").glob("*.md")):
        for block in re.findall(r"(?:^ {4}.*\n)+", page.read_text("utf-8"), re.MULTILINE):
            data = (
                None if "{{" in block else read_mapping(block)
            )  # a template isn't a job before it is filled
            for name, keys in known.items():
                if data and data.keys() <= keys and "exit" not in block:
                    yield name, data
                    break


def read_mapping(text: str) -> dict[str, Any] | None:
    try:
        return documents.parse_document(text, "example.yaml").data
    except InvalidFile:
        return None


def test_the_examples_are_valid() -> None:
    faults = [
        (name, data, error.message)
        for name, data in list_examples()
        for error in Draft202012Validator(SCHEMAS[name]).iter_errors(data)
    ]
    assert faults == []
    assert len(list(list_examples())) > 12


def test_a_project_has_the_schemas_of_its_files(tmp_path: Path) -> None:
    home = tmp_path / ".logist"
    project_home.create_project(home)
    header = (home / "config.yaml").read_text("utf-8").splitlines()[0]
    target = home / header.removeprefix("# yaml-language-server: $schema=")
    assert json.loads(target.read_bytes()) == SCHEMAS["config"]
    assert {path.name for path in (home / "schemas").iterdir()} == {f"{name}.json" for name in SCHEMAS}
    assert editor_schemas.format_header("role", home, home / "roles") == (
        "# yaml-language-server: $schema=../schemas/role.json\n"
    )
    assert editor_schemas.format_header("role", tmp_path, tmp_path) == ""


def test_schemas_of_another_version_are_replaced_and_a_link_is_left_alone(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / ".logist", tmp_path / "elsewhere"
    project_home.create_project(home)
    old = home / "schemas" / "job.json"
    old.write_text("{}", "utf-8")
    assert project_home.create_project(home) == ["schemas"]
    assert json.loads(old.read_bytes()) == SCHEMAS["job"]
    assert project_home.create_project(home) == []
    (home / "schemas").rename(elsewhere)
    (elsewhere / "job.json").write_text("{}", "utf-8")
    (home / "schemas").symlink_to(elsewhere)
    assert project_home.create_project(home) == []
    assert (elsewhere / "job.json").read_text("utf-8") == "{}"
