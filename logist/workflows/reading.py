"""One file to the workflows in it: a diagram, Markdown with diagrams, or a document of steps."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from logist.core import mermaid
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow import exporting
from logist.core.workflow.foreign import is_foreign
from logist.core.workflow.listed import read_listed
from logist.core.workflow.markdown import DiagramBlock, page
from logist.core.workflow.parsing import read_mermaid
from logist.core.workflow.places import Read
from logist.core.workflow.twins import blanked, twins
from logist.documents import MAX_BYTES, Document, content, parse
from logist.errors import InvalidFile

DIAGRAMS = (".mmd", ".mermaid")
PAGES = (".md", ".markdown")
DOCUMENTS = (".yaml", ".yml", ".json")
SUFFIXES = (*DIAGRAMS, *PAGES, *DOCUMENTS)
"""What a workflow file may be called."""

_PLACE = re.compile(r":(\d+)(?::(\d+))?$")


def readings(path: Path) -> list[Read]:
    """The workflows of a file, always at least one; why it can't be read is a problem of the first."""
    try:
        text = text_of(path)
    except OSError as error:
        unread = InvalidFile(f"cannot be read: {error.strerror}", where=os.fspath(path))
        return [Read(path.stem, None, (_problem(unread),))]
    except InvalidFile as error:
        return [Read(path.stem, None, (_problem(error),))]
    return read_text(text, os.fspath(path))


def read_text(text: str, name: str) -> list[Read]:
    """The workflows of a text; `name` is its file's, whose suffix tells the format and whose stem is a name."""
    stem, suffix = os.path.splitext(os.path.basename(name))
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        message = f"is larger than {MAX_BYTES:,} bytes"
        return [Read(stem, None, (WorkflowProblem("error", "too_large", message, line=1),))]
    if suffix.lower() in PAGES:
        return _page(text, name, stem)
    if suffix.lower() in DOCUMENTS:
        return _document(text, name, stem)
    return _with_front_matter(text, read_mermaid(text, stem))


def _with_front_matter(diagram: str, reads: list[Read]) -> list[Read]:
    """The workflows of a diagram, with an error where its front matter is no YAML: mermaid draws nothing then."""
    body = mermaid.front_matter(diagram)
    try:
        parse("front:\n" + "".join(f"  {line}\n" for line in body.split("\n")), "front matter.yaml")
    except InvalidFile as error:
        found = replace(_problem(error), code="mermaid", path="front matter")
        first, *others = reads
        return [replace(first, problems=(found, *first.problems)), *others]
    return reads


def text_of(path: Path) -> str:
    """The text of a file, every byte of it. InvalidFile if it is too large or none, OSError if it can't be read."""
    name = os.fspath(path)
    data = content(path)
    if len(data) > MAX_BYTES:
        raise InvalidFile(f"is larger than {MAX_BYTES:,} bytes", where=name)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidFile("is not UTF-8 text", where=f"{name}:{line}") from error


def _document(text: str, name: str, stem: str) -> list[Read]:
    twins: list[WorkflowProblem] = []
    try:
        document = parse(text, name)
    except InvalidFile as error:
        lenient = _without_twins(text, name)
        if lenient is None:
            return [Read(stem, None, (_problem(error),))]
        document, twins = lenient
    if exporting.is_export(document.data):
        return [exporting.imported(document.data, document.lines, stem)]
    read = read_listed(document.data, document.lines, stem)
    return [replace(read, problems=(*twins, *read.problems))]


def _without_twins(text: str, name: str) -> tuple[Document, list[WorkflowProblem]] | None:
    """A foreign JSON file with keys that are there twice, as its own servers read it: the last one holds."""
    if not name.lower().endswith(".json"):
        return None
    found = list(twins(text))
    try:
        document = parse(blanked(text, found), name)
    except InvalidFile:
        return None
    if not found or not isinstance(document.data.get("steps"), list) or not is_foreign(document.data):
        return None
    return document, [
        WorkflowProblem("warning", "twice", f"`{twin.key}` is there twice: the last one holds", "", twin.line)
        for twin in found
    ]


def _page(text: str, name: str, stem: str) -> list[Read]:
    """The flowcharts of a page: one is named by the front matter or the file, several by their headings too."""
    found = page(text)
    flows = [block for block in found.blocks if block.is_flow]
    if not flows:
        message = "holds no flowchart: a block fenced as ```mermaid that begins with flowchart or graph"
        return [Read(stem, None, (WorkflowProblem("error", "no_diagram", message, line=1),))]
    front, problems = _front(found.front, name)
    title = _given(front, "name") or _given(front, "title") or stem
    description = _given(front, "description")
    reads: list[Read] = []
    for number, block in enumerate(flows, start=1):
        own = title if len(flows) == 1 else block.heading or f"{title} {number}"
        reads += _block(block, own, description)
    first = reads[0]
    reads[0] = Read(first.name, first.workflow, (*problems, *first.problems), first.places)
    return _named_once(reads)


def _block(block: DiagramBlock, name: str, description: str) -> list[Read]:
    return _with_front_matter(block.text, read_mermaid(block.text, name, description, block.before))


def _named_once(reads: list[Read]) -> list[Read]:
    """Two diagrams under one heading: the later ones get a number."""
    seen: dict[str, int] = {}
    named = []
    for read in reads:
        seen[read.name] = count = seen.get(read.name, 0) + 1
        if count > 1:
            name = f"{read.name} {count}"
            workflow = read.workflow and read.workflow.model_copy(update={"name": name})
            read = Read(name, workflow, read.problems, read.places)
        named.append(read)
    return named


def _front(front: str, name: str) -> tuple[Document, list[WorkflowProblem]]:
    try:
        return parse(front, f"{name}.yaml"), []
    except InvalidFile as error:
        problem = _problem(error)
        return Document(name, {}, {}), [replace(problem, line=(problem.line or 1) + 1, path="front matter")]


def _given(document: Document, key: str) -> str:
    value = document.data.get(key)
    return value if isinstance(value, str) else ""


def _problem(error: InvalidFile) -> WorkflowProblem:
    """What a document can't be read for, its place as numbers."""
    place = _PLACE.search(error.where or "")
    line = int(place[1]) if place else None
    column = int(place[2]) if place and place[2] else None
    return WorkflowProblem("error", "unreadable", error.message, "", line, column, error.fix or "")
