"""What an answer would do if a person recorded it, for a check while they type."""

from __future__ import annotations

import json
import re

from logist.core.model import Interaction, State
from logist.errors import LogistError
from logist.jobs.base.result import CommandResult
from logist.quick_dataclass import dataclass
from logist.web import job_actions
from logist.web.job_view import JobHead

_AFTER_COMMA = re.compile(r",\s*(?=[}\]])")


@dataclass(frozen=True)
class CheckedAnswer:
    """Whether an answer is valid, and what it would do."""

    is_valid: bool
    lines: tuple[str, ...]


def check_answer(head: JobHead, text: str) -> CheckedAnswer:
    """Judge an answer as `job poststep --dry-run` does; writes nothing."""
    try:
        result = job_actions.check_answer(head, text)
    except LogistError as error:
        return CheckedAnswer(False, (str(error),))
    return _describe(result, text)


def _describe(result: CommandResult, text: str) -> CheckedAnswer:
    entry = result.entries[-1]
    would = f"{result.job_id} would be {result.state.status.value}"
    if not entry.response.actions:
        return CheckedAnswer(False, (f"{entry.reason}{_find_line(text)}", would))
    missing = [each.path for each in entry.observed.evidence if not each.exists] if entry.observed else []
    title = "Evidence is missing" if missing else "Valid"
    lines = [f"{title}: {', '.join(entry.response.actions)}. {would}{_describe_reason(entry, result.state)}"]
    lines += [f"Evidence file not found: {path}" for path in missing]
    said = {f"evidence file not found: {path}" for path in missing}
    lines += [f"Warning: {warning}" for warning in entry.response.warnings if warning not in said]
    return CheckedAnswer(not missing, tuple(lines))


def _describe_reason(entry: Interaction, state: State) -> str:
    summary, reason = entry.response.summary_for_supervisor, " ".join(entry.reason.split())
    return f": {reason}" if reason and reason != " ".join(summary.split()) and state.place.stuck else ""


def _find_line(text: str) -> str:
    """Return where the syntax of an answer is wrong, if all of it is meant as JSON."""
    if not text.lstrip().startswith("{"):
        return ""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        # Python 3.13 and newer report the comma before a closing bracket, older ones the bracket.
        bracket = _AFTER_COMMA.match(text, error.pos)
        place = bracket.end() if bracket else error.pos
        return (
            f" (see line {text.count(chr(10), 0, place) + 1}, column {place - text.rfind(chr(10), 0, place)})"
        )
    except (ValueError, RecursionError):
        return ""
    return ""
