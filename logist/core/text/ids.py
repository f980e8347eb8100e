"""The format of job ids and commit hashes. Doesn't import the models, so that commands start quickly."""

from __future__ import annotations

from logist.lazy_patterns import compile_on_use

JOB_ID_PATTERN = r"^[a-zA-Z0-9_-]{1,128}$"
LONGEST_ID = 128
"""The maximum length of a job id."""

_JOB_ID = compile_on_use(r"[a-zA-Z0-9_-]{1,128}")
_COMMIT = compile_on_use(r"[0-9a-f]{40}([0-9a-f]{24})?")


def is_job_id(text: str) -> bool:
    """Whether the complete text is a job id; unlike with `$`, a trailing newline is not allowed."""
    return _JOB_ID.fullmatch(text) is not None


def is_commit(text: str) -> bool:
    """Whether the text is a complete commit hash, SHA-1 or SHA-256."""
    return _COMMIT.fullmatch(text) is not None
