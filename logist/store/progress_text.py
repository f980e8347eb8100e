"""Says what an agent does, on one line for a person, and which records are events."""

from __future__ import annotations

from logist.core.money import amounts
from logist.store.progress import Activity, ActivityRecord

WORDS_SECONDS = 10.0
"""Seconds between two lines about the output of an agent program, where each line is printed."""
_VERBS = {
    Activity.BEGUN: "starting",
    Activity.ASKED: "waiting for the answer",
    Activity.ANSWERING: "answering",
    Activity.ANSWERED: "answered",
    Activity.FAILED: "no answer",
    Activity.RETRYING: "trying again",
    Activity.WORKING: "working",
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


class EventFilter:
    """Chooses the records that are events, for an output where each line stays."""

    def __init__(self) -> None:
        self._printed: dict[str, ActivityRecord] = {}

    def is_event(self, job_id: str, record: ActivityRecord) -> bool:
        """Whether to print the record of a job. The last words of an answer are none."""
        if record.activity in (Activity.BEGUN, Activity.ANSWERING):
            return False
        last = self._printed.get(job_id)
        is_same_run = last is not None and last.run == record.run
        if last is not None and is_same_run and record.activity in (Activity.WORKING, Activity.WAITING):
            is_repeated = last.activity == record.activity
            if is_repeated and record.seconds < last.seconds + WORDS_SECONDS:
                return False
        self._printed[job_id] = record
        return True
