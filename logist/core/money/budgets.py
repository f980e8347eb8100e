"""Budgets: what all jobs of a project together may spend, and to which accounts a call is booked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from logist.core.money.amounts import format_money
from logist.core.text.counts import format_count
from logist.quick_tuple import NamedTuple

Scope = Literal["project", "provider", "model", "tag", "run"]
Period = Literal["", "day", "month"]

MAX_COST = "--max-cost"
"""The name of the budget that an option of `logist run` sets."""


class Cost(NamedTuple):
    """An amount of everything that budgets limit."""

    microcents: int = 0
    tokens: int = 0
    calls: int = 0

    def plus(self, other: Cost) -> Cost:
        return Cost(self.microcents + other.microcents, self.tokens + other.tokens, self.calls + other.calls)

    def minus(self, other: Cost) -> Cost:
        return Cost(self.microcents - other.microcents, self.tokens - other.tokens, self.calls - other.calls)

    def describe(self) -> str:
        """Return the amounts for people: `$1.20, 3,000 tokens, 2 calls`."""
        return f"{format_money(self.microcents)}, {self.tokens:,} tokens, {format_count(self.calls, 'call')}"


NOTHING = Cost()


class Account(NamedTuple):
    """What one sum is about: a scope such as `project`, `model openai/gpt-5` or `tag nightly`, and a period.

    The period is a day (`2026-11-26`), a month (`2026-11`), or empty for all time.
    """

    scope: str
    period: str = ""


class Sums(NamedTuple):
    """What was spent, and what is reserved for calls without a known outcome."""

    spent: Cost = NOTHING
    reserved: Cost = NOTHING

    def get_total(self) -> Cost:
        """Return the most that was or can still be spent by these calls."""
        return self.spent.plus(self.reserved)


class Cap(NamedTuple):
    """A limit of an account; None for what is not limited."""

    budget: str
    """The name of the budget."""
    account: Account
    microcents: int | None = None
    tokens: int | None = None
    calls: int | None = None

    def admits(self, cost: Cost) -> bool:
        """Whether a total is within the limit."""
        return (
            (self.microcents is None or cost.microcents <= self.microcents)
            and (self.tokens is None or cost.tokens <= self.tokens)
            and (self.calls is None or cost.calls <= self.calls)
        )

    def describe_amounts(self, cost: Cost) -> str:
        """Return those amounts of a cost that the limit is about, for people."""
        parts = [
            *([format_money(cost.microcents)] if self.microcents is not None else []),
            *([f"{cost.tokens:,} tokens"] if self.tokens is not None else []),
            *([format_count(cost.calls, "call")] if self.calls is not None else []),
        ]
        return ", ".join(parts)

    def describe(self) -> str:
        """Return the limit for people."""
        return self.describe_amounts(Cost(self.microcents or 0, self.tokens or 0, self.calls or 0))

    def describe_use(self, used: Cost) -> str:
        """Return how much of the limit is used: `$4.90 of $5.00`, `9 of 10 calls`."""
        parts = []
        if self.microcents is not None:
            parts.append(f"{format_money(used.microcents)} of {format_money(self.microcents)}")
        if self.tokens is not None:
            parts.append(f"{used.tokens:,} of {self.tokens:,} tokens")
        if self.calls is not None:
            parts.append(f"{used.calls:,} of {self.calls:,} calls")
        return ", ".join(parts)


class BookedCall(NamedTuple):
    """A call that costs something, as the ledger names it."""

    id: str
    """The job, the entry of its history before the call, and the number of the exchange: each process that reserves, sends
    or collects the call computes the same id."""
    job: str
    day: str
    """The local date when it was reserved: to this day it is booked, whenever its answer arrives."""
    provider: str = ""
    model: str = ""
    run: str = ""
    tags: tuple[str, ...] = ()

    def list_accounts(self) -> Iterator[Account]:
        """Yield the accounts that it is booked to."""
        for scope in self.list_scopes():
            yield Account(scope)
            yield Account(scope, self.day[:7])
            yield Account(scope, self.day)
        if self.run:
            yield Account(f"run {self.run}")

    def list_scopes(self) -> Iterator[str]:
        """Yield its scopes that have sums for each period."""
        yield "project"
        if self.provider:
            yield f"provider {self.provider}"
        if self.model:
            yield f"model {self.model}"
        for tag in dict.fromkeys(self.tags):
            yield f"tag {tag}"


class SharedBudget(NamedTuple):
    """A limit for all jobs of a project, or for those calls that have a provider, a model, a tag or a run."""

    name: str
    scope: Scope = "project"
    of: str = ""
    """The name of the provider, the model as PROVIDER/MODEL, or the tag."""
    per: Period = ""
    microcents: int | None = None
    tokens: int | None = None
    calls: int | None = None

    def build_cap(self, call: BookedCall) -> Cap | None:
        """Return the limit of the account that a call is booked to; None if the budget is not about this call."""
        scope = self._find_scope(call)
        if scope is None:
            return None
        period = {"": "", "day": call.day, "month": call.day[:7]}[self.per]
        return Cap(self.name, Account(scope, period), self.microcents, self.tokens, self.calls)

    def _find_scope(self, call: BookedCall) -> str | None:
        if self.scope == "run":
            return f"run {call.run}" if call.run else None
        scope = f"{self.scope} {self.of}" if self.of else self.scope
        return scope if scope in call.list_scopes() else None

    def describe(self) -> str:
        """Return what it is about: `project per day`, `model openai/gpt-5 per month`."""
        what = {"run": "each run"}.get(self.scope) or f"{self.scope} {self.of}".rstrip()
        return f"{what} per {self.per}" if self.per else what

    def to_json(self) -> list[Any]:
        """Return it as JSON for another process."""
        return list(self)

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> SharedBudget:
        """Read what `to_json` returned."""
        return cls(*values)


def list_caps(budgets: Iterable[SharedBudget], call: BookedCall) -> list[Cap]:
    """Return the limits that apply to a call."""
    return [cap for cap in (budget.build_cap(call) for budget in budgets) if cap is not None]
