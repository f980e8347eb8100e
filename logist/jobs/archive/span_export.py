"""Exports recorded jobs as spans: one request of OTLP (JSON) after the other, so that a history of any size needs little memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from logist.core.model import Interaction, JsonObject, Kind
from logist.core.share.spans import (
    SpanBuilder,
    SpanLink,
    TracePlace,
    make_job_key,
    make_span_id,
    make_trace_id,
)
from logist.errors import Damaged, LogistError
from logist.jobs.archive.recorded_jobs import Archive, catch_read_errors, exit_code_of_errors
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple
from logist.store import HISTORY, JobDir
from logist.timestamps import parse_time
from logist.version import __version__

MOST_SPANS = 500
"""Spans of one request."""
MOST_BYTES = 4_000_000
"""Bytes of spans of one request, after which it is ended: many receivers refuse more."""
MOST_GENERATIONS = 20
"""A chain of parents that is longer is taken for a circle."""


@dataclass
class ExportedSpans:
    """What was exported."""

    histories: int = 0
    spans: int = 0
    left_out: list[tuple[str, LogistError]] = field(default_factory=list)
    """Name and reason of the histories that could not be read to their end; the spans before that were exported."""

    @property
    def exit_code(self) -> int:
        """10 if a history is damaged; else that of the first one that could not be read; 0 if all were."""
        return exit_code_of_errors(error for _, error in self.left_out)


class TraceContext(NamedTuple):
    """The trace and the span of the program that calls Logist, by the variable TRACEPARENT."""

    trace_id: str
    span_id: str


def read_traceparent(text: str | None) -> TraceContext | None:
    """Read the W3C form `00-<trace>-<span>-<flags>`; None if it has another form, or only zeros."""
    parts = (text or "").strip().split("-")
    if len(parts) < 4 or parts[0] == "ff" or (parts[0] == "00" and len(parts) != 4):
        return None
    if not all(
        len(part) == size and set(part) <= _HEX for part, size in zip(parts, (2, 32, 16, 2), strict=False)
    ):
        return None
    _, trace, span, *_ = parts
    return TraceContext(trace, span) if set(trace) != {"0"} and set(span) != {"0"} else None


_HEX = frozenset("0123456789abcdef")


def export_spans(
    archives: Iterable[Archive],
    exported: ExportedSpans,
    *,
    context: TraceContext | None = None,
    with_content: bool = False,
    each: Callable[[], None] = lambda: None,
    done: Callable[[], None] = lambda: None,
) -> Iterator[JsonObject]:
    """Yield requests of OTLP with the spans of recorded jobs; an unreadable history does not stop the others.

    `exported` gets what was exported, `context` is above all jobs without a parent. `each` is called for every interaction, and
    `done` for every history.
    """
    batch, keys = _Batch(), _JobKeys()
    for archive in archives:
        with catch_read_errors(archive) as result:
            for span in _build_spans(archive, keys, context, each, with_content=with_content):
                exported.spans += 1
                if (request := batch.add(span)) is not None:
                    yield request
        if result.error is None:
            exported.histories += 1
        else:
            exported.left_out.append((archive.name, result.error))
        done()
    if (request := batch.take()) is not None:
        yield request


class _Batch:
    """Collects spans for one request."""

    def __init__(self) -> None:
        self._spans: list[JsonObject] = []
        self._size = 0

    def add(self, span: JsonObject) -> JsonObject | None:
        """Add a span; return a request if there are enough of them."""
        self._spans.append(span)
        self._size += len(json.dumps(span))
        return self.take() if len(self._spans) >= MOST_SPANS or self._size >= MOST_BYTES else None

    def take(self) -> JsonObject | None:
        """Return a request with the spans so far, if there are any."""
        if not self._spans:
            return None
        spans, self._spans, self._size = self._spans, [], 0
        about = {"attributes": [_name("service.name", "logist"), _name("service.version", __version__)]}
        scoped = {"scope": {"name": "logist", "version": __version__}, "spans": spans}
        return {"resourceSpans": [{"resource": about, "scopeSpans": [scoped]}]}


def _name(key: str, value: str) -> JsonObject:
    return {"key": key, "value": {"stringValue": value}}


def _build_spans(
    archive: Archive,
    keys: _JobKeys,
    context: TraceContext | None,
    each: Callable[[], None],
    *,
    with_content: bool,
) -> Iterator[JsonObject]:
    builder: SpanBuilder | None = None
    own = _find_own_start(archive)
    origin: Interaction | None = None
    failure: LogistError | None = None
    try:
        for entry in archive.call_for_each(archive.read_interactions(), each):
            if entry.sequence < own:
                if origin is None or entry.kind == Kind.FORK:
                    origin = entry
                continue
            if builder is None:
                name = archive.path.parent.name if archive.path.name == HISTORY else archive.path.stem
                key = make_job_key(entry)
                place = keys.find_place(archive, entry, key, context)
                link = (
                    None if origin is None else keys.find_link(archive, origin, entry.sequence - 1, context)
                )
                builder = SpanBuilder(name, key, place, parse_time, with_content=with_content, origin=link)
            yield from builder.build_spans(entry)
    except LogistError as error:  # the spans so far need the one of the job above them
        failure = error
    if builder is not None and (span := builder.build_job_span(is_complete=failure is None)) is not None:
        yield span
    if failure is not None:
        raise failure


def _find_own_start(archive: Archive) -> int:
    """Return the first interaction of a job itself: a fork has copied those before from another job, which has them, too.

    Damage ends the search; whoever reads the interactions reports it.
    """
    start = 1
    with suppress(Damaged):
        for entry in archive.read_entries():
            if entry.get("kind") == Kind.FORK and isinstance(entry.get("sequence"), int):
                start = entry["sequence"]
    return start


class _Known(NamedTuple):
    """What the ids of child jobs need of a job."""

    key: str
    parent: str | None


class _JobKeys:
    """The keys of the jobs that are parents of others; each is read once."""

    def __init__(self) -> None:
        self._known: dict[Path, _Known | None] = {}

    def find_place(
        self, archive: Archive, first: Interaction, key: str, context: TraceContext | None
    ) -> TracePlace:
        """Return the trace of the job at the top, and the span of the parent: the job may be a child of another one."""
        keys, folder = [key], archive.path.parent.parent
        parent = first.spec.parent if first.spec is not None else None
        while archive.path.name == HISTORY and parent is not None and len(keys) < MOST_GENERATIONS:
            above = self._read_job(folder, parent)
            if above is None:
                break
            keys.append(above.key)
            parent = above.parent
        trace = make_trace_id(keys[-1]) if context is None else context.trace_id
        if len(keys) > 1:
            return TracePlace(trace, make_span_id(keys[1]))
        return TracePlace(trace, "" if context is None else context.span_id)

    def find_link(
        self, archive: Archive, origin: Interaction, sequence: int, context: TraceContext | None
    ) -> SpanLink:
        """Return the span of an interaction of the job that a fork came from; `origin`: the first one of that job itself."""
        key = make_job_key(origin)
        return SpanLink(self.find_place(archive, origin, key, context).trace_id, make_span_id(key, sequence))

    def _read_job(self, folder: Path, job_id: str) -> _Known | None:
        """Return what is known of a job beside; None if it is gone or can't be read."""
        place = folder / job_id
        if place not in self._known:
            self._known[place] = None
            with suppress(LogistError, OSError, ValueError):
                job = Archive.from_job(JobDir.open(folder, job_id))
                start = _find_own_start(job)
                first = next(each for each in job.read_interactions() if each.sequence >= start)
                self._known[place] = _Known(make_job_key(first), first.spec.parent if first.spec else None)
        return self._known[place]
