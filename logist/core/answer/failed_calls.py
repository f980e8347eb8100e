"""The tool calls of a model that failed, from the recorded turns. Has few imports, because `job status` reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from logist.core.answer.findings import shorten_to_line
from logist.quick_tuple import NamedTuple

COMMAND_TOOL = "execute_command"
COMMAND_SUCCEEDED = "[exit status 0;"
"""The start of the result of a successful command."""
LONGEST_ERROR = 300
"""Characters of an error."""
_TARGETS = ("path", "command", "pattern")
"""The arguments of a tool that say what it is about, the most important first."""


class FailedCall(NamedTuple):
    """One call that failed."""

    tool: str
    target: str
    """The file, the command or the pattern that it is about; empty if it names none."""
    error: str
    """What the model got as the result, on one line."""


def has_failed(result: dict[str, Any]) -> bool:
    """Whether a call was refused, was not run, returned an error, or was a command with an exit status other than 0."""
    is_command = result["name"] == COMMAND_TOOL
    return bool(result["error"]) or (is_command and not result["content"].startswith(COMMAND_SUCCEEDED))


def describe_target(arguments: str) -> str:
    """Return what a call of a tool is about: its file, its command or its pattern; "" if it names none."""
    try:
        named = json.loads(arguments)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(named, dict):
        return ""
    return next((named[name] for name in _TARGETS if isinstance(named.get(name), str) and named[name]), "")


def list_failed_calls(turns: Iterable[Any]) -> list[FailedCall]:
    """List the failed calls in the order in which they ran. Lines of another form are ignored: the file may be
    from a stranger, and agent programs write their own.
    """
    failed = []
    for turn in turns:
        try:
            targets = {call["id"]: describe_target(call["arguments"]) for call in turn["calls"]}
            failed += [
                FailedCall(
                    shorten_to_line(result["name"], LONGEST_ERROR),
                    shorten_to_line(targets.get(result["id"], ""), LONGEST_ERROR),
                    _describe_error(result["content"]),
                )
                for result in (turn["tools"] or {}).get("results", ())
                if has_failed(result)
            ]
        except (AttributeError, KeyError, TypeError):
            continue
    return failed


def _describe_error(content: str) -> str:
    """Return the error on one line; of a long output, its first line and its end, where commands say what is wrong."""
    line = " ".join(content.split())
    if len(line) <= LONGEST_ERROR:
        return line
    first, _, rest = content.strip().partition("\n")
    first = shorten_to_line(first, LONGEST_ERROR // 2)
    room = LONGEST_ERROR - len(first) - len(" ... ")
    return f"{first} ... {' '.join(rest[-LONGEST_ERROR * 2 :].split())[-room:]}" if rest else first
