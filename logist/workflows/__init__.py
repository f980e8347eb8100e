"""Workflow files: found on the search path, read whatever their format, and frozen for a job."""

from logist.workflows.finding import (
    ListedWorkflow,
    LoadedWorkflow,
    directories,
    frozen,
    listed,
    load,
    problems_of,
)
from logist.workflows.migrating import migrate
from logist.workflows.reading import SUFFIXES, read_text, readings, text_of

__all__ = [
    "SUFFIXES",
    "ListedWorkflow",
    "LoadedWorkflow",
    "directories",
    "frozen",
    "listed",
    "load",
    "migrate",
    "problems_of",
    "read_text",
    "readings",
    "text_of",
]
