"""`NamedTuple` like that of the standard library, but quick to define.

The standard one compiles each annotation and a function for each class: 0.1 ms, and a step loads 60 such classes. Here,
`__new__` is compiled for the sixth instance, and the other methods are the same functions for all classes. Type checkers
see the standard one.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from collections import _tuplegetter  # in C: reads a field as quickly as in the standard tuples

    _UNCOMPILED = 5
    """So many instances of a class are made without a compiled `__new__`: as long as that is less work."""

    class _Values(tuple):
        """What all our named tuples inherit."""

        __slots__ = ()

        @classmethod
        def _make(cls, values: Iterable[Any]) -> Self:
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **changed: Any) -> Self:
            replaced = self._make(map(changed.pop, self._fields, self))
            if changed:
                raise ValueError(f"Got unexpected field names: {[*changed]!r}")
            return replaced

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            shown = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({shown})"

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

        __replace__ = _replace  # for `copy.replace`, since Python 3.13

    class _NewOnUse:
        """`__new__` of a class that is compiled when it pays: most classes of a command have one or two instances."""

        def __init__(self) -> None:
            self._uses = 0

        def __set_name__(self, cls: type, name: str) -> None:
            self._cls = cls

        def __call__(self, made_class: type, /, *values: Any, **named: Any) -> Any:
            self._uses += 1
            if self._uses > _UNCOMPILED or (every := self._find_values(values, named)) is None:
                return self._compile()(
                    made_class, *values, **named
                )  # raises the usual error if they are wrong
            return tuple.__new__(made_class, every)

        def _find_values(self, values: tuple[Any, ...], named: Mapping[str, Any]) -> Sequence[Any] | None:
            """Return the value of each field; None if the arguments are wrong."""
            fields: tuple[str, ...] = self._cls._fields
            given = {**self._cls._field_defaults, **named}
            later = fields[len(values) :]
            if not given.keys() >= {*later} or not {*later} >= named.keys() or len(values) > len(fields):
                return None
            return [*values, *map(given.__getitem__, later)] if later else values

        @property
        def __signature__(self) -> Any:
            return inspect.signature(self._compile())

        def _compile(self) -> Any:
            cls = self._cls
            new = _compile_new(cls._fields, cls._field_defaults)
            new.__qualname__ = f"{cls.__name__}.__new__"
            new.__module__ = cls.__module__
            cls.__new__ = staticmethod(new)
            return new

    def _compile_new(fields: tuple[str, ...], defaults: Mapping[str, Any]) -> Any:
        names = ", ".join(fields)
        written = f"lambda _cls, {names}: _make_tuple(_cls, ({names}{',' if fields else ''}))"
        new = eval(written, {"_make_tuple": tuple.__new__, "__builtins__": {}})  # noqa: S307 - as namedtuple does
        new.__defaults__ = tuple(defaults.values())
        return new

    class _Definition(type):
        """Turns the body of a class into a named tuple."""

        def __new__(mcs, name, bases, namespace):
            fields = tuple(namespace.get("__annotations__", ()))
            defaults = {field: namespace.pop(field) for field in fields if field in namespace}
            if defaults and fields[-len(defaults) :] != tuple(defaults):
                raise TypeError(f"{name}: a field without a default follows one that has a default")
            namespace |= {field: _tuplegetter(index, field) for index, field in enumerate(fields)}
            own = {"__slots__": (), "_fields": fields, "_field_defaults": defaults, "__match_args__": fields}
            namespace.setdefault("__doc__", f"{name}({', '.join(fields)})")
            return type(name, (_Values,), namespace | own | {"__new__": _NewOnUse()})

    NamedTuple = type.__new__(_Definition, "NamedTuple", (), {})


__all__ = ["NamedTuple"]
