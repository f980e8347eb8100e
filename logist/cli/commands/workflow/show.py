"""`logist workflow show`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import json_option
from logist.cli.shell_values import complete_workflow
from logist.cli.show.output import Line, Output, StyledText, TextTable
from logist.config.environment import Environment
from logist.errors import InvalidFile

if TYPE_CHECKING:
    from logist.core.model import Step, Workflow
    from logist.workflows import LoadedWorkflow


@click.command("show")
@click.argument("name", metavar="NAME|FILE", shell_complete=complete_workflow)
@click.option("--prompts", is_flag=True, help="Also show the prompt and guidance of each step.")
@click.option("--mermaid", is_flag=True, help="Print the diagram as mermaid source instead.")
@json_option
@click.pass_obj
def show(environment: Environment, name: str, prompts: bool, mermaid: bool) -> Output:
    """Draw a workflow and list its steps.

    Shows id, kind, role and title of each step. Text that is only for agents is left out, except in --json.
    Exit code 5 if `logist workflow validate` reports an error.
    """
    from logist.cli.commands.workflow import given
    from logist.cli.show.graph import draw_graph, without_comments

    loaded = given.load_workflow_argument(environment, name)
    workflow = loaded.workflow
    if workflow is None:
        raise given.make_broken_error(loaded)
    data = _build_data(workflow, loaded)
    errors = given.list_errors(environment, loaded)
    code = InvalidFile.exit_code if errors else 0
    if mermaid:
        diagram = without_comments(data["mermaid"]) if workflow.mermaid else _draw_for_people(workflow)
        return Output(data, raw=diagram, diagnostics=errors, exit_code=code)
    above = [*_format_head(workflow, loaded), "", *draw_graph(workflow), ""]
    table = TextTable(("ID", "KIND", "ROLE", "TITLE"), [_build_row(step) for step in workflow.steps])
    lines = list(_format_prompts(workflow)) if prompts else ()
    return Output(data, lines, errors, code, above=above, table=table)


def _draw_for_people(workflow: Workflow) -> str:
    """Return the diagram of a list of steps with its config, without text that is only for agents."""
    from logist.core.workflow import drawing

    steps = tuple(step.model_copy(update={"agent_role": None}) for step in workflow.steps)
    return drawing.get_diagram_source(workflow.model_copy(update={"steps": steps}))


def _build_data(workflow: Workflow, loaded: LoadedWorkflow) -> dict[str, Any]:
    from logist.core.workflow import drawing

    return {
        "name": workflow.name,
        "description": workflow.description,
        "file": str(loaded.path),
        "start": workflow.start,
        "steps": [_build_step(step) for step in workflow.steps],
        "edges": [edge.model_dump(mode="json") for edge in workflow.edges],
        "mermaid": drawing.get_diagram_source(workflow),
    }


def _build_step(step: Step) -> dict[str, Any]:
    """Return a step as written in a file, always with its most important fields."""
    from logist.core.workflow.written import dump_step

    always = {"prompt": step.prompt, "guidance": list(step.guidance), "role": step.role}
    return {**always, **dump_step(step)}


def _format_head(workflow: Workflow, loaded: LoadedWorkflow) -> Iterator[Line]:
    about = f": {' '.join(workflow.description.split())}" if workflow.description.strip() else ""
    yield StyledText(workflow.name, "bold"), about
    yield (StyledText(f"file: {loaded.path}", "dim"),)


def _build_row(step: Step) -> tuple[StyledText | str, ...]:
    kind = "manual" if step.is_manual else str(step.step_type)
    return StyledText(step.id, "bold"), kind, step.role or "-", step.name


def _format_prompts(workflow: Workflow) -> Iterator[Line]:
    """Yield prompt and guidance of each step that has one."""
    for step in workflow.steps:
        if not step.prompt.strip() and not step.guidance:
            continue
        yield ""
        yield StyledText(step.id, "bold"), f"  {step.name}" if step.name != step.id else ""
        yield from (f"  - {' '.join(hint.split())}" for hint in step.guidance)
        yield from (f"  {line}".rstrip() for line in step.prompt.strip().splitlines())
