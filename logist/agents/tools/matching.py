"""Finds the lines that match a regular expression, in a separate process that can be killed if it hangs.

Run as a file with a bare interpreter. On standard input: a line of JSON, `[pattern, ignore_case]`, which is
answered by a line of JSON, null or the error. Then for each text its length in bytes on a line, and the text;
each is answered by a line of JSON: `[[line, column], ...]`, both from 0, the first `MOST` of them.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from typing import BinaryIO

MOST = 1000
MEMORY = 1 << 30
SECONDS = 60


def find_matches(pattern: re.Pattern[str], text: str) -> list[tuple[int, int]]:
    """Return line and column, from 0, of the first match in each line that has one."""
    places: list[tuple[int, int]] = []
    for number, line in enumerate(text.split("\n")):
        match = pattern.search(line.removesuffix("\r"))
        if match is not None:
            places.append((number, match.start()))
            if len(places) == MOST:
                break
    return places


def serve(reading: BinaryIO, writing: BinaryIO) -> None:
    """Answer requests until the input ends."""
    source, ignore_case = json.loads(reading.readline())
    try:
        pattern = re.compile(source, re.IGNORECASE if ignore_case else 0)
    except (re.error, RecursionError, OverflowError, MemoryError) as error:
        _write_answer(writing, str(error) or "too large")
        return
    _write_answer(writing, None)
    while size := reading.readline():
        text = reading.read(int(size)).decode("utf-8", "surrogateescape")
        _write_answer(writing, find_matches(pattern, text))


def _write_answer(writing: BinaryIO, value: object) -> None:
    writing.write(json.dumps(value).encode() + b"\n")
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
