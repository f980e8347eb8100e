"""Which projects may name programs to run: a config that came with a clone is not one's own word.

What a person has looked at and allowed is kept beside their own config, by place and content; when it changes,
it has to be allowed again.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from logist.errors import InvalidFile

POWERFUL = ("agents", "on_stuck", "sandbox")
"""Keys of a project's config that decide what is run on this machine, and how freely."""

TRUSTED_FILE = "trusted.json"


def powers(data: dict[str, Any]) -> dict[str, Any]:
    """What a config says of programs; {} if nothing."""
    return {key: data[key] for key in POWERFUL if data.get(key) not in (None, {}, [])}


def is_trusted(user_config_dir: Path, home: Path, said: dict[str, Any]) -> bool:
    """Whether a person has allowed just this for the project in `home`."""
    return not said or _read(user_config_dir).get(_place(home)) == _fingerprint(said)


def trust(user_config_dir: Path, home: Path, said: dict[str, Any]) -> None:
    """Remembers that a person has allowed this; with nothing said, forgets the project."""
    known = _read(user_config_dir)
    known.pop(_place(home), None)
    if said:
        known[_place(home)] = _fingerprint(said)
    user_config_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = user_config_dir / f".{TRUSTED_FILE}.new"
    fresh.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")
    fresh.chmod(0o600)
    os.replace(fresh, user_config_dir / TRUSTED_FILE)


def require(user_config_dir: Path, home: Path, config: Path, data: dict[str, Any]) -> None:
    """InvalidFile for a project's config that names programs nobody has allowed."""
    said = powers(data)
    if not is_trusted(user_config_dir, home, said):
        named = ", ".join(f"`{key}`" for key in said)
        raise InvalidFile(
            f"{named} of a project decide what runs on this machine, and you have not allowed that yet",
            where=str(config),
            fix="look at it, then: logist trust",
        )


def _read(user_config_dir: Path) -> dict[str, str]:
    """What is remembered; a file that does not read, or is not one's own, is nothing."""
    path = user_config_dir / TRUSTED_FILE
    try:
        if os.lstat(path).st_uid not in (os.geteuid(), 0):
            return {}
        known = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _place(home: Path) -> str:
    return os.path.realpath(home)


def _fingerprint(said: dict[str, Any]) -> str:
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
