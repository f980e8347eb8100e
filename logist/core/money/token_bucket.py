"""A token bucket: how many calls of a minute may begin now."""

from __future__ import annotations

from logist.quick_tuple import NamedTuple

MINUTE = 60.0
BURST = 10
"""One in so many calls of a minute may begin at once."""
_ROUNDING = 1e-9
"""How much of a token may be missing: sums of fractions are not exact."""


class TokenBucket(NamedTuple):
    """What is left of a limit of calls a minute.

    In any 60 seconds, at most that many calls begin: some at once, if none began for a while, and the others evenly.
    """

    tokens: float
    """How many calls may begin at `at`."""
    at: float
    """Seconds of a clock that is never set."""

    def take(self, calls_per_minute: int, now: float) -> tuple[TokenBucket, float]:
        """Return the bucket after a call at `now`, and 0; or the seconds until a call may begin, with the bucket as it is.

        A time before that of the last call counts as the time of that call, so a clock that goes back adds no calls.
        """
        now = max(now, self.at)
        refill = compute_refill(calls_per_minute)
        tokens = min(self.tokens + (now - self.at) * refill, compute_burst(calls_per_minute))
        missing = 1 - tokens
        if missing > _ROUNDING:
            return TokenBucket(tokens, now), missing / refill
        return TokenBucket(max(tokens - 1, 0.0), now), 0.0


def compute_burst(calls_per_minute: int) -> int:
    """Return how many calls may begin at once."""
    return max(1, calls_per_minute // BURST)


def compute_refill(calls_per_minute: int) -> float:
    """Return how many calls a second may begin in the long run.

    It is less than a 60th of the calls of a minute: a burst and what follows it within the minute together keep the limit.
    """
    return (calls_per_minute - compute_burst(calls_per_minute) + 1) / MINUTE
