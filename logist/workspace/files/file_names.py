"""File names: as git can store them, as people see them, as an agent writes them.

git refuses a component `.git`, ignoring case, and can't store empty directories. `.git` is stored as `.logist~.git`,
a name that begins with `.logist~` gets another `.logist~`, and an empty directory holds an entry `.logist~`.
All of it is reversible, and no other name is changed.
"""

from __future__ import annotations

from collections.abc import Iterable

PREFIX = b".logist~"
PLACEHOLDER = PREFIX


def to_stored(raw: bytes) -> bytes:
    """Return the path under which git stores the file `raw`."""
    if b".git" not in raw.lower() and PREFIX not in raw:
        return raw
    return b"/".join(map(_escape_name, raw.split(b"/")))


def list_stored(raw_paths: list[bytes]) -> list[bytes]:
    """Do the same for many paths; most are stored as they are, so looks at all of them at once first."""
    text = b"/%b/" % b"/\0/".join(raw_paths)
    if b"/.git/" not in text.lower() and PREFIX not in text:
        return raw_paths
    return [raw if b".git" not in raw.lower() and PREFIX not in raw else to_stored(raw) for raw in raw_paths]


def from_stored(path: bytes) -> bytes:
    """Return the path in the workspace for a stored path; a placeholder becomes `<directory>/`."""
    if PREFIX not in path:
        return path
    parts = path.split(b"/")
    if parts[-1] == PLACEHOLDER:
        parts[-1] = b""
    return b"/".join(map(_unescape_name, parts))


def _escape_name(name: bytes) -> bytes:
    return PREFIX + name if name.lower() == b".git" or name.startswith(PREFIX) else name


def _unescape_name(name: bytes) -> bytes:
    rest = name.removeprefix(PREFIX)
    return rest if rest and _escape_name(rest) == name else name


def is_placeholder(path: bytes) -> bool:
    """Whether a stored path represents an empty directory."""
    return path == PLACEHOLDER or path.endswith(b"/" + PLACEHOLDER)


def is_sound(raw: bytes) -> bool:
    """Whether a path of a tree may be written into a workspace: inside it, and not in its own `.git`.

    Only with that spelling, which checkpoints leave out; `.GIT` is an ordinary name.
    """
    parts = raw.split(b"/")
    return not any(part in (b"", b".", b"..") for part in parts) and parts[0] != b".git"


def are_plain(paths: Iterable[bytes]) -> bool:
    """Whether all of these stored paths are sound, and the same in the workspace; looks at all of them at once."""
    text = b"/%b/" % b"/\0/".join(paths)
    return not any(part in text for part in (b"//", b"/./", b"/../", b"\0/.git/", PREFIX)) and not (
        text.startswith(b"/.git/")
    )


def list_parents(paths: Iterable[bytes]) -> set[bytes]:
    """Return all directories above these paths, without the root."""
    found: set[bytes] = set()
    for above in {path.rpartition(b"/")[0] for path in paths}:  # most files share a directory
        if above:
            found.add(above)
            add_parents(found, above)
    return found


def add_parents(found: set[bytes], path: bytes) -> None:
    """Add the directories above a path to a set that has, for every directory, also those above it."""
    above = path.rpartition(b"/")[0]
    while above and above not in found:
        found.add(above)
        above = above.rpartition(b"/")[0]


def to_display(raw: bytes) -> str:
    """Return a path as valid text; bytes that are not UTF-8 become hexadecimal escapes."""
    return raw.decode("utf-8", "backslashreplace")


def split_agent_path(path: str) -> list[bytes] | None:
    """Return the components of a path that an agent wrote; None if it can't
    be the path of a file in the workspace.
    """
    parts = [part for part in path.encode("utf-8", "backslashreplace").split(b"/") if part != b"."]
    if not parts or b"\0" in path.encode("utf-8", "replace") or not is_sound(b"/".join(parts)):
        return None
    return parts


def to_json(path: bytes) -> str:
    """Return a path with any bytes in a form that a JSON string can contain."""
    return path.decode("utf-8", "surrogateescape")


def from_json(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
