"""How times are written: in UTC for files and JSON, and in the time zone of this machine for people; how people type them; and a clock that
is never set."""

from __future__ import annotations

import re
import time

_DURATION = r"(?=.)" + "".join(rf"(?:([0-9]{{1,6}}){unit})?" for unit in "wdhms")
_TIME_OF_DAY = r"([01]?[0-9]|2[0-3]):([0-5][0-9])"
_DAY_MINUTES = 24 * 60
_QUARTER = 900
_SECONDS = (7 * 86_400, 86_400, 3_600, 60, 1)
"""Of the units of a duration, from weeks to seconds."""


def read_boot_clock() -> float:
    """Return the seconds since the machine was started, including those in which it was suspended."""
    # On macOS, the monotonic clock also counts while the machine is suspended; on Linux it does not.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


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


def parse_duration(text: str) -> int | None:
    """Return the seconds of `30m`, `2h`, `1h30m`, `3d` or `1w`; None for anything else."""
    match = re.fullmatch(_DURATION, text.strip())
    if match is None:
        return None
    return sum(int(number or 0) * seconds for number, seconds in zip(match.groups(), _SECONDS, strict=True))


def format_duration(seconds: float) -> str:
    """Return how long something took: `8h05m`, `4m10s`, `12s`."""
    whole = max(0, int(seconds))
    hours, minutes = whole // 3_600, whole // 60 % 60
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{whole % 60:02}s" if minutes else f"{whole}s"


def find_next_time(at: float, text: str) -> float | None:
    """Return when local clocks show a time of the day, `07:00`, next after `at`; None if the text is not such a time.

    A time that clocks skip in spring is the moment at which they skip it; one that they show twice in autumn is the first of
    the two that is still ahead.
    """
    found = re.fullmatch(_TIME_OF_DAY, text.strip())
    if found is None:
        return None
    wanted = int(found[1]) * 60 + int(found[2])
    moment = at // 60 * 60
    before = _find_local_minute(moment)
    while True:
        moment += 60
        minute = _find_local_minute(moment)
        advance = (minute - before) % _DAY_MINUTES  # 1, or more if clocks skip a part of the day
        is_skipped = 0 < (wanted - before) % _DAY_MINUTES <= advance < _DAY_MINUTES // 2
        if minute == wanted or is_skipped:
            return moment
        before = minute


def _find_local_minute(at: float) -> int:
    local = time.localtime(at)
    return local.tm_hour * 60 + local.tm_min


def parse_time(text: str) -> float | None:
    """Return a date or time in ISO format, local without a time zone, in seconds since 1970; None for anything else."""
    try:
        return _read_timestamp(text.strip())
    except (ValueError, OverflowError, OSError):
        return None


def _read_timestamp(text: str) -> float:
    from datetime import datetime  # noqa: PLC0415 - loading it takes a millisecond, which `job list` doesn't need

    return datetime.fromisoformat(text).timestamp()


def find_local_day(at: float, timezone: str | None = None) -> str:
    """Return the date of a time, `2026-11-26`, in a time zone such as `Europe/Berlin`; None: that of this machine."""
    if timezone is None:
        return time.strftime("%Y-%m-%d", time.localtime(at))
    from datetime import datetime  # noqa: PLC0415 - see below
    from zoneinfo import ZoneInfo  # noqa: PLC0415

    return datetime.fromtimestamp(at, ZoneInfo(timezone)).strftime("%Y-%m-%d")


def find_period_end(at: float, length: int, timezone: str | None = None) -> float:
    """Return when the local date changes next after `at`, as far as its first `length` characters: 7 for the month.

    In all time zones, clocks are set at a quarter of an hour. So this is right also for days of 23 and 25 hours, and for
    those without a midnight.
    """
    current = find_local_day(at, timezone)[:length]
    end = (at // _QUARTER + 1) * _QUARTER
    while find_local_day(end, timezone)[:length] == current:
        end += _QUARTER
    return end


def has_timezone(name: str) -> bool:
    """Whether this machine knows a time zone."""
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - few commands need it

    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True
