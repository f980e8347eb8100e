"""Plans the exact request of a step, within the budget of a prompt and the limits of the job."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from logist.core.machine.limits import (
    Halt,
    Shared,
    find_reached_limit,
    find_reached_limit_above,
    remaining_microcents,
)
from logist.core.model import EffectiveSpec, JsonObject, Model, Phase, Request, Role, State
from logist.core.money import money
from logist.core.permissions.tools import Tool, is_server_tool, to_function_schema
from logist.core.prompt import budget, prompt, prompt_parts
from logist.core.prompt.budget import Budget, BudgetRow
from logist.core.step.step_instructions import build_instructions
from logist.quick_dataclass import dataclass


@dataclass(frozen=True)
class RequestBounds:
    """The bounds of a request, except for the limits of the job."""

    min_output_tokens: int = 2048
    redact: Callable[[str], tuple[str, int]] = lambda text: (text, 0)
    prompt_tokens: int | None = None
    """The limit of a complete prompt; a model with a smaller window has less. None: only the window counts."""


@dataclass(frozen=True)
class StepPlan:
    """The exact request of the next step, and what it may cost at worst."""

    phase: Phase
    role: Role
    model: Model
    request: Request
    attempt: int
    max_output_tokens: int
    reserved_microcents: int | None
    """The worst-case cost of one exchange; None if the price is unknown."""
    tools: tuple[Tool, ...] = ()
    form: JsonObject | None = None
    """What the provider is asked to enforce for the answer."""
    agent: str = ""
    warnings: tuple[str, ...] = ()
    """Placeholders of the role's and the step's templates that could not be filled."""
    table: tuple[BudgetRow, ...] = ()
    """The parts of the prompt, and what was cut from each."""
    offered_tokens: int = 0
    """The estimated number of tokens of the tools and the form of the answer, which are sent besides the prompt."""
    allowed: Budget | None = None
    why: str = ""
    """Why this role does the step."""
    model_source: str = ""
    """Where the name of the model comes from: `config: model`."""

    @property
    def prompt_tokens(self) -> int:
        """The estimated number of tokens of the prompt."""
        return budget.estimate_tokens(self.request.prompt)


def plan(
    spec: EffectiveSpec,
    state: State,
    role: Role,
    model: Model,
    given: prompt.Given,
    bounds: RequestBounds,
    *,
    phase: Phase,
    free: bool,
    sent: bool = True,
    tools: Sequence[Tool] = (),
    agent: str = "",
    shared: Sequence[Shared] = (),
    form: JsonObject | None = None,
) -> StepPlan | Halt:
    """Return the exact request of the next step, or the limit that prevents it.

    `tools` are offered to the model; their part of the request is paid for too. `free` agents cost nothing,
    so no price is needed and nothing is reserved. `sent` False: the answer exists already, so no limit
    applies. `shared`: limits of jobs above that apply too. `form`: what the provider is asked to enforce for the answer.
    Raises InvalidFile for a prompt that can't be cut
    to the budget.
    """
    instructions = build_instructions(spec, state, role, given, phase)
    wanted = role.max_output_tokens or model.max_output_tokens
    offer = json.dumps([to_function_schema(tool) for tool in tools]) if tools else ""
    offer += json.dumps(form) if form else ""
    system, system_redactions = prompt_parts.redact_pieces(instructions.system, bounds.redact)
    user, user_redactions = prompt_parts.redact_pieces(instructions.user, bounds.redact)
    allowed = _choose_budget(model, bounds, wanted, offer)
    fitted = budget.fit_to_budget(system, user, instructions.joint, allowed, strict=sent)
    text, parts, user_start, _ = prompt.assemble(
        fitted.system, fitted.user, _skip_redaction, instructions.joint
    )
    sending = text + offer
    least = None if free else money.compute_worst_case(model, sending, min(wanted, bounds.min_output_tokens))
    if sent and (
        halt := find_reached_limit_above(shared, least or 0)
        or find_reached_limit(spec, state.usage, least or 0)
    ):
        return halt
    room = remaining_microcents(spec, state.usage, shared)
    most, reserved = (wanted, 0) if free else _fit_output(room, model, sending, wanted, bounds)
    metadata: JsonObject = {
        "role": role.name,
        **({"badge": role.badge} if role.badge else {}),
        **({"color": role.color} if role.color else {}),
        "phase": state.status.value,
        **({"step": state.step} if spec.workflow else {}),
        "model": model.name,
        "temperature": role.temperature,
        "provider_model": model.provider_model,
        "endpoint": model.endpoint,
        "max_output_tokens": most,
        "user_start": user_start,
        "redactions": system_redactions + user_redactions,
        "agent": agent,
        "permissions": role.permissions.list_names(),
        "tools": [tool.name for tool in tools],
    }
    # The names of Logist's own tools say enough. What a server called its tools is recorded, because it was sent.
    if server_tools := [to_function_schema(tool) for tool in tools if is_server_tool(tool.name)]:
        metadata["server_tools"] = server_tools
    if form:
        metadata["answer_form"] = form
    if fitted.cut or role.context_requirements is not None:
        metadata["context"] = [row.to_json() for row in fitted.rows]
    request = Request(
        prompt=text, files_context=_list_shown_files(given, fitted, bounds), metadata=metadata, parts=parts
    )
    return StepPlan(
        phase=phase,
        role=role,
        model=model,
        request=request,
        attempt=state.place.attempts + 1,
        max_output_tokens=most,
        reserved_microcents=reserved,
        tools=tuple(tools),
        form=form,
        agent=agent,
        warnings=instructions.warnings,
        table=tuple(fitted.rows),
        offered_tokens=budget.estimate_tokens(offer),
        allowed=allowed,
    )


def _skip_redaction(text: str) -> tuple[str, int]:
    return text, 0


def _choose_budget(model: Model, bounds: RequestBounds, output: int, offer: str) -> Budget | None:
    """Return the smaller of the configured budget and what the window of the model leaves for the prompt."""
    allowed = []
    if bounds.prompt_tokens is not None:
        fix = "raise it, or shorten the task or the role"
        allowed.append(Budget(bounds.prompt_tokens, "context.budget_tokens", fix))
    if model.context_window is not None:
        allowed.append(_budget_of_window(model, model.context_window, output, budget.estimate_tokens(offer)))
    return min(allowed, key=lambda each: each.tokens, default=None)


def _budget_of_window(model: Model, window: int, output: int, tools: int) -> Budget:
    """Return what the window of the model leaves for a prompt."""
    reckoned = f"the context window has {window:,} tokens, of which the answer can use {output:,} (max_output_tokens)"
    reckoned += f" and the tools {tools:,}" if tools else ""
    fix = "lower max_output_tokens of the role or the model, choose another model"
    left_of_window = max(0, window - output - tools)
    fix += (
        ", or shorten the task or the role"
        if left_of_window
        else f", or correct the context_window of {model.name}"
    )
    return Budget(left_of_window, f"models.{model.name}.context_window", fix, reckoned)


def _list_shown_files(given: prompt.Given, fitted: budget.Fitted, bounds: RequestBounds) -> list[str]:
    """List the files that the prompt shows, those of the job first."""
    dropped = {row.source for row in fitted.rows if row.cut == "dropped"}
    job_files = [bounds.redact(file.path)[0] for file in given.files]
    kept_files = [path for path in job_files if f"file:{path}" not in dropped]
    relevant = [row.source.partition(":")[2] for row in fitted.rows if row.source.startswith("relevant:")]
    return [*kept_files, *(path for path in relevant if f"relevant:{path}" not in dropped)]


def _fit_output(
    room: int, model: Model, text: str, wanted: int, bounds: RequestBounds
) -> tuple[int, int | None]:
    """Return `(max_output_tokens, worst case in microcents)` such that no cost limit can be exceeded."""
    fitted = money.fit_output(model, text, wanted, room, bounds.min_output_tokens) or wanted
    return fitted, money.compute_worst_case(model, text, fitted)
