"""Compiles and evaluates CEL. A program knows the names v0, v1, ... and nothing else: every value comes in by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]

from logist.core.condition.fault import ConditionError

MAX_CHARACTERS = 20_000
"""Of one program."""
_NAME = re.compile(r"\bv[0-9]+\b")
_TOO_DEEP = re.compile("recursion", re.IGNORECASE)


class Faulty(Exception):
    """A program that came to an error; `name` is the value it lacked, if that was it."""

    def __init__(self, name: str | None) -> None:
        super().__init__(name)
        self.name = name


@lru_cache(maxsize=256)
def compiled(program: str, names: int) -> Any:
    """The program over v0 ... v<names-1>, ready to run. ConditionError for one that CEL does not take."""
    if len(program) > MAX_CHARACTERS:
        raise ConditionError("the condition is too long: take it apart into several decisions")
    try:
        return _environment(names).compile(program)
    except RuntimeError as error:
        if _TOO_DEEP.search(str(error)):
            raise ConditionError("the condition is nested too deep") from None
        raise ConditionError("the condition compares or calculates with what it can't") from None


@lru_cache(maxsize=32)
def _environment(names: int) -> Any:
    return cel.NewEnv(variables={f"v{place}": cel.Type.DYN for place in range(names)})


def judged(program: Any, values: Mapping[str, Any]) -> bool:
    """Whether the program holds for these values. Faulty if it comes to an error."""
    try:
        result = program.eval(data=values)
        kind, value = result.type().name(), result.value()
    except (RuntimeError, ValueError, TypeError, OverflowError) as error:
        raise Faulty(None) from error
    if kind != "BOOL":
        found = _NAME.search(str(value))
        raise Faulty(found[0] if found else None)
    return bool(value)
