"""Creates the files for an imported workflow: a diagram if that can hold everything, else a document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from logist import documents
from logist.core.model import Workflow
from logist.core.workflow import drawing
from logist.core.workflow.exporting import export_workflow, is_export
from logist.workflows import LoadedWorkflow, parse_workflow_text

DOCUMENTS = (".yaml", ".yml", ".json")
MAX_STEM = 100
"""Maximum bytes of a file name without its suffix."""

File = tuple[str, str]
"""Name and text."""


def build_files(loaded: LoadedWorkflow, text: str, name: str, time: str) -> list[File]:
    """Return the files for a workflow under that name: first its own, then those of workflows inside an export.

    `text` is the content of the original file; `time` is the time of the export as YYYY-MM-DDTHH:MM:SSZ.
    """
    workflow = loaded.workflow
    if workflow is None:
        raise ValueError(f"{loaded.path} is invalid")
    suffix = loaded.path.suffix.lower()
    is_document = suffix in DOCUMENTS
    same = name == loaded.name
    if is_document and not is_export(documents.parse_document(text, str(loaded.path)).data):
        return [
            (loaded.path.name, text)
            if same
            else (choose_stem(name) + suffix, _rename_document(text, loaded, name))
        ]
    drawn = [_draw_workflow(each, called) for called, each in {name: workflow, **workflow.subflows}.items()]
    if all(drawn) and len({file for file, _ in filter(None, drawn)}) == len(drawn):
        return [file for file in drawn if file]
    if is_document and same:
        return [(choose_stem(name) + suffix, text)]
    document = export_workflow(workflow.model_copy(update={"name": name}), {}, time)
    return [(choose_stem(name) + ".json", json.dumps(document, ensure_ascii=False, indent=2) + "\n")]


def choose_stem(name: str) -> str:
    """Return a file name for a workflow: its name if that is a valid file name, else the words of the name."""
    plain = name.isprintable() and name == name.strip() and not name.startswith((".", "-"))
    if plain and not set(name) & set("/\\#") and len(name.encode()) <= MAX_STEM:
        return name
    words = "-".join(re.findall(r"[^\W_]+", name.casefold())) or "workflow"
    return words.encode()[:MAX_STEM].decode("utf-8", "ignore")


def _rename_document(text: str, loaded: LoadedWorkflow, name: str) -> str:
    """Return the document with a new name."""
    return documents.edit_text(text, str(loaded.path), {("name",): name})


def _draw_workflow(workflow: Workflow, name: str) -> File | None:
    """Return the workflow as a diagram, if parsing it gives the same workflow."""
    wanted = workflow.model_copy(update={"name": name, "subflows": {}})
    for suffix, text in _iter_drawings(workflow, name):
        file = choose_stem(name) + suffix
        read = parse_workflow_text(text, file)
        if len(read) == 1 and read[0].workflow == wanted:
            return file, text
    return None


def _iter_drawings(workflow: Workflow, name: str) -> Iterator[File]:
    """Yield the diagram alone, then a page with name, description and diagram."""
    diagram = drawing.get_diagram_source(workflow)
    yield ".mmd", diagram
    about = {"description": workflow.description} if workflow.description else {}
    head = documents.dump_yaml({"name": name, **about})
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", diagram)), default=0))
    yield ".md", f"---\n{head}---\n\n{fence}mermaid\n{diagram.removesuffix(chr(10))}\n{fence}\n"
