"""`logist workflow next`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from shlex import quote
from typing import Any

import click

from logist.cli.options import json_option
from logist.cli.shell_values import complete_workflow
from logist.cli.show.output import Line, Output, StyledText
from logist.config.environment import Environment, require_utf8
from logist.errors import InvalidFile, UsageError


@click.command("next")
@click.argument("name", metavar="FILE|NAME", shell_complete=complete_workflow)
@click.argument("more", metavar="", nargs=-1)
@click.option(
    "--completed",
    metavar="ID...",
    multiple=True,
    help="Completed steps; repeat a step that was done several times.",
)
@click.option(
    "--context", metavar="JSON", help="JSON object with the data for conditions; - reads standard input."
)
@json_option
@click.pass_obj
def next_(
    environment: Environment,
    name: str,
    more: tuple[str, ...],
    completed: tuple[str, ...],
    context: str | None,
) -> Output:
    """Print the next step of a workflow, without a job.

    With --json, it prints only {"step": ..., "guidance": {"prompt": ...}, "isComplete": ...}, with the prompt
    for an agent. Errors are reported as by all commands.
    """
    from logist.cli.commands.workflow import given
    from logist.core.workflow.following import find_next_step

    if more and not completed:
        raise UsageError(f"unexpected argument `{more[0]}`", fix="put --completed before completed steps")
    done = [require_utf8(step, "a step", "use UTF-8 characters") for step in (*completed, *more)]
    workflow, _ = given.load_usable_workflow(environment, name)
    data = find_next_step(workflow, done, _read_context(context))
    return Output(data, list(_format_step(data, name, done)), bare=True)


def _read_context(text: str | None) -> dict[str, Any]:
    """Return a JSON object. Raises UsageError for anything else."""
    from logist.documents import parse_document

    if text is None:
        return {}
    try:
        context_text = (
            sys.stdin.buffer.read().decode("utf-8") if text == "-" else require_utf8(text, "the context", "")
        )
        return parse_document(context_text, "context.json").data
    except UnicodeDecodeError as error:
        raise UsageError("standard input is not UTF-8 text", where="--context") from error
    except InvalidFile as error:
        message = f"{(error.where or '').removeprefix('context.json:')}: {error.message}"
        fix = """use a JSON object, as in --context '{"output": {"score": 80}}'"""
        raise UsageError(message, where="--context", fix=fix) from error


def _format_step(data: dict[str, Any], name: str, done: list[str]) -> Iterator[Line]:
    """Yield the step as text for a person, without what is only for agents."""
    step = data["step"]
    if step is None:
        yield data["guidance"]["prompt"]
        return
    title = f"  {step['title']}" if step["title"] != step["id"] else ""
    yield StyledText(step["id"], "bold"), title
    if step["guidance"]:
        yield ""
        yield from (f"  - {' '.join(hint.split())}" for hint in step["guidance"])
    if step["prompt"].strip():
        yield ""
        yield from (f"  {line}".rstrip() for line in step["prompt"].strip().splitlines())
    yield ""
    ids = " ".join(quote(each) for each in (*done, step["id"]))
    yield (
        StyledText(
            f"when the step is done, run: logist workflow next {quote(name)} --completed {ids}", "dim"
        ),
    )
