"""Which projects may name programs to run: a config that came with a clone is not one's own word.

What a person has looked at and allowed is kept beside their own config, by place and content; when it changes,
it has to be allowed again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from logist.core.model import Role
from logist.errors import InvalidFile

POWERFUL = ("agents", "on_stuck", "sandbox", "tools")
"""Keys of a project's config that decide what is run on this machine, and how freely."""
YOLO = "yolo"
"""The mode of a review that merges work by itself."""
HARMLESS_AGENTS = ("litellm", "scripted:")
HERE = ("127.0.0.1", "localhost", "::1")

TRUSTED_FILE = "trusted.json"


def powers(data: dict[str, Any], roles: Iterable[Role] = ()) -> dict[str, Any]:
    """What a project's config and its role files say of programs, keys, the network and merging; {} if nothing."""
    said = {key: data[key] for key in POWERFUL if data.get(key) not in (None, {}, [])}
    agent, workspace = data.get("agent"), data.get("workspace")
    if isinstance(agent, str) and not agent.startswith(HARMLESS_AGENTS):
        said["agent"] = agent
    if isinstance(workspace, dict) and workspace.get("caches"):
        said["workspace.caches"] = workspace["caches"]  # what is in them is not held against a role
    if isinstance(workspace, dict) and workspace.get("setup"):
        said["workspace.setup"] = workspace["setup"]
    said |= dict(_reviewed(data.get("review")))
    said |= {f"models.{name}": entry for name, entry in _models(data) if _leads_away(entry)}
    return said | {
        f"roles.{role.name}": {"agent": role.agent, "network": role.network}
        for role in roles
        if role.agent or role.network
    }


def _reviewed(review: Any) -> Iterator[tuple[str, Any]]:
    """Programs that look at the work, and what lets it into one's repository without a look of one's own."""
    if not isinstance(review, dict):
        return
    checks = review.get("checks")
    for name, check in checks.items() if isinstance(checks, dict) else ():
        if isinstance(check, dict) and check.get("command"):
            yield f"review.checks.{name}.command", check["command"]
    if review.get("auto_merge"):
        yield "review.auto_merge", review["auto_merge"]
    if review.get("mode") == YOLO:
        yield "review.mode", YOLO


def _models(data: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    models = data.get("models")
    found = models.items() if isinstance(models, dict) else ()
    return [(name, entry) for name, entry in found if isinstance(entry, dict)]


def _leads_away(entry: dict[str, Any]) -> bool:
    """Whether it sends prompts or a key to an address of its own that is not this machine."""
    try:
        here = urlsplit(str(entry.get("endpoint") or "")).hostname in HERE
    except ValueError:
        here = False
    return not here and bool(entry.get("endpoint") or entry.get("api_key_env"))


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


def require(user_config_dir: Path, home: Path, said: dict[str, Any], files: Mapping[str, Path]) -> None:
    """InvalidFile for a project that names programs nobody has allowed; `files`: where it says each of them."""
    if not is_trusted(user_config_dir, home, said):
        named = ", ".join(f"`{key}`" for key in said)
        decide = "decides" if len(said) == 1 else "decide"
        raise InvalidFile(
            f"{named} of a project {decide} what runs on this machine or is merged, and you have not allowed that yet",
            where=", ".join(dict.fromkeys(str(files.get(key, home)) for key in said)),
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
