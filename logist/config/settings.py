"""config.yaml: the shipped defaults, under the user's file, under the project's."""

from __future__ import annotations

import os
import pwd
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints

from logist.config.programs import ProgramEntry, ProgramName
from logist.config.working import SandboxRules, ToolRules
from logist.core.caches import DEFAULT_CACHES
from logist.core.model import (
    CHECK_MINUTES,
    CHECKS,
    Approval,
    ConfiguredCheck,
    ConfiguredLimits,
    Frozen,
    Model,
)
from logist.documents import Document, checked, nearest, read
from logist.errors import InvalidFile

CONFIG_FILE = "config.yaml"

Name = Annotated[str, StringConstraints(min_length=1)]
Price = Annotated[float, Field(ge=0)]
SimpleName = Annotated[str, StringConstraints(pattern=r"^[^/\x00]+$")]


class Review(Frozen):
    """Whether a second agent checks what the doer did, and what its findings decide."""

    enabled: bool = True
    role: Name = "Supervisor"
    mode: Literal["normal", "strict", "yolo"] = "normal"
    checks: dict[Name, ConfiguredCheck] = CHECKS
    check_timeout_minutes: Annotated[float, Field(gt=0)] = CHECK_MINUTES
    auto_merge: bool = False


class RoleChoice(Frozen):
    """Which role does a job that names none."""

    default: Name = "Worker"
    type_mapping: dict[str, Name] = Field(default_factory=dict)
    """Role by task type."""


def _sound_endpoint(endpoint: str) -> str:
    if fault := _fault_of(endpoint):
        raise ValueError(fault)
    return endpoint


def _fault_of(endpoint: str) -> str | None:
    """What is wrong with the address of a model; in words that do not repeat it, for it may hold a key."""
    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname, parts.port  # looked at: only that shows what is no address
    except ValueError:
        return "is not an address"
    if "@" in parts.netloc:
        return "must not hold a user or a password"
    if parts.scheme not in ("http", "https") or not host:
        return "must begin with http:// or https:// and a host"
    return None


Endpoint = Annotated[str, StringConstraints(min_length=1), AfterValidator(_sound_endpoint)]


class ModelEntry(Frozen):
    """What a short model name stands for; prices in US dollars per million tokens."""

    provider_model: Name
    endpoint: Endpoint | None = None
    api_key_env: Name | None = None
    input_price: Price | None = None
    output_price: Price | None = None
    cached_price: Price | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] = 8192
    context_window: Annotated[int, Field(ge=1)] | None = None


class WorkspaceRules(Frozen):
    """What a checkpoint holds."""

    max_checkpoint_bytes: Annotated[int, Field(ge=1)] = 1_000_000_000
    caches: tuple[SimpleName, ...] = DEFAULT_CACHES
    """Names of directories that are left out of checkpoints."""


class ContextRules(Frozen):
    """How much of the workspace goes into a prompt."""

    max_file_bytes: Annotated[int, Field(ge=0)] = 65_536
    max_total_bytes: Annotated[int, Field(ge=0)] = 262_144
    listing_limit: Annotated[int, Field(ge=0)] = 500
    budget_tokens: Annotated[int, Field(ge=1)] = 100_000
    """Of a whole prompt; a model with a smaller window has less."""
    relevant_files_limit: Annotated[int, Field(ge=0)] = 10
    excluded_paths: tuple[Name, ...] = ("node_modules", "dist", ".git")
    """Names of directories and files, paths, or patterns as in .gitignore: no prompt shows what they match."""
    custom_instructions: str | None = None
    """What every agent is told about the project."""


class Retries(Frozen):
    """How often one paid exchange is tried again within a step, and the first wait."""

    max_tries: Annotated[int, Field(ge=1)] = 4
    backoff_seconds: Annotated[float, Field(ge=0)] = 1.0


# As in the price table inside the litellm we lock; a test compares, so that they can't drift. Where long
# prompts cost more (grok: above 200,000 tokens), it is the higher price: a limit on cost is never overshot.
SHIPPED_MODELS = {
    "grok-code-fast-1": ModelEntry(
        provider_model="xai/grok-code-fast-1",
        api_key_env="XAI_API_KEY",
        input_price=2.00,
        output_price=4.00,
    ),
    "gemini-2.5-flash": ModelEntry(
        provider_model="gemini/gemini-2.5-flash",
        api_key_env="GEMINI_API_KEY",
        input_price=0.30,
        output_price=2.50,
    ),
}


class Settings(Frozen):
    """Everything that can be configured, with the values that hold without a config file."""

    limits: ConfiguredLimits = ConfiguredLimits()
    review: Review = Review()
    approval: Approval = Approval.END
    roles: RoleChoice = RoleChoice()
    models: dict[Name, ModelEntry] = SHIPPED_MODELS
    agent: Annotated[str, StringConstraints(pattern=r"^(scripted:.+|[a-z][a-z0-9_-]*)$")] = "litellm"
    """`litellm`, `scripted:PATH`, or the name of an agent program."""
    agents: dict[ProgramName, ProgramEntry] = Field(default_factory=dict)
    """Agent programs of one's own, by name."""
    max_concurrent_agents: Annotated[int, Field(ge=1)] = 3
    agent_timeout_minutes: Annotated[float, Field(gt=0)] = 30
    poll_interval_seconds: Annotated[float, Field(gt=0)] = 5
    on_stuck: Annotated[list[Name], Field(min_length=1)] | Name | None = None
    """A command run when a job becomes STUCK: a list of arguments, or a line for the shell."""
    on_doubt: Literal["stuck", "retry"] = "stuck"
    response_format: Literal["json", "sections"] = "json"
    """How agents answer: the JSON exit command, or five sections of Markdown; a step of a workflow may say."""
    workspace: WorkspaceRules = WorkspaceRules()
    context: ContextRules = ContextRules()
    min_output_tokens: Annotated[int, Field(ge=1)] = 2048
    allow_unknown_price: bool = False
    retries: Retries = Retries()
    tools: ToolRules = ToolRules()
    sandbox: SandboxRules = SandboxRules()


@dataclass(frozen=True)
class Loaded:
    """The settings, and for each field path where its value comes from: `default` or a file."""

    settings: Settings
    sources: dict[str, str]


def load_settings(home: Path, user_config_dir: Path) -> Loaded:
    """Defaults, then the user's config.yaml, then the one in `home`; files that are not there are fine.

    Whether the last may say what it says, config.trust tells. Mappings are merged key by key, everything else is replaced. Raises InvalidFile with file, line and key.
    """
    data = Settings().model_dump(mode="json")
    settings = Settings()
    sources = dict.fromkeys(_leaves(data), "default")
    for path in dict.fromkeys((user_config_dir / CONFIG_FILE, home / CONFIG_FILE)):
        if not os.path.lexists(path):
            continue
        _require_owner(path)
        document = read(path)
        _check_endpoints(document)
        own = _spelled_out(document.data, path.parent)
        own = _without_inherited_secrets(data, own)
        data = _merged(data, own)
        settings = checked(Settings, Document(document.path, data, document.lines))
        sources |= dict.fromkeys(_leaves(own), str(path))
    final = _leaves(settings.model_dump(mode="json"))
    return Loaded(settings, {field: sources.get(field, "default") for field in final})


def resolve_model(settings: Settings, name: str) -> Model:
    """What a role's `llm_model` stands for; `provider/model` is taken as written, its price unknown."""
    entry = settings.models.get(name)
    if entry:
        return Model(name=name, **entry.model_dump())
    if "/" in name.strip("/"):
        return Model(name=name, provider_model=name)
    advice = nearest(name, settings.models)
    snippet = f"models: {{{name}: {{provider_model: PROVIDER/{name}, api_key_env: PROVIDER_API_KEY, "
    snippet += "input_price: 0.0, output_price: 0.0}}"
    raise InvalidFile(
        f"unknown model `{name}`; known: {', '.join(sorted(settings.models))}",
        where=f"{CONFIG_FILE}: models",
        fix=f"{advice} Or add it to .logist/{CONFIG_FILE}: {snippet}",
    )


def _require_owner(path: Path) -> None:
    """Refuses the file of another user: it names programs that are run, and servers that get keys."""
    for look in (os.lstat, os.stat):
        try:
            owner = look(path).st_uid
        except OSError:
            return  # whoever reads it says what is wrong
        if stranger := fault_of_owner(owner, os.geteuid()):
            place = shlex.quote(str(path))
            raise InvalidFile(
                f"it belongs to another user, {stranger}: what it says could run programs as you",
                where=str(path),
                fix=f"if you trust it: chown {os.geteuid()} {place}; else move it away: mv {place} {place}.foreign",
            )


def fault_of_owner(uid: int, own: int) -> str | None:
    """The user, by name and number, whose files are not to be trusted; None for one's own and root's."""
    if uid in (own, 0):
        return None
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _without_inherited_secrets(below: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The same, but a model sent elsewhere does not take along the key, nor another one the prices.

    Else the config of a project one has cloned could have one's key sent to its own server.
    """
    models, known = own.get("models"), below["models"]
    if not isinstance(models, dict):
        return own
    changed = {
        name: _forgotten(known[name], entry) | entry
        for name, entry in models.items()
        if isinstance(entry, dict) and isinstance(known.get(name), dict)
    }
    return own | {"models": models | changed}


def _forgotten(known: dict[str, Any], entry: dict[str, Any]) -> dict[str, None]:
    differs = {key for key in ("endpoint", "provider_model") if key in entry and entry[key] != known.get(key)}
    fields = ["api_key_env"] if differs else []
    if "provider_model" in differs:
        fields += ["input_price", "output_price", "cached_price"]
    return dict.fromkeys(fields)


def _check_endpoints(document: Document) -> None:
    """The same refusal as the model's, but without the address: it may hold a key, and a message is shown."""
    models = document.data.get("models")
    for name, entry in models.items() if isinstance(models, dict) else ():
        endpoint = entry.get("endpoint") if isinstance(entry, dict) else None
        fault = _fault_of(endpoint) if isinstance(endpoint, str) and endpoint else None
        if fault:
            field = f"models.{name}.endpoint"
            raise InvalidFile(
                f"`{field}` {fault}",
                where=f"{document.path}:{document.lines.get(field, 1)}",
                fix="write the bare address; a key belongs in the environment variable that `api_key_env` names",
            )


def _spelled_out(data: dict[str, Any], directory: Path) -> dict[str, Any]:
    """The same with short forms written in full, and a path of the agent's made absolute."""
    data = dict(data)
    if isinstance(data.get("review"), bool):
        data["review"] = {"enabled": data["review"]}
    if isinstance(data.get("approval"), bool):
        data["approval"] = "end" if data["approval"] else "none"
    agent = data.get("agent")
    if isinstance(agent, str) and agent.startswith("scripted:") and agent != "scripted:":
        data["agent"] = f"scripted:{os.path.abspath(directory / agent.removeprefix('scripted:'))}"
    return data


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = base.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[key] = _merged(below, value)
        elif not (isinstance(below, dict) and value is None):  # `limits:` with only comments under it
            merged[key] = value
    return merged


def _leaves(data: dict[str, Any], path: str = "") -> list[str]:
    """The path of every field that holds no other fields."""
    found: list[str] = []
    for key, value in data.items():
        field = f"{path}.{key}" if path else key
        found += _leaves(value, field) if isinstance(value, dict) and value else [field]
    return found
