"""Bubblewrap's command line: namespaces, mounts that define which files are visible, and no new privileges."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from logist.agents.sandbox import filters, trial, view
from logist.agents.sandbox.confinement import Confinement

_OPTIONAL = ("--disable-userns", "--size")
"""Flags that older versions lack; without the first, programs can create user namespaces."""
_LONGEST = 10.0
_PLACES = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")


@cache
def read_optional_flags(program: str) -> frozenset[str]:
    """Return the optional flags that this version of bubblewrap supports."""
    try:
        help_output = subprocess.run(
            [program, "--help"], env={}, capture_output=True, timeout=_LONGEST, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    words = (help_output.stdout + help_output.stderr).decode("utf-8", "replace").split()
    return frozenset(_OPTIONAL) & frozenset(words)


def find_bubblewrap(path: str) -> str | None:
    """Return the path of bubblewrap, searched in `path` and in the system's directories."""
    return shutil.which("bwrap", path=os.pathsep.join((path, *_PLACES)))


def build_flags(confinement: Confinement, executable: str, known: frozenset[str]) -> list[str]:
    """Return the flags that build the sandbox, without the program.

    They contain the program's environment, so they must not appear in an argv. Later mounts cover earlier
    ones, so the workspace is last.
    """
    return [
        *_unshare_namespaces(confinement, known),
        *_mount_system(network=confinement.network),
        *_mount_memory(confinement, known),
        *_mount_places(confinement, executable),
        *_lock_mounts(),
        *_set_environment(confinement),
    ]


def _unshare_namespaces(confinement: Confinement, known: frozenset[str]) -> list[str]:
    flags = ["--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--hostname", "sandbox"]
    flags += ["--cap-drop", "ALL"]
    if confinement.network:
        flags.append("--share-net")
    if "--disable-userns" in known:
        flags.append("--disable-userns")
    return flags


def _mount_system(*, network: bool) -> list[str]:
    flags: list[str] = []
    for path in view.SYSTEM:
        flags += ["--ro-bind-try", path, path]
    for path in view.LINKED:
        if os.path.islink(path):
            flags += ["--symlink", os.readlink(path), path]
        else:
            flags += ["--ro-bind-try", path, path]
    for path in view.list_settings(network=network):
        flags += ["--ro-bind-try", os.path.realpath(path), path]
    return [*flags, "--proc", "/proc", "--dev", "/dev"]


def _mount_memory(confinement: Confinement, known: frozenset[str]) -> list[str]:
    flags: list[str] = []
    for path in ("/dev/shm", "/tmp", "/run"):  # noqa: S108  inside the sandbox
        if "--size" in known:
            flags += ["--size", str(min(confinement.memory_bytes // 2, confinement.file_bytes))]
        flags += ["--tmpfs", path]
    return [*flags, "--symlink", "../tmp", "/var/tmp", "--symlink", "../run", "/var/run"]  # noqa: S108


def _mount_places(confinement: Confinement, executable: str) -> list[str]:
    workspace, home = map(str, view.make_absolute(confinement))
    flags: list[str] = []
    for path in view.list_program_places(executable, confinement):
        flags += ["--ro-bind-try", os.path.realpath(path), path]
    flags += ["--bind", os.path.realpath(home), home]
    for place in map(str, confinement.shared):
        flags += ["--bind", os.path.realpath(place), place]
    flags += ["--bind" if confinement.writable else "--ro-bind", os.path.realpath(workspace), workspace]
    return [*flags, "--chdir", workspace]


def _lock_mounts() -> list[str]:
    """Make read-only what is mounted but must not be written to.

    /proc: access to its kernel settings depends only on the uid, and root in the sandbox has the uid of the
    machine's root. The other directories hold mounts, and nothing limits their size.
    """
    return ["--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"]


def _set_environment(confinement: Confinement) -> list[str]:
    flags = ["--clearenv"]
    for name, value in confinement.environment.items():
        flags += ["--setenv", name, value]
    return flags


def create_memory_file(name: str, content: bytes) -> int:
    """Return a descriptor to read `content` from; the content is only in memory."""
    number = os.memfd_create(name)
    with open(number, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(number, 0, os.SEEK_SET)
    return number


def build_bubblewrap_command(
    program: str, flags: Sequence[str], extra: Sequence[str] = ()
) -> tuple[list[str], list[int]]:
    """Return the beginning of an argv, and the descriptors to pass on (and to close afterwards)."""
    content = b"".join(os.fsencode(word) + b"\0" for word in flags)
    passed = [create_memory_file("arguments", content)]
    argv = [program, "--args", str(passed[0]), *extra]
    if (call_filter := filters.build_filter(boxed=True)) is not None:
        passed.append(create_memory_file("filter", call_filter))
        argv += ["--seccomp", str(passed[-1])]
    return [*argv, "--"], passed


def try_bubblewrap(program: str, place: Path) -> str | None:
    """Try bubblewrap for real, in two new directories below `place`.

    Returns None if it works, else its error message.
    """
    workspace, home = place / "workspace", place / "home"
    workspace.mkdir()
    home.mkdir()
    confinement = Confinement(workspace, True, home, {"PATH": os.defpath})
    true = shutil.which("true", path=os.defpath) or "/bin/true"
    argv, passed = build_bubblewrap_command(
        program, build_flags(confinement, true, read_optional_flags(program))
    )
    return trial.try_command([*argv, true], passed)
