"""The templates of a step: its prompt, the role of each item, and the tag that a join waits for."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from logist.core import template
from logist.core.model import Step
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.places import Places


def template_problems(
    step: Step, names: Collection[str], places: Places, *, lenient: bool
) -> Iterator[WorkflowProblem]:
    """What is wrong with each of them; the line is the field's, the place inside stands in the message.

    `lenient` is for prompts that were not written for our templates: nothing in them is an error.
    """
    role = step.role if step.has_role_template else None
    for field, text in (("prompt", step.prompt), ("role", role or ""), ("awaitTag", step.await_tag or "")):
        path, line = places.of(step.id, field)
        for found in template.problems(text, names) if "{{" in text else ():
            message = f"{field} of `{step.id}`, line {found.line}, column {found.column}: {found.message}"
            severity = "warning" if lenient else found.severity
            yield replace(found, severity=severity, message=message, path=path, line=line, column=None)
