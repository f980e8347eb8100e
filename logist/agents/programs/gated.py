"""Starts a program so that it calls the gate instead of its provider."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from logist.agents.programs import reach
from logist.agents.programs.protocol import Invocation, Program, Run
from logist.core.model import Model
from logist.errors import InvalidFile, LogistError

_ADDRESS = "http://127.0.0.1:1/v1"
_NOWHERE = Path("/nonexistent")


def build_gated_invocation(program: Program, run: Run, address: str, token: str) -> Invocation:
    """Return how to start a program so that it calls the gate at `address`, with `token` as its key.

    `run`: with the proxies for what it sends to others than its model.

    Raises InvalidFile if it can't be given another address.
    """
    model = run.model.model_copy(update={"endpoint": address})
    gated = replace(run, model=model, api_key=token)
    try:
        return program.invocation(gated)
    except InvalidFile:
        # A provider with another format may offer OpenAI's too, and the program has chosen that one. Then the name of
        # the provider must not suggest the other format at the new address.
        name = f"openai/{reach.strip_provider(run.model)}"
        return program.invocation(replace(gated, model=model.model_copy(update={"provider_model": name})))


def can_use_gate(program: Program, model: Model) -> bool:
    """Whether a program can call the gate instead of its provider.

    True also if it can't use the model at all: its run reports why.
    """
    run = Run(
        prompt="",
        workspace=_NOWHERE,
        home=_NOWHERE,
        model=model,
        api_key="key",
        profile="read",
        deadline_seconds=1.0,
        name="",
        role="",
    )
    try:
        program.invocation(run)
    except LogistError:
        return True
    try:
        build_gated_invocation(program, run, _ADDRESS, "key")
    except LogistError:
        return False
    return True
