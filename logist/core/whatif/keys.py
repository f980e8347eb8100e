"""The rules that a person can change by name: `limits.attempts=2`, `review.mode=strict`, `Worker:read_files`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from logist.core.model import Approval, Permission, Permissions
from logist.errors import UsageError

Value = TypeVar("Value")

_TRUE, _FALSE = frozenset({"true", "yes", "on"}), frozenset({"false", "no", "off"})
_CHECK = re.compile(r"review\.checks\.(?P<name>.+)\.(?P<field>enabled|severity)")
_CAN = "can_"
NOTHING = "none"
"""Stands for no permission at all."""


def _amount(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _attempts(text: str) -> int | None:
    return _count(text) or None


def _truth(text: str) -> bool | None:
    word = text.casefold()
    return True if word in _TRUE else False if word in _FALSE else None


def _approval(text: str) -> Approval | None:
    known = _truth(text)
    if known is not None:
        return Approval.END if known else Approval.NONE
    word = text.casefold()
    return Approval(word) if word in set(Approval) else None


def _one_of(*words: str) -> Callable[[str], str | None]:
    return lambda text: text if text in words else None


_AMOUNT = "a number from 0 on"
_COUNT = "a whole number from 0 on"
_BOOLEAN = "true or false"
_READS: dict[str, tuple[Callable[[str], Any], str, str]] = {
    "limits.cost_threshold": (_amount, _AMOUNT, "US cents that a job may cost; short: limits.cost"),
    "limits.time_threshold_minutes": (_amount, _AMOUNT, "minutes of work; short: limits.minutes"),
    "limits.max_allowed_iterations": (_count, _COUNT, "runs of agents; short: limits.iterations"),
    "limits.max_attempts": (
        _attempts,
        "a whole number from 1 on",
        "attempts at a step; short: limits.attempts",
    ),
    "review.enabled": (_truth, _BOOLEAN, "whether a reviewer follows the doer; short: review"),
    "review.mode": (
        _one_of("strict", "normal", "yolo"),
        "strict, normal or yolo",
        "which findings send work back",
    ),
    "review.auto_merge": (_truth, _BOOLEAN, "whether work is merged by itself; short: auto_merge"),
    "approval": (_approval, "none, end, each, true or false", "when a steward has the last word"),
    "on_doubt": (_one_of("stuck", "retry"), "stuck or retry", "what follows a request of unknown outcome"),
    "response_format": (_one_of("json", "sections"), "json or sections", "how answers are read"),
}
_CHECK_READS: dict[str, tuple[Callable[[str], Any], str, str]] = {
    "enabled": (_truth, _BOOLEAN, "whether a review looks at it"),
    "severity": (_one_of("error", "warning"), "error or warning", "how grave it is"),
}
_SHORT = {
    "limits.cost": "limits.cost_threshold",
    "limits.minutes": "limits.time_threshold_minutes",
    "limits.iterations": "limits.max_allowed_iterations",
    "limits.attempts": "limits.max_attempts",
    "review": "review.enabled",
    "auto_merge": "review.auto_merge",
}
_LONG = {long: short for short, long in _SHORT.items()}
KEYS: Mapping[str, str] = {
    **{key: told for key, (_, _, told) in _READS.items()},
    **{f"review.checks.NAME.{field}": told for field, (_, _, told) in _CHECK_READS.items()},
}
"""What can be set, and what it is."""


def read_settings(given: Sequence[str]) -> dict[str, Any]:
    """`KEY=VALUE` each -> values by whole key. Raises UsageError for what is none of KEYS, or no value of it."""
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"{text!r} has no =", where="--set", fix="--set KEY=VALUE")
        key = _SHORT.get(name.strip(), name.strip())
        _put(found, key, _read(key, name.strip(), value.strip()), "--set")
    return found


def _put(found: dict[str, Value], key: str, value: Value, option: str) -> None:
    if key in found and found[key] != value:
        raise UsageError(f"`{_LONG.get(key, key)}` is given two values", where=option, fix="give it once")
    found[key] = value


def _read(key: str, name: str, text: str) -> Any:
    check = _CHECK.fullmatch(key)
    reads = _CHECK_READS[check["field"]] if check else _READS.get(key)
    if reads is None:
        fix = f"one of: {', '.join(_LONG.get(known, known) for known in KEYS)}"
        raise UsageError(f"there is no rule `{name}` that can be changed here", where="--set", fix=fix)
    value = reads[0](text)
    if value is None:
        raise UsageError(f"`{name}` takes {reads[1]}, not {text!r}", where="--set")
    return value


def check_of(key: str) -> tuple[str, str] | None:
    """The check and its field that a key is about."""
    found = _CHECK.fullmatch(key)
    return (found["name"], found["field"]) if found else None


def read_permissions(given: Sequence[str]) -> dict[str, Permissions]:
    """`ROLE:PERMISSION,PERMISSION` each, or `ROLE:none` -> permissions by role. Raises UsageError."""
    found: dict[str, Permissions] = {}
    for text in given:
        role, colon, names = text.rpartition(":")
        if not colon or not role.strip():
            fix = "as in --permissions Worker:read_files,write_files"
            raise UsageError(f"{text!r} names no role", where="--permissions", fix=fix)
        _put(found, role.strip(), _permissions(names), "--permissions")
    return found


def _permissions(names: str) -> Permissions:
    words = [word.strip().casefold().removeprefix(_CAN) for word in names.split(",") if word.strip()]
    if words == [NOTHING] or not names.strip():
        return Permissions()
    known = [permission.value for permission in Permission]
    for word in words:
        if word not in known:
            fix = f"of: {', '.join(known)}; or {NOTHING}"
            raise UsageError(f"there is no permission {word!r}", where="--permissions", fix=fix)
    return Permissions.from_names(words)
