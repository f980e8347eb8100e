"""A difference that a replay detects: a field whose value is different today, with the cause."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from logist import __version__
from logist.core.machine.rules import has_newer_rules
from logist.core.model import Interaction, JsonObject
from logist.core.replay.drift_causes import schema_hash
from logist.quick_dataclass import dataclass

LONGEST = 4_000
"""Characters to keep of a value; a longer one is cut around the first difference."""
BEFORE = 40
"""Characters to keep before the first difference."""
SHOWN = 160
"""Characters of a value to print on a line."""
LINES = 4
"""Lines of a value to print."""

ANSWER = "the rules for the exit command judge this answer differently"
_CAUSES = {
    "state_before": "the earlier interactions now lead to another state",
    "review": "the review rules give another verdict or other findings",
    "route": "the decisions of the workflow take other branches",
    "unsure": "the rules for when a steward must confirm an answer give a different result",
    "limit": "the job would have halted before this call: a limit is reached, or the usage is counted differently",
    "step": "the earlier interactions now lead to another step",
    "role": "the rules for the next agent select another role",
    "refusals": "the permission rules forbid other changes of the workspace",
    "results": "an answer supplied by hand in place of child jobs is read differently",
    "children": "the step would get a different number of child jobs",
    "merge": "the rules for automatic merging give a different result",
    "gathered": "the rules for how many child jobs must succeed give a different result",
}
_ABSENT = object()


@dataclass(frozen=True)
class Difference:
    """One field whose value today differs from the recorded one."""

    sequence: int
    field: str
    recorded: str
    today: str
    cause: str


def build_difference(
    entry: Interaction, field: str, recorded: object, today: object, cause: str
) -> Difference:
    """Build a difference with both values as text: strings as they are, everything else as JSON."""
    return Difference(
        entry.sequence, field, *_cut_around_difference(_to_text(recorded), _to_text(today), LONGEST), cause
    )


def explain_cause(
    entry: Interaction, field: str, schema: JsonObject, *, judged: bool = False, reason: str = ""
) -> str:
    """Explain which rule leads to a different result, and what has changed since, if the request records it.

    `judged`: the answer itself is read differently, and `reason` is the current reason.
    """
    rule = ANSWER if judged or field.startswith("response.") else _CAUSES.get(field, "")
    explanation = f"{rule or 'the rules of the state machine lead to another state'}{_describe_changes_since(entry, schema)}"
    return f"{explanation}: {reason}" if judged and reason and reason != entry.reason else explanation


def _describe_changes_since(entry: Interaction, schema: JsonObject) -> str:
    then, version = (entry.request.metadata.get(name) for name in ("schema", "logist"))
    changes = []
    if isinstance(then, str) and then != (now := schema_hash(schema)):
        changes.append(f"llm-chat-schema.json has changed: it was {then[:8]}, now it is {now[:8]}")
    if isinstance(version, str) and version != __version__:
        changes.append(f"recorded by Logist {version[:20]}, replayed by {__version__}")
    if has_newer_rules(entry):
        changes.append("judged by a rule that only a newer Logist has")
    return f" ({'; '.join(changes)})" if changes else ""


def format_difference(found: Difference) -> Iterator[str]:
    """Format the difference for a person: the field, the recorded and the current value, and the cause."""
    yield f"interaction {found.sequence}: {found.field}"
    yield from (f"  {line}" for line in format_sides(found))
    yield f"  cause     {found.cause}"


def format_sides(found: Difference) -> Iterator[str]:
    """Format the recorded and the current value."""
    recorded, today = _select_differing(found.recorded, found.today)
    yield from _format_side("recorded", recorded)
    yield from _format_side("today", today)


def _format_side(name: str, shown: list[str]) -> Iterator[str]:
    for number, line in enumerate(shown):
        yield f"{'' if number else name:<9} {line}"


def _select_differing(recorded: str, today: str) -> tuple[list[str], list[str]]:
    """Return both values, reduced to the parts that differ."""
    if leaves := _find_differing_leaves(recorded, today):
        ours, theirs = (", ".join(f"{path} {side[n]}" for path, *side in leaves) for n in (0, 1))
        return [_shorten_text(ours)], [_shorten_text(theirs)]
    if "\n" not in recorded + today:
        first, second = _cut_around_difference(recorded, today, SHOWN)
        return [first or '""'], [second or '""']
    return _select_own_lines(recorded, today), _select_own_lines(today, recorded)


def _select_own_lines(text: str, other: str) -> list[str]:
    """Return the first few lines of a text from where it differs from the other one."""
    pairs = list(zip_longest(text.split("\n"), other.split("\n")))
    start = next((n for n, (own, its) in enumerate(pairs) if own != its), 0)
    shown = [_shorten_text(own) for own, _ in pairs[start : start + LINES] if own is not None]
    return [f"line {start + 1}:", *shown, *(["..."] if len(text.split("\n")) > start + LINES else [])]


def _find_differing_leaves(recorded: str, today: str) -> list[tuple[str, str, str]]:
    """Return the differing members of two JSON objects: the path, and both values."""
    try:
        first, second = json.loads(recorded), json.loads(today)
        if isinstance(first, dict) and isinstance(second, dict):
            return [*_compare_leaves("", first, second)]
    except (ValueError, RecursionError):
        pass
    return []


def _compare_leaves(path: str, first: Any, second: Any) -> Iterator[tuple[str, str, str]]:
    if isinstance(first, dict) and isinstance(second, dict):
        for name in {**first, **second}:
            member_path = f"{path}.{name}" if path else str(name)
            yield from _compare_leaves(member_path, first.get(name, _ABSENT), second.get(name, _ABSENT))
    elif first != second:
        one, other = ("none" if side is _ABSENT else _to_text(side) for side in (first, second))
        yield path, *_cut_around_difference(one, other, SHOWN)


def _to_text(value: object) -> str:
    return str(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut_around_difference(first: str, second: str, longest: int) -> tuple[str, str]:
    """Cut both texts to `longest` characters around the first difference."""
    if max(len(first), len(second)) <= longest:
        return first, second
    pairs = enumerate(zip(first, second, strict=False))
    first_difference = next((n for n, (one, other) in pairs if one != other), min(len(first), len(second)))
    start = max(0, first_difference - BEFORE)
    lead = "..." if start else ""
    return _shorten_text(lead + first[start:], longest), _shorten_text(lead + second[start:], longest)


def _shorten_text(text: str, longest: int = SHOWN) -> str:
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text):,} characters)"
