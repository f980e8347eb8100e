"""Find the files of a workspace that are relevant for a task, and draw the tree of the workspace."""

from __future__ import annotations

from logist.core.relevance.task import Task
from logist.lazy_modules import load_on_use

__all__ = ["Task"]

load_on_use(globals())
