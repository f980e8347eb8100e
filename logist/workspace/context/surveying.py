"""The tree of a workspace as prompts show it, and the files whose text they withhold."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from logist.core.relevance import key_files, kinds, tree
from logist.core.text.patterns import Patterns, compile_exclusions
from logist.workspace.context.choosing import CONFIDENTIAL, IGNORED
from logist.workspace.context.tracked import Tracked
from logist.workspace.context.walking import FileSurvey, find_ignored, survey_files
from logist.workspace.files import agent_files

MAX_KEY_FILE_BYTES = 65_536
"""Of a larger key file, only the beginning is read."""


def survey_workspace(
    root: Path, caches: frozenset[bytes], excluded: Sequence[str], tracked: Tracked
) -> FileSurvey:
    """Return the workspace as `format_structure` and `find_relevant_files` see it: without what is
    git-ignored, a cache, or excluded.
    """
    return survey_files(root, build_hidden_patterns(caches, excluded), tracked)


def build_hidden_patterns(caches: frozenset[bytes], excluded: Sequence[str]) -> Patterns:
    """Return the patterns of files that prompts never contain, independent of the files of the workspace."""
    return compile_exclusions(excluded, sorted(map(os.fsdecode, caches)))


def format_structure(found: FileSurvey) -> str:
    """Return the tree of the workspace, two levels deep; "" for an empty one."""
    return tree.draw_tree(found.files, found.directories, found.noted, partial=found.partial)


def format_excerpts(root: Path, found: FileSurvey, redact: Callable[[str], str]) -> str:
    """Return short excerpts of the key files of the workspace, such as README and build files; "" if there are none.

    `redact` removes secrets: of whole texts, since a piece of one would not be recognized.
    """
    return key_files.format_key_files(
        (file, redact(text))
        for file in key_files.choose_key_files(found.files)
        if (text := agent_files.read_beginning(root, file.path, MAX_KEY_FILE_BYTES)[0].text) is not None
    )


def explain_withheld(root: Path, paths: Collection[str], tracked: Tracked) -> dict[str, str]:
    """Return the paths whose text prompts contain only if a person names them, each with the reason."""
    secret = {path: CONFIDENTIAL for path in paths if kinds.classify_file(path).secret}
    hidden_by_git = find_ignored(root, [path for path in paths if path not in secret], tracked)
    return secret | dict.fromkeys(hidden_by_git, IGNORED)
