"""What a stopped agent costs: what is booked, what is in flight, and what is not paid."""

from __future__ import annotations

from collections.abc import Sequence

from logist.agents.courier import booking
from logist.agents.courier.ask_files import has_gate, list_gate_requests, read_reserved
from logist.agents.protocol import GRACE, MODEL_AGENTS
from logist.core.model import Reply
from logist.core.money import amounts
from logist.core.text.counts import format_count
from logist.errors import LogistError
from logist.store import Exchange, JobDir


def describe_stop_costs(job: JobDir) -> str:
    """Return what it costs to stop the agent of a job now, from what its courier has written."""
    try:
        exchanges = job.read_exchanges()
        billed = list_gate_requests(exchanges) or exchanges
        replies = [Reply.model_validate(each.response) for each in billed if each.response is not None]
        return f"{_describe_booked(replies)}; {_describe_in_flight(exchanges)}"
    except (LogistError, ValueError):  # the courier's next reader reports damage
        return "cost so far unknown: can't read the record of the call"


def _describe_booked(replies: Sequence[Reply]) -> str:
    usage = booking.sum_usages([reply.usage for reply in replies])
    cost = amounts.format_money(amounts.join_cents(usage.cost_cents, usage.cost_microcents))
    return f"booked: {cost} for {format_count(len(replies), 'answer')}"


def _describe_in_flight(exchanges: Sequence[Exchange]) -> str:
    last = exchanges[-1] if exchanges else None
    if last is None or not last.sent:
        return "in flight: nothing; unpaid: the next request, which is not sent"
    if last.response is not None:
        return "in flight: nothing; unpaid: all later requests, which are not sent"
    most = read_reserved(exchanges)
    cost = "a call of unknown price" if most is None else f"up to {amounts.format_money(most)}"
    if has_gate(exchanges):
        return f"in flight: {cost}, booked if the answers don't arrive; unpaid: all later requests, which are not sent"
    if (exchanges[0].request or {}).get("agent") not in MODEL_AGENTS:
        return f"in flight: {cost}, until the agent program has ended and reported its cost"
    return (
        f"in flight: {cost}, in doubt if the answer doesn't arrive within {GRACE:g} seconds; "
        "unpaid: all later requests, which are not sent"
    )
