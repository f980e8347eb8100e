"""Find the files of a workspace that are relevant for a task, and draw the tree of the workspace."""

from __future__ import annotations

from logist.core.relevance.task import Task

__all__ = ["Task"]
