"""provider-wait.json: until when a job waits because its provider is not available, or a budget is used up.

Deleting it is harmless: the next step tries again at once. Has few imports, because `job list` reads it.
"""

from __future__ import annotations

import json
import math
import time
from typing import Any

from logist.quick_tuple import NamedTuple
from logist.regular_files import read_regular
from logist.store import WAIT
from logist.timestamps import format_utc

LONGEST_PAUSE = 366 * 86400.0
"""Seconds; a longer pause was not written by Logist."""
USED_UP, RESERVED = "used up", "reserved"
"""Why a job waits for a budget; `RESERVED`: only calls that have no answer yet prevent the next one."""
SHOW_BUDGETS, RUN_AGAIN = "logist budget show", "logist run"
_MOST_BYTES = 1 << 14
_LONGEST_TEXT = 500
_MOST_NUMBER = 1 << 53


class ProviderWait(NamedTuple):
    """Why a job waits for its provider or for a budget, and until when."""

    provider: str
    revision: int
    """The revision of the job's state: once the job has moved on, the wait is over."""
    tries: int = 0
    """How many steps have tried without success."""
    reason: str = ""
    """The HTTP status, or `no connection`."""
    message: str = ""
    """The message of the provider."""
    role: str = ""
    began: float = 0.0
    """When this pause began, in seconds since 1970."""
    began_monotonic: float = 0.0
    """The same by a clock that is never set, but starts again with the machine."""
    pause: float = 0.0
    """Seconds until the next try."""
    waited: float = 0.0
    """Seconds of the earlier pauses."""
    gave_up: bool = False
    """The pauses together have reached `retries.max_wait_minutes`."""
    follows: bool = False
    """Another job of the same run tries the provider; this one continues as soon as that has an answer."""
    budget: str = ""
    """The budget for which the job waits, instead of a provider."""
    budgets: str = ""
    """Changes when a budget is changed: then the wait is over."""

    def count_left(self, now: float, monotonic: float) -> float:
        """Return the seconds until the next try. If a clock was set, or has started again, they only become fewer."""
        elapsed = (now - self.began, monotonic - self.began_monotonic)
        if elapsed[0] < 0:
            return 0.0
        return max(0.0, min(self.pause - each for each in elapsed if each >= 0))

    @property
    def budget_command(self) -> str:
        """The command for a person if the job waits for a budget. `--max-cost` was only for that run: the next one has its own."""
        return RUN_AGAIN if self.budget.startswith("--") else SHOW_BUDGETS

    def describe(self) -> str:
        """Return what the job waits for: `openai until 10:04, 503`; without the time if it is over."""
        if self.gave_up:
            minutes = round(self.waited / 60)
            return f"{self.provider}, not available for {minutes} min of waiting ({self.reason})"
        next_try = self.began + self.pause
        if self.pause >= LONGEST_PAUSE or next_try < time.time():
            return f"{self.provider}, {self.reason}"
        return f"{self.provider} until {format_time(next_try)}, {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON for `--json`."""
        return {
            "provider": self.provider,
            "budget": self.budget or None,
            "next_try_at": _format_utc(self.began + self.pause),
            "tries": self.tries,
            "reason": self.reason,
            "message": self.message,
            "gave_up": self.gave_up,
        }


def format_time(at: float) -> str:
    """Return the time of the day, with the date if it is not today."""
    try:
        local = time.localtime(at)
    except (OverflowError, ValueError, OSError):
        return "an unknown time"
    is_today = local[:3] == time.localtime()[:3]
    return time.strftime("%H:%M" if is_today else "%Y-%m-%d %H:%M", local)


def _format_utc(at: float) -> str:
    try:
        return format_utc(at)
    except (OverflowError, ValueError, OSError):
        return ""


_DEFAULTS = ProviderWait("", 0)


def read_wait(folder: str, revision: object) -> ProviderWait | None:
    """Return the wait of the job in `folder`; None if there is none that is readable and of this revision."""
    try:
        data = json.loads(read_regular(f"{folder}/{WAIT}", _MOST_BYTES))
        fields = _DEFAULTS._asdict().items()
        wait = ProviderWait(
            **{name: _check_value(data.get(name, default), default) for name, default in fields}
        )
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, OverflowError):
        return None
    return wait if wait.provider and wait.revision == revision and wait.pause <= LONGEST_PAUSE else None


def _check_value(value: Any, default: Any) -> Any:
    if isinstance(default, str | bool) or isinstance(value, bool):
        if type(value) is not type(default):
            raise TypeError("wrong type")
        return " ".join(value.split())[:_LONGEST_TEXT] if isinstance(value, str) else value
    if not isinstance(value, int | float):
        raise TypeError("wrong type")
    if not math.isfinite(value) or not 0 <= value < _MOST_NUMBER:
        raise ValueError("out of range")
    return value if isinstance(default, float) else int(value)
