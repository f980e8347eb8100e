"""A Python function as an agent: it is called in the process that steps the job."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

from logist.agents.protocol import Ask, build_first_messages
from logist.core.model import ErrorKind, JsonObject, Reply, TransportError, Usage
from logist.core.money import amounts
from logist.core.money.amounts import MICROCENTS
from logist.quick_dataclass import dataclass

logger = logging.getLogger("logist")


@dataclass(frozen=True)
class AgentRequest:
    """What an agent function is asked."""

    prompt: str
    """The whole prompt, as the history records it."""
    messages: list[JsonObject]
    """The same as chat messages: `{"role": "system" or "user", "content": TEXT}`."""
    role: str
    """The role that does this step, such as `Worker`."""
    model: str
    """The short name of the role's model."""
    workspace: Path
    """The directory to work in. Changes that the role doesn't allow are undone afterwards."""
    step: str
    """The id of the workflow's step; empty without a workflow."""
    number: int
    """How many requests the job has recorded before this one."""


@dataclass(frozen=True)
class AgentAnswer:
    """What an agent function answers, with its usage. A plain string or an exit command will do instead."""

    text: str | Mapping[str, Any]
    """The answer, which must end with an exit command; or the exit command alone, as a mapping."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_cents: float = 0.0
    """US cents."""


AgentFunction: TypeAlias = Callable[[AgentRequest], "str | Mapping[str, Any] | AgentAnswer"]
"""An agent: gets a request, may change files in its workspace, and returns its answer."""


@dataclass(frozen=True)
class FunctionAgent:
    """Calls a function as an agent."""

    function: AgentFunction

    def ask(self, ask: Ask, workspace: Path) -> Reply:
        """Return the function's answer. An exception of the function is a failed call, and is logged."""
        request = AgentRequest(
            prompt=ask.request.prompt,
            messages=build_first_messages(ask),
            role=ask.role,
            model=ask.model.name,
            workspace=workspace,
            step=str(ask.request.metadata.get("step") or ""),
            number=ask.index,
        )
        try:
            return _build_reply(self.function(request))
        except Exception as error:
            logger.exception("the agent function failed")
            message = f"the agent function raised {type(error).__name__}: {error}"
            return Reply(error=TransportError(kind=ErrorKind.BAD_REQUEST, message=message))


def _build_reply(answer: object) -> Reply:
    """Convert what a function returned. Raises TypeError or ValueError for what is not an answer."""
    given = answer if isinstance(answer, AgentAnswer) else AgentAnswer(answer)  # type: ignore[arg-type]
    if isinstance(given.text, str):
        text = given.text
    elif isinstance(given.text, Mapping):
        text = json.dumps(dict(given.text), ensure_ascii=False, allow_nan=False)
    else:
        raise TypeError(f"expected a string, a mapping or an AgentAnswer, got {type(given.text).__name__}")
    for name in ("input_tokens", "output_tokens", "cost_cents"):
        if not getattr(given, name) >= 0:
            raise ValueError(f"{name} must not be negative, got {getattr(given, name)}")
    cents, fraction = amounts.split_cents(round(Fraction(given.cost_cents) * MICROCENTS))
    usage = Usage(
        input_tokens=int(given.input_tokens),
        output_tokens=int(given.output_tokens),
        cost_cents=cents,
        cost_microcents=fraction,
        source="provider" if given.cost_cents else "none",
    )
    return Reply(text=text, usage=usage, finish="stop")
