"""Reads an answer in sections into its values, or says in words for a steward why it can't."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from logist.core.answer.exit_command import unreadable
from logist.core.model import JsonObject
from logist.core.sections import content
from logist.core.sections.outline import Name, Section, cuts, lines_of, unwrapped
from logist.core.sections.words import NextAction, SectionStatus, word_of

DECIDED = frozenset({SectionStatus.BLOCKED, SectionStatus.FAILED})
"""What needs no next action: a person has to look, whatever it says."""
OPEN_FENCE = "the answer breaks off inside a code fence: its end is missing"
BROKEN_OFF = "the answer breaks off inside its metadata: the end of the JSON object is missing"


@dataclass(frozen=True, slots=True)
class Sections:
    """What an answer says, section by section."""

    status: SectionStatus
    next_action: NextAction | None = None
    """None only where the status alone decides."""
    reason: str = ""
    """What stands beside the next action, or else beside the status."""
    summary: str = ""
    output: Any = None
    """A JSON value, or the text; None without an output."""
    metadata: JsonObject | None = None
    """The readable values: `confidence`, `suggested_tags`, `suggested_next_stage`, and the agent's own."""
    evidence: tuple[str, ...] = ()
    """Paths as the agent wrote them; nobody has checked them yet."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Missing:
    """A part without which this way of cutting says nothing; another way may find it."""

    reason: str
    lacks_status: bool = False


def read(text: str) -> Sections | str:
    """The sections of an answer, or the reason why it has none that can be acted on. Never raises."""
    if fault := unreadable(text):
        return fault
    lines = lines_of(text)
    found = _first_whole(lines)
    if isinstance(found, _Missing) and found.lacks_status and (inside := unwrapped(lines)):
        found = _first_whole(inside)
    return found.reason if isinstance(found, _Missing) else found


def _first_whole(lines: list[str]) -> Sections | str | _Missing:
    """By the first way of cutting in which nothing is missing, else in which only the next action is."""
    decided: Sections | None = None
    missing: list[_Missing] = []
    for sections in cuts(lines):
        named = _by_name(sections)
        found = _read(named) if isinstance(named, dict) else named
        if isinstance(found, _Missing):
            missing.append(found)
        elif isinstance(found, str) or found.next_action is not None:
            return found
        else:
            decided = decided or found
    return decided or next((one for one in missing if not one.lacks_status), missing[0])


def _by_name(sections: list[Section]) -> dict[Name, Section] | str | _Missing:
    """One section a name; a reason where two of a name differ."""
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


def _read(named: dict[Name, Section]) -> Sections | str | _Missing:
    if "status" not in named:
        return _Missing("no sections: the answer has no `Status` heading", lacks_status=True)
    status = word_of(named["status"].text, SectionStatus, "Status")
    if isinstance(status, str):
        return status
    if "next action" not in named:
        if status[0] not in DECIDED:
            wanted = ", ".join(NextAction)
            return _Missing(
                f"no `Next Action`: {status[0]} alone does not say what comes next; expected one of {wanted}"
            )
        return _values(named, status, None)
    action = word_of(named["next action"].text, NextAction, "Next Action")
    return action if isinstance(action, str) else _values(named, status, action)


def _values(
    named: dict[Name, Section], status: tuple[SectionStatus, str], action: tuple[NextAction, str] | None
) -> Sections | str:
    warnings: list[str] = []
    metadata: JsonObject = {}
    if "metadata" in named:
        metadata, warnings, broken_off = content.metadata(
            named["metadata"].text, open_fence=named["metadata"].open_fence
        )
        if broken_off:
            return BROKEN_OFF
    none = Section(None, ())
    output, more = content.output(named.get("output", none).text, named.get("output", none).head)
    if "summary" not in named:
        warnings.append("the answer has no `Summary`")
    return Sections(
        status=status[0],
        next_action=action[0] if action else None,
        reason=(action[1] if action else "") or status[1],
        summary=named.get("summary", none).text,
        output=output,
        metadata=metadata or None,
        evidence=tuple(content.evidence(named.get("evidence", none).text)),
        warnings=(*warnings, *more),
    )
