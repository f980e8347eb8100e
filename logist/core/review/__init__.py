"""The review: the prompt of the reviewer, the reading of its verdict, and what sends the work back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logist.lazy_modules import load_on_use

if TYPE_CHECKING:
    from logist.core.review.gate import (
        Gate,
        Mode,
        get_checks,
        get_review_mode,
        has_rejected_work,
        is_blocking,
        is_run_by_logist,
        judge_review,
        select_checks_to_run,
    )
    from logist.core.review.telling import findings_piece, reviewer_pieces
    from logist.core.review.verdict import FAIL, PASS, ReviewVerdict, read_verdict

__all__ = [
    "FAIL",
    "PASS",
    "Gate",
    "Mode",
    "ReviewVerdict",
    "findings_piece",
    "get_checks",
    "get_review_mode",
    "has_rejected_work",
    "is_blocking",
    "is_run_by_logist",
    "judge_review",
    "read_verdict",
    "reviewer_pieces",
    "select_checks_to_run",
]

load_on_use(
    globals(),
    {
        "gate": (
            "Gate",
            "Mode",
            "get_checks",
            "get_review_mode",
            "has_rejected_work",
            "is_blocking",
            "is_run_by_logist",
            "judge_review",
            "select_checks_to_run",
        ),
        "telling": ("findings_piece", "reviewer_pieces"),
        "verdict": ("FAIL", "PASS", "ReviewVerdict", "read_verdict"),
    },
)
