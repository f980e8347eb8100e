"""The result of a command on a job."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from logist.core.machine.predecessors import advise_unmet
from logist.core.machine.steward import next_command
from logist.core.text.counts import format_count
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    from logist.core.machine.predecessors import Unmet
    from logist.core.model import Interaction, State
    from logist.store.provider_wait import ProviderWait


@dataclass(frozen=True)
class CommandResult:
    """The state of a job after a command, and what the command recorded."""

    job_id: str
    state: State
    entries: tuple[Interaction, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    exit_code: int = field(default=0)
    before: State | None = None
    """The current state in a dry run, where `state` is what would follow."""

    wait: ProviderWait | None = None
    """The wait for a provider that is not available; None if the job does not wait for one."""

    unmet: tuple[Unmet, ...] = ()
    """The predecessors that the job waits for before it begins."""

    @property
    def next_command(self) -> str:
        if self.unmet:
            return advise_unmet(self.job_id, self.state.after or (), self.unmet)
        return next_command(self.before or self.state, self.job_id)

    def __repr__(self) -> str:
        recorded = f"{format_count(len(self.entries), 'interaction')} recorded"
        return f"<CommandResult {self.job_id}: {self.state.status}, {recorded}, exit code {self.exit_code}>"
