"""The difference between two checkpoints as a patch for a prompt, with limited size, without running any code."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from logist.quick_tuple import NamedTuple
from logist.workspace.checkpoint.objects import require_commit
from logist.workspace.files import file_names
from logist.workspace.git import Git

LARGEST = "1m"
"""A larger file is shown like a binary file: only its name."""
_READ = 4 << 20
"""Minimum bytes to read from git, so that a few long files don't hide those after them."""
_SHARE = 3
"""One file gets at most this fraction of the patch (1 / _SHARE)."""
_FEWEST = 400
_NAMED = 50
"""Maximum number of files that are only named."""
_OPENED = 50
"""Maximum number of files that git treats as binary and that are checked for text."""
_HEADER = b"diff --git "
_OLD_FIRST = ("--diff-filter=a", "--diff-filter=A")
"""Changes of existing files come before new files, because other code may depend on them."""
_WORDS = bytes({*range(0x20, 0x7F), *b"\t\n\r\f", 0})
_ODD = 0.25


class Patch(NamedTuple):
    """The part of a difference that a prompt contains."""

    text: str
    whole: bool
    """Whether nothing is cut; binary files and files left out on purpose are only named."""


class _Section(NamedTuple):
    """The patch of one file."""

    path: str
    text: str
    seen: bool = True


def build_patch(
    git: Git, before: str, after: str, max_bytes: int, left_out: Callable[[str], bool] = lambda path: False
) -> Patch:
    """Build the patch; see Workspace.build_patch."""
    if before == after or max_bytes <= 0:
        return Patch("", before == after)
    sides = (require_commit(before, git), require_commit(after, git))
    sections: list[_Section] = []
    whole = True
    for kind in _OLD_FIRST:
        text, all_read = git.read_beginning(max(2 * max_bytes, _READ), *_build_command(kind), *sides, "--")
        formatted = filter(None, map(_format_section, _expand_text(git, sides, list(_split_sections(text)))))
        sections += sorted(formatted, key=lambda each: len(each.text))
        whole = whole and all_read
    hidden = [each.path for each in sections if left_out(each.path)]
    visible = [each for each in sections if not left_out(each.path)]
    fitted, fits = _fit_sections(visible, max_bytes, whole=whole)
    is_complete = fits and whole and all(each.seen for each in visible)
    return Patch("\n".join(filter(None, [fitted, _describe_hidden(hidden)])), is_complete)


def _build_command(*more: str) -> tuple[str, ...]:
    return (
        *("-c", f"core.bigFileThreshold={LARGEST}", "diff-tree", "-r", "-p", "--no-renames", "--no-ext-diff"),
        *("--no-textconv", "--no-color", "--full-index", "--src-prefix=a/", "--dst-prefix=b/", *more),
    )


def _expand_text(git: Git, sides: tuple[str, str], sections: list[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield the sections, and whether each is complete; text that git treats as binary is yielded as text.

    Otherwise a single odd byte, or a line in .gitattributes, could hide a file.
    """
    opened = 0
    for section in sections:
        sizes = _read_named_ids(section)
        if sizes is None:
            yield section, True
            continue
        opened += 1
        kinds = {_classify_content(git, name) for name in sizes} if opened <= _OPENED else {"large"}
        if kinds == {"text"}:
            as_text = _diff_as_text(git, sides, section)
            yield (as_text, True) if as_text else (section, False)
        else:
            yield section, "large" not in kinds


def _read_named_ids(section: bytes) -> list[str] | None:
    """Return the ids of both sides of a file that is only named; None for a file with text."""
    lines = section.partition(b"\n@@")[0].rstrip(b"\n").split(b"\n")
    if not (lines[-1].startswith(b"Binary files ") and lines[-1].endswith(b" differ")):
        return None
    ids = next((line.split(b" ")[1] for line in lines if line.startswith(b"index ")), b"")
    return [name.decode("ascii") for name in ids.split(b"..") if name.strip(b"0")]


def _classify_content(git: Git, name: str) -> str:
    """Classify a stored file: `text`, `binary`, or `large`, whose content is not examined."""
    data, complete = git.read_beginning(1 << 20, "cat-file", "blob", name)
    if not complete:
        return "large"
    words = data.replace(b"\0", b"")
    odd = words.translate(None, _WORDS)
    try:
        words.decode("utf-8")
        odd = bytes(byte for byte in odd if byte < 0x80)
    except UnicodeDecodeError:
        pass
    return "text" if len(odd) <= _ODD * len(words) else "binary"


def _diff_as_text(git: Git, sides: tuple[str, str], section: bytes) -> bytes | None:
    path = _read_path(section)
    text, complete = git.read_beginning(_READ, *_build_command("--text"), *sides, "--", path)
    same = (each for each in _split_sections(text) if _read_path(each) == path)
    return next(same, None) if complete else None


def _describe_hidden(hidden: list[str]) -> str:
    """Name the files that are left out, because they are part of the work too."""
    if not hidden:
        return ""
    names = ", ".join(hidden[:_NAMED]) + (f" and {len(hidden) - _NAMED:,} more" if hidden[_NAMED:] else "")
    return f"[changed, but not shown: {names}]"


def _split_sections(text: bytes) -> Iterator[bytes]:
    """Yield the patch of each file: no line inside a patch can start like a header."""
    for piece in text.split(b"\n" + _HEADER):
        if piece:
            yield piece if piece.startswith(_HEADER) else _HEADER + piece


def _format_section(found: tuple[bytes, bool]) -> _Section | None:
    """Format the patch of a file; None for the placeholder of an empty directory."""
    section, complete = found
    path = _read_path(section)
    if file_names.is_placeholder(path):
        return None
    raw = file_names.from_stored(path)
    head, mark, body = section.rstrip(b"\n").partition(b"\n@@")
    lines = [line.replace(path, raw) for line in head.split(b"\n") if not line.startswith(b"index ")]
    text = (b"\n".join(lines) + mark + body).decode("utf-8", "backslashreplace")
    return _Section(file_names.to_display(raw), text.replace("\0", "\\0"), complete)


def _read_path(section: bytes) -> bytes:
    """Return the stored path from the header: both sides have the same path, so it is the second half."""
    header = section.split(b"\n", 1)[0][len(_HEADER) :]
    half = header[len(header) // 2 + 1 :].strip(b'"')
    return half.removeprefix(b"b/")


def _fit_sections(sections: list[_Section], max_bytes: int, *, whole: bool) -> tuple[str, bool]:
    """Return as much as fits, and whether that is everything; a note counts what is cut."""
    most = max(_FEWEST, max_bytes // _SHARE if len(sections) > 1 else max_bytes)
    pieces: list[str] = []
    room, uncut = max_bytes, True
    for section in sections:
        piece = _cut_lines(section.text, min(most, room))
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


def _cut_lines(text: str, most: int) -> str:
    """Return complete lines, and a note with the number of cut lines."""
    data = text.encode()
    if len(data) <= most:
        return text
    kept = data[: max(0, most - 60)].rpartition(b"\n")[0]
    omitted = data.count(b"\n") - kept.count(b"\n")
    return f"{kept.decode('utf-8', 'ignore')}\n[... {omitted:,} more lines of this file]"
