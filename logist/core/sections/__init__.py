"""Answers in sections: status, summary, output, next action, metadata, written as Markdown headings.

What is written is read tolerantly; what it means is never guessed. An answer that names no status, two
statuses or an unknown one is for a person.
"""

from logist.core.sections.judging import combine_action, judge_sections
from logist.core.sections.reading import Sections, read_sections
from logist.core.sections.words import NextAction, SectionStatus

__all__ = ["NextAction", "SectionStatus", "Sections", "combine_action", "judge_sections", "read_sections"]
