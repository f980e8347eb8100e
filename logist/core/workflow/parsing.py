"""Read workflows from the text of a diagram and its config block; report invalid parts with their place."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from logist.core import mermaid
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow import config_block
from logist.core.workflow.diagram import read_diagram
from logist.core.workflow.places import Places, Read

_ENTRY = re.compile(r"[ \t]*%%[ \t]*@([^\s():]+)[ \t]*:[ \t]*\{")
_MARK = re.compile(r"[ \t]*%%[ \t]*=+[ \t]*(WORKFLOW_CONFIG|END_CONFIG)\b")
MAX_CHARACTERS = 1024 * 1024


def read_mermaid(text: str, name: str, description: str = "", before: int = 0) -> list[Read]:
    """Return the workflows of a diagram that begins after `before` lines of its file; always at least one."""
    if len(text) > MAX_CHARACTERS:
        problem = WorkflowProblem(
            "error", "too_large", f"the diagram is larger than {MAX_CHARACTERS:,} characters", line=1
        )
        return [Read(name, None, (problem,))]
    try:
        graph = mermaid.read_graph(text)
    except mermaid.MermaidError as error:
        problem = WorkflowProblem("error", "mermaid", error.message, line=error.line, column=error.column)
        return [_shift_lines(Read(name, None, (problem,)), before)]
    entries, problems = config_block.read_config_entries(text)
    reads = read_diagram(graph, entries, text, name, description)
    first = reads[0]
    seen = {entry.line for entry in entries} | {problem.line for problem in problems}
    reads[0] = replace(first, problems=(*problems, *_check_stray_entries(text, seen), *first.problems))
    return [_shift_lines(read, before) for read in reads]


def _check_stray_entries(text: str, seen: Collection[int | None]) -> Iterator[WorkflowProblem]:
    """Warn of comments that look like an entry but have no effect outside the config block."""
    inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        if mark := _MARK.match(line):
            inside = mark[1] == "WORKFLOW_CONFIG"
        elif not inside and number not in seen and (entry := _ENTRY.match(line)):
            message = f"`@{entry[1]}` is outside the config block, so it is only a comment"
            fix = f"move it into the block, or write %% @step({entry[1]}): {{...}}"
            yield WorkflowProblem("warning", "outside_block", message, f"@{entry[1]}", number, fix=fix)


def _shift_lines(read: Read, by: int) -> Read:
    """Return the reading with `by` added to all its lines."""
    if not by:
        return read
    problems = [
        replace(problem, line=problem.line + by if problem.line else None) for problem in read.problems
    ]
    places = Places(
        read.places.paths,
        {path: line + by for path, line in read.places.lines.items()},
        tuple((path, line + by if line else None) for path, line in read.places.edges),
    )
    return Read(read.name, read.workflow, tuple(problems), places)
