"""What every agent is asked, and its reply."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from logist.config.working import SandboxRules, ToolRules
from logist.core.model import EVERYTHING, Call, JsonObject, Model, Permissions, Reply, Request
from logist.core.prompt.prompt import SEPARATOR

COURIER = "logist.agents.courier"
"""The module that a courier's process runs. A command of another version knows a courier by this name."""
GRACE = 3.0
"""Seconds that one who is told to end still listens: the end of an answer may have come already."""
LITELLM = "litellm"
"""The agent that is a model with tools; any other name is that of a program."""


@dataclass(frozen=True)
class CodePaths:
    """The directories in a workspace that commands search for programs and code before all others."""

    programs: tuple[str, ...] = ()
    """Directories for the front of PATH, relative to the workspace."""
    virtual_env: str = ""
    """The virtual environment, relative to the workspace."""
    python_path: tuple[str, ...] = ()
    """Directories for PYTHONPATH, after the workspace and its `src`, relative to it."""
    readable: tuple[str, ...] = ()
    """Further places to show to commands, as absolute paths."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CodePaths:
        """Read what `to_json` wrote."""
        lists = {name: tuple(data.get(name, ())) for name in ("programs", "python_path", "readable")}
        return cls(virtual_env=data.get("virtual_env", ""), **lists)

    def to_json(self) -> JsonObject:
        """Return it as JSON, without what is empty: {} if everything is."""
        fields = {name: value for name, value in dataclasses.asdict(self).items() if value}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


@dataclass(frozen=True)
class AgentWork:
    """What an agent may do in the workspace, apart from answering."""

    permissions: Permissions = EVERYTHING
    network: bool = False
    tools: tuple[str, ...] = ()
    """Names of the tools that a model is offered."""
    approved: tuple[str, ...] = ()
    """Tools that a steward has allowed, of those that need it."""
    rules: ToolRules = field(default_factory=ToolRules)
    sandbox: SandboxRules = field(default_factory=SandboxRules)
    marker: str = ""
    """In the environment of all that is started for this ask, so that strays are found."""
    program: JsonObject | None = None
    """Of an agent program that the config describes: its entry."""
    code: CodePaths = CodePaths()
    newer: JsonObject = field(default_factory=dict)
    """What only a newer Logist knows."""

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> AgentWork:
        """What `data()` wrote, now or in an earlier version; ValueError or TypeError if it makes no sense."""
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
            newer={name: value for name, value in data.items() if name not in known},
        )

    def data(self) -> JsonObject:
        """As JSON."""
        code = self.code.to_json()
        return {
            **({"code": code} if code else {}),
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
    """One ask of one agent; retries of it are the courier's business."""

    request: Request
    model: Model
    role: str
    index: int = 0
    """How many asks the job has recorded: a scripted agent picks its answer by it."""
    visit: int = 0
    """How many of them at this step of the workflow."""
    temperature: float | None = None
    max_output_tokens: int = 8192
    deadline_seconds: float = 1800.0
    """For all tries together, from the moment the agent can be asked."""
    max_tries: int = 3
    backoff_seconds: float = 1.0
    """The pause after the first try; it doubles from try to try."""
    reserved_microcents: int | None = None
    """The worst case of the first exchange; None when the price is unknown."""
    allowance_microcents: int | None = None
    """What all exchanges together may cost; None when the price is unknown."""
    shares_limits_of: str | None = None
    """The job above whose limits hold as well; what they leave is looked up before each exchange."""
    min_output_tokens: int = 2048
    """Less is not asked for: then the job is at its cost limit."""
    agent: str = LITELLM
    work: AgentWork = field(default_factory=AgentWork)


class Agent(Protocol):
    """An agent that can be asked in this process, because it costs nothing."""

    def ask(self, ask: Ask, workspace: Path) -> Reply:
        """Return the answer, or why there is none; never raises for what the agent did."""
        ...


@dataclass(frozen=True)
class Sending:
    """What a model is sent in one exchange."""

    messages: Sequence[JsonObject]
    tools: Sequence[JsonObject]
    max_output_tokens: int
    may_call: bool = True
    """Whether it may call tools: not in its last turn."""


@dataclass(frozen=True)
class ToolTurn:
    """An answer of a model that calls tools, and their results."""

    text: str
    calls: tuple[Call, ...]
    results: Sequence[JsonObject]
    """One for each call: `{"id", "content"}`."""


def build_first_messages(ask: Ask) -> list[JsonObject]:
    """Return the first chat messages: the two halves of the prompt, cut at `metadata.user_start`."""
    prompt, start = ask.request.prompt, ask.request.metadata.get("user_start")
    if not isinstance(start, int) or start < len(SEPARATOR):
        return [{"role": "user", "content": prompt}]
    return [
        {"role": "system", "content": prompt[: start - len(SEPARATOR)]},
        {"role": "user", "content": prompt[start:]},
    ]


LAST_TURN = "This was the last time that you could call a tool. End now with the exit command."


_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64


def _make_sendable_name(name: str) -> str:
    """Return a tool's name as providers accept it: a request that repeats a name the model made up is refused
    otherwise.
    """
    return _NOT_IN_A_NAME.sub("_", name)[:_LONGEST_NAME] or "unknown"


def build_conversation(ask: Ask, turns: Sequence[ToolTurn], *, last: bool = False) -> list[JsonObject]:
    """Return all chat messages so far: the prompt, each answer with its calls, each result."""
    chat = build_first_messages(ask)
    for turn in turns:
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": _make_sendable_name(call.name), "arguments": call.arguments},
            }
            for call in turn.calls
        ]
        chat.append({"role": "assistant", "content": turn.text or None, "tool_calls": calls})
        chat += [
            {"role": "tool", "tool_call_id": result["id"], "content": result["content"]}
            for result in turn.results
        ]
    return [*chat, {"role": "user", "content": LAST_TURN}] if last else chat
