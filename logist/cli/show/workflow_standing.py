"""How a job's workflow stands, for a person: in lines, drawn, and as a diagram."""

from __future__ import annotations

import json
from collections.abc import Iterator

from logist.cli.show import glance, workflow_lines
from logist.cli.show.output import Command, Line, StyledText
from logist.cli.show.workflow_lines import Followed
from logist.core.machine import advice
from logist.core.model import TERMINAL, Status, StuckKind
from logist.jobs import workflow_progress
from logist.jobs.workflow_progress import SeenChild

SHOWN = 20
"""Children that a person sees one by one, those first that want something."""
LINES = 30
"""Of the inputs of a step; --json has them whole."""


def drawing(found: Followed) -> list[Line]:
    """The workflow as it stands, drawn for a terminal."""
    from logist.cli.show.graph import graph_lines

    job = (StyledText(found.job_id, "bold"), " is ", glance.status_span(found.state.status.value))
    state = found.state
    advised = advice.answer(state.model_dump(mode="json"), found.job_id, running=found.running)
    onward = (Command(f"next: {workflow_lines.next_command(found, advised)}", "dim"),)
    return [(*job, f": {_flat(found.flow.name)}"), "", *graph_lines(found.flow, found.marks), "", onward]


def mermaid(found: Followed, *, spoken: bool = False) -> str:
    """The diagram with classes of state; `spoken` leaves out the config block, with what only agents read."""
    from logist.cli.show.graph import without_comments
    from logist.core import mermaid as language
    from logist.core.drawing import mermaid_with_state
    from logist.core.workflow.drawing import source

    diagram, marks = source(found.flow), found.marks
    if found.flow.mermaid is None:  # drawn from steps: not every id of a step can be that of a node
        nodes = language.read(diagram).nodes
        drawn = {step.id: node.id for step, node in zip(found.flow.steps, nodes, strict=False)}
        marks = {drawn[step]: mark for step, mark in marks.items()}
    return mermaid_with_state(without_comments(diagram) if spoken else diagram, marks)


def lines(found: Followed, *, answered: bool = False) -> Iterator[Line]:
    """Where it stands: what is asked of a person, what it waits for, what helps.

    `answered`: the commands that answer a step of a person are told elsewhere.
    """
    yield f"  workflow: {_flat(found.flow.name)}"
    step = found.step
    if step is not None:
        name = f", {_flat(step.name)}" if step.name != step.id else ""
        place = f"{workflow_progress.number(found.flow, step.id)} of {len(found.flow.steps)}"
        yield "  step: ", StyledText(step.id, "bold"), f"{name} ({place}, {workflow_lines.kind(step)})"
    yield from (f"  {_flat(line)}" for line in workflow_progress.fallbacks(found.told.way))
    yield from _asked_lines(found)
    yield from _child_lines(found)
    yield from _stuck_lines(found)
    yield from _lost_lines(found)
    commands = [] if answered and found.asked else workflow_lines.commands(found)
    width = max((len(command) for command, _ in commands), default=0)
    if commands:
        yield "  what helps:"
    for command, meaning in commands:
        yield Command(f"    {command.ljust(width)}  "), StyledText(meaning, "dim")


def _asked_lines(found: Followed) -> Iterator[Line]:
    asked = found.asked
    if asked is None:
        return
    if found.step is not None and found.step.role:
        yield "  assignee: ", StyledText(_flat(found.step.role), "bold")
    if asked.prompt.strip():
        yield (StyledText("  to do:", "bold"),)
        yield from (f"    {line}".rstrip() for line in asked.prompt.strip().splitlines())
    yield from (f"    ({_flat(note)})" for note in asked.notes)
    for name, value in asked.inputs.items():
        yield (StyledText(f"  {name}:", "bold"),)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
        told = text.splitlines()
        yield from (f"    {line}" for line in told[:LINES])
        if len(told) > LINES:
            yield f"    ... and {len(told) - LINES} more lines, which --json has"
    yield from _onward_lines(found)


def _onward_lines(found: Followed) -> Iterator[Line]:
    edges = workflow_lines.onward(found)
    if edges:
        yield (StyledText("  goes on by its output:", "bold"),)
    for edge in edges:
        target = found.flow.step(edge.target)
        name = f"{target.id} ({_flat(target.name)})" if target else "the end"
        yield f"    {_flat(workflow_lines.condition(edge))}: {name}"


def _child_lines(found: Followed) -> Iterator[Line]:
    """Those first that want something; each with the command that answers it."""
    if not found.children:
        return
    done = sum(child.status == Status.SUCCESS for child in found.children)
    yield f"  jobs: {done} of {len(found.children)} done"
    order = sorted(found.children, key=lambda child: (not child.wanting, child.status in TERMINAL))
    for child in order[:SHOWN]:
        yield from _told(child, found, "    ")
    if len(order) > SHOWN:
        yield f"    and {len(order) - SHOWN} more"


def _told(child: SeenChild, found: Followed, indent: str) -> Iterator[Line]:
    why = f" ({child.stuck_kind or child.awaiting})" if child.stuck_kind or child.awaiting else ""
    reason = f": {_flat(child.reason)}" if child.reason and workflow_progress.is_wanting(child.status) else ""
    yield indent, child.id, " is ", glance.status_span(child.status), f"{why}{reason}"
    if workflow_progress.is_wanting(child.status):
        yield f"{indent}  ", StyledText(workflow_lines.answer(child, found), "dim")
    for below in child.children:
        if below.wanting:
            yield from _told(below, found, f"{indent}  ")


def _stuck_lines(found: Followed) -> Iterator[Line]:
    """What a decision saw of which no branch holds; the files that do not fit together."""
    lost = workflow_progress.lost_at(found.state, found.told.way)
    if lost is not None:
        told = found.told.way.decisions[lost]
        yield f"  no branch of {lost} holds:"
        yield from (f"    {_flat(workflow_lines.condition(edge))}" for edge in found.flow.leaving(lost))
        for name, value in (told.get("values") or {}).items():
            yield f"    it saw {name} = {_flat(json.dumps(value, ensure_ascii=False))}"
        for name, fault in (told.get("errors") or {}).items():
            yield f"    {_flat(name)}: {_flat(str(fault))}"
    if found.stuck_kind is StuckKind.CONFLICT:
        for child, files in found.told.way.conflicts.items():
            yield f"  {child} does not fit in: {', '.join(map(_flat, files))}"


def _lost_lines(found: Followed) -> Iterator[Line]:
    """What the jobs that did a step have made, and is not in this workspace."""
    for lost in found.told.way.lost.values():
        for child, names in list(lost.items())[:SHOWN]:
            yield f"  not brought over from {child}: {', '.join(_flat(str(name)) for name in names)}"
        if len(lost) > SHOWN:
            yield f"  nor all from {len(lost) - SHOWN} more"


def _flat(text: str) -> str:
    return " ".join(text.split())
