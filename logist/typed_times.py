"""Times that people type: a duration, or a local date or time."""

from __future__ import annotations

import re

_DURATION = re.compile(r"([0-9]{1,6})(m|h|d|w)")
_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def parse_duration(text: str) -> int | None:
    """Return the seconds of `30m`, `2h`, `3d` or `1w`; None for anything else."""
    found = _DURATION.fullmatch(text.strip())
    return int(found[1]) * _SECONDS[found[2]] if found else None


def parse_time(text: str) -> float | None:
    """Return a date or time in ISO format, local without a time zone, in seconds since 1970; None for anything else."""
    from datetime import datetime  # noqa: PLC0415 - a duration needs it not, and `job list` starts quickly

    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
