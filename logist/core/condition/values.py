"""How conditions treat JSON values: truth, equality, types, order and arithmetic.

Every number is a float here, as in JavaScript: 80 and 80.0 are the same number.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any

from logist.core.condition.fault import Unusable
from logist.core.text import paths

MAX_SHOWN = 200
"""The maximum length of one value in a verdict, in characters."""
MAX_JOINED = 10_000
"""The maximum length of a text that `+` joins, in characters."""
MAX_MEMBERS = 10_000
"""The maximum number of values in a list or object that is compared."""
MAX_NESTING = 50
_WHOLE = 1e21
"""JavaScript writes numbers from here on with an exponent."""
_MAX_QUOTIENT = 2.0**63
"""The limit of the quotient in `%`."""
_DECIMAL = re.compile(r"[+-]?(?:Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)", re.ASCII)
_PREFIXED = re.compile(r"0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+")
_ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def describe_kind(value: Any) -> str:
    """Return the type of a value in words."""
    if value is paths.MISSING:
        return "missing"
    if value is None:
        return "null"
    for types, word in (
        (bool, "true or false"),
        (int | float, "a number"),
        (str, "text"),
        (list | tuple, "a list"),
        (dict, "an object"),
    ):
        if isinstance(value, types):
            return word
    return f"a {type(value).__name__}"


def is_truthy(value: Any) -> bool:
    """Whether a value is true in JavaScript: "", 0, NaN, null and false are false; every list or object is true."""
    if isinstance(value, list | tuple | dict):
        return True
    if isinstance(value, float) and math.isnan(value):
        return False
    return isinstance(value, str | int | float) and bool(value)


def to_float(value: int | float) -> float:
    """Return the number as a float; infinite if it is too large for a float."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def to_plain(value: Any) -> Any:
    """Return the value with numbers as floats and tuples as lists. Raises Unusable if it is too large or not JSON."""
    if isinstance(value, list | tuple | dict):
        return _copy_container(value, [0], 0)
    return _convert_scalar(value)


def _copy_container(value: Any, count: list[int], depth: int) -> Any:
    """Copy a list or object; `count` is the shared counter of all members."""
    count[0] += 1
    if count[0] > MAX_MEMBERS or depth > MAX_NESTING:
        raise Unusable("is too large to compare")
    if isinstance(value, dict):
        return {
            _convert_scalar(str(key)): _copy_container(item, count, depth + 1) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_copy_container(item, count, depth + 1) for item in value]
    return _convert_scalar(value)


def _convert_scalar(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return to_float(value)
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise Unusable("is not valid Unicode text")
        return value
    raise Unusable(f"is {describe_kind(value)}, which is not JSON")


def to_term(value: Any) -> Any:
    """Return a value to calculate with: a number, or a text for `+` to join."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Unusable(f"is {describe_kind(value)}, not a number")
    if isinstance(value, str) and len(value) > MAX_JOINED:
        raise Unusable(f"is too long to join: {len(value):,} characters")
    return to_plain(value)


def lookup_of_earlier_versions(data: Any, path: paths.Path) -> Any:
    """Look up a path by the rules of earlier versions: `.length` of text counts characters instead of UTF-16 units,
    and that of an object counts its keys.
    """
    value = paths.lookup(data, path)
    if path and path[-1] == "length":
        holder = paths.lookup(data, path[:-1])
        if isinstance(holder, str) or (isinstance(holder, dict) and "length" not in holder):
            return len(holder)
    return value


def _encode_units(text: str) -> bytes:
    """Encode text as the UTF-16 units by which JavaScript orders and counts it."""
    return text.encode("utf-16-be", "surrogatepass")


def to_primitive(value: Any) -> Any:
    """Return what JavaScript uses to order a value: the text of a list or object, else the value itself."""
    return join_as_text(value, [0], 0) if isinstance(value, list | tuple | dict) else value


def join_as_text(value: Any, count: list[int], depth: int) -> str:
    """Convert a value to text as JavaScript does; `count` is the shared counter of all members."""
    count[0] += 1
    if count[0] > MAX_MEMBERS or depth > MAX_NESTING:
        raise Unusable("is too large to compare")
    if isinstance(value, list | tuple):
        return ",".join("" if item is None else join_as_text(item, count, depth + 1) for item in value)
    if isinstance(value, dict):
        return "[object Object]"
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE:
        return str(int(value))
    return value if isinstance(value, str) else paths.format_value(value)


def to_number(value: Any) -> float:
    """Convert a primitive to a number as JavaScript does: null is 0, text is parsed; NaN if it is not a number."""
    if value is None:
        return 0.0
    if isinstance(value, int | float):
        return to_float(value)
    text = value.strip() if isinstance(value, str) else "none"
    if not text:
        return 0.0
    if len(text) <= MAX_SHOWN and _DECIMAL.fullmatch(text):
        return float(text)
    if len(text) <= MAX_SHOWN and _PREFIXED.fullmatch(text):
        return to_float(int(text, 0))
    return math.nan


def is_ordered_in_javascript(sign: str, one: Any, other: Any) -> bool:
    """Whether `one SIGN other` is true for primitives: two texts are ordered by UTF-16 units, all else as numbers.

    Raises Unusable if text can't be converted to a number; JavaScript treats that as false, even under a `!`.
    """
    if isinstance(one, str) and isinstance(other, str):
        return bool(_ORDERS[sign](_encode_units(one), _encode_units(other)))
    left, right = to_number(one), to_number(other)
    for value, number_of in ((one, left), (other, right)):
        if isinstance(value, str) and math.isnan(number_of):
            raise Unusable
    return bool(_ORDERS[sign](left, right))


def is_ordered(sign: str, one: Any, other: Any) -> bool:
    """Whether `one SIGN other` is true for two numbers, two texts or two booleans. Raises Unusable for other values."""
    for kind_of_both in (float, str, bool):
        if isinstance(one, kind_of_both) and isinstance(other, kind_of_both):
            return bool(_ORDERS[sign](one, other))
    raise Unusable


def is_equal(one: Any, other: Any) -> bool:
    """Whether two plain values are equal; values of different types are not, and NaN equals nothing."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_equal(value, other[key]) for key, value in one.items())
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other  # for Python, True equals 1.0
    return bool(one == other)


def is_member(item: Any, holder: Any) -> bool:
    """Whether a plain value is an item of a list, or a key of an object."""
    if isinstance(holder, list):
        return any(is_equal(item, member) for member in holder)
    if isinstance(holder, dict) and isinstance(item, str | float | bool):
        return isinstance(item, str) and item in holder
    raise Unusable


def call_function(function: str, holder: Any, argument: Any) -> bool:
    """Compute `holder.function(argument)` for plain values: `includes`, `startsWith` or `endsWith`."""
    if function == "includes" and isinstance(holder, list):
        return is_member(argument, holder)
    if not isinstance(holder, str) or not isinstance(argument, str):
        raise Unusable
    if function == "includes":
        return argument in holder
    return holder.startswith(argument) if function == "startsWith" else holder.endswith(argument)


def calculate_result(sign: str, one: Any, other: Any) -> Any:
    """Compute `one SIGN other` for two numbers; `+` also joins two texts or two lists. Raises Unusable for others."""
    if isinstance(one, float) and isinstance(other, float):
        return _CALCULATIONS[sign](one, other)
    if sign == "+" and isinstance(one, str) and isinstance(other, str):
        return one + other
    if sign == "+" and isinstance(one, list) and isinstance(other, list):
        return one + other
    raise Unusable


def _divide_floats(one: float, other: float) -> float:
    """Divide as in JavaScript, which allows division by zero."""
    if other:
        return one / other
    return math.nan if not one or math.isnan(one) else math.copysign(math.inf, one) * math.copysign(1, other)


def _take_remainder(one: float, other: float) -> float:
    """Return the remainder, with the sign of `one`. Raises Unusable if the quotient is infinite or very large."""
    quotient = _divide_floats(one, other)
    if not abs(quotient) < _MAX_QUOTIENT:
        raise Unusable
    return one - other * float(math.trunc(quotient))


_CALCULATIONS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide_floats,
    "%": _take_remainder,
}


def fold_text(text: str) -> str:
    """Normalize text for comparing words: ignore case, and surrounding and repeated space."""
    return " ".join(text.split()).casefold()


def is_alike(one: Any, other: Any) -> bool:
    """Whether two values count as the same for a label.

    Texts are compared ignoring case and surrounding space. "80" equals the number 80; "true" and "yes" equal
    true, "false" and "no" equal false. Everything else must be equal.
    """
    if isinstance(one, str) and isinstance(other, str):
        return fold_text(one) == fold_text(other)
    if isinstance(one, str) or isinstance(other, str):
        text, value = (one, other) if isinstance(one, str) else (other, one)
        return _is_spelled(fold_text(text), value)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(is_alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_alike(one[key], other[key]) for key in one)
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def _is_spelled(text: str, value: Any) -> bool:
    if isinstance(value, bool):
        return text in (("true", "yes") if value else ("false", "no"))
    if not isinstance(value, int | float) or len(text) > MAX_SHOWN:
        return False
    try:
        return float(text) == to_float(value)
    except ValueError:
        return False


def shorten_value(value: Any) -> Any:
    """Return the value as a verdict records it: unchanged if it is small JSON, else as shortened text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        clean = value[: MAX_SHOWN + 1].encode("utf-8", "backslashreplace").decode("utf-8")
        return clean if len(clean) <= MAX_SHOWN else f"{clean[:MAX_SHOWN]}..."
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    text = paths.format_value(value, MAX_SHOWN)
    if not isinstance(value, list | tuple | dict):
        return value if isinstance(value, int | float) and len(text) <= MAX_SHOWN else text
    if text[0] not in "[{":
        return f"{describe_kind(value)} that is not JSON"
    if len(text) <= MAX_SHOWN:
        return _shorten_members(value)
    return f"{describe_kind(value)} of {len(value):,}: {text}".encode("utf-8", "backslashreplace").decode(
        "utf-8"
    )


def _shorten_members(value: Any) -> Any:
    """Copy a list or object whose JSON is known to be short, so recursion is safe."""
    if isinstance(value, dict):
        return {shorten_value(str(key)): _shorten_members(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shorten_members(item) for item in value]
    return shorten_value(value)
