"""Circuit breakers of a run over many jobs: one per provider, so that jobs of other providers continue.

While a breaker is open, no job calls its provider. When the pause is over, one job tries; the others follow once it has
an answer, or after `PROBE_SECONDS`, if the answer takes long.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

PROBE_SECONDS = 30.0
"""How long the other jobs wait for the job that tries a provider again."""


class ProviderBreakers:
    """The breakers of one run; can be used from any thread."""

    def __init__(self, monotonic: Callable[[], float], *, is_watching: bool = False) -> None:
        self._monotonic = monotonic
        self.is_watching = is_watching
        """The run continues without a person: a job that gave up is tried only from time to time."""
        self._closed_until: dict[str, float] = {}
        self._answered_at: dict[str, float] = {}
        self._lock = Lock()

    def open(self, provider: str, seconds: float) -> None:
        """Let no job call the provider for so many seconds: a call of it has failed."""
        with self._lock:
            self._closed_until[provider] = self._monotonic() + seconds

    def claim_call(self, provider: str) -> float:
        """Return 0 if a job may call the provider now, else the seconds until it may ask again."""
        with self._lock:
            until = self._closed_until.get(provider)
            if until is None:
                return 0.0
            left = until - self._monotonic()
            if left > 0:
                return left
            self._closed_until[provider] = self._monotonic() + PROBE_SECONDS
            return 0.0

    def close(self, provider: str) -> None:
        """Let all jobs call the provider: it has answered."""
        with self._lock:
            self._closed_until.pop(provider, None)
            self._answered_at[provider] = self._monotonic()

    def has_answered_since(self, provider: str, monotonic: float) -> bool:
        """Whether the provider has answered a job of this run after that time of the monotonic clock."""
        with self._lock:
            return self._answered_at.get(provider, -1.0) >= monotonic
