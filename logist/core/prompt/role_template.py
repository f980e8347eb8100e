"""Renders a role's `prompt_template`, its own description of the work;
each value remains a separate part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from logist.core import template
from logist.core.model.words import Phase
from logist.core.prompt import context
from logist.core.prompt.prompt_parts import UnplacedPart
from logist.core.template import Rendered, SourcedText, ToldList, data
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    from logist.core.model import EffectiveSpec, JsonObject, Role, State
    from logist.core.prompt.context import Given, RequiredParts

TASK = ("Title", "Prompt", "Description", "AcceptanceCriteria", "Type", "ID", "Tags")
"""The names of the task in role templates."""
NAMES = (*TASK, *context.VARIABLES.values(), "CustomInstructions")
"""All names besides those of `core.template.data`; a name without a value is empty."""

MAX_PARTS = 500
"""The maximum number of parts of a rendered template; if it has more, adjacent parts from one source are joined."""
_SOURCES = {"output": "output", "steps": "output", "aggregatedResults": "results"}
"""The sources of data that doesn't name its own source; all other data belongs to the task."""


@dataclass(frozen=True)
class Filled:
    """A role's template, rendered with the data of a job."""

    pieces: list[UnplacedPart]
    """The template's own text are rules, inserted values are given. All pieces are glued to the first one, which is
    empty and so is never cut: the prompt contains the text as it was rendered."""
    said: frozenset[str]
    """The names of the context that the text shows, so that the prompt contains nothing twice."""
    rest: str = ""
    """The parts of the task that the text doesn't show: an agent never works without the complete task."""
    warnings: tuple[str, ...] = ()


def fill_template(
    spec: EffectiveSpec, state: State, role: Role, given: Given, phase: Phase = Phase.DOER
) -> Filled | str | None:
    """Render the role's template. Returns None if it has none, and a message if it can't be rendered."""
    if role.prompt_template is None:
        return None
    known = _build_data(spec, state, given, role.context_requirements, phase)
    declared = {*NAMES, *data.FIELDS, "parentId", "aggregatedResults"}
    label = f"role {role.name!r}: prompt_template"
    try:
        rendered = template.render(role.prompt_template, known, declared=declared)
    except template.TemplateError as error:
        return f"{label}: {error}"
    reasons = {f"relevant:{each.file.path}": each.reason for each in given.relevant}
    pieces = [_build_piece(role, span, reasons) for span in rendered.spans]
    if len(pieces) > MAX_PARTS:  # each is recorded
        pieces = _join_pieces(pieces)
    if len(pieces) > MAX_PARTS:
        return f"{label}: it has more than {MAX_PARTS} parts; the task is described without the template"
    all_pieces = [UnplacedPart(f"template:{role.name}", "rule", ""), *pieces] if pieces else []
    warnings = tuple(f"{label}: {warning}" for warning in rendered.warnings)
    return Filled(
        all_pieces, frozenset(_list_shown_names(rendered, given)), _render_rest(spec, rendered), warnings
    )


def _build_piece(role: Role, span: template.RenderedSpan, reasons: Mapping[str, str]) -> UnplacedPart:
    if span.source is None:
        return UnplacedPart(f"template:{role.name}", "rule", span.text, glued=True)
    known = span.source in NAMED or span.source.startswith("relevant:")
    source = span.source if known else _SOURCES.get(span.source, "task")
    return UnplacedPart(source, "given", span.text, glued=True, reason=reasons.get(source, ""))


def _join_pieces(pieces: Sequence[UnplacedPart]) -> list[UnplacedPart]:
    """Join the pieces from one source, with the template's own words in
    between, as between items of a list.
    """
    runs: list[list[UnplacedPart]] = []
    for piece in pieces:
        before = runs[-2:]
        if before and before[-1][0].source == piece.source:
            before[-1].append(piece)
        elif len(before) == 2 and before[0][0].source == piece.source and before[1][0].kind == "rule":
            before[0] += [*runs.pop(), piece]
        else:
            runs.append([piece])
    return [run[0]._replace(text="".join(piece.text for piece in run)) for run in runs]


def _list_shown_names(rendered: Rendered, given: Given) -> Iterator[str]:
    """Yield the context names that the text shows, as a whole or item by item.

    A name used only in `if` doesn't count.
    """
    lists = {
        "PriorAttempts": len(given.attempts),
        "RelatedTasks": len(given.related),
        "SessionContext": len(given.others),
        "RelevantFiles": len(given.relevant),
    }
    for name in ("RepoContext", "CustomInstructions"):
        if rendered.has_whole_value(name):
            yield name
    for name, count in lists.items():
        if count and all(_has_item(rendered, name, number) for number in range(count)):
            yield name


def _has_item(rendered: Rendered, name: str, number: int) -> bool:
    """Whether the text shows an item; of a file, its path is enough."""
    return any(rendered.has_whole_value(name, number, *field) for field in ((), ("Path",), ("Content",)))


NAMED = frozenset({"task", "listing", "custom_instructions", *context.VARIABLES})
"""The sources that the values of `_build_data` name themselves."""


def _build_data(
    spec: EffectiveSpec, state: State, given: Given, asked: RequiredParts, phase: Phase
) -> JsonObject:
    """Build the data of the template. Absent values have no name, so that their sections disappear."""
    task: dict[str, SourcedText | ToldList] = {
        "Title": SourcedText(spec.title, "task"),
        "Prompt": SourcedText(spec.prompt, "task"),
        "Description": SourcedText(spec.description or "", "task"),
        "AcceptanceCriteria": _build_list(
            spec.acceptance_criteria, context.render_bullets(spec.acceptance_criteria)
        ),
        "Type": SourcedText(spec.task_type or "", "task"),
        "ID": SourcedText(given.job, "task"),
        "Tags": _build_list(spec.tags, ", ".join(spec.tags)),
        "CustomInstructions": SourcedText(context.get_project_instructions(given), "custom_instructions"),
    }
    values = {**task, **context.build_variables(given, asked)}
    # A reviewer judges the output of the step, so for its own template that is the last one.
    build_data = data.build_step_data if phase is Phase.DOER else data.build_data_after_step
    step_data = build_data(spec, state, state.step)
    return {**step_data, **{name: value for name, value in values.items() if value}}


def _build_list(items: Collection[str], shown: str) -> ToldList:
    return ToldList([SourcedText(item, "task") for item in items], [SourcedText(shown, "task")])


def _render_rest(spec: EffectiveSpec, rendered: Rendered) -> str:
    """Render what the text leaves out of the task, by field, and by item of each list."""
    has_title = rendered.has_whole_value("Title") or rendered.has_whole_value("title")
    told_by_title = has_title and spec.prompt.strip() == spec.title
    fields = {
        "": "" if told_by_title else _unless_shown(rendered, "Prompt", "prompt", spec.prompt),
        "### Description": _unless_shown(rendered, "Description", "description", spec.description or ""),
        "### Acceptance criteria": context.render_bullets(
            _list_unshown_items(
                rendered, "AcceptanceCriteria", "acceptance_criteria", spec.acceptance_criteria
            )
        ),
    }
    parts = [part for heading, text in fields.items() if text for part in (heading, text) if part]
    parts += [labels] if (labels := _render_labels(spec, rendered)) else []
    heading = "## What was asked" if has_title else f"## Task: {spec.title}"
    return "\n\n".join([heading, *parts]) if parts or not has_title else ""


def _render_labels(spec: EffectiveSpec, rendered: Rendered) -> str:
    """Render type and tags on one line."""
    kind = _unless_shown(rendered, "Type", "task_type", spec.task_type or "")
    tags = _list_unshown_items(rendered, "Tags", "tags", spec.tags)
    sentences = [*([f"Type: {kind}."] if kind else []), *([f"Tags: {', '.join(tags)}."] if tags else [])]
    return " ".join(sentences)


def _unless_shown(rendered: Rendered, name: str, other: str, text: str) -> str:
    """Return the text unless the rendered template shows it, under either of its two names."""
    return (
        "" if not text.strip() or rendered.has_whole_value(name) or rendered.has_whole_value(other) else text
    )


def _list_unshown_items(rendered: Rendered, name: str, other: str, items: Sequence[str]) -> list[str]:
    return [
        item
        for number, item in enumerate(items)
        if not (rendered.has_whole_value(name, number) or rendered.has_whole_value(other, number))
    ]
