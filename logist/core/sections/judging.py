"""Turn an answer in sections into an exit command, with the same rules as for one in JSON."""

from __future__ import annotations

import json
import re

from logist.core.answer import answer_faults
from logist.core.answer.exit_command import ExitCommand, Verdict, normalize_path
from logist.core.model import ExitAction, JsonObject
from logist.core.sections.reading import Sections, read_sections
from logist.core.sections.words import NextAction, SectionStatus

ACTIONS: dict[tuple[SectionStatus, NextAction], ExitAction] = {
    (SectionStatus.SUCCESS, NextAction.COMPLETE): ExitAction.COMPLETED,
    (SectionStatus.PARTIAL, NextAction.COMPLETE): ExitAction.COMPLETED,
    (SectionStatus.SUCCESS, NextAction.CONTINUE): ExitAction.COMPLETED,
    (SectionStatus.PARTIAL, NextAction.CONTINUE): ExitAction.RETRY,
}
"""All other combinations are STUCK."""

LONGEST_REASON = 300
"""If an answer has no summary, this many characters of the reason are used instead."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_FIELDS = (("`summary_for_supervisor`", "`Summary`"), ("`evidence_files", "`Evidence"))


LONGEST_STATED = 1_000
"""People and the next agent see this many characters of the reason; the metadata contains all of it."""


def get_stated_reason(metadata: JsonObject | None) -> str | None:
    """Return why the agent stops: the text after its next action or status; None if there is none."""
    fields = metadata or {}
    reason, next_action = fields.get("reason"), fields.get("next_action")
    word = fields.get("status") if next_action in (None, NextAction.COMPLETE) else next_action
    if not isinstance(reason, str) or not isinstance(word, str) or not reason.strip():
        return None
    text = f"{word}: {' '.join(reason.split())}"
    return text if len(text) <= LONGEST_STATED else f"{text[: LONGEST_STATED - 3]}..."


def combine_action(sections: Sections) -> ExitAction:
    """Return the action for a status and a next action."""
    if sections.next_action is None:
        return ExitAction.STUCK
    return ACTIONS.get((sections.status, sections.next_action), ExitAction.STUCK)


def judge_sections(text: str, schema: JsonObject) -> Verdict:
    """Return the verdict on an answer in sections. `schema` is llm-chat-schema.json, parsed. Never raises.

    `metadata` contains the rest of the answer: `status`, `next_action` and `reason` (each may be None or empty),
    and the answer's own metadata (`confidence`, `suggested_tags`, `suggested_next_stage`, other keys).
    """
    sections = read_sections(text)
    if isinstance(sections, str):
        return Verdict(reason=sections)
    details = {"status": sections.status, "next_action": sections.next_action, "reason": sections.reason}
    response: JsonObject = {
        "action": combine_action(sections),
        "evidence_files": list(sections.evidence),
        "summary_for_supervisor": sections.summary or sections.reason[:LONGEST_REASON],
        "output": sections.output,
        "metadata": {**(sections.metadata or {}), **details},
    }
    if fault := _explain_invalid(response, schema):
        return Verdict(reason=fault)
    return Verdict(
        _make_command(response), warnings=(*sections.warnings, *_warn_of_respelled_paths(sections))
    )


def _explain_invalid(response: JsonObject, schema: JsonObject) -> str:
    """Return why the response does not match the schema, with the names that the agent used; empty if it matches."""
    if _SURROGATE.search(json.dumps(response, ensure_ascii=False)):
        return "the answer is not valid Unicode text: its JSON contains lone surrogates"
    fault = "; ".join(answer_faults.find_schema_faults({"response": response}, schema))
    for field, name in _FIELDS:
        fault = fault.replace(field, name)
    return fault


def _make_command(response: JsonObject) -> ExitCommand:
    metadata = {
        key: str(value) if isinstance(value, SectionStatus | NextAction) else value
        for key, value in response["metadata"].items()
    }
    return ExitCommand(
        action=ExitAction(response["action"]),
        evidence_files=tuple(normalize_path(path) for path in response["evidence_files"]),
        summary=response["summary_for_supervisor"],
        output=response["output"],
        metadata=metadata,
    )


def _warn_of_respelled_paths(sections: Sections) -> list[str]:
    shown = answer_faults.describe_value
    return [
        f"evidence {shown(path)} is read as {shown(normalize_path(path))}"
        for path in sections.evidence
        if path != normalize_path(path)
    ]
