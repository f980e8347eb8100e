"""The settings: the shipped defaults, overridden by the user's file, overridden by the project's."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from logist.config import coven, prices
from logist.config.environment import find_coven_directory
from logist.config.layering import (
    append_patterns_below,
    check_endpoints,
    drop_inherited_secrets,
    drop_other_spellings,
    expand_short_forms,
    get_patterns,
    refuse_user_keys,
    require_owner,
)
from logist.config.merging import list_leaf_paths, merge_settings
from logist.config.programs import ProgramEntry, ProgramName
from logist.config.providers import ProviderEntry, find_entry, is_local_without_key
from logist.config.sections import (
    APPROVAL_OF_MODE,
    SHIPPED_MODELS,
    Above,
    Answers,
    BudgetRules,
    ContextRules,
    Count,
    HistoryRules,
    Mode,
    ModelEntry,
    Name,
    Notify,
    ProjectPath,
    RateLimit,
    RedactRules,
    Retries,
    Review,
    RoleChoice,
    StewardRules,
    WorkflowRules,
    WorkspaceRules,
)
from logist.config.working import SandboxRules, ToolRules
from logist.core import review
from logist.core.model import Approval, ConfiguredLimits, Frozen, JobSpec, Model
from logist.documents import Document, read_document, suggest_names, validate_document
from logist.errors import InvalidFile, LogistError
from logist.quick_dataclass import dataclass
from logist.quick_model import Field, StringConstraints

CONFIG_FILE = "config.yaml"
FREE = {"input_price": 0.0, "output_price": 0.0}
PATTERNS = "redact.patterns"


class Settings(Frozen):
    """Everything that can be configured, with the defaults."""

    limits: ConfiguredLimits = ConfiguredLimits()
    budget: BudgetRules = BudgetRules()
    review: Review = Review()
    approval: Approval | None = None
    """None: the mode of the review decides, see `choose_approval`."""
    roles: RoleChoice = RoleChoice()
    model: Name | None = None
    """The model of all roles whose own file names none: a name in `models`, or `PROVIDER/MODEL`."""
    models: dict[Name, ModelEntry] = SHIPPED_MODELS
    providers: dict[Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$")], ProviderEntry] = Field(
        default_factory=dict
    )
    """The user's own providers, and other addresses or keys for shipped ones."""
    agent: Annotated[str, StringConstraints(pattern=r"^(scripted:.+|[a-z][a-z0-9_-]*)$")] = "model"
    """`model`, `litellm`, `scripted:PATH`, or the name of an agent program."""
    agents: dict[ProgramName, ProgramEntry] = Field(default_factory=dict)
    """The user's own agent programs, by name."""
    gate: Literal["on", "off"] = "on"
    """Whether the requests of agent programs go through the gate, which limits what they spend."""
    max_concurrent_agents: Count = 3
    agent_timeout_minutes: Above = 30
    poll_interval_seconds: Above = 5
    min_free_bytes: Annotated[int, Field(ge=0)] = 50_000_000
    """No step begins when less is left on the disk of the jobs: room for an answer, its logs, a checkpoint, and a closed
    segment of the history. 0: don't check."""
    on_stuck: Annotated[list[Name], Field(min_length=1)] | Name | None = None
    """The command to run when a job becomes STUCK: a list of arguments, or a shell command."""
    notify: Notify = Notify()
    on_doubt: Literal["stuck", "retry"] = "stuck"
    response_format: Literal["json", "sections"] = "json"
    """How agents answer: JSON exit command, or five sections of Markdown; workflow steps can override it."""
    workspace: WorkspaceRules = WorkspaceRules()
    context: ContextRules = ContextRules()
    workflow: WorkflowRules = WorkflowRules()
    history: HistoryRules = HistoryRules()
    redact: RedactRules = RedactRules()
    min_output_tokens: Count = 2048
    allow_unknown_price: bool = False
    rate_limits: dict[Name, RateLimit] = Field(default_factory=dict)
    """By provider, name in `models`, or PROVIDER/MODEL."""
    retries: Retries = Retries()
    answers: Answers = Answers()
    tools: ToolRules = ToolRules()
    sandbox: SandboxRules = SandboxRules()
    projects: tuple[ProjectPath, ...] = ()
    """The directories of the user's projects, for `logist inbox --all`; only the user's own config can set it."""
    steward: StewardRules = StewardRules()
    """Only in the user's own config."""


def choose_approval(
    settings: Settings, asked: Approval | bool | None = None, mode: Mode | None = None
) -> Approval:
    """Return when a steward has to approve a job that asks for `asked`, and for a review in `mode`.

    An explicit setting overrides the default of a mode (strict: `each`, normal: `end`, yolo: `none`), even if the
    setting is in the config and the mode in the job. The job's own setting comes first.
    """
    if isinstance(asked, bool):
        return Approval.END if asked else Approval.NONE
    return asked or settings.approval or APPROVAL_OF_MODE[mode or settings.review.mode]


def can_merge_automatically(settings: Settings, asked: bool | None = None, mode: Mode | None = None) -> bool:
    """Whether work is merged into the source repository without a steward, if a job asks for `asked` and `mode`.

    An explicit setting (first the job's, then the config's) overrides the mode; of the modes, only yolo merges.
    """
    explicit = asked if asked is not None else settings.review.auto_merge
    return (mode or settings.review.mode) == "yolo" if explicit is None else explicit


UNCHECKED_MERGES = (
    "results will be merged without approval, and no blocking check runs a command "
    "(add one to review.checks, or set approval: end)"
)


def can_merge_unchecked(settings: Settings, job: JobSpec | None = None) -> bool:
    """Whether work is merged that neither a person nor a command has checked (see UNCHECKED_MERGES)."""
    job = job or JobSpec()
    mode = job.review_mode or settings.review.mode
    reviewed = settings.review.enabled if job.review is None else job.review
    if not reviewed or not can_merge_automatically(settings, job.auto_merge, mode):
        return False  # work without a review is not merged automatically either
    if choose_approval(settings, job.approval, job.review_mode) is not Approval.NONE:
        return False
    checks = settings.review.checks.values()
    return not any(
        review.is_run_by_logist(check) and review.is_blocking(mode, check.severity) for check in checks
    )


DEFAULT = "default"
"""The source of a value that no file sets."""


@dataclass(frozen=True)
class LoadedSettings:
    """The settings, and for each field path the source of its value: `default` or a file.

    The source of `redact.patterns` may be several files, separated by commas.
    """

    settings: Settings
    sources: dict[str, str]
    unused: tuple[coven.Unused, ...] = ()
    """Keys of a Coven project that Logist does not use."""
    below: Settings = field(default_factory=Settings)
    """The settings without the files of the project: the defaults and the user's settings."""
    project_files: frozenset[str] = frozenset()
    """The files of the project that were read."""
    files: tuple[str, ...] = ()
    """All files that were read."""


def load_settings(
    home: Path, user_config_dir: Path, *, instead: Mapping[Path, Document] | None = None
) -> LoadedSettings:
    """Load the defaults, then the user's config.yaml, then the files of the project; files may be missing.

    A project may have a `.coven/config.json` next to its `.logist`, which the config.yaml there overrides.
    config.trust decides what the files of a project may set. Mappings are merged key by key, the patterns of
    `redact` add up, everything else is replaced. `instead`: new contents of files, which are not read from
    disk.

    Raises InvalidFile with file, line and key.
    """
    instead = instead or {}
    settings = below = Settings()
    data = settings.model_dump(mode="json")
    sources: dict[str, str] = {}
    unused: list[coven.Unused] = []
    user_file = user_config_dir / CONFIG_FILE
    files = _list_existing_files(*list_settings_files(home, user_config_dir), new=instead)
    for path in files:
        document, unused_here = _read_settings_file(path, instead.get(path))
        check_endpoints(document)
        if path != user_file:
            refuse_user_keys(document, user_file)
        own = drop_inherited_secrets(data, append_patterns_below(data, document.data))
        data = merge_settings(drop_other_spellings(data, own), own)
        settings = validate_document(Settings, replace(document, data=data))
        sources |= dict.fromkeys(list_leaf_paths(own), str(path)) | _find_patterns_source(
            sources, document.data, path
        )
        unused += unused_here
        if path == user_file:
            below = settings
    final = list_leaf_paths(settings.model_dump(mode="json"))
    return LoadedSettings(
        settings,
        {field: sources.get(field, DEFAULT) for field in final},
        tuple(unused),
        below,
        frozenset(str(path) for path in files if path != user_file),
        tuple(map(str, files)),
    )


def load_user_settings(user_config_dir: Path) -> Settings:
    """Load the defaults and the user's config.yaml only, for when a file of the project is invalid."""
    return load_settings(user_config_dir, user_config_dir).settings


def _find_patterns_source(sources: dict[str, str], own: dict[str, Any], path: Path) -> dict[str, str]:
    """Return the source of `redact.patterns` after this file: every file that has some."""
    before = sources.get(PATTERNS)
    if before is None or get_patterns(own) is None:
        return {}
    return {PATTERNS: f"{before}, {path}" if get_patterns(own) else before}


def list_settings_files(home: Path, user_config_dir: Path) -> list[Path]:
    """Return where the settings may be, in the order of priority, highest last."""
    coven_directory = find_coven_directory(str(home))
    of_coven = [Path(coven_directory, coven.FILE)] if coven_directory else []
    return [user_config_dir / CONFIG_FILE, *of_coven, home / CONFIG_FILE]


class CurrentSettings:
    """The settings as the files have them now, for commands that run for hours.

    While the files can't be read, and until the user trusts them, the settings of before apply.
    """

    def __init__(self, files: Sequence[Path], load: Callable[[], Settings]) -> None:
        """`load` reads the settings. Call it for the first time after this, so that no change is missed."""
        self._files, self._load = files, load
        self._seen = self._stamp_files()
        self._settings: Settings | None = None

    def read(self, known: Settings) -> Settings:
        """Return the settings; `known` if the files have not changed."""
        seen = self._stamp_files()
        if seen != self._seen:
            with suppress(LogistError):
                self._settings = self._load()
            self._seen = seen
        return self._settings or known

    def _stamp_files(self) -> list[tuple[int, int, int] | None]:
        return [_stamp_file(path) for path in self._files]


def _stamp_file(path: Path) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _list_existing_files(*paths: Path, new: Container[Path] = ()) -> list[Path]:
    """Return the files that exist or are new, each once, at its last position."""
    existing = dict.fromkeys(path for path in reversed(paths) if path in new or os.path.lexists(path))
    return list(reversed(existing))


def _read_settings_file(path: Path, document: Document | None = None) -> tuple[Document, list[coven.Unused]]:
    """Read a file with its keys translated to those of config.yaml, and list keys that only Coven uses."""
    require_owner(path)
    document = document or read_document(path)
    document = replace(document, data=expand_short_forms(document.data, path.parent))
    if path.name != coven.FILE:
        return document, []
    keys = Settings.model_fields
    return coven.translate_document(document, keys), coven.find_unused_keys(document, keys)


def list_named_roles(settings: Settings) -> dict[str, str]:
    """Return the roles that the settings name, each by the path of its key."""
    mapping = {f"roles.type_mapping.{word}": role for word, role in settings.roles.type_mapping.items()}
    return {"roles.default": settings.roles.default, "review.role": settings.review.role, **mapping}


def resolve_model(settings: Settings, name: str) -> Model:
    """Return the model that a role's `llm_model` names.

    `provider/model` needs no entry in the config: prices and limits are those of the price tables. An entry
    without prices gets them there too, unless it has an endpoint, where they may differ.
    """
    entry = settings.models.get(name)
    if entry is None and "/" not in name.strip("/"):
        raise _unknown_model_error(settings, name)
    if entry is None:
        model = Model(name=name, provider_model=name)
        if is_local_without_key(settings.providers, name):
            model = model.model_copy(update=FREE)
    else:
        model = Model(name=name, **entry.model_dump(exclude={"price"}))
        if entry.price == "free":
            model = model.model_copy(update=FREE)
    return _add_key_name(settings, _add_known_prices(model))


def _add_known_prices(model: Model) -> Model:
    """Return a model without any price with the prices and limits that the tables know."""
    if model.endpoint or (model.input_price, model.output_price) != (None, None):
        return model
    known = prices.find_known_model(model.provider_model)
    if known is None:
        return model
    limits = {
        "context_window": model.context_window or known.context_window,
        "max_output_tokens": min(model.max_output_tokens, known.max_output_tokens or sys.maxsize),
    }
    return model.model_copy(update={**known._asdict(), **limits})


def advise_about_price(settings: Settings, model: Model) -> str:
    """Return how to fix the unknown price of a model: the lines to add to a config."""
    config = f".logist/{CONFIG_FILE}"
    wanted = ["input_price: DOLLARS", "output_price: DOLLARS"]
    unit = "in US dollars per million tokens, from the price list of the provider"
    if model.name in settings.models:
        advice = f"add two lines to models.{model.name} in {config}: `{wanted[0]}` and `{wanted[1]}`, {unit}"
        free = "one line: `price: free`"
    else:
        begin = f"models: {{{json.dumps(model.name)}: {{provider_model: {json.dumps(model.provider_model)}"
        advice = f"check its name; if it is right, add to {config}: {', '.join([begin, *wanted])}}}}}, {unit}"
        free = "instead of the prices: `price: free`"
    if not model.api_key_env:
        advice += f"; if it runs on your own machine, {free}"
    return f"{advice}; to call it without a cost limit: allow_unknown_price: true"


def _unknown_model_error(settings: Settings, name: str) -> InvalidFile:
    providers = prices.suggest_providers(name)
    advice = suggest_names(name, settings.models) or ""
    if providers:
        advice = f"did you mean {' or '.join(f'`{each}`' for each in providers)}?"
    begin = f"{advice} Or name" if advice.endswith("?") else "name"
    snippet = f"models: {{{json.dumps(name)}: {{provider_model: PROVIDER/{name}}}}}"
    return InvalidFile(
        f"unknown model `{name}`; known: {', '.join(sorted(settings.models))}",
        where=f"{CONFIG_FILE}: models",
        fix=f"{begin} it with its provider: PROVIDER/{name}, or add it to .logist/{CONFIG_FILE}: {snippet}",
    )


def has_known_address(settings: Settings, name: str) -> bool:
    """Whether the configs or Logist itself know where a model is called.

    For any other name, the name itself decides where prompts and keys are sent.
    """
    return name in settings.models or ("//" not in name and find_entry(settings.providers, name) is not None)


def _add_key_name(settings: Settings, model: Model) -> Model:
    """Return the model with the key of its provider, unless it names one, or has a separate address."""
    if model.api_key_env or model.endpoint:
        return model
    entry = find_entry(settings.providers, model.provider_model)
    return model.model_copy(update={"api_key_env": entry.api_key_env if entry else None})
