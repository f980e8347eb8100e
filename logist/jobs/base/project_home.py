"""Creates the home directory of a project when something is first put into it."""

from __future__ import annotations

from pathlib import Path

from logist.config.environment import IGNORED, PROJECT_DIRECTORY
from logist.jobs.base import editor_schemas
from logist.store import files

CONFIG = """\
# Logist settings of this project. Every line is optional; run `logist config show` to see all settings.
#
# limits:
#   cost_threshold: 1000          # US cents per job
#   time_threshold_minutes: 60
#   max_allowed_iterations: 50
# review:
#   mode: normal                  # strict, normal or yolo
# context:
#   custom_instructions: Follow the conventions in CONTRIBUTING.md.
# models:
#   my-model:
#     provider_model: openai/my-model
#     endpoint: http://127.0.0.1:8000/v1
#     api_key_env: MY_MODEL_KEY
#     input_price: 0.20           # US dollars per million tokens
#     output_price: 1.50
"""
"""The settings file of a new project."""


def create_project(home: Path) -> list[str]:
    """Create a project's home directory with roles/, jobs/, schemas/ and settings; what exists stays as it is, except
    schemas of an earlier version.

    Returns the names of what was created in it, "" for itself. Raises StorageError.
    """
    with files.convert_os_errors(home):
        created = [name for name in ("", "roles", "jobs") if _create_folder(home / name)]
        if editor_schemas.write_schemas(home):
            created.append(editor_schemas.FOLDER)
        texts = {
            ".gitignore": IGNORED,
            "config.yaml": editor_schemas.format_header("config", home, home) + CONFIG,
        }
        return created + [name for name, text in texts.items() if _write_new_file(home / name, text)]


def _create_folder(folder: Path) -> bool:
    if folder.is_dir():
        return False
    folder.mkdir(mode=0o700, parents=True)
    return True


def _write_new_file(file: Path, text: str) -> bool:
    if file.exists():
        return False
    file.write_text(text, "utf-8")
    return True


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
