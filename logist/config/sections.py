"""The sections of a config, with their defaults."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from logist.config import price_table
from logist.core.model import CHECK_MINUTES, CHECKS, Approval, ConfiguredCheck, Frozen, PriceTier
from logist.core.model.flow import MAX_STEPS, MOST_STEPS
from logist.core.text.cache_patterns import DEFAULT_CACHES
from logist.lazy_patterns import compile_on_use
from logist.quick_model import AfterValidator, ConfigDict, Field, StringConstraints, model_validator
from logist.timestamps import has_timezone

Name = Annotated[str, StringConstraints(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Above = Annotated[float, Field(gt=0)]
Price = Annotated[float, Field(ge=0)]
ProjectPath = Annotated[str, StringConstraints(pattern=r"^(/|~/|~$)[^\x00]*$")]
"""An absolute path; `~` is the user's home directory."""
SimpleName = Annotated[str, StringConstraints(pattern=r"^[^/\x00]+$")]

THIS_MACHINE = ("127.0.0.1", "localhost", "::1")

Mode = Literal["normal", "strict", "yolo"]
APPROVAL_OF_MODE: dict[Mode, Approval] = {
    "strict": Approval.EACH,
    "normal": Approval.END,
    "yolo": Approval.NONE,
}


class Review(Frozen):
    """Whether a second agent checks the work of the doer, and what happens after its findings."""

    enabled: bool = True
    role: Name = "Supervisor"
    model: Name | None = None
    """The model of reviewers whose own role file names none; None: `model`."""
    mode: Mode = "normal"
    checks: dict[Name, ConfiguredCheck] = CHECKS
    check_timeout_minutes: Above = CHECK_MINUTES
    auto_merge: bool | None = None
    """None: the mode decides, see `can_merge_automatically`."""


class RoleChoice(Frozen):
    """The role for a job that names none."""

    default: Name = "Worker"
    type_mapping: dict[str, Name] = Field(default_factory=dict)
    """Role by task type."""


_ORDINARY_ENDPOINT = compile_on_use(
    r"https?://[a-z0-9.-]+(?::(?:[0-9]{1,4}|[1-5][0-9]{4}))?(?:/[A-Za-z0-9._/-]*)?"
)
"""What is valid without a closer look; `urllib.parse` takes as long to load as a tenth of the start of Python."""


def _check_endpoint(endpoint: str) -> str:
    if fault := endpoint_fault(endpoint):
        raise ValueError(fault)
    return endpoint


def endpoint_fault(endpoint: str) -> str | None:
    """Return the problem with the endpoint of a model; None if it is valid.

    The text doesn't contain the endpoint, because that may contain a key.
    """
    if _ORDINARY_ENDPOINT.fullmatch(endpoint):
        return None
    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname, parts.port  # reading these raises ValueError for an invalid URL
    except ValueError:
        return "must be a URL"
    if "@" in parts.netloc:
        return "must not contain a user name or password"
    if any(character.isspace() or not character.isprintable() for character in endpoint):
        return "must not contain spaces or control characters"
    if parts.scheme not in ("http", "https") or not host:
        return "must start with http:// or https:// and a host"
    return None


Endpoint = Annotated[str, StringConstraints(min_length=1), AfterValidator(_check_endpoint)]


PRICES = ("input_price", "output_price", "cached_price", "cache_write_price", "reasoning_price", "tiers")
"""The fields of a model that say what it costs."""


class ConfiguredTier(PriceTier):
    """A tier of prices in a config, which allows only known fields."""

    model_config = ConfigDict(extra="forbid")


class ModelEntry(Frozen):
    """The model for a short name; prices are in US dollars per million tokens."""

    provider_model: Name
    """The provider and its name for the model: `PROVIDER/MODEL`."""
    endpoint: Endpoint | None = None
    """The base URL, if it is not that of the provider."""
    api_key_env: Name | None = None
    """The environment variable with the key, if it is not that of the provider."""
    price: Literal["free"] | None = None
    """`free` instead of prices, for a model on the user's own machine."""
    input_price: Price | None = None
    """Of input that is not from a cache."""
    output_price: Price | None = None
    """Of output."""
    cached_price: Price | None = None
    """Of input from a cache; default: `input_price`."""
    cache_write_price: Price | None = None
    """Of input that is stored in a cache; default: `input_price`."""
    reasoning_price: Price | None = None
    """Of reasoning tokens; default: `output_price`."""
    tiers: tuple[ConfiguredTier, ...] = ()
    """Other prices for requests with a long input."""
    max_output_tokens: Count = 8192
    """The maximum number of tokens of one answer."""
    context_window: Count | None = None
    """The maximum number of tokens in one request and its answer."""

    @model_validator(mode="after")
    def _check_prices(self) -> Self:
        prices = {name: getattr(self, name) for name in PRICES}
        given = [name for name, price in prices.items() if price not in (None, ())]
        if self.price == "free" and given:
            raise ValueError(f"`price: free` can't be combined with {', '.join(given)}")
        if self.tiers and None in (self.input_price, self.output_price):
            raise ValueError("`tiers` need an input_price and an output_price for shorter requests")
        if len({tier.above for tier in self.tiers}) < len(self.tiers):
            raise ValueError("two `tiers` have the same `above`")
        return self


Command = Annotated[tuple[Name, ...], Field(min_length=1)] | Name
"""A program with its arguments, or a shell command."""
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class Notify(Frozen):
    """The hooks: commands that run at an event, with its JSON on standard input."""

    stuck: Command | None = None
    """A job becomes STUCK."""
    approval: Command | None = None
    """A job waits for approval."""
    halted: Command | None = None
    """A job has reached a limit."""
    done: Command | None = None
    """A job has ended."""
    merged: Command | None = None
    """The work of a job was merged."""
    queue_empty: Command | None = None
    """`logist run` has nothing more to do."""
    environment: tuple[VariableName, ...] = ()
    """Names of variables that the commands get from your environment."""
    timeout_seconds: Above = 60
    """For each command."""


class SetupRules(Frozen):
    """How the dependencies of a workspace are installed."""

    commands: tuple[Command, ...] = ()
    """Run in order before the first step, with network access."""
    timeout_minutes: Above = 15
    """For all commands together."""
    lock_files: tuple[Name, ...] = ()
    """Patterns of the files that determine what is installed; empty means those of package managers that Logist knows."""
    environment: tuple[VariableName, ...] = ()
    """Names of variables that the commands get from your environment."""
    rerun: Literal["auto", "always", "never"] = "auto"
    """Whether they run again if an agent has changed a lock file; `auto`: only if that agent had network access."""


class WorkspaceRules(Frozen):
    """What a checkpoint contains, and what is installed before the first step."""

    max_checkpoint_bytes: Count = 1_000_000_000
    caches: tuple[SimpleName, ...] = DEFAULT_CACHES
    """Names of directories that are left out of checkpoints."""
    history: Literal["none", "shallow", "full"] = "none"
    """How much of the repository's past the agents of a new job can read with git."""
    setup: SetupRules = SetupRules()


class ContextRules(Frozen):
    """How much of the workspace goes into a prompt."""

    max_file_bytes: Annotated[int, Field(ge=0)] = 65_536
    """How much text of one file a prompt may contain; of larger files, parts are shown."""
    max_total_bytes: Annotated[int, Field(ge=0)] = 262_144
    """How much text of all files together a prompt may contain."""
    listing_limit: Annotated[int, Field(ge=0)] = 500
    budget_tokens: Count = 100_000
    """Maximum tokens of a prompt; less for a model with a smaller context window."""
    relevant_files_limit: Annotated[int, Field(ge=0)] = 10
    relevant_files_tokens: Annotated[int, Field(ge=0)] = 20_000
    """How much text of all relevant files together a prompt may contain."""
    prior_attempts_limit: Annotated[int, Field(ge=0)] = 3
    """Maximum number of earlier attempts in a prompt, for roles that request them."""
    excluded_paths: tuple[Name, ...] = ("node_modules", "dist", ".git")
    """Names of directories and files, paths, or patterns as in .gitignore: prompts never contain files that match."""
    custom_instructions: str | None = None
    """Instructions about the project for all agents."""


class Answers(Frozen):
    """How models are helped to end with a valid exit command."""

    constrain: Literal["auto", "always", "never"] = "auto"
    """Whether the provider is asked to enforce the form; auto: if it is known to do so."""
    reask: Annotated[int, Field(ge=0, le=10)] = 0
    """How often a model is told what was wrong with its answer, and asked again, before the job is STUCK."""


class Retries(Frozen):
    """How often a step tries one paid exchange, the first pause between two tries, and how long a job waits for its
    provider after them.
    """

    max_tries: Count = 4
    backoff_seconds: Annotated[float, Field(ge=0)] = 1.0
    max_wait_minutes: Annotated[float, Field(ge=0)] = 60.0


def _build_shipped_model(provider: str, model: str, api_key_env: str) -> ModelEntry:
    """Return the entry of a model of the shipped price table."""
    known = price_table.PRICE_LISTS[provider].models[model]
    return ModelEntry(
        provider_model=f"{provider}/{model}",
        api_key_env=api_key_env,
        input_price=known.input_price,
        output_price=known.output_price,
        cached_price=known.cached_price,
        tiers=tuple(ConfiguredTier(**tier.model_dump()) for tier in known.tiers),
        context_window=known.context_window,
    )


SHIPPED_MODELS = {
    "grok-code-fast-1": _build_shipped_model("xai", "grok-code-fast-1", "XAI_API_KEY"),
    "gemini-2.5-flash": _build_shipped_model("gemini", "gemini-2.5-flash", "GEMINI_API_KEY"),
}


class WorkflowRules(Frozen):
    """Which workflows a job may follow."""

    max_steps: Annotated[int, Field(ge=1, le=MOST_STEPS)] = MAX_STEPS
    """The maximum number of steps."""


class HistoryRules(Frozen):
    """How the history of a job is stored."""

    rotate_at: Annotated[int, Field(ge=0)] = 16_000_000
    """Size in bytes at which jobHistory.json is compressed and a new one is started; 0: never."""


def _check_pattern(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"must be a valid regular expression ({error})") from None
    return text


Pattern = Annotated[str, StringConstraints(min_length=1, max_length=1000), AfterValidator(_check_pattern)]


class RedactRules(Frozen):
    """What else to redact when a history is exported for sharing."""

    patterns: tuple[Pattern, ...] = ()
    """Regular expressions; the group named `secret` of a match is replaced, otherwise the complete match."""


class StewardRules(Frozen):
    """How decisions are signed. Only the user's own config may set this: see `config.settings.load_settings`."""

    sign: Literal["ssh"] | None = None
    """Sign each decision with `ssh-keygen -Y sign`."""
    key: Name = "~/.ssh/id_ed25519"
    """The file of the private key, or of the public key if an ssh-agent or a security key holds the private one."""
    require: Literal["signature"] | None = None
    """Refuse approvals that are not signed by one of the allowed signers."""
    allowed_signers: Name | None = None
    """A file in the format that `ssh-keygen -Y verify` reads: who may sign."""


BudgetName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]


class BudgetLimit(Frozen):
    """What all jobs of the project together may spend; for one provider, model or tag only, if it names one."""

    provider: Name | None = None
    """Only calls of this provider: the first part of PROVIDER/MODEL."""
    model: Name | None = None
    """Only calls of this model: a name in `models`, or PROVIDER/MODEL."""
    tag: Name | None = None
    """Only calls of jobs with this tag, and of their child jobs."""
    per: Literal["day", "month", "run"] | None = None
    """None: for all time. `run`: for each `logist run`."""
    cost: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """US cents."""
    tokens: Annotated[int, Field(ge=0)] | None = None
    """Input and output together."""
    calls: Annotated[int, Field(ge=0)] | None = None
    """Calls that were answered, or may have been charged."""

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        scopes = [name for name in ("provider", "model", "tag") if getattr(self, name) is not None]
        if len(scopes) > 1:
            raise ValueError(f"can't be about `{scopes[0]}` and `{scopes[1]}` at once; use two budgets")
        if scopes and self.per == "run":
            raise ValueError(f"`per: run` can't be combined with `{scopes[0]}`")
        if (self.cost, self.tokens, self.calls) == (None, None, None):
            raise ValueError("limits nothing; set `cost` (in US cents), `tokens` or `calls`")
        return self


class RateLimit(Frozen):
    """How many calls of a provider or a model all jobs of the project together may make."""

    concurrent: Count | None = None
    """At the same time."""
    calls_per_minute: Count | None = None
    """In any minute; a tenth of them may begin at once."""

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if (self.concurrent, self.calls_per_minute) == (None, None):
            raise ValueError("limits nothing; set `concurrent` or `calls_per_minute`")
        return self


def _check_timezone(name: str) -> str:
    if not has_timezone(name):
        raise ValueError("must be the name of a time zone, such as Europe/Berlin")
    return name


class BudgetRules(Frozen):
    """What all jobs of the project together may spend."""

    timezone: Annotated[str, AfterValidator(_check_timezone)] | None = None
    """Where days and months begin; None: the time zone of this machine."""
    limits: dict[BudgetName, BudgetLimit] = Field(default_factory=dict)
