"""Creates the home directory of a project when something is first put into it."""

from __future__ import annotations

from pathlib import Path

from logist.config.environment import IGNORED, PROJECT_DIRECTORY
from logist.store import files


def ensure_project_home(home: Path) -> None:
    """Create the directory if it does not exist; in a project with a .gitignore, because jobs are not source
    code.

    Raises StorageError if it can't be created.
    """
    if home.is_dir():
        return
    with files.convert_os_errors(home):
        home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    files.ensure_directory(home)
    if home.name == PROJECT_DIRECTORY:
        files.replace_file(home / ".gitignore", IGNORED.encode(), 0o644)


def ensure_folder(folder: Path) -> None:
    """Create a directory, and the project's home first if the directory is inside it."""
    if folder.parent.name == PROJECT_DIRECTORY:
        ensure_project_home(folder.parent)
    with files.convert_os_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
