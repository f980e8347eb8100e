"""JSON schemas of the files that people write, for editors: they complete keys, show what each means, and mark errors."""

from __future__ import annotations

import os
from pathlib import Path

from logist.regular_files import read_regular
from logist.resources import find_resource
from logist.store import files

SCHEMAS = {
    "config": "the settings: .logist/config.yaml",
    "job": "a job: .logist/jobs/JOB/job.yaml, and spec files of `logist job create`",
    "role": "a file of .logist/roles",
    "workflow": "a workflow as a list of steps: a file of .logist/workflows",
}
"""Each schema, and the files that it describes."""
FOLDER = "schemas"
_MOST_BYTES = 1 << 20


def read_schema(name: str) -> str:
    """Return the text of a schema."""
    return find_resource("schemas", f"{name}.json").read_text("utf-8")


def write_schemas(home: Path) -> bool:
    """Write all schemas into the project, so that the files there can name them by a relative path.

    They belong to Logist: those of an earlier version are replaced. Returns whether a file was written. Raises StorageError.
    """
    folder = home / FOLDER
    if folder.is_symlink():
        return False  # a cloned project must not choose where files are replaced
    folder.mkdir(mode=0o700, exist_ok=True)
    outdated = [
        name for name in SCHEMAS if _read_current(folder / f"{name}.json") != read_schema(name).encode()
    ]
    for name in outdated:
        files.replace_file(folder / f"{name}.json", read_schema(name).encode(), 0o644)
    return bool(outdated)


def _read_current(path: Path) -> bytes:
    try:
        return read_regular(path, _MOST_BYTES)
    except OSError:
        return b""


def format_header(name: str, home: Path, folder: Path) -> str:
    """Return the first line of a YAML file in `folder`, by which editors find its schema in the project.

    Empty if the project has no schemas, because an editor would report that as an error.
    """
    schema = home / FOLDER / f"{name}.json"
    if not schema.is_file():
        return ""
    return f"# yaml-language-server: $schema={Path(os.path.relpath(schema, folder)).as_posix()}\n"
