"""Reads what a job records without the models, which take twice as long to load as Python itself.

A `PlainRecord` has the attributes of the model whose JSON it holds: the same names, defaults, nested records and
known words. It accepts only what its model would accept without changing or dropping anything; for everything else
(a newer Logist's fields and words, damage, what was made by hand), reading returns None, and the caller reads with the
model, which reports what is wrong. So messages and results don't depend on which of the two has read.

`shapes.py` has the fields of each model: `(type, default)`, or `(type,)` if it is required, with the name of the
attribute as a third element if that differs from the key. A type is one of `str`, `int`, `float`, `bool`, `any` and
`unknown` (only the model can read it), or a tuple:

    ("record", MODEL)   ("word", ENUM)    ("choice", *VALUES)       ("optional", TYPE)   ("either", *TYPES)
    ("list", TYPE)      ("tuple", TYPE)   ("map", TYPE_OF_VALUES)   ("map", TYPE_OF_VALUES, TYPE_OF_KEYS)
    ("limited", TYPE, LIMITS)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import cache, cached_property
from importlib import import_module
from math import isfinite
from typing import TYPE_CHECKING, Any, NoReturn, cast

from logist.core.model import words
from logist.core.model.shapes import SHAPES
from logist.core.text.json_object import JsonObject
from logist.formats import JOB

if TYPE_CHECKING:
    from logist.core.model import Interaction, JobSpec, State
    from logist.core.model.commands import RecordedCommand

Reader = Callable[[Any], Any]
_STORED_ONLY = ("head", "logist", "checksum")
"""Fields of state.json that are no attributes of a state."""


class UnexpectedError(ValueError):
    """The JSON is not what a model would accept unchanged."""


class PlainRecord:
    """Verified JSON with the attributes of its model; read-only."""

    __slots__ = ("_name", "_values")

    def __init__(self, name: str, values: dict[str, Any]) -> None:
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_values", values)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            pass
        try:
            return _load_shape(self._name).defaults[name]
        except KeyError:
            raise AttributeError(f"{self._name} has no attribute {name!r}") from None

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{self._name} is read-only")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlainRecord) and self.model_dump() == other.model_dump()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{self._name} {self._values}>"

    @property
    def model_extra(self) -> None:
        """The fields of a newer Logist: none, because only the model can read those."""
        return None

    def model_copy(self, *, update: Mapping[str, Any]) -> PlainRecord:
        """Return a copy with some values replaced, which are not checked."""
        return type(self)(self._name, {**self._values, **update})

    @property
    def model_fields_set(self) -> set[str]:
        """The fields that the JSON has."""
        return set(self._values)

    def dump_set(self) -> JsonObject:
        """Return only what the JSON has, as the model writes it."""
        return {name: _dump_set(value) for name, value in self._values.items()}

    def model_dump(
        self,
        *,
        mode: str = "json",
        exclude: Collection[str] = (),
        exclude_none: bool = False,
        exclude_defaults: bool = False,
    ) -> JsonObject:
        """Return the record as its model writes it."""
        shape = _load_shape(self._name)
        dumped: JsonObject = {}
        for name in shape.names:
            if name in exclude:
                continue
            value = getattr(self, name)
            is_default = name in shape.defaults and value == shape.defaults[name]
            left_out = (
                (exclude_none and value is None)
                or (exclude_defaults and is_default)
                or (name in shape.added and is_default)
                or (shape.sparse and (value is None or name not in self._values))
            )
            if not left_out:
                dumped[name] = _dump(value, exclude_none, exclude_defaults)
        return dumped


def _dump(value: Any, exclude_none: bool, exclude_defaults: bool) -> Any:
    if isinstance(value, PlainRecord):
        return value.model_dump(exclude_none=exclude_none, exclude_defaults=exclude_defaults)
    if isinstance(value, dict):
        return {key: _dump(each, exclude_none, exclude_defaults) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_dump(each, exclude_none, exclude_defaults) for each in value]
    if type(value) is float and not isfinite(value):  # JSON has no such numbers
        return None
    return str(value) if isinstance(value, str) else value


def _dump_set(value: Any) -> Any:
    if isinstance(value, PlainRecord):
        return value.dump_set()
    if isinstance(value, dict):
        return {key: _dump_set(each) for key, each in value.items()}
    return _dump(value, exclude_none=False, exclude_defaults=False)


class _PlainState(PlainRecord):
    """A state: its place is a record, although state.json has its fields at the top level."""

    __slots__ = ()

    @property
    def status(self) -> words.Status:
        return cast("words.Status", self.place.status)

    @property
    def step(self) -> str:
        return cast("str", self.place.step)

    def model_dump(self, **options: Any) -> JsonObject:
        """Return the state as state.json has it."""
        dumped = super().model_dump(**options)
        place: JsonObject = dumped.pop("place")
        return place | dumped


class _Shape:
    """The fields of one model."""

    def __init__(self, name: str) -> None:
        rule, fields = SHAPES[name]
        self.name = name
        self.sparse = rule == ("set",)
        """Only fields that are set and not None are written."""
        self.added = frozenset(rule[1:])
        """Fields that are written only if they are not the default."""
        self.readers: dict[str, tuple[str, Reader]] = {}
        """The attribute and the reader of each key."""
        self._raw_defaults: dict[str, tuple[Reader, Any]] = {}
        required = []
        for key, (kind, *rest) in fields.items():
            attribute = rest[1] if len(rest) > 1 else key
            reader = _make_reader(kind)
            self.readers[key] = attribute, reader
            if rest:
                self._raw_defaults[attribute] = reader, rest[0]
            else:
                required.append(attribute)
        self.required = frozenset(required)
        self.names = tuple(attribute for attribute, _ in self.readers.values())

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The default of each attribute that has one."""
        return {name: reader(raw) for name, (reader, raw) in self._raw_defaults.items()}

    def read(self, data: Any) -> PlainRecord:
        """Read the JSON of a record. Raises UnexpectedError."""
        if type(data) is not dict:
            raise UnexpectedError
        values: dict[str, Any] = {}
        readers = self.readers
        for key, value in data.items():
            known = readers.get(key)
            if known is None:
                raise UnexpectedError
            values[known[0]] = known[1](value)
        if not self.required <= values.keys():
            raise UnexpectedError
        return _make_plain(self.name, values)


def _make_plain(name: str, values: dict[str, Any]) -> PlainRecord:
    return (_PlainState if name == "State" else PlainRecord)(name, values)


@cache
def _load_shape(name: str) -> _Shape:
    return _Shape(name)


def _make_reader(kind: Any) -> Reader:
    """Return the function that reads a value of a type: it returns it as the model has it, or raises UnexpectedError."""
    if isinstance(kind, str):
        return _BASIC[kind]
    word, *rest = kind
    return _COMPOUND[word](*rest)


def _refuse(value: Any) -> NoReturn:
    raise UnexpectedError


def _read_text(value: Any) -> str:
    if type(value) is not str:
        raise UnexpectedError
    if not value.isascii():
        value.encode("utf-8")  # half of a surrogate pair raises a ValueError too
    return value


def _make_exact_reader(wanted: type) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not wanted:
            raise UnexpectedError
        return value

    return read


def _read_number(value: Any) -> float:
    if type(value) is not float and type(value) is not int:
        raise UnexpectedError
    try:
        return float(value)
    except OverflowError:
        raise UnexpectedError from None


def _make_record_reader(name: str) -> Reader:
    return lambda value: _load_shape(name).read(value)  # on first use: a place has a place


def _make_word_reader(name: str) -> Reader:
    members: dict[Any, Any] = dict(getattr(words, name)._value2member_map_)

    def read(value: Any) -> Any:
        if type(value) is not str or value not in members:
            raise UnexpectedError
        return members[value]

    return read


def _make_choice_reader(*values: Any) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not str or value not in values:
            raise UnexpectedError
        return value

    return read


def _make_optional_reader(kind: Any) -> Reader:
    reader = _make_reader(kind)
    return lambda value: None if value is None else reader(value)


def _make_either_reader(*kinds: Any) -> Reader:
    readers = [_make_reader(kind) for kind in kinds]

    def read(value: Any) -> Any:
        for reader in readers:
            try:
                return reader(value)
            except ValueError:
                continue
        raise UnexpectedError

    return read


def _make_list_reader(kind: Any, of: type = list) -> Reader:
    reader = _make_reader(kind)

    def read(value: Any) -> Any:
        if type(value) is not list:
            raise UnexpectedError
        return of(map(reader, value))

    return read


def _make_map_reader(kind: Any, key_kind: Any = "str") -> Reader:
    reader, key_reader = _make_reader(kind), _make_reader(key_kind)

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise UnexpectedError
        return {key_reader(key): reader(each) for key, each in value.items()}

    return read


def _make_limited_reader(kind: Any, limits: dict[str, Any]) -> Reader:
    reader = _make_reader(kind)
    pattern = re.compile(limits["pattern"]) if "pattern" in limits else None

    def read(value: Any) -> Any:
        read_value = reader(value)
        if pattern is not None and ("\n" in read_value or not pattern.search(read_value)):
            raise UnexpectedError
        if "allow_inf_nan" in limits and read_value - read_value != 0:
            raise UnexpectedError
        size = len(read_value) if hasattr(read_value, "__len__") else 0
        is_within = (
            size >= limits.get("min_length", 0)
            and size <= limits.get("max_length", size)
            and not ("ge" in limits and not read_value >= limits["ge"])
            and not ("gt" in limits and not read_value > limits["gt"])
            and not ("le" in limits and not read_value <= limits["le"])
            and not ("lt" in limits and not read_value < limits["lt"])
        )
        if not is_within:
            raise UnexpectedError
        return read_value

    return read


_BASIC: dict[str, Reader] = {
    "str": _read_text,
    "int": _make_exact_reader(int),
    "float": _read_number,
    "bool": _make_exact_reader(bool),
    "any": lambda value: value,
    "unknown": _refuse,
}
_COMPOUND: dict[str, Callable[..., Reader]] = {
    "record": _make_record_reader,
    "word": _make_word_reader,
    "choice": _make_choice_reader,
    "optional": _make_optional_reader,
    "either": _make_either_reader,
    "list": _make_list_reader,
    "tuple": lambda kind: _make_list_reader(kind, tuple),
    "map": _make_map_reader,
    "limited": _make_limited_reader,
}


def read_record(name: str, data: Any) -> PlainRecord | None:
    """Read the JSON of the model of that name; None if only the model can tell what is wrong with it."""
    try:
        return _load_shape(name).read(data)
    except (ValueError, RecursionError):
        return None


def get_model_name(record: object) -> str:
    """Return the name of the model of a record, which is plain or a model itself."""
    return record._name if isinstance(record, PlainRecord) else type(record).__name__


def make_plain(name: str, **values: Any) -> Any:
    """Return a plain record of the model with this name; the values are not checked."""
    return _make_plain(name, values)


def make_like(record: object, name: str, **values: Any) -> Any:
    """Return a record of the model with this name, plain if `record` is plain."""
    if isinstance(record, PlainRecord):
        return _make_plain(name, values)
    return getattr(import_module("logist.core.model"), name)(**values)


def list_defaults(record: Any) -> Mapping[str, Any]:
    """Return the default of each field that has one."""
    if isinstance(record, PlainRecord):
        return _load_shape(record._name).defaults
    model: Any = type(record)
    return _list_model_defaults(model)


@cache
def _list_model_defaults(model: Any) -> Mapping[str, Any]:
    return {
        name: field.get_default(call_default_factory=True)
        for name, field in model.model_fields.items()
        if not field.is_required()
    }


def read_interaction(entry: JsonObject) -> Interaction | None:
    """Read an entry of a history."""
    return cast("Interaction | None", read_record("Interaction", entry) if _is_known_format(entry) else None)


def read_state(state: JsonObject) -> State | None:
    """Read a state.json, whose top level has the fields of the place too."""
    place_keys = SHAPES["Place"][1].keys()
    place = {key: value for key, value in state.items() if key in place_keys}
    own = {key: value for key, value in state.items() if key not in place_keys and key not in _STORED_ONLY}
    if not _is_known_format(state) or "place" in own:
        return None
    return cast("State | None", read_record("State", {**own, "place": place}))


def read_job_spec(data: JsonObject) -> JobSpec | None:
    """Read the content of a job.yaml."""
    return cast("JobSpec | None", read_record("JobSpec", data))


def read_command(name: str, recorded: JsonObject) -> RecordedCommand | None:
    """Read the command of an interaction, as the class of that name reads it."""
    return cast("RecordedCommand | None", read_record(name, recorded))


def _is_known_format(data: JsonObject) -> bool:
    return bool(data.get("version", JOB.version) == JOB.version)
