"""Shows the progress of a job's workflow: as text, as a drawing, and as a mermaid diagram."""

from __future__ import annotations

import json
from collections.abc import Iterator

from logist.cli.show import glance, workflow_lines
from logist.cli.show.output import Command, Line, StyledText
from logist.core.machine import advice
from logist.core.model import TERMINAL, Status, StuckKind
from logist.core.text.columns import count_columns, pad_to_columns
from logist.jobs import followed_workflow, workflow_progress
from logist.jobs.followed_workflow import Followed
from logist.jobs.workflow_progress import SeenChild

SHOWN = 20
"""Maximum number of child jobs listed one by one."""
LINES = 30
"""Maximum lines printed for an input of a step; --json has the complete input."""


def draw_progress(found: Followed) -> list[Line]:
    """Return the workflow with its progress, drawn for a terminal."""
    from logist.cli.show.graph import draw_graph

    job = (StyledText(found.job_id, "bold"), " is ", glance.status_span(found.state.status.value))
    state = found.state
    advised = advice.advise_next_command(state.model_dump(mode="json"), found.job_id, running=found.running)
    onward = (Command(f"next: {workflow_lines.suggest_next_command(found, advised)}", "dim"),)
    return [
        (*job, f": {_to_one_line(found.flow.name)}"),
        "",
        *draw_graph(found.flow, found.marks),
        "",
        onward,
    ]


def build_diagram(found: Followed, *, spoken: bool = False) -> str:
    """Return the mermaid diagram with a class for each state; `spoken` leaves out the config block, which is only
    for agents.
    """
    from logist.cli.show.graph import without_comments
    from logist.core import mermaid as language
    from logist.core.drawing import add_state_to_mermaid
    from logist.core.workflow.drawing import get_diagram_source

    diagram, marks = get_diagram_source(found.flow), found.marks
    if found.flow.mermaid is None:  # drawn from steps: not every step id is a valid node id
        nodes = language.read_graph(diagram).nodes
        nodes_by_step = {step.id: node.id for step, node in zip(found.flow.steps, nodes, strict=False)}
        marks = {nodes_by_step[step]: mark for step, mark in marks.items()}
    return add_state_to_mermaid(without_comments(diagram) if spoken else diagram, marks)


def progress_lines(found: Followed, *, answered: bool = False) -> Iterator[Line]:
    """Yield the progress: the task for a person, what the job waits for, and useful commands.

    `answered`: the commands for a manual step are printed elsewhere.
    """
    yield f"  workflow: {_to_one_line(found.flow.name)}"
    step = found.step
    if step is not None:
        name = f", {_to_one_line(step.name)}" if step.name != step.id else ""
        place = f"{workflow_progress.find_step_number(found.flow, step.id)} of {len(found.flow.steps)}"
        yield "  step: ", StyledText(step.id, "bold"), f"{name} ({place}, {followed_workflow.get_kind(step)})"
    yield from (f"  {_to_one_line(line)}" for line in workflow_progress.list_fallbacks(found.told.way))
    yield from _request_lines(found)
    yield from _child_lines(found)
    yield from _stuck_lines(found)
    yield from _lost_lines(found)
    commands = [] if answered and found.manual_request else workflow_lines.list_commands(found)
    width = max((count_columns(command) for command, _ in commands), default=0)
    if commands:
        yield "  commands:"
    for command, meaning in commands:
        yield Command(f"    {pad_to_columns(command, width)}  "), StyledText(meaning, "dim")


def _request_lines(found: Followed) -> Iterator[Line]:
    request = found.manual_request
    if request is None:
        return
    if found.step is not None and found.step.role:
        yield "  assignee: ", StyledText(_to_one_line(found.step.role), "bold")
    if request.prompt.strip():
        yield (StyledText("  to do:", "bold"),)
        yield from (f"    {line}".rstrip() for line in request.prompt.strip().splitlines())
    yield from (f"    ({_to_one_line(note)})" for note in request.notes)
    for name, value in request.inputs.items():
        yield (StyledText(f"  {name}:", "bold"),)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
        value_lines = text.splitlines()
        yield from (f"    {line}" for line in value_lines[:LINES])
        if len(value_lines) > LINES:
            yield f"    ... and {len(value_lines) - LINES} more lines (see --json)"
    yield from _onward_lines(found)


def _onward_lines(found: Followed) -> Iterator[Line]:
    edges = workflow_lines.list_onward(found)
    if edges:
        yield (StyledText("  next step, depending on the output:", "bold"),)
    for edge in edges:
        target = found.flow.find_step(edge.target)
        name = f"{target.id} ({_to_one_line(target.name)})" if target else "the end"
        yield f"    {_to_one_line(followed_workflow.format_condition(edge))}: {name}"


def _child_lines(found: Followed) -> Iterator[Line]:
    """Yield the child jobs with their commands; those that need attention come first."""
    if not found.children:
        return
    done = sum(child.status == Status.SUCCESS for child in found.children)
    yield f"  child jobs: {done} of {len(found.children)} done"
    order = sorted(
        found.children, key=lambda child: (not child.waiting_for_steward, child.status in TERMINAL)
    )
    for child in order[:SHOWN]:
        yield from _single_child_lines(child, found, "    ")
    if len(order) > SHOWN:
        yield f"    and {len(order) - SHOWN} more"


def _single_child_lines(child: SeenChild, found: Followed, indent: str) -> Iterator[Line]:
    kind_text = f" ({child.stuck_kind or child.awaiting})" if child.stuck_kind or child.awaiting else ""
    reason = (
        f": {_to_one_line(child.reason)}"
        if child.reason and workflow_progress.needs_steward(child.status)
        else ""
    )
    name = f" ({_to_one_line(child.name)})" if child.name else ""
    yield indent, f"{child.id}{name}", " is ", glance.status_span(child.status), f"{kind_text}{reason}"
    if workflow_progress.needs_steward(child.status):
        yield f"{indent}  ", StyledText(followed_workflow.suggest_command(child, found), "dim")
    for below in child.children:
        if below.waiting_for_steward:
            yield from _single_child_lines(below, found, f"{indent}  ")


def _stuck_lines(found: Followed) -> Iterator[Line]:
    """Yield the values of a decision without a matching branch; the files with merge conflicts."""
    lost = workflow_progress.find_decision_without_branch(found.state, found.told.way)
    if lost is not None:
        decision = found.told.way.decisions[lost]
        yield f"  no branch of {lost} matches:"
        yield from (
            f"    {_to_one_line(followed_workflow.format_condition(edge))}"
            for edge in found.flow.find_edges_from(lost)
        )
        for name, value in (decision.get("values") or {}).items():
            yield f"    actual value: {name} = {_to_one_line(json.dumps(value, ensure_ascii=False))}"
        for name, fault in (decision.get("errors") or {}).items():
            yield f"    {_to_one_line(name)}: {_to_one_line(str(fault))}"
    if found.stuck_kind is StuckKind.CONFLICT:
        for child, files in found.told.way.conflicts.items():
            yield f"  merge conflict with {child}: {', '.join(map(_to_one_line, files))}"


def _lost_lines(found: Followed) -> Iterator[Line]:
    """Yield files of child jobs that are missing in this workspace."""
    for lost in found.told.way.lost.values():
        for child, names in list(lost.items())[:SHOWN]:
            yield f"  files not copied from {child}: {', '.join(_to_one_line(str(name)) for name in names)}"
        if len(lost) > SHOWN:
            yield f"  child jobs with more files that were not copied: {len(lost) - SHOWN}"


def _to_one_line(text: str) -> str:
    return " ".join(text.split())
