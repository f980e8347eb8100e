"""What a prompt tells of a workspace beyond a list of its files: its tree, and the files that matter for a task."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from logist.core.patterns import Patterns, excluding
from logist.core.relevance import tree
from logist.workspace.context.choosing import Bounds, relevant
from logist.workspace.context.walking import Survey, survey

__all__ = ["Bounds", "Survey", "look", "relevant", "structure"]


def look(root: Path, caches: frozenset[bytes], excluded: Sequence[str]) -> Survey:
    """The workspace as `structure` and `relevant` see it: without what is git-ignored, a cache, or excluded."""
    return survey(root, hidden(caches, excluded))


def hidden(caches: frozenset[bytes], excluded: Sequence[str]) -> Patterns:
    """What no prompt shows, whatever the files of the workspace say."""
    return excluding(excluded, sorted(map(os.fsdecode, caches)))


def structure(found: Survey) -> str:
    """The tree of the workspace, two levels deep; empty for an empty one."""
    return tree.tree(found.files, found.directories, found.noted, partial=found.partial)
