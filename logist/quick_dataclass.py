"""`@dataclass` like that of the standard library, but quick to define.

The standard one compiles up to six methods for each class: half a millisecond, or a tenth of a second for the classes that
one step loads, which is ten times the start of Python. This one compiles only `__init__`; the other methods are the same
functions for all classes. Type checkers see the standard one.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, **options):
        """Make a class a dataclass; with other options than `frozen`, as the standard library does."""
        if slots or options:
            return dataclasses.dataclass(cls, frozen=frozen, slots=slots, **options)
        if cls is None:
            return lambda cls: _define(cls, frozen=frozen)
        return _define(cls, frozen=frozen)


__all__ = ["dataclass"]

_COMPARED = "_logist_compared"
"""The attribute of a class with the function that returns the tuple of an instance's values."""


def _define(cls: type, *, frozen: bool) -> type:
    if hasattr(cls, "__dataclass_fields__"):  # it inherits fields: few classes do
        return dataclasses.dataclass(frozen=frozen)(cls)
    own = vars(cls)
    if not cls.__doc__:
        cls.__doc__ = cls.__name__  # the standard decorator would describe the signature, which takes long
    hashes_itself = "__hash__" in own and not ("__eq__" in own and own["__hash__"] is None)
    dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    cls.__dataclass_params__.frozen = frozen  # type: ignore[attr-defined]
    fields = dataclasses.fields(cls)
    methods = {"__repr__": _represent, "__eq__": _is_equal}
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    if not hashes_itself:
        cls.__hash__ = _compute_hash if frozen else None  # type: ignore[assignment,method-assign]
    if "__init__" not in own:
        cls.__init__ = _compile_init(cls, fields)  # type: ignore[misc]
    setattr(cls, _COMPARED, staticmethod(_build_getter([each.name for each in fields if each.compare])))
    return cls


def _build_getter(names: list[str]) -> Any:
    """Return a function that returns the values of these attributes as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda instance: tuple(getattr(instance, name) for name in names)


def _compile_init(cls: type, fields: tuple[dataclasses.Field[Any], ...]) -> Any:
    """Compile `__init__`, which writes to the instance's dictionary, so that it also works for frozen classes."""
    missing = dataclasses.MISSING
    arguments, lines = ["self"], []
    values: dict[str, Any] = {"_missing": missing}
    for field in fields:
        name, value = field.name, field.name
        if field.default_factory is not missing:
            values[f"_make_{name}"] = field.default_factory
            value = f"_make_{name}() if {name} is _missing else {name}" if field.init else f"_make_{name}()"
            default = "=_missing"
        elif field.default is not missing:
            values[f"_default_{name}"] = field.default
            default = f"=_default_{name}"
        else:
            default = ""
        if field.init:
            arguments.append(name + default)
            lines.append(f"_instance[{name!r}] = {value}")
        elif field.default_factory is not missing:
            lines.append(f"_instance[{name!r}] = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n ".join(["_instance = self.__dict__", *lines])
    names: dict[str, Any] = {}
    exec(f"def __init__({', '.join(arguments)}):\n {body}", values, names)  # noqa: S102 - as dataclasses does
    init = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    init.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
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
