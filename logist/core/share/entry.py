"""Finds the texts of an interaction, and decides which of them must stay unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from logist.core.model import JsonObject
from logist.core.prompt.redaction_marks import MARKED, read_redaction_marks
from logist.core.secrets import redact
from logist.core.share import literals
from logist.core.share.replacing import Replacing
from logist.core.share.words import KEPT
from logist.digests import compute_sha256
from logist.quick_tuple import NamedTuple

_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{5,15}(?:Z|[+-][0-9:]{5})")
_HASHES = frozenset(
    {"checkpoint_before", "checkpoint_after", "exchange", "previous", "checksum", "sha256", "found", "schema"}
)
"""Fields that contain a commit or a hash."""
_SAID = frozenset({"input", "output", "item", "items", "values", "results", "aggregatedResults"})
"""Fields whose content comes from people and agents, whatever its keys are."""
_COUNTED = frozenset({"request.metadata", "observed.checks", "response.tools", "spec.roles"})
"""Fields whose content comes from Logist, whatever its keys are."""


SETTINGS = ("model", "provider_model", "endpoint", "permissions", "tools", "agent")
"""Metadata of a request that is also in the current files."""


class Field(NamedTuple):
    """A text of an interaction, and its path: `response.raw_response`."""

    path: str
    text: str
    is_count: bool = False
    """Whether it is a number from Logist (tokens, an attempt, a position), which no pattern may change."""


def texts(value: Any) -> list[Field]:
    """Return every text in a value, including the keys of objects, and numbers as text."""
    fields: list[Field] = []
    _collect_texts(value, "", False, fields)
    return fields


def _collect_texts(value: Any, path: str, said: bool | None, fields: list[Field]) -> None:
    if isinstance(value, str):
        fields.append(Field(path, value))
    elif isinstance(value, dict):
        for key, inner in value.items():
            shown = key
            if key not in KEPT:
                shown = "*"
                fields.append(Field(f"{path}, a field name" if path else "a field name", key))
            below = f"{path}.{shown}" if path else shown
            _collect_texts(inner, below, _is_said(key, below, said), fields)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            _collect_texts(inner, f"{path}[{number}]", said, fields)
    elif isinstance(value, int | float) and not isinstance(value, bool) and (said or _is_large(value)):
        fields.append(Field(path, json.dumps(value), not said))


def _is_said(key: str, path: str, said: bool | None) -> bool | None:
    """Whether the numbers below a field come from people and agents; `said` is the answer for the parent value.

    None if they come from Logist; this also applies to everything below them.
    """
    if said is None or path in _COUNTED:
        return None
    return said or key in _SAID or key not in KEPT or path == "response.metadata"


def _is_large(value: float) -> bool:
    """Whether a number has enough digits to be a secret."""
    return abs(value) >= 10**7


def unmatched(entry: JsonObject, replacing: Replacing) -> Iterator[str]:
    """Yield the fields of a changed interaction in which a pattern still matches something other than a stand-in."""
    told: set[str] = set()
    for path, text, is_count in texts(entry) if replacing.patterns else ():
        name = path.rpartition(".")[2].partition("[")[0]
        if path not in told and not (is_count or _stays(text, name)) and replacing.is_left(text):
            told.add(path)
            yield path


def leaks(entry: JsonObject, line: str, secrets: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each secret in an interaction, which is written as `line`: its field and its kind, not the secret itself."""
    told: set[tuple[str, str]] = set()
    secrets = literals.spelled(secrets)
    # JSON writes a backslash as two, and most entries have none.
    deep = [field for field in texts(entry) if not literals.is_plain(field.text)] if "\\\\" in line else ()
    for field in deep:
        for match in redact.find_secrets(field.text, secrets):
            told.add((field.path, match.kind))
    for match in redact.find_secrets(line, secrets):
        place = _place_of(entry, literals.unescaped(line[match.start : match.end]))
        if place or not any(kind == match.kind for _, kind in told):
            told.add((place or "the complete entry", match.kind))
    yield from sorted(told)


def _place_of(entry: JsonObject, secret: str) -> str | None:
    return next((field.path for field in texts(entry) if secret in field.text), None)


def changed(
    entry: JsonObject, replacing: Replacing, hashes: Mapping[str, str], *, is_clean: bool = False
) -> JsonObject:
    """Return the interaction for sharing; `hashes` maps the old hashes of its history to the new ones.

    `is_clean`: the first pass has found no secret in exactly this interaction by its format. The parts of the prompt get new positions and hashes. The store must still compute the checksum.
    """
    if replacing.redacts:
        replacing.look_into(entry, is_clean=is_clean)
    request = entry.get("request")
    rest = {name: value for name, value in entry.items() if name != "request"}
    done: JsonObject = _value(rest, "", replacing)
    steward = entry.get("steward")
    if isinstance(steward, dict) and isinstance(steward.get("name"), str):
        done["steward"] = {**done["steward"], "name": replacing.name(steward["name"])}
    if isinstance(done.get("command"), dict):
        # It no longer fits the changed texts, and contains the steward's public key.
        done["command"].pop("signature", None)
    exchange = entry.get("exchange")
    if isinstance(exchange, str) and exchange in hashes:
        done["exchange"] = hashes[exchange]
    if request is not None:
        done["request"] = _request(request, replacing)
    return {name: done[name] for name in entry if name in done} | done


def _request(request: Any, replacing: Replacing) -> Any:
    if not (isinstance(request, dict) and isinstance(request.get("prompt"), str)):
        return _value(request, "request", replacing)
    others = {name: value for name, value in request.items() if name != "prompt"}
    done: JsonObject = dict.fromkeys(request) | _value(others, "request", replacing)
    parts = [part for part in _list(request.get("parts")) if isinstance(part, dict)]
    metadata = request.get("metadata")
    start = metadata.get("user_start") if isinstance(metadata, dict) else None
    places = [place for part in parts for place in (part.get("start"), part.get("end"))]
    marks = [place for place in places if isinstance(place, int)]
    if len(marks) < len(places) or not isinstance(start, int | None):
        marks, start = [], None
    before = read_redaction_marks(metadata) if isinstance(metadata, dict) else ()
    redacted = {each for each in before if isinstance(each, int) or each in SETTINGS} | {
        *_others(request, done)
    }
    done["prompt"], moved = replacing.marked(request["prompt"], [*marks, start or 0])
    if isinstance(start, int):
        done["metadata"]["user_start"] = moved[-1]
    for number in range(len(marks) // 2):
        part = done["parts"][number]
        part["start"], part["end"] = moved[2 * number : 2 * number + 2]
        text = done["prompt"][part["start"] : part["end"]]
        part["sha256"] = compute_sha256(text.encode("utf-8", "surrogatepass"))
        start, end = marks[2 * number : 2 * number + 2]
        if _is_of_a_file(part) and text != request["prompt"][start:end]:
            redacted.add(number)
    if redacted:
        done["metadata"] = {**(done.get("metadata") or {}), MARKED: sorted(redacted, key=str)}
    return done


def _others(then: JsonObject, now: JsonObject) -> list[str]:
    """Return the names of the settings that have changed."""
    before, after = then.get("metadata"), now.get("metadata")
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return []
    return [name for name in SETTINGS if before.get(name) != after.get(name)]


def _is_of_a_file(part: JsonObject) -> bool:
    """Whether a part of a prompt comes from current files, and not only from the history."""
    return part.get("kind") == "rule" or "step" in str(part.get("source"))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _value(value: Any, path: str, replacing: Replacing, said: bool | None = False) -> Any:
    """Return a JSON value without private values; `path` is the path of its field, `said` as for `_is_said`."""
    if isinstance(value, str):
        return _text(value, path.rpartition(".")[2], replacing)
    if isinstance(value, dict):
        done: JsonObject = {}
        for key, inner in value.items():
            new_key = key if key in KEPT else replacing.text(key)
            if isinstance(inner, str):  # most values need no path
                done[new_key] = _text(inner, key.rpartition(".")[2], replacing)
            elif inner is None or isinstance(inner, bool):
                done[new_key] = inner
            else:
                below = f"{path}.{key}" if path else key
                done[new_key] = _value(inner, below, replacing, _is_said(key, below, said))
        return done
    if isinstance(value, list):
        return [_value(inner, path, replacing, said) for inner in value]
    if isinstance(value, int | float) and not isinstance(value, bool) and (said or _is_large(value)):
        return replacing.number(value, own=not said) if replacing.redacts else value
    return value


def _text(text: str, name: str, replacing: Replacing) -> str:
    if not _stays(text, name):
        return replacing.text(text)
    return replacing.hash(text) if name == "sha256" and _HASH.fullmatch(text) else text


def _stays(text: str, name: str) -> bool:
    """Whether a text is part of the format and stays: a fixed word, a time, or a hash."""
    if text in KEPT or (name == "timestamp" and _TIME.fullmatch(text)):
        return True
    return name in _HASHES and _HASH.fullmatch(text) is not None
