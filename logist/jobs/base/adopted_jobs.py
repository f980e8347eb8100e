"""Refuses work on jobs that were adopted from a session of another agent program."""

from __future__ import annotations

from logist.core.model import State
from logist.errors import Refused


def refuse_adopted(state: State) -> None:
    """Raise Refused for a job that is the record of a session: its files, and what its agent knew, are not here."""
    if state.adopted is not None:
        raise Refused(
            f"the job was adopted from a session of {state.adopted}: it is a record, and can't continue",
            fix="create a new job with the same prompt: logist job create",
        )
