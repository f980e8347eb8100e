"""Draw the tree of a workspace, two levels deep, within a fixed number of lines.

The key files of the root come first, so that they are kept if the end of the text is cut off.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from logist.core.text.counts import format_count
from logist.quick_dataclass import dataclass

MAX_LINES = 150
MAX_CHARACTERS = 8_000
MOST_AT_TOP = 60
LONGEST_NAME = 100
_MOST_INSIDE = (40, 20, 10, 6, 3, 0)
"""The number of entries shown per directory: the first of these numbers with which the tree fits."""

_BUILDING = """\
agents.md build.gradle build.gradle.kts build.sbt build.xml build.zig bunfig.toml cargo.toml claude.md
cmakelists.txt compose.yaml compose.yml composer.json configure.ac contributing.md deno.json docker-compose.yaml
docker-compose.yml dockerfile flake.nix gemfile go.mod go.work gulpfile.js justfile makefile manifest.in
meson.build mix.exs noxfile.py package.json pipfile pom.xml project.clj pubspec.yaml pyproject.toml rakefile
rebar.config requirements.txt settings.gradle settings.gradle.kts setup.cfg setup.py stack.yaml taskfile.yml
tox.ini tsconfig.json vite.config.js vite.config.ts webpack.config.js workspace build.bazel"""
_KEY_FILES = frozenset(_BUILDING.split())
_KEY_BEGINNINGS = ("readme",)
_KEY_ENDINGS = (".csproj", ".sln", ".cabal", ".gemspec", ".xcodeproj")


def is_key_file(name: str) -> bool:
    """Whether a file describes a project or how it is built; such files are kept before all others."""
    low = name.lower()
    return low in _KEY_FILES or low.startswith(_KEY_BEGINNINGS) or low.endswith(_KEY_ENDINGS)


def format_name(path: str) -> str:
    """Return a name on one line, whatever it contains; bytes that are not Unicode are escaped in hexadecimal."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    short = f"{text[:LONGEST_NAME]}..." if len(text) > LONGEST_NAME else text
    return short if short.isprintable() else json.dumps(short)


@dataclass
class _TreeDirectory:
    """The contents of a directory, by names."""

    directories: dict[str, _TreeDirectory] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    noted: dict[str, str] = field(default_factory=dict)
    total: int = 0
    """The number of files in it and below."""


def draw_tree(
    groups: Iterable[tuple[str, Sequence[str]]],
    directories: Iterable[str],
    noted: Mapping[str, str],
    *,
    partial: bool = False,
) -> str:
    """Return the tree as text: the root's key files, directories with the number of files in them, then other
    files.

    `groups`: directories, each with the names of the files in it. `noted`: entries that are neither file nor directory, with a note. `partial`: not everything was scanned. The
    text is empty for an empty workspace.
    """
    top = _build_tree(groups, directories, noted)
    most_at_top = MOST_AT_TOP
    lines: list[str] = []
    for most in (*_MOST_INSIDE, 0):
        lines = [*_format_lines(top, most_at_top, most, 2, is_key_file)]
        if len(lines) <= MAX_LINES and sum(map(len, lines)) <= MAX_CHARACTERS:
            break
        most_at_top = MOST_AT_TOP if most else MOST_AT_TOP // 2
    if partial:
        lines.append("(incomplete: not all files were scanned)")
    return "\n".join(lines)


def _build_tree(
    groups: Iterable[tuple[str, Sequence[str]]], directories: Iterable[str], noted: Mapping[str, str]
) -> _TreeDirectory:
    top = _TreeDirectory()
    for path in directories:
        if path.count("/") < 2:
            _find_directory(top, path.split("/"))
    shown: dict[str, _TreeDirectory] = {}
    for above, names in groups:
        if not names:
            continue
        end = above.find("/", above.find("/") + 1)
        place = above if end < 0 else above[:end]
        here = shown.get(place)
        if here is None:
            here = shown[place] = _find_directory(top, place.split("/")[:2] if place else [])
        here.total += len(names)
        if "/" not in above:
            here.files += names
    for path, why in noted.items():
        parts = path.split("/", 2)
        if len(parts) < 3:
            parent = _find_directory(top, parts[:-1])
            parent.noted[parts[-1]] = why
            parent.directories.pop(parts[-1], None)
    for directory in top.directories.values():
        directory.total += sum(inner.total for inner in directory.directories.values())
    return top


def _find_directory(top: _TreeDirectory, parts: list[str]) -> _TreeDirectory:
    here = top
    for part in parts:
        child = here.directories.get(part)
        if child is None:
            child = here.directories[part] = _TreeDirectory()
        here = child
    return here


def _format_lines(
    here: _TreeDirectory,
    most: int,
    most_inside: int,
    levels: int,
    first: Callable[[str], bool] = lambda name: False,
    indent: str = "",
) -> Iterable[str]:
    """Yield one line for each entry: the files that are `first`, directories, the other files.

    If there are more than `most` entries, key files are kept first, then directories, then other files.
    """
    names, folders = sorted(here.files), sorted(here.directories)
    if len(names) + len(folders) > most:
        keys = [name for name in names if is_key_file(name)][:most]
        folders = folders[: most - len(keys)]
        rest = [name for name in names if not is_key_file(name)][: most - len(keys) - len(folders)]
        names = sorted([*keys, *rest])
    yield from (f"{indent}{format_name(name)}" for name in names if first(name))
    for name in folders:
        inner = here.directories[name]
        yield f"{indent}{format_name(name)}/{_format_file_count(inner.total)}"
        if levels > 1 and most_inside:
            yield from _format_lines(inner, most_inside, most_inside, levels - 1, indent=f"{indent}  ")
    yield from (f"{indent}{format_name(name)}" for name in names if not first(name))
    links = sorted(here.noted)[: max(0, most - len(names) - len(folders))]
    for name in links:
        yield f"{indent}{format_name(name)} ({here.noted[name]})"
    files_left = len(here.files) - len(names) + len(here.noted) - len(links)
    more = _describe_more(len(here.directories) - len(folders), files_left)
    if more:
        yield f"{indent}... and {more}"


def _format_file_count(total: int) -> str:
    return f" ({format_count(total, 'file')})"


def _describe_more(directories: int, files: int) -> str:
    descriptions = [format_count(directories, "more directory")] if directories > 0 else []
    descriptions += [format_count(files, "more file")] if files > 0 else []
    return ", ".join(descriptions)
