"""The events of the log: one class for each, with its name, its level, its fields, and the sentence that `-v` prints.

Texts are short and say nothing that a person wrote for an agent: no prompts, no answers, no contents of files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from logist.core.text.counts import format_count
from logist.quick_dataclass import dataclass

Level = Literal["debug", "info", "warning", "error"]


class LogEvent:
    """Something that a command does, or that happens to it."""

    name: ClassVar[str]
    level: ClassVar[Level] = "info"
    is_printed: ClassVar[bool] = False
    """The command prints it anyway, so `-v` doesn't print it again."""

    def describe(self) -> str:
        """Return the sentence for people."""
        raise NotImplementedError

    @property
    def fields(self) -> Mapping[str, Any]:
        """The values of the event."""
        return vars(self)


@dataclass(frozen=True)
class CommandBegun(LogEvent):
    """The first event of each command. `options` are the names of its options, without their values."""

    name = "command_begun"
    command: str
    options: list[str]
    version: str
    directory: str

    def describe(self) -> str:
        return f"logist {self.version}: `{self.command}` in {self.directory}"


@dataclass(frozen=True)
class CommandEnded(LogEvent):
    """The last event of each command that was not killed."""

    name = "command_ended"
    command: str
    exit_code: int
    seconds: float

    def describe(self) -> str:
        return f"`{self.command}` ended after {self.seconds:.1f} s with exit code {self.exit_code}"


@dataclass(frozen=True)
class MessagePrinted(LogEvent):
    """A message about progress, as printed on standard error."""

    name = "message"
    is_printed = True
    text: str

    def describe(self) -> str:
        return self.text


@dataclass(frozen=True)
class WarningPrinted(LogEvent):
    """A warning of a command. `code` is that of `--json`."""

    name = "warning"
    level = "warning"
    is_printed = True
    code: str
    text: str
    target: str | None
    fix: str | None

    def describe(self) -> str:
        return _join_diagnostic(self.target, self.text, self.fix)


@dataclass(frozen=True)
class ErrorPrinted(LogEvent):
    """An error of a command, or of one of its jobs. `code` is that of `--json`."""

    name = "error"
    level = "error"
    is_printed = True
    code: str
    text: str
    target: str | None
    fix: str | None

    def describe(self) -> str:
        return _join_diagnostic(self.target, self.text, self.fix)


@dataclass(frozen=True)
class RunBegun(LogEvent):
    """`logist run` has opened the project."""

    name = "run_begun"
    jobs_dir: str
    parallel: int
    watch: bool

    def describe(self) -> str:
        how = "until it is stopped" if self.watch else "until none is ready"
        return f"run the ready jobs in {self.jobs_dir} {how}, at most {self.parallel} at the same time"


@dataclass(frozen=True)
class RunEnded(LogEvent):
    """`logist run` has ended."""

    name = "run_ended"
    jobs: int
    steps: int
    exit_code: int

    def describe(self) -> str:
        return f"ran {format_count(self.steps, 'step')} of {format_count(self.jobs, 'job')}"


@dataclass(frozen=True)
class JobsListed(LogEvent):
    """A run has looked for ready jobs. `ready` is the number that it lists, at most 100."""

    name = "jobs_listed"
    level = "debug"
    ready: int

    def describe(self) -> str:
        return f"ready jobs: {self.ready}" if self.ready else "no job is ready"


@dataclass(frozen=True)
class JobChosen(LogEvent):
    """A run begins a job. `others` is the number of those that it has listed behind it."""

    name = "job_chosen"
    rank: int
    created_at: str
    others: int

    def describe(self) -> str:
        after = f"ready jobs behind it: {self.others}" if self.others else "no other job is ready"
        return f"next, by rank ({self.rank}) and age (created {self.created_at}); {after}"


@dataclass(frozen=True)
class JobSkipped(LogEvent):
    """A run doesn't take a ready job."""

    name = "job_skipped"
    reason: str

    def describe(self) -> str:
        return f"skipped: {self.reason}"


@dataclass(frozen=True)
class JobRested(LogEvent):
    """A job of a run has come to rest: it has ended, or waits."""

    name = "job_rested"
    status: str | None
    exit_code: int
    error: str | None

    def describe(self) -> str:
        return f"rests: {self.error or self.status or 'busy'} (exit code {self.exit_code})"


@dataclass(frozen=True)
class JobWaits(LogEvent):
    """A job can't continue without a person or its provider; a run reports it when that is new."""

    name = "job_waits"
    status: str | None
    waits: str
    next_command: str | None

    def describe(self) -> str:
        return self.waits + (f" ({self.next_command})" if self.next_command else "")


@dataclass(frozen=True)
class AgentAsked(LogEvent):
    """A step asks an agent."""

    name = "agent_asked"
    interaction: int
    step: str | None
    phase: str
    role: str
    agent: str
    model: str

    def describe(self) -> str:
        return (
            f"interaction {self.interaction}: ask {self.role} as {self.phase} "
            f"(agent {self.agent}, model {self.model}{f', step {self.step}' if self.step else ''})"
        )


@dataclass(frozen=True)
class InteractionRecorded(LogEvent):
    """An entry was written to the history of a job. The cost is in millionths of a US cent."""

    name = "interaction_recorded"
    interaction: int
    kind: str
    before: str
    after: str
    reason: str | None
    cost_microcents: int
    input_tokens: int
    output_tokens: int
    seconds: float

    def describe(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        cost = f", ${self.cost_microcents / 100_000_000:.4f}" if self.cost_microcents else ""
        return (
            f"interaction {self.interaction} ({self.kind}) recorded: {self.before} -> {self.after}{cost}{why}"
        )


@dataclass(frozen=True)
class ProviderUnavailable(LogEvent):
    """A job waits for its provider, or for a budget."""

    name = "provider_unavailable"
    level = "warning"
    provider: str
    reason: str
    tries: int
    pause_seconds: float

    def describe(self) -> str:
        return f"{self.provider} is not available ({self.reason}); next try in {self.pause_seconds:.0f} s"


@dataclass(frozen=True)
class LockAwaited(LogEvent):
    """A command waits for the lock of a job."""

    name = "lock_awaited"
    is_printed = True
    holder: str

    def describe(self) -> str:
        return f"waiting for {self.holder}"


@dataclass(frozen=True)
class LockTaken(LogEvent):
    """A command holds the lock of a job."""

    name = "lock_taken"
    level = "debug"
    command: str
    waited_seconds: float

    def describe(self) -> str:
        after = f" after {self.waited_seconds:.1f} s" if self.waited_seconds >= 0.1 else ""
        return f"locked for {self.command}{after}"


@dataclass(frozen=True)
class GitBegun(LogEvent):
    """A git command begins."""

    name = "git_begun"
    level = "debug"
    git_dir: str
    arguments: list[str]

    def describe(self) -> str:
        return f"git --git-dir={self.git_dir} {' '.join(self.arguments)}"


@dataclass(frozen=True)
class ProgramBegun(LogEvent):
    """A command of `workspace.setup`, or of a check, begins in a workspace."""

    name = "program_begun"
    command: str

    def describe(self) -> str:
        return f"run in the workspace: {self.command}"


@dataclass(frozen=True)
class HookBegun(LogEvent):
    """A notification runs a command of `notify`."""

    name = "hook_begun"
    event: str
    command: str

    def describe(self) -> str:
        return f"notify about {self.event}: {self.command}"


@dataclass(frozen=True)
class StopRequested(LogEvent):
    """A signal asks the command to stop at the next safe point."""

    name = "stop_requested"
    level = "warning"
    signal: str

    def describe(self) -> str:
        return f"{self.signal}: stop at the next safe point"


def _join_diagnostic(target: str | None, text: str, fix: str | None) -> str:
    return f"{f'{target}: ' if target else ''}{text}{f' ({fix})' if fix else ''}"


EVENTS: tuple[type[LogEvent], ...] = tuple(LogEvent.__subclasses__())
"""Every event, in the order above."""
