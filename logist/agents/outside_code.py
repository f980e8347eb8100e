"""Finds code outside of a workspace that commands in the workspace would run: installs, links and overrides.

An editable install puts a directory on Python's path, wherever Python is started; a linked node module, a Go
workspace and a Cargo path override do the same. A check that runs such code does not test the workspace.
This module only reads files and runs nothing.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import stat
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from logist.agents.sandbox.view import find_interpreter, is_below, is_system
from logist.quick_dataclass import dataclass

Ecosystem = Literal["Python", "Node", "Go", "Cargo"]

MOST_BYTES = 256 * 1024
"""Maximum size of a file that is read; files that package managers write are far smaller."""
MOST_MODULES = 5_000
"""Maximum entries of a node_modules directory that are checked."""
DEEPEST_NAMESPACE = 4
"""Maximum levels of packages without an `__init__.py` that are checked."""
PYTHON_PROGRAMS = ("python3", "python", "pytest")
"""Programs in PATH whose Python most checks use."""

_SETUPTOOLS_FINDER = "__editable__"
"""How setuptools names its import hooks. They come after PYTHONPATH; those of other build backends come before it."""
_MAPPING = re.compile(r"^(?:MAPPING|NAMESPACES)\b[^=\n]*=\s*(\{.*\})\s*$", re.M)
_NEVER_IMPORTED = ("setup", "conftest", "node_modules")
_QUOTED_PATH = re.compile(r"""["'](/[^"']+)["']""")


@dataclass(frozen=True)
class OutsideCode:
    """A package or module whose code is outside of the workspace."""

    ecosystem: Ecosystem
    name: str
    place: Path
    """The directory of its code, with symbolic links resolved."""
    overrides: bool = False
    """It is used regardless of PYTHONPATH: through an import hook, or because the workspace lacks a file."""
    missing: str = ""
    """The file that the workspace lacks, so that tools use the project in a parent directory."""

    def __str__(self) -> str:
        return f"{self.name} ({self.ecosystem})"


def find_outside_code(
    workspace: Path, path: str, programs: Sequence[str] = (), *, above: bool = False
) -> list[OutsideCode]:
    """Return the code outside of `workspace` that commands in it would run, without duplicates.

    `path` is the PATH of the commands, `programs` the programs that are run. `above`: also count what
    directories above the workspace set up; bubblewrap hides it.
    """
    real = Path(os.path.realpath(workspace))
    candidates = [
        *_find_python_code(real, path, (*programs, *PYTHON_PROGRAMS)),
        *_find_node_code(real, above=above),
        *_find_go_code(real),
        *_find_cargo_code(real, above=above),
        *(_find_projects_around(real) if above else ()),
    ]
    return list(dict.fromkeys(each for each in candidates if _is_outside(each.place, real)))


def _is_outside(place: Path, workspace: Path) -> bool:
    return not is_below(str(place), str(workspace)) and place.is_dir()


# Python


def _find_python_code(workspace: Path, path: str, programs: Sequence[str]) -> Iterator[OutsideCode]:
    sites: dict[str, None] = {}
    for program in dict.fromkeys(programs):
        # A name with a slash is not searched in PATH; it is relative to the workspace, where commands start.
        executable = shutil.which(workspace / program if os.sep in program else program, path=path)
        if executable:
            sites.update(dict.fromkeys(_find_sites(executable, path)))
    for site in sites:
        yield from _find_editable(site)


def _find_sites(executable: str, path: str) -> Iterator[str]:
    """Yield the site-packages of a Python, or of the Python that runs a script."""
    if not os.path.basename(executable).startswith("python") and not _is_of_environment(executable):
        executable = find_interpreter(executable) or ""
        if os.path.basename(executable) == "env":
            executable = shutil.which("python3", path=path) or ""
        if not os.path.basename(executable).startswith("python"):
            return
    for root in _find_roots(os.path.dirname(executable), executable):
        for library in ("lib", "lib64", "local/lib"):
            for version in _list_names(os.path.join(root, library)):
                if version.startswith("python3"):
                    places = (
                        os.path.join(root, library, version, name)
                        for name in ("site-packages", "dist-packages")
                    )
                    yield from (os.path.realpath(place) for place in places if os.path.isdir(place))


def _is_of_environment(executable: str) -> bool:
    """Whether the program is in a virtual environment: pip writes scripts that
    start with /bin/sh if the path of their Python is long.
    """
    return os.path.isfile(os.path.join(os.path.dirname(os.path.dirname(executable)), "pyvenv.cfg"))


def _find_roots(folder: str, executable: str) -> Iterator[str]:
    parent = os.path.dirname(folder)
    settings = _read_small_file(os.path.join(parent, "pyvenv.cfg"))
    if settings is not None:
        yield parent
        if re.search(r"^include-system-site-packages\s*=\s*true", settings, re.M | re.I) is None:
            return
    elif os.path.basename(folder) == "shims":  # shims of pyenv or asdf: scripts that choose an installation
        for versions in (os.path.join(parent, "versions"), os.path.join(parent, "installs", "python")):
            yield from (os.path.join(versions, name) for name in _list_names(versions))
        return
    yield os.path.dirname(os.path.dirname(os.path.realpath(executable)))


def _find_editable(site: str) -> Iterator[OutsideCode]:
    """Yield code elsewhere that a site-packages directory refers to: lines of `.pth` files, links, and editable
    installs with import hooks.
    """
    names = _list_names(site)
    dists = dict(_find_editable_dists(site, names))
    hooked = dict(dists)
    for place, overrides in (*_find_places_in_files(site, names), *_find_linked_packages(site, names)):
        if not os.path.isdir(place) or is_below(place, os.path.dirname(site)) or is_system(place):
            continue
        owner = next((dist for dist in dists if is_below(place, dist)), None)
        hooked.pop(owner or "", None)
        name = dists[owner] if owner else os.path.basename(place)
        yield OutsideCode("Python", name, Path(place), overrides)
    for place, name in hooked.items():
        finder = next(
            (each for each in names if each.startswith(_SETUPTOOLS_FINDER) and _is_finder_of(each, name)), ""
        )
        for folder, overrides in _find_mapped(site, names, name) or [(_find_src(place), not finder)]:
            yield OutsideCode("Python", name, Path(folder), overrides)


def _find_src(place: str) -> str:
    src = os.path.join(place, "src")
    return src if os.path.isdir(src) else place


def _find_places_in_files(site: str, names: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield the directories that `.pth` and `.egg-link` files name, and
    whether they come before PYTHONPATH.
    """
    for name in names:
        if not name.endswith((".pth", ".egg-link")):
            continue
        lines = [line.strip() for line in (_read_small_file(os.path.join(site, name)) or "").splitlines()]
        if name.endswith(".egg-link"):
            lines = lines[:1]
        code = [line for line in lines if line.startswith(("import ", "import\t"))]
        # virtualenvwrapper and old versions of setuptools move what their files name to the front of the path.
        moved = any("sys.path" in line for line in code)
        for line in lines:
            if line in code and "sys.path" in line:
                yield from ((_resolve_path("/", path), True) for path in _QUOTED_PATH.findall(line))
            elif line and line not in code and not line.startswith("#"):
                yield _resolve_path(site, line), moved


def _find_linked_packages(site: str, names: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield the directories that linked packages come from, as `flit install --symlink` makes them."""
    for name in names:
        link = os.path.join(site, name)
        if os.path.islink(link) and name.removesuffix(".py").isidentifier():
            target = os.path.realpath(link)
            yield os.path.dirname(target), os.path.basename(target) != name


def _find_mapped(site: str, names: Sequence[str], dist: str) -> list[tuple[str, bool]]:
    """Return the directories that an import hook of setuptools finds packages in; it overrides PYTHONPATH if it
    renames a package.
    """
    folders: dict[tuple[str, bool], None] = {}
    for name in names:
        if (
            not name.startswith(_SETUPTOOLS_FINDER)
            or not name.endswith("_finder.py")
            or not _is_finder_of(name, dist)
        ):
            continue
        for package, place in _parse_mapping(_read_small_file(os.path.join(site, name)) or ""):
            parts = package.split(".")
            above = place.removesuffix(".py").split(os.sep)
            same = len(above) > len(parts) and above[-len(parts) :] == parts
            folder = os.sep.join(above[: -len(parts)]) if same else os.path.dirname(place)
            folders[_resolve_path("/", folder), not same] = None
    return list(folders)


def _parse_mapping(text: str) -> Iterator[tuple[str, str]]:
    """Yield the packages and their directories from the source of an import hook."""
    for value in _MAPPING.findall(text):
        try:
            table = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        for package, places in table.items() if isinstance(table, dict) else ():
            for place in places if isinstance(places, list) else [places]:
                if isinstance(package, str) and isinstance(place, str):
                    yield package, place


def _find_editable_dists(site: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield directory and name of each editable install, from its direct_url.json."""
    for name in names:
        if not name.endswith(".dist-info"):
            continue
        try:
            record = json.loads(_read_small_file(os.path.join(site, name, "direct_url.json")) or "null")
            url = urlsplit(str(record["url"]))
            editable = record["dir_info"]["editable"] is True
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
        if editable and url.scheme == "file":
            yield _resolve_path("/", unquote(url.path)), name.removesuffix(".dist-info").rpartition("-")[0]


def _is_finder_of(finder: str, dist: str) -> bool:
    spelled = [re.sub(r"[-_.]+", "_", each).casefold() for each in (finder, dist)]
    return spelled[1] in spelled[0]


def find_missing_modules(place: Path, roots: Sequence[Path]) -> list[str]:
    """Return the files in `place`, relative to it, that Python would import because no directory in `roots`
    has a module with that name.
    """
    return list(_iter_missing(place, roots, DEEPEST_NAMESPACE))


def _iter_missing(place: Path, roots: Sequence[Path], levels: int) -> Iterator[str]:
    for name, files in _list_modules(place).items():
        in_roots = [_list_modules(root).get(name) for root in roots]
        if any(in_roots):
            continue  # a module, or a package with an __init__.py: Python uses the first on the path
        inside = [
            root / name for root, files_there in zip(roots, in_roots, strict=True) if files_there is not None
        ]
        if files:
            yield from files
        elif inside and levels:
            # Without an __init__.py, Python looks into each directory of that name.
            yield from (f"{name}/{each}" for each in _iter_missing(place / name, inside, levels - 1))


def _list_modules(folder: Path) -> dict[str, list[str]]:
    """Return the modules that can be imported from a directory, each with its files; a package without
    `__init__.py` has none.
    """
    modules: dict[str, list[str]] = {}
    for name in _list_names(str(folder))[:MOST_MODULES]:
        module, _, suffix = name.partition(".")
        if not module.isidentifier() or module in _NEVER_IMPORTED:
            continue
        if not suffix and (folder / name).is_dir():
            init = f"{name}/__init__.py"
            modules.setdefault(module, []).extend([init] if (folder / init).is_file() else [])
        elif suffix == "py" or suffix.endswith("so"):
            modules.setdefault(module, []).append(name)
    return modules


# Node


def _find_node_code(workspace: Path, *, above: bool) -> Iterator[OutsideCode]:
    own = workspace / "node_modules"
    for name, place in _list_links(own):
        yield OutsideCode("Node", name, place)
    for folder in workspace.parents if above else ():
        modules = folder / "node_modules"
        for name, place in _list_links(modules):
            if not is_below(str(place), os.path.realpath(modules)) and not os.path.lexists(own / name):
                yield OutsideCode("Node", name, place, overrides=True)


def _list_links(modules: Path) -> Iterator[tuple[str, Path]]:
    """Yield the linked packages in a directory of node modules."""
    for name in _list_names(str(modules))[:MOST_MODULES]:
        inside = (
            [f"{name}/{each}" for each in _list_names(str(modules / name))]
            if name.startswith("@")
            else [name]
        )
        for each in inside:
            if os.path.islink(modules / each):
                yield each, Path(os.path.realpath(modules / each))


# Go


def _find_go_code(workspace: Path) -> Iterator[OutsideCode]:
    folders = [workspace, *_read_local_directories(workspace, "go.work")]
    for folder in folders:
        for place in (folder, *_read_local_directories(folder, "go.mod")):
            yield OutsideCode("Go", place.name, place)


def _read_local_directories(folder: Path, name: str) -> list[Path]:
    """Return the directories that `use` and `replace` of a go.work or go.mod name."""
    directories = []
    for line in (_read_small_file(folder / name) or "").splitlines():
        words = line.partition("//")[0].rpartition("=>")[2].replace('"', " ").split()
        target = words[1] if words[:1] == ["use"] and len(words) > 1 else words[0] if words else ""
        if target.startswith(("./", "../", "/")) or target in (".", ".."):
            directories.append(Path(_resolve_path(folder, target)))
    return directories


# Cargo


def _find_cargo_code(workspace: Path, *, above: bool) -> Iterator[OutsideCode]:
    if not (workspace / "Cargo.toml").is_file():
        return
    for place in _find_path_values(_read_toml(workspace / "Cargo.toml")):
        yield _make_crate(workspace, place)
    for folder in (workspace, *(workspace.parents if above else ())):
        settings = _read_toml(folder / ".cargo" / "config.toml") or _read_toml(folder / ".cargo" / "config")
        overrides = settings.get("paths")
        override_paths = (
            [each for each in overrides if isinstance(each, str)] if isinstance(overrides, list) else []
        )
        for place in (*override_paths, *_find_path_values(settings.get("patch"))):
            yield _make_crate(folder, place)


def _make_crate(folder: Path, place: str) -> OutsideCode:
    real = Path(_resolve_path(folder, place))
    return OutsideCode("Cargo", real.name, real, overrides=True)


def _find_path_values(table: Any) -> Iterator[str]:
    """Yield the value of every key `path`, however deep."""
    waiting = [table]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if isinstance(value.get("path"), str):
                yield value["path"]
            waiting += value.values()


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_read_small_file(path) or "")
    except (ValueError, RecursionError):
        return {}


# Projects in parent directories of the workspace

_PROJECT_FILES: tuple[tuple[Ecosystem, tuple[str, ...]], ...] = (
    ("Node", ("package.json",)),
    ("Go", ("go.mod",)),
    ("Cargo", ("Cargo.toml",)),
    ("Python", ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg", "setup.py")),
)
"""Files that tools search in parent directories if they are not in the start directory."""


def _find_projects_around(workspace: Path) -> Iterator[OutsideCode]:
    """Yield parent directories that tools would use as the project,
    because the workspace has no project file.
    """
    for ecosystem, names in _PROJECT_FILES:
        if any((workspace / name).is_file() for name in names):
            continue
        for folder in workspace.parents:
            name = next((name for name in names if (folder / name).is_file()), None)
            if name is not None:
                yield OutsideCode(ecosystem, folder.name, folder, overrides=True, missing=name)
                break


# Files


def _read_small_file(path: str | Path) -> str | None:
    """Return the text of a small file; None if there is none, or if it is not a
    regular file or too large: agents can put anything in its place.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return file.read(MOST_BYTES).decode("utf-8", "replace")


def _resolve_path(folder: str | Path, name: str) -> str:
    """Return a path from a file with links resolved; for a path with a NUL, one that does not exist."""
    return os.path.realpath(os.path.join(folder, name.replace("\0", "?")))


def _list_names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
