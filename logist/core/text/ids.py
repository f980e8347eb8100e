"""The format of job ids and of commit names; free of pydantic, for the commands that must start quickly."""

from __future__ import annotations

import re

JOB_ID_PATTERN = r"^[a-zA-Z0-9_-]{1,128}$"
LONGEST_ID = 128
"""Characters of a job id."""

_JOB_ID = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


def is_job_id(text: str) -> bool:
    """True for a whole job id; a trailing newline, which `$` lets pass, is refused."""
    return _JOB_ID.fullmatch(text) is not None


def is_commit(text: str) -> bool:
    """True for the whole name of a commit, in SHA-1 or SHA-256."""
    return _COMMIT.fullmatch(text) is not None
