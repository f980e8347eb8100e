"""Hides a job of the inbox until a time, or until the job changes. Neither its state nor its history changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from logist.errors import Refused
from logist.jobs.steward.inbox import InboxItem, list_inbox
from logist.store import JobDir
from logist.store.snooze import LATEST, Snooze, end_snooze, write_snooze
from logist.timestamps import parse_duration, parse_time


def parse_snooze_end(text: str, now: float) -> float | None:
    """Return the end of a snooze in seconds since 1970: `now`, a duration from now, or a local date or time.

    None if the text is none of these, or a time in the past.
    """
    if text == "now":
        return now
    seconds = parse_duration(text)
    end = parse_time(text) if seconds is None else now + seconds
    if end is None:
        return None
    return end if now < end <= LATEST else None


def snooze_job(jobs_dir: str, job_id: str, until: float, now: float) -> InboxItem:
    """Hide a job that waits for a person until then; at `now`, show it again. Takes no lock.

    Raises UsageError for an unknown job, Refused if it doesn't wait for a person.
    """
    JobDir.open(Path(jobs_dir), job_id)
    item = next((each for each in list_inbox(jobs_dir, now) if each.job == job_id), None)
    if item is None:
        fix = f"logist job status --job {job_id}"
        raise Refused(f"nothing to snooze: {job_id} does not wait for a person", fix=fix)
    if item.revision is None:
        raise Refused(f"can't snooze {job_id}: {item.reason}", where=jobs_dir, fix=item.advice)
    folder = f"{jobs_dir}/{job_id}"
    if until <= now:
        end_snooze(folder)
        return replace(item, snoozed_until=None)
    write_snooze(folder, Snooze(until, item.revision))
    return replace(item, snoozed_until=until)
