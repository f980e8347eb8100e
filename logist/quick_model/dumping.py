"""Turns models into plain values: dictionaries, lists, texts and numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import NoneType
from typing import Any

from logist.quick_tuple import NamedTuple

_PLAIN: frozenset[type] = frozenset({str, int, bool, NoneType})
"""Values of exactly these types are dumped unchanged."""
_DEEPEST = 254
"""The most levels of lists and mappings in JSON; pydantic's limit, so that what was refused stays refused."""
_SPECIAL_KEYS = {True: "true", False: "false", None: "None"}


class Options(NamedTuple):
    """What `model_dump` was asked for."""

    json: bool
    by_alias: bool
    exclude_unset: bool
    exclude_defaults: bool
    exclude_none: bool
    leaves_out: bool
    """Whether a field may be left out for its value: the three above."""


EVERYTHING: Callable[[str], bool] = lambda name: True  # noqa: E731 - compared by identity


def dump_model(
    model: Any, options: Options, depth: int = 0, is_wanted: Callable[[str], bool] = EVERYTHING
) -> dict[str, Any]:
    """Return the fields of a model that are wanted, with those that this version doesn't know at the end."""
    serializer = model._serializer
    if serializer is None:
        return dump_fields(model, options, depth, is_wanted)
    dump = getattr(model, serializer)
    dumped: dict[str, Any] = dump(lambda each: dump_fields(each, options, depth, is_wanted))
    return dumped


def dump_fields(
    model: Any, options: Options, depth: int = 0, is_wanted: Callable[[str], bool] = EVERYTHING
) -> dict[str, Any]:
    """Return the fields of a model, without the serializer of its class."""
    extra = model._extra
    values = {**model._own_values, **extra} if extra else vars(model).copy()
    if is_wanted is not EVERYTHING:
        values = {name: value for name, value in values.items() if is_wanted(name)}
    if options.leaves_out:
        values = _leave_out(values, model, options)
    floats = model._floats
    for name, value in values.items():
        kind = type(value)
        if kind not in _PLAIN:
            dump = _DUMPERS.get(kind) or _find_dumper(kind)
            values[name] = dump(value, options, depth)
        elif kind is int and options.json and (floats[name] if name in floats else model._find_float(name)):
            values[name] = float(value)  # a default, or the result of `model_copy`
    for name in model._field_serializers:
        if name in values:
            values[name] = getattr(model, model._field_serializers[name])(getattr(model, name))
    if options.by_alias and (aliases := model._aliases):
        return {aliases.get(name, name): value for name, value in values.items()}
    return values


def _leave_out(values: dict[str, Any], model: Any, options: Options) -> dict[str, Any]:
    if options.exclude_unset:
        values = {name: value for name, value in values.items() if name in model._set_names}
    if options.exclude_none:
        values = {name: value for name, value in values.items() if value is not None}
    if options.exclude_defaults:
        fields = model.model_fields
        values = {
            name: value
            for name, value in values.items()
            if name not in fields
            or name in model._field_serializers  # as pydantic does
            or value != fields[name].get_default(call_default_factory=True)
        }
    return values


def dump_value(value: Any, options: Options, depth: int = 0) -> Any:
    """Return any value as a plain one. Raises ValueError for JSON of what JSON can't express."""
    kind = type(value)
    return (_DUMPERS.get(kind) or _find_dumper(kind))(value, options, depth)


Dump = Callable[[Any, Options, int], Any]


def _find_dumper(kind: type) -> Dump:
    dump = next(dump for base, dump in _DUMPERS_OF_BASES if issubclass(kind, base))
    if hasattr(kind, "_check_nested"):
        dump = dump_model
    _DUMPERS[kind] = dump
    return dump


def _dump_plain(value: Any, options: Options, depth: int) -> Any:
    return value


def _dump_float(value: float, options: Options, depth: int) -> Any:
    return value if math.isfinite(value) or not options.json else None


def _dump_enum(value: Enum, options: Options, depth: int) -> Any:
    return dump_value(value.value, options, depth) if options.json else value


def _dump_list(values: Iterable[Any], options: Options, depth: int) -> list[Any]:
    if _PLAIN.issuperset(map(type, values)):
        return list(values)
    _require_depth(options, depth)
    dumped = []
    for value in values:  # not a comprehension, which would need another frame for each level
        dumped.append(value if type(value) in _PLAIN else dump_value(value, options, depth + 1))
    return dumped


def _dump_mapping(mapping: Mapping[Any, Any], options: Options, depth: int) -> dict[Any, Any]:
    _require_depth(options, depth)
    dumped = {}
    for key, value in mapping.items():
        name = key if type(key) is str or not options.json else _dump_key(key)
        dumped[name] = value if type(value) in _PLAIN else dump_value(value, options, depth + 1)
    return dumped


def _require_depth(options: Options, depth: int) -> None:
    if options.json and depth >= _DEEPEST:
        raise ValueError("Maximum serialization depth exceeded")


def _dump_key(key: Any) -> str:
    if isinstance(key, Enum):
        return str(key.value)
    if isinstance(key, bool | NoneType):
        return _SPECIAL_KEYS[key]
    return str(key)


def _dump_collection(values: Any, options: Options, depth: int) -> Any:
    """Dump a tuple or set, also of a class of its own."""
    dumped = _dump_list(values, options, depth)
    if options.json:
        return dumped
    return next(base for base in (list, tuple, set, frozenset) if isinstance(values, base))(dumped)


def _dump_other(value: Any, options: Options, depth: int) -> Any:
    if not options.json:
        return value
    if isinstance(value, str | int | float):  # of a class of its own
        return next(base for base in (str, int, float) if isinstance(value, base)).__call__(value)
    if isinstance(value, bytes):
        return value.decode()
    raise ValueError(f"Unable to serialize unknown type: {type(value)}")


_DUMPERS: dict[type, Dump] = {
    **dict.fromkeys(_PLAIN, _dump_plain),
    float: _dump_float,
    list: _dump_list,
    dict: _dump_mapping,
}
"""By the exact type of a value; others are added when they are first dumped."""
_DUMPERS_OF_BASES: tuple[tuple[type, Dump], ...] = (
    (Enum, _dump_enum),
    *((base, _dump_collection) for base in (list, tuple, set, frozenset)),
    (Mapping, _dump_mapping),
    (object, _dump_other),
)
