"""What prompts contain about a workspace besides the list of files: its
tree, and the files that are relevant for a task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logist.lazy_modules import load_on_use

if TYPE_CHECKING:
    from logist.workspace.context.choosing import ContextBounds, find_relevant_files
    from logist.workspace.context.explaining import FileExplanation, explain_file, explain_listed
    from logist.workspace.context.showing import PromptReader
    from logist.workspace.context.source_history import SourceHistory
    from logist.workspace.context.surveying import (
        build_hidden_patterns,
        explain_withheld,
        format_structure,
        survey_workspace,
    )
    from logist.workspace.context.tracked import Tracked
    from logist.workspace.context.walking import FileSurvey

__all__ = [
    "ContextBounds",
    "FileExplanation",
    "FileSurvey",
    "PromptReader",
    "SourceHistory",
    "Tracked",
    "build_hidden_patterns",
    "explain_file",
    "explain_listed",
    "explain_withheld",
    "find_relevant_files",
    "format_structure",
    "survey_workspace",
]

load_on_use(
    globals(),
    {
        "choosing": ("ContextBounds", "find_relevant_files"),
        "explaining": ("FileExplanation", "explain_file", "explain_listed"),
        "showing": ("PromptReader",),
        "source_history": ("SourceHistory",),
        "surveying": ("build_hidden_patterns", "explain_withheld", "format_structure", "survey_workspace"),
        "tracked": ("Tracked",),
        "walking": ("FileSurvey",),
    },
)
