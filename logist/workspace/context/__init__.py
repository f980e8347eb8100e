"""What prompts contain about a workspace besides the list of files: its
tree, and the files that are relevant for a task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logist.lazy_modules import load_on_use

if TYPE_CHECKING:
    from logist.workspace.context.choosing import ContextBounds, find_relevant_files
    from logist.workspace.context.explaining import FileExplanation, explain_file, explain_listed
    from logist.workspace.context.searching import KnownTexts
    from logist.workspace.context.showing import PromptReader
    from logist.workspace.context.source_history import SourceHistory
    from logist.workspace.context.surveying import (
        build_hidden_patterns,
        describe_unsearched,
        explain_withheld,
        format_excerpts,
        format_structure,
        survey_workspace,
    )
    from logist.workspace.context.tracked import Tracked
    from logist.workspace.context.walking import FileSurvey
    from logist.workspace.context.word_index import WordIndex

WORDS_FOLDER = ".words"
"""The word index of a project, in the directory of the jobs; no job id begins with a dot."""

__all__ = [
    "WORDS_FOLDER",
    "ContextBounds",
    "FileExplanation",
    "FileSurvey",
    "KnownTexts",
    "PromptReader",
    "SourceHistory",
    "Tracked",
    "WordIndex",
    "build_hidden_patterns",
    "describe_unsearched",
    "explain_file",
    "explain_listed",
    "explain_withheld",
    "find_relevant_files",
    "format_excerpts",
    "format_structure",
    "survey_workspace",
]

load_on_use(
    globals(),
    {
        "choosing": ("ContextBounds", "find_relevant_files"),
        "explaining": ("FileExplanation", "explain_file", "explain_listed"),
        "searching": ("KnownTexts",),
        "showing": ("PromptReader",),
        "source_history": ("SourceHistory",),
        "surveying": (
            "build_hidden_patterns",
            "describe_unsearched",
            "explain_withheld",
            "format_excerpts",
            "format_structure",
            "survey_workspace",
        ),
        "tracked": ("Tracked",),
        "walking": ("FileSurvey",),
        "word_index": ("WordIndex",),
    },
)
