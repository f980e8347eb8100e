"""The rules for judging interactions that a newer Logist has changed: which ones, since when, and which were
in force when an interaction was recorded.

To change how an answer, a decision of a person or a step of the system is judged, add a `Rule` and, at the
end of `CHANGES`, its row; test `rule in rules` where the judgement differs, and keep the old behaviour for
the other case. A replay judges by the current rules; a history that differs only because of a changed rule is
reported, and is no failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from logist.core.model import Interaction


class Rule(StrEnum):
    """A rule that is new or replaced an earlier one."""

    CLOSED_GATES = "closed_gates"
    JAVASCRIPT_ORDER = "javascript_order"
    QUESTIONS_STOP = "questions_stop"


@dataclass(frozen=True)
class RuleChange:
    """A row of the table: a rule, the version of Logist since which it is in force, and what it says."""

    rule: Rule
    version: str
    change: str


CHANGES = (
    RuleChange(
        Rule.CLOSED_GATES,
        "0.1.0",
        "An answer waits for approval if its step's `confidence` or `confirm` condition can't be judged.",
    ),
    RuleChange(
        Rule.JAVASCRIPT_ORDER,
        "0.1.0",
        "Conditions order values of different kinds and read `.length` as JavaScript does: text that spells a number is "
        "that number, and an object has no length.",
    ),
    RuleChange(
        Rule.QUESTIONS_STOP,
        "0.1.0",
        "An answer whose output is a question is STUCK, whatever its action, and the reason names a field that does not fit.",
    ),
)
"""In the order in which they came: an interaction records how many there were, so a row is never moved or removed."""

LATEST = len(CHANGES)
"""What an interaction records that is made now."""

Rules: TypeAlias = "frozenset[Rule]"
"""The changed rules that are in force."""

TODAY: Rules = frozenset(change.rule for change in CHANGES)


def find_recorded_rules(entry: Interaction) -> Rules:
    """Return the rules by which an interaction was judged when it was recorded."""
    if entry.rules is not None:
        return frozenset(change.rule for change in CHANGES[: max(0, entry.rules)])
    # Before interactions recorded a number, this flag marked those that were judged with closed gates.
    strict = entry.observed is not None and entry.observed.strict_gates
    return frozenset({Rule.CLOSED_GATES} if strict else ())


def has_newer_rules(entry: Interaction) -> bool:
    """Whether an interaction was judged by a rule that this Logist does not know."""
    return entry.rules is not None and entry.rules > LATEST


def find_responsible_changes(then: Rules, goes_as_recorded: Callable[[Rules], bool]) -> Iterator[RuleChange]:
    """Yield the rule changes that cause a different result than the rules of `then`.

    If no single change does, yields all of them.
    """
    later_changes = [change for change in CHANGES if change.rule not in then]
    sufficient_changes = [change for change in later_changes if not goes_as_recorded(then | {change.rule})]
    yield from sufficient_changes or later_changes
