"""Everything a use case works with, handed in: where things lie, settings, roles, clock, steward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path

from logist.agents.protocol import Agent
from logist.agents.scripted import Scripted
from logist.config.environment import Environment, list_config_directories
from logist.config.settings import Settings, resolve_model
from logist.config.trust import Trust
from logist.core.answer import exit_command
from logist.core.model import JsonObject, Model, Role
from logist.core.secrets import redact
from logist.resources import load_schema
from logist.roles import Roles
from logist.store import JobDir
from logist.workspace import Workspace
from logist.workspace.prepared import read_setup_outputs

SCRIPTED = "scripted:"


@dataclass(frozen=True)
class Clock:
    """Time as the use cases see it; a replay or a test hands in another."""

    now: Callable[[], datetime]
    """The current time, UTC."""
    monotonic: Callable[[], float]
    """Seconds that only grow."""

    def timestamp(self) -> str:
        return self.now().strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Project:
    """The surroundings of a use case."""

    home: Path
    """The `.logist` directory; it need not be there yet."""
    jobs_dir: Path
    settings: Settings
    roles: Roles
    environment: Environment
    clock: Clock
    steward: str
    agent: str
    """`litellm`, `scripted:PATH`, or the name of an agent program."""
    say: Callable[[str], None]
    """Tells the person at the terminal what is going on."""
    trust: Trust
    """Asked before the project's files run a program, reach a host, or merge work."""
    stopping: Callable[[], int] = lambda: 0
    """The exit code of a stop, once one was asked for: no new work is begun. Else 0."""

    @property
    def layers(self) -> tuple[Path, ...]:
        """The directories with roles/ and workflows/, of which a later one wins."""
        return list_config_directories(self.home, self.environment.user_config_dir())

    @cached_property
    def schema(self) -> JsonObject:
        """llm-chat-schema.json."""
        return load_schema("llm-chat-schema")

    @cached_property
    def script(self) -> Agent | None:
        """The scripted agent, when one answers instead of a model."""
        if not self.agent.startswith(SCRIPTED):
            return None
        return Scripted.load(Path(self.agent.removeprefix(SCRIPTED)))

    @cached_property
    def redact(self) -> Callable[[str], tuple[str, int]]:
        """Takes secrets out of a text: `(text, how many)`."""
        return partial(redact.redact, secrets=self.secrets)

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not reach a file: what sounds secret, and the keys of the models."""
        key_names = [model.api_key_env for model in self.settings.models.values() if model.api_key_env]
        return self.environment.list_secrets(*key_names)

    def choose_agent(self, role: Role) -> str:
        """Who does the work of a role: a script for all of them, else what the role says, else the config."""
        return self.agent if self.agent.startswith(SCRIPTED) else role.agent or self.agent

    def redact_text(self, text: str) -> str:
        """The text as it may reach a file: no secret, and nothing that is not Unicode."""
        return self.redact(exit_command.replace_surrogates(text)[0])[0]

    def open_job(self, job_id: str) -> JobDir:
        """The job's directory; UsageError for a bad or unknown id."""
        return JobDir.open(self.jobs_dir, job_id)

    def open_workspace(self, job: JobDir) -> Workspace:
        settings = self.settings.workspace
        return Workspace(
            job.workspace,
            job.git_dir,
            caches=settings.caches,
            max_checkpoint_bytes=settings.max_checkpoint_bytes,
            outputs=read_setup_outputs(job.setup_file, job.workspace),
        )

    def find_model(self, name: str) -> Model:
        """The model behind a short name; InvalidFile for one that no config knows."""
        if self.agent.startswith(SCRIPTED):
            return Model(name=name, provider_model=f"scripted/{name}")
        return resolve_model(self.settings, name)
