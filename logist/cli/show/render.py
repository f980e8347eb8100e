"""The only place that prints."""

from __future__ import annotations

import codecs
import json
import os
import select
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import IO, Protocol, TextIO

import click

from logist import event_log
from logist.cli.show import pasting
from logist.cli.show.output import (
    SCHEMA_VERSION,
    Diagnostic,
    DrawnText,
    EncodedRows,
    Line,
    Output,
    Screen,
    StreamedRows,
    StyledText,
    TextTable,
)
from logist.config.environment import Environment
from logist.core.text import columns, invisible_characters
from logist.core.text.invisible_characters import is_invisible
from logist.errors import LogistError, Stopped
from logist.event_log import events
from logist.timestamps import format_local

MARKS = {"error": ("error: ", "red"), "warning": ("warning: ", "yellow"), "info": ("", "dim")}
WIDTH = 80
"""Columns of a terminal of unknown width."""
HEIGHT = 24
UNLIMITED = 500
"""Columns of a drawing if the output is a pipe."""
DETAIL_INDENT = 2
"""Spaces before the line below a row of a table."""
LEAST_LAST = 10
"""Minimum columns of the last column of a table, as long as there are others to leave out or to cut."""
LEAST_CUT = 6
"""Minimum columns of a cell that is cut."""
NOTICED = 0.1
"""Seconds within which a question notices Ctrl-C."""
ROWS_AT_ONCE = 1_000
"""Rows of a listing that are written at once."""
BADGE_WIDTH = 4
"""Maximum columns of a badge; a wider badge is left out."""


def show_output(output: Output, mode: str, environment: Environment) -> int:
    """Print a result in `mode` text, json or jsonl, and return the exit code."""
    output = pasting.add_jobs_dir_to_output(output, environment.named_jobs_dir)
    with _ignore_closed_reader(sys.stdout):
        if isinstance(output.data, EncodedRows) and mode != "text":
            _write_encoded_rows(output.data, mode, output.diagnostics)
        elif mode == "json" and isinstance(output.data, StreamedRows):
            _write_streamed_document(output.data, output.diagnostics)
        elif mode == "json":
            _write_json(output.data if output.bare else _build_document(output.data, output.diagnostics))
        elif mode == "jsonl":
            for row in _list_rows(output.data):
                _write_json(row)
        else:
            _show_text(output, environment)
    if mode != "json" or output.bare:
        print_diagnostics(output.diagnostics, environment)
    else:
        _report_diagnostics(output.diagnostics)
    return output.exit_code


class LiveLines(Protocol):
    """Lines at the bottom of the terminal that are drawn again and again."""

    @property
    def is_drawn(self) -> bool:
        """Whether there are any now."""
        ...

    def hide(self) -> None:
        """Remove them, so that something can be printed; only this thread may draw until `show_again`."""
        ...

    def show_again(self) -> None:
        """Draw them again."""
        ...


_live: list[LiveLines] = []
"""The live lines of this command: none or one."""


_has_times = [False]
"""Whether lines begin with the time, as in a log."""


_may_redraw = [True]
"""Whether this command may replace a line that is on the terminal."""


def forbid_redrawing() -> None:
    """Show no progress lines, which are drawn again and again."""
    _may_redraw[:] = [False]


@contextmanager
def print_times() -> Iterator[None]:
    """Begin each line that is printed inside the block with the local time: the command works for hours.

    On a terminal that is the time of the day; elsewhere, where it may be read days later, the date too.
    """
    _has_times[:] = [True]
    try:
        yield
    finally:
        _has_times[:] = [False]


def _format_now(stream: TextIO) -> tuple[StyledText, ...]:
    if not _has_times[0]:
        return ()
    now = format_local(time.time(), with_seconds=True)
    return (StyledText(f"{now[11:] if stream.isatty() else now} ", "dim"),)


def set_live_lines(lines: LiveLines) -> None:
    """Hide these lines whenever something is printed."""
    _live[:] = [lines]


@contextmanager
def _ignore_closed_reader(stream: TextIO, forgiven: type[OSError] = BrokenPipeError) -> Iterator[None]:
    """If the reader closes the pipe (`| head`), stop printing in this block, but not the work; the exit code stays."""
    hidden = list(_live)
    for lines in hidden:
        lines.hide()
    try:
        yield
        stream.flush()
    except forgiven:
        _drop_stream(stream)
    finally:
        for lines in hidden:
            lines.show_again()


def flush_output() -> None:
    """Flush the output, and ignore errors if nobody reads it. Live lines stay, above what follows."""
    if any(lines.is_drawn for lines in _live):
        with suppress(OSError):
            os.write(sys.stderr.fileno(), b"\n")
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, RuntimeError):  # closed, or interrupted in the middle of a write
            stream.flush()


def has_reader_left() -> bool:
    """True if standard output has no reader any more; buffered output is then discarded."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        has_left = True
    else:
        has_left = _is_closed_pipe(sys.stdout)  # with PYTHONUNBUFFERED, nothing is left to flush
    if has_left:
        _drop_stream(sys.stdout)
    return has_left


def _is_closed_pipe(stream: TextIO) -> bool:
    import select

    poll = select.poll()
    try:
        poll.register(stream.fileno(), select.POLLOUT)  # macOS looks at nothing if asked for nothing
    except (OSError, ValueError):  # no file, in tests
        return False
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def write_buffered_output() -> bool:
    """Write what is still buffered; return whether that was possible."""
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (OSError, ValueError):
        return False
    return True


def drop_output() -> None:
    """Discard the buffered and all later standard output."""
    _drop_stream(sys.stdout)


def _drop_stream(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def get_screen(environment: Environment) -> Screen:
    """Return the terminal that standard output is, or would be."""
    color = environment.has_color(sys.stdout.isatty())
    return Screen(_terminal_width(), color, environment.can_move_cursor())


def _show_text(output: Output, environment: Environment) -> None:
    if output.on_terminal is not None and sys.stdout.isatty():
        print_lines(output.on_terminal(get_screen(environment)), environment)
        return
    if output.raw is not None:
        _write_raw(output.raw)
    print_lines(output.above, environment)
    if output.table is not None:
        _write_table(output.table, environment)
    print_lines(output.lines, environment)


def print_lines(lines: Iterable[Line], environment: Environment) -> None:
    """Print lines for people on standard output immediately."""
    color = environment.has_color(sys.stdout.isatty())
    with _ignore_closed_reader(sys.stdout):
        for line in lines:
            if isinstance(line, DrawnText):
                _write_text(sys.stdout, line.text + "\n")
                continue
            now = style_line(_format_now(sys.stdout), color)
            # Remove line breaks in text by agents: it could fake the next line.
            _write_text(sys.stdout, now + " ".join(style_line(line, color).split("\n")) + "\n")


def print_json(row: object) -> None:
    """Print one JSON object as a line on standard output immediately."""
    with _ignore_closed_reader(sys.stdout):
        _write_json(row)


def print_text(text: str) -> None:
    """Print ASCII on standard output unchanged and immediately."""
    with _ignore_closed_reader(sys.stdout):
        _write_text(sys.stdout, text)


def copy_bytes(stream: IO[bytes]) -> None:
    """Copy a stream to standard output, byte for byte, until its end or until nobody reads any more."""
    with _ignore_closed_reader(sys.stdout):
        sys.stdout.flush()
        while piece := stream.read(1 << 20):
            sys.stdout.buffer.write(piece)


def print_ready_lines(lines: Iterable[str]) -> None:
    """Print lines that are ready for the terminal."""
    with _ignore_closed_reader(sys.stdout):
        for line in lines:
            _write_text(sys.stdout, line + "\n")


def print_in_pager(lines: Iterable[str]) -> None:
    """Print lines that are ready for the terminal; in a pager, if there are more than fit on the screen."""
    from itertools import chain

    rest = iter(lines)
    height = _get_terminal_height()
    first = list(islice(rest, height))
    with _ignore_closed_reader(sys.stdout):
        if len(first) < height or not sys.stdin.isatty():
            for line in chain(first, rest):
                _write_text(sys.stdout, line + "\n")
        else:
            click.echo_via_pager(f"{line}\n" for line in chain(first, rest))


def show_progress(text: str) -> None:
    """Show or replace a progress line on standard error, if that is a terminal; an empty text removes it.

    The old line is overwritten with spaces instead of an escape sequence: this works on every terminal.
    """
    if sys.stderr.isatty() and _may_redraw[0]:
        with _ignore_closed_reader(sys.stderr, OSError):
            width = _terminal_width() - 1
            line = shorten_for_terminal(text, width)
            _write_text(sys.stderr, f"\r{columns.pad_to_columns(line, width)}\r{line}")


def show_error(error: LogistError, mode: str, environment: Environment) -> int:
    """Print an error and its details: one line each on standard error, or the JSON document."""
    diagnostics = pasting.add_jobs_dir_to_diagnostics(
        tuple(map(Diagnostic.from_error, (*error.details, error))), environment.named_jobs_dir
    )
    with _ignore_closed_reader(sys.stdout, OSError):
        if mode == "json":
            _write_json(_build_document(None, diagnostics))
    if mode != "json":
        print_diagnostics(diagnostics, environment)
    else:
        _report_diagnostics(diagnostics)
    return error.exit_code


def print_message(text: str, environment: Environment) -> None:
    """Print a message on standard error."""
    text = pasting.add_jobs_dir(text, environment.named_jobs_dir)
    with _ignore_closed_reader(sys.stderr, OSError):
        _write_text(
            sys.stderr,
            style_line(
                (*_format_now(sys.stderr), StyledText(text, "dim")),
                environment.has_color(sys.stderr.isatty()),
            )
            + "\n",
        )


def ask_to_confirm(question: str, environment: Environment) -> bool:
    """Ask the person at the terminal; False without a terminal, so that a script never waits."""
    if environment.is_input_off() or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    text = style_line((StyledText(question),), environment.has_color(False))
    while (answer := ask_for_text(f"{text} [y/N]").lower()) not in ("y", "yes", "n", "no", ""):
        print_message_lines("enter y or n")
    return answer in ("y", "yes")


def ask_for_text(question: str) -> str:
    """Ask the person at the terminal for a text; "" for none.

    The line is read only once it is there: a read that waits would not notice a Ctrl-C that came just before it.
    """
    try:
        click.echo(f"{question}: ", nl=False, err=True)
        while not select.select([sys.stdin], [], [], NOTICED)[0]:
            pass
        if not (line := sys.stdin.readline()):
            raise click.Abort  # Ctrl-D
    except (KeyboardInterrupt, click.Abort, Stopped):
        click.echo(err=True)  # the cursor is behind the question
        raise
    return line.strip()


def ask_for_key(question: str) -> str:
    """Ask the person at the terminal for a key, ended by Enter. What was typed before is ignored.

    Otherwise a person who types ahead would decide about what is not shown yet.
    """
    import termios

    sys.stdout.flush()
    with suppress(termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    return ask_for_text(question).lower()


def edit_text(text: str, suffix: str) -> str | None:
    """Let the person edit a text in an editor; None if it was not saved."""
    return click.edit(text, extension=suffix)


def print_message_lines(text: str) -> None:
    """Print a message of several lines, without dimming."""
    with _ignore_closed_reader(sys.stderr, OSError):
        _write_text(sys.stderr, clean_for_terminal(text) + "\n")


def style_line(line: Line, color: bool) -> str:
    """Return a line for the terminal: cleaned, and colored if wanted."""
    if isinstance(line, DrawnText):
        return line.text
    spans = (line,) if isinstance(line, str | StyledText) else line  # StyledText is a tuple itself
    return "".join(_style_span(span, color) for span in spans)


def _style_span(span: StyledText | str, color: bool) -> str:
    if isinstance(span, str):
        return clean_for_terminal(span)
    text = _format_badge(span, color) + clean_for_terminal(span.text)
    return _color_text(text, span.style) if color and span.style else text


def _format_badge(span: StyledText, color: bool) -> str:
    """Return the badge and a space if colors are on; pipes and plain output get the text without a badge."""
    if not (color and span.badge):
        return ""
    badge = clean_for_terminal(span.badge)
    encoding = sys.stdout.encoding or "utf-8"
    is_printable = badge.isprintable() and badge.encode(encoding, "ignore").decode(encoding) == badge
    return f"{badge} " if is_printable and 0 < columns.count_columns(badge) <= BADGE_WIDTH else ""


def _color_text(text: str, style: str) -> str:
    words = style.split()
    colors = [word for word in words if word not in ("bold", "dim")]
    return click.style(
        text, fg=colors[0] if colors else None, bold="bold" in words or None, dim="dim" in words or None
    )


def clean_for_terminal(text: str) -> str:
    """Return the text without characters that can control a terminal or are invisible: control, format, surrogate
    and separator characters.

    Also redact a secret that was split by such characters.
    """
    if text.isascii() and text.isprintable():
        return text
    visible = "".join(character for character in text if not is_invisible(character))
    is_clean = len(visible) == len(text) and not invisible_characters.compile_invisible_pattern(visible)
    return _escape_unknown(visible if is_clean else _redact_text(visible))


def _redact_text(text: str) -> str:
    from logist.core.secrets.redact import (
        redact,  # few texts need it, and importing it would slow down `job list`
    )

    return redact(text, Environment.from_process().list_secrets())[0]


def _write_table(table: TextTable, environment: Environment) -> None:
    tty = sys.stdout.isatty()
    color = environment.has_color(tty)
    lines = (
        iter(_align_table(table, color, _terminal_width()))
        if tty
        else ("\t".join([_format_cell(cell, color) for cell in row]) for row in table.rows)
    )
    while part := list(islice(lines, ROWS_AT_ONCE)):
        _write_text(sys.stdout, "".join([f"{line}\n" for line in part]))


def _format_cell(cell: StyledText | str, color: bool) -> str:
    """Return a cell as one line, even if its text has line breaks."""
    if isinstance(cell, str):
        return cell if cell.isascii() and cell.isprintable() else _one_line(cell)
    text = _format_badge(cell, color) + _one_line(cell.text)
    return _color_text(text, cell.style) if color and cell.style else text


def _one_line(text: str) -> str:
    return " ".join(clean_for_terminal(text).split())


def draw_table(table: TextTable, screen: Screen) -> list[Line]:
    """Return the lines of a table that fit the terminal."""
    return [DrawnText(line) for line in _align_table(table, screen.color, screen.columns)]


def cut_line(line: Line, screen: Screen) -> Line:
    """Return the line cut to the width of the terminal, without badges."""
    kept: list[StyledText | str] = []
    room = screen.columns
    if isinstance(line, DrawnText):
        return line
    for span in (line,) if isinstance(line, str | StyledText) else line:
        text, style = (span.text, span.style) if isinstance(span, StyledText) else (span, "")
        text = clean_for_terminal(text)
        kept.append(StyledText(shorten_for_terminal(text, room) if room > 0 else "", style))
        room -= columns.count_columns(text)
    return tuple(kept)


def _align_table(table: TextTable, color: bool, width: int) -> list[str]:
    """Return lines with columns as wide as their widest cell; the last column gets the rest of the line.

    On a narrow terminal, optional columns are left out first, then the widest cells are cut. No line is wider than
    the terminal, so none wraps.
    """
    head = tuple(StyledText(name, "dim") for name in table.head)
    rows = [tuple(_to_span(cell, color) for cell in row) for row in (head, *table.rows)]
    widths = [max(columns.count_columns(row[n].text) for row in rows) for n in range(len(head))]
    kept = _choose_columns(table, widths, width)
    rows = [tuple(row[n] for n in kept) for row in rows]
    widths = _cut_columns([widths[n] for n in kept], width)
    details = ["", *table.details] if table.details else [""] * len(rows)
    lines = []
    for row, detail in zip(rows, details, strict=False):
        lines.append(_aligned_row(row, widths, color).rstrip())
        if (span := _to_span(detail, color)).text:
            text = shorten_for_terminal(f"{' ' * DETAIL_INDENT}{span.text}", width)
            lines.append(_color_text(text, span.style) if color and span.style else text)
    return lines


def _choose_columns(table: TextTable, widths: list[int], width: int) -> list[int]:
    """Return the indices of the columns that fit, the last one with at least LEAST_LAST."""
    kept = list(range(len(table.head)))
    for name in table.optional:
        others = sum(widths[n] + 2 for n in kept[:-1])
        if others + min(widths[kept[-1]], LEAST_LAST) <= width:
            break
        kept.remove(table.head.index(name))
    return kept


def _cut_columns(widths: list[int], width: int) -> list[int]:
    """Return widths of which the sum, with the gaps, is at most that of the terminal, if possible: first the last
    column is cut down to LEAST_LAST, then the widest of those in the middle, then the first, which names the row.
    """
    *others, last = widths
    room = width - 2 * len(others)
    while sum(others) + min(last, LEAST_LAST) > room and max(others, default=0) > LEAST_CUT:
        middle = [n for n in range(1, len(others)) if others[n] > LEAST_CUT]
        others[max(middle, key=lambda n: others[n], default=0)] -= 1
    return [*others, max(1, min(last, room - sum(others)))]


def _to_span(cell: StyledText | str, color: bool) -> StyledText:
    """Return a cell as one line, with its badge as part of the text if badges are displayed."""
    if isinstance(cell, str):
        return StyledText(_one_line(cell))
    return StyledText(_format_badge(cell, color) + _one_line(cell.text), cell.style)


def _aligned_row(row: tuple[StyledText, ...], widths: list[int], color: bool) -> str:
    cells = []
    for (text, style, _), width in zip(row[:-1], widths, strict=False):
        cell = shorten_for_terminal(text, width)
        padding = " " * (width - columns.count_columns(cell) + 2)
        cells.append((_color_text(cell, style) if color and style else cell) + padding)
    last = shorten_for_terminal(row[-1].text, widths[-1])
    return "".join(cells) + (_color_text(last, row[-1].style) if color and row[-1].style and last else last)


def shorten_for_terminal(text: str, width: int) -> str:
    """Return the text in at most `width` columns; a mark that the terminal has replaces the end that is cut off."""
    return columns.shorten_to_columns(text, width, unicode=has_unicode())


def get_drawing_space() -> tuple[int, bool]:
    """Return the columns available for a drawing (many without a terminal), and whether Unicode is possible."""
    return (_terminal_width() if sys.stdout.isatty() else UNLIMITED), has_unicode()


def has_unicode() -> bool:
    """Whether standard output can show every character."""
    try:
        return codecs.lookup(sys.stdout.encoding or "utf-8").name == "utf-8"
    except LookupError:
        return False


def _escape_unknown(text: str) -> str:
    """Return the text with `\\uXXXX` for each character that standard output doesn't have: then its width is known."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _terminal_width() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or WIDTH
    except (OSError, ValueError):
        return WIDTH


def _get_terminal_height() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).lines or HEIGHT
    except (OSError, ValueError):
        return HEIGHT


def _build_document(data: object, diagnostics: tuple[Diagnostic, ...]) -> dict[str, object]:
    return {
        "schema_version": SCHEMA_VERSION,
        "data": data,
        "diagnostics": [diagnostic._asdict() for diagnostic in diagnostics],
    }


def _list_rows(data: object) -> Iterable[object]:
    if isinstance(data, StreamedRows):
        return data.read()
    return data if isinstance(data, list) else [data]


def _write_streamed_document(rows: StreamedRows, diagnostics: tuple[Diagnostic, ...]) -> None:
    """Write the same document as for a list of the rows, with one row in memory at a time."""
    count = sum(1 for _ in rows.read())  # raises the error of an unreadable row before anything is printed
    before, after = _split_document(diagnostics)
    _write_text(sys.stdout, before)
    for number, row in enumerate(islice(rows.read(), count)):
        _write_text(sys.stdout, ("," if number else "") + _dump_json(row))
    _write_text(sys.stdout, after)


def _split_document(diagnostics: tuple[Diagnostic, ...]) -> tuple[str, str]:
    """Return the document of a listing up to its rows, and the rest of it."""
    head, _, tail = _dump_json(_build_document([], diagnostics)).partition("[]")
    return f"{head}[", f"]{tail}\n"


def _write_json(value: object) -> None:
    _write_text(sys.stdout, _dump_json(value) + "\n")


def _dump_json(value: object) -> str:
    """Serialize to ASCII only, so that it can't control a terminal, and encoding never fails."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _write_encoded_rows(rows: EncodedRows, mode: str, diagnostics: tuple[Diagnostic, ...]) -> None:
    """Write the same as for a list of rows, but some at a time, so that all of them are never in memory."""
    before, between, after = "", "\n", "\n"
    if mode == "json":
        before, after = _split_document(diagnostics)
        between = ","
    texts = iter(rows)
    sys.stdout.write(before)
    is_first = True
    while part := list(islice(texts, ROWS_AT_ONCE)):
        sys.stdout.write(("" if is_first else between) + between.join(part))
        is_first = False
    if mode == "json" or not is_first:
        sys.stdout.write(after)


def print_diagnostics(diagnostics: tuple[Diagnostic, ...], environment: Environment) -> None:
    """Print one line each on standard error."""
    _report_diagnostics(diagnostics)
    color = environment.has_color(sys.stderr.isatty())
    with _ignore_closed_reader(sys.stderr, OSError):
        for item in pasting.add_jobs_dir_to_diagnostics(diagnostics, environment.named_jobs_dir):
            line = (*_format_now(sys.stderr), *_format_diagnostic(item))
            _write_text(sys.stderr, style_line(line, color) + "\n")


def _report_diagnostics(diagnostics: tuple[Diagnostic, ...]) -> None:
    if event_log.is_on():
        for each in diagnostics:
            kind = {"error": events.ErrorPrinted, "warning": events.WarningPrinted}.get(each.severity)
            if kind is not None and each.code != "log_file":
                job_id = each.target if each.code == "waiting" else None  # else it can be a file or an option
                event_log.report(kind(each.code, each.message, each.target, each.fix), job_id)


def _format_diagnostic(item: Diagnostic) -> tuple[StyledText | str, ...]:
    mark, style = MARKS[item.severity]
    place = f"{item.target}: " if item.target else ""
    advice = f" ({item.fix})" if item.fix else ""
    return StyledText(mark, style), " ".join(f"{place}{item.message}{advice}".splitlines())


def _write_text(stream: TextIO, text: str) -> None:
    """Write text; characters that the stream can't encode become escapes instead of an error."""
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _write_raw(text: str) -> None:
    """Write the text unchanged in UTF-8; on a terminal, without characters that can control it."""
    if sys.stdout.isatty():
        visible = clean_for_terminal(text)
        # Otherwise the shell prompt or a message would follow on the same line.
        _write_text(sys.stdout, visible if visible.endswith("\n") or not visible else f"{visible}\n")
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "surrogatepass"))
