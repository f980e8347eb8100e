"""Changes one key of a config file: comments are kept, and nothing invalid is written."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from logist import documents
from logist.config.layering import shorten_section
from logist.config.locking import hold_lock
from logist.config.settings import CONFIG_FILE, DEFAULT, LoadedSettings, Settings, load_settings
from logist.config.trust import read_trust
from logist.documents import Document
from logist.errors import InvalidFile, UsageError
from logist.jobs.base import project_home
from logist.jobs.base.call_limits import list_call_rates
from logist.quick_dataclass import dataclass
from logist.regular_files import IRREGULAR, read_regular
from logist.store import replace_file

LOCK_FILE = ".config.lock"
SHARED, PRIVATE = 0o644, 0o600
"""Permissions of a new file: a project's is for version control, the user's own may contain private data."""

FieldPath = tuple[str, ...]


@dataclass(frozen=True)
class ConfigFile:
    """The config.yaml of a project, or that of the user."""

    home: Path
    """The directory that contains it."""
    user_config_dir: Path
    needs_trust: bool
    """It belongs to a project, so the user must trust its settings."""

    @property
    def path(self) -> Path:
        return self.home / CONFIG_FILE

    @property
    def is_own(self) -> bool:
        """True for the user's own file, which applies to all projects."""
        return self.home == self.user_config_dir

    def load_with(self, document: Document) -> LoadedSettings:
        """Load the settings with this document in place of the file. Raises InvalidFile."""
        return load_settings(self.home, self.user_config_dir, instead={self.path: document})


@dataclass(frozen=True)
class Setting:
    """An effective value, and where it comes from."""

    value: Any
    source: str
    """A file, `default`, or empty if nothing sets it, or several files."""
    short: Any = None
    """For a section that the file does not set: its value as a person writes it, without the fields that have
    their defaults."""


@dataclass(frozen=True)
class ConfigChange:
    """What a command has changed, or would change."""

    file: Path
    key: str
    before: Setting
    after: Setting
    changes_file: bool


def change_key(file: ConfigFile, key: str, value: Any, *, dry_run: bool = False) -> ConfigChange:
    """Set a key of the file, or remove it if the value is None.

    A change that the user makes this way is trusted at once, but nothing else in the file (see
    `Trust.allow_change`). Raises UsageError for an unknown key or an invalid value, InvalidFile for a
    file that is already invalid.
    """
    if dry_run:
        return _apply_change(file, key, value, write=False)
    with _lock_config(file):
        return _apply_change(file, key, value, write=True)


def read_own_value(file: ConfigFile, path: FieldPath) -> Any:
    """Return what the file itself sets at a path; None if it sets nothing. Raises InvalidFile."""
    return _value_at(documents.parse_document(_read_file(file)[0], str(file.path)).data, path)


@contextmanager
def _lock_config(file: ConfigFile) -> Iterator[None]:
    """Keep other commands from changing the file. A project's lock file is
    among the jobs, which git ignores.
    """
    if file.is_own:
        file.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = file.home
    else:
        project_home.ensure_project_home(file.home)
        folder = file.home / "jobs"
        project_home.ensure_folder(folder)
    with hold_lock(folder / LOCK_FILE):
        yield


def _apply_change(file: ConfigFile, key: str, value: Any, *, write: bool) -> ConfigChange:
    text, mode = _read_file(file)
    old = documents.parse_document(text, str(file.path))
    key = _spell_out_switch(old.data, key, value)
    path = _resolve_key_path(old.data, key, value)
    edited = documents.edit_text(text, str(file.path), {path: value})
    new = documents.parse_document(edited, str(file.path))
    before, after = _load_both(file, old, new)
    if value is not None and path[0] == "rate_limits":
        _require_known_names(after)
    if write and edited != text:
        replace_file(file.path, edited.encode("utf-8"), mode)
    if write and file.needs_trust:
        # After the file: if the process is killed in between, the user has to confirm once more.
        claims = read_trust(file.user_config_dir, file.home, before).claims if before else ()
        trust = read_trust(file.user_config_dir, file.home, after)
        trust.allow_change(claims, path, str(file.path))
    return ConfigChange(
        file.path,
        key,
        _find_setting(file, old, before, path),
        _find_setting(file, new, after, path),
        edited != text,
    )


def _read_file(file: ConfigFile) -> tuple[str, int]:
    """The text of the file and its permissions; an empty text if it does not exist."""
    try:
        data = read_regular(file.path, documents.MAX_BYTES)
        return data.decode("utf-8"), stat.S_IMODE(os.lstat(file.path).st_mode)
    except FileNotFoundError:
        return "", PRIVATE if file.is_own else SHARED
    except UnicodeDecodeError as error:
        raise InvalidFile("is not UTF-8 text", where=str(file.path)) from error
    except OSError as error:
        what = "is a symbolic link" if file.path.is_symlink() else f"can't be read: {error.strerror}"
        fix = "edit the file that it points to" if file.path.is_symlink() else None
        is_irregular = error.errno in IRREGULAR and not file.path.is_symlink()
        raise InvalidFile(
            what, where=str(file.path), fix="move it away and run the command again" if is_irregular else fix
        ) from error


def _spell_out_switch(data: dict[str, Any], key: str, value: Any) -> str:
    """Return `review.enabled` for `review` if the file has other settings of it: `review: false` would remove them."""
    has_settings = key == "review" and isinstance(value, bool) and isinstance(data.get(key), dict)
    return "review.enabled" if has_settings else key


def _resolve_key_path(data: dict[str, Any], key: str, value: Any) -> FieldPath:
    """The path that a dotted key means. Names in the file take precedence, because they may contain dots."""
    if not all(key.split(".")):
        raise UsageError(f"invalid key {key!r}", fix="for example: limits.cost_threshold")
    if value is None and (existing := _find_existing_path(data, key.split("."))):
        return existing  # also an unknown key, which may be the reason to remove it
    path = documents.find_key_path(Settings, key)
    entry = documents.find_key_path(Settings, key, entry=True)
    if (
        path is None
        and entry is not None
        and (value is None or isinstance(value, dict) or "." not in entry[-1])
    ):
        path = entry
    if path is None:
        raise UsageError(f"unknown key `{key}`", fix=documents.suggest_key(Settings, key))
    return path


def _find_existing_path(data: Any, words: list[str]) -> FieldPath | None:
    """Find the path of a dotted key in a document that has it."""
    if not words:
        return ()
    for count in range(1, len(words) + 1) if isinstance(data, dict) else ():
        name = ".".join(words[:count])
        if name in data and (rest := _find_existing_path(data[name], words[count:])) is not None:
            return (name, *rest)
    return None


def _require_known_names(loaded: LoadedSettings) -> None:
    """Raise UsageError for a rate limit of an unknown provider or model, which no call would get past."""
    try:
        list_call_rates(loaded.settings)
    except InvalidFile as error:
        raise UsageError(error.message, where=error.where, fix=error.fix) from error


def _load_both(
    file: ConfigFile, old: Document, new: Document
) -> tuple[LoadedSettings | None, LoadedSettings]:
    """The settings before and after; None for those before if the file is already invalid."""
    try:
        after = file.load_with(new)
    except InvalidFile as error:
        file.load_with(old)  # raises for what was already invalid, with its own line
        raise UsageError(error.message, fix=error.fix) from error
    try:
        return file.load_with(old), after
    except InvalidFile:
        return None, after


def _find_setting(
    file: ConfigFile, document: Document, loaded: LoadedSettings | None, path: FieldPath
) -> Setting:
    """The value at a path: from the file, else the value that applies without it."""
    written = _value_at(document.data, path)
    if written is not None:
        return Setting(written, str(file.path))
    if loaded is None:
        return Setting(None, "")
    value = _value_at(loaded.settings.model_dump(mode="json"), path)
    key = ".".join(path)
    if not isinstance(value, dict) or key in loaded.sources:
        return Setting(value, loaded.sources.get(key, ""))
    short = _keep_what_is_set(value, key, loaded.sources)
    files = {source for name, source in loaded.sources.items() if name.startswith(f"{key}.")} - {DEFAULT}
    source = files.pop() if len(files) == 1 else "" if files else DEFAULT
    return Setting(value, source, shorten_section(path, value, short))


def _keep_what_is_set(section: dict[str, Any], key: str, sources: dict[str, str]) -> dict[str, Any]:
    """Return the section without the fields that have their defaults."""
    kept: dict[str, Any] = {}
    for name, value in section.items():
        inner = f"{key}.{name}"
        if inner in sources:
            kept |= {name: value} if sources[inner] != DEFAULT else {}
        elif isinstance(value, dict) and (fields := _keep_what_is_set(value, inner, sources)):
            kept[name] = fields
    return kept


def _value_at(data: Any, path: FieldPath) -> Any:
    for name in path:
        if not isinstance(data, dict):
            return None
        data = data.get(name)
    return data
