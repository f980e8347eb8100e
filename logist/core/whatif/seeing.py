"""What was observed of a recorded answer, as it would have been observed under other rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from logist.core.model import (
    EVERYTHING,
    CheckResult,
    EffectiveSpec,
    Evidence,
    Interaction,
    Observed,
    Permission,
    Permissions,
    Refusal,
    State,
)
from logist.core.model.commands import CollectCommand
from logist.core.permissions import permissions
from logist.core.permissions.tools import TOOLS
from logist.core.replay import replay_checks
from logist.core.review import get_checks
from logist.core.step.step import JudgedAnswer
from logist.core.whatif.rules import ChangedRules

DELETED = "deleted"


@dataclass(frozen=True)
class ObservedFacts:
    """What `conclude` is given besides the answer."""

    observed: Observed
    notes: tuple[str, ...] = ()
    cut_short: str = ""
    """The tool that would have been run, and was refused: what the agent would have answered is not recorded."""


def seen(rules: ChangedRules, spec: EffectiveSpec, entry: Interaction, answer: JudgedAnswer) -> ObservedFacts:
    """The same as recorded, but for what the rules say otherwise: refusals, checks, and evidence nobody looked for."""
    recorded = entry.observed or Observed()
    found = _with_permissions(rules, entry, recorded)
    observed = found.observed
    checks = [result for result in observed.checks if _is_on(spec, result)]
    if len(checks) != len(observed.checks):
        observed = observed.model_copy(update={"checks": checks})
    was_valid = bool(entry.response.actions)  # then all that it names was looked for
    named = () if was_valid or observed.refusals else answer.evidence_files
    unseen = [path for path in named if path not in {item.path for item in observed.evidence}]
    if not unseen:
        return ObservedFacts(observed, found.notes, found.cut_short)
    there = {change.path: change.kind != DELETED for change in observed.changes}
    more = [Evidence(path=path, exists=there.get(path, True)) for path in unseen]
    unknown = [path for path in unseen if path not in there]
    note = f"whether {', '.join(unknown)} was there is not recorded: taken as there"
    observed = observed.model_copy(update={"evidence": [*observed.evidence, *more]})
    return ObservedFacts(observed, (*found.notes, *([note] if unknown else [])), found.cut_short)


def _is_on(spec: EffectiveSpec, result: CheckResult) -> bool:
    check = get_checks(spec).get(result.check)
    return check is None or check.enabled


def _with_permissions(rules: ChangedRules, entry: Interaction, recorded: Observed) -> ObservedFacts:
    may = rules.permissions.get(recorded.role)
    if may is None or entry.simulated or may == _recorded(entry):
        return ObservedFacts(recorded)
    kept, lifted = _judged_again(recorded, may)
    tools = {refusal.tool for refusal in kept}
    refused = [*kept, *(one for one in _tools(entry, recorded, may) if one.tool not in tools)]
    breaches = [
        permissions.describe_breach(change, recorded.role, undone=True)
        for change in recorded.changes
        if permissions.is_forbidden(may, change)
    ]
    refusals = [*refused, *breaches]
    notes = _omitted(recorded, may)
    observed = recorded.model_copy(update={"refusals": refusals, "evidence": _evidence(recorded, refusals)})
    return ObservedFacts(observed, notes, "" if refusals else lifted)


def _recorded(entry: Interaction) -> Permissions:
    """What the role could do then; an earlier Logist does not say."""
    names = entry.request.metadata.get("permissions")
    known = {permission.value for permission in Permission}
    if not isinstance(names, list):
        return EVERYTHING
    return Permissions.from_names(str(name) for name in names if name in known)


def _judged_again(recorded: Observed, may: Permissions) -> tuple[list[Refusal], str]:
    """The refusals of tools that would be so again, and the first tool that would now be run.

    Those of changes in the workspace are left out: the changes themselves tell.
    """
    kept: list[Refusal] = []
    lifted = ""
    for refusal in recorded.refusals:
        if refusal.kind == "workspace":
            continue
        lacked = _permissions_of(refusal)
        still = may.find_missing(lacked)
        if lacked and not still:
            lifted = lifted or refusal.tool or "a tool"
        else:
            kept.append(
                permissions.tool_refusal(refusal.tool or "", recorded.role, still) if still else refusal
            )
    return kept, lifted


def _permissions_of(refusal: Refusal) -> tuple[Permission, ...]:
    known = {permission.value: permission for permission in Permission}
    return tuple(known[name] for name in refusal.missing if name in known)


def _tools(entry: Interaction, recorded: Observed, may: Permissions) -> Iterator[Refusal]:
    """The tools that were called and are not for the role."""
    for name in sorted(entry.response.tools):
        tool = TOOLS.get(name)
        missing = may.find_missing(tool.required_permissions) if tool else ()
        if missing:
            yield permissions.tool_refusal(name, recorded.role, missing)


def _evidence(recorded: Observed, refusals: list[Refusal]) -> list[Evidence]:
    """With what was undone then and would stay now."""
    if refusals or not any(refusal.kind == "workspace" for refusal in recorded.refusals):
        return list(recorded.evidence)
    there = {change.path for change in recorded.changes if change.kind != DELETED}
    return [
        item.model_copy(update={"exists": True}) if item.path in there else item for item in recorded.evidence
    ]


def _omitted(recorded: Observed, may: Permissions) -> tuple[str, ...]:
    if not recorded.changes_omitted or not permissions.list_forbidden_changes(may):
        return ()
    return (f"{recorded.changes_omitted} changes of the workspace are not recorded one by one",)


def gathered(
    spec: EffectiveSpec, own: State, command: CollectCommand
) -> tuple[CollectCommand, tuple[str, ...]]:
    """What a collect records where another share of the children has to succeed, with notes."""
    outcome, lack = replay_checks.gathered(spec, own, command)
    if outcome == command.gathered:
        return command, ()
    if lack:
        return command.model_copy(update={"gathered": outcome, "lack": lack}), ()
    note = "whether the work of the children fits is not recorded: taken so"
    return command.model_copy(update={"gathered": outcome, "lack": None}), (note,)
