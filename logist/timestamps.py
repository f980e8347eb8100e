"""How times are written: in UTC for files and JSON, and in the time zone of this machine for people."""

from __future__ import annotations

import time


def format_utc(at: float) -> str:
    """Return seconds since 1970 as files and JSON have them: `2026-11-26T09:29:48Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def format_local(at: float | str, *, with_seconds: bool = False) -> str:
    """Return a time, or a recorded timestamp, for people: `2026-11-26 10:29`, and `:48` with seconds.

    What is not a time is returned unchanged.
    """
    try:
        local = time.localtime(at if isinstance(at, (int, float)) else _read_timestamp(at))
    except (ValueError, OverflowError, OSError):
        return str(at)
    return time.strftime("%Y-%m-%d %H:%M:%S" if with_seconds else "%Y-%m-%d %H:%M", local)


def format_age(seconds: float) -> str:
    """Return how long ago something was, in its largest unit: `45s`, `12m`, `3h`, `5d`."""
    whole = max(0, int(seconds))
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if whole >= length:
            return f"{whole // length}{unit}"
    return f"{whole}s"


def _read_timestamp(text: str) -> float:
    from datetime import datetime  # noqa: PLC0415 - loading it takes a millisecond, which `job list` doesn't need

    return datetime.fromisoformat(text).timestamp()
