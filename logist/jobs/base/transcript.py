"""Transcripts in `logs/`: what an agent did before its answer, turn by turn, or what a program wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from logist.agents import workplace
from logist.regular_files import read_regular
from logist.store.transcripts import transcript_name

if TYPE_CHECKING:
    from logist.core.model import JsonObject
    from logist.jobs.base.session import Session
    from logist.store import Exchange, JobDir

MOST_ADDED = 20_000
"""Characters of a request of a program that a transcript has."""


def write_transcript(session: Session) -> None:
    """Write the transcript of the exchanges in flight, before their interaction is recorded.

    A plain answer has none. Secrets were redacted before the exchanges were written to disk.
    """
    job = session.job
    exchanges = job.read_exchanges()
    lines = [
        *_describe_turns(exchanges),
        *map(_describe_gate_request, exchanges.gate),
        *_read_program_transcript(job),
    ]
    if lines:
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        job.write_log(transcript_name(session.state.revision + 1), text.encode("utf-8", "replace"))


def _describe_turns(exchanges: list[Exchange]) -> Iterator[JsonObject]:
    """Describe each exchange of a model that worked with tools; a single answer is in the history already."""
    if all(each.tools is None and not (each.request or {}).get("follow_up") for each in exchanges):
        return
    for each in exchanges:
        response = each.response or {}
        yield {
            "exchange": each.k,
            "text": response.get("text", ""),
            "calls": response.get("calls", []),
            "error": response.get("error"),
            "usage": response.get("usage"),
            "tools": each.tools,
            **({"follow_up": follow_up} if (follow_up := (each.request or {}).get("follow_up")) else {}),
        }


def _describe_gate_request(exchange: Exchange) -> JsonObject:
    """Describe a request that an agent program made through the gate: what it added to the conversation, and the answer."""
    request, response = exchange.request or {}, exchange.response or {}
    body = request.get("body")
    added = str(body.get("text", "")) if isinstance(body, dict) else ""
    return {
        "exchange": exchange.k,
        "request": added if len(added) <= MOST_ADDED else f"{added[:MOST_ADDED]} ...",
        "text": response.get("text", ""),
        "calls": response.get("calls", []),
        "error": response.get("error"),
        "usage": response.get("usage"),
        "tools": None,
    }


def _read_program_transcript(job: JobDir) -> Iterator[JsonObject]:
    """Read the transcript of an agent program; the courier wrote it from
    files that no other process can write.
    """
    if not job.inflight.exists():
        return
    path = job.inflight / workplace.RUN / workplace.ARCHIVE
    with suppress(OSError, ValueError):
        yield json.loads(read_regular(path))
