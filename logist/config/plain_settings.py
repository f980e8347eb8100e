"""Reads settings that need no checks by code, without the models and YAML: none, or values like limits and times.

Everything else is left to `config.settings`, which also reports what is wrong.
"""

from __future__ import annotations

import os
from typing import Any

from logist.config.environment import find_coven_directory
from logist.config.merging import list_leaf_paths, merge_settings
from logist.config.shapes import SHAPES
from logist.core.model import plain
from logist.core.model.shapes import SHAPES as MODELS
from logist.core.text.simple_yaml import parse_simple_yaml
from logist.quick_tuple import NamedTuple
from logist.regular_files import read_regular

CONFIG_FILE = "config.yaml"
_MOST = 1 << 20
"""Maximum bytes of a config."""
_NOT_PLAIN = frozenset({"agent", "approval", "budget", "projects", "review", "roles", "steward"})
"""Keys from which other settings follow, or which a project may not set, besides those of which only the models can tell
whether they are valid."""
_SETTINGS = SHAPES["Settings"][1]

MODELS.update(SHAPES)


class PlainSettings(NamedTuple):
    """The settings as JSON, and the file that sets a field, by its path; the others have their defaults."""

    data: dict[str, Any]
    sources: dict[str, str]


def load_plain_settings(home: str, user_config_dir: str) -> PlainSettings | None:
    """Load the settings of the user and of the project; None if `config.settings.load_settings` must do it."""
    if find_coven_directory(home) is not None:
        return None
    data = {name: rest[0] for name, (_, *rest) in _SETTINGS.items()}
    sources: dict[str, str] = {}
    for path in dict.fromkeys(os.path.join(folder, CONFIG_FILE) for folder in (user_config_dir, home)):
        if not os.path.lexists(path):
            continue
        own = _read_file(path)
        if own is None:
            return None
        data = merge_settings(data, own)
        sources |= dict.fromkeys(list_leaf_paths(own), path)
    return PlainSettings(data, sources)


def _read_file(path: str) -> dict[str, Any] | None:
    """Return what a file sets; None if it is not plain."""
    try:
        if os.lstat(path).st_uid not in (os.geteuid(), 0):
            return None
        written = parse_simple_yaml(read_regular(path, _MOST).decode())
    except (OSError, ValueError):
        return None
    if written is None or written.keys() & _NOT_PLAIN:
        return None
    record = plain.read_record("Settings", written)
    return None if record is None else record.dump_set()
