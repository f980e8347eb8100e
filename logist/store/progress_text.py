"""Says what an agent does, on one line for a person."""

from __future__ import annotations

from logist.core.money import amounts
from logist.store.progress import Activity, ActivityRecord

_VERBS = {
    Activity.BEGUN: "starting",
    Activity.ASKED: "waiting for the answer",
    Activity.ANSWERING: "answering",
    Activity.ANSWERED: "answered",
    Activity.FAILED: "no answer",
    Activity.RETRYING: "trying again",
    Activity.WAITING: "waiting for",
}


def format_progress(record: ActivityRecord, seconds: float, *, short: bool = False) -> str:
    """Return what an agent does on one line; `seconds`: how long it has worked."""
    who = ", turn ".join(filter(None, (record.role or "agent", str(record.turn or ""))))
    return f"{who} ({_describe_amounts(record, seconds, short=short)}): {_describe_activity(record)}"


def _describe_activity(record: ActivityRecord) -> str:
    quoted = f'"{record.words}"' if record.words else ""
    if record.tool:
        return f"{record.tool} {record.target}".rstrip()
    if record.activity == Activity.WAITING:
        return f"waiting for {record.words or 'its provider'}"
    if record.activity == Activity.RETRYING:
        return f"trying again {record.words}".rstrip()
    if not record.turn and record.activity in (Activity.ASKED, Activity.WORKING):  # an agent program
        return f"working {quoted}".rstrip()
    verb = _VERBS.get(Activity(record.activity)) if record.activity in list(Activity) else record.activity
    return f"{verb} {quoted}".rstrip()


def _describe_amounts(record: ActivityRecord, seconds: float, *, short: bool) -> str:
    parts = [_format_seconds(seconds)]
    tokens = record.input_tokens + record.output_tokens
    if tokens and short:
        parts.append(f"{tokens:,} tokens")
    elif tokens:
        parts.append(f"{record.input_tokens:,} tokens in, {record.output_tokens:,} out")
    if record.cost_microcents:
        parts.append(amounts.format_money(record.cost_microcents))
    if record.in_flight_microcents and not short:
        parts.append(f"up to {amounts.format_money(record.in_flight_microcents)} in flight")
    return ", ".join(parts)


def _format_seconds(seconds: float) -> str:
    minutes, rest = divmod(int(min(seconds, 1e9)), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
