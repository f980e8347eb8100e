"""Find the role in prompts that begin with `**Agent's Role:** ...`, and the prompt without it."""

from __future__ import annotations

import re

from logist.quick_dataclass import dataclass

MENTION = re.compile(r"\*\*\s*Agent(?:['’]?s)?\s+Role\s*(?::\s*\*\*|\*\*\s*:)", re.IGNORECASE)
"""The heading of an agent's role, anywhere in a prompt."""
_LEADING = re.compile(rf"\s*{MENTION.pattern}[ \t]*", re.IGNORECASE)
_PARAGRAPH_END = re.compile(r"\s*(?:\r?\n[ \t]*){2,}|\s*\Z")
MIN, MAX = 10, 1024


@dataclass(frozen=True)
class Mixed:
    """A prompt that begins with a role: `prompt[role_start:role_end]`; the rest begins at `rest`."""

    role_start: int
    role_end: int
    rest: int


def find_leading_role(prompt: str) -> Mixed | None:
    """Return where the role at the beginning of the prompt is; None if the prompt does not begin with one."""
    lead = _LEADING.match(prompt)
    if lead is None:
        return None
    end = _PARAGRAPH_END.search(prompt, lead.end())
    assert end is not None
    start = lead.end()
    while start < end.start() and prompt[start].isspace():
        start += 1
    return Mixed(start, end.start(), end.end())


NOT_LEADING = (
    "the role is not at the beginning of the prompt, so its end is unclear: move it to agentRole by hand"
)


def explain_refusal(prompt: str, found: Mixed | None, has_role: bool) -> str:
    """Return why the role can't be moved, or an empty string.

    `found` is the result of `find_leading_role`.
    """
    if found is None:
        return NOT_LEADING if MENTION.search(prompt) else ""
    length = found.role_end - found.role_start
    if has_role:
        return "the step already has an agentRole: combine the two by hand"
    if not MIN <= length <= MAX:
        return f"the role has {length} characters; an agentRole must have {MIN} to {MAX}"
    if not prompt[found.rest :].strip():
        return "the prompt would be empty: describe there what to do"
    return ""
