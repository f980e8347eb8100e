"""What a courier reports while its agent works, for people who watch (see store.progress)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from threading import RLock

from logist.agents.courier import booking
from logist.core.answer.failed_calls import describe_target
from logist.core.model import Call, Usage
from logist.core.money import money
from logist.core.secrets.redact import redact
from logist.store.progress import Activity, ActivityRecord, ProgressWriter

PAUSE_SECONDS = 1.0
"""Seconds between two records about words that arrive."""
WINDOW = 16_000
"""Characters at the end of a text that are searched for secrets; longer than any key."""
SHOWN = 160
"""Characters of the last words."""
_NOTHING = Usage()


class ProgressReport:
    """Writes the progress of one ask; its texts are written without secrets."""

    def __init__(self, inflight: Path, role: str, secrets: Sequence[str], used: Usage = _NOTHING) -> None:
        """`used`: what earlier couriers of this ask have used."""
        self._secrets = secrets
        # The requests of an agent program are reported by several threads.
        self._lock = RLock()
        self._writer = ProgressWriter(inflight, time.time, time.monotonic)
        self._record = ActivityRecord(Activity.BEGUN, role=role)
        self._reported_at = 0.0
        self._add_usage(used)
        self.report(Activity.BEGUN)

    def report(self, activity: Activity, *, tool: str = "", target: str = "", words: str = "") -> None:
        """Write a record; the turn and the amounts are those of the record before."""
        with self._lock:
            self._record = self._record._replace(
                activity=activity.value,
                tool=self._make_safe(tool),
                target=self._make_safe(target),
                words=self._make_safe(words),
            )
            self._reported_at = time.monotonic()
            self._writer.write(self._record)

    def report_request(self, turn: int, reserved_microcents: int | None) -> None:
        """Report that a request was sent. `reserved_microcents`: its highest possible cost."""
        with self._lock:
            self._record = self._record._replace(turn=turn, in_flight_microcents=reserved_microcents or 0)
            self.report(Activity.ASKED)

    def report_words(self, pieces: list[str]) -> None:
        """Report the last words of an answer that is arriving, at most once a second."""
        if not self.is_due():
            return
        pieces[:] = ["".join(pieces)]
        words = choose_last_words(pieces[0], self._secrets)
        if words:
            self.report(Activity.ANSWERING, words=words)
        self._reported_at = time.monotonic()

    def report_answer(self, usage: Usage, *, is_failed: bool, in_flight_microcents: int = 0) -> None:
        """Report that an answer is saved, or that there is none.

        `in_flight_microcents`: the highest possible cost of the requests that are still open.
        """
        with self._lock:
            self._record = self._record._replace(in_flight_microcents=in_flight_microcents)
            self._add_usage(usage)
            self.report(Activity.FAILED if is_failed else Activity.ANSWERED)

    def report_call(self, call: Call) -> None:
        """Report that a tool begins to run."""
        self.report(Activity.TOOL, tool=call.name, target=describe_target(call.arguments))

    def is_due(self) -> bool:
        """Whether a record about words may be written again."""
        return time.monotonic() >= self._reported_at + PAUSE_SECONDS

    def _add_usage(self, usage: Usage) -> None:
        before = self._record
        cost = money.join_cents(usage.cost_cents, usage.cost_microcents)
        self._record = before._replace(
            input_tokens=before.input_tokens + usage.input_tokens,
            output_tokens=before.output_tokens + usage.output_tokens,
            cost_microcents=before.cost_microcents + cost,
        )

    def _make_safe(self, text: str) -> str:
        """Return the text on one line and without secrets; redacted before it is cut, so that no half is left."""
        if not text:
            return ""
        clean = redact(booking.repair_surrogates(text[:WINDOW]), self._secrets)[0]
        return " ".join(clean.split())[:SHOWN]


def choose_last_words(text: str, secrets: Sequence[str]) -> str:
    """Return the last words of a text that is still arriving, without secrets.

    The last word, and what may be the beginning of a secret, is left out: half a key is not recognized as one.
    """
    end = booking.repair_surrogates(text[-WINDOW:])
    if not end[-1:].isspace():
        end = end[: len(end) - len(end.split()[-1])] if end.split() else ""
    words = " ".join(redact_window(end, secrets).split())
    return words if len(words) <= SHOWN else words[-SHOWN:].partition(" ")[2]


def redact_window(end: str, secrets: Sequence[str]) -> str:
    """Return the text without secrets, and without the beginning of a secret of several words that it ends with."""
    begun = end.rfind("-----BEGIN")
    if begun > end.rfind("-----END"):
        end = end[:begun]
    for secret in secrets:
        if any(map(str.isspace, secret)):
            end = _cut_beginning(end, secret)
    return redact(end, secrets)[0]


def _cut_beginning(text: str, secret: str) -> str:
    """Return the text without the beginning of the secret that it ends with."""
    for length in range(min(len(secret) - 1, len(text)), 0, -1):
        if text.endswith(secret[:length]):
            return text[:-length]
    return text
