"""Which files of a workspace matter for a task, and what its tree looks like: values in, values out."""

from __future__ import annotations

from logist.core.relevance.task import Task

__all__ = ["Task"]
