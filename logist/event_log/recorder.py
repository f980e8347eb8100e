"""Records events: as lines of a log file, as sentences for the person, or both."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from logist.core.secrets import redact
from logist.event_log.events import LogEvent
from logist.event_log.log_file import LogFile

LONGEST_TEXT = 2_000
"""Characters of a text of an event; the rest is cut off."""


class EventRecorder:
    """Writes the events of one command; can be used from any thread."""

    def __init__(
        self,
        secrets: Iterable[str],
        *,
        log_file: LogFile | None = None,
        show: Callable[[str], None] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`show`: prints a sentence for the person, with `-v`; then the file has the events of level debug too."""
        self._secrets = tuple(secrets)
        self.log_file, self._show, self._now = log_file, show, now

    def add_secrets(self, secrets: Iterable[str]) -> None:
        """Replace these values too, from now on."""
        self._secrets = tuple({*self._secrets, *secrets})

    def record(self, event: LogEvent, job_id: str | None) -> None:
        """Write one event."""
        if event.level == "debug" and self._show is None:
            return
        if self.log_file is not None:
            self.log_file.write(self._format_line(event, job_id))
        if self._show is not None and not event.is_printed:
            sentence = " ".join(self._clean(event.describe()).split())
            self._show(f"{job_id}: {sentence}" if job_id else sentence)

    def _format_line(self, event: LogEvent, job_id: str | None) -> bytes:
        """One JSON object. Each text is redacted before it is escaped: escaped, a secret would look different."""
        line = {
            "time": self._now().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": event.level,
            "event": event.name,
            "pid": os.getpid(),
            "job": job_id,
            "message": self._clean(event.describe()),
            "fields": self._clean_values(event.fields),
        }
        return json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n"

    def _clean_values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._clean_value(value) for name, value in values.items()}

    def _clean_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._clean(value)
        if isinstance(value, list):
            return [self._clean(str(each)) for each in value]
        return value

    def _clean(self, text: str) -> str:
        """Cut after redacting: half a secret would not be recognized."""
        return redact.redact(text, self._secrets)[0][:LONGEST_TEXT]
