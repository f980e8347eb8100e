"""Reads a session of Claude Code: one JSON object per line, one file per session (`~/.claude/projects`)."""

from __future__ import annotations

from collections.abc import Iterable

from logist.core.adoption.session import (
    LONGEST_ARGUMENTS,
    LONGEST_RESULT,
    LONGEST_TEXT,
    AgentSession,
    NotASessionError,
    Redact,
    SessionCall,
    SessionTurn,
    TokenCounts,
    dump_arguments,
    get_items,
    get_object,
    get_text,
    join_texts,
    keep_text,
    read_count,
    read_time,
)
from logist.core.permissions.foreign_tools import list_needs
from logist.core.text.json_object import JsonObject

_NOT_TYPED = ("<local-command-", "<command-name>", "<command-message>", "Caveat: ")
"""How messages begin that the program itself writes in the name of the user."""
_INTERRUPTED = "[Request interrupted by user"
_REFUSED = (
    "Permission to use ",
    "The user doesn't want to proceed",
    "Claude requested permissions",
    "This command requires approval",
)
"""How the result of a call begins that was not allowed."""
SAME_START = 0.1
"""Seconds by which the first messages of a session may be older than its first line."""
_SYNTHETIC = "<synthetic>"
"""The model of messages that the program writes in the name of the model."""


def is_claude_line(line: JsonObject) -> bool:
    """Whether a line is one of a session of Claude Code."""
    return isinstance(line.get("sessionId"), str) and isinstance(line.get("type"), str)


def is_subagent_line(line: JsonObject) -> bool:
    """Whether a line belongs to a subagent, whose file is a part of a session."""
    return line.get("isSidechain") is True


def read_claude_session(
    lines: Iterable[JsonObject],
    subagents: Iterable[JsonObject] = (),
    elsewhere: set[str] | None = None,
    redact: Redact = keep_text,
) -> AgentSession:
    """Read a session. `subagents`: the lines of the files of its subagents.

    `elsewhere`: the ids of the lines of sessions that were read before; those of this one are added. A session that
    was forked begins with the lines of the other one, and their usage must not be counted twice.
    """
    reading = _ClaudeReading(
        AgentSession("Claude Code", "claude", provider="anthropic", redact=redact),
        set() if elsewhere is None else elsewhere,
    )
    for line in lines:
        reading.read_line(line)
    for line in subagents:
        reading.read_subagent_line(line)
    return reading.session


class _ClaudeReading:
    def __init__(self, session: AgentSession, elsewhere: set[str]) -> None:
        self.session = session
        self.seen: set[str] = set()
        self.elsewhere = elsewhere
        self.first: float | None = None
        """The time of the first line: messages that are older were copied from another session."""
        self.last_answer = ""
        """The id of the message that wrote the last text."""

    def read_line(self, line: JsonObject) -> None:
        session = self.session
        session.id = session.id or get_text(line.get("sessionId"))
        session.version = get_text(line.get("version")) or session.version
        session.directory = session.directory or get_text(line.get("cwd"))
        moment = read_time(line.get("timestamp"))
        self.first = moment if self.first is None else self.first
        uuid = get_text(line.get("uuid"))
        if uuid and uuid in self.seen:
            session.notes["repeated lines were left out"] += 1
            return
        self.seen.add(uuid)
        if is_subagent_line(line):  # earlier versions wrote the lines of subagents to the same file
            self.read_subagent_line(line)
        elif line.get("type") == "user":
            self._read_user(line)
        elif line.get("type") == "assistant":
            self._read_assistant(line)
        elif line.get("subtype") == "compact_boundary":
            session.notes["the program compacted the conversation"] += 1

    def read_subagent_line(self, line: JsonObject) -> None:
        """Add the calls and the usage of a subagent to the turn that it worked for."""
        turn = self._find_turn_at(read_time(line.get("timestamp")))
        if turn is None:
            return
        self.session.notes["calls of subagents belong to the turn that started them"] = 1
        message = get_object(line.get("message"))
        if line.get("type") == "assistant":
            answer = turn.answer
            self._read_usage(turn, line, message)
            for block in get_items(message.get("content")):
                if get_object(block).get("type") == "tool_use":
                    turn.add_call(self._build_call(block))
            turn.answer = answer
        elif line.get("type") == "user":
            self._read_results(turn, line, get_items(message.get("content")))

    def _find_turn_at(self, moment: float | None) -> SessionTurn | None:
        turns = self.session.turns
        if moment is not None:
            for turn in reversed(turns):
                if turn.started is not None and turn.started <= moment:
                    return turn
        return turns[-1] if turns else None

    def _read_user(self, line: JsonObject) -> None:
        content = get_object(line.get("message")).get("content")
        moment = read_time(line.get("timestamp"))
        turns = self.session.turns
        results = [block for block in get_items(content) if get_object(block).get("type") == "tool_result"]
        if results:
            if turns:
                turns[-1].see_time(moment)
                self._read_results(turns[-1], line, results)
            return
        text = join_texts(content)
        if text.startswith(_INTERRUPTED):
            if turns:
                turns[-1].error = "the person interrupted the program"
        elif (
            line.get("isMeta") is True or line.get("isCompactSummary") is True or text.startswith(_NOT_TYPED)
        ):
            return
        elif text.strip():
            self.session.begin_turn(text, moment)

    def _read_results(self, turn: SessionTurn, line: JsonObject, blocks: list[object]) -> None:
        for block in map(get_object, blocks):
            call = turn.find_call(get_text(block.get("tool_use_id")))
            if call is None:
                continue
            text = join_texts(block.get("content"))
            call.result = self.session.limit_text(text, LONGEST_RESULT)
            call.failed = block.get("is_error") is True
            call.refused = call.failed and text.removeprefix("<tool_use_error>").startswith(_REFUSED)
            if get_object(line.get("toolUseResult")).get("type") == "create":
                call.needs = list_needs(call.name, creates=True)

    def _read_assistant(self, line: JsonObject) -> None:
        turns, message = self.session.turns, get_object(line.get("message"))
        if not turns:
            self.session.notes["answers without a prompt were left out"] += 1
            return
        turn = turns[-1]
        text = join_texts(message.get("content"))
        if message.get("model") == _SYNTHETIC:
            if line.get("isApiErrorMessage") is True:
                turn.see_time(read_time(line.get("timestamp")))
                turn.error = self.session.limit_text(text, LONGEST_RESULT) or "the model did not answer"
            return
        turn.see_time(read_time(line.get("timestamp")))
        turn.error = None
        turn.cut = message.get("stop_reason") == "max_tokens"
        self._read_usage(turn, line, message)
        answer_id = get_text(message.get("id"))
        for block in map(get_object, get_items(message.get("content"))):
            if block.get("type") == "tool_use":
                turn.add_call(self._build_call(block))
        if text and not any(
            get_object(b).get("type") == "tool_use" for b in get_items(message.get("content"))
        ):
            more = turn.answer + "\n" if turn.answer and answer_id == self.last_answer else ""
            turn.answer = self.session.limit_text(more + text, LONGEST_TEXT)
            self.last_answer = answer_id

    def _read_usage(self, turn: SessionTurn, line: JsonObject, message: JsonObject) -> None:
        """Keep the usage of a message once: it is repeated in the line of each of its blocks."""
        usage = get_object(message.get("usage"))
        cached = read_count(usage, "cache_read_input_tokens")
        written = read_count(usage, "cache_creation_input_tokens")
        tokens = TokenCounts(
            read_count(usage, "input_tokens") + cached + written,
            cached,
            written,
            read_count(usage, "output_tokens"),
        )
        moment, uuid = read_time(line.get("timestamp")), get_text(line.get("uuid"))
        is_old = moment is not None and self.first is not None and moment < self.first - SAME_START
        copied = is_old or "forkedFrom" in line or uuid in self.elsewhere
        self.elsewhere.add(uuid)
        if copied:
            self.session.notes["what another session has recorded too is not counted again"] = 1
        answer_id = get_text(message.get("id")) or get_text(line.get("uuid"))
        turn.requests[answer_id] = (get_text(message.get("model")), tokens, copied)

    def _build_call(self, block: JsonObject) -> SessionCall:
        name, arguments = (
            self.session.redact_text(get_text(block.get("name")))[:200] or "(no name)",
            block.get("input"),
        )
        text = self.session.limit_text(dump_arguments(arguments), LONGEST_ARGUMENTS)
        return SessionCall(get_text(block.get("id")), name, text, list_needs(name, arguments))


def require_whole_session(line: JsonObject) -> None:
    """Raise NotASessionError if the first message of a file is one of a subagent."""
    if is_subagent_line(line):
        raise NotASessionError(
            f"it is a subagent of the session {get_text(line.get('sessionId'))[:60]}: adopt that one"
        )
