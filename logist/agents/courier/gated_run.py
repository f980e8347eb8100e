"""Opens the gate for one run of an agent program, and says what the run has cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import urlsplit

from logist.agents.courier import booking, follow_ups
from logist.agents.courier.gate_records import MOST_REFUSALS, GateRecords
from logist.agents.programs.gated import build_gated_invocation
from logist.agents.programs.protocol import Invocation, Program, Result, Run
from logist.agents.protocol import Ask
from logist.agents.sandbox import GateAccess
from logist.core.model import ErrorKind, Provider, Reply, TransportError, Usage
from logist.core.money import money

LAST_SECONDS = 30.0
"""How long the gate waits for answers that are still arriving when the program has ended: so their cost is known."""


class GatedRun:
    """One run of a program whose requests go through the gate."""

    def __init__(
        self, ask: Ask, provider: Provider, api_key: str | None, token: str, records: GateRecords
    ) -> None:
        """Open the gate; `token`: the program's key to it. Raises OSError if it can't listen, and LogistError."""
        from logist.agents.gate.spend_gate import SpendGate  # noqa: PLC0415 - slow, and not every program needs it

        self.ask, self.records = ask, records
        self._token = token
        deadline = time.monotonic() + ask.deadline_seconds + LAST_SECONDS
        self.gate = SpendGate(records, ask, api_key, self._token, deadline)
        self._address = self.gate.start() + urlsplit(provider.base_url).path

    def build_invocation(self, program: Program, run: Run) -> Invocation:
        """Return how to start the program with the address of the gate, and with its token instead of the key."""
        return build_gated_invocation(program, run, self._address, self._token)

    @property
    def access(self) -> GateAccess:
        """How the sandbox of the program reaches the gate."""
        return GateAccess(self.gate.port, self.gate.listen_on)

    @property
    def must_end(self) -> bool:
        """Whether to end the program: the gate has failed, or the program ignores that it refuses all requests."""
        return self.gate.fault is not None or self.records.refusals_in_a_row >= MOST_REFUSALS

    def close(self, seconds: float, is_stopped: Callable[[], bool]) -> None:
        """Wait for answers that are still arriving, and close the gate; not long if it can't record them."""
        self.records.wait_until_idle(seconds, lambda: is_stopped() or self.gate.fault is not None)
        self.gate.close()
        self.records.close()

    def build_usage(self, reported_microcents: int | None, seconds: float) -> Usage:
        """Return the usage of the run: that of its requests, whatever the program reports."""
        usage = booking.sum_gate_usages([self.records.usage])
        return usage.model_copy(
            update={
                "seconds": seconds,
                "reported_microcents": reported_microcents,
                "calls": self.records.count,
            }
        )

    def find_warnings(self, usage: Usage) -> tuple[str, ...]:
        """Return what is wrong with the cost of the run."""
        cost = money.join_cents(usage.cost_cents, usage.cost_microcents) if self.records.count else None
        known = cost if money.has_known_price(self.ask.model) else None
        warnings = (
            booking.find_price_warnings(self.ask, usage.reported_microcents, known)
            if cost is not None
            else ()
        )
        return tuple(dict.fromkeys([*self.records.warnings, *warnings]))

    def choose_error(self, result: Result) -> TransportError | None:
        """Return why the run has no answer.

        A limit that the gate has enforced is the reason, unless the program has ended with a valid answer all the same.
        """
        limit = self.records.find_run_error() or self._find_end_by_force()
        if limit is None:
            return result.error
        has_answer = result.error is None and not follow_ups.find_fault(self.ask, Reply(text=result.text))
        return None if has_answer else limit

    def _find_end_by_force(self) -> TransportError | None:
        """Return why the gate had the program ended; None if it didn't."""
        fault, last = self.gate.fault, self.records.last_refusal
        if fault is not None:
            message = f"the program was ended because the gate failed: {fault}"
        elif self.must_end and last is not None:
            message = f"the program was ended because it ignored {MOST_REFUSALS} refusals of the gate: {last.message}"
        else:
            return None
        return TransportError(kind=ErrorKind.BAD_REQUEST, message=message)
