"""Reads the files of a directory of roles, and splits them into roles, before they are checked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from logist.documents import MAX_BYTES, Document, read_document
from logist.errors import InvalidFile
from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass
from logist.resources import find_resource
from logist.roles.markdown import AGENT_PROMPT, MARKDOWN, has_front_matter, read_markdown

SUFFIXES = (".yaml", ".yml", ".json", *MARKDOWN)
FORM = frozenset(
    {
        *("name", "description", "instructions", AGENT_PROMPT, "llm_model", "base"),
        *("temperature", "max_output_tokens", "permissions"),
        *("prompt_template", "applicable_task_types", "context_requirements", "output_schema"),
        "later_attempts",
    }
)
"""Keys that show that a file contains one role, and not several by their names."""

_NAME_LINE = compile_on_use(r"(?:^|[{,])\s*[\"']?name[\"']?\s*:\s*[\"']?([^\"'#,}\n]+)", re.MULTILINE)


@dataclass(frozen=True)
class RoleEntry:
    """One role as a file defines it, before it is checked."""

    name: str
    path: Path
    data: Any
    lines: dict[str, int]
    key: str | None = None
    """The key of this role in a file with several roles."""
    strength: int = 0
    """The strength of its directory."""

    @property
    def base(self) -> str | None:
        """The name of the role that it inherits from, if it names one."""
        base_name = self.data.get("base") if isinstance(self.data, dict) else None
        return base_name if isinstance(base_name, str) else None

    def find_line(self, attribute: str = "") -> int:
        """Return the line of a field, or else of the role."""
        return self.lines.get(attribute) or self.lines.get("", 1)

    def invalid_error(self, message: str, attribute: str = "", fix: str | None = None) -> InvalidFile:
        """Return the error to raise for this role, with its location."""
        return InvalidFile(self.add_label(message), where=f"{self.path}:{self.find_line(attribute)}", fix=fix)

    def add_label(self, message: str) -> str:
        """Return the message, with the name of the role in a file with several roles."""
        return f"role `{self.key}`: {message}" if self.key else message


def list_role_files(place: Path) -> list[Path]:
    """Return the role files of a directory, by name; for the path of a file, that file.

    A Markdown file without front matter is not a role file. Raises InvalidFile for what can't be read.
    """
    if os.path.isfile(place):
        return [place]
    try:
        names = sorted(os.listdir(place))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InvalidFile(f"can't read the directory: {error.strerror}", where=str(place)) from error
    paths = [place / name for name in names if not name.startswith(".")]
    return [path for path in paths if path.suffix.lower() in SUFFIXES and _is_role_file(path)]


def _is_role_file(path: Path) -> bool:
    if os.path.isdir(path):
        return False
    return path.suffix.lower() not in MARKDOWN or not os.path.isfile(path) or has_front_matter(path)


def read_role_entries(path: Path, strength: int = 0) -> list[RoleEntry]:
    """Read the roles of a file. Raises InvalidFile, with the location, if it can't be read."""
    if os.path.exists(path) and not os.path.isfile(path):  # reading a named pipe would block forever
        raise InvalidFile("not a regular file", where=str(path))
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidFile(
            "not a role file", where=str(path), fix=f"the name must end in {', '.join(SUFFIXES)}"
        )
    document = _load_document(path)
    return list(_split_entries(document, path, strength))


def _load_document(path: Path) -> Document:
    if path.parent != find_resource("roles"):
        return _parse_file(path)
    status = os.stat(path)
    return _load_shipped(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=32)
def _load_shipped(path: Path, changed: int, size: int) -> Document:
    """Load a shipped file once per process: without this cache, parsing takes 90 % of the time to load the
    roles.
    """
    return _parse_file(path)


def _parse_file(path: Path) -> Document:
    return read_markdown(path) if path.suffix.lower() in MARKDOWN else read_document(path)


def guess_role_names(path: Path) -> list[str]:
    """Return the roles that an unreadable file seems to define: the names in its text, else the name of the
    file.
    """
    if not os.path.isfile(path):
        return [path.stem]
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            names = [found.strip() for found in _NAME_LINE.findall(file.read(MAX_BYTES))]
    except OSError:
        names = []
    return names or [path.stem]


def _split_entries(document: Document, path: Path, strength: int) -> Iterator[RoleEntry]:
    """Yield the one role of a document, or many by key, possibly under the key `roles`."""
    data, under = document.data, ""
    is_single = bool(data.keys() & FORM) or path.suffix.lower() in MARKDOWN
    if not is_single and isinstance(data.get("roles"), dict):
        data, under = data["roles"], "roles"
    elif is_single or not any(isinstance(role, dict) for role in data.values()):
        name = data.get("name")
        yield RoleEntry(
            name if isinstance(name, str) else path.stem,
            path,
            *_rename_agent_prompt(data, document.lines),
            strength=strength,
        )
        return
    below = _split_lines(document.lines, {f"{under}.{key}" if under else key: key for key in data})
    for key, role in data.items():
        if isinstance(role, dict):
            role = {"name": key, **role}
        yield RoleEntry(key, path, *_rename_agent_prompt(role, below[key]), key, strength)


def _rename_agent_prompt(data: Any, lines: dict[str, int]) -> tuple[Any, dict[str, int]]:
    """Return the fields and their lines, with `agentPrompt` renamed to `instructions`.

    A role with both keeps both.
    """
    if not isinstance(data, dict) or AGENT_PROMPT not in data or "instructions" in data:
        return data, lines
    names = {AGENT_PROMPT: "instructions"}
    renamed = {names.get(key, key): value for key, value in data.items()}
    return renamed, {names.get(field, field): line for field, line in lines.items()}


def _split_lines(lines: dict[str, int], fields: dict[str, str]) -> dict[str, dict[str, int]]:
    """Return the lines of each role by its key.

    `fields`: the key of each role by its path, which comes before the paths of its content.
    """
    below: dict[str, dict[str, int]] = {}
    field = ""
    for path, line in lines.items():
        if path in fields:
            field = path
            below[fields[path]] = {"": line}
        elif field and path.startswith(f"{field}."):
            below[fields[field]][path.removeprefix(f"{field}.")] = line
    return below
