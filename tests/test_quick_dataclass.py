"""Our `@dataclass` makes the same classes as the one of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, field, replace
from typing import Any, ClassVar

import pytest

from logist import quick_dataclass

STANDARD: Any = dataclasses.dataclass
QUICK: Any = vars(quick_dataclass)["dataclass"]


def define(decorate: Any, **options: Any) -> Any:
    """A class with a field of each kind, and one that inherits from it."""

    class Base:
        """With documentation."""

        common: ClassVar[int] = 7
        first: int
        second: str = "b"
        third: list[int] = field(default_factory=list)
        hidden: int = field(default=3, repr=False, compare=False)
        made: list[str] = field(default_factory=lambda: ["made"], init=False)

        def __post_init__(self) -> None:
            self.made.append("later")

    base = decorate(Base, **options)

    class Derived(base):  # type: ignore[misc, valid-type]
        fourth: tuple[int, ...] = ()
        second: str = "c"

        def __repr__(self) -> str:
            return "own"

    return base, decorate(Derived, **options)


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((1, "x", [2]), {}),
    ((1,), {"third": [5], "hidden": 9}),
    ((), {"first": 2, "second": "y"}),
]
WRONG: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1, "a", [], 3, 4, 5), {}),
    ((1,), {"made": []}),
    ((1,), {"other": 1}),
]


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("number", [0, 1])
def test_instances_are_alike(frozen: bool, number: int) -> None:
    ours, theirs = (define(each, frozen=frozen)[number] for each in (QUICK, STANDARD))
    for positional, named in CALLS:
        our, their = ours(*positional, **named), theirs(*positional, **named)
        assert vars(our) == vars(their)
        assert repr(our) == repr(their)
        assert our == ours(*positional, **named)
        assert (our == ours(1, hidden=99)) == (their == theirs(1, hidden=99))
        assert (our == ours(99)) is (their == theirs(99)) is False
        assert our.__eq__(their) is NotImplemented
        assert vars(replace(our, first=5)) == vars(replace(their, first=5))
        assert dataclasses.asdict(our) == dataclasses.asdict(their)
        assert vars(copy.deepcopy(our)) == vars(our)
    for positional, named in WRONG:
        with pytest.raises(TypeError):
            ours(*positional, **named)
    described = [(each.name, each.type, each.init, each.compare) for each in dataclasses.fields(ours)]
    assert described == [
        (each.name, each.type, each.init, each.compare) for each in dataclasses.fields(theirs)
    ]
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
    assert ours.__match_args__ == theirs.__match_args__


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("named_only", [False, True])
def test_the_first_instances_are_like_all_others(frozen: bool, number: int, named_only: bool) -> None:
    """`__init__` is compiled after a few; then it is a function in the class."""
    options = {"frozen": frozen, "kw_only": named_only}
    kind, standard = (define(each, **options)[number] for each in (QUICK, STANDARD))
    calls = [call for call in CALLS if not (named_only and call[0])]
    expected = [vars(standard(*positional, **named)) for positional, named in calls]
    for _ in range(2 * quick_dataclass._UNCOMPILED):
        assert [vars(kind(*positional, **named)) for positional, named in calls] == expected
    assert callable(vars(kind)["__init__"])
    assert list(vars(kind(first=1))) == list(vars(standard(first=1)))


@pytest.mark.parametrize(("positional", "named"), WRONG)
def test_the_first_instance_reports_wrong_arguments(
    positional: tuple[Any, ...], named: dict[str, Any]
) -> None:
    kind, standard = (define(each)[1] for each in (QUICK, STANDARD))
    with pytest.raises(TypeError) as expected:
        standard(*positional, **named)
    with pytest.raises(TypeError) as raised:
        kind(*positional, **named)
    assert str(raised.value) == str(expected.value)


def test_a_default_list_is_not_shared() -> None:
    kind, _ = define(QUICK)
    assert kind(1).third is not kind(1).third


def test_a_frozen_instance_can_not_be_changed() -> None:
    kind, _ = define(QUICK, frozen=True)
    instance = kind(1)
    with pytest.raises(FrozenInstanceError, match="assign to field 'first'"):
        instance.first = 2
    with pytest.raises(FrozenInstanceError, match="delete field 'first'"):
        del instance.first
    plain, _ = define(QUICK)
    instance = plain(1)
    instance.first = 2
    assert instance.first == 2


@quick_dataclass.dataclass(frozen=True)
class Pair:
    """Two values that can be hashed; the names are also those of variables in our code."""

    values: int
    name: str = ""


@quick_dataclass.dataclass
class Open:
    """Can be changed, so it has no hash."""

    left: int


def test_hashes_follow_equality() -> None:
    assert len({Pair(1), Pair(1, ""), Pair(2)}) == 2
    assert pickle.loads(pickle.dumps(Pair(1, "x"))) == Pair(1, "x")
    with pytest.raises(TypeError, match="unhashable"):
        hash(Open(1))


def test_own_methods_stay() -> None:
    def define_own(decorate: Any) -> Any:
        class Own:
            value: int

            def __eq__(self, other: object) -> bool:
                return True

            def __hash__(self) -> int:
                return 5

        return decorate(Own, frozen=True)

    for decorate in (QUICK, STANDARD):
        kind = define_own(decorate)
        assert kind(1) == kind(2)
        assert hash(kind(1)) == 5


@pytest.mark.parametrize("options", [{"slots": True}, {"kw_only": True}, {"frozen": True, "repr": False}])
def test_other_options_mean_the_same(options: dict[str, bool]) -> None:
    class Kind:
        value: int

    kind = QUICK(Kind, **options)
    assert kind(value=1) == kind(value=1)
    assert hasattr(kind(value=1), "__dict__") != options.get("slots", False)
    assert ("value=1" in repr(kind(value=1))) == options.get("repr", True)


@pytest.mark.parametrize("decorate", [QUICK, STANDARD])
def test_named_fields_and_inherited_ones_mix(decorate: Any) -> None:
    class Base:
        first: int
        second: int = 2

    base = decorate(Base)

    class Named(base):  # type: ignore[misc, valid-type]
        third: int
        made: list[int] = field(default_factory=list)

        def __init_subclass__(cls) -> None:
            """Allow classes below."""

    kind = decorate(Named, kw_only=True)
    assert str(inspect.signature(kind)).startswith("(first: 'int', second: 'int' = 2, *, third: 'int', made")
    assert kind.__match_args__ == ("first", "second")
    assert vars(kind(1, third=3)) == {"first": 1, "second": 2, "third": 3, "made": []}
    with pytest.raises(TypeError, match="positional"):
        kind(1, 2, 3)
    assert [each.kw_only for each in dataclasses.fields(kind)] == [False, False, True, True]
    with pytest.raises(ValueError, match="default_factory"):
        decorate(type("Shared", (), {"__annotations__": {"some": "list"}, "some": []}))


@pytest.mark.parametrize("decorate", [QUICK, STANDARD])
def test_a_subclass_calls_the_first_init(decorate: Any) -> None:
    class Base:
        first: int

    base = decorate(Base)

    class Plain(base):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            super().__init__(1)

    assert vars(Plain()) == {"first": 1}
    assert decorate(type("Below", (base,), {}))(5).first == 5


def test_a_standard_dataclass_can_inherit() -> None:
    class Base:
        first: int

    class Below(QUICK(Base, frozen=True)):  # type: ignore[misc]
        second: int = 0

    kind = dataclasses.dataclass(frozen=True)(Below)
    assert vars(kind(1)) == {"first": 1, "second": 0}
    with pytest.raises(TypeError, match="frozen"):
        dataclasses.dataclass(type("Other", (QUICK(Base, frozen=True),), {}))
