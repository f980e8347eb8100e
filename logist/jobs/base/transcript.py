"""What an agent did on the way to its answer, kept in `logs/`: turns, calls and results, or a program's output."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress

from logist.agents.workplace import ARCHIVE, RUN
from logist.core.model import JsonObject
from logist.jobs.base.session import Session
from logist.regular_files import read_regular
from logist.store import Exchange, JobDir


def transcript_name(sequence: int) -> str:
    """The file in `logs/` for interaction `sequence`: a JSON object on each line."""
    return f"{sequence:06d}.turns.jsonl"


def write_transcript(session: Session) -> None:
    """Writes the transcript of what is in flight, before its interaction; nothing for a plain answer.

    It was redacted before it came to disk.
    """
    job = session.job
    lines = [*_describe_turns(job.read_exchanges()), *_read_program_transcript(job)]
    if lines:
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        job.write_log(transcript_name(session.state.revision + 1), text.encode("utf-8", "replace"))


def _describe_turns(exchanges: list[Exchange]) -> Iterator[JsonObject]:
    """Each exchange of a model that worked with tools; a single answer is in the history."""
    if all(each.tools is None for each in exchanges):
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
        }


def _read_program_transcript(job: JobDir) -> Iterator[JsonObject]:
    """What an agent program has left: the courier put it together from files that nobody else can write."""
    path = job.inflight / RUN / ARCHIVE
    with suppress(OSError, ValueError):
        yield json.loads(read_regular(path))
