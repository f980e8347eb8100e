"""Turns an answer in sections into an exit command, by the same rules as one given as JSON."""

from __future__ import annotations

import json
import re

from logist.core.answer import answer_faults
from logist.core.answer.exit_command import ExitCommand, Verdict, plain_path
from logist.core.model import ExitAction, JsonObject
from logist.core.sections.reading import Sections, read
from logist.core.sections.words import NextAction, SectionStatus

ACTIONS: dict[tuple[SectionStatus, NextAction], ExitAction] = {
    (SectionStatus.SUCCESS, NextAction.COMPLETE): ExitAction.COMPLETED,
    (SectionStatus.PARTIAL, NextAction.COMPLETE): ExitAction.COMPLETED,
    (SectionStatus.SUCCESS, NextAction.CONTINUE): ExitAction.COMPLETED,
    (SectionStatus.PARTIAL, NextAction.CONTINUE): ExitAction.RETRY,
}
"""Everything else is STUCK."""

LONGEST_REASON = 300
"""Characters of the reason that stand for a summary, where an answer has none."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_FIELDS = (("`summary_for_supervisor`", "`Summary`"), ("`evidence_files", "`Evidence"))


LONGEST_STATED = 1_000
"""Characters of the reason as people and the next agent see it; the whole of it is in the metadata."""


def stated_reason(metadata: JsonObject | None) -> str | None:
    """Why the agent stops, as an answer in sections says beside its next action or status; None if it doesn't."""
    said = metadata or {}
    reason, next_action = said.get("reason"), said.get("next_action")
    word = said.get("status") if next_action in (None, NextAction.COMPLETE) else next_action
    if not isinstance(reason, str) or not isinstance(word, str) or not reason.strip():
        return None
    text = f"{word}: {' '.join(reason.split())}"
    return text if len(text) <= LONGEST_STATED else f"{text[: LONGEST_STATED - 3]}..."


def action(sections: Sections) -> ExitAction:
    """What status and next action mean together."""
    if sections.next_action is None:
        return ExitAction.STUCK
    return ACTIONS.get((sections.status, sections.next_action), ExitAction.STUCK)


def judged(text: str, schema: JsonObject) -> Verdict:
    """What an answer in sections says. `schema` is llm-chat-schema.json, parsed. Never raises.

    `metadata` keeps what else it said: `status`, `next_action` and `reason` (each may be None or empty),
    and what its metadata holds (`confidence`, `suggested_tags`, `suggested_next_stage`, the agent's own).
    """
    found = read(text)
    if isinstance(found, str):
        return Verdict(reason=found)
    said = {"status": found.status, "next_action": found.next_action, "reason": found.reason}
    response: JsonObject = {
        "action": action(found),
        "evidence_files": list(found.evidence),
        "summary_for_supervisor": found.summary or found.reason[:LONGEST_REASON],
        "output": found.output,
        "metadata": {**(found.metadata or {}), **said},
    }
    if fault := _invalid(response, schema):
        return Verdict(reason=fault)
    return Verdict(_command(response), warnings=(*found.warnings, *_respelled(found)))


def _invalid(response: JsonObject, schema: JsonObject) -> str:
    """Why the response is not valid by the schema, in the names that the agent used."""
    if _SURROGATE.search(json.dumps(response, ensure_ascii=False)):
        return "the answer is not valid Unicode text: its JSON has lone surrogates"
    fault = "; ".join(answer_faults.faults({"response": response}, schema))
    for field, name in _FIELDS:
        fault = fault.replace(field, name)
    return fault


def _command(response: JsonObject) -> ExitCommand:
    metadata = {
        key: str(value) if isinstance(value, SectionStatus | NextAction) else value
        for key, value in response["metadata"].items()
    }
    return ExitCommand(
        action=ExitAction(response["action"]),
        evidence_files=tuple(plain_path(path) for path in response["evidence_files"]),
        summary=response["summary_for_supervisor"],
        output=response["output"],
        metadata=metadata,
    )


def _respelled(sections: Sections) -> list[str]:
    shown = answer_faults.shown
    return [
        f"evidence {shown(path)} is read as {shown(plain_path(path))}"
        for path in sections.evidence
        if path != plain_path(path)
    ]
