"""The base class of models."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, Self, get_args

from logist.lazy_patterns import compile_on_use
from logist.quick_model.checks import ALL, LAX, NOTHING, OWN, build_check, find_exact_types, is_unicode
from logist.quick_model.dumping import EVERYTHING, Options, dump_model
from logist.quick_model.fields import FieldInfo, copy_default
from logist.quick_model.problems import Misfit, Problem, ValidationError
from logist.quick_tuple import NamedTuple

_MISSING: Any = object()
_CHANGEABLE = (list, dict)
_DEEPEST_JSON = 200
"""The most levels of JSON text that are read; pydantic's limit."""
_SURROGATE = compile_on_use(r"\\u[dD][89a-fA-F]")
_MOST_SHAPES = 200
"""How many shapes of data are remembered for each class."""
_set_attribute = object.__setattr__


class _Plan(NamedTuple):
    """How data is read with a class."""

    fields: dict[str, tuple[str, frozenset[type] | None, Callable[[Any], Any]]]
    """By the name in data: the name of the field, and its check, which is built when the first data has the field."""
    defaults: dict[str, Any]
    """The fields in their order, with the defaults that instances can share."""
    makers: tuple[tuple[str, str, Callable[[Any], Any]], ...]
    """For all other fields: the name, that in data, and what returns the default or raises Misfit if there is none."""
    shapes: dict[tuple[Any, ...], _DataShape]
    """By the names in data and the types of their values; for data with unknown names or aliases there is none."""


class _DataShape(NamedTuple):
    """What is left to do for data with certain names and types, after its values are copied."""

    checks: tuple[tuple[str, Callable[[Any], Any]], ...]
    """Of the fields whose values don't fit by their types alone."""
    makers: tuple[tuple[str, Callable[[Any], Any]], ...]
    """Of the fields that the data doesn't have, and whose defaults can't be shared."""


class BaseModel:
    """A class whose annotations are checked when data is read."""

    __slots__ = ("__dict__", "__weakref__", "_extra", "_set_names")

    _extra: dict[str, Any] | None
    """Values of unknown fields, if the class keeps them; None if there are none."""
    _set_names: set[str]

    model_config: ClassVar[dict[str, Any]] = {}
    model_fields: ClassVar[dict[str, FieldInfo]] = {}
    _hooks: ClassVar[dict[str, tuple[str, ...]]] = {}
    """The names of the methods by role: `before`, `after`."""
    _serializer: ClassVar[str | None] = None
    _field_serializers: ClassVar[dict[str, str]] = {}
    _by_name: ClassVar[bool] = False
    """Whether data may also have the names of fields that have an alias."""
    _aliases: ClassVar[dict[str, str]] = {}
    """Names in dumps, for fields that have others there."""
    _plans: ClassVar[dict[int, _Plan]]
    _floats: ClassVar[dict[str, bool]]

    def __init_subclass__(cls, **config: Any) -> None:
        own = cls.__dict__
        fields: dict[str, FieldInfo] = {}
        merged: dict[str, Any] = {}
        for base in reversed(cls.__bases__):
            fields |= getattr(base, "model_fields", {})
            merged |= getattr(base, "model_config", {})
        cls.model_config = {**merged, **own.get("model_config", {}), **config}
        cls._by_name = "populate_by_name" in cls.model_config or "validate_by_name" in cls.model_config
        for name, written in own.get("__annotations__", {}).items():
            if name[0] != "_" and name != "model_config" and not _is_class_variable(written):
                fields[name] = _define_field(cls, name, written)
        cls.model_fields = fields
        cls._plans, cls._floats = {}, {}
        cls._aliases = {
            name: field.serialization_alias for name, field in fields.items() if field.serialization_alias
        }
        _register_hooks(cls, own.get("_own_hooks", ()))

    def __init__(self, /, **data: Any) -> None:
        try:
            type(self)._fill(self, data, LAX)
        except Misfit as misfit:
            raise ValidationError(type(self).__name__, misfit.problems) from None

    # Reading

    @classmethod
    def model_validate(cls, data: Any, *, strict: bool | None = None) -> Self:
        """Return the data as an instance. Raises ValidationError with every problem."""
        try:
            instance: Self = cls._check_nested(data, bool(strict))
            return instance
        except Misfit as misfit:
            raise ValidationError(cls.__name__, misfit.problems) from None
        except RecursionError:
            raise ValidationError(cls.__name__, (_too_deep(data),)) from None

    @classmethod
    def model_validate_json(cls, text: str | bytes, *, strict: bool | None = None) -> Self:
        """Return JSON text as an instance. Raises ValidationError with every problem."""
        try:
            instance: Self = cls._check_nested(_parse_json(text), bool(strict))
            return instance
        except Misfit as misfit:
            raise ValidationError(cls.__name__, misfit.problems, from_json=True) from None

    @classmethod
    def _check_nested(cls, data: Any, strict: bool) -> Any:
        if isinstance(data, cls):
            return data
        return cls._fill(cls.__new__(cls), data, ALL if strict else LAX)

    @classmethod
    def _fill(cls, instance: Any, data: Any, strict: int) -> Any:
        """Set the fields of a new instance from data. Raises Misfit with every problem."""
        if type(data) is not dict or cls._hooks:
            data = cls._prepare(data)
        plan = cls._plans.get(strict) or cls._build_plan(strict)
        # A history has thousands of entries with the same names and types, and a copy is much faster than the loop below.
        types = (*data, *map(type, data.values()))
        if shape := plan.shapes.get(types):
            values = {**plan.defaults, **data}  # not `|`: it returns what data is, perhaps an OrderedDict
            try:
                for name, run in shape.checks:
                    values[name] = run(values[name])
            except Misfit:
                return cls._fill_slowly(instance, data, plan, types)  # it collects the problems of all fields
            for name, make in shape.makers:
                values[name] = make(data)
            _set_values(instance, values)
            _set_extra(instance, None)
            _set_set_names(instance, {*data})
            return cls._call_after_hooks(instance, data) if cls._hooks else instance
        return cls._fill_slowly(instance, data, plan, types)

    @classmethod
    def _fill_slowly(cls, instance: Any, data: Any, plan: _Plan, types: tuple[Any, ...]) -> Any:
        """Like `_fill`, for data of any shape; remembers its shape."""
        fields = plan.fields if not cls._aliases else cls._find_fields(plan, data)
        values = plan.defaults.copy()
        unknown: dict[str, Any] = {}
        wrong: dict[str, list[Problem]] = {}
        for key, value in data.items():
            known = fields.get(key)
            if known is None:
                unknown[key] = value
                continue
            name, exact, run = known
            if exact is None or type(value) in exact:
                values[name] = value
                continue
            try:
                values[name] = run(value)
            except Misfit as misfit:
                wrong[name] = [each.below(key) for each in misfit.problems]
        _make_defaults(plan.makers, data, values, wrong)
        extra = cls._keep_unknown(unknown, wrong) if unknown else None
        if wrong:
            raise Misfit(*(each for name in (*values, "") for each in wrong.get(name, ())))
        names = {*data} if extra or not unknown else {key for key in data if key in fields}
        if cls._aliases:
            names = {fields[key][0] if key in fields else key for key in names}
        instance.__setstate__((values, extra, names))
        if not unknown and len(plan.shapes) < _MOST_SHAPES:
            cls._remember_shape(plan, data, types)
        return cls._call_after_hooks(instance, data)

    @classmethod
    def _remember_shape(cls, plan: _Plan, data: Any, types: tuple[Any, ...]) -> None:
        if cls._aliases:
            return
        checks = []
        for key, value in data.items():
            name, exact, run = plan.fields[key]
            if name != key:
                return
            if exact is not None and type(value) not in exact:
                checks.append((name, run))
        makers = tuple((name, make) for name, _, make in plan.makers if name not in data)
        plan.shapes[types] = _DataShape(tuple(checks), makers)

    @classmethod
    def _call_after_hooks(cls, instance: Any, data: Any) -> Any:
        for name in cls._hooks.get("after", ()):
            instance = _call_hook(getattr(cls, name), instance, data)
        return instance

    @classmethod
    def _prepare(cls, data: Any) -> dict[str, Any]:
        for name in cls._hooks.get("before", ()):
            data = _call_hook(getattr(cls, name), data)
        if isinstance(data, Mapping):
            return data if isinstance(data, dict) else dict(data)
        message = f"Input should be a valid dictionary or instance of {cls.__name__}"
        raise Misfit(Problem("model_type", message, data, {"class_name": cls.__name__}))

    @classmethod
    def _find_fields(cls, plan: _Plan, data: dict[str, Any]) -> dict[str, Any]:
        """Return the fields by their names in this data: an alias, or else perhaps the name of the field."""
        if not cls._by_name:
            return plan.fields
        return plan.fields | {each[0]: each for key, each in plan.fields.items() if key not in data}

    @classmethod
    def _keep_unknown(cls, unknown: dict[str, Any], wrong: dict[str, list[Problem]]) -> dict[str, Any] | None:
        """Return the unknown fields if the class keeps them. If it refuses them, add that to what is `wrong`, at ""."""
        policy = cls.model_config.get("extra", "ignore")
        if policy == "ignore":
            return None
        problems = [
            problem for key, value in unknown.items() if (problem := _judge_unknown(key, value, policy))
        ]
        if problems:
            wrong[""] = problems
        return unknown if policy == "allow" else None

    @classmethod
    def _build_plan(cls, strict: int) -> _Plan:
        fields: dict[str, Any] = {}
        defaults: dict[str, Any] = {}
        makers = []
        own = max(strict, OWN) if cls.model_config.get("strict") else strict
        for name, field in cls.model_fields.items():
            key = field.validation_alias or name
            exact = NOTHING if field.constraints else find_exact_types(field.written)
            fields[key] = name, exact, partial(_build_and_run, fields, key, name, field, own)
            defaults[name] = field.default
            if make := _find_maker(field):
                makers.append((name, key, make))
        plan = cls._plans[strict] = _Plan(fields, defaults, tuple(makers), {})
        return plan

    # Writing

    def model_dump(
        self,
        *,
        mode: str = "python",
        include: Collection[str] | None = None,
        exclude: Collection[str] | None = None,
        by_alias: bool = False,
        exclude_unset: bool = False,
        exclude_defaults: bool = False,
        exclude_none: bool = False,
    ) -> dict[str, Any]:
        """Return the fields as a dictionary; in the mode `json` with only the types of JSON.

        Raises ValueError for values that are nested too deeply, or that JSON can't express.
        """
        leaves_out = exclude_unset or exclude_defaults or exclude_none
        options = Options(mode == "json", by_alias, exclude_unset, exclude_defaults, exclude_none, leaves_out)
        is_wanted = EVERYTHING
        if include is not None or exclude:
            is_wanted = partial(_is_wanted, include, exclude or ())
        try:
            return dump_model(self, options, is_wanted=is_wanted)
        except RecursionError:
            raise ValueError("Maximum serialization depth exceeded") from None

    def model_dump_json(self, **options: Any) -> str:
        """Return the fields as JSON text."""
        dumped = self.model_dump(mode="json", **options)
        return json.dumps(dumped, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def _find_float(cls, name: str) -> bool:
        """Return and remember whether a field is dumped as a float, also if its value is an integer."""
        field = cls.model_fields.get(name)
        is_float = cls._floats[name] = field is not None and _is_float(field.annotation)
        return is_float

    # Instances

    @property
    def model_fields_set(self) -> set[str]:
        """The names of the fields that were given, not left to their defaults."""
        return self._set_names

    @property
    def model_extra(self) -> dict[str, Any] | None:
        """The fields that the class doesn't know; None if it doesn't keep such fields."""
        return (self._extra or {}) if self.model_config.get("extra") == "allow" else None

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        """Return a copy with some values replaced, which are not checked."""
        values, extra = {**self._own_values}, self._extra and {**self._extra}
        names = {*self._set_names}
        if update:
            fields = type(self).model_fields
            if self.model_config.get("extra") == "allow" and not fields.keys() >= update.keys():
                extra = {
                    **(extra or {}),
                    **{name: value for name, value in update.items() if name not in fields},
                }
                values |= {name: value for name, value in update.items() if name in fields}
            else:
                values |= update
            names |= update.keys()
        return self._rebuild(values, extra or None, names)

    def _rebuild(self, values: dict[str, Any], extra: dict[str, Any] | None, names: set[str]) -> Self:
        copy = type(self).__new__(type(self))
        copy.__setstate__((values, extra, names))
        return copy

    def _copy_as_default(self) -> Self:
        """Return an instance that shares nothing that can be changed."""
        values = self._own_values
        if not any(isinstance(value, _CHANGEABLE) for value in values.values()):
            return self
        copies = {name: copy_default(value) for name, value in values.items()}
        return self._rebuild(copies, self._extra, {*self._set_names})

    @property
    def _own_values(self) -> dict[str, Any]:
        """The values of the known fields."""
        values = vars(self)
        return _select(values, type(self).model_fields) if self._extra else values

    def __getstate__(self) -> tuple[dict[str, Any], dict[str, Any] | None, set[str]]:
        return {**self._own_values}, self._extra, self._set_names

    def __setstate__(self, state: tuple[dict[str, Any], dict[str, Any] | None, set[str]]) -> None:
        values, extra, names = state
        if extra:
            # Unknown fields are attributes too. With __getattr__, Python would find every attribute eight times more slowly.
            cls = type(self)
            values = values | {
                name: value
                for name, value in extra.items()
                if name[:1] != "_" and name not in cls.model_fields and not hasattr(cls, name)
            }
        _set_values(self, values)
        _set_extra(self, extra)
        _set_set_names(self, names)

    def __setattr__(self, name: str, value: Any) -> None:
        if self.model_config.get("frozen"):
            problem = Problem("frozen_instance", "Instance is frozen", value, None, (name,))
            raise ValidationError(type(self).__name__, (problem,))
        if name not in self.model_fields:
            raise ValueError(f"{type(self).__name__!r} object has no field {name!r}")
        _set_attribute(self, name, value)
        self._set_names.add(name)

    def __delattr__(self, name: str) -> None:
        problem = Problem("frozen_instance", "Instance is frozen", None, None, (name,))
        raise ValidationError(type(self).__name__, (problem,))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return vars(self) == vars(other) and self._extra == other._extra

    def __hash__(self) -> int:
        if not self.model_config.get("frozen"):
            raise TypeError(f"unhashable type: {type(self).__name__!r}")
        return hash((type(self), *self._own_values.values()))

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        yield from self._own_values.items()
        yield from (self._extra or {}).items()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self)})"

    def __str__(self) -> str:
        return " ".join(f"{name}={value!r}" for name, value in self)


# Quicker than object.__setattr__, which looks for these again each time.
_set_values, _set_extra, _set_set_names = (
    vars(BaseModel)[name].__set__ for name in ("__dict__", "_extra", "_set_names")
)


def _select(values: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in names}


def build_checks(*models: Any) -> None:
    """Build the checks of all fields of these models, and of the models in them, so that the processes that this one
    forks don't have to.
    """
    for model in models:
        plan = model._plans.get(LAX) or model._build_plan(LAX)
        for key, (name, _, run) in [*plan.fields.items()]:
            if isinstance(run, partial):  # its check is not built yet
                _, _, _, field, strict = run.args
                check = build_check(field.constrained, strict=strict)
                plan.fields[key] = name, check.exact, check.run
                build_checks(*_find_models(field.annotation))
            model._find_float(name)


def _find_models(annotation: Any) -> Iterator[Any]:
    if hasattr(annotation, "_check_nested"):
        yield annotation
    for argument in get_args(annotation):
        yield from _find_models(argument)


def _is_class_variable(written: Any) -> bool:
    return "ClassVar" in (written if isinstance(written, str) else repr(written))


def _define_field(cls: Any, name: str, written: Any) -> FieldInfo:
    default = cls.__dict__.get(name, _MISSING)
    if default is not _MISSING:
        delattr(cls, name)  # else a missing value would be found in the class
    if isinstance(default, FieldInfo):
        field = default
    else:
        field = FieldInfo() if default is _MISSING else FieldInfo(default)
    field.owner, field.written = cls, written
    if generate := cls.model_config.get("alias_generator"):
        field.validation_alias = field.serialization_alias = generate(name)
    return field


def _register_hooks(cls: Any, hooks: tuple[tuple[str, str, tuple[str, ...]], ...]) -> None:
    for role, name, fields in hooks:
        if role == "wrap":
            cls._serializer = name
        elif role == "field":
            cls._field_serializers = cls._field_serializers | dict.fromkeys(fields, name)
        else:
            cls._hooks = cls._hooks | {role: (*cls._hooks.get(role, ()), name)}


def _build_and_run(
    fields: dict[str, Any], key: str, name: str, field: FieldInfo, strict: int, value: Any
) -> Any:
    """Build the check of a field, put it into the plan in the place of this function, and check a value."""
    check = build_check(field.constrained, strict=strict)
    fields[key] = name, check.exact, check.run
    return value if check.exact is None or type(value) in check.exact else check.run(value)


def _find_maker(field: FieldInfo) -> Callable[[Any], Any] | None:
    """Return the function that makes the default of a field; None if instances can share it."""
    if field.is_required():
        return _miss
    if field.default == []:
        return lambda data: []
    if field.default == {}:
        return lambda data: {}
    if field.default_factory or copy_default(field.default) is not field.default:
        return partial(_make_default, field)
    return None


def _make_defaults(
    makers: tuple[tuple[str, str, Callable[[Any], Any]], ...],
    data: dict[str, Any],
    values: dict[str, Any],
    wrong: dict[str, list[Problem]],
) -> None:
    """Set the fields that data doesn't have and whose defaults can't be shared."""
    for name, key, make in makers:
        if key not in data and (key == name or name not in data):
            try:
                values[name] = make(data)
            except Misfit as misfit:
                wrong[name] = [each.below(key) for each in misfit.problems]


def _miss(data: Any) -> Any:
    raise Misfit(Problem("missing", "Field required", data))


def _make_default(field: FieldInfo, data: Any) -> Any:
    return field.get_default(call_default_factory=True)


def _judge_unknown(key: Any, value: Any, policy: str) -> Problem | None:
    if not isinstance(key, str):
        place = key if isinstance(key, int) else str(key)
        return Problem("invalid_key", "Keys should be strings", key, None, (place,))
    _require_unicode(key)
    if policy == "allow":
        return None
    return Problem("extra_forbidden", "Extra inputs are not permitted", value, None, (key,))


def _require_unicode(key: str) -> None:
    """Raise Misfit, which hides other problems as it does in pydantic, for a name that no text file can have."""
    if not is_unicode(key):
        message = "Input should be a valid string, unable to parse raw data as a unicode string"
        raise Misfit(Problem("string_unicode", message, key))


def _is_wanted(include: Collection[str] | None, exclude: Collection[str], name: str) -> bool:
    return (include is None or name in include) and name not in exclude


def _is_float(annotation: Any) -> bool:
    return annotation is float or float in get_args(annotation) or any(map(_is_float, get_args(annotation)))


def _call_hook(hook: Callable[[Any], Any], value: Any, data: Any = _MISSING) -> Any:
    """Call the method of a class that checks or changes values; its ValueError is a problem."""
    try:
        return hook(value)
    except ValueError as error:
        given = value if data is _MISSING else data
        raise Misfit(Problem("value_error", f"Value error, {error}", given, {"error": error})) from error


def _too_deep(data: Any) -> Problem:
    return Problem("recursion_loop", "Recursion error - cyclic reference detected", data)


def _parse_json(text: str | bytes) -> Any:
    """Parse JSON. Raises Misfit also for surrogates, which no JSON text can have, and for deeper nesting than pydantic's."""
    try:
        value = json.loads(text)
        if _SURROGATE.search(text if isinstance(text, str) else text.decode()):
            json.dumps(value, ensure_ascii=False).encode()
        if sum(map(text.count, "[{" if isinstance(text, str) else (b"[", b"{"))) >= _DEEPEST_JSON:  # type: ignore[arg-type]
            _require_depth(value, _DEEPEST_JSON)
    except UnicodeError:
        raise _invalid_json_error("unpaired surrogate", text) from None
    except RecursionError:
        raise _invalid_json_error("recursion limit exceeded", text) from None
    except ValueError as error:
        raise _invalid_json_error(str(error), text) from None
    return value


def _require_depth(value: Any, most: int) -> None:
    if isinstance(value, list | dict):
        if most == 0:
            raise RecursionError
        for each in value.values() if isinstance(value, dict) else value:
            _require_depth(each, most - 1)


def _invalid_json_error(message: str, text: str | bytes) -> Misfit:
    return Misfit(Problem("json_invalid", f"Invalid JSON: {message}", text, {"error": message}))
