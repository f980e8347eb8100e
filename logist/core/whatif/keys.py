"""The rules that a person can change by name: `limits.max_attempts=2`, `review.mode=strict`, `Worker:read_files`."""

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
"""Means: no permissions."""


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


_AMOUNT = "a number of at least 0"
_COUNT = "an integer of at least 0"
_BOOLEAN = "true or false"
_READS: dict[str, tuple[Callable[[str], Any], str, str]] = {
    "limits.cost_threshold": (_amount, _AMOUNT, "maximum cost of a job in US cents; short: limits.cost"),
    "limits.time_threshold_minutes": (
        _amount,
        _AMOUNT,
        "maximum working time in minutes; short: limits.minutes",
    ),
    "limits.max_allowed_iterations": (
        _count,
        _COUNT,
        "maximum number of agent runs; short: limits.iterations",
    ),
    "limits.max_attempts": (
        _attempts,
        "an integer of at least 1",
        "maximum number of attempts at a step; short: limits.attempts",
    ),
    "review.enabled": (_truth, _BOOLEAN, "whether a reviewer checks the work; short: review"),
    "review.mode": (
        _one_of("strict", "normal", "yolo"),
        "strict, normal or yolo",
        "which findings send the work back",
    ),
    "review.auto_merge": (_truth, _BOOLEAN, "whether work is merged automatically; short: auto_merge"),
    "approval": (_approval, "none, end, each, true or false", "when a steward must approve"),
    "on_doubt": (
        _one_of("stuck", "retry"),
        "stuck or retry",
        "what to do after a request with an unknown outcome",
    ),
    "response_format": (_one_of("json", "sections"), "json or sections", "format of the answers"),
}
_CHECK_READS: dict[str, tuple[Callable[[str], Any], str, str]] = {
    "enabled": (_truth, _BOOLEAN, "whether reviews include the check"),
    "severity": (_one_of("error", "warning"), "error or warning", "severity of its findings"),
}
_SHORT = {
    "limits.cost": "limits.cost_threshold",
    "limits.minutes": "limits.time_threshold_minutes",
    "limits.iterations": "limits.max_allowed_iterations",
    "limits.attempts": "limits.max_attempts",
    "review": "review.enabled",
    "auto_merge": "review.auto_merge",
}
KEYS: Mapping[str, str] = {
    **{key: told for key, (_, _, told) in _READS.items()},
    **{f"review.checks.NAME.{field}": told for field, (_, _, told) in _CHECK_READS.items()},
}
"""The settings that can be changed, with their descriptions."""


def read_settings(given: Sequence[str]) -> dict[str, Any]:
    """Parse `KEY=VALUE` texts.

    Return the values by full key. Raises UsageError for an unknown key or a bad value.
    """
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"{text!r} has no `=`", where="--set", fix="use --set KEY=VALUE")
        key = _SHORT.get(name.strip(), name.strip())
        _put(found, key, _read(key, name.strip(), value.strip()), "--set")
    return found


def _put(found: dict[str, Value], key: str, value: Value, option: str) -> None:
    if key in found and found[key] != value:
        raise UsageError(f"`{key}` has two different values", where=option, fix="set it only once")
    found[key] = value


def _read(key: str, name: str, text: str) -> Any:
    check = _CHECK.fullmatch(key)
    reads = _CHECK_READS[check["field"]] if check else _READS.get(key)
    if reads is None:
        fix = f"one of: {', '.join(KEYS)}"
        raise UsageError(f"unknown setting `{name}`", where="--set", fix=fix)
    value = reads[0](text)
    if value is None:
        raise UsageError(f"`{name}` must be {reads[1]}, not {text!r}", where="--set")
    return value


def check_of(key: str) -> tuple[str, str] | None:
    """Return the check and the field that a key sets; None for any other key."""
    found = _CHECK.fullmatch(key)
    return (found["name"], found["field"]) if found else None


def read_permissions(given: Sequence[str]) -> dict[str, Permissions]:
    """Parse `ROLE:PERMISSION,PERMISSION` or `ROLE:none` texts.

    Return the permissions by role. Raises UsageError.
    """
    found: dict[str, Permissions] = {}
    for text in given:
        role, colon, names = text.rpartition(":")
        if not colon or not role.strip():
            fix = "for example: --permissions Worker:read_files,write_files"
            raise UsageError(f"{text!r} has no `ROLE:` part", where="--permissions", fix=fix)
        _put(found, role.strip(), _permissions(names), "--permissions")
    return found


def _permissions(names: str) -> Permissions:
    words = [word.strip().casefold().removeprefix(_CAN) for word in names.split(",") if word.strip()]
    if words == [NOTHING] or not names.strip():
        return Permissions()
    known = [permission.value for permission in Permission]
    for word in words:
        if word not in known:
            fix = f"one of: {', '.join(known)}; or {NOTHING}"
            raise UsageError(f"unknown permission {word!r}", where="--permissions", fix=fix)
    return Permissions.from_names(words)
