"""The result of a command, which is rendered as text or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from logist.errors import LogistError
from logist.quick_tuple import NamedTuple

SCHEMA_VERSION = 1
DECODED_AT_ONCE = 200


class StyledText(NamedTuple):
    """A piece of a line. `text` may come from an agent: it is cleaned before it is printed."""

    text: str
    style: str = ""
    """Names of click styles, separated by spaces: `bold`, `dim`, or a color."""
    badge: str = ""
    """Printed before the text, but only if colors are on."""


class Command(StyledText):
    """Text with a command that a person may run, written by Logist itself."""

    __slots__ = ()


class DrawnText(NamedTuple):
    """Lines that are ready for the terminal: cleaned, styled and cut to its width."""

    text: str


Line = str | StyledText | tuple[StyledText | str, ...] | DrawnText


class Screen(NamedTuple):
    """The terminal that a result is drawn for."""

    columns: int
    color: bool
    """Whether styles are wanted."""
    can_draw: bool
    """Whether it is more than a dumb terminal."""


class TextTable(NamedTuple):
    """Rows of cells: aligned and cut to the width of a terminal; tab-separated and complete in a pipe."""

    head: tuple[str, ...]
    rows: Iterable[tuple[StyledText | str, ...]]
    optional: tuple[str, ...] = ()
    """Columns that a terminal leaves out if it is too narrow, in this order."""
    details: Sequence[StyledText | str] = ()
    """For each row, a line that a terminal shows below it; "" for none."""


class StreamedRows(NamedTuple):
    """Rows of a listing that are read one by one, so that they are never in memory together."""

    read: Callable[[], Iterator[Any]]
    """Reads all rows. `--json` reads them twice: the document is begun only if every row can be read."""


class Diagnostic(NamedTuple):
    """A message for a person in addition to the data."""

    severity: str
    """`error`, `warning` or `info`."""
    code: str
    message: str
    target: str | None = None
    fix: str | None = None

    @classmethod
    def from_error(cls, error: LogistError) -> Diagnostic:
        """Return the diagnostic for an error."""
        return cls("error", error.code, error.message, error.where, error.fix)


def decode_texts(texts: Iterable[str]) -> Iterator[Any]:
    """Yield the values of JSON texts: many at once, because a call takes longer than a short text."""
    rest = iter(texts)
    while part := ",".join(islice(rest, DECODED_AT_ONCE)):
        yield from json.loads(f"[{part}]")


class EncodedRows:
    """The rows of a listing, each encoded as JSON, so that very many rows need no memory. They are read once."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = iter(texts)

    def __iter__(self) -> Iterator[str]:
        return self._texts

    def decode(self) -> Iterator[dict[str, Any]]:
        """Yield the rows."""
        return decode_texts(self._texts)

    def convert(self, convert: Callable[[Any], Any]) -> EncodedRows:
        """Return changed rows."""
        return EncodedRows(json.dumps(convert(row), separators=(",", ":")) for row in self.decode())


class Output(NamedTuple):
    """The result of a command."""

    data: Any
    """Value of `data` in the `--json` output; for a listing (a list, StreamedRows), the rows that `--jsonl` prints one
    per line."""
    lines: Iterable[Line] = ()
    """Text for standard output."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """Printed on standard error, or in the JSON document."""
    exit_code: int = 0
    raw: str | None = None
    """Text for standard output without any change (prompts, completion scripts, archived answers)."""
    table: TextTable | None = None
    above: Iterable[Line] = ()
    """Text printed before the table."""
    on_terminal: Callable[[Screen], Iterable[Line]] | None = None
    """Returns what a terminal shows instead of the text, if that differs from what a pipe gets."""
    bare: bool = False
    """True if `--json` prints only the data, for the protocol of another tool, instead of the usual document."""


def make_warnings(messages: Iterable[str], code: str = "warning") -> tuple[Diagnostic, ...]:
    """Return one warning per message."""
    return tuple(Diagnostic("warning", code, message) for message in messages)


def make_notes(messages: Iterable[str]) -> tuple[Diagnostic, ...]:
    """Return one note per message."""
    return tuple(Diagnostic("info", "note", message) for message in messages)


def note_removal(folder: str) -> tuple[Diagnostic, ...]:
    """Return a note about the files that `logist gc` has removed from the job in `folder`; none for other jobs."""
    from logist.store.cleaned import describe_removal

    message = describe_removal(folder)
    return (Diagnostic("info", "removed_files", message, folder),) if message else ()


def exit_code_of_signal(number: int) -> int:
    """Return the exit code of a stop by that signal: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + number
