"""What differs between two checkpoints, as a patch for a prompt: bounded, and nothing of it ever run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from logist.workspace.checkpoint.objects import checked
from logist.workspace.files import file_names
from logist.workspace.git import Git

LARGEST = "1m"
"""A file above this is shown as a binary one: by its name."""
_READ = 4 << 20
"""Bytes that are read from git at least, so that a few long files do not hide those after them."""
_SHARE = 3
"""Of what is shown, one file gets at most one part in so many."""
_FEWEST = 400
_NAMED = 50
"""Files that are left out, and named."""
_OPENED = 50
"""Files that git takes for binary, and that are looked at: whether they are."""
_HEADER = b"diff --git "
_OLD_FIRST = ("--diff-filter=a", "--diff-filter=A")
"""What was there before may be relied on, so it comes before what is new."""
_WORDS = bytes({*range(0x20, 0x7F), *b"\t\n\r\f", 0})
_ODD = 0.25


class Patch(NamedTuple):
    """What of a difference is shown."""

    text: str
    whole: bool
    """Nothing of it is cut; what is binary, or left out on purpose, is named."""


class _Section(NamedTuple):
    """What the patch has of a file."""

    path: str
    text: str
    seen: bool = True


def between(
    git: Git, before: str, after: str, max_bytes: int, left_out: Callable[[str], bool] = lambda path: False
) -> Patch:
    """See Workspace.patch."""
    if before == after or max_bytes <= 0:
        return Patch("", before == after)
    sides = (checked(before, git), checked(after, git))
    sections: list[_Section] = []
    whole = True
    for kind in _OLD_FIRST:
        text, all_read = git.beginning(max(2 * max_bytes, _READ), *_command(kind), *sides, "--")
        found = filter(None, map(_shown, _with_text(git, sides, list(_sections(text)))))
        sections += sorted(found, key=lambda each: len(each.text))
        whole = whole and all_read
    hidden = [each.path for each in sections if left_out(each.path)]
    shown = [each for each in sections if not left_out(each.path)]
    fitted, fits = _fitted(shown, max_bytes, whole=whole)
    seen = fits and whole and all(each.seen for each in shown)
    return Patch("\n".join(filter(None, [fitted, _named(hidden)])), seen)


def _command(*more: str) -> tuple[str, ...]:
    return (
        *("-c", f"core.bigFileThreshold={LARGEST}", "diff-tree", "-r", "-p", "--no-renames", "--no-ext-diff"),
        *("--no-textconv", "--no-color", "--full-index", "--src-prefix=a/", "--dst-prefix=b/", *more),
    )


def _with_text(git: Git, sides: tuple[str, str], sections: list[bytes]) -> Iterator[tuple[bytes, bool]]:
    """The same, and whether there is more to a file than is shown; what git takes for binary, though it is text, as text.

    A single byte, or a word in a file of attributes, would else hide a file.
    """
    opened = 0
    for section in sections:
        sizes = _index(section)
        if sizes is None:
            yield section, True
            continue
        opened += 1
        kinds = {_kind(git, name) for name in sizes} if opened <= _OPENED else {"large"}
        if kinds == {"text"}:
            shown = _as_text(git, sides, section)
            yield (shown, True) if shown else (section, False)
        else:
            yield section, "large" not in kinds


def _index(section: bytes) -> list[str] | None:
    """The ids of both sides of a file that is only named; None for one that is shown."""
    lines = section.partition(b"\n@@")[0].rstrip(b"\n").split(b"\n")
    if not (lines[-1].startswith(b"Binary files ") and lines[-1].endswith(b" differ")):
        return None
    ids = next((line.split(b" ")[1] for line in lines if line.startswith(b"index ")), b"")
    return [name.decode("ascii") for name in ids.split(b"..") if name.strip(b"0")]


def _kind(git: Git, name: str) -> str:
    """Of a stored file: `text`, `binary`, or `large`, where nobody looks at what is in it."""
    data, whole = git.beginning(1 << 20, "cat-file", "blob", name)
    if not whole:
        return "large"
    words = data.replace(b"\0", b"")
    odd = words.translate(None, _WORDS)
    try:
        words.decode("utf-8")
        odd = bytes(byte for byte in odd if byte < 0x80)
    except UnicodeDecodeError:
        pass
    return "text" if len(odd) <= _ODD * len(words) else "binary"


def _as_text(git: Git, sides: tuple[str, str], section: bytes) -> bytes | None:
    path = _path(section)
    text, whole = git.beginning(_READ, *_command("--text"), *sides, "--", path)
    same = (each for each in _sections(text) if _path(each) == path)
    return next(same, None) if whole else None


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


def _shown(found: tuple[bytes, bool]) -> _Section | None:
    """A file as it is shown; None for what only stands for an empty directory."""
    section, seen = found
    path = _path(section)
    if file_names.is_placeholder(path):
        return None
    raw = file_names.unstored(path)
    head, mark, body = section.rstrip(b"\n").partition(b"\n@@")
    lines = [line.replace(path, raw) for line in head.split(b"\n") if not line.startswith(b"index ")]
    text = (b"\n".join(lines) + mark + body).decode("utf-8", "backslashreplace")
    return _Section(file_names.shown(raw), text.replace("\0", "\\0"), seen)


def _path(section: bytes) -> bytes:
    """The stored path, of the header: both sides name the same one, so it is the second half."""
    header = section.split(b"\n", 1)[0][len(_HEADER) :]
    half = header[len(header) // 2 + 1 :].strip(b'"')
    return half.removeprefix(b"b/")


def _fitted(sections: list[_Section], max_bytes: int, *, whole: bool) -> tuple[str, bool]:
    """As much as fits, and whether that is all; what does not is said."""
    most = max(_FEWEST, max_bytes // _SHARE if len(sections) > 1 else max_bytes)
    pieces: list[str] = []
    room, uncut = max_bytes, True
    for section in sections:
        piece = _cut(section.text, min(most, room))
        if len(piece.encode()) > room or room < _FEWEST:
            break
        uncut = uncut and piece == section.text
        pieces.append(piece)
        room -= len(piece.encode()) + 1
    more = len(sections) - len(pieces)
    if more or not whole:
        count = f"{more} more files" if whole else "more files"
        pieces.append(f"[... {count}: the rest of the patch is cut]")
    return "\n".join(pieces), uncut and not more


def _cut(text: str, most: int) -> str:
    """Whole lines, and how many are not shown."""
    data = text.encode()
    if len(data) <= most:
        return text
    kept = data[: max(0, most - 60)].rpartition(b"\n")[0]
    lost = data.count(b"\n") - kept.count(b"\n")
    return f"{kept.decode('utf-8', 'ignore')}\n[... {lost:,} more lines of this file]"
