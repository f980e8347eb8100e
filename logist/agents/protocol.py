"""What every agent is asked, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from logist.core.model import Model, Reply, Request
from logist.core.prompt import SEPARATOR

COURIER = "logist.agents.courier"
"""The module that a courier's process runs."""


@dataclass(frozen=True)
class Ask:
    """One ask of one agent; retries of it are the courier's business."""

    request: Request
    model: Model
    role: str
    index: int = 0
    """How many asks the job has recorded: a scripted agent picks its answer by it."""
    temperature: float | None = None
    max_output_tokens: int = 8192
    deadline_seconds: float = 1800.0
    """For all tries together, from the moment the agent can be asked."""
    max_tries: int = 3
    backoff_seconds: float = 1.0
    """The pause after the first try; it doubles from try to try."""
    reserved_microcents: int | None = None
    """The worst case of one exchange; None when the price is unknown."""


class Agent(Protocol):
    """Who can be asked in place, because it costs nothing."""

    def ask(self, ask: Ask, workspace: Path) -> Reply:
        """The answer, or why there is none; never an exception for what the agent did."""
        ...


def messages(ask: Ask) -> list[dict[str, str]]:
    """The chat messages: the two halves of the prompt, cut at `metadata.user_start`."""
    prompt, start = ask.request.prompt, ask.request.metadata.get("user_start")
    if not isinstance(start, int) or start < len(SEPARATOR):
        return [{"role": "user", "content": prompt}]
    return [
        {"role": "system", "content": prompt[: start - len(SEPARATOR)]},
        {"role": "user", "content": prompt[start:]},
    ]
