"""Finds the files that ship with Logist: roles, schemas, recorded jobs."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from logist.errors import StorageError

if TYPE_CHECKING:
    from pathlib import Path

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def find_resource(*parts: str) -> Path:
    """The path of a shipped file or directory, as in `find_resource("schemas", "llm-chat-schema.json")`.

    An installed wheel keeps them in `logist/_data/`, a checkout at the top of its tree.
    Raises StorageError if it is missing: the installation is incomplete.
    """
    from pathlib import Path  # noqa: PLC0415 - listings don't need it

    return Path(find_resource_name(*parts))


def find_resource_name(*parts: str) -> str:
    """The same as a plain string."""
    path = os.path.join(_find_data_folder(), *parts)
    if not os.path.exists(path):
        raise StorageError(
            "missing file: the installation of Logist is incomplete",
            where=path,
            fix="reinstall Logist",
        )
    return path


def load_schema(name: str) -> dict[str, Any]:
    """Load a shipped JSON schema, as in `load_schema("llm-chat-schema")`."""
    loaded: dict[str, Any] = json.loads(find_resource("schemas", f"{name}.json").read_text("utf-8"))
    return loaded


def _find_data_folder() -> str:
    data = os.path.join(_PACKAGE, "_data")
    return data if os.path.isdir(data) else os.path.dirname(_PACKAGE)
