"""What an attestation says of a job: an in-toto Statement, with what the history proves about how the work was made.

The same history always gives the same statement. Source: in-toto Attestation Framework, Statement v1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from logist.core.model import Actor, Interaction, JsonObject, Kind
from logist.core.model.commands import MergeCommand, RecordedCommand
from logist.core.money import amounts
from logist.quick_tuple import NamedTuple

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:logist:job:v1"
_SHA1_DIGITS, _SHA256_DIGITS = 40, 64
_HEX = frozenset("0123456789abcdef")


class NotAStatement(ValueError):
    """A document is not a statement about a job; the text says why."""


class AttestedHistory(NamedTuple):
    """What a statement says about the history of a job: so many interactions, and the checksum of the last one."""

    job: str
    interactions: int
    head: str
    """The checksum covers all interactions before, because each names that of the one before it."""
    commit: str | None
    """The commit with which the work was merged, if it was."""


def build_statement(job: str, history: Iterable[Interaction]) -> JsonObject:
    """Return the statement about a job. Raises NotAStatement for a history without checksums, or without interactions."""
    agents = Counter[tuple[str, str, str, str]]()
    checks: dict[str, JsonObject] = {}
    decisions: list[JsonObject] = []
    first = last = merged = None
    workflow, microcents, by_hand = None, 0, 0
    for entry in history:
        first, last = first or entry, entry
        microcents += amounts.join_cents(entry.usage.cost_cents, entry.usage.cost_microcents)
        if entry.spec is not None and entry.spec.workflow is not None:
            workflow = entry.spec.workflow.name
        if entry.kind == Kind.ASK:
            metadata = entry.request.metadata
            names = (metadata.get(name) or "" for name in ("role", "provider_model", "agent"))
            role, model, agent = map(str, names)
            agents[role, str(entry.observed.phase if entry.observed else ""), model, agent] += 1
            by_hand += entry.simulated
            for check in entry.observed.checks if entry.observed else ():
                checks[check.check] = {
                    "name": check.check,
                    "severity": check.severity,
                    "outcome": check.outcome,
                    "interaction": entry.sequence,
                }
        if entry.actor == Actor.STEWARD:
            decisions.append(_describe_decision(entry))
        if entry.kind == Kind.MERGE:
            merged = MergeCommand.read(entry.command)
    if first is None or last is None or not _is_hex(last.checksum, _SHA256_DIGITS):
        raise NotAStatement("the history has no checksums, so nothing about it can be proven")
    predicate: JsonObject = {
        "job": job,
        "history": {
            "interactions": last.sequence,
            "first": {"checksum": first.checksum, "timestamp": first.timestamp},
            "last": {"checksum": last.checksum, "timestamp": last.timestamp},
        },
        "status": last.state_after,
        "workflow": workflow,
        "agents": [
            {"role": role, "phase": phase, "model": model, "agent": agent, "runs": runs}
            for (role, phase, model, agent), runs in sorted(agents.items())
        ],
        "answers_by_hand": by_hand,
        "checks": [checks[name] for name in sorted(checks)],
        "decisions": decisions,
        "cost_microcents": microcents,
        "merge": None,
    }
    subjects: list[JsonObject] = [{"name": f"logist:{job}", "digest": {"sha256": last.checksum}}]
    if merged is not None and merged.commit:
        predicate["merge"] = {"commit": merged.commit, "into": merged.into, "how": merged.merge}
        subjects.append({"name": "commit", "digest": {"gitCommit": merged.commit}})
    return {
        "_type": STATEMENT_TYPE,
        "subject": subjects,
        "predicateType": PREDICATE_TYPE,
        "predicate": predicate,
    }


def _describe_decision(entry: Interaction) -> JsonObject:
    described: JsonObject = {
        "interaction": entry.sequence,
        "kind": entry.kind,
        "timestamp": entry.timestamp,
        "steward": entry.steward.name if entry.steward is not None else None,
        "via": entry.steward.via if entry.steward is not None else None,
        "signed": RecordedCommand.read(entry.command).signature is not None,
    }
    if entry.kind == Kind.APPROVE:
        described["override"] = bool(entry.command.get("override"))
    return described


def read_statement(statement: Any) -> AttestedHistory:
    """Return what a statement says about a history. Raises NotAStatement."""
    if not isinstance(statement, dict) or statement.get("_type") != STATEMENT_TYPE:
        raise NotAStatement("not an in-toto statement")
    if statement.get("predicateType") != PREDICATE_TYPE:
        raise NotAStatement(f"a statement of another type: {statement.get('predicateType')}")
    try:
        predicate, subjects = statement["predicate"], statement["subject"]
        history, job = predicate["history"], predicate["job"]
        count, head = history["interactions"], history["last"]["checksum"]
        merge = predicate["merge"]
        commit = None if merge is None else merge["commit"]
        digests = [subject["digest"] for subject in subjects]
    except (KeyError, TypeError) as error:
        raise NotAStatement(f"a part of the statement is missing: {error}") from error
    is_complete = (
        isinstance(job, str)
        and type(count) is int
        and count > 0
        and _is_hex(head, _SHA256_DIGITS)
        and (commit is None or _is_hex(commit, _SHA1_DIGITS) or _is_hex(commit, _SHA256_DIGITS))
    )
    # Other tools read only the subjects, so these must say the same.
    wanted = [{"sha256": head}, *([] if commit is None else [{"gitCommit": commit}])]
    if not is_complete or digests != wanted:
        raise NotAStatement("the subject and the predicate of the statement don't fit together")
    return AttestedHistory(job, count, head, commit)


def _is_hex(text: Any, digits: int) -> bool:
    return isinstance(text, str) and len(text) == digits and set(text) <= _HEX
