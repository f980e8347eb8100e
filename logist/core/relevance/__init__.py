"""Find the files of a workspace that matter for a task, and draw its tree: values in, values out."""

from __future__ import annotations

from logist.core.relevance.task import Task

__all__ = ["Task"]
