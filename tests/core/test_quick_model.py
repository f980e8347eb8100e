"""Logist's models read, dump and refuse what the same classes over pydantic do."""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import json
import operator
import pickle
import re
import sys
import tarfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist import quick_model
from logist.core.machine.kinds import read_command
from logist.core.model import EffectiveSpec, Interaction, Limits, Place, Request, Response, State, Status
from logist.jobs.archive.job_fixture import Manifest
from logist.quick_model import BaseModel, ConfigDict, Field, ValidationError, build_checks
from tests.over_pydantic import LAYER, pydantic_below
from tests.support import ROOT, examples

USES_LAYER = re.compile(rf"^from {re.escape(LAYER)} import|\b(Frozen|Recorded)\b", re.MULTILINE)
PACKAGE = ROOT / "logist"


def list_modules() -> list[str]:
    """The modules that define models."""
    files = (path for path in PACKAGE.rglob("*.py") if USES_LAYER.search(path.read_text("utf-8")))
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in sorted(files))
    return [name.removesuffix(".__init__") for name in names if not name.startswith(LAYER)]


def find_models() -> dict[type[BaseModel], type[pydantic.BaseModel]]:
    """Our models, each with the same one over pydantic."""
    names = list_modules()
    modules = [importlib.import_module(name) for name in names]
    with pydantic_below():
        twins = [importlib.import_module(name) for name in names]
    return {
        model: vars(twin)[name]
        for module, twin in zip(modules, twins, strict=True)
        for name, model in vars(module).items()
        if isinstance(model, type) and issubclass(model, BaseModel) and model.__module__ == module.__name__
    }


TWINS = find_models()
ABSTRACT = {"Extended"}
MODELS = sorted(
    (model for model in TWINS if model.__name__ not in ABSTRACT),
    key=lambda model: (model.__module__, model.__name__),
)


def list_subclasses(model: Any) -> Iterator[Any]:
    for each in model.__subclasses__():
        yield each
        yield from list_subclasses(each)


def test_all_models_are_compared() -> None:
    assert len(MODELS) > 90
    assert {each for each in list_subclasses(BaseModel) if each.__module__.startswith("logist.")} == {*TWINS}
    assert all(issubclass(twin, pydantic.BaseModel) for twin in TWINS.values())
    assert not any(issubclass(model, pydantic.BaseModel) for model in MODELS)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([10**6, 10**20, 2**63, -1.5, 0.5, 1.0, 2.0, float("nan"), float("inf"), -0.0]),
    st.sampled_from(
        [
            "",
            "a",
            "b c",
            "5",
            " 5 ",
            "5.0",
            "1.5",
            "true",
            "No",
            "x\n",
            "ä" * 12,
            "none",
            "a/b",
            "~",
            "/x",
            "$A",
        ]
    ),
)
WILD = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
)
KEYS = st.sampled_from(["a", "b", "A_1", "", "a.b", "ä"])


def values_of(annotation: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Data for an annotation: often valid."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return values_of(arguments[0], depth)
    if origin in (Union, UnionType):
        return st.one_of(*(values_of(each, depth) for each in arguments))
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (list, tuple):
        items = st.lists(values_of(arguments[0], depth), max_size=3)
        return items | items.map(tuple)
    if origin is dict:
        return st.dictionaries(KEYS, values_of(arguments[1], depth), max_size=2)
    return plain_values(annotation, depth)


def plain_values(annotation: Any, depth: int) -> st.SearchStrategy[Any]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return data_of(annotation, depth + 1) if depth < 2 else st.just({})
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return st.sampled_from([*map(str, annotation), "newer"])
    plain: dict[Any, st.SearchStrategy[Any]] = {
        str: st.sampled_from(["", "a", "text of some length", "a-1", "/x", "{model}", "https://a.b", "ä"]),
        int: st.integers(-1, 5) | st.just(10**20),
        float: st.sampled_from([0, 0.5, 1, 2.0, 101.0]),
        bool: st.booleans(),
        NoneType: st.none(),
        Any: WILD,
    }
    return plain.get(annotation, WILD)


def data_of(model: type[BaseModel], depth: int = 0) -> st.SearchStrategy[Any]:
    """Data for a model: most of its required fields, some others, and seldom an unknown one."""
    by_alias = {name: str(field.validation_alias or name) for name, field in model.model_fields.items()}
    by_name = {name: name for name in by_alias}
    if by_alias == by_name:
        return keyed_data_of(model, by_name, depth)
    return keyed_data_of(model, by_name, depth) | keyed_data_of(model, by_alias, depth)


def keyed_data_of(model: type[BaseModel], keys: dict[str, str], depth: int) -> st.SearchStrategy[Any]:
    required: dict[str, st.SearchStrategy[Any]] = {}
    others: dict[str, st.SearchStrategy[Any]] = {"newer": WILD} if depth == 0 else {}
    for name, field in model.model_fields.items():
        values = values_of(field.annotation, depth)
        (required if field.is_required() else others)[keys[name]] = values | values | values | WILD
    complete = st.fixed_dictionaries(required, optional=others)
    partial = st.fixed_dictionaries({}, optional={**required, **others, "stuff": WILD})
    return complete | complete | complete | partial


OPTIONS: list[dict[str, Any]] = [
    {},
    {"mode": "json"},
    {"mode": "json", "exclude_none": True},
    {"mode": "json", "exclude_defaults": True},
    {"exclude_defaults": True, "exclude_none": True},
    {"exclude_unset": True},
    {"exclude_unset": True, "by_alias": True},
]


def describe(read: Callable[[], Any]) -> Any:
    """What comes of reading data: the instance in all its forms, or what is wrong."""
    try:
        instance = read()
    except (ValidationError, pydantic.ValidationError) as error:
        return [describe_problem(each) for each in error.errors(include_url=False)]
    names = {*type(instance).model_fields}
    half = {name for place, name in enumerate(sorted(names)) if place % 2}
    return (
        repr(instance),
        str(instance),
        instance.model_fields_set,
        repr(instance.model_extra or {}),
        *(repr(instance.model_dump(**options)) for options in OPTIONS),
        repr(instance.model_dump(include=half)),
        repr(instance.model_dump(exclude=half)),
        describe_hash(instance),
        describe_copy(instance),
    )


def describe_hash(instance: Any) -> str:
    try:
        hash(instance)
    except TypeError:
        return "none"
    return "some"


def describe_copy(instance: Any) -> Any:
    changed = instance.model_copy(
        update={"newer": 1} if instance.model_config.get("extra") == "allow" else {}
    )
    same = instance.model_copy()
    dumped = {name: value for name, value in changed.model_dump().items() if name != "newer"}
    return (
        repr(dumped),
        changed.model_fields_set,
        repr(changed.model_extra),
        same == instance,
        changed == instance,
    )


def describe_problem(problem: Any) -> Any:
    """The problem, without what differs on purpose."""
    context = {name: str(value) for name, value in problem.get("ctx", {}).items()}
    if problem["type"] == "json_invalid":
        return "json_invalid"
    return problem["type"], problem["loc"], problem["msg"], repr(problem["input"]), context


def compare_values(model: type[BaseModel], data: Any) -> None:
    twin = TWINS[model]
    assert describe(lambda: model.model_validate(data)) == describe(lambda: twin.model_validate(data))


def compare(model: type[BaseModel], data: Any) -> None:
    twin = TWINS[model]
    compare_values(model, data)
    try:
        text = json.dumps(data)
    except (TypeError, ValueError):
        return
    if model is Manifest:  # pydantic refuses to read its transitions from text
        return
    for strict in (None, True):
        ours = describe(partial(model.model_validate_json, text, strict=strict))
        assert ours == describe(partial(twin.model_validate_json, text, strict=strict))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_generated_data(model: type[BaseModel]) -> None:
    @settings(max_examples=examples(40), deadline=None)
    @given(data=data_of(model))
    def check(data: Any) -> None:
        compare(model, data)

    check()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_other_data(model: type[BaseModel]) -> None:
    others: list[Any] = [{}, [], None, "x", {"newer": None}, {"\ud800": 1}]
    for data in others:
        compare(model, data)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_names_that_are_no_texts(model: type[BaseModel]) -> None:
    others: list[Any] = [{1: 2}, {None: 1, "newer": 2}, {"newer": 1, 2: 3, (1, 2): 4}]
    for data in others:
        compare_values(model, data)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_texts_that_look_like_integers(model: type[BaseModel]) -> None:
    fields = model.model_fields.items()
    integers = [str(field.validation_alias or name) for name, field in fields if field.annotation is int]
    for text in ("9" * 4300, "-" + "9" * 4301, "1.", "1.00", "1_0", "1__0"):
        for name in integers:
            compare(model, {name: text})


def read_recorded() -> Iterator[tuple[type[BaseModel], Any]]:
    """The interactions and states of all recorded jobs."""
    for path in sorted((ROOT / "fixtures").rglob("jobHistory.json")):
        yield from ((Interaction, entry) for entry in json.loads(path.read_bytes())["interactions"])
    with tarfile.open(UPGRADED) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None and member.name.endswith("/state.json"):
                yield State, json.loads(file.read())
            elif file is not None and member.name.endswith("/jobHistory.json"):
                yield from ((Interaction, entry) for entry in json.loads(file.read())["interactions"])


UPGRADED = ROOT / "fixtures" / "upgrades" / "every-kind-of-interaction.tar.gz"


def test_recorded_jobs() -> None:
    recorded = [*read_recorded()]
    assert len(recorded) > 100
    for model, data in recorded:
        compare(model, data)
        for entry in [data] if model is Interaction else []:
            command = type(read_command(entry["kind"], entry.get("command", {})))
            compare(command, entry.get("command", {}))
            compare(EffectiveSpec, entry.get("spec"))


def test_instances_of_models_are_values_too() -> None:
    place = Place(status=Status.DRAFT, before=Place(status=Status.PENDING))
    assert Place.model_validate(place) is place
    assert Place(status="DRAFT", before=place.before) == place  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="valid dictionary or instance of Place"):
        Place(status=Status.DRAFT, before=Limits())  # type: ignore[arg-type]


def test_a_default_that_can_be_changed_is_each_instance_s_own() -> None:
    first, second = Request(), Request()
    first.files_context.append("x")
    assert (second.files_context, Request.model_fields["files_context"].default) == ([], [])
    own = Interaction.model_fields["request"].get_default(call_default_factory=True)
    own.files_context.append("x")
    assert Interaction.model_fields["request"].get_default(call_default_factory=True) == Request()


class Node(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")

    name: str
    size: Annotated[int, Field(ge=0)] = 0
    tags: list[str] = Field(default_factory=list)
    inner: Node | None = None


def test_data_of_a_known_shape_is_read_like_the_first() -> None:
    """The second and later data with the same names and types takes another way, which must not share anything."""
    texts = [{"name": name, "size": len(name), "inner": {"name": name}} for name in ("a", "b", "c")]
    first, second, third = (Node.model_validate(each) for each in texts)
    assert [repr(each) for each in (first, second, third)] == [
        f"Node(name={name!r}, size=1, tags=[], inner=Node(name={name!r}, size=0, tags=[], inner=None))"
        for name in "abc"
    ]
    second.tags.append("x")
    second.model_fields_set.add("tags")
    assert (third.tags, third.model_fields_set) == ([], {"name", "size", "inner"})
    wrong = {"name": "d", "size": -1, "inner": {"name": "d", "size": -1}}
    with pytest.raises(ValidationError) as caught:
        Node.model_validate(wrong)
    assert [problem["loc"] for problem in caught.value.errors()] == [("size",), ("inner", "size")]
    assert Node.model_validate({"name": "e", "size": True, "inner": None}).size == 1
    ordered = [Node.model_validate(OrderedDict(name=name)) for name in "fg"]
    assert [type(vars(node)) for node in ordered] == [dict, dict]


def test_an_unknown_field_hides_nothing_of_the_class() -> None:
    """A history may come from anyone: its fields must not replace methods."""
    data = {"name": "a", "model_dump": 1, "_extra": 2, "model_config": 3, "newer": 4, "inner": None}
    node = Node.model_validate(data)
    assert node.model_dump() == {"name": "a", "size": 0, "tags": [], **data}
    assert (node.model_extra, node.newer) == (  # type: ignore[attr-defined]
        {"model_dump": 1, "_extra": 2, "model_config": 3, "newer": 4},
        4,
    )
    assert node == Node.model_validate(data) != Node.model_validate({**data, "newer": 5})
    changed = node.model_copy(update={"name": "b", "newer": 6})
    assert changed.model_dump() == {**node.model_dump(), "name": "b", "newer": 6}
    assert list(changed.model_dump()) == ["name", "size", "tags", "inner", *(node.model_extra or ())]
    assert pickle.loads(pickle.dumps(node)).newer == 4


def test_values_are_copied_and_pickled() -> None:
    spec = EffectiveSpec.model_validate({"title": "t", "tags": ["a"], "newer": {"a": [1]}})
    for copied in (pickle.loads(pickle.dumps(spec)), copy.deepcopy(spec), copy.copy(spec)):
        assert (copied, copied.model_extra, copied.model_fields_set) == (
            spec,
            spec.model_extra,
            {"title", "tags", "newer"},
        )


def test_a_field_of_a_newer_version_is_an_attribute() -> None:
    assert Place.model_validate({"status": "DRAFT", "lane": "fast"}).lane == "fast"  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="'Place' object has no attribute 'lane'"):
        Place(status=Status.DRAFT).lane  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("depth", [10, 198, 199, 250, 253, 254, 400, 900, 5000])
def test_nested_values(depth: int) -> None:
    deep: Any = []
    for _ in range(depth - 1):
        deep = [deep]
    assert is_refused(Response, {"output": deep}) == is_refused(TWINS[Response], {"output": deep})


def is_refused(model: Any, data: Any) -> list[bool]:
    """Whether the data can't be dumped as JSON, and can't be read from text."""
    refused = []
    try:
        model.model_validate(data).model_dump(mode="json")
    except ValueError:
        refused.append(True)
    else:
        refused.append(False)
    nested = json_of_nested(data["output"])
    try:
        model.model_validate_json(f'{{"output": {nested}}}')
    except ValueError:
        refused.append(True)
    else:
        refused.append(False)
    return refused


def json_of_nested(value: Any) -> str:
    """The text of lists in lists; `json.dumps` refuses thousands."""
    depth = 1
    while value:
        depth, (value,) = depth + 1, value
    return "[" * depth + "]" * depth


def test_places_in_places_without_end_are_refused() -> None:
    data: dict[str, Any] = {"status": "SUSPENDED"}
    data["before"] = data
    with pytest.raises(ValidationError, match="cyclic"):
        Place.model_validate(data)


class Unsupported(BaseModel):
    numbers: frozenset[int]


def test_an_annotation_that_is_not_supported_is_named() -> None:
    with pytest.raises(TypeError, match=re.escape("frozenset[int]")):
        Unsupported.model_validate({"numbers": [1]})


class Inner(BaseModel):
    number: int = 0


class Outer(BaseModel):
    name: str
    inner: list[Inner] | None = None


def list_unbuilt(model: Any) -> list[str]:
    plan = model._plans.get(0) or model._build_plan(0)
    return [name for name, _, run in plan.fields.values() if isinstance(run, partial)]


def test_checks_can_be_built_before_they_are_needed() -> None:
    """A fork server does it, once for all its couriers."""
    assert (list_unbuilt(Outer), list_unbuilt(Inner)) == (["name", "inner"], ["number"])
    build_checks(Outer)
    assert (list_unbuilt(Outer), list_unbuilt(Inner)) == ([], [])
    assert Outer.model_validate({"name": "x", "inner": [{"number": "5"}]}).inner == [Inner(number=5)]


STUB = PACKAGE / "quick_model" / "__init__.pyi"


def test_type_checkers_need_no_pydantic() -> None:
    tree = ast.parse(STUB.read_text("utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= sys.stdlib_module_names | {"collections.abc"}


def test_type_checkers_see_the_parameters_that_there_are() -> None:
    seen = {
        f"{owner}{node.name}": [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]
        for owner, body in list_bodies(ast.parse(STUB.read_text("utf-8")))
        for node in body
        if isinstance(node, ast.FunctionDef)
    }
    assert {name.partition(".")[0] for name in seen} >= {"BaseModel", "Field", "ValidationError"}
    assert "BaseModel.model_dump" in seen
    for name, parameters in seen.items():
        function = operator.attrgetter(name)(quick_model)
        if callable(function) and name != "Field":  # which takes any constraint
            own = inspect.getfullargspec(function)
            assert parameters == [*own.args, *own.kwonlyargs], name


def list_bodies(tree: ast.Module) -> Iterator[tuple[str, list[ast.stmt]]]:
    yield "", tree.body
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name in quick_model.__all__:
            yield f"{node.name}.", node.body
