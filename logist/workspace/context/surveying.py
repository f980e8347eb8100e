"""The tree of a workspace as prompts show it, and the files whose text they withhold."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from logist.core.relevance import key_files, kinds, tree
from logist.core.text.counts import format_bytes, format_count
from logist.core.text.patterns import Patterns, compile_exclusions
from logist.workspace.context import searching, walking
from logist.workspace.context.tracked import Tracked
from logist.workspace.context.walking import CONFIDENTIAL, IGNORED, FileSurvey, find_ignored, survey_files
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
    return tree.draw_tree(found.table.text_groups, found.directories, found.noted, partial=found.partial)


def format_excerpts(root: Path, found: FileSurvey, redact: Callable[[str], str]) -> str:
    """Return short excerpts of the key files of the workspace, such as README and build files; "" if there are none.

    `redact` removes secrets: of whole texts, since a piece of one would not be recognized.
    """
    return key_files.format_key_files(
        (file, text)
        for file in key_files.choose_key_files(found.files)
        if (text := _read_key_file(root, file.path, redact)) is not None
    )


def _read_key_file(root: Path, path: str, redact: Callable[[str], str]) -> str | None:
    file, size = agent_files.read_beginning(root, path, MAX_KEY_FILE_BYTES)
    if file.text is None:
        return None
    text = redact(file.text)
    return agent_files.drop_uncertain_end(text) if size > MAX_KEY_FILE_BYTES else text


def describe_unsearched(found: FileSurvey) -> str:
    """Return a sentence that says which files were not searched for the words of a task; "" if all of them were.

    After `find_relevant_files`, it also counts the files that could not be read, and in another sentence those that can't be shown.
    """
    numbers = Counter(found.noted.values())
    binary = secret = 0
    for number_of_files, kind in found.kind_counts:
        binary += 0 if kind.worth else number_of_files
        secret += number_of_files if kind.worth and kind.secret else 0
    sizes = found.searchable.sizes
    large_sizes = [size for size in sizes if size > walking.MAX_FILE_BYTES]
    large, left = len(large_sizes), sum(sizes) - sum(large_sizes)
    counted = (
        (large, "file", f" over {format_bytes(walking.MAX_FILE_BYTES)}"),
        (binary, "binary file", ""),
        (secret, "file", " that may contain secrets"),
        (numbers[walking.LINK], "link", ""),
        (numbers[walking.SECOND_NAME], "file", " with hard links"),
        (numbers[walking.REPOSITORY], "other git repository", ""),
        (numbers[walking.UNREADABLE], "unreadable directory", ""),
        (found.unread, "unreadable file", ""),
        (numbers[walking.TOO_DEEP], "directory", f" below level {walking.MAX_DEPTH}"),
    )
    texts = [f"{format_count(number, noun)}{more}" for number, noun, more in counted if number]
    if left > searching.MAX_BYTES:
        texts.append(f"the less likely files beyond {format_bytes(searching.MAX_BYTES)} of text")
    if found.partial:
        texts.append(f"all but the first {format_count(len(found.files), 'file')}")
    sentences = [f"Not searched: {', '.join(texts)}."] if texts else []
    if found.undecodable:
        sentences.append(f"Not listed: {format_count(found.undecodable, 'file')} that are not UTF-8 text.")
    return " ".join(sentences)


def explain_withheld(root: Path, paths: Collection[str], tracked: Tracked) -> dict[str, str]:
    """Return the paths whose text prompts contain only if a person names them, each with the reason."""
    secret = {path: CONFIDENTIAL for path in paths if kinds.classify_file(path).secret}
    hidden_by_git = find_ignored(root, [path for path in paths if path not in secret], tracked)
    return secret | dict.fromkeys(hidden_by_git, IGNORED)
