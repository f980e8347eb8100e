"""Read the values of an answer in sections, or explain to a steward why that is impossible."""

from __future__ import annotations

from typing import Any

from logist.core.answer.exit_command import text_fault
from logist.core.model import JsonObject
from logist.core.sections import content
from logist.core.sections.outline import Name, Section, cut_sections, split_lines, unwrap_fence
from logist.core.sections.words import NextAction, SectionStatus, read_word
from logist.quick_dataclass import dataclass

DECIDED = frozenset({SectionStatus.BLOCKED, SectionStatus.FAILED})
"""A status that needs no next action: a person must decide in any case."""
OPEN_FENCE = "the answer ends inside a code fence: the closing fence is missing"
BROKEN_OFF = "the answer ends inside its metadata: the end of the JSON object is missing"


@dataclass(frozen=True)
class Sections:
    """The values of an answer, section by section."""

    status: SectionStatus
    next_action: NextAction | None = None
    """None only if the status alone decides."""
    reason: str = ""
    """The text after the next action, or else after the status."""
    summary: str = ""
    output: Any = None
    """A JSON value, or the text; None without an output."""
    metadata: JsonObject | None = None
    """The readable values: `confidence`, `suggested_tags`, `suggested_next_stage`, and other keys of the agent."""
    evidence: tuple[str, ...] = ()
    """Paths as the agent wrote them, not checked yet."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Missing:
    """A missing part; another way of cutting the answer may find it."""

    reason: str
    lacks_status: bool = False


def read_sections(text: str) -> Sections | str:
    """Return the sections of an answer, or the reason why they are not usable. Never raises."""
    if fault := text_fault(text):
        return fault
    lines = split_lines(text)
    result = _read_first_complete(lines)
    if isinstance(result, _Missing) and result.lacks_status and (inside := unwrap_fence(lines)):
        result = _read_first_complete(inside)
    return result.reason if isinstance(result, _Missing) else result


def _read_first_complete(lines: list[str]) -> Sections | str | _Missing:
    """Return the result of the first way of cutting in which nothing is missing, or else only the next action."""
    decided: Sections | None = None
    missing: list[_Missing] = []
    for sections in cut_sections(lines):
        named = _group_by_name(sections)
        result = _read_named(named) if isinstance(named, dict) else named
        if isinstance(result, _Missing):
            missing.append(result)
        elif isinstance(result, str) or result.next_action is not None:
            return result
        else:
            decided = decided or result
    return decided or next((one for one in missing if not one.lacks_status), missing[0])


def _group_by_name(sections: list[Section]) -> dict[Name, Section] | str | _Missing:
    """Return one section for each name, or a reason if two sections with the same name differ."""
    if sections[-1].open_fence and sections[-1].name != "metadata":
        return _Missing(OPEN_FENCE, lacks_status=all(section.name != "status" for section in sections))
    groups: dict[Name, list[Section]] = {}
    for section in sections:
        if section.name is not None:
            groups.setdefault(section.name, []).append(section)
    named: dict[Name, Section] = {}
    for name, group in groups.items():
        if name in ("status", "next action"):  # their words are compared, not their texts
            named[name] = Section(name, tuple(line for section in group for line in section.lines))
        elif len({section.text for section in group}) > 1:
            return f"the answer has two different `{name.title()}` sections; expected exactly one"
        else:
            named[name] = group[0]
    return named


def _read_named(named: dict[Name, Section]) -> Sections | str | _Missing:
    if "status" not in named:
        return _Missing("no sections: the answer has no `Status` heading", lacks_status=True)
    status = read_word(named["status"].text, SectionStatus, "Status")
    if isinstance(status, str):
        return status
    if "next action" not in named:
        if status[0] not in DECIDED:
            wanted = ", ".join(NextAction)
            return _Missing(
                f"no `Next Action`: {status[0]} alone does not decide what happens next; expected one of {wanted}"
            )
        return _read_values(named, status, None)
    action = read_word(named["next action"].text, NextAction, "Next Action")
    return action if isinstance(action, str) else _read_values(named, status, action)


def _read_values(
    named: dict[Name, Section], status: tuple[SectionStatus, str], action: tuple[NextAction, str] | None
) -> Sections | str:
    warnings: list[str] = []
    metadata: JsonObject = {}
    if "metadata" in named:
        metadata, warnings, broken_off = content.read_metadata(
            named["metadata"].text, open_fence=named["metadata"].open_fence
        )
        if broken_off:
            return BROKEN_OFF
    none = Section(None, ())
    output, more = content.read_output(named.get("output", none).text, named.get("output", none).head)
    if "summary" not in named:
        warnings.append("the answer has no `Summary`")
    return Sections(
        status=status[0],
        next_action=action[0] if action else None,
        reason=(action[1] if action else "") or status[1],
        summary=named.get("summary", none).text,
        output=output,
        metadata=metadata or None,
        evidence=tuple(content.read_evidence(named.get("evidence", none).text)),
        warnings=(*warnings, *more),
    )
