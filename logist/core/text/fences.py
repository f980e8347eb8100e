"""Put untrusted text in a code fence, so that it can't end its own quotation in a prompt."""

from __future__ import annotations

from logist.lazy_patterns import compile_on_use

_RUNS = compile_on_use("`{3,}")


def make_fence(text: str) -> str:
    """Return a fence longer than every run of backticks in the text, so that the text can't close it."""
    return "`" * (max(map(len, _RUNS.findall(text)), default=2) + 1)


def fence_text(text: str, language: str = "") -> str:
    """Return the text between two fences."""
    mark = make_fence(text)
    end = "" if text.endswith("\n") else "\n"
    return f"{mark}{language}\n{text}{end}{mark}"
