"""The text of a task that is used to look for files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    from logist.core.model import EffectiveSpec


@dataclass(frozen=True)
class Task:
    """The words of a task."""

    title: str = ""
    prompt: str = ""
    description: str = ""
    criteria: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    step: str = ""
    """The prompt of the workflow step, with its template filled."""

    @classmethod
    def from_spec(cls, spec: EffectiveSpec, step: str = "") -> Task:
        return cls(spec.title, spec.prompt, spec.description or "", spec.acceptance_criteria, spec.tags, step)
