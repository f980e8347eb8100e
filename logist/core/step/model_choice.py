"""Chooses the model for a step: the first of several settings that names one."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from logist.core.model import EffectiveSpec, Phase, Role
from logist.quick_dataclass import dataclass

OPTION = "--model"
ENVIRONMENT = "LOGIST_MODEL"
JOB = "job.yaml"
STEP = "step"
ROLE = "role"
REVIEW_SETTING = "review.model"
SETTING = "model"
SHIPPED = "shipped role"

MODEL_FIELDS = ("llm_model", "later_attempts")
"""The fields of a role that name a model."""


@dataclass(frozen=True)
class ChosenModel:
    """The name of a model, and which setting names it."""

    name: str
    source: str
    """One of the constants above."""
    place: str = ""
    """The step or the role that names it."""

    @property
    def is_for_one_command(self) -> bool:
        """Whether a person chose it for one command: no setting of a file."""
        return self.source in (OPTION, ENVIRONMENT)

    @property
    def is_from_task(self) -> bool:
        """Whether it comes with the task: from job.yaml, or from the workflow."""
        return self.source in (JOB, STEP)

    def describe_source(self) -> str:
        """Describe where the name comes from: `config: model`."""
        if self.source in (SETTING, REVIEW_SETTING):
            return f"config: {self.source}"
        if self.source == STEP:
            return f"step {self.place} of the workflow"
        if self.source == ROLE:
            return f"role {self.place}"
        return f"{self.source} {self.place}" if self.source == SHIPPED else self.source


@dataclass(frozen=True)
class ModelSettings:
    """The settings of a person and a project that name a model."""

    option: str | None = None
    environment: str | None = None
    model: str | None = None
    """`model` in the config."""
    review_model: str | None = None
    """`review.model` in the config."""


def choose_model(
    role: Role,
    own_fields: Collection[str],
    settings: ModelSettings,
    *,
    phase: Phase,
    attempt: int = 1,
    spec: EffectiveSpec | None = None,
    step_id: str = "",
) -> ChosenModel:
    """Choose the model that a role uses at an attempt of a step.

    `own_fields`: those of MODEL_FIELDS that a role file of the user or of the project sets. What it names comes before
    the config; the model of a role that is shipped with Logist comes last. A step names the model of who does its work,
    not of its reviewer.
    """
    at_attempt = role.at_attempt(attempt) if phase is Phase.DOER else role
    step = spec.workflow.find_step(step_id) if spec and spec.workflow else None
    choices = (
        (OPTION, settings.option, ""),
        (ENVIRONMENT, settings.environment, ""),
        (JOB, spec.model if spec else None, ""),
        (STEP, step.model if step and phase is Phase.DOER else None, step_id),
        (ROLE, next(_list_own_models(role, at_attempt, own_fields), None), role.name),
        (REVIEW_SETTING, settings.review_model if phase is Phase.REVIEWER else None, ""),
        (SETTING, settings.model, ""),
    )
    named = (ChosenModel(name, source, place) for source, name, place in choices if name)
    return next(named, ChosenModel(at_attempt.llm_model, SHIPPED, role.name))


def _list_own_models(role: Role, at_attempt: Role, own_fields: Collection[str]) -> Iterator[str]:
    if "later_attempts" in own_fields and at_attempt.llm_model != role.llm_model:
        yield at_attempt.llm_model
    if "llm_model" in own_fields:
        yield at_attempt.llm_model
