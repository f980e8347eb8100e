"""Conditions on branches and steps: never run as code, judged without a model.

A condition comes in one of these forms; the first that fits is taken:

1. An object: `{"var": "output.score", "gte": 80}`, with `and`, `or`, `not`, `unless` (see `objects`). `{}`
   and `true` always hold, `false` never.
2. `field:v1,v2`: a name or path, a colon, values. A field of `output`, or a path with a known root, is one of
   them.
3. An expression: outside quotes it has a comparison, `&&`, `||`, a leading `!`, `? :`, `in [` or a call; or
   it leads into a known root (`output.`, `output[`) and is more than that one path.
4. A path, `output.approved` or `steps["1.2"].output`: whether it counts as true, as in JavaScript. One bare
   name is a path if it is a known root.
5. Anything else is a plain word that `output.choice` equals but for case and surrounding space: `Yes`, `Needs
   Fix`, `pass/fail`, `Don't merge`. In quotes it is a word in any case: `'v1.2'`.

So `Yes` and `approved` are words, `output` is a path, `output.x` is a path, `a.b` is an error (unknown root
`a`), and `>= 80` is an error (nothing before the sign). `default` is for the caller.

Expressions are JavaScript's where a branch needs it, with these differences, all on the side of asking a
person:

- `==` is `===`, `!=` is `!==`; values of different types are never equal, lists and objects are equal by what they hold.
- `<`, `>` between paths and constants are JavaScript's: `"85" >= 80` holds. Where that makes no number of a text, and
  for arithmetic between different types, or on null, it is an error. So is a missing field. An error counts as
  not taken and is recorded; only `&&` and `||` absorb it: `output.a > 1 || output.b` is true when `output.b` is.
  Hence `!output.x` is not taken where `x` is missing.
- null and undefined are one: `output.x === null` asks whether there is no value, and is no error.
- `(output.score || 0) >= 80` gives a missing field a default.
- `in` asks for a member of a list or a key of an object; `.includes` for a member of a list or a part of a text.
- `%` by zero is an error. A number, text or list alone is no yes or no. `a < b < c` is refused. A dash inside a name belongs to the name:
  write `a - b` with spaces.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from logist.core.condition.expression import FUNCTIONS
from logist.core.condition.fault import ConditionError
from logist.core.condition.forms import CHOICE, ConditionBuilder
from logist.core.condition.judging import Condition, ConditionVerdict, compile_condition
from logist.core.condition.rendering import render_condition
from logist.core.condition.values import describe_kind
from logist.core.text.paths import Path

ROOTS = frozenset({"input", "output", "steps", "index", "total", "parentId", "aggregatedResults"})
"""The names that stand in the data of every step; a caller adds the item variable and the fields of the task."""


def find_paths(form: Any, known_roots: Collection[str] = ROOTS) -> tuple[Path, ...]:
    """Every path that a condition reads, in order. ConditionError if the condition is invalid."""
    reading = ConditionBuilder(frozenset(known_roots))
    reading.build_test(form)
    return tuple(reading.reader.paths)


def find_roots(form: Any, known_roots: Collection[str] = ROOTS) -> frozenset[str]:
    """The first names of the paths that a condition reads. ConditionError if the condition is invalid."""
    return frozenset(str(path[0]) for path in find_paths(form, known_roots) if path)


__all__ = [
    "CHOICE",
    "FUNCTIONS",
    "ROOTS",
    "Condition",
    "ConditionError",
    "ConditionVerdict",
    "compile_condition",
    "describe_kind",
    "find_paths",
    "find_roots",
    "render_condition",
]
