"""What a config and its roles want to run that Logist runs only on Linux, and what to change on another system.

Only Linux has the system calls with which Logist ends all processes of a command. So on other systems, what needs a command is refused, before
anything is paid.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from logist import systems
from logist.agents.protocol import MODEL_AGENTS
from logist.core import review
from logist.errors import Refused
from logist.jobs.base import specs
from logist.quick_tuple import NamedTuple

if TYPE_CHECKING:
    from logist.config.settings import Settings
    from logist.core.model import EffectiveSpec, Role

EXPLANATION = "commands and agent programs run only on Linux"
FIX = "use Linux, for example in a virtual machine, or only roles and settings without commands: docs/installation.md"
_PERMISSIONS = ("read_files", "write_files", "create_files", "delete_files")


class LinuxNeed(NamedTuple):
    """Something that needs Linux."""

    what: str
    fix: str
    """What to change to do without it."""


def list_role_needs(role: Role, agent: str) -> Iterator[LinuxNeed]:
    """Yield what needs Linux if this agent works in this role."""
    if agent not in MODEL_AGENTS:
        what = f"the role `{role.name}` works with the agent program `{agent}`"
        fix = f"logist role set {role.name} agent model" if role.agent else "logist config set agent model"
        yield LinuxNeed(what, fix)
    if role.permissions.can_execute_commands:
        kept = [name for name in _PERMISSIONS if getattr(role.permissions, f"can_{name}")]
        value = shlex.quote(f"[{', '.join(kept)}]")
        what = f"the role `{role.name}` may run commands"
        yield LinuxNeed(what, f"logist role set {role.name} permissions {value}")
    if role.mcp_servers:
        what = f"the role `{role.name}` has MCP servers"
        yield LinuxNeed(what, f"logist role set {role.name} mcp_servers null")


def list_check_needs(settings: Settings, spec: EffectiveSpec | None = None) -> Iterator[LinuxNeed]:
    """Yield the checks whose commands Logist would run; with a spec, those of its job."""
    for name, check in specs.list_configured_checks(settings).items():
        of_job = check if spec is None else review.get_checks(spec).get(name)
        if review.is_run_by_logist(check) and of_job is not None and review.is_run_by_logist(of_job):
            fix = f"logist config set review.checks.{name}.enabled false"
            yield LinuxNeed(f"the check `{name}` runs a command", fix)


def list_setup_needs(settings: Settings) -> Iterator[LinuxNeed]:
    """Yield the setup of workspaces, if it runs commands."""
    if settings.workspace.setup.commands:
        yield LinuxNeed("`workspace.setup` runs commands", "logist config set workspace.setup null")


def build_refusal(needs: Sequence[LinuxNeed]) -> Refused:
    """Return the error for what needs Linux, with all changes that would make it unnecessary."""
    what = "; ".join(need.what for need in needs)
    fix = "use Linux, for example in a virtual machine, or run: " + " && ".join(
        dict.fromkeys(need.fix for need in needs)
    )
    return Refused(f"commands and agent programs run only on Linux: {what}", fix=fix)


def require_linux(needs: Iterable[LinuxNeed]) -> None:
    """Raise Refused on another system if anything needs Linux."""
    if not systems.IS_LINUX and (listed := list(dict.fromkeys(needs))):
        raise build_refusal(listed)
