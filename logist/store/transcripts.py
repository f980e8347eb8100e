"""Transcripts in `logs/`: what an agent did before its answer. Has few imports, because `job status` reads them."""

from __future__ import annotations

import json
import os
from typing import Any

from logist.regular_files import read_regular

MOST_BYTES = 64 << 20
"""A larger transcript is not read for display."""


def transcript_name(sequence: int) -> str:
    """The name of the transcript of interaction `sequence` in `logs/`: one JSON object a line."""
    return f"{sequence:06d}.turns.jsonl"


def read_transcript(folder: str | os.PathLike[str], sequence: int) -> list[Any]:
    """Read the turns of interaction `sequence` of the job in `folder`; empty without a readable transcript."""
    try:
        text = read_regular(os.path.join(folder, "logs", transcript_name(sequence)), MOST_BYTES)
        return [json.loads(line) for line in text.splitlines()]
    except (OSError, ValueError, RecursionError):
        return []
