"""The shipped schema of a workflow file, and the model that files are read with: one and the same."""

from __future__ import annotations

import importlib
from functools import cache
from types import GenericAlias
from typing import Any

import pydantic
import pytest
from jsonschema import Draft202012Validator

from logist import resources
from logist.core.model.flow import MOST_STEPS
from logist.core.workflow.form import StepForm
from logist.core.workflow.listed import read_step_list
from logist.core.workflow.spelling import BRANCH_SPELLINGS, FIELDS, LIMIT_SPELLINGS, SPELLINGS
from tests.over_pydantic import pydantic_below

ROLE = "Be brief, please."
STEPS: dict[str, dict[str, Any]] = {
    "an id is enough": {"id": "a"},
    "no id": {"name": "A"},
    "an empty id": {"id": ""},
    "a long id": {"id": "x" * 129},
    "a role": {"agentRole": ROLE},
    "a role in snake case": {"agent_role": ROLE},
    "10": {"agentRole": "ä" * 10},
    "9": {"agentRole": "ä" * 9},
    "1024": {"agentRole": "ä" * 1024},
    "1025": {"agentRole": "ä" * 1025},
    "9 in snake case": {"agent_role": "ä" * 9},
    "a number as role": {"agentRole": 1},
    "null as role": {"agentRole": None},
    "a list as role": {"agentRole": [ROLE]},
    "guidance": {"guidance": ["a"]},
    "text as guidance": {"guidance": "a"},
    "numbers as guidance": {"guidance": [1]},
    "null as guidance": {"guidance": None},
    "a type": {"stepType": "flow"},
    "another type": {"stepType": "parallel"},
    "an execution": {"execution": "manual"},
    "another execution": {"execution": "robot"},
    "a review": {"review": True},
    "text as review": {"review": "yes"},
    "null as review": {"review": None},
    "confirm as a condition": {"confirm": {"var": "x"}},
    "confirm as a list": {"confirm": []},
    "next": {"next": ["a"]},
    "next as a number": {"next": 1},
    "branches": {"stepType": "decision", "branches": [{"condition": None, "to": "a"}], "defaultBranch": "a"},
    "branches with another word": {
        "stepType": "decision",
        "branches": [{"condition": "x", "target_step_id": "a"}],
    },
    "branches to nowhere": {"stepType": "decision", "branches": [{"condition": "x"}]},
    "a number as condition": {"stepType": "decision", "branches": [{"condition": 1, "to": "a"}]},
    "items": {"stepType": "foreach", "itemsPath": "output.x", "itemVariable": "file", "maxItems": 1000},
    "too many items": {"stepType": "foreach", "maxItems": 1001},
    "no item": {"stepType": "foreach", "max_items": 0},
    "a share": {"stepType": "join", "minSuccessPercent": 99.5},
    "more than all": {"stepType": "join", "minSuccessPercent": 101},
    "a variable with a space": {"stepType": "foreach", "itemVariable": "a b"},
    "a mapping": {"stepType": "subflow", "inputMapping": {"output.a": "b"}},
    "a mapping to a number": {"stepType": "subflow", "inputMapping": {"output.a": 1}},
    "a confidence": {"confidence": 1},
    "too sure": {"confidence": 1.1},
    "true as confidence": {"confidence": True},
    "visits": {"stepType": "decision", "maxVisits": 1},
    "no visits": {"stepType": "decision", "maxVisits": 0},
    "a format": {"responseFormat": "sections"},
    "another format": {"responseFormat": "xml"},
    "unknown keys": {"config": {"a": 1}, "hitlPhase": "x", "colour": 3},
}
TOPS: dict[str, dict[str, Any]] = {
    "no steps": {"steps": []},
    "steps as a mapping": {"steps": {}},
    "a name": {"name": "A"},
    "an empty name": {"name": ""},
    "a number as name": {"name": 3},
    "a list as description": {"description": []},
    "a start": {"start": "a"},
    "unknown keys": {"colour": 3},
}
NOT_OF_THE_FORM = {"other_type", "unknown_step", "bad_id"}


def is_read(document: dict[str, Any]) -> bool:
    found = read_step_list(document, {}, "w").problems
    return not [p for p in found if p.severity == "error" and p.code not in NOT_OF_THE_FORM]


TITLE = "Logist workflow"


@cache
def build_json_schema() -> dict[str, Any]:
    """Return the JSON schema of a workflow file, with every spelling of each field."""
    with pydantic_below():
        form = importlib.import_module("logist.core.workflow.form")
        steps = (
            GenericAlias(list, (form.StepForm,)),
            pydantic.Field(
                min_length=1,
                max_length=MOST_STEPS,
                description="The steps; the first one is the start, if nothing else is.",
            ),
        )
        fields: Any = {"steps": steps}
        workflow = pydantic.create_model("WorkflowForm", __base__=form.HeadForm, **fields)
    workflow.__doc__ = "A workflow as a list of steps."
    schema = workflow.model_json_schema(by_alias=True)
    step, branch = schema["$defs"]["StepForm"], schema["$defs"]["BranchForm"]
    limits = schema["$defs"]["ItemLimitsForm"]
    limits["properties"] = add_spellings(limits["properties"], LIMIT_SPELLINGS)
    step["properties"] = add_spellings(step["properties"], SPELLINGS)
    branch["properties"] = add_spellings(branch["properties"], BRANCH_SPELLINGS)
    branch["anyOf"] = [{"required": [name]} for name in branch["properties"] if name != "condition"]
    del branch["required"]
    schema["title"] = TITLE
    described = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    kept: dict[str, Any] = remove_defaults_and_titles(described)
    return kept


def add_spellings(properties: dict[str, Any], table: Any) -> dict[str, Any]:
    """Return the properties, and one more for each other spelling of a field."""
    every = dict(properties)
    for written, name in table.items():
        if name in properties and written not in every:
            every[written] = {**properties[name], "description": f"The same as `{name}`."}
    return every


def remove_defaults_and_titles(value: Any) -> Any:
    """Remove the titles and defaults that pydantic adds: defaults of the form are not defaults of the step."""
    if isinstance(value, list):
        return [remove_defaults_and_titles(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: remove_defaults_and_titles(item) for key, item in value.items() if key != "default"}
    is_schema = any(key in kept for key in ("type", "anyOf", "$ref"))
    if is_schema and isinstance(kept.get("title"), str) and kept["title"] != TITLE:
        del kept["title"]
    return kept


def test_the_file_is_what_the_model_makes() -> None:
    assert resources.load_schema("workflow") == build_json_schema()


def test_the_schema_has_the_agent_role_with_its_limits_and_says_that_users_do_not_see_it() -> None:
    schema = resources.load_schema("workflow")
    Draft202012Validator.check_schema(schema)
    role = schema["$defs"]["StepForm"]["properties"]["agentRole"]
    assert (role["type"], role["minLength"], role["maxLength"]) == ("string", 10, 1024)
    assert "not shown to users" in role["description"]


@pytest.mark.parametrize(
    "document",
    [
        *(
            {"name": "W", "steps": [{"id": "a", **step} if name != "no id" else step]}
            for name, step in STEPS.items()
        ),
        *({"steps": [{"id": "a"}], **top} for top in TOPS.values()),
    ],
    ids=[*STEPS, *(f"top: {name}" for name in TOPS)],
)
def test_schema_and_reader_say_the_same(document: dict[str, Any]) -> None:
    assert Draft202012Validator(build_json_schema()).is_valid(document) is is_read(document)


def test_every_field_of_the_form_has_its_spellings() -> None:
    assert {field.alias for field in StepForm.model_fields.values()} == set(FIELDS)
    properties = resources.load_schema("workflow")["$defs"]["StepForm"]["properties"]
    assert set(properties) == set(SPELLINGS)
