"""Reads a rollout of Codex: one JSON object per line, one file per session (`~/.codex/sessions`)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from logist.core.adoption.session import (
    LONGEST_ARGUMENTS,
    LONGEST_RESULT,
    LONGEST_TEXT,
    AgentSession,
    Redact,
    SessionCall,
    SessionTurn,
    TokenCounts,
    dump_arguments,
    get_object,
    get_text,
    join_texts,
    keep_text,
    read_count,
    read_time,
)
from logist.core.permissions.foreign_tools import list_needs
from logist.core.text.json_object import JsonObject

_NOT_TYPED = (
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
    "<INSTRUCTIONS>",
)
"""How messages begin that the program itself writes in the name of the user."""
_EXIT_STATUS = re.compile(r"(?:exited with code|[Ee]xit code:?) (-?\d{1,9})\b")
_TYPED = "user.text"
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_RESULTS = ("function_call_output", "custom_tool_call_output")


def is_codex_line(line: JsonObject) -> bool:
    """Whether a line is the first one of a rollout."""
    return line.get("type") == "session_meta" and isinstance(line.get("payload"), dict)


def read_codex_session(lines: Iterable[JsonObject], redact: Redact = keep_text) -> AgentSession:
    """Read a rollout."""
    reading = _RolloutReading(AgentSession("Codex", "codex", redact=redact))
    for line in lines:
        reading.read_line(line)
    return reading.session


class _RolloutReading:
    def __init__(self, session: AgentSession) -> None:
        self.session = session
        self.model = ""
        self.total = TokenCounts()

    def read_line(self, line: JsonObject) -> None:
        payload, moment = get_object(line.get("payload")), read_time(line.get("timestamp"))
        kind = get_text(payload.get("type"))
        match line.get("type"):
            case "session_meta":
                self._read_meta(payload)
            case "turn_context":
                self.model = get_text(payload.get("model")) or self.model
            case "compacted":
                self.session.notes["the program compacted the conversation"] += 1
            case "response_item" if kind == "message" and payload.get("role") == "user":
                self._read_prompt(payload, moment)
            case "response_item" if self.session.turns:
                self.session.turns[-1].see_time(moment)
                self._read_item(self.session.turns[-1], kind, payload)
            case "event_msg" if self.session.turns:
                self.session.turns[-1].see_time(moment)
                self._read_event(self.session.turns[-1], kind, payload)

    def _read_meta(self, payload: JsonObject) -> None:
        session = self.session
        session.id = session.id or get_text(payload.get("id"))
        session.version = get_text(payload.get("cli_version")) or session.version
        session.directory = session.directory or get_text(payload.get("cwd"))
        session.provider = get_text(payload.get("model_provider"))

    def _read_prompt(self, payload: JsonObject, moment: float | None) -> None:
        kinds = get_object(payload.get("internal_chat_message_metadata_passthrough")).get(
            "content_item_kinds"
        )
        text = join_texts(payload.get("content"))
        typed = _TYPED in kinds if isinstance(kinds, list) else not text.lstrip().startswith(_NOT_TYPED)
        if typed and text.strip():
            self.session.begin_turn(text, moment)

    def _read_item(self, turn: SessionTurn, kind: str, payload: JsonObject) -> None:
        if kind in _CALLS:
            turn.add_call(self._build_call(kind, payload))
        elif kind in _RESULTS:
            self._read_result(turn, payload)
        elif kind == "message" and payload.get("role") == "assistant":
            turn.error = None
            turn.answer = self.session.limit_text(join_texts(payload.get("content")), LONGEST_TEXT)

    def _build_call(self, kind: str, payload: JsonObject) -> SessionCall:
        name = self.session.redact_text(get_text(payload.get("name")))[:200] or (
            "local_shell" if kind == "local_shell_call" else "(no name)"
        )
        field = {"function_call": "arguments", "custom_tool_call": "input"}.get(kind, "action")
        arguments = payload.get(field)
        text = self.session.limit_text(dump_arguments(arguments), LONGEST_ARGUMENTS)
        return SessionCall(get_text(payload.get("call_id")), name, text, list_needs(name, arguments))

    def _read_result(self, turn: SessionTurn, payload: JsonObject) -> None:
        call = turn.find_call(get_text(payload.get("call_id")))
        if call is None:
            return
        output = payload.get("output")
        text = join_texts(output if not isinstance(output, dict) else output.get("content"))
        call.result = self.session.limit_text(text, LONGEST_RESULT)
        status = _EXIT_STATUS.search(text[:LONGEST_RESULT])
        success = get_object(output).get("success")
        call.failed = success is False or (status is not None and int(status[1]) != 0) or _has_failed(text)
        call.refused = text.startswith(("exec command rejected", "patch rejected", "rejected by user"))

    def _read_event(self, turn: SessionTurn, kind: str, payload: JsonObject) -> None:
        item = get_object(payload.get("item"))
        if kind == "token_count":
            self._read_usage(turn, get_object(get_object(payload.get("info")).get("total_token_usage")))
        elif kind == "turn_aborted":
            turn.error = "the turn was interrupted"
        elif kind in ("error", "stream_error"):
            turn.error = (
                self.session.limit_text(get_text(payload.get("message")), LONGEST_RESULT) or "an error"
            )
        elif kind == "task_complete" and isinstance(payload.get("error"), dict):
            message = get_text(payload["error"].get("message"))
            turn.error = self.session.limit_text(message, LONGEST_RESULT) or "an error"
        elif kind == "task_complete" and not turn.answer and turn.error is None:
            turn.answer = self.session.limit_text(get_text(payload.get("last_agent_message")), LONGEST_TEXT)
        elif kind == "item_completed" and item.get("type") in ("CommandExecution", "FileChange"):
            call = turn.find_call(get_text(item.get("id")))
            if call is not None and item.get("status") in ("failed", "declined"):
                call.failed, call.refused = True, call.refused or item.get("status") == "declined"

    def _read_usage(self, turn: SessionTurn, usage: JsonObject) -> None:
        """Add what was used since the last report: a report may be repeated, and its totals only grow."""
        total = TokenCounts(
            read_count(usage, "input_tokens"),
            read_count(usage, "cached_input_tokens"),
            read_count(usage, "cache_write_input_tokens"),
            read_count(usage, "output_tokens"),
            read_count(usage, "reasoning_output_tokens"),
        )
        names = ("input", "cached", "cache_write", "output", "reasoning")
        before = (
            self.total
            if total.input >= self.total.input and total.output >= self.total.output
            else TokenCounts()
        )
        used = TokenCounts(*(max(0, getattr(total, name) - getattr(before, name)) for name in names))
        if total.input or total.output:
            self.total = total
        if used.input or used.output:
            turn.requests[f"{len(turn.requests)}"] = (self.model, used, False)


def _has_failed(text: str) -> bool:
    """Whether the result of an earlier version of the shell, a JSON text, has an exit code other than 0."""
    if not text.startswith("{"):
        return False
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return False
    status = get_object(get_object(found).get("metadata")).get("exit_code")
    return isinstance(status, int) and status != 0
