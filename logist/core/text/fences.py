"""Put untrusted text in a code fence, so that it can't end its own quotation in a prompt."""

from __future__ import annotations


def make_fence(text: str) -> str:
    """Return a fence longer than every run of backticks in the text, so that the text can't close it."""
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return "`" * max(3, longest + 1)


def fence_text(text: str, language: str = "") -> str:
    """Return the text between two fences."""
    mark = make_fence(text)
    end = "" if text.endswith("\n") else "\n"
    return f"{mark}{language}\n{text}{end}{mark}"
