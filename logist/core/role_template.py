"""A role's own words about the work: its `prompt_template`, filled; each value stays a part of its own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from logist.core import context, data, template
from logist.core.context import Asked, Given
from logist.core.model import EffectiveSpec, JsonObject, Role, State
from logist.core.pieces import Piece
from logist.core.template import Told, ToldList

TASK = ("Title", "Prompt", "Description", "AcceptanceCriteria", "Type", "ID", "Tags")
"""The task as role templates name it."""
NAMES = (*TASK, *context.VARIABLES.values(), "CustomInstructions")
"""Every name of ours beside those of `core.data`; each may be absent, and is empty then."""

MAX_PARTS = 500
"""Of a rendered template; one that has more is one part."""
_SOURCES = {"output": "output", "steps": "output", "aggregatedResults": "results"}
"""Of data that says nothing itself about where it comes from; the rest belongs to the task."""


@dataclass(frozen=True)
class Filled:
    """A role's template over the data of a job."""

    pieces: list[Piece]
    """Its own words are rules, what came in is given. All is glued to the first, which is empty and so is never cut:
    the whole stands in the prompt as it was rendered."""
    mentioned: frozenset[str]
    """The names it looks at, so that the prompt says nothing twice."""
    warnings: tuple[str, ...] = ()


def filled(spec: EffectiveSpec, state: State, role: Role, given: Given) -> Filled | str | None:
    """The role's template; None if it has none, and in words why it can't be filled."""
    if role.prompt_template is None:
        return None
    known = _data(spec, state, given, role.context_requirements)
    declared = {*NAMES, *data.FIELDS, "parentId", "aggregatedResults"}
    try:
        rendered = template.render(role.prompt_template, known, declared=declared)
        mentioned = template.mentioned(role.prompt_template)
    except template.TemplateError as error:
        return f"role {role.name!r}: prompt_template: {error}"
    pieces = [_piece(role, span) for span in rendered.spans]
    if len(pieces) > MAX_PARTS:  # each is recorded
        pieces = [Piece("task", "given", rendered.text, glued=True)]
    warnings = tuple(f"role {role.name!r}: prompt_template: {warning}" for warning in rendered.warnings)
    return Filled(
        [Piece(f"template:{role.name}", "rule", ""), *pieces] if pieces else [], mentioned, warnings
    )


def _piece(role: Role, span: template.Span) -> Piece:
    if span.source is None:
        return Piece(f"template:{role.name}", "rule", span.text, glued=True)
    known = span.source in NAMED or span.source.startswith("relevant:")
    return Piece(span.source if known else _SOURCES.get(span.source, "task"), "given", span.text, glued=True)


NAMED = frozenset({"task", "listing", "custom_instructions", *context.VARIABLES})
"""What the values of `_data` say of themselves."""


def _data(spec: EffectiveSpec, state: State, given: Given, asked: Asked) -> JsonObject:
    """What the template may look at. What is not there at all has no name, so that its section vanishes."""
    task: dict[str, Told | ToldList] = {
        "Title": Told(spec.title, "task"),
        "Prompt": Told(spec.prompt, "task"),
        "Description": Told(spec.description or "", "task"),
        "AcceptanceCriteria": _listed(spec.acceptance_criteria, context.bulleted(spec.acceptance_criteria)),
        "Type": Told(spec.task_type or "", "task"),
        "ID": Told(given.job, "task"),
        "Tags": _listed(spec.tags, ", ".join(spec.tags)),
        "CustomInstructions": Told(given.instructions, "custom_instructions"),
    }
    told = {**task, **context.variables(given, asked)}
    return {**data.of(spec, state), **{name: value for name, value in told.items() if value}}


def _listed(items: Collection[str], shown: str) -> ToldList:
    return ToldList([Told(item, "task") for item in items], [Told(shown, "task")])


def rest_of_task(spec: EffectiveSpec, mentioned: Collection[str]) -> str:
    """What was asked for and the template does not look at: an agent never works without the whole task."""
    titled = "Title" in mentioned or "title" in mentioned
    said = titled and spec.prompt.strip() == spec.title
    wanted = {
        "": "" if said or {"Prompt", "prompt"} & {*mentioned} else spec.prompt,
        "### Description": "" if {"Description", "description"} & {*mentioned} else spec.description,
        "### Acceptance criteria": ""
        if {"AcceptanceCriteria", "acceptance_criteria"} & {*mentioned}
        else context.bulleted(spec.acceptance_criteria),
    }
    parts = [part for heading, text in wanted.items() if text for part in (heading, text) if part]
    heading = "## What was asked" if titled else f"## Task: {spec.title}"
    return "\n\n".join([heading, *parts]) if parts or not titled else ""
