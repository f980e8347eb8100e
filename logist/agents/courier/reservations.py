"""Books the exchanges of one ask in the ledger of the project: the worst case before each, the actual cost after it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from logist.agents.protocol import Sending
from logist.core.model import ErrorKind, JsonObject, Reply, TransportError, Usage
from logist.core.money import money
from logist.core.money.budgets import NOTHING, BookedCall, Cap, Cost, SharedBudget, Sums, list_caps
from logist.errors import Damaged
from logist.quick_dataclass import dataclass
from logist.store import inflight
from logist.store.call_rates import CallRates
from logist.store.ledger import BudgetRefusal, Ledger
from logist.timestamps import find_local_day, format_utc

CallName = int | str
"""The number of an exchange, or the name of a request that went through the gate: see `name_gate_call`."""
_GATE_CALL = "gate-"
_ERRAND = "errand-"
SHORT_PAUSE = 5.0
"""Seconds until the next try if only the reservations of running calls prevent a call."""


@dataclass(frozen=True)
class ExchangeLedger:
    """The ledger, and what it has to know about the calls of one ask.

    The command and the courier have the same: the caps are those of the current configuration, also for an ask that
    waited.
    """

    folder: Path
    ask_id: str
    """How the ids of its calls begin: see `name_call`."""
    job: str
    provider: str
    model: str
    """PROVIDER/MODEL."""
    run: str
    tags: tuple[str, ...]
    budgets: tuple[SharedBudget, ...]
    timezone: str | None

    def to_json(self) -> JsonObject:
        """Return it as JSON for the courier."""
        return {
            **vars(self),
            "folder": str(self.folder),
            "tags": list(self.tags),
            "budgets": [budget.to_json() for budget in self.budgets],
        }

    @classmethod
    def from_json(cls, data: JsonObject) -> ExchangeLedger:
        """Read what `to_json` returned."""
        return cls(
            **{
                **data,
                "folder": Path(data["folder"]),
                "tags": tuple(data["tags"]),
                "budgets": tuple(map(SharedBudget.from_json, data["budgets"])),
            }
        )

    def build_call(self, k: CallName, at: float | None = None) -> BookedCall:
        """Return exchange `k` as the ledger names it."""
        day = find_local_day(time.time() if at is None else at, self.timezone)
        return BookedCall(
            name_call(self.ask_id, k), self.job, day, self.provider, self.model, self.run, self.tags
        )

    def list_caps(self, k: CallName, at: float | None = None) -> list[Cap]:
        """Return the limits that apply to exchange `k`."""
        return list_caps(self.budgets, self.build_call(k, at))

    def reserve(
        self, k: int, microcents: int | None, sending: Sending | None, at: float | None = None
    ) -> BudgetRefusal | None:
        """Reserve the worst case of exchange `k`, durably; return the limit that doesn't allow it.

        `microcents`: None if the price is unknown. `sending`: None if it is unknown how many tokens the call may use.
        """
        counts_tokens = sending is not None and any(cap.tokens is not None for cap in self.list_caps(k, at))
        tokens = bound_tokens(sending) if sending is not None and counts_tokens else 0
        return self.reserve_cost(k, Cost(microcents or 0, tokens, 1), at)

    def reserve_cost(
        self, k: CallName, cost: Cost, at: float | None = None, on_written: Callable[[], None] = lambda: None
    ) -> BudgetRefusal | None:
        """Reserve the highest possible cost of exchange `k`, durably; return the limit that doesn't allow it.

        `on_written`: called when only the flush is left.
        """
        now = time.time() if at is None else at
        call = self.build_call(k, now)
        caps = list_caps(self.budgets, call)
        return Ledger(self.folder).reserve(call, cost, caps, format_utc(now), on_written)

    def find_room(self, k: CallName) -> int | None:
        """Return how much exchange `k` may cost, in microcents; None if no budget limits money."""
        caps = [cap for cap in self.list_caps(k) if cap.microcents is not None]
        if not caps:
            return None
        sums = Ledger(self.folder).read(cap.account for cap in caps).sums
        return min(
            (cap.microcents or 0) - sums.get(cap.account, Sums()).get_total().microcents for cap in caps
        )

    def release(self, k: CallName) -> None:
        """Book that exchange `k` costs nothing, unless its cost is booked already."""
        Ledger(self.folder).settle({name_call(self.ask_id, k): NOTHING}, format_utc(time.time()))

    def settle(self, k: CallName, reply: Reply) -> None:
        """Book what exchange `k` has cost, unless that is booked already."""
        costs = {name_call(self.ask_id, k): count_cost(reply.usage, has_error=reply.error is not None)}
        Ledger(self.folder).settle(costs, format_utc(time.time()))


def read_changed_limits(folder: Path) -> tuple[ExchangeLedger, CallRates] | None:
    """Return the limits of the config, if it has changed since the courier began; None also if they are not valid.

    `folder`: the directory of the exchanges.
    """
    limits = inflight.read_limits(folder)
    if limits is not None:
        with suppress(KeyError, TypeError, ValueError):
            return ExchangeLedger.from_json(limits["ledger"]), CallRates.from_json(limits["rates"])
    return None


def settle_saved_reply(ledger: ExchangeLedger | None, k: CallName, reply: Reply) -> None:
    """Book what exchange `k` has cost, after its reply was saved. A damaged ledger is left to the process that records
    the reply, which settles it, too.
    """
    if ledger is not None:
        with suppress(Damaged):
            ledger.settle(k, reply)


def name_ask(job: str, after: str | None, sequence: int) -> str:
    """Return the beginning of the ids of all calls of an ask.

    `after`: the checksum of the entry of the history before the ask. It is different for a job that was deleted and
    created again.
    """
    return f"{job}/{after.removeprefix('sha256:')[:16] if after else sequence}"


def name_call(ask_id: str, k: CallName) -> str:
    """Return the id of exchange `k`."""
    return f"{ask_id}/{k}"


def name_gate_call(k: int) -> str:
    """Return the name of request `k` of an agent program; other exchanges have a number."""
    return f"{_GATE_CALL}{k}"


def name_errand(number: int) -> str:
    """Return the name of all exchanges together of one sending of an ask to a worker on another machine."""
    return f"{_ERRAND}{number}"


def parse_errand(name: str) -> int | None:
    """Return the number that `name_errand` got; None for an exchange of another kind."""
    number = name.removeprefix(_ERRAND)
    return int(number) if number != name and number.isdecimal() else None


def parse_gate_call(name: str) -> int | None:
    """Return the number of the request that `name_gate_call` named; None for an exchange of another kind."""
    number = name.removeprefix(_GATE_CALL)
    return int(number) if number != name and number.isdecimal() else None


def count_cost(usage: Usage, *, has_error: bool) -> Cost:
    """Return the usage of an exchange as budgets count it; a refused request is no call.

    The run of a program with a gate has as many calls as it made requests.
    """
    return Cost(
        max(0, money.join_cents(usage.cost_cents, usage.cost_microcents)),
        max(0, usage.input_tokens) + max(0, usage.output_tokens),
        0 if has_error and usage.source == "none" else max(1, usage.calls),
    )


def read_cost(response: JsonObject) -> Cost:
    """Return the cost of a recorded response as budgets count it.

    Raises KeyError, TypeError or ValueError if it is not valid.
    """
    usage: Any = response["usage"]
    return count_cost(Usage.model_validate(usage), has_error=response.get("error") is not None)


def bound_tokens(sending: Sending) -> int:
    """Return the maximum number of tokens of an exchange: every token of the input is at least one byte."""
    parts: Sequence[Any] = [sending.messages, sending.tools, *([sending.form] if sending.form else [])]
    text = json.dumps(parts, ensure_ascii=False)
    return money.bound_tokens(text, len(sending.messages)) + sending.max_output_tokens


def build_refusal_error(refusal: BudgetRefusal) -> TransportError:
    """Return the error of a call that a budget didn't allow, so that it was not sent."""
    return TransportError(
        kind=ErrorKind.OUTAGE,
        message=refusal.describe(),
        budget=refusal.cap.budget,
        budget_period=refusal.cap.account.period,
        retry_after=SHORT_PAUSE if refusal.is_temporary else None,
    )
