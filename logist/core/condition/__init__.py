"""Conditions on branches and steps: evaluated without a model, and never executed as code.

A condition has one of these forms; the first one that fits counts:

1. An object: `{"var": "output.score", "gte": 80}`, with `and`, `or`, `not`, `unless` (see `objects`). `{}`
   and `true` always match, `false` never.
2. `field:v1,v2`: a name or path, a colon, values. It matches if the field of `output`, or the path with a
   known root, has one of the values.
3. An expression: outside quotes it has a comparison, `&&`, `||`, a leading `!`, `? :`, `in [` or a call; or
   it contains a path below a known root (`output.`, `output[`) and more than that path.
4. A path, `output.approved` or `steps["1.2"].output`: it matches if the value counts as true in JavaScript.
   A single name is a path if it is a known root.
5. Anything else is a plain word that is compared with `output.choice`, ignoring case and surrounding space:
   `Yes`, `Needs Fix`, `pass/fail`, `Don't merge`. Text in quotes is always a word: `'v1.2'`.

So `Yes` and `approved` are words, `output` and `output.x` are paths, `a.b` is an error (unknown root `a`), and
`>= 80` is an error (no value before the operator). The caller handles `default`.

Expressions work like JavaScript, with these differences, which leave unclear cases to a person:

- `==` is `===`, `!=` is `!==`; values of different types are never equal, lists and objects are compared by content.
- `<`, `>` between paths and constants work like JavaScript: `"85" >= 80` is true. Text that is not a number,
  arithmetic between different types or on null, and a missing field are errors. After an error the branch is not
  taken, and the error is recorded; only `&&` and `||` absorb it: `output.a > 1 || output.b` is true if `output.b` is.
  So `!output.x` is not taken if `x` is missing.
- null and undefined are the same: `output.x === null` tests whether there is no value, and is not an error.
- `(output.score || 0) >= 80` uses a default for a missing field.
- `in` finds an item of a list or a key of an object; `.includes` finds an item of a list or a part of a text.
- `%` by zero is an error. A number, text or list alone is neither true nor false. `a < b < c` is an error. A dash
  inside a name belongs to the name: write `a - b` with spaces.
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
"""The names in the data of every step; a caller adds the item variable and the fields of the task."""


def find_paths(form: Any, known_roots: Collection[str] = ROOTS) -> tuple[Path, ...]:
    """Return every path that a condition reads, in order. Raises ConditionError for an invalid condition."""
    reading = ConditionBuilder(frozenset(known_roots))
    reading.build_test(form)
    return tuple(reading.reader.paths)


def find_roots(form: Any, known_roots: Collection[str] = ROOTS) -> frozenset[str]:
    """Return the first names of the paths that a condition reads. Raises ConditionError for an invalid condition."""
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
