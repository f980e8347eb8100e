"""Answers in sections: status, summary, output, next action, metadata, written as Markdown headings.

What is written is read tolerantly; what it means is never guessed. An answer that names no status, two
statuses or an unknown one is for a person.
"""

from logist.core.sections.judging import action, judged
from logist.core.sections.reading import Sections, read
from logist.core.sections.words import NextAction, SectionStatus

__all__ = ["NextAction", "SectionStatus", "Sections", "action", "judged", "read"]
