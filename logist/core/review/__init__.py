"""The review: what a reviewer is told and asked, what its answer says, and what sends the work back."""

from logist.core.review.gate import (
    Gate,
    Mode,
    blocks,
    checks_of,
    gate,
    mode_of,
    runs_command,
    sent_back,
    to_run,
)
from logist.core.review.telling import findings_piece, reviewer_pieces
from logist.core.review.verdict import FAIL, PASS, ReviewVerdict, read

__all__ = [
    "FAIL",
    "PASS",
    "Gate",
    "Mode",
    "ReviewVerdict",
    "blocks",
    "checks_of",
    "findings_piece",
    "gate",
    "mode_of",
    "read",
    "reviewer_pieces",
    "runs_command",
    "sent_back",
    "to_run",
]
