"""The text of a job that `job list --grep` searches: its id, its title and its task."""

from __future__ import annotations

import json
from typing import Any

from logist.core.text.simple_yaml import parse_simple_yaml
from logist.regular_files import read_regular

_MOST_BYTES = 1 << 20
"""Maximum size of a job.yaml."""


def read_task(folder: str) -> str | None:
    """Return the task in the job.yaml of the job in `folder`; None if it needs a YAML library, or can't be read."""
    try:
        text = read_regular(f"{folder}/job.yaml", _MOST_BYTES).decode()
        data = json.loads(text) if text.startswith("{") else parse_simple_yaml(text)
    except (OSError, ValueError, RecursionError):
        return None
    return join_task(data) if isinstance(data, dict) else None


def join_task(data: dict[str, Any]) -> str:
    """Return the prompt and the description of a job.yaml."""
    return "\n".join(text for name in ("prompt", "description") if isinstance(text := data.get(name), str))


def build_searched_text(job_id: str, title: str, task: str) -> str:
    """Return what is searched, without differences of upper and lower case."""
    return f"{job_id}\n{title}\n{task}".casefold()
