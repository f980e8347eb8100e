"""Adds the --jobs-dir of the running command to the commands that it prints, so that users can paste them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from shlex import quote
from typing import Any

from logist.cli.show.output import (
    Command,
    Diagnostic,
    DrawnText,
    EncodedRows,
    Line,
    Output,
    Screen,
    StyledText,
)
from logist.lazy_patterns import compile_on_use

_COMMAND = compile_on_use(r"\blogist (?:job [a-z]+|runs (?:list|show)|run|doctor|du|gc)\b")
_COMMANDS = ("next_command", "switch_command", "read_command", "poststep_command", "command")
"""Keys of JSON data that hold commands."""
_ROWS = ("jobs", "waiting", "workflow", "children", "commands")
"""Keys with nested data of this kind; text by agents is never changed."""


def add_jobs_dir(text: str, jobs_dir: str | None) -> str:
    """Return the text with --jobs-dir added to its commands, if a directory was chosen."""
    if not jobs_dir or "--jobs-dir" in text:
        return text
    return _COMMAND.sub(lambda found: f"{found[0]} --jobs-dir {quote(jobs_dir)}", text)


def add_jobs_dir_to_diagnostics(
    items: tuple[Diagnostic, ...], jobs_dir: str | None
) -> tuple[Diagnostic, ...]:
    """The same for diagnostics."""
    if not jobs_dir:
        return items
    return tuple(
        item._replace(
            message=add_jobs_dir(item.message, jobs_dir), fix=item.fix and add_jobs_dir(item.fix, jobs_dir)
        )
        for item in items
    )


def add_jobs_dir_to_output(result: Output, jobs_dir: str | None) -> Output:
    """The same for the complete result of a command."""
    if not jobs_dir:
        return result
    return result._replace(
        data=_convert_data(result.data, jobs_dir) if not isinstance(result.data, Iterator) else result.data,
        lines=[_convert_line(line, jobs_dir) for line in result.lines],
        on_terminal=_convert_drawing(result.on_terminal, jobs_dir),
        diagnostics=add_jobs_dir_to_diagnostics(result.diagnostics, jobs_dir),
    )


def _convert_drawing(
    draw: Callable[[Screen], Iterable[Line]] | None, jobs_dir: str
) -> Callable[[Screen], Iterable[Line]] | None:
    return draw and (lambda screen: [_convert_line(line, jobs_dir) for line in draw(screen)])


def _convert_line(line: Line, jobs_dir: str) -> Line:
    if isinstance(line, str | DrawnText):
        return line
    if isinstance(line, StyledText):
        return _convert_span(line, jobs_dir)
    return tuple(_convert_span(span, jobs_dir) for span in line)


def _convert_span(span: StyledText | str, jobs_dir: str) -> StyledText | str:
    return span._replace(text=add_jobs_dir(span.text, jobs_dir)) if isinstance(span, Command) else span


def _convert_data(data: Any, jobs_dir: str) -> Any:
    if isinstance(data, EncodedRows):
        return data.convert(lambda row: _convert_data(row, jobs_dir))
    if isinstance(data, list):
        return [_convert_data(each, jobs_dir) for each in data]
    if not isinstance(data, dict):
        return data
    texts = {key: data[key] for key in _COMMANDS if isinstance(data.get(key), str)}
    rows = {key: _convert_data(data[key], jobs_dir) for key in _ROWS if key in data}
    return {**data, **{key: add_jobs_dir(text, jobs_dir) for key, text in texts.items()}, **rows}
