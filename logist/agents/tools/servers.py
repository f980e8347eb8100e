"""Calls a tool of an MCP server over its standard input and output.

Each call starts the server in the sandbox, as it would start a command, and ends it. So nothing runs between two calls,
a call after a kill meets the same server as one before it, and a server has no more rights or time than a command.

The MCP SDK is not used: it starts servers itself, outside of the sandbox, and reads lines of any length. Two
requests are all that is needed, and whatever a server says becomes text for the model.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from logist.agents.sandbox import Confinement, ProgramEnd, run_program
from logist.agents.tools.context import Arguments, Context, ToolError
from logist.agents.tools.text import decode_text
from logist.core.model import JsonObject
from logist.core.permissions.tools import SEPARATOR
from logist.core.text.outermost_json import measure_depth
from logist.errors import LogistError
from logist.quick_dataclass import dataclass
from logist.version import __version__

PROTOCOL = "2025-11-25"
MAX_MESSAGE_BYTES = 4 << 20
MAX_MESSAGES = 1_000
MAX_DEPTH = 100
MAX_SHOWN = 400
GOODBYE_SECONDS = 2.0
"""How long a server may take to end after its input was closed."""
_START, _REQUEST = 1, 2
_NOT_FOUND = -32601


@dataclass
class ServerDialogue:
    """One request to a server: the greeting, the request, and the goodbye."""

    method: str
    params: JsonObject
    result: JsonObject | None = None
    problem: str = ""
    """Why there is no result."""
    over_at: float | None = None
    _buffer: bytearray = field(default_factory=bytearray)
    _messages: int = 0
    _noise: int = 0

    @property
    def greeting(self) -> bytes:
        """The first message."""
        client = {"name": "logist", "version": __version__}
        params = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client}
        return _encode({"id": _START, "method": "initialize", "params": params})

    def is_over(self) -> bool:
        """Whether the server has answered, or can't any more."""
        return self.over_at is not None

    def is_goodbye_over(self) -> bool:
        """Whether the server still runs although its input was closed some time ago."""
        return self.over_at is not None and time.monotonic() > self.over_at + GOODBYE_SECONDS

    def read_output(self, data: bytes) -> bytes:
        """Take a piece of the server's output; return what to send to it."""
        if self.is_over():
            return b""
        self._buffer += data
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = bytearray(rest)
        replies = b"".join(self._read_line(bytes(line)) for line in lines)
        if len(self._buffer) > MAX_MESSAGE_BYTES:
            self._end(f"it sent a message of more than {MAX_MESSAGE_BYTES >> 20} MB")
        return replies

    def describe_problem(self) -> str:
        """Return why there is no result, as far as its messages say."""
        noise = f"; {self._noise:,} lines of its output are not messages" if self._noise else ""
        return (self.problem or "it ended without an answer") + noise

    def _read_line(self, line: bytes) -> bytes:
        if self.is_over() or not line.strip():
            return b""
        self._messages += 1
        if len(line) > MAX_MESSAGE_BYTES or self._messages > MAX_MESSAGES:
            limit = (
                f"a message of more than {MAX_MESSAGE_BYTES >> 20} MB"
                if self._messages <= MAX_MESSAGES
                else f"more than {MAX_MESSAGES:,} messages"
            )
            return self._end(f"it sent {limit}")
        message = _parse_message(line)
        if message is None:
            self._noise += 1
            return b""
        if isinstance(message.get("method"), str):
            return _answer_request(message)
        return self._read_response(message)

    def _read_response(self, message: Mapping[str, Any]) -> bytes:
        number, result = message.get("id"), message.get("result")
        if isinstance(number, bool) or number not in (_START, _REQUEST):
            return b""
        if not isinstance(result, dict):
            error = message.get("error")
            words = error.get("message") if isinstance(error, dict) else None
            return self._end(f"it refused {'to start' if number == _START else self.method}: {_cut(words)}")
        if number == _REQUEST:
            self.result = result
            return self._end("")
        return _encode({"method": "notifications/initialized"}) + _encode(
            {"id": _REQUEST, "method": self.method, "params": self.params}
        )

    def _end(self, problem: str) -> bytes:
        self.problem, self.over_at = problem, time.monotonic()
        self._buffer.clear()
        return b""


def _encode(message: JsonObject) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def _parse_message(line: bytes) -> dict[str, Any] | None:
    text = line.decode("utf-8", "replace")
    try:
        message = json.loads(text) if measure_depth(text) <= MAX_DEPTH else None
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _answer_request(message: Mapping[str, Any]) -> bytes:
    """Answer what a server asks for: everything except a ping is refused, a notification gets no answer."""
    number = message.get("id")
    if not isinstance(number, int | str):
        return b""
    if message["method"] == "ping":
        return _encode({"id": number, "result": {}})
    return _encode({"id": number, "error": {"code": _NOT_FOUND, "message": "not supported"}})


def _cut(words: object) -> str:
    text = " ".join(words.split()) if isinstance(words, str) else "no reason"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def call_server_tool(name: str, arguments: Arguments, context: Context) -> tuple[str, bool]:
    """Return the text of a result, and whether the server calls it an error. Raises ToolError without a result."""
    server, _, tool = name.partition(SEPARATOR)
    confine = context.confine_server or context.confine
    seconds = min(context.rules.command_seconds, context.deadline - time.monotonic())
    result = ask_server(
        server,
        context.mcp_servers[server].command,
        ServerDialogue("tools/call", {"name": tool, "arguments": arguments}),
        confine(),
        seconds=seconds,
        scratch=context.scratch,
        marker=context.marker,
        stop=context.stop,
        run=context.run,
    )
    return describe_result(result), result.get("isError") is True


def ask_server(
    name: str,
    command: Sequence[str],
    dialogue: ServerDialogue,
    confinement: Confinement,
    *,
    seconds: float,
    scratch: Path,
    marker: str,
    stop: Callable[[], bool],
    run: Callable[..., ProgramEnd] = run_program,
) -> JsonObject:
    """Start a server, ask it, and end it with all its processes; return its result. Raises ToolError."""
    try:
        with tempfile.TemporaryDirectory(prefix="server-", dir=scratch) as folder:
            ended = run(
                command,
                confinement,
                stdin=dialogue.greeting,
                stdout=Path(folder, "stdout"),
                stderr=Path(folder, "stderr"),
                deadline_seconds=seconds,
                marker=marker,
                stop=lambda: stop() or dialogue.is_goodbye_over(),
                dialogue=dialogue,
            )
            last = _read_last_line(Path(folder, "stderr"))
    except LogistError as error:
        raise ToolError(f"can't start the MCP server {name}: {error}") from None
    except OSError as error:
        raise ToolError(f"can't start the MCP server {name}: {error.strerror or 'could not start'}") from None
    if dialogue.result is not None:
        return dialogue.result
    raise ToolError(f"the MCP server {name} gave no result: {_explain_end(dialogue, ended, seconds)}{last}")


def _explain_end(dialogue: ServerDialogue, ended: ProgramEnd, seconds: float) -> str:
    if not dialogue.is_over() and ended.how in ("timeout", "limit", "stopped"):
        return {
            "timeout": f"no answer after {seconds:.0f} seconds",
            "limit": f"it was ended: {ended.reason or 'it exceeded a limit'}",
            "stopped": "stopped by a person",
        }[ended.how]
    return dialogue.describe_problem()


def _read_last_line(file: Path) -> str:
    try:
        with open(file, "rb") as errors:
            errors.seek(max(0, file.stat().st_size - MAX_SHOWN))
            lines = decode_text(errors.read()).split("\n")
    except OSError:
        return ""
    written = [line.strip() for line in lines if line.strip()]
    return f"; its last line of standard error: {written[-1]}" if written else ""


def describe_result(result: JsonObject) -> str:
    """Return the result of a call as text; what is not text is only named."""
    content = result.get("content")
    parts = [_describe_item(item) for item in content] if isinstance(content, list) else []
    if not parts and "structuredContent" in result:
        parts = [json.dumps(result["structuredContent"], ensure_ascii=False)]
    return "\n".join(parts) or "(no output)"


def _describe_item(item: object) -> str:
    if not isinstance(item, dict):
        return "[an invalid part of the result]"
    resource = item.get("resource")
    for text in (item.get("text"), resource.get("text") if isinstance(resource, dict) else None):
        if isinstance(text, str):
            return text
    return f"[{_cut(item.get('type'))}: not shown, only text is]"
