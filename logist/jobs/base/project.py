"""What every use case receives: paths, settings, roles, clock, steward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from logist import event_log, resources
from logist.agents import scripted
from logist.agents.courier import fork_servers
from logist.config import key_names as known_keys
from logist.config.environment import Environment, list_config_directories
from logist.config.settings import CONFIG_FILE, Settings, has_known_address, resolve_model
from logist.core.model import JsonObject, Model, Role
from logist.core.secrets import redact
from logist.core.text import surrogates
from logist.errors import InvalidFile, LogistError
from logist.event_log import events
from logist.jobs.base.turns import Turns
from logist.quick_dataclass import dataclass
from logist.store import JobDir
from logist.timestamps import read_boot_clock
from logist.workspace import prepared, workspace
from logist.workspace.context import WORDS_FOLDER

if TYPE_CHECKING:
    from logist.agents.courier.fork_servers import ForkServers
    from logist.agents.function import FunctionAgent
    from logist.agents.protocol import Agent
    from logist.config.settings import CurrentSettings
    from logist.config.trust import Trust
    from logist.core.step.model_choice import ChosenModel
    from logist.installed_files import InstalledFiles
    from logist.jobs.base.breakers import ProviderBreakers
    from logist.jobs.base.worker_pool import WorkerPool
    from logist.roles import Roles
    from logist.store.progress import ActivityRecord
    from logist.workspace import Workspace

SCRIPTED = "scripted:"


@dataclass(frozen=True)
class Clock:
    """The time for the use cases; a replay or a test passes another clock."""

    now: Callable[[], datetime]
    """The current time, UTC."""
    monotonic: Callable[[], float]
    """Seconds of a clock that never goes back."""
    since_boot: Callable[[], float] = read_boot_clock
    """The same, including the time in which the machine was suspended."""

    def timestamp(self) -> str:
        return self.now().strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Deadline:
    """When a `logist run` begins no more steps."""

    clock: Clock
    until: float | None = None
    """By the clock on the wall, in seconds since 1970: if that is set, the deadline comes nearer or farther."""
    uptime: float | None = None
    """By `clock.since_boot`: nobody can set that."""

    def is_over(self) -> bool:
        """Whether one of both is over."""
        return (self.until is not None and self.clock.now().timestamp() >= self.until) or (
            self.uptime is not None and self.clock.since_boot() >= self.uptime
        )


class ProgressDisplay(Protocol):
    """Shows what agents do while a command waits for them; can be used from any thread."""

    def update(self, job_id: str, records: Sequence[ActivityRecord]) -> None:
        """Show new records of a job. Called about twice a second, also without new ones."""
        ...

    def remove(self, job_id: str) -> None:
        """Stop showing a job, because its agent has ended or nothing waits for it any more."""
        ...


class NoDisplay:
    """Shows nothing."""

    def update(self, job_id: str, records: Sequence[ActivityRecord]) -> None:
        """Ignore the records."""

    def remove(self, job_id: str) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class ProjectContext:
    """The environment of a use case: paths, settings, roles, clock, steward."""

    home: Path
    """The `.logist` directory; it may not exist yet."""
    jobs_dir: Path
    settings: Settings
    roles: Roles
    environment: Environment
    clock: Clock
    steward: str
    agent: str
    """`litellm`, `scripted:PATH`, or the name of an agent program; `function` if there is one."""
    say: Callable[[str], None]
    """Prints a message for the person at the terminal."""
    trust: Trust
    """Checked before the project's files run a program, connect to a host, or merge work."""
    stopping: Callable[[], int] = lambda: 0
    """The exit code of a stop, once one was requested: then no new work begins. Else 0."""
    installed: InstalledFiles | None = None
    """For a command that works for long: whether Logist was upgraded meanwhile."""
    couriers: ForkServers = field(default_factory=lambda: fork_servers.ForkServers(enabled=False))
    """Fork the couriers; without them, each courier is a new process of Python."""
    progress: ProgressDisplay = field(default_factory=NoDisplay)
    """Shows what agents do."""
    quiet: bool = False
    """Leave out messages about progress."""
    detach: bool = False
    """Leave an agent that a courier calls working in the background."""
    breakers: ProviderBreakers | None = None
    """Which providers are not available, in a run over many jobs."""
    turns: Turns = field(default_factory=Turns)
    """In what order the jobs of a run compute."""
    via: Literal["terminal", "pipe", "python", "page"] | None = None
    """How the steward gives commands, as decisions record it."""
    may_sign: bool = True
    """Whether decisions may be signed with this user's key: on the page, other people can decide too."""
    run_id: str = ""
    """The name of this `logist run`; it begins with its day. Empty for other commands."""
    max_cost: int | None = None
    """What all jobs of this run together may cost, in microcents."""
    deadline: Deadline | None = None
    """When this run begins no more steps."""
    workers: WorkerPool | None = None
    """The workers on other machines that call the agents; None: this machine does."""
    function: FunctionAgent | None = None
    """A Python function that answers instead of any other agent."""
    current_settings: CurrentSettings | None = None
    """The settings as the config has them now."""
    warned: dict[str, object] = field(default_factory=dict)
    """The warnings that this command has printed, for all of its jobs."""

    def may_begin_work(self) -> bool:
        """True unless a stop was requested, Logist was upgraded since the command began, or the time or the cluster of the
        run is gone.
        """
        return not (self.stopping() or self.was_upgraded() or self.is_time_over() or self.find_cluster_loss())

    def find_cluster_loss(self) -> LogistError | None:
        """Return why the workers of this run can't be reached any more; None as long as they can."""
        return None if self.workers is None else self.workers.cluster.find_loss()

    def is_time_over(self) -> bool:
        """Whether this run may begin no more steps because of its deadline."""
        return self.deadline is not None and self.deadline.is_over()

    def was_upgraded(self, *, at_once: bool = False) -> bool:
        """Whether Logist was upgraded since the command began; `at_once`: look now, not only once a second."""
        return self.installed is not None and self.installed.have_changed(at_once=at_once)

    def report_progress(self, text: str) -> None:
        """Print a message about progress for the person at the terminal, unless progress is not wanted."""
        if not self.quiet:
            self.say(text)
        elif event_log.is_on():
            event_log.report(events.MessagePrinted(text))

    def warn_once(self, text: str) -> None:
        """Print a warning that is the same for each step and each job of this command, the first time only."""
        mark = object()
        if self.warned.setdefault(text, mark) is mark:  # atomic: the jobs of a run are threads
            self.say(text)

    @property
    def budget_settings(self) -> Settings:
        """The settings for budgets. A `logist run` takes hours; a budget that is set meanwhile limits it too."""
        return self.settings if self.current_settings is None else self.current_settings.read(self.settings)

    @property
    def has_jobs_inside(self) -> bool:
        """Whether the jobs are below the `.logist` directory, as without --jobs-dir."""
        return self.jobs_dir.is_relative_to(self.home)

    @property
    def layers(self) -> tuple[Path, ...]:
        """The directories with roles/ and workflows/; a later one overrides an earlier one."""
        return list_config_directories(self.home, self.environment.user_config_dir())

    @cached_property
    def schema(self) -> JsonObject:
        """llm-chat-schema.json."""
        return resources.load_schema("llm-chat-schema")

    @property
    def has_local_agent(self) -> bool:
        """True if a script or a function answers, in this process, instead of the agents of the config."""
        return self.function is not None or self.agent.startswith(SCRIPTED)

    @cached_property
    def local_agent(self) -> Agent | None:
        """The agent that answers in this process, if there is one. Raises InvalidFile for an invalid script."""
        if self.function is not None:
            return self.function
        return (
            scripted.Scripted.load(Path(self.agent.removeprefix(SCRIPTED))) if self.has_local_agent else None
        )

    @cached_property
    def redact(self) -> Callable[[str], tuple[str, int]]:
        """Removes secrets from a text and returns `(text, count)`."""
        return partial(redact.redact, secrets=self.secrets)

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not reach a file: environment variables with
        secret-sounding names, and the API keys.
        """
        return self.environment.list_secrets(*self.key_names)

    @property
    def key_names(self) -> frozenset[str]:
        """The environment variables that hold the keys of the models and of the providers."""
        named = [model.api_key_env for model in self.settings.models.values()]
        named += [provider.api_key_env for provider in self.settings.providers.values()]
        return known_keys.list_key_names(named)

    def choose_agent(self, role: Role) -> str:
        """The agent for a role: the local one if there is one, else the role's own
        agent, else the configured one.
        """
        return self.agent if self.has_local_agent else role.agent or self.agent

    def redact_text(self, text: str) -> str:
        """The text as it may be written to a file: no secrets, valid Unicode only."""
        return self.redact(surrogates.replace_surrogates(text)[0])[0]

    def redact_lines(self, text: str) -> str:
        """The same, with all line breaks, so that every line keeps its number."""
        return redact.redact(surrogates.replace_surrogates(text)[0], self.secrets, keep_lines=True)[0]

    def open_job(self, job_id: str) -> JobDir:
        """Open the directory of a job. Raises UsageError for an invalid or unknown id."""
        return JobDir.open(self.jobs_dir, job_id)

    def open_workspace(self, job: JobDir) -> Workspace:
        settings = self.settings.workspace
        return workspace.Workspace(
            job.workspace,
            job.git_dir,
            caches=settings.caches,
            max_checkpoint_bytes=settings.max_checkpoint_bytes,
            outputs=prepared.read_setup_outputs(job.setup_file, job.workspace),
            words=self.jobs_dir / WORDS_FOLDER,
        )

    def find_model(self, name: str) -> Model:
        """Find the model with a short name. Raises InvalidFile if no config defines it."""
        if self.has_local_agent:
            return Model(name=name, provider_model=f"{self.agent.partition(':')[0]}/{name}")
        return resolve_model(self.settings, name)

    def find_chosen_model(self, chosen: ChosenModel) -> Model:
        """Find the model that was chosen for a step. Raises InvalidFile if no config defines it.

        A job or a workflow may come from somebody else, so it can't choose an address that no config knows.
        """
        where = chosen.describe_source()
        try:
            model = self.find_model(chosen.name)
        except InvalidFile as error:
            raise InvalidFile(error.message, where=where, fix=error.fix) from error
        if (
            chosen.is_from_task
            and not self.has_local_agent
            and not has_known_address(self.settings, chosen.name)
        ):
            fix = f"add the model to `models` in .logist/{CONFIG_FILE}, with its provider_model"
            raise InvalidFile(f"unknown provider of the model `{chosen.name}`", where=where, fix=fix)
        return model
