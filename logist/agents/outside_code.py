"""Code that a command in a workspace would run although it lies elsewhere: installs, links and overrides.

An editable install puts a directory on Python's path, wherever Python is started; a linked node module, a Go workspace
and a Cargo path override do the same. A check that runs such code says nothing about the workspace. Files are read
here, nothing is run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from logist.agents.sandbox.view import interpreter_of, is_below, is_system

Ecosystem = Literal["Python", "Node", "Go", "Cargo"]

MOST_BYTES = 256 * 1024
"""Of a file that is read here; those that package managers write are far smaller."""
MOST_MODULES = 5_000
"""Entries of a directory of node modules that are looked at."""
PYTHON_PROGRAMS = ("python3", "python", "pytest")
"""Programs of PATH whose Python most checks run under."""

_SETUPTOOLS_FINDER = "__editable__"
"""How setuptools names its import hooks. They come after PYTHONPATH; those of other build backends come before it."""


@dataclass(frozen=True)
class OutsideCode:
    """A package or module whose code lies outside of the workspace."""

    ecosystem: Ecosystem
    name: str
    place: Path
    """The directory of its code, without links."""
    overrides: bool = False
    """An import hook loads it before PYTHONPATH is searched."""

    def __str__(self) -> str:
        return f"{self.name} ({self.ecosystem})"


def find_outside_code(
    workspace: Path, path: str, programs: Sequence[str] = (), *, above: bool = False
) -> list[OutsideCode]:
    """What lies outside of `workspace` and is run by commands in it, each once.

    `path` is the PATH that they have, `programs` those that are run. `above`: what directories above the workspace
    set up counts too; bubblewrap does not show it.
    """
    real = Path(os.path.realpath(workspace))
    every = [
        *_python(path, (*programs, *PYTHON_PROGRAMS)),
        *_node(real, above=above),
        *_go(real),
        *_cargo(real, above=above),
    ]
    return list(dict.fromkeys(each for each in every if _is_outside(each.place, real)))


def _is_outside(place: Path, workspace: Path) -> bool:
    return not is_below(str(place), str(workspace)) and place.is_dir()


# Python


def _python(path: str, programs: Sequence[str]) -> Iterator[OutsideCode]:
    sites: dict[str, None] = {}
    for program in programs:
        executable = shutil.which(program, path=path)
        if executable:
            sites.update(dict.fromkeys(_sites(executable, path)))
    for site in sites:
        yield from _editable(site)


def _sites(executable: str, path: str) -> Iterator[str]:
    """The site-packages of the Python that a program is, or that it is run by."""
    if not os.path.basename(executable).startswith("python"):
        executable = interpreter_of(executable) or ""
        if os.path.basename(executable) == "env":
            executable = shutil.which("python3", path=path) or ""
    folder = os.path.dirname(executable)
    if not executable or not os.path.basename(executable).startswith("python"):
        return
    for root in _roots(folder, executable):
        for library in ("lib", "lib64", "local/lib"):
            for version in _names(os.path.join(root, library)):
                if version.startswith("python3"):
                    places = (
                        os.path.join(root, library, version, name)
                        for name in ("site-packages", "dist-packages")
                    )
                    yield from (os.path.realpath(place) for place in places if os.path.isdir(place))


def _roots(folder: str, executable: str) -> Iterator[str]:
    parent = os.path.dirname(folder)
    settings = _read(os.path.join(parent, "pyvenv.cfg"))
    if settings is not None:
        yield parent
        if re.search(r"^include-system-site-packages\s*=\s*true", settings, re.M | re.I) is None:
            return
    elif os.path.basename(folder) == "shims":  # of pyenv: scripts that choose one of its installations
        versions = os.path.join(parent, "versions")
        yield from (os.path.join(versions, name) for name in _names(versions))
        return
    yield os.path.dirname(os.path.dirname(os.path.realpath(executable)))


def _editable(site: str) -> Iterator[OutsideCode]:
    """What leads out of a site-packages directory: lines of `.pth` files, and editable installs with import hooks."""
    names = _names(site)
    dists = dict(_editable_dists(site, names))
    hooked = dict(dists)
    for name in names:
        if not name.endswith((".pth", ".egg-link")):
            continue
        lines = (_read(os.path.join(site, name)) or "").splitlines()
        for line in lines[:1] if name.endswith(".egg-link") else lines:
            line = line.strip()
            if not line or line.startswith(("#", "import ", "import\t")):
                continue
            place = _real(site, line)
            if not os.path.isdir(place) or is_below(place, os.path.dirname(site)) or is_system(place):
                continue
            owner = next((dist for dist in dists if is_below(place, dist)), None)
            hooked.pop(owner or "", None)
            yield OutsideCode("Python", dists[owner] if owner else os.path.basename(place), Path(place))
    for place, name in hooked.items():
        overrides = not any(each.startswith(_SETUPTOOLS_FINDER) and _is_of(each, name) for each in names)
        src = os.path.join(place, "src")
        yield OutsideCode("Python", name, Path(src if os.path.isdir(src) else place), overrides)


def _editable_dists(site: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Place and name of each editable install, as its direct_url.json says."""
    for name in names:
        if not name.endswith(".dist-info"):
            continue
        try:
            record = json.loads(_read(os.path.join(site, name, "direct_url.json")) or "null")
            url = urlsplit(str(record["url"]))
            editable = record["dir_info"]["editable"] is True
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
        if editable and url.scheme == "file":
            yield _real("/", unquote(url.path)), name.removesuffix(".dist-info").rpartition("-")[0]


def _is_of(finder: str, dist: str) -> bool:
    spelled = [re.sub(r"[-_.]+", "_", each).casefold() for each in (finder, dist)]
    return spelled[1] in spelled[0]


# Node


def _node(workspace: Path, *, above: bool) -> Iterator[OutsideCode]:
    if not (workspace / "package.json").is_file():
        return
    own = workspace / "node_modules"
    for name, place in _links(own):
        yield OutsideCode("Node", name, place)
    for folder in workspace.parents if above else ():
        modules = folder / "node_modules"
        for name, place in _links(modules):
            if not is_below(str(place), os.path.realpath(modules)) and not os.path.lexists(own / name):
                yield OutsideCode("Node", name, place, overrides=True)


def _links(modules: Path) -> Iterator[tuple[str, Path]]:
    """The linked packages in a directory of node modules."""
    for name in _names(str(modules))[:MOST_MODULES]:
        inside = (
            [f"{name}/{each}" for each in _names(str(modules / name))] if name.startswith("@") else [name]
        )
        for each in inside:
            if os.path.islink(modules / each):
                yield each, Path(os.path.realpath(modules / each))


# Go


def _go(workspace: Path) -> Iterator[OutsideCode]:
    folders = [workspace, *_local_directories(workspace, "go.work")]
    for folder in folders:
        for place in (folder, *_local_directories(folder, "go.mod")):
            yield OutsideCode("Go", place.name, place)


def _local_directories(folder: Path, name: str) -> list[Path]:
    """The directories that `use` and `replace` of a go.work or go.mod name."""
    directories = []
    for line in (_read(folder / name) or "").splitlines():
        words = line.partition("//")[0].rpartition("=>")[2].replace('"', " ").split()
        target = words[1] if words[:1] == ["use"] and len(words) > 1 else words[0] if words else ""
        if target.startswith(("./", "../", "/")) or target in (".", ".."):
            directories.append(Path(_real(folder, target)))
    return directories


# Cargo


def _cargo(workspace: Path, *, above: bool) -> Iterator[OutsideCode]:
    if not (workspace / "Cargo.toml").is_file():
        return
    for place in _paths(_toml(workspace / "Cargo.toml")):
        yield _crate(workspace, place)
    for folder in (workspace, *(workspace.parents if above else ())):
        settings = _toml(folder / ".cargo" / "config.toml") or _toml(folder / ".cargo" / "config")
        overrides = settings.get("paths")
        named = [each for each in overrides if isinstance(each, str)] if isinstance(overrides, list) else []
        for place in (*named, *_paths(settings.get("patch"))):
            yield _crate(folder, place)


def _crate(folder: Path, place: str) -> OutsideCode:
    real = Path(_real(folder, place))
    return OutsideCode("Cargo", real.name, real, overrides=True)


def _paths(table: Any) -> Iterator[str]:
    """The value of every key `path`, however deep."""
    waiting = [table]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if isinstance(value.get("path"), str):
                yield value["path"]
            waiting += value.values()


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_read(path) or "")
    except (ValueError, RecursionError):
        return {}


# Files


def _read(path: str | Path) -> str | None:
    """A small text file; None if there is none. Agents can put a pipe or a huge file in its place."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return file.read(MOST_BYTES).decode("utf-8", "replace")


def _real(folder: str | Path, name: str) -> str:
    """A path that a file names, without links; a NUL in it makes it one that is not there."""
    return os.path.realpath(os.path.join(folder, name.replace("\0", "?")))


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
