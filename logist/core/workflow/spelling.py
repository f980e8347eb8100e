"""How the fields of a step may be spelled: one name each in Logist, other names in files of other programs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from logist.core.model import JsonObject
from logist.quick_dataclass import dataclass

FIELDS = (
    "id",
    "name",
    "stepType",
    "execution",
    "description",
    "prompt",
    "agentRole",
    "guidance",
    "role",
    "model",
    "review",
    "reviewRole",
    "confirm",
    "start",
    "next",
    "branches",
    "defaultBranch",
    "itemsPath",
    "itemVariable",
    "indexVariable",
    "numberVariable",
    "maxItems",
    "itemLimits",
    "minSuccessPercent",
    "awaitTag",
    "subflowId",
    "inputMapping",
    "responseFormat",
    "confidence",
    "when",
    "maxVisits",
    "rounds",
    "asksAfter",
    "external",
)
"""Every field of a step, as it is written by Logist."""

_OTHERS = {
    "title": "name",
    "subflow": "subflowId",
    "defaultAssigneeId": "role",
    "assignee": "role",
    "requireConfirmation": "confirm",
    "runCondition": "when",
}
LIMITS = ("costThreshold", "timeThresholdMinutes", "maxAllowedIterations", "maxAttempts")
"""The fields of `itemLimits`."""
_BRANCH = {"condition": "condition", "targetStepId": "targetStepId", "to": "targetStepId"}


def _to_snake_case(name: str) -> str:
    return re.sub(r"([A-Z])", lambda match: "_" + match[1].lower(), name)


SPELLINGS: Mapping[str, str] = {
    written: name
    for name in (*FIELDS, *_OTHERS)
    for written, name in ((name, _OTHERS.get(name, name)), (_to_snake_case(name), _OTHERS.get(name, name)))
}
"""Each allowed spelling, and the field it means."""
BRANCH_SPELLINGS: Mapping[str, str] = {
    spelled: name for written, name in _BRANCH.items() for spelled in (written, _to_snake_case(written))
}
LIMIT_FIELDS: Mapping[str, str] = {_to_snake_case(name): name for name in LIMITS}
LIMIT_SPELLINGS: Mapping[str, str] = {
    spelled: name for field, name in LIMIT_FIELDS.items() for spelled in (name, field)
}


@dataclass(frozen=True)
class Spelled:
    """A mapping with its known keys under the names of their fields, and the other keys apart."""

    known: JsonObject = field(default_factory=dict)
    others: JsonObject = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    """How each known field is spelled there."""
    twice: tuple[str, ...] = ()
    """Fields that are written in two spellings; the first one applies."""


def normalize_keys(data: Mapping[str, object], table: Mapping[str, str] = SPELLINGS) -> Spelled:
    """Return the mapping in Logist's own spelling."""
    normalized = Spelled()
    twice = []
    for key, value in data.items():
        name = table.get(key)
        if name is None:
            normalized.others[key] = value
        elif name in normalized.known:
            twice.append(name)
        else:
            normalized.known[name] = value
            normalized.written[name] = key
    return Spelled(normalized.known, normalized.others, normalized.written, tuple(twice))


def list_spellings(name: str) -> list[str]:
    """Return every way to write a field, Logist's own first."""
    return [name, *(written for written, field_name in SPELLINGS.items() if field_name == name != written)]
