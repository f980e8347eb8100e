"""What the body of a model says about its fields: defaults, constraints, validators and serializers."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from importlib import import_module
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin


class _Undefined:
    """The default of a field that has none."""

    def __repr__(self) -> str:
        return "Undefined"


UNDEFINED: Any = _Undefined()
_RESOLVED: dict[tuple[str, str], Any] = {}
"""Evaluated annotations by module and text: many fields share a few. The module is "" if it makes no difference."""
_BUILTINS = {each.__name__: each for each in (str, int, float, bool, list, tuple, dict)}
_BETWEEN_NAMES = str.maketrans(dict.fromkeys("[]|,.", " "))


class FieldInfo:
    """A field of a model, or constraints in an annotation. The annotation is evaluated when it is first needed."""

    __slots__ = (
        "_resolved",
        "constraints",
        "default",
        "default_factory",
        "description",
        "owner",
        "serialization_alias",
        "union_mode",
        "validation_alias",
        "written",
    )

    def __init__(self, default: Any = UNDEFINED) -> None:
        self.default = default
        self.default_factory: Callable[[], Any] | None = None
        self.description: str | None = None
        self.validation_alias: str | None = None
        self.serialization_alias: str | None = None
        self.union_mode: str | None = None
        self.constraints: dict[str, Any] = {}
        self.owner: Any = None
        self.written: Any = None
        self._resolved: Any = UNDEFINED

    def __repr__(self) -> str:
        return f"FieldInfo({self.written!r}, default={self.default!r})"

    @property
    def resolved(self) -> Any:
        """The annotation, with its metadata."""
        if self._resolved is UNDEFINED:
            self._resolved = _resolve(self.written, self.owner)
        return self._resolved

    @property
    def constrained(self) -> Any:
        """The annotation, with its metadata and the constraints of the field, which don't apply to None."""
        annotation = self.resolved
        annotate: Any = Annotated
        if not self.constraints:
            return annotation
        members = get_args(annotation)
        if get_origin(annotation) in (Union, UnionType) and NoneType in members:
            value = reduce(or_, (member for member in members if member is not NoneType))
            return annotate[value, self] | None
        return annotate[annotation, self]

    @property
    def annotation(self) -> Any:
        """The annotation without the metadata of the field itself."""
        return get_args(self.resolved)[0] if get_origin(self.resolved) is Annotated else self.resolved

    @property
    def alias(self) -> str | None:
        """Another name of the field in data; None if there is none."""
        return self.validation_alias

    def is_required(self) -> bool:
        """Whether data must have the field."""
        return self.default is UNDEFINED and self.default_factory is None

    def get_default(self, *, call_default_factory: bool = False) -> Any:
        """Return the default for one more instance; UNDEFINED if there is none."""
        if self.default_factory is not None:
            return self.default_factory() if call_default_factory else None
        return copy_default(self.default)


def _resolve(written: Any, owner: type) -> Any:
    if not isinstance(written, str):
        return written
    names = {*written.translate(_BETWEEN_NAMES).split()}
    module = "" if names <= _BUILTINS.keys() | {"None"} else owner.__module__
    key = (module, written)
    if key not in _RESOLVED:
        _RESOLVED[key] = _evaluate(written, vars(import_module(module)) if module else {})
    return _RESOLVED[key]


def _evaluate(written: str, names: dict[str, Any]) -> Any:
    """Evaluate an annotation in our own source; for a name, or a name or None, without compiling it."""
    name, _, rest = written.partition(" | ")
    value = names.get(name, _BUILTINS.get(name))
    if value is None or rest not in ("", "None"):
        return eval(written, names)  # noqa: S307
    return value | None if rest else value


def copy_default(default: Any) -> Any:
    """Return a default that an instance can have for itself: a copy if it can be changed."""
    if isinstance(default, list):
        return [copy_default(each) for each in default]
    if isinstance(default, dict):
        return {key: copy_default(value) for key, value in default.items()}
    copy = getattr(default, "_copy_as_default", None)
    return copy() if copy is not None else default


def Field(  # noqa: N802 - pydantic's name
    default: Any = UNDEFINED,
    *,
    default_factory: Callable[[], Any] | None = None,
    description: str | None = None,
    validation_alias: str | None = None,
    serialization_alias: str | None = None,
    union_mode: str | None = None,
    **constraints: Any,
) -> Any:
    """Describe a field. Constraints: ge, gt, le, lt, allow_inf_nan, min_length, max_length, pattern."""
    field = FieldInfo(default)
    field.default_factory = default_factory
    field.description = description
    field.validation_alias, field.serialization_alias = validation_alias, serialization_alias
    field.union_mode = union_mode
    field.constraints = constraints
    return field


class StringConstraints:
    """Constraints of a text."""

    __slots__ = ("constraints",)

    def __init__(
        self, *, min_length: int | None = None, max_length: int | None = None, pattern: str | None = None
    ) -> None:
        limits = {"min_length": min_length, "max_length": max_length, "pattern": pattern}
        self.constraints = {name: limit for name, limit in limits.items() if limit is not None}


class AfterValidator:
    """A function that gets a valid value, and returns it or raises ValueError."""

    __slots__ = ("func",)

    def __init__(self, func: Callable[[Any], Any]) -> None:
        self.func = func


class Hook:
    """A method with a role in validating or dumping. It registers itself with its class, which gets the plain method."""

    def __init__(self, role: str, method: Any, fields: tuple[str, ...] = ()) -> None:
        self.role, self.method, self.fields = role, method, fields

    def __set_name__(self, owner: Any, name: str) -> None:
        setattr(owner, name, self.method)
        own = owner.__dict__.get("_own_hooks", ())
        owner._own_hooks = (*own, (self.role, name, self.fields))


def model_validator(*, mode: str) -> Callable[[Any], Any]:
    """Mark a method that checks an instance (`after`), or a class method that changes the data (`before`)."""
    return lambda method: Hook(mode, method)


def model_serializer(*, mode: str) -> Callable[[Any], Any]:
    """Mark the method that dumps an instance with a function that dumps it as usual (`wrap`)."""
    return lambda method: Hook(mode, method)


def field_serializer(*fields: str) -> Callable[[Any], Any]:
    """Mark a method that dumps the value of these fields."""
    return lambda method: Hook("field", method, fields)
