"""Our `NamedTuple` makes the same classes as the one of the standard library."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import typing
from pathlib import Path
from typing import Any

import pytest

from logist import quick_tuple

STANDARD: Any = typing.NamedTuple
QUICK: Any = vars(quick_tuple)["NamedTuple"]


def define(base: Any) -> tuple[Any, Any, Any]:
    """A class with fields of each kind, one without fields, and one that inherits from the first."""

    class Values(base):  # type: ignore[misc]
        """With documentation."""

        first: int
        second: str = "b"
        third: tuple[int, ...] = ()
        constant = 7

        @property
        def double(self) -> int:
            return self.first * 2

        def __str__(self) -> str:
            return "own"

    class Empty(base):  # type: ignore[misc]
        pass

    class Derived(Values):
        __slots__ = ()

        def describe(self) -> str:
            return f"{type(self).__name__} {super().__str__()}"

    return Values, Empty, Derived


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((1, "x", (2,)), {}),
    ((1,), {"third": (5,)}),
    ((), {"second": "y", "first": 2}),
]
WRONG: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1, "a", (), 3), {}),
    ((1,), {"first": 2}),
    ((1,), {"other": 1}),
]


@pytest.mark.parametrize("number", [0, 2])
def test_instances_are_alike(number: int) -> None:
    ours, theirs = define(QUICK)[number], define(STANDARD)[number]
    for positional, named in CALLS:
        our, their = ours(*positional, **named), theirs(*positional, **named)
        assert our == their == tuple(our)
        assert hash(our) == hash(their)
        assert (repr(our), str(our), our.double) == (repr(their), str(their), their.double)
        assert (our.first, our.second, our.third) == tuple(our)
        assert our._asdict() == their._asdict()
        assert our._replace(second="z") == their._replace(second="z")
        assert type(our._replace(second="z")) is type(ours._make([1, "", ()])) is ours
        assert copy.deepcopy(our) == our
        assert not hasattr(our, "__dict__")
    for positional, named in WRONG:
        with pytest.raises(TypeError) as expected:
            theirs(*positional, **named)
        with pytest.raises(TypeError) as raised:
            ours(*positional, **named)
        assert str(raised.value) == str(expected.value)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_classes_are_alike(number: int) -> None:
    ours, theirs = define(QUICK)[number], define(STANDARD)[number]
    for name in ("_fields", "_field_defaults", "__match_args__", "__doc__", "__module__", "__qualname__"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
    assert type(ours) is type
    assert typing.get_type_hints(ours) == typing.get_type_hints(theirs)


def test_fields_can_not_be_set() -> None:
    value = define(QUICK)[0](1)
    with pytest.raises(AttributeError):
        value.first = 2
    with pytest.raises(AttributeError):
        value.other = 2


@pytest.mark.parametrize("base", [QUICK, STANDARD])
def test_what_is_wrong_is_refused(base: Any) -> None:
    kind = define(base)[0]
    with pytest.raises((ValueError, TypeError), match=r"Got unexpected field names: \['other'\]"):
        kind(1)._replace(other=1)
    with pytest.raises(TypeError, match="Expected 3 arguments, got 1"):
        kind._make([1])
    with pytest.raises(TypeError):

        class Wrong(base):  # type: ignore[misc]
            first: int = 1
            second: str


class Pair(quick_tuple.NamedTuple):
    """Is found by its name when it is unpickled."""

    left: int
    right: str = ""


def test_pickling() -> None:
    assert pickle.loads(pickle.dumps(Pair(1, "x"))) == Pair(1, "x")


def test_matching() -> None:
    match Pair(1, "x"):
        case Pair(1, right):
            assert right == "x"
        case _:
            pytest.fail("no match")


def test_our_own_named_tuples_are_quick() -> None:
    package = Path(quick_tuple.__file__).parent
    slow = [
        path.name
        for path in package.rglob("*.py")
        if re.search(r"from typing import .*\bNamedTuple", path.read_text("utf-8"))
    ]
    assert slow == ["quick_tuple.py"]
