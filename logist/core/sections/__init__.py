"""Read answers in sections: status, summary, output, next action, metadata, written as Markdown headings.

The reader tolerates variants of the format, but never guesses the meaning. An answer without a status, with two
statuses or with an unknown one is left to a person.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logist.lazy_modules import load_on_use

if TYPE_CHECKING:
    from logist.core.sections.judging import combine_action, judge_sections
    from logist.core.sections.reading import Sections, read_sections
    from logist.core.sections.words import NextAction, SectionStatus

__all__ = ["NextAction", "SectionStatus", "Sections", "combine_action", "judge_sections", "read_sections"]

load_on_use(
    globals(),
    {
        "judging": ("combine_action", "judge_sections"),
        "reading": ("Sections", "read_sections"),
        "words": ("NextAction", "SectionStatus"),
    },
)
