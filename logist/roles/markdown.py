"""Reads a role from a Markdown page: fields as YAML between two `---` lines, instructions below them."""

from __future__ import annotations

import os
from pathlib import Path

from logist.documents import MAX_BYTES, Document, open_file, parse_document, read_content
from logist.errors import InvalidFile
from logist.lazy_patterns import compile_on_use

MARKDOWN = (".md", ".markdown")
AGENT_PROMPT = "agentPrompt"
"""Another name for `instructions`, used in exported workflows."""

_FENCE = compile_on_use(r"---[ \t]*")


def has_front_matter(path: Path) -> bool:
    """True if the first line is `---`; also for a file that can't be read, so that the error is reported."""
    try:
        with open_file(path) as file:
            first = file.readline(100)
    except OSError:
        return True
    return bool(_FENCE.fullmatch(first.decode("utf-8", "replace").removeprefix("\ufeff").rstrip("\r\n")))


def read_markdown(path: Path) -> Document:
    """Read the fields of a page; every failure is an InvalidFile with its line.

    The text below the fields is `instructions`; if the fields include instructions, it is `prompt_template`.
    Blank lines around it are removed.
    """
    name = os.fspath(path)
    try:
        data = read_content(path)
    except OSError as error:
        raise InvalidFile(f"can't read the file: {error.strerror}", where=name) from error
    if len(data) > MAX_BYTES:
        raise InvalidFile(f"must not be larger than {MAX_BYTES:,} bytes", where=name)
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InvalidFile("not valid UTF-8", where=f"{name}:{_lines_before(data, error)}") from error
    return _parse_page(text.replace("\r\n", "\n"), name)


def _lines_before(data: bytes, error: UnicodeDecodeError) -> int:
    return data.count(b"\n", 0, error.start) + 1


def _parse_page(text: str, name: str) -> Document:
    lines = text.split("\n")
    if not _FENCE.fullmatch(lines[0]):
        fix = "begin with the fields of the role between two `---` lines"
        raise InvalidFile("missing front matter", where=f"{name}:1", fix=fix)
    end = next((number for number, line in enumerate(lines[1:], 1) if _FENCE.fullmatch(line)), None)
    if end is None:
        fix = "add a `---` line after the fields"
        raise InvalidFile("the front matter is not closed", where=f"{name}:1", fix=fix)
    # A comment replaces the first line: line numbers stay the same, and the text is never read as JSON.
    fields = parse_document("\n".join(["#", *lines[1:end], ""]), name)
    return _add_body(fields, lines[end + 1 :], end + 2)


def _add_body(fields: Document, body: list[str], first: int) -> Document:
    """Add the text below the fields to the document; `first` is the number of its first line."""
    blank = next((number for number, line in enumerate(body) if line.strip()), None)
    if blank is None:
        return fields
    text = "\n".join(body[blank:]).rstrip() + "\n"
    has_instructions = any(fields.data.get(name) is not None for name in ("instructions", AGENT_PROMPT))
    key = "prompt_template" if has_instructions else "instructions"
    line = first + blank
    if fields.data.get(key) is not None:
        message = f"duplicate `{key}`: in the front matter, and as the text below it"
        raise InvalidFile(message, where=f"{fields.path}:{line}", fix="remove one of them")
    return Document(fields.path, {**fields.data, key: text}, {**fields.lines, key: line})
