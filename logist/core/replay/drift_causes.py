"""Explains why a part of a prompt is different today: a file has changed, or Logist itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from logist.core.model import EffectiveSpec, Interaction, JsonObject, Phase, Role, State, Step
from logist.core.permissions.tools import is_server_tool, select_role_tools, to_function_schema
from logist.core.prompt import archived_request
from logist.core.prompt.budget import LEFT_OUT
from logist.core.step.model_choice import ROLE, SHIPPED, ChosenModel
from logist.digests import compute_sha256
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    from logist.core.prompt.archived_request import PromptBlock

SETTINGS = frozenset({"model", "temperature", "tools", "server_tools"})
"""Settings of a request, besides its prompt, that come from the role file."""
GIVEN = "given"
OFFERED = ("model", "litellm")
"""Values of `agent`: the answer was supplied by hand; the agent that Logist offers tools to."""
FILES = ("role", "template")
"""Parts whose text comes from the role file."""
_OF_FILE = {"template": ": its template", "output_schema": ": its output_schema"}
ASKED = frozenset(
    {
        *("listing", "repo_structure", "relevant_files", "relevant", "prior_attempts", "session_context"),
        *("related_tasks", "custom_instructions"),
    }
)
"""Parts that are in the prompt because the role requests them."""
_WORK = ("task", "workflow_step")
"""Parts that a role's template can describe instead."""
AT_STEP = frozenset({"workflow_step", "agent_role"})
"""Parts whose text comes from a step of the workflow."""
_NAMES = {
    "model": "the model",
    "temperature": "the temperature",
    "tools": "the offered tools",
    "server_tools": "the descriptions of the tools of MCP servers",
    "contract": "the contract (how to answer)",
    "base": "the contract (how to answer in sections)",
    "permissions": "the text about the role's permissions",
    "ending": "the text about how to end an answer in sections",
    "output_schema": "the schema of the role's output",
    "agent_role": "the behavior instructions of the step",
    "confidence": "the request for the agent's confidence",
    "step": "the text about the agent's part",
    "limits": "the text about the attempt and its limit",
    "choices": "the steps that the agent can choose from",
    "verdict": "the text about the reviewer's verdict",
    "checklist": "the checklist of the review",
    "partial": "the note that the change is incomplete",
    "task": "the task",
    "instructions": "the task",
    "context": "the task",
    "workflow_step": "the step of the workflow",
    "previous": "the text about the last answer",
    "answer": "the answer of the last attempt",
    "findings": "the findings of the review",
    "checks": "the results of the checks",
    "steps": "the steps so far",
    "output": "the output of the previous step",
    "results": "the results of other jobs",
    "note": "the steward's note",
    "listing": "the files of the workspace",
    "repo_structure": "the structure of the workspace",
    "relevant_files": "the relevant files",
    "changes": "the list of changes",
    "diff": "the patch of the changes",
    "prior_attempts": "the earlier attempts",
    "session_context": "the other active jobs",
    "related_tasks": "the related jobs",
    "custom_instructions": "the instructions of the project",
    LEFT_OUT: "the parts left out for lack of space",
    "prompt": "the prompt",
    "outcome": "the state after the answer",
    "exit_command": "the exit command",
    "text": "the text before the exit command",
}


@dataclass(frozen=True)
class Today:
    """What a prompt is made from today, in addition to the spec and the state from the history."""

    version: str
    """The version of Logist."""
    schema: str = ""
    """`schema_hash` of the exit command's schema; empty if schemas are not compared."""
    role: Role | None = None
    role_file: str = ""
    """The path of the role file, for messages."""
    role_hash: str = ""
    missing: str = ""
    """Why the role is missing, in words."""
    step: Step | None = None
    """The step as the workflow file defines it today; None if it is the same as in the history."""
    step_file: str = ""
    disabled: tuple[str, ...] | None = None
    """The tools that the config disables; None if tools are not compared."""
    redact: Callable[[str], tuple[str, int]] = lambda text: (text, 0)
    choose_model: Callable[[EffectiveSpec, str, Phase, int], ChosenModel] | None = None
    """Chooses the model for a spec, a step, a phase and an attempt; None: the role's own."""


@dataclass(frozen=True)
class DriftContext:
    """A recorded request and the current files, to explain their differences."""

    spec: EffectiveSpec
    state: State
    entry: Interaction
    today: Today
    retold: bool = False
    """Whether the role's template describes the task differently, so that the other parts differ too."""

    @property
    def role_name(self) -> str:
        """The role that the request was for."""
        return find_asked_role(self.entry)

    @property
    def has_schema_changed(self) -> bool:
        """Whether answers are checked against another schema today."""
        then = self._get_metadata("schema")
        return bool(self.today.schema) and isinstance(then, str) and then != self.today.schema

    def find_changed_settings(self, role: Role) -> dict[str, tuple[Any, Any]]:
        """Return the settings that would be different today, with both values: model, temperature, tools.

        Without those of an answer that was supplied by hand, and without a model that a person chose for that
        one step.
        """
        metadata, options = self.entry.request.metadata, (self.entry.request.command or {}).get("options")
        agent = metadata.get("agent")
        if self.entry.simulated or agent == GIVEN:
            return {}
        if self._phase is Phase.DOER:
            role = role.at_attempt(self.entry.attempt or 1)
        today: dict[str, Any] = {"temperature": role.temperature}
        if not (isinstance(options, dict) and options.get("model")):
            chosen = self._chosen_model
            today["model"] = chosen.name if chosen else role.llm_model
        if agent in OFFERED and self.today.disabled is not None:
            tools = select_role_tools(role, self.today.disabled)
            today["tools"] = [tool.name for tool in tools]
            if today["tools"] == metadata.get("tools"):
                today["server_tools"] = [
                    to_function_schema(tool) for tool in tools if is_server_tool(tool.name)
                ]
        return {
            name: (metadata[name], now)
            for name, now in today.items()
            if name in metadata and metadata[name] != now
        }

    def is_unrecorded_difference(self, then: PromptBlock, now: PromptBlock) -> bool:
        """Whether a rendered template differs only in what the archive does not record.

        That is how many items its lists had, where a secret extended across two of its parts, and values used
        only in `if`. If neither the role file nor Logist has changed, there can be no other difference.
        """
        if len(then.pieces) < 2 or len(now.pieces) < 2:
            return False
        same = self.is_role_unchanged and self._get_metadata("logist") == self.today.version
        return same or _collect_words(then) == _collect_words(now)

    def find_cause(self, source: str, change: str) -> str:
        """Explain why a part is different."""
        word = source.partition(":")[0]
        role = f"the role file {self.role_name}{_format_file_suffix(self.today.role_file)}"
        if word == "schema":
            then, now = str(self._get_metadata("schema"))[:8], self.today.schema[:8]
            return f"the schema of the exit command, llm-chat-schema.json, has changed: it was {then}, now it is {now}"
        if self.today.role is None and word == "role":
            return self.today.missing
        if self._is_step_change(word):
            flow = self.spec.workflow.name if self.spec.workflow else ""
            return f"the step `{self.state.step}` of the workflow {flow}{_format_file_suffix(self.today.step_file)} has changed"
        if word in SETTINGS:
            return self._explain_setting(word, role)
        if word in ("permissions", "step") and self._permissions_differ:
            return f"the permissions of the role {self.role_name} have changed{_format_file_suffix(self.today.role_file)}"
        if word in (*FILES, "output_schema") and not self.is_role_unchanged:
            return f"{role} has changed{_OF_FILE.get(word, '')}"
        if self.retold and word in (*ASKED, *_WORK):
            return f"{role} has changed: its template describes the task differently"
        if word in ASKED and change != "changed" and not self.is_role_unchanged:
            return f"{role} has changed: it requests other context"
        return self._explain_own_wording(source)

    @property
    def _phase(self) -> Phase:
        return self.entry.observed.phase if self.entry.observed else Phase.DOER

    @cached_property
    def _chosen_model(self) -> ChosenModel | None:
        """The model that would be used today, and where it comes from."""
        if self.today.choose_model is None:
            return None
        return self.today.choose_model(self.spec, self.state.step, self._phase, self.entry.attempt or 1)

    def _explain_setting(self, word: str, role: str) -> str:
        if word == "model" and self._chosen_model and self._chosen_model.source not in (ROLE, SHIPPED):
            return f"the model is chosen by {self._chosen_model.describe_source()}"
        if word == "model" and self.is_role_unchanged:
            return "the model was chosen by another setting than the role file"
        if word == "server_tools" or (word == "tools" and self._server_tools_differ):
            return f"{role} has changed: its mcp_servers"
        if word == "tools" and not self._permissions_differ:
            return f"{_NAMES[word]}: `tools.disabled` in the config has changed, or Logist has other tools"
        if word == "tools":
            return f"the permissions of the role {self.role_name} have changed{_format_file_suffix(self.today.role_file)}"
        return (
            self._explain_own_wording(word) if self.is_role_unchanged else f"{role} has changed: its {word}"
        )

    def _is_step_change(self, word: str) -> bool:
        """Whether the workflow file causes the difference.

        The text of the step causes it, or the answer format, which affects the whole prompt.
        """
        today, flow = self.today.step, self.spec.workflow
        then = flow.find_step(self.state.step) if flow else None
        if today is None or then is None:
            return False
        if word == "confidence" and (today.confidence is None) != (then.confidence is None):
            return True
        return word in AT_STEP or (word not in FILES and today.response_format != then.response_format)

    @property
    def _permissions_differ(self) -> bool:
        then = self._get_metadata("permissions")
        role = self.today.role
        return role is not None and then is not None and then != role.permissions.list_names()

    @property
    def _server_tools_differ(self) -> bool:
        """Whether the role file has other tools of MCP servers, whatever the config disables."""
        role, tools = self.today.role, self._get_metadata("tools")
        if role is None or not isinstance(tools, list) or self._permissions_differ or self.is_role_unchanged:
            return False
        disabled = self.today.disabled or ()
        now = {tool.name for tool in select_role_tools(role, disabled) if is_server_tool(tool.name)}
        return now != {name for name in tools if is_server_tool(str(name))}

    @property
    def is_role_unchanged(self) -> bool:
        """Whether the role file is unchanged; False if the archive does not record its hash."""
        return bool(self.today.role_hash) and self.spec.roles.get(self.role_name) == self.today.role_hash

    def _explain_own_wording(self, source: str) -> str:
        word = source.partition(":")[0]
        what = _NAMES.get(word) or (describe_part(source) if source else "how the parts are joined")
        then, now = self._get_metadata("logist"), self.today.version
        if not isinstance(then, str):
            return f"Logist's own text has changed ({what}): now {now}, the archive does not record the old version"
        if then == now:
            return f"Logist's own text has changed ({what}), although the version is still {now}"
        return f"Logist's own text has changed ({what}): it was {then[:40]}, now it is {now}"

    def _get_metadata(self, name: str) -> object:
        return self.entry.request.metadata.get(name)


def find_asked_role(entry: Interaction) -> str:
    """Return the name of the role that a request was made for; empty if it is not recorded."""
    name = entry.request.metadata.get("role")
    return name if isinstance(name, str) else entry.observed.role if entry.observed else ""


def schema_hash(schema: JsonObject) -> str:
    """Return the sha256 (hex) of a schema as canonical JSON, as in the metadata of a request."""
    text = json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return compute_sha256(text.encode("utf-8"))


def describe_part(source: str) -> str:
    """Describe a part of a prompt: `role:Worker` is `the role Worker`."""
    word, _, name = source.partition(":")
    if word in ("role", "file") and name:
        return f"the {word} {name}"
    if word == "relevant" and name:
        return f"the file {name}"
    if word == "template" and name:
        return f"the task as described by the template of the role {name}"
    return _NAMES.get(word, f"the part {source}")


def describe_part_change(source: str, change: str, first: str, second: str) -> str:
    """Describe how a part differs between two interactions, with their names (`#2`, `fix-login #2`)."""
    return f"{describe_part(source)}: {describe_change(change, first, second)}"


def describe_change(change: str, first: str, second: str) -> str:
    """Describe a change between two interactions, without the name of the part."""
    how = {"changed": "not the same", "added": f"only in {second}", "gone": f"only in {first}"}
    return how[change]


def _format_file_suffix(file: str) -> str:
    return f" ({file})" if file else ""


def _collect_words(block: PromptBlock) -> tuple[frozenset[str], tuple[tuple[str, str], ...]]:
    """Return the content of a rendered template that does not depend on how often it is repeated."""
    rules = frozenset(piece.text for piece in block.pieces if piece.kind == "rule")
    known = (
        (piece.source, piece.text)
        for piece in block.pieces
        if piece.kind != "rule" and not archived_request.is_surrounding(piece.source)
    )
    return rules, tuple(dict.fromkeys(known))
