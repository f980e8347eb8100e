"""Durations as people type them: `45m`, `8h`, `30d`, `2w`."""

from __future__ import annotations

import re

DURATION = re.compile(r"([0-9]{1,6})(m|h|d|w)")
_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def parse_duration(text: str) -> int | None:
    """Return the seconds of a duration; None if the text is not one."""
    found = DURATION.fullmatch(text.strip())
    return int(found[1]) * _SECONDS[found[2]] if found else None
