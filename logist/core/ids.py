"""What a job id may look like; free of pydantic, for the commands that must start quickly."""

from __future__ import annotations

import re

JOB_ID_PATTERN = r"^[a-zA-Z0-9_-]{1,128}$"

_JOB_ID = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def is_job_id(text: str) -> bool:
    """True for a whole job id; a trailing newline, which `$` lets pass, is refused."""
    return _JOB_ID.fullmatch(text) is not None
