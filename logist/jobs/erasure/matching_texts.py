"""Finds the texts that a pattern matches, in a separate process that can be killed if it hangs.

Run as a file with a bare interpreter. On standard input: a line of JSON with the pattern, which is answered by a line of
JSON, null or the error. Then for each text a line of JSON, `[bytes, begins, ends]`, and the text; each is answered by the
list of the texts in it that match, as JSON. `begins` and `ends`: no other part of the same text is before or after it. What
touches such a cut may be incomplete, and is found again with the other part.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from typing import BinaryIO

MEMORY = 2 << 30
SECONDS = 300


def serve(reading: BinaryIO, writing: BinaryIO) -> None:
    """Answer requests until the input ends."""
    try:
        pattern = re.compile(json.loads(reading.readline()))
    except (re.error, RecursionError, OverflowError, MemoryError) as error:
        _write_answer(writing, str(error) or "too large")
        return
    _write_answer(writing, "it matches the empty text" if pattern.fullmatch("") else None)
    while head := reading.readline():
        size, begins, ends = json.loads(head)
        text = reading.read(size).decode("utf-8", "surrogatepass")
        found = {
            match[0]
            for match in pattern.finditer(text)
            if (match.start() or begins) and (match.end() < len(text) or ends)
        }
        _write_answer(writing, sorted(found))


def _write_answer(writing: BinaryIO, value: object) -> None:
    writing.write(json.dumps(value).encode("ascii") + b"\n")
    writing.flush()


def _limit_resources() -> None:
    if sys.platform == "linux":  # macOS refuses this limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    _limit_resources()
    with open(0, "rb") as given, open(1, "wb") as answers:
        serve(given, answers)
