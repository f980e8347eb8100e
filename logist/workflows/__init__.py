"""Workflow files: found on the search path, read in every format, and frozen for a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logist.lazy_modules import load_on_use

if TYPE_CHECKING:
    from logist.workflows.finding import (
        ListedWorkflow,
        LoadedWorkflow,
        find_workflow_problems,
        freeze_subflows,
        list_workflow_search_path,
        list_workflows,
        load_workflow,
    )
    from logist.workflows.migrating import migrate_prompts
    from logist.workflows.reading import SUFFIXES, parse_workflow_text, read_file_text, read_workflow_file

__all__ = [
    "SUFFIXES",
    "ListedWorkflow",
    "LoadedWorkflow",
    "find_workflow_problems",
    "freeze_subflows",
    "list_workflow_search_path",
    "list_workflows",
    "load_workflow",
    "migrate_prompts",
    "parse_workflow_text",
    "read_file_text",
    "read_workflow_file",
]

load_on_use(
    globals(),
    {
        "finding": (
            "ListedWorkflow",
            "LoadedWorkflow",
            "find_workflow_problems",
            "freeze_subflows",
            "list_workflow_search_path",
            "list_workflows",
            "load_workflow",
        ),
        "migrating": ("migrate_prompts",),
        "reading": ("SUFFIXES", "parse_workflow_text", "read_file_text", "read_workflow_file"),
    },
)
