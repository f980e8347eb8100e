"""Lists the shipped roles for a project that has no others, without reading YAML."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from logist.digests import compute_sha256
from logist.errors import LogistError
from logist.resources import find_resource_name
from logist.roles.shipped import DIGEST, ROWS


def list_shipped_roles(layers: Iterable[str]) -> list[dict[str, Any]] | None:
    """Return the roles as `logist role list --json` has them, by name.

    None if one of the layers (see `list_config_directories`) may have roles too, or if a shipped file was changed:
    then `load_roles` must read them.
    """
    try:
        if any(map(_has_files, layers)):
            return None
        folder = find_resource_name("roles")
        contents = []
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), "rb") as file:
                contents.append(file.read())
    except (OSError, LogistError):
        return None
    if compute_sha256(*contents) != DIGEST:
        return None
    return [row | {"file": os.path.join(folder, row["file"])} for row in ROWS]


def _has_files(layer: str) -> bool:
    """Whether a directory has roles, or anything else that only `load_roles` understands."""
    try:
        return bool(os.listdir(os.path.join(layer, "roles")))
    except FileNotFoundError:
        return False
