"""execute_command: a shell command in the sandbox; the model sees the beginning and the end of its output."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

from logist.agents.sandbox import ProgramEnd
from logist.agents.tools import text
from logist.agents.tools.context import Arguments, Context, ToolError
from logist.core.text.counts import format_count
from logist.errors import LogistError

SHELL = "/bin/sh"
MAX_COMMAND_BYTES = 100_000
"""Linux limits an argument to 128 KiB."""
ERROR_SHARE = 3
"""If both outputs are long, standard error gets this fraction of the room (1 / ERROR_SHARE)."""
NOTE = 80
"""Characters for the lines that separate the outputs and mark a cut."""

_CONTINUATION = bytes(range(0x80, 0xC0))


def execute_command(arguments: Arguments, context: Context) -> tuple[str, int]:
    """Return how the command ended and what it wrote. Raises ToolError if it could not be started."""
    command = _require_runnable(arguments["command"])
    context.require_time_left()
    seconds = min(
        float(arguments.get("timeout_seconds", context.rules.command_seconds)),
        context.rules.command_seconds,
        context.deadline - time.monotonic(),
    )
    try:
        with tempfile.TemporaryDirectory(prefix="command-", dir=context.scratch) as folder:
            stdout, stderr = Path(folder, "stdout"), Path(folder, "stderr")
            ended = _run_command(command, (stdout, stderr), seconds, context)
            return _describe_result(ended, seconds, (stdout, stderr), context)
    except LogistError as error:
        raise ToolError(f"can't run the command: {error}") from None
    except OSError as error:
        raise ToolError(f"can't run the command: {error.strerror or 'could not start'}") from None


def _require_runnable(command: str) -> str:
    if not command.strip():
        raise ToolError("the command is empty")
    if "\0" in command:
        raise ToolError("the command contains a NUL character")
    try:
        size = len(command.encode())
    except UnicodeEncodeError:
        raise ToolError("the command is not valid Unicode text") from None
    if size > MAX_COMMAND_BYTES:
        raise ToolError(
            f"the command has {size:,} bytes; the limit is {MAX_COMMAND_BYTES:,}; write it to a script file and run that"
        )
    return command


def _run_command(command: str, files: tuple[Path, Path], seconds: float, context: Context) -> ProgramEnd:
    return context.run(
        (SHELL, "-c", command),
        context.confine(),
        stdin=b"",
        stdout=files[0],
        stderr=files[1],
        deadline_seconds=seconds,
        marker=context.marker,
        stop=context.stop,
    )


def _describe_result(
    ended: ProgramEnd, seconds: float, files: tuple[Path, Path], context: Context
) -> tuple[str, int]:
    head = f"[{_describe_end(ended, seconds)}; {ended.seconds:.1f} s]"
    sizes = [_get_size(file) for file in files]
    pieces, redactions = [head], 0
    for name, file, size, room in zip(
        ("stdout", "stderr"), files, sizes, _share_room(sizes, context.room), strict=True
    ):
        if size:
            body, count = _read_ends(file, size, room, context)
            pieces.append(f"--- {name}, {format_count(size, 'byte')}\n{body}")
            redactions += count
    if not any(sizes):
        pieces.append("(no output)")
    return "\n".join(pieces), redactions


def _describe_end(ended: ProgramEnd, seconds: float) -> str:
    if ended.how == "timeout":
        return f"timed out after {seconds:.0f} seconds"
    if ended.how == "limit":
        return f"stopped: {ended.reason or 'it exceeded a limit'}"
    if ended.how == "stopped":
        return "stopped by a person"
    if ended.how == "idle":
        return "timed out: no output for too long"
    if ended.signal is not None:
        return f"killed by signal {_describe_signal(ended.signal)}"
    return f"exit status {ended.status}"


def _describe_signal(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)


def _get_size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _share_room(sizes: list[int], room: int) -> tuple[int, int]:
    """Return the characters for standard output and standard error: room that
    one does not need goes to the other.
    """
    room = max(2, room - 2 * NOTE)
    error = min(sizes[1], max(room // ERROR_SHARE, room - sizes[0]))
    return max(1, room - error), max(1, error)


def _read_ends(file: Path, size: int, room: int, context: Context) -> tuple[str, int]:
    """Read the beginning and the end of a file, redacted across the cut."""
    with open(file, "rb") as output:
        descriptor = output.fileno()
        if size <= room:
            return context.redact(text.decode_text(os.pread(descriptor, size, 0)))
        half = max(1, (room - NOTE) // 2)
        head = _read_span(descriptor, 0, half)
        tail = _read_span(descriptor, size - half, half)
    first, first_count = text.redact_between(context.redact, *head)
    last, last_count = text.redact_between(context.redact, *tail)
    note = f"\n[... {size - 2 * half:,} bytes cut ...]\n"
    return f"{first}{note}{last}", first_count + last_count


def _read_span(descriptor: int, start: int, size: int) -> tuple[str, str, str]:
    """Read a piece of the output, with the text before and after it."""
    before = os.pread(descriptor, min(start, text.CONTEXT), max(0, start - text.CONTEXT))
    piece = os.pread(descriptor, size, start)
    after = os.pread(descriptor, text.CONTEXT, start + size)
    # A character that the cut splits is moved to the other side of the cut, which is not shown.
    lead = min(3, len(piece) - len(piece.lstrip(_CONTINUATION))) if start else 0
    before, piece = before + piece[:lead], piece[lead:]
    complete = len(piece) - _count_broken_bytes(piece)
    return (
        text.decode_text(before),
        text.decode_text(piece[:complete]),
        text.decode_text(piece[complete:] + after),
    )


def _count_broken_bytes(data: bytes) -> int:
    """Return how many bytes at the end are the beginning of a character that is cut."""
    for count in range(1, min(3, len(data)) + 1):
        byte = data[-count]
        if byte >= 0xC0:
            return count if count < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4) else 0
        if byte < 0x80:
            break
    return 0
