"""Findings of a review and results of checks in words, on one line each: others wrote what is in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # `job status` says how checks came out, and loads no model
    from logist.core.model import CheckResult

PASSED, NOT_RUN = "passed", "not_run"
WORDS = {
    "passed": "passed",
    "failed": "failed",
    "timeout": "took too long",
    "not_run": "was not run",
}
"""How a check with a command came out."""


def format_finding(found: Mapping[str, Any]) -> str:
    """A finding: how grave, of which check, where, and what it is."""
    place = to_printable_line(found.get("file") or "")
    if place and found.get("line") is not None:
        place += f":{to_printable_line(found['line'])}"
    origin = ", ".join(filter(None, [to_printable_line(found.get("check") or ""), place]))
    origin_suffix = f" ({origin})" if origin else ""
    return f"{to_printable_line(found.get('severity'))}{origin_suffix}: {to_printable_line(found.get('message') or '')}"


def format_check_result(outcome: str, exit_code: object, reason: object) -> str:
    """How a check came out, and by what it is known."""
    words = f"the check {WORDS.get(outcome) or to_printable_line(outcome)}"
    if exit_code is not None:
        words += f" (exit status {to_printable_line(exit_code)})"
    return f"{words}: {to_printable_line(reason)}" if reason else words


def merge_check_results(earlier: Iterable[CheckResult], later: Iterable[CheckResult]) -> list[CheckResult]:
    """The results of checks by name: of one that was run again, the later."""
    return list({each.check: each for each in (*earlier, *later)}.values())


def is_failed_check(outcome: object) -> bool:
    """Whether a check did not hold: what was not run does not."""
    return outcome != PASSED


def shorten_to_line(text: str, longest: int) -> str:
    """A text on one line, cut where it is longer."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def to_printable_line(value: Any) -> str:
    """Without line breaks, which could begin a heading, and without what is not printed."""
    return "".join(c if c.isprintable() else " " for c in " ".join(str(value).split()))
