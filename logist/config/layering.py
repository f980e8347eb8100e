"""One settings file: its owner, its short forms, and how it is merged with the files that it overrides."""

from __future__ import annotations

import os
import pwd
import shlex
from pathlib import Path
from typing import Any

from logist.config.sections import PRICES, endpoint_fault
from logist.documents import Document
from logist.errors import InvalidFile


def require_owner(path: Path) -> None:
    """Raise InvalidFile if the file belongs to another user: it names programs
    to run, and servers that get keys.
    """
    for stat_file in (os.lstat, os.stat):
        try:
            owner = stat_file(path).st_uid
        except OSError:
            return  # reading the file reports the problem
        if stranger := find_foreign_owner(owner, os.geteuid()):
            place = shlex.quote(str(path))
            raise InvalidFile(
                f"the file belongs to another user, {stranger}, and could run programs as you",
                where=str(path),
                fix=f"if you trust it, run: chown {os.geteuid()} {place}; if not, move it away: mv {place} {place}.foreign",
            )


def find_foreign_owner(uid: int, own: int) -> str | None:
    """Return the name and number of a user whose files must not be trusted; None for this user and root."""
    if uid in (own, 0):
        return None
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def drop_inherited_secrets(below: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return `own`; a model or provider with a changed address doesn't inherit the key, a changed model also not the
    prices.

    `price: free` and prices replace each other.

    Otherwise the config of a cloned project could have the user's key sent to its own server.
    """
    result = dict(own)
    for section in ("models", "providers"):
        entries, known = own.get(section), below[section]
        if isinstance(entries, dict):
            changed_entries = {
                name: _reset_fields(known[name], entry) | entry
                for name, entry in entries.items()
                if isinstance(entry, dict) and isinstance(known.get(name), dict)
            }
            result[section] = entries | changed_entries
    return result


_NO_PRICES: dict[str, Any] = {**dict.fromkeys(PRICES), "tiers": []}


def _reset_fields(known: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """Return the inherited fields that don't apply to a model with these changes, with the values to use instead."""
    differs = {
        key
        for key in ("endpoint", "provider_model", "base_url")
        if key in entry and entry[key] != known.get(key)
    }
    reset: dict[str, Any] = dict.fromkeys(["api_key_env"] if differs else [])
    if "provider_model" in differs:
        reset |= {**_NO_PRICES, "price": None, "context_window": None}
    if entry.get("price") is not None:
        reset |= _NO_PRICES
    if entry.keys() & _NO_PRICES.keys():
        reset["price"] = None
    if entry.keys() & {"input_price", "output_price"}:
        reset["tiers"] = []  # inherited tiers belong to other prices
    return reset


def check_endpoints(document: Document) -> None:
    """Raise InvalidFile for an invalid address, without the URL in the message, because it may contain a key."""
    for section, key in (("models", "endpoint"), ("providers", "base_url")):
        entries = document.data.get(section)
        for name, entry in entries.items() if isinstance(entries, dict) else ():
            endpoint = entry.get(key) if isinstance(entry, dict) else None
            fault = endpoint_fault(endpoint) if isinstance(endpoint, str) and endpoint else None
            if fault:
                field = f"{section}.{name}.{key}"
                raise InvalidFile(
                    f"`{field}` {fault}",
                    where=f"{document.path}:{document.lines.get(field, 1)}",
                    fix="use a URL without a key; put the key in the environment variable that `api_key_env` names",
                )


USER_KEYS = ("projects", "steward")
"""Keys that only the user's own config can set: a cloned project must not choose which other projects are read, and an
agent that can write to a project must not choose how decisions are signed.
"""


def refuse_user_keys(document: Document, user_file: Path) -> None:
    """Raise InvalidFile if a config of a project sets one of USER_KEYS."""
    for key in USER_KEYS:
        if key in document.data:
            raise InvalidFile(
                f"`{key}` can't be set by a project, only in your own config",
                where=f"{document.path}:{document.lines.get(key, 1)}",
                fix=f"move it to {user_file}",
            )


SHORT_FORMS = {("review",): "enabled", ("workspace", "setup"): "commands"}
"""The sections that can be written as the value of one of their fields."""


def shorten_section(path: tuple[str, ...], section: dict[str, Any], fields_set: dict[str, Any]) -> Any:
    """Return a section as a person writes it: its short form if that has all of `fields_set`, else these fields."""
    field = SHORT_FORMS.get(path)
    return section[field] if field is not None and fields_set.keys() <= {field} else fields_set


def expand_short_forms(data: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Return the data with short forms written out, and the path of the agent made absolute."""
    data = dict(data)
    if isinstance(data.get("review"), bool):
        data["review"] = {"enabled": data["review"]}
    workspace = data.get("workspace")
    if isinstance(workspace, dict) and isinstance(workspace.get("setup"), str | list):
        setup = workspace["setup"]
        commands = [setup] if isinstance(setup, str) else setup
        data["workspace"] = {**workspace, "setup": {"commands": commands}}
    if isinstance(data.get("approval"), bool):
        data["approval"] = "end" if data["approval"] else "none"
    agent = data.get("agent")
    if isinstance(agent, str) and agent.startswith("scripted:") and agent != "scripted:":
        data["agent"] = f"scripted:{os.path.abspath(directory / agent.removeprefix('scripted:'))}"
    return data


def drop_other_spellings(below: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return `below` without the task types that `own` maps to a role, ignoring case."""
    own_types = {word.casefold() for word in _get_type_mapping(own)}
    other_types = {
        word: role for word, role in _get_type_mapping(below).items() if word.casefold() not in own_types
    }
    return below | {"roles": below["roles"] | {"type_mapping": other_types}} if own_types else below


def append_patterns_below(below: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return `own` with the patterns of `below` added: no project can remove the user's patterns.

    Its own patterns come first, so that errors name the right position in the file.
    """
    if (written := get_patterns(own)) is None:
        return own
    patterns_below = get_patterns(below) or []
    patterns = [*written, *(pattern for pattern in patterns_below if pattern not in written)]
    return own | {"redact": own["redact"] | {"patterns": patterns}}


def get_patterns(data: dict[str, Any]) -> list[Any] | None:
    """Return the list under `redact.patterns`; None if there is no list."""
    redact = data.get("redact")
    patterns = redact.get("patterns") if isinstance(redact, dict) else None
    return patterns if isinstance(patterns, list) else None


def _get_type_mapping(data: dict[str, Any]) -> dict[str, Any]:
    roles = data.get("roles")
    mapping = roles.get("type_mapping") if isinstance(roles, dict) else None
    return mapping if isinstance(mapping, dict) else {}
