"""What differs between two checkpoints, as a patch for a prompt: bounded, and nothing of it ever run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from logist.workspace import names
from logist.workspace.git import Git
from logist.workspace.objects import checked

LARGEST = "1m"
"""A file above this is shown as a binary one: by its name."""
_READ = 4 << 20
"""Bytes that are read from git at least, so that a few long files do not hide those after them."""
_SHARE = 3
"""Of what is shown, one file gets at most one part in so many."""
_FEWEST = 400
_NAMED = 50
"""Files that are left out, and named."""
_HEADER = b"diff --git "


def between(
    git: Git, before: str, after: str, max_bytes: int, left_out: Callable[[str], bool] = lambda path: False
) -> str:
    """See Workspace.patch."""
    if before == after or max_bytes <= 0:
        return ""
    text, whole = git.beginning(
        max(2 * max_bytes, _READ),
        *("-c", f"core.bigFileThreshold={LARGEST}", "diff-tree", "-r", "-p", "--no-renames", "--no-ext-diff"),
        *("--no-textconv", "--no-color", "--abbrev=7", "--src-prefix=a/", "--dst-prefix=b/"),
        *(checked(before, git), checked(after, git), "--"),
    )
    sections = [each for each in map(_shown, _sections(text)) if each]
    hidden = [path for path, _ in sections if left_out(path)]
    fitted = _fitted([each for each in sections if not left_out(each[0])], max_bytes, whole=whole)
    return "\n".join(filter(None, [fitted, _named(hidden)]))


def _named(hidden: list[str]) -> str:
    """What is not shown, by name: it is part of the work all the same."""
    if not hidden:
        return ""
    named = ", ".join(hidden[:_NAMED]) + (f" and {len(hidden) - _NAMED:,} more" if hidden[_NAMED:] else "")
    return f"[changed, and not shown: {named}]"


def _sections(text: bytes) -> Iterator[bytes]:
    """The patch of each file: no line inside one can begin as its header does."""
    for piece in text.split(b"\n" + _HEADER):
        if piece:
            yield piece if piece.startswith(_HEADER) else _HEADER + piece


def _shown(section: bytes) -> tuple[str, str] | None:
    """`(path, text)` of a file; None for what only stands for an empty directory."""
    path = _path(section)
    if names.is_placeholder(path):
        return None
    raw = names.unstored(path)
    head, mark, body = section.rstrip(b"\n").partition(b"\n@@")
    lines = [line.replace(path, raw) for line in head.split(b"\n") if not line.startswith(b"index ")]
    return names.shown(raw), (b"\n".join(lines) + mark + body).decode("utf-8", "backslashreplace")


def _path(section: bytes) -> bytes:
    """The stored path, of the header: both sides name the same one, so it is the second half."""
    header = section.split(b"\n", 1)[0][len(_HEADER) :]
    half = header[len(header) // 2 + 1 :].strip(b'"')
    return half.removeprefix(b"b/")


def _fitted(sections: list[tuple[str, str]], max_bytes: int, *, whole: bool) -> str:
    """As much as fits; what does not is said."""
    most = max(_FEWEST, max_bytes // _SHARE if len(sections) > 1 else max_bytes)
    pieces: list[str] = []
    room = max_bytes
    for _, text in sections:
        piece = _cut(text, min(most, room))
        if len(piece.encode()) > room or room < _FEWEST:
            break
        pieces.append(piece)
        room -= len(piece.encode()) + 1
    more = len(sections) - len(pieces)
    if more or not whole:
        count = f"{more} more files" if whole else "more files"
        pieces.append(f"[... {count}: the rest of the patch is cut]")
    return "\n".join(pieces)


def _cut(text: str, most: int) -> str:
    """Whole lines, and how many are not shown."""
    data = text.encode()
    if len(data) <= most:
        return text
    kept = data[: max(0, most - 60)].rpartition(b"\n")[0]
    lost = data.count(b"\n") - kept.count(b"\n")
    return f"{kept.decode('utf-8', 'ignore')}\n[... {lost:,} more lines of this file]"
