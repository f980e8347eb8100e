"""Adapts what was observed of a recorded answer to other rules."""

from __future__ import annotations

from collections.abc import Iterator

from logist.core.model import (
    EVERYTHING,
    CheckResult,
    EffectiveSpec,
    Evidence,
    Interaction,
    Kind,
    Observed,
    Permission,
    Permissions,
    Refusal,
    State,
)
from logist.core.model.commands import AskCommand, CollectCommand
from logist.core.permissions import foreign_tools, permissions
from logist.core.permissions.tools import list_required_permissions
from logist.core.replay import replay_checks
from logist.core.review import get_checks
from logist.core.step.step import JudgedAnswer
from logist.core.whatif.rules import ChangedRules
from logist.core.whatif.told import RefusedCall
from logist.quick_dataclass import dataclass

DELETED = "deleted"


@dataclass(frozen=True)
class ObservedFacts:
    """The input of `conclude` besides the answer."""

    observed: Observed
    notes: tuple[str, ...] = ()
    cut_short: str = ""
    """A refused tool that would now run: what the agent would have answered is not recorded."""


def seen(rules: ChangedRules, spec: EffectiveSpec, entry: Interaction, answer: JudgedAnswer) -> ObservedFacts:
    """Return the recorded facts with what the rules change: refusals, checks, and evidence that was not
    checked.
    """
    recorded = entry.observed or Observed()
    found = _with_permissions(rules, entry, recorded)
    observed = found.observed
    checks = [result for result in observed.checks if _is_on(spec, result)]
    if len(checks) != len(observed.checks):
        observed = observed.model_copy(update={"checks": checks})
    was_valid = bool(entry.response.actions)  # then all named files were checked
    named = () if was_valid or observed.refusals else answer.evidence_files
    unseen = [path for path in named if path not in {item.path for item in observed.evidence}]
    if not unseen:
        return ObservedFacts(observed, found.notes, found.cut_short)
    there = {change.path: change.kind != DELETED for change in observed.changes}
    more = [Evidence(path=path, exists=there.get(path, True)) for path in unseen]
    unknown = [path for path in unseen if path not in there]
    note = f"not recorded whether the evidence {', '.join(unknown)} existed: assumed that it did"
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
    """Return the recorded permissions of the role; all of them if an earlier Logist did not record them."""
    names = entry.request.metadata.get("permissions")
    known = {permission.value for permission in Permission}
    if not isinstance(names, list):
        return EVERYTHING
    return Permissions.from_names(str(name) for name in names if name in known)


def _judged_again(recorded: Observed, may: Permissions) -> tuple[list[Refusal], str]:
    """Return the tool refusals that would happen again, and the first tool that would now run.

    Refused changes of the workspace are left out: they are judged from the changes themselves.
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
    """Yield a refusal for each called tool that the role may not use."""
    told: set[str] = set()
    for call in _refused_calls(entry, may):
        if call.tool not in told and (call.call is not None or list_required_permissions(call.tool)):
            told.add(call.tool)
            missing = tuple(Permission(name) for name in call.missing)
            yield permissions.tool_refusal(call.tool, recorded.role, missing)


def list_refused_calls(rules: ChangedRules, entry: Interaction) -> list[RefusedCall]:
    """List the tool calls of an answer that the changed permissions of its role would have refused."""
    if entry.kind is not Kind.ASK or entry.simulated:
        return []
    recorded = entry.observed or Observed()
    may = rules.permissions.get(recorded.role)
    if may is None or may == _recorded(entry):
        return []
    return list(_refused_calls(entry, may))


def _refused_calls(entry: Interaction, may: Permissions) -> Iterator[RefusedCall]:
    """Yield each call if the history has the calls (see `core.adoption`), else each tool."""
    calls = AskCommand.read(entry.command).calls
    if calls is not None:
        for call in calls:
            name, needs, arguments = call.get("name"), call.get("needs"), call.get("arguments")
            if not isinstance(name, str) or not isinstance(needs, list) or call.get("refused") is True:
                continue
            lacked = may.find_missing(each for each in Permission if each in needs)
            if lacked:
                what = arguments if isinstance(arguments, str) else ""
                yield RefusedCall(entry.sequence, name, what, 1, lacked)
        return
    refused = {refusal.tool for refusal in (entry.observed or Observed()).refusals}
    for name, count in sorted(entry.response.tools.items()):
        lacked = may.find_missing(foreign_tools.list_needs(name))
        if lacked and name not in refused:
            yield RefusedCall(
                entry.sequence, name, None, count if isinstance(count, int) and count > 0 else 1, lacked
            )


def _evidence(recorded: Observed, refusals: list[Refusal]) -> list[Evidence]:
    """Return the evidence; files that were undone then and would be kept now exist."""
    if refusals or not any(refusal.kind == "workspace" for refusal in recorded.refusals):
        return list(recorded.evidence)
    there = {change.path for change in recorded.changes if change.kind != DELETED}
    return [
        item.model_copy(update={"exists": True}) if item.path in there else item for item in recorded.evidence
    ]


def _omitted(recorded: Observed, may: Permissions) -> tuple[str, ...]:
    if not recorded.changes_omitted or not permissions.list_forbidden_changes(may):
        return ()
    return (f"workspace changes that are not recorded individually: {recorded.changes_omitted}",)


def gathered(
    spec: EffectiveSpec, own: State, command: CollectCommand
) -> tuple[CollectCommand, tuple[str, ...]]:
    """Return what a collect records if a different share of the children must succeed, with notes."""
    outcome, lack = replay_checks.gathered(spec, own, command)
    if outcome == command.gathered:
        return command, ()
    if lack:
        return command.model_copy(update={"gathered": outcome, "lack": lack}), ()
    note = "not recorded whether the work of the child jobs can be merged: assumed that it can"
    return command.model_copy(update={"gathered": outcome, "lack": None}), (note,)
