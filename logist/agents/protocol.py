"""The request to an agent, and its reply."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol

from logist.config.working import SandboxRules, ToolRules
from logist.core.answer import thinking
from logist.core.model import (
    EVERYTHING,
    Call,
    JsonObject,
    Model,
    Permissions,
    Provider,
    Reply,
    Request,
    ToolServer,
)
from logist.core.permissions.tools import TOOLS, Tool, list_server_tools
from logist.core.prompt.prompt_parts import SEPARATOR
from logist.core.text import outermost_json
from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass

GRACE = 3.0
"""Seconds that a courier still waits for an answer after it was stopped: the answer may be almost complete."""
DEEPEST_EXTRA_CONTENT = 64
"""Levels of JSON that a provider gets back with a call; deeper ones are left out."""
MODEL = "model"
"""The agent that calls a model with tools, by the built-in client if that knows the provider, else through litellm."""
LITELLM = "litellm"
"""The same agent, always through litellm."""
FUNCTION = "function"
"""The name of a Python function as an agent."""
MODEL_AGENTS = frozenset({MODEL, LITELLM})
"""The agents that call a model; any other name is an agent program."""


@dataclass(frozen=True)
class CodePaths:
    """The directories in a workspace that commands search for programs and code before all others."""

    programs: tuple[str, ...] = ()
    """Directories to put first in PATH, relative to the workspace."""
    virtual_env: str = ""
    """The virtual environment, relative to the workspace."""
    python_path: tuple[str, ...] = ()
    """Directories for PYTHONPATH after the workspace and its `src`, relative to the workspace."""
    readable: tuple[str, ...] = ()
    """More paths that commands may read, absolute."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CodePaths:
        """Read what `to_json` wrote."""
        lists = {name: tuple(data.get(name, ())) for name in ("programs", "python_path", "readable")}
        return cls(virtual_env=data.get("virtual_env", ""), **lists)

    def to_json(self) -> JsonObject:
        """Return it as JSON without empty fields."""
        fields = {name: value for name, value in dataclasses.asdict(self).items() if value}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


@dataclass(frozen=True)
class AgentWork:
    """What an agent may do in the workspace."""

    permissions: Permissions = EVERYTHING
    network: bool = False
    tools: tuple[str, ...] = ()
    """Names of the tools that a model is offered."""
    approved: tuple[str, ...] = ()
    """Tools that need approval and that a steward has allowed."""
    rules: ToolRules = field(default_factory=ToolRules)
    sandbox: SandboxRules = field(default_factory=SandboxRules)
    marker: str = ""
    """Set in the environment of all processes of this ask, so that leftover processes can be found."""
    program: JsonObject | None = None
    """The config entry of the agent program, if the config describes it."""
    code: CodePaths = CodePaths()
    mcp_servers: Mapping[str, ToolServer] = field(default_factory=dict)
    """The MCP servers whose tools are among `tools`."""
    newer: JsonObject = field(default_factory=dict)
    """Fields that only a newer Logist knows."""

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> AgentWork:
        """Read what `data()` of this or an earlier version wrote.

        Raises ValueError or TypeError for invalid data.
        """
        known = {each.name for each in dataclasses.fields(cls)}
        return cls(
            permissions=Permissions.from_names(data.get("permissions", EVERYTHING.list_names())),
            network=data.get("network", False),
            tools=tuple(data.get("tools", ())),
            approved=tuple(data.get("approved", ())),
            rules=ToolRules.model_validate(data.get("rules", {})),
            sandbox=SandboxRules.model_validate(data.get("sandbox", {})),
            marker=data.get("marker", ""),
            program=data.get("program"),
            code=CodePaths.from_json(data.get("code") or {}),
            mcp_servers={
                name: ToolServer.model_validate(server)
                for name, server in data.get("mcp_servers", {}).items()
            },
            newer={name: value for name, value in data.items() if name not in known},
        )

    def find_tool(self, name: str) -> Tool | None:
        """Return a tool of Logist or of an MCP server; None if there is none of this name."""
        return TOOLS.get(name) or list_server_tools(self.mcp_servers).get(name)

    def data(self) -> JsonObject:
        """Return it as JSON."""
        code = self.code.to_json()
        servers = {name: server.model_dump(mode="json") for name, server in self.mcp_servers.items()}
        return {
            **({"code": code} if code else {}),
            **({"mcp_servers": servers} if servers else {}),
            "permissions": self.permissions.list_names(),
            "network": self.network,
            "tools": list(self.tools),
            "approved": list(self.approved),
            "rules": self.rules.model_dump(mode="json"),
            "sandbox": self.sandbox.model_dump(mode="json"),
            "marker": self.marker,
            "program": self.program,
            **self.newer,
        }


@dataclass(frozen=True)
class Ask:
    """One request to one agent; the courier does the retries."""

    request: Request
    model: Model
    role: str
    index: int = 0
    """The number of asks in the history; a scripted agent chooses its answer by it."""
    visit: int = 0
    """The number of asks at this step of the workflow."""
    temperature: float | None = None
    max_output_tokens: int = 8192
    deadline_seconds: float = 1800.0
    """For all tries together, from the moment that the agent is ready."""
    max_tries: int = 3
    backoff_seconds: float = 1.0
    """The pause after the first try; it doubles with each try."""
    reserved_microcents: int | None = None
    """The worst-case cost of the first exchange; None if the price is unknown."""
    allowance_microcents: int | None = None
    """What all exchanges together may cost; None if the price is unknown."""
    shares_limits_of: str | None = None
    """The parent job whose limits apply too; what is left of them is read before each exchange."""
    min_output_tokens: int = 2048
    """If the cost limit allows fewer output tokens than this, the limit is reached."""
    agent: str = MODEL
    provider: Provider | None = None
    """Where the built-in client calls the model; None: litellm calls it."""
    work: AgentWork = field(default_factory=AgentWork)
    form: JsonObject | None = None
    """What the provider is asked to enforce for the answer: `{"name", "strict", "schema"}`; see core.answer.answer_form."""
    reask: int = 0
    """How often the model is asked again if its answer has no valid exit command."""
    longest_output_tokens: int | None = None
    """The most output tokens that the provider allows, if that is more than `max_output_tokens`."""


class Agent(Protocol):
    """An agent that runs in this process, because it costs nothing."""

    def ask(self, ask: Ask, workspace: Path) -> Reply:
        """Return the answer, or an error in the reply; never raises because of what the agent did."""
        ...


@dataclass(frozen=True)
class Sending:
    """The content of one exchange that is sent to a model."""

    messages: Sequence[JsonObject]
    tools: Sequence[JsonObject]
    max_output_tokens: int
    may_call: bool = True
    """Whether the model may call tools; False in its last turn."""
    form: JsonObject | None = None
    """What the provider is asked to enforce for the answer."""


@dataclass(frozen=True)
class ToolTurn:
    """An answer of a model that calls tools, and their results."""

    text: str
    calls: tuple[Call, ...]
    results: Sequence[JsonObject]
    """One for each call: `{"id", "content"}`."""
    follow_up: str = ""
    """What the model was told after an answer without calls; "" after calls."""


def build_first_messages(ask: Ask) -> list[JsonObject]:
    """Return the first chat messages: the two halves of the prompt, cut at `metadata.user_start`."""
    prompt, start = ask.request.prompt, ask.request.metadata.get("user_start")
    if not isinstance(start, int) or start < len(SEPARATOR):
        return [{"role": "user", "content": prompt}]
    return [
        {"role": "system", "content": prompt[: start - len(SEPARATOR)]},
        {"role": "user", "content": prompt[start:]},
    ]


LAST_TURN = (
    "You can't call any more tools. Write your final answer now, in the form described under `How to answer`."
)


_NOT_IN_A_NAME = compile_on_use(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64


def _make_sendable_name(name: str) -> str:
    """Return a tool name that providers accept: they reject a request that repeats an invalid name that the model
    invented.
    """
    return _NOT_IN_A_NAME.sub("_", name)[:_LONGEST_NAME] or "unknown"


def _build_extra_content(call: Call) -> JsonObject:
    """Return the field for what the provider wants back with the call; none if it isn't readable."""
    text = call.extra_content or "{}"
    if outermost_json.measure_depth(text) > DEEPEST_EXTRA_CONTENT:
        return {}
    try:
        content = json.loads(text)
    except ValueError:
        return {}
    return {"extra_content": content} if content and isinstance(content, dict) else {}


def build_conversation(ask: Ask, turns: Sequence[ToolTurn], *, last: bool = False) -> list[JsonObject]:
    """Return all chat messages so far: the prompt, and each answer with its calls and their results."""
    chat = build_first_messages(ask)
    for turn in turns:
        if not turn.calls:
            text = thinking.remove_thinking(turn.text).strip() or "(empty)"
            chat += [{"role": "assistant", "content": text}, {"role": "user", "content": turn.follow_up}]
            continue
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": _make_sendable_name(call.name), "arguments": call.arguments},
                **_build_extra_content(call),
            }
            for call in turn.calls
        ]
        chat.append({"role": "assistant", "content": turn.text or None, "tool_calls": calls})
        chat += [
            {"role": "tool", "tool_call_id": result["id"], "content": result["content"]}
            for result in turn.results
        ]
    return [*chat, {"role": "user", "content": LAST_TURN}] if last else chat
