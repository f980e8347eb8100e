"""The home of a project: made when something is first put into it, as `.logist` beside a `.coven`."""

from __future__ import annotations

from pathlib import Path

from logist.config.environment import IGNORED, PROJECT_DIRECTORY
from logist.store import files


def ensure_project_home(home: Path) -> None:
    """Makes the directory, if it is not there; that of a project with a .gitignore, for its jobs are nobody's source.

    Raises StorageError where it can't be made.
    """
    if home.is_dir():
        return
    with files.convert_os_errors(home):
        home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    files.ensure_directory(home)
    if home.name == PROJECT_DIRECTORY:
        files.replace_file(home / ".gitignore", IGNORED.encode(), 0o644)


def ensure_folder(folder: Path) -> None:
    """Makes a directory of the project or another, and the home before it, if that is what it lies in."""
    if folder.parent.name == PROJECT_DIRECTORY:
        ensure_project_home(folder.parent)
    with files.convert_os_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
