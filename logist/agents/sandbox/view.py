"""What a confined program can read of the machine: the system, and the directories its own programs are
installed in.
"""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from logist.agents.sandbox.confinement import Confinement
from logist.errors import InvalidFile
from logist.regular_files import open_regular

SYSTEM = ("/usr", "/opt", "/nix/store", "/gnu/store")
"""Completely readable."""
LINKED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Readable too; on most systems they are symbolic links into /usr."""

SETTINGS = (
    "alternatives",
    "ca-certificates",
    "ca-certificates.conf",
    "debian_version",
    "fonts",
    "group",
    "host.conf",
    "hosts",
    "java",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "perl",
    "pki/ca-trust",
    "pki/tls/certs",
    "pki/tls/cert.pem",
    "pki/tls/openssl.cnf",
    "protocols",
    "python3",
    "python3.11",
    "python3.12",
    "python3.13",
    "services",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
)
"""Files in /etc that programs need to start, without keys."""
NAMES = ("gai.conf", "resolv.conf")
"""Files in /etc for programs with network access."""

_PROGRAMS = ("bin", "sbin", "shims")
"""Directories of programs that belong to the installation in their parent directory."""
_PARTS = {".local": ("bin", "lib"), ".cargo": ("bin",)}
"""Only these subdirectories are visible; the others have data of other programs, and keys."""
_HOME_LIKE = (".ssh", ".gnupg", ".aws", ".config", ".bashrc", ".profile", ".logist", ".netrc")
"""A directory with one of these contains more than a program, so it stays hidden."""
_DEPTH = 2
"""Directories with fewer levels below / are never made visible."""
_SHEBANG = 256


def list_settings(*, network: bool) -> tuple[str, ...]:
    """Return the existing files and directories of /etc to make visible."""
    names = (*SETTINGS, *NAMES) if network else SETTINGS
    return tuple(path for path in (f"/etc/{name}" for name in names) if os.path.exists(path))


def find_program(program: str, confinement: Confinement) -> str:
    """Return the absolute path of `program`, searched in the PATH that it will have. Raises InvalidFile if not found."""
    path = os.pathsep.join(_list_path_entries(confinement.environment)) or os.defpath
    # An absolute path replaces the workspace.
    name = os.path.join(confinement.workspace, program) if os.sep in program else program
    return shutil.which(name, path=path) or _raise_not_found(program, name, path)


def _raise_not_found(program: str, name: str, path: str) -> NoReturn:
    """Raise InvalidFile for a program that can't be started; `name` was searched in `path`."""
    if file := shutil.which(name, os.F_OK, path):
        raise InvalidFile("the program is not executable", where=program, fix=f"chmod +x {shlex.quote(file)}")
    raise InvalidFile("program not found", where=program, fix="install it, or use its absolute path")


def list_program_places(executable: str, confinement: Confinement) -> tuple[str, ...]:
    """Return the non-system directories to make visible read-only: from PATH, for the executable, and
    `readable`.

    Never a home directory or one that contains the workspace or the private home: only the parts of it that
    contain programs. A program or a virtual environment in the workspace makes nothing visible: an agent may
    have created it, with a link or a pyvenv.cfg to anything that it wants to read.
    """
    private = (str(confinement.workspace), str(confinement.home))
    places: dict[str, None] = {}
    for name in (*_list_path_entries(confinement.environment), os.path.dirname(executable)):
        if not _is_private(name, private):
            places.update(dict.fromkeys(_find_needed_places(name, private, set())))
    if not _is_private(executable, private):
        places.update(dict.fromkeys(_find_needs_of_file(executable, private, set())))
    places.update((str(path), None) for path in confinement.readable if path.is_absolute())
    return _keep_outermost(path for path in places if os.path.exists(path) and not is_system(path))


def pin_program(argv: Sequence[str], confinement: Confinement, path: str) -> tuple[list[str], Confinement]:
    """Return `argv` with its program searched only in `path`, even if the PATH that it will have has other
    directories first.

    The interpreter of a script with `#!/usr/bin/env` is searched there too. Raises InvalidFile if the program is
    not found.
    """
    if os.sep in argv[0]:
        return list(argv), confinement
    places = os.pathsep.join(_list_path_entries({"PATH": path})) or os.defpath
    program = shutil.which(argv[0], path=places)
    if program is None:
        _raise_not_found(argv[0], argv[0], places)
    # The first line of a script selects its interpreter. `#!/usr/bin/env node` would search PATH again, where an
    # agent may have put a `node`: so the interpreter is pinned too.
    pinned = [program, *argv[1:]]
    words = _read_shebang(os.path.realpath(program))
    wanted = words[2:] if words[1:2] == ["-S"] else words[1:]
    if os.path.basename(words[0] if words else "") != "env" or not wanted:
        return pinned, confinement
    interpreter = shutil.which(wanted[0], path=places)
    if interpreter is None:
        return pinned, confinement
    needs = map(Path, list_program_places(program, confinement))
    return [interpreter, *wanted[1:], *pinned], replace(confinement, readable=(*confinement.readable, *needs))


def _is_private(path: str, private: tuple[str, ...]) -> bool:
    return any(
        is_below(path, each) or is_below(os.path.realpath(path), os.path.realpath(each)) for each in private
    )


def is_visible(place: Path, confinement: Confinement) -> bool:
    """Whether a command in a sandbox can see `place`."""
    visible = (
        *SYSTEM,
        *list_program_places("/bin/sh", confinement),
        str(confinement.workspace),
        str(confinement.home),
    )
    return any(is_below(os.path.realpath(place), os.path.realpath(each)) for each in visible)


def _list_path_entries(environment: Mapping[str, str]) -> Iterator[str]:
    for name in environment.get("PATH", "").split(os.pathsep):
        if os.path.isabs(name) and os.path.isdir(name):
            yield os.path.normpath(name)


def _find_needed_places(directory: str, private: tuple[str, ...], seen: set[str]) -> Iterator[str]:
    """Yield the directories that the programs in a directory need."""
    if directory in seen or is_system(directory):
        return
    seen.add(directory)
    yield from _find_installation(directory, private)
    real = os.path.realpath(directory)
    if real != directory:
        yield from _find_needed_places(real, private, seen)
    yield from _find_venv_base(directory, private, seen)


def _find_installation(directory: str, private: tuple[str, ...]) -> Iterator[str]:
    parent, name = os.path.split(directory)
    if name not in _PROGRAMS:
        if not _is_too_broad(directory, private):
            yield directory
    elif os.path.basename(parent) in _PARTS:
        yield from (os.path.join(parent, part) for part in _PARTS[os.path.basename(parent)])
    elif _is_too_broad(parent, private):
        if not _holds_private(directory, private):
            yield directory
    else:
        yield parent


def _is_too_broad(place: str, private: tuple[str, ...]) -> bool:
    real = os.path.realpath(place)
    return (
        real.count(os.sep) < _DEPTH
        or real in _list_homes()
        or any(home.startswith(real + os.sep) for home in _list_homes())
        or _holds_private(real, private)
        or any(os.path.lexists(os.path.join(real, name)) for name in _HOME_LIKE)
    )


def _holds_private(place: str, private: tuple[str, ...]) -> bool:
    real = os.path.realpath(place)
    return any(is_below(os.path.realpath(path), real) for path in private)


def _list_homes() -> set[str]:
    """Return the home directories of people; those of services are in system directories."""
    homes = {os.path.realpath(each.pw_dir) for each in pwd.getpwall() if each.pw_uid in (0, os.getuid())}
    homes |= {os.path.realpath(each.pw_dir) for each in pwd.getpwall() if each.pw_dir.startswith("/home/")}
    return homes - {"/"}


def _find_venv_base(directory: str, private: tuple[str, ...], seen: set[str]) -> Iterator[str]:
    try:
        with open(os.path.join(os.path.dirname(directory), "pyvenv.cfg"), encoding="utf-8") as file:
            lines = [line.partition("=") for line in file]
    except (OSError, UnicodeDecodeError):
        return
    for key, _, value in lines:
        if key.strip() == "home" and os.path.isabs(value.strip()):
            yield from _find_needed_places(os.path.normpath(value.strip()), private, seen)


def _find_needs_of_file(executable: str, private: tuple[str, ...], seen: set[str]) -> Iterator[str]:
    """Yield what a program needs: its real directory, and its interpreter."""
    real = os.path.realpath(executable)
    if real in seen or any(is_below(real, place) for place in private):
        return
    seen.add(real)
    yield from _find_needed_places(os.path.dirname(real), private, seen)
    if _holds_private(os.path.dirname(real), private) or _is_too_broad(os.path.dirname(real), private):
        yield real
    if interpreter := find_interpreter(real):
        yield from _find_needed_places(os.path.dirname(interpreter), private, seen)
        yield from _find_needs_of_file(interpreter, private, seen)


def find_interpreter(path: str) -> str | None:
    """Return the program that runs a script; None for other files."""
    words = _read_shebang(path)
    return words[0] if words and os.path.isabs(words[0]) else None


def _read_shebang(path: str) -> list[str]:
    try:
        descriptor, _ = open_regular(os.path.realpath(path))  # an agent may have put a pipe there
    except OSError:
        return []
    with os.fdopen(descriptor, "rb") as file:
        line = file.readline(_SHEBANG)
    return os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []


def is_system(path: str) -> bool:
    return any(is_below(path, place) for place in (*SYSTEM, *LINKED))


def is_below(path: str, place: str) -> bool:
    return path == place or path.startswith(place.rstrip(os.sep) + os.sep)


def _keep_outermost(paths: Iterable[str]) -> tuple[str, ...]:
    kept: list[str] = []
    for path in sorted(set(paths)):
        if not any(is_below(path, place) for place in kept):
            kept.append(path)
    return tuple(kept)


def make_absolute(confinement: Confinement) -> tuple[Path, Path]:
    """Return the workspace and the private home as absolute paths, without dots."""
    return Path(os.path.abspath(confinement.workspace)), Path(os.path.abspath(confinement.home))
