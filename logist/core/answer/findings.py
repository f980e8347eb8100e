"""Formats the findings of a review and the results of checks as single
lines. Their content is not trusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # `job status` shows the results of checks without loading the models
    from logist.core.model import CheckResult

PASSED, NOT_RUN = "passed", "not_run"
WORDS = {
    "passed": "passed",
    "failed": "failed",
    "timeout": "took too long",
    "not_run": "was not run",
}
"""The result of a check with a command. A replay compares these words in findings, so they can't change."""


def format_finding(found: Mapping[str, Any]) -> str:
    """Format a finding on one line: severity, check, place and message."""
    place = to_printable_line(found.get("file") or "")
    if place and found.get("line") is not None:
        place += f":{to_printable_line(found['line'])}"
    origin = ", ".join(filter(None, [to_printable_line(found.get("check") or ""), place]))
    origin_suffix = f" ({origin})" if origin else ""
    return f"{to_printable_line(found.get('severity'))}{origin_suffix}: {to_printable_line(found.get('message') or '')}"


def format_check_result(outcome: str, exit_code: object, reason: object) -> str:
    """Format the result of a check on one line: its outcome, exit status and reason."""
    words = f"the check {WORDS.get(outcome) or to_printable_line(outcome)}"
    if exit_code is not None:
        words += f" (exit status {to_printable_line(exit_code)})"
    return f"{words}: {to_printable_line(reason)}" if reason else words


def merge_check_results(earlier: Iterable[CheckResult], later: Iterable[CheckResult]) -> list[CheckResult]:
    """Merge the results of checks by name: a later result replaces an earlier one."""
    return list({each.check: each for each in (*earlier, *later)}.values())


def is_failed_check(outcome: object) -> bool:
    """Whether a check did not pass; a check that did not run has not passed."""
    return outcome != PASSED


def shorten_to_line(text: str, longest: int) -> str:
    """Put a text on one line, cut to `longest` characters."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def to_printable_line(value: Any) -> str:
    """Remove line breaks, which could begin a heading, and characters that are not printable."""
    return "".join(c if c.isprintable() else " " for c in " ".join(str(value).split()))
