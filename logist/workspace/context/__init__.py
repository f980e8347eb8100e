"""What a prompt tells of a workspace beyond a list of its files: its tree, and the files that matter for a task."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from logist.core.relevance import kinds, tree
from logist.core.text.patterns import Patterns, excluding
from logist.workspace.context.choosing import CONFIDENTIAL, IGNORED, ContextBounds, relevant
from logist.workspace.context.tracked import Tracked
from logist.workspace.context.walking import FileSurvey, ignored, survey

__all__ = ["ContextBounds", "FileSurvey", "Tracked", "look", "relevant", "structure", "withheld"]


def look(root: Path, caches: frozenset[bytes], excluded: Sequence[str], tracked: Tracked) -> FileSurvey:
    """The workspace as `structure` and `relevant` see it: without what is git-ignored, a cache, or excluded."""
    return survey(root, hidden(caches, excluded), tracked)


def hidden(caches: frozenset[bytes], excluded: Sequence[str]) -> Patterns:
    """What no prompt shows, whatever the files of the workspace say."""
    return excluding(excluded, sorted(map(os.fsdecode, caches)))


def structure(found: FileSurvey) -> str:
    """The tree of the workspace, two levels deep; empty for an empty one."""
    return tree.tree(found.files, found.directories, found.noted, partial=found.partial)


def withheld(root: Path, paths: Collection[str], tracked: Tracked) -> dict[str, str]:
    """Those whose text no prompt shows unless a person names them, each with the reason."""
    secret = {path: CONFIDENTIAL for path in paths if kinds.of(path).secret}
    hidden_by_git = ignored(root, [path for path in paths if path not in secret], tracked)
    return secret | dict.fromkeys(hidden_by_git, IGNORED)
