"""What a program that still works printed last: a tool it uses, words of its model, or any line.

codex, cline and opencode print events as JSON lines. aider and mini print lines of text. claude, gemini, goose and llm
print one document at the end: until then, there is only what they write to standard error.
"""

from __future__ import annotations

from logist.agents.programs.output import Json, get_at_path, parse_json, strip_controls, text_of
from logist.quick_tuple import NamedTuple


class Said(NamedTuple):
    """What a line of output says; empty texts if it says nothing for people."""

    tool: str = ""
    target: str = ""
    words: str = ""


_TOOLS = ("part.tool", "event.toolName", "toolName")
_INPUTS = ("part.state.input", "event.input", "input")
_TARGETS = ("filePath", "file_path", "path", "command", "pattern", "query", "url")
_WORDS = ("part.text", "item.text", "event.accumulated", "event.text", "text", "message.content", "message")


def find_last_said(stdout: str, stderr: str = "") -> Said | None:
    """Return what the last complete line that is for people says; None if there is none.

    The texts may be the ends of longer outputs.
    """
    return _find_in_lines(stdout) or _find_in_lines(stderr)


def _find_in_lines(output: str) -> Said | None:
    lines = output[: output.rfind("\n") + 1].splitlines()
    said = (_read_line(line) for line in reversed(lines))
    return next((each for each in said if each is not None), None)


def _read_line(line: str) -> Said | None:
    text = strip_controls(line).strip()
    if text[:1] == "{":
        event = parse_json(text)
        return _read_event(event) if isinstance(event, dict) else None
    # Lines like `]`, `"name": 3,` are parts of a document for programs.
    is_prose = any(map(str.isalpha, text)) and text[:1] not in '"[{]}'
    return Said(words=text) if is_prose else None


def _read_event(event: Json) -> Said | None:
    if get_at_path(event, "item.type") == "command_execution":
        return Said(tool="command", target=text_of(get_at_path(event, "item.command")))
    if get_at_path(event, "item.type") == "file_change":
        return Said(tool="file_change", target=text_of(get_at_path(event, "item.changes.0.path")))
    if tool := _find_text(event, _TOOLS):
        given = next((each for path in _INPUTS if isinstance(each := get_at_path(event, path), dict)), {})
        return Said(tool=tool, target=_find_text(given, _TARGETS))
    words = _find_text(event, _WORDS)
    if (
        get_at_path(event, "event.type") == "content_start"
    ):  # text that is arriving: half a word may be half a key
        words = words.rpartition(" ")[0]
    return Said(words=words.splitlines()[-1]) if words else None


def _find_text(data: Json, paths: tuple[str, ...]) -> str:
    return next(filter(None, (text_of(get_at_path(data, path)) for path in paths)), "")
