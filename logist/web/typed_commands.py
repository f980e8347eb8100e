"""The command for a decision, where a person has to type it because the page can't sign it."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from logist.core.machine import advice
from logist.core.machine.predecessors import Unmet, build_drop_command
from logist.jobs.base.project import ProjectContext
from logist.jobs.steward.inbox_decisions import CARRIER, DecisionChoice, Input, find_gated_tool
from logist.jobs.steward.signed_decisions import NotSigned
from logist.web.job_view import JobHead


def are_decisions_signed(project: ProjectContext) -> bool:
    """Whether decisions of this project are signed, or approvals must be."""
    return project.settings.steward.sign is not None or project.settings.steward.require is not None


def build_decision_command(head: JobHead, choice: DecisionChoice, entered: str, seen: str | None) -> str:
    """Return what makes the same decision in a terminal: one command, or two with `&&`."""
    entered = entered.strip()
    match choice.name:
        case "carry_out":
            return f"{_join(head, ['role', CARRIER])} && {_join(head, ['approve'])}"
        case "switch":
            return f"{_join(head, ['role', entered])} && {_join(head, ['resubmit'])}"
        case "drop_failed":
            unmet = [Unmet(**each) for each in head.row["waits_for"]]
            return build_drop_command(head.id, head.state.after or (), unmet)
        case "raise_limit":
            name = advice.LIMITS[head.state.status].partition("=")[0]
            config = _join(head, ["config", "--set", f"limits.{name}={entered}"])
            return f"{config} && {_join(head, ['resume'])}"
    name = _NAMES.get(choice.name, choice.name)
    return _join(head, [name, *_list_options(head, choice, entered, seen)])


_NAMES = {
    "override": "approve",
    **dict.fromkeys(("review", "force", "respawn", "resubmit_at", "allow"), "resubmit"),
}
"""The commands for decisions with other names."""


def _list_options(head: JobHead, choice: DecisionChoice, entered: str, seen: str | None) -> list[str]:
    given: dict[str, str | None] = {}
    if choice.name in ("approve", "override"):
        given["--seen"] = seen
    if choice.name in ("review", "force"):
        return [f"--{choice.name}"]
    if choice.input is Input.PAID:
        return ["--retry" if entered == "retry" else "--assume-paid"]
    options = {"override": "--override", "resubmit_at": "--to"}
    field = "--output" if choice.input is Input.OUTPUT else options.get(choice.name, "--note")
    given[field] = entered or None
    if choice.name == "respawn":
        given["--to"] = head.state.step
    if choice.name == "allow":
        given["--allow"] = find_gated_tool(head.state)
    return [word for name, value in given.items() if value for word in (name, value)]


def require_signer(project: ProjectContext) -> None:
    """Raise NotSigned if the person's decisions would have to be signed with the key of somebody else.

    `sign_decision` does that too, but some decisions do something else first, such as stopping an agent.
    """
    if are_decisions_signed(project) and not project.may_sign:
        fix = "decide in a terminal, as the user with that key"
        raise NotSigned(f"can't sign the decision: the key is not that of {project.steward}", fix=fix)


def build_command(head: JobHead, name: str, note: str) -> str:
    """Return the command for a decision that takes nothing but a note."""
    if name == "note":
        return f"logist inbox note --job {quote(head.id)} {quote(note.strip())}"
    return _join(head, [name, *(("--note", note.strip()) if note.strip() else ())])


def _join(head: JobHead, words: Sequence[str]) -> str:
    name, *options = words
    return " ".join(["logist job", name, "--job", quote(head.id), *map(quote, options)])
