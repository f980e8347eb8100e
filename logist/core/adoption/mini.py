"""Reads a trajectory of mini-swe-agent: one JSON document per run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

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
from logist.core.money.amounts import MICROCENTS
from logist.core.permissions.foreign_tools import list_needs
from logist.core.text.json_object import JsonObject

_SHELL = "bash"
_MOST_DOLLARS = 10**6
_SUBMITTED = "Submitted"


def is_mini_document(document: JsonObject) -> bool:
    """Whether a document is a trajectory."""
    is_named = get_text(document.get("trajectory_format")).startswith("mini-swe-agent")
    return isinstance(document.get("messages"), list) and (is_named or isinstance(document.get("info"), dict))


def read_mini_session(document: JsonObject, digest: str, redact: Redact = keep_text) -> AgentSession:
    """Read a trajectory; `digest` is the hash of the file, because a trajectory has no id."""
    info = get_object(document.get("info"))
    session = AgentSession(
        "mini-swe-agent", "mini", id=digest[:16], version=get_text(info.get("mini_version")), redact=redact
    )
    session.greeting = "Please solve this issue: "
    environment = get_object(get_object(info.get("config")).get("environment"))
    session.directory = get_text(environment.get("cwd"))
    model = get_text(get_object(get_object(info.get("config")).get("model")).get("model_name"))
    session.provider = model.partition("/")[0] if "/" in model else ""
    messages = [get_object(message) for message in get_items(document.get("messages"))]
    turn = _begin_turn(session, messages)
    waiting: list[SessionCall] = []
    for number, message in enumerate(messages):
        _read_message(session, turn, message, number, waiting)
    _read_end(session, turn, info)
    return session


def _begin_turn(session: AgentSession, messages: list[JsonObject]) -> SessionTurn:
    """Begin the turn with the first message of the user, the task in the template of mini."""
    prompts = (join_texts(message.get("content")) for message in messages if message.get("role") == "user")
    prompt = next(filter(str.strip, prompts), "")
    if not prompt:
        raise NotASessionError("it has no prompt")
    return session.begin_turn(prompt, None)


def _read_message(
    session: AgentSession, turn: SessionTurn, message: JsonObject, number: int, waiting: list[SessionCall]
) -> None:
    extra = get_object(message.get("extra"))
    turn.see_time(read_time(extra.get("timestamp")))
    if message.get("role") == "assistant":
        _read_answer(session, turn, message, number)
        waiting[:] = turn.calls[-len(list(_list_actions(message))) :] if list(_list_actions(message)) else []
    elif waiting and "returncode" in extra:
        call = waiting.pop(0)
        call.result = session.limit_text(get_text(extra.get("raw_output")), LONGEST_RESULT)
        call.failed = extra.get("returncode") != 0


def _read_answer(session: AgentSession, turn: SessionTurn, message: JsonObject, number: int) -> None:
    response = get_object(get_object(message.get("extra")).get("response"))
    usage = get_object(response.get("usage"))
    tokens = TokenCounts(
        read_count(usage, "prompt_tokens", "input_tokens"),
        read_count(get_object(usage.get("prompt_tokens_details")), "cached_tokens"),
        0,
        read_count(usage, "completion_tokens", "output_tokens"),
        read_count(get_object(usage.get("completion_tokens_details")), "reasoning_tokens"),
    )
    if usage:
        turn.requests[str(number)] = (get_text(response.get("model")), tokens, False)
    for name, arguments in _list_actions(message):
        text = session.limit_text(dump_arguments(arguments), LONGEST_ARGUMENTS)
        turn.add_call(SessionCall("", name, text, list_needs(name, arguments)))
    text = join_texts(message.get("content"))
    if text:
        turn.answer = session.limit_text(text, LONGEST_TEXT)


def _list_actions(message: JsonObject) -> Iterator[tuple[str, Any]]:
    """Yield the commands of a message, as mini read them."""
    for action in get_items(get_object(message.get("extra")).get("actions")):
        command = get_object(action).get("command") if isinstance(action, dict) else action
        if isinstance(command, str):
            yield _SHELL, {"command": command}


def _read_end(session: AgentSession, turn: SessionTurn, info: JsonObject) -> None:
    status = get_text(info.get("exit_status"))
    submission = info.get("submission")
    if status == _SUBMITTED:
        turn.answer = session.limit_text(get_text(submission), LONGEST_TEXT) or turn.answer
    else:
        turn.error = (
            f"mini-swe-agent ended with {session.redact_text(status)[:100]}"
            if status
            else "the trajectory has no end"
        )
    cost = get_object(info.get("model_stats")).get("instance_cost")
    if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 < cost < _MOST_DOLLARS:
        turn.reported_microcents = math.ceil(cost * 100 * MICROCENTS)
