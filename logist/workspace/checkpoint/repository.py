"""An empty repository, created without starting git: the few files that `git init` writes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logist.workspace.git import Git

HEAD = b"ref: refs/heads/main\n"
"""The content of the file `HEAD`."""
_FOLDERS = ("objects", "objects/pack", "refs", "refs/heads")


def create_repository(git_dir: Path, *, bare: bool, long_names: bool) -> None:
    """Create it, with nothing from the machine's templates and settings.

    `long_names`: objects are named by SHA-256.
    """
    git_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in _FOLDERS:
        (git_dir / folder).mkdir(mode=0o700)
    write_file(git_dir / "config", build_config(bare=bare, long_names=long_names).encode("ascii"))
    write_file(git_dir / "HEAD", HEAD)


def build_config(*, bare: bool, long_names: bool) -> str:
    """Return the content of the file `config`."""
    version, extensions = (1, "[extensions]\n\tobjectformat = sha256\n") if long_names else (0, "")
    core = f"\trepositoryformatversion = {version}\n\tfilemode = true\n\tbare = {str(bare).lower()}\n"
    return f"[core]\n{core}{extensions}"


def write_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Create a new file in a repository."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, mode), "wb") as file:
        file.write(data)


def replace_file(git: Git, name: str, text: str) -> None:
    """Replace a file of a repository in use, or create it, in one step and durably."""
    path = git.git_dir / name
    new = path.with_name(f"{name}.lock")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(new, flags, 0o600), "wb") as file:
        file.write(text.encode("ascii"))
        file.flush()
        git.flush(file.fileno())
    os.replace(new, path)
    descriptor = os.open(git.git_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        git.flush(descriptor)
    finally:
        os.close(descriptor)
