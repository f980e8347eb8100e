"""The text of a step as an agent gets it: how to behave, hints, and the work."""

from __future__ import annotations

from logist.core.model import Step
from logist.core.text.layers import step_layer


def composed(step: Step) -> str:
    """The role, the guidance and the prompt of a step, in this order; what it lacks leaves no trace."""
    return step_layer(step.agent_role, step.guidance, step.prompt)
