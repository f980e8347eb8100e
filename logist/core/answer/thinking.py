"""Keeps what a model thought apart from its answer: `<think>` blocks, as many open models write them.

A model that thinks aloud often repeats the exit command's example there, which must not count as a second one.
"""

from __future__ import annotations

import re

from logist.lazy_patterns import compile_on_use

_OPENED = compile_on_use(r"^[ \t]*<(think|thinking)>", re.IGNORECASE | re.MULTILINE)
_CLOSED_ALONE = compile_on_use(r"^[ \t]*</think(?:ing)?>[ \t]*$", re.IGNORECASE | re.MULTILINE)


def remove_thinking(text: str) -> str:
    """Return an answer without its `<think>` blocks. A block begins a line and is closed; otherwise it is text.

    Some templates put the opening tag into the prompt. So without any, everything before the first line that is
    only `</think>` was thought too, unless nothing follows it.
    """
    kept, position, found = [], 0, False
    lowered = text.lower()
    if len(lowered) != len(text):  # a few letters have two in lower case; then only small tags are known
        lowered = text
    while opened := _OPENED.search(text, position):
        closing = f"</{opened[1].lower()}>"
        end = lowered.find(closing, opened.end())
        if end < 0:
            break
        kept.append(text[position : opened.start()])
        position, found = end + len(closing), True
    if not found and (closed := _CLOSED_ALONE.search(text)) and text[closed.end() :].strip():
        return text[closed.end() :]
    return "".join([*kept, text[position:]])
