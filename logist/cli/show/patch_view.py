"""Shows a patch on a terminal: with colors, highlighted code, and in a pager if it is long. Loads rich."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import IO

from logist.cli.show import render
from logist.cli.show.output import Line, StyledText
from logist.config.environment import Environment

HIGHLIGHTED = 5_000
"""Lines; the code of a longer patch is not highlighted, because that takes longer than a person waits."""
LONGEST_LINE = 2_000
"""Characters of a line that is highlighted."""
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def show_patch(summary: Iterable[Line], stream: IO[bytes], environment: Environment) -> None:
    """Print the summary and the patch; in a pager, if both don't fit on the screen."""
    has_color = environment.has_color(True)
    lines = chain(
        (render.style_line(line, has_color) for line in summary),
        [""],
        _iter_lines(stream, has_color=has_color),
    )
    if environment.is_plain() or environment.is_input_off():
        render.print_ready_lines(lines)
    else:
        render.print_in_pager(lines)


def show_patch_start(stream: IO[bytes], most: int, environment: Environment) -> bool:
    """Print the first lines of a patch; return whether there are more."""
    lines = list(islice(_iter_lines(stream, has_color=environment.has_color(True)), most + 1))
    render.print_ready_lines(lines[:most])
    return len(lines) > most


def _iter_lines(stream: IO[bytes], *, has_color: bool) -> Iterator[str]:
    raw = (line.decode("utf-8", "backslashreplace").rstrip("\n") for line in stream)
    if not has_color:
        yield from map(render.clean_for_terminal, raw)
        return
    first = list(islice(raw, HIGHLIGHTED + 1))
    if len(first) <= HIGHLIGHTED:
        yield from _highlight_lines(first)
        return
    for line in chain(first, raw):
        yield _color_line(line)


def _color_line(line: str) -> str:
    return render.style_line((StyledText(line, _STYLES.get(line[:1], "")),), True)


def _highlight_lines(lines: list[str]) -> Iterator[str]:
    """Color the marks of all lines, and the code of those that are there afterwards."""
    code = _Highlighter()
    hunk: list[str] = []
    for line in lines:
        if hunk and line[:1] not in ("+", "-", " ", "\\"):
            yield from code.format_hunk(hunk)
            hunk = []
        if line.startswith("diff --git "):
            code = _Highlighter()
            yield render.style_line((StyledText(line, "bold"),), True)
        elif line.startswith("@@"):
            yield _color_line(line)
            code.is_in_hunk = True
        elif code.is_in_hunk:
            hunk.append(line)
        else:
            if line.startswith("+++ b/"):
                code.path = line.removeprefix("+++ b/").rstrip("\t")
            yield render.style_line((StyledText(line, "dim"),), True)
    yield from code.format_hunk(hunk)


class _Highlighter:
    """Highlights the hunks of one file."""

    def __init__(self) -> None:
        self.path = ""
        self.is_in_hunk = False

    def format_hunk(self, lines: list[str]) -> Iterator[str]:
        """Yield the lines of a hunk for the terminal."""
        present = [render.clean_for_terminal(line[1:]) for line in lines if line[:1] in ("+", " ")]
        highlighted = iter(self._highlight(present))
        for line in lines:
            if line[:1] in ("+", " "):
                mark = render.style_line((StyledText(line[:1], _STYLES.get(line[:1], "")),), True)
                yield mark + next(highlighted)
            else:
                yield _color_line(line)

    def _highlight(self, lines: list[str]) -> list[str]:
        if not self.path or any(len(line) > LONGEST_LINE for line in lines):
            return lines
        from rich.console import Console
        from rich.syntax import Syntax

        text = "\n".join(lines)
        lexer = Syntax.guess_lexer(self.path)
        if lexer == "default" or not text:
            return lines
        syntax = Syntax("", lexer, theme="ansi_dark", background_color="default")
        console = Console(
            force_terminal=True, color_system="standard", width=LONGEST_LINE + 100, legacy_windows=False
        )
        with console.capture() as capture:
            console.print(syntax.highlight(text), end="", soft_wrap=True)
        shown = capture.get().split("\n")
        if shown and not shown[-1].strip():
            shown = [*shown[:-1]] if len(shown) > len(lines) else shown
        return shown if len(shown) == len(lines) else lines
