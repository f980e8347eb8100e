"""`@dataclass` like that of the standard library, but quick to define.

The standard one examines the fields and compiles up to six methods for each class: half a millisecond, or a tenth of a second
for the classes that one step loads, which is ten times the start of Python. Here, most classes that a command loads have no
instances, and most others have a few, so `__init__` is compiled for the sixth; what `dataclasses.fields` returns is built when
it is asked for; the other methods are the same functions for all classes. Type checkers see the standard one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from logist.quick_tuple import NamedTuple

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, kw_only=False, **options):
        """Make a class a dataclass; with other options than these, as the standard library does."""
        if options:
            return dataclasses.dataclass(cls, frozen=frozen, kw_only=kw_only, **options)
        if cls is None:
            return lambda cls: _define(cls, frozen=frozen, kw_only=kw_only)
        return _define(cls, frozen=frozen, kw_only=kw_only)


__all__ = ["dataclass"]

_MISSING: Any = dataclasses.MISSING
_SPECS = "_logist_fields"
"""The attribute of a class with its fields, also those it inherits: `_Spec` by name."""
_COMPARED = "_logist_compared"
"""The attribute of a class with the function that returns the tuple of an instance's values."""
_UNCOMPILED = 5
"""So many instances of a class are made without a compiled `__init__`: as long as that is less work."""
_RARE = ("InitVar", "KW_ONLY")
"""Kinds of annotations that are left to the standard library."""


class _Spec(NamedTuple):
    """A field: its annotation, its default or what `field()` has returned, and whether it must be named."""

    written: Any
    default: Any
    kw_only: bool

    def get(self, name: str, without: Any) -> Any:
        """Return what `field()` was given for this name."""
        return getattr(self.default, name) if isinstance(self.default, dataclasses.Field) else without


class _OnFirstUse:
    """An attribute of a class that is built when it is first read."""

    def __init__(self, cls: type, name: str, build: Callable[[type], Any]) -> None:
        self._cls, self._name, self._build = cls, name, build

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        value = self._build(self._cls)
        setattr(self._cls, self._name, value)
        return value.__get__(instance, owner) if hasattr(value, "__get__") else value


class _InitOnUse:
    """`__init__` of a class that is compiled when it pays: most classes of a command have one or two instances."""

    def __init__(self, cls: type) -> None:
        self._cls, self._uses = cls, 0

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        # From Python 3.13 on, inspect.signature asks with the class as the instance.
        if instance is not None and self._uses < _UNCOMPILED and not isinstance(instance, type):
            self._uses += 1
            return partial(_initialize, self, instance)
        return self.compile().__get__(instance, owner)

    def compile(self) -> Any:
        """Return the compiled function, which the class has from now on."""
        init = _compile_init(self._cls)
        if vars(self._cls).get("__init__") is self:
            self._cls.__init__ = init
        return init

    def find_values(self, positional: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any] | None:
        """Return the value of each field; None if the arguments are wrong."""
        values: dict[str, Any] = {}
        remaining = iter(positional)
        specs: dict[str, _Spec] = getattr(self._cls, _SPECS)
        for name, spec in specs.items():
            value = _MISSING
            is_argument = spec.get("init", True)
            if is_argument:
                value = _MISSING if spec.kw_only else next(remaining, _MISSING)
                if value is _MISSING:
                    value = named.pop(name, _MISSING)
            factory = spec.get("default_factory", _MISSING)
            if value is _MISSING and factory is not _MISSING:
                value = factory()
            elif value is _MISSING and is_argument:
                value = spec.get("default", spec.default)
            if value is not _MISSING:
                values[name] = value
            elif is_argument:
                return None
        return None if named or next(remaining, _MISSING) is not _MISSING else values


def _initialize(on_use: _InitOnUse, instance: Any, /, *positional: Any, **named: Any) -> None:
    values = on_use.find_values(positional, dict(named))
    if values is None:
        on_use.compile()(instance, *positional, **named)  # raises the usual error
        return
    instance.__dict__.update(values)
    if hasattr(instance, "__post_init__"):
        instance.__post_init__()


def _define(cls: type, *, frozen: bool, kw_only: bool) -> type:
    own = vars(cls)
    inherited: dict[str, _Spec] = {}
    for base in cls.__mro__[-1:0:-1]:
        inherited |= vars(base).get(_SPECS, {})
        if "__dataclass_fields__" in vars(base) and _SPECS not in vars(base):
            return dataclasses.dataclass(frozen=frozen, kw_only=kw_only)(cls)
    written = own.get("__annotations__", {})
    if any(rare in str(each) for each in written.values() for rare in _RARE):
        return dataclasses.dataclass(frozen=frozen, kw_only=kw_only)(cls)
    specs = inherited | {
        name: _Spec(each, own.get(name, _MISSING), kw_only)
        for name, each in written.items()
        if "ClassVar" not in str(each)
    }
    for name, spec in specs.items():
        if name in written and isinstance(spec.default, dataclasses.Field):
            _set_default(cls, name, spec.default)
        elif type(spec.default).__hash__ is None:
            raise ValueError(f"use default_factory: instances would share the default of {name}")
    _add_methods(cls, frozen=frozen)
    setattr(cls, _SPECS, specs)
    if "__init__" not in own:
        cls.__init__ = _InitOnUse(cls)  # type: ignore[misc]
    if "__match_args__" not in own:
        cls.__match_args__ = tuple(  # type: ignore[misc, attr-defined]
            name for name, spec in specs.items() if spec.get("init", True) and not spec.kw_only
        )
    for name, build in _BUILT:
        setattr(cls, name, _OnFirstUse(cls, name, build))
    return cls


def _set_default(cls: type, name: str, field: dataclasses.Field[Any]) -> None:
    """Replace what `field()` has returned by the default, in the class."""
    if field.default is _MISSING:
        delattr(cls, name)
    else:
        setattr(cls, name, field.default)


def _add_methods(cls: type, *, frozen: bool) -> None:
    own = vars(cls)
    hashes_itself = "__hash__" in own and not ("__eq__" in own and own["__hash__"] is None)
    methods: dict[str, Any] = {"__repr__": _represent, "__eq__": _is_equal}
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    if not hashes_itself:
        cls.__hash__ = _compute_hash if frozen else None  # type: ignore[assignment, method-assign]
    if not cls.__doc__:
        cls.__doc__ = cls.__name__


def _build_standard(cls: type) -> Any:
    """Return a class with the same own fields, as the standard library makes it."""
    written = vars(cls).get("__annotations__", {})
    specs = [(name, spec) for name, spec in getattr(cls, _SPECS).items() if name in written]
    fields = [
        (name, spec.written) if spec.default is _MISSING else (name, spec.written, spec.default)
        for name, spec in specs
    ]
    kw_only, frozen = any(spec.kw_only for _, spec in specs), vars(cls).get("__setattr__") is _refuse_to_set
    # Without a docstring, the standard library writes one from the signature, which takes longer than all else.
    return dataclasses.make_dataclass(
        cls.__name__,
        fields,
        namespace={"__doc__": cls.__name__},
        init=False,
        repr=False,
        eq=False,
        frozen=frozen,
        kw_only=kw_only,
    )


def _build_fields(cls: type) -> dict[str, dataclasses.Field[Any]]:
    """Return what `dataclasses.fields` and `replace` read; inherited fields are those of the base, as in the standard library."""
    found: dict[str, Any] = {}
    for base in cls.__mro__[-1:0:-1]:
        if _SPECS in vars(base):
            found |= base.__dataclass_fields__  # type: ignore[attr-defined]
    for name in vars(cls).get("__annotations__", {}):
        if spec := getattr(cls, _SPECS).get(name):
            found[name] = _complete_field(name, spec)
    return found


def _complete_field(name: str, spec: _Spec) -> Any:
    """Return a field as the decorator of the standard library leaves it."""
    own: Any = spec.default
    if not isinstance(own, dataclasses.Field):
        own = dataclasses.field(default=own)
    own.name, own.type, own._field_type = name, spec.written, dataclasses._FIELD  # type: ignore[attr-defined]
    if own.kw_only is _MISSING:
        own.kw_only = spec.kw_only
    return own


def _build_getter(cls: type) -> Any:
    """Return a function that returns the values that are compared as a tuple."""
    names = [name for name, spec in getattr(cls, _SPECS).items() if spec.get("compare", True)]
    if len(names) > 1:
        return staticmethod(attrgetter(*names))
    return staticmethod(lambda instance: tuple(getattr(instance, name) for name in names))


_BUILT: tuple[tuple[str, Callable[[type], Any]], ...] = (
    ("__dataclass_fields__", _build_fields),
    ("__dataclass_params__", lambda cls: _build_standard(cls).__dataclass_params__),
    (_COMPARED, _build_getter),
)


def _compile_init(cls: type) -> Any:
    """Compile `__init__`, which writes to the instance's dictionary, so that it also works for frozen classes."""
    positional = ["self"]
    named: list[str] = []
    lines: list[str] = []
    values: dict[str, Any] = {"_missing": _MISSING}
    specs: dict[str, _Spec] = getattr(cls, _SPECS)
    for name, spec in specs.items():
        factory = spec.get("default_factory", _MISSING)
        default = spec.get("default", spec.default)
        argument, value = name, name
        if factory is not _MISSING:
            values[f"_make_{name}"] = factory
            argument = f"{name}=_missing"
            value = f"_make_{name}() if {name} is _missing else {name}"
        elif default is not _MISSING:
            values[f"_default_{name}"] = default
            argument = f"{name}=_default_{name}"
        if spec.get("init", True):
            (named if spec.kw_only else positional).append(argument)
            lines.append(f"_instance[{name!r}] = {value}")
        elif factory is not _MISSING:
            lines.append(f"_instance[{name!r}] = _make_{name}()")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    arguments = ", ".join([*positional, *(["*", *named] if named else [])])
    body = "\n ".join(["_instance = self.__dict__", *lines])
    names: dict[str, Any] = {}
    exec(f"def __init__({arguments}):\n {body}", values, names)  # noqa: S102 - as dataclasses does
    init = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    written = {name: spec.written for name, spec in specs.items() if spec.get("init", True)}
    init.__annotations__ = written | {"return": None}
    return init


def _represent(self: Any) -> str:
    shown = ", ".join(
        f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr
    )
    return f"{type(self).__qualname__}({shown})"


def _is_equal(self: Any, other: object) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    values = getattr(type(self), _COMPARED)
    return values(self) == values(other)


def _compute_hash(self: Any) -> int:
    return hash(getattr(type(self), _COMPARED)(self))


def _refuse_to_set(self: Any, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
