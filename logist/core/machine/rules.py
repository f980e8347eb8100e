"""Changes to the rules for judging interactions: what changed, in which version, and which rules applied when an
interaction was recorded.

To change how an answer, a decision of a person or an action of the system is judged, add a `Rule` and a row at
the end of `CHANGES`; test `rule in rules` where the behavior differs, and keep the old behavior for the other
case. A replay judges by the current rules; a history that differs only because of a changed rule is reported,
but is not a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from logist.quick_dataclass import dataclass

if TYPE_CHECKING:  # a fold of plain records needs the rules without the models
    from logist.core.model import Interaction


class Rule(StrEnum):
    """A rule that was added or that replaced an earlier one."""

    CLOSED_GATES = "closed_gates"
    JAVASCRIPT_ORDER = "javascript_order"
    QUESTIONS_STOP = "questions_stop"
    THINKING_APART = "thinking_apart"
    SAME_STEP_DATA = "same_step_data"


@dataclass(frozen=True)
class RuleChange:
    """A row of the table: a rule, the version of Logist that introduced it, and its text."""

    rule: Rule
    version: str
    change: str


CHANGES = (
    RuleChange(
        Rule.CLOSED_GATES,
        "0.1.0",
        "An answer waits for approval if its step's `confidence` or `confirm` condition can't be evaluated.",
    ),
    RuleChange(
        Rule.JAVASCRIPT_ORDER,
        "0.1.0",
        "Conditions order values of different types and read `.length` as JavaScript does: numeric text counts as a "
        "number, and an object has no length.",
    ),
    RuleChange(
        Rule.QUESTIONS_STOP,
        "0.1.0",
        "An answer whose output is a question makes the job STUCK, whatever its action; the reason names an invalid field.",
    ),
    RuleChange(
        Rule.THINKING_APART,
        "0.1.0",
        "What a model writes in `<think>` blocks is not part of its answer.",
    ),
    RuleChange(
        Rule.SAME_STEP_DATA,
        "0.1.0",
        "A step that is reviewed or done again has the data that it began with; before, its own output was the last output.",
    ),
)
"""In chronological order. An interaction records the number of rows, so never move or remove a row."""

LATEST = len(CHANGES)
"""The number that a new interaction records."""

Rules: TypeAlias = "frozenset[Rule]"
"""The changed rules that apply."""

TODAY: Rules = frozenset(change.rule for change in CHANGES)


def find_recorded_rules(entry: Interaction) -> Rules:
    """Return the rules by which an interaction was judged when it was recorded."""
    if entry.rules is not None:
        return _select_earliest(max(0, entry.rules))
    # Interactions of older versions have no number; this flag marks those that were judged with closed gates.
    strict = entry.observed is not None and entry.observed.strict_gates
    return frozenset({Rule.CLOSED_GATES} if strict else ())


@lru_cache(maxsize=64)
def _select_earliest(count: int) -> Rules:
    return frozenset(change.rule for change in CHANGES[:count])


def has_newer_rules(entry: Interaction) -> bool:
    """Whether an interaction was judged by a rule that this Logist does not know."""
    return entry.rules is not None and entry.rules > LATEST


def find_responsible_changes(then: Rules, goes_as_recorded: Callable[[Rules], bool]) -> Iterator[RuleChange]:
    """Yield the rule changes that cause a different result than the rules `then`.

    If no single change causes it, yield all of them.
    """
    later_changes = [change for change in CHANGES if change.rule not in then]
    sufficient_changes = [change for change in later_changes if not goes_as_recorded(then | {change.rule})]
    yield from sufficient_changes or later_changes
