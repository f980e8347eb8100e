"""Reads the workflows of a file: a diagram, Markdown with diagrams, or a document of steps."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from logist.core import mermaid
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow import exporting
from logist.core.workflow.foreign import is_foreign
from logist.core.workflow.listed import read_step_list
from logist.core.workflow.markdown import DiagramBlock, read_page
from logist.core.workflow.parsing import read_mermaid
from logist.core.workflow.places import Read
from logist.core.workflow.twins import blank_duplicates, find_duplicate_keys
from logist.documents import MAX_BYTES, Document, parse_document, read_content
from logist.errors import InvalidFile

DIAGRAMS = (".mmd", ".mermaid")
PAGES = (".md", ".markdown")
DOCUMENTS = (".yaml", ".yml", ".json")
SUFFIXES = (*DIAGRAMS, *PAGES, *DOCUMENTS)
"""The suffixes of workflow files."""

_PLACE = re.compile(r":(\d+)(?::(\d+))?$")


def read_workflow_file(path: Path) -> list[Read]:
    """Read the workflows of a file, always at least one.

    If it can't be read, the first has the reason as a problem.
    """
    try:
        text = read_file_text(path)
    except OSError as error:
        failure = InvalidFile(f"can't read the file: {error.strerror}", where=os.fspath(path))
        return [Read(path.stem, None, (_error_to_problem(failure),))]
    except InvalidFile as error:
        return [Read(path.stem, None, (_error_to_problem(error),))]
    return parse_workflow_text(text, os.fspath(path))


def parse_workflow_text(text: str, name: str) -> list[Read]:
    """Read the workflows of a text.

    The suffix of the file `name` determines the format, the stem a default name.
    """
    stem, suffix = os.path.splitext(os.path.basename(name))
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        message = f"must not be larger than {MAX_BYTES:,} bytes"
        return [Read(stem, None, (WorkflowProblem("error", "too_large", message, line=1),))]
    if suffix.lower() in PAGES:
        return _read_page(text, name, stem)
    if suffix.lower() in DOCUMENTS:
        return _read_document(text, name, stem)
    return _check_front_matter(text, read_mermaid(text, stem))


def _check_front_matter(diagram: str, reads: list[Read]) -> list[Read]:
    """Add an error to the workflows of a diagram if its front matter is not YAML: mermaid would draw nothing."""
    body = mermaid.extract_front_matter(diagram)
    try:
        parse_document("front:\n" + "".join(f"  {line}\n" for line in body.split("\n")), "front matter.yaml")
    except InvalidFile as error:
        problem = replace(_error_to_problem(error), code="mermaid", path="front matter")
        first, *others = reads
        return [replace(first, problems=(problem, *first.problems)), *others]
    return reads


def read_file_text(path: Path) -> str:
    """Return the text of a file.

    Raises InvalidFile if it is too large or not UTF-8, OSError if it can't be read.
    """
    name = os.fspath(path)
    data = read_content(path)
    if len(data) > MAX_BYTES:
        raise InvalidFile(f"must not be larger than {MAX_BYTES:,} bytes", where=name)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidFile("not valid UTF-8", where=f"{name}:{line}") from error


def _read_document(text: str, name: str, stem: str) -> list[Read]:
    twins: list[WorkflowProblem] = []
    try:
        document = parse_document(text, name)
    except InvalidFile as error:
        lenient = _parse_with_twins(text, name)
        if lenient is None:
            return [Read(stem, None, (_error_to_problem(error),))]
        document, twins = lenient
    if exporting.is_export(document.data):
        return [exporting.import_workflow(document.data, document.lines, stem)]
    read = read_step_list(document.data, document.lines, stem)
    return [replace(read, problems=(*twins, *read.problems))]


def _parse_with_twins(text: str, name: str) -> tuple[Document, list[WorkflowProblem]] | None:
    """Parse a foreign JSON file with duplicate keys as its own servers do: the last one applies."""
    if not name.lower().endswith(".json"):
        return None
    twin_keys = list(find_duplicate_keys(text))
    try:
        document = parse_document(blank_duplicates(text, twin_keys), name)
    except InvalidFile:
        return None
    if not twin_keys or not isinstance(document.data.get("steps"), list) or not is_foreign(document.data):
        return None
    return document, [
        WorkflowProblem(
            "warning", "twice", f"duplicate key `{twin.key}`: the last one is used", "", twin.line
        )
        for twin in twin_keys
    ]


def _read_page(text: str, name: str, stem: str) -> list[Read]:
    """Read the flowcharts of a page.

    A single one is named after the front matter or the file, several also after their headings.
    """
    markdown = read_page(text)
    flows = [block for block in markdown.blocks if block.is_flow]
    if not flows:
        message = "no flowchart found: expected a ```mermaid block that begins with flowchart or graph"
        return [Read(stem, None, (WorkflowProblem("error", "no_diagram", message, line=1),))]
    front, problems = _parse_front_matter(markdown.front, name)
    title = _get_text(front, "name") or _get_text(front, "title") or stem
    description = _get_text(front, "description")
    reads: list[Read] = []
    for number, block in enumerate(flows, start=1):
        name_of_flow = title if len(flows) == 1 else block.heading or f"{title} {number}"
        reads += _read_block(block, name_of_flow, description)
    first = reads[0]
    reads[0] = Read(first.name, first.workflow, (*problems, *first.problems), first.places)
    return _number_duplicates(reads)


def _read_block(block: DiagramBlock, name: str, description: str) -> list[Read]:
    return _check_front_matter(block.text, read_mermaid(block.text, name, description, block.before))


def _number_duplicates(reads: list[Read]) -> list[Read]:
    """Number diagrams with the same heading: the later ones get a number."""
    counts: dict[str, int] = {}
    unique = []
    for read in reads:
        counts[read.name] = count = counts.get(read.name, 0) + 1
        if count > 1:
            name = f"{read.name} {count}"
            workflow = read.workflow and read.workflow.model_copy(update={"name": name})
            read = Read(name, workflow, read.problems, read.places)
        unique.append(read)
    return unique


def _parse_front_matter(front: str, name: str) -> tuple[Document, list[WorkflowProblem]]:
    try:
        return parse_document(front, f"{name}.yaml"), []
    except InvalidFile as error:
        problem = _error_to_problem(error)
        return Document(name, {}, {}), [replace(problem, line=(problem.line or 1) + 1, path="front matter")]


def _get_text(document: Document, key: str) -> str:
    value = document.data.get(key)
    return value if isinstance(value, str) else ""


def _error_to_problem(error: InvalidFile) -> WorkflowProblem:
    """Convert the error of an unreadable document to a problem, with its location as numbers."""
    place = _PLACE.search(error.where or "")
    line = int(place[1]) if place else None
    column = int(place[2]) if place and place[2] else None
    return WorkflowProblem("error", "unreadable", error.message, "", line, column, error.fix or "")
