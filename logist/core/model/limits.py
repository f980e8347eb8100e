"""The limits of a job, as set in the config, in job.yaml or by a step of a workflow."""

from __future__ import annotations

from typing import Annotated

from logist.core.model.base import Recorded
from logist.quick_model import ConfigDict, Field

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


class Limits(Recorded):
    """The limits of a job; each is checked before every call."""

    cost_threshold: Amount = 1000
    """US cents."""
    time_threshold_minutes: Amount = 60
    max_allowed_iterations: Count = 50
    max_attempts: Annotated[int, Field(ge=1)] = 3


class ConfiguredLimits(Limits):
    """The limits in a config file, which allows no other fields."""

    model_config = ConfigDict(extra="forbid")


class ItemLimits(Recorded):
    """The limits that a step sets for each of its items; for the others, an item can use what its parent has left."""

    cost_threshold: Amount | None = None
    time_threshold_minutes: Amount | None = None
    max_allowed_iterations: Count | None = None
    max_attempts: Annotated[int, Field(ge=1)] | None = None


class PartialLimits(ItemLimits):
    """The limits that a job.yaml sets; the others come from the config or the parent job."""

    model_config = ConfigDict(extra="forbid")
