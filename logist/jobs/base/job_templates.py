"""Job templates: job.yaml files with placeholders, which are filled when a job is created.

Each text of the file is a template, see `core.template`. The file is read as YAML first, and then filled: so a value can't
add fields to the job.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from logist import documents
from logist.core.model import JobSpec
from logist.core.template import TemplateError, render
from logist.core.template.names import find_only_path, list_names
from logist.core.text import paths
from logist.documents import Document
from logist.errors import InvalidFile, UsageError
from logist.quick_dataclass import dataclass

FOLDER = "templates"
"""In the home directory of a project, and in the user's config directory."""
SUFFIXES = (".yaml", ".yml", ".json")

FieldPath = tuple[str | int, ...]


@dataclass(frozen=True)
class JobTemplate:
    """A template file."""

    path: Path
    document: Document
    names: frozenset[str] = field(default=frozenset())
    """The names of its values."""

    @property
    def name(self) -> str:
        return self.path.stem


def find_template(name: str, layers: Sequence[Path]) -> Path:
    """Return the file of a template: a path, or the name of a file in a `templates` directory.

    In `layers`, a later directory is stronger. Raises UsageError if there is none.
    """
    if "/" in name or name.endswith(SUFFIXES):
        if os.path.isfile(name):
            return Path(name).absolute()
        raise UsageError(f"template file not found: {name}", where="--from", fix="check the path")
    known = list_templates(layers)
    if name in known:
        return known[name]
    fix = (
        documents.suggest_names(name, known)
        or f"create .logist/{FOLDER}/{name}.yaml, or use the path of a file"
    )
    raise UsageError(f"template not found: {name}", where="--from", fix=fix)


def list_templates(layers: Sequence[Path]) -> dict[str, Path]:
    """Return the templates that can be named, each with the strongest of its files."""
    return {path.stem: path for layer in layers for path in list_template_files(layer)}


def list_template_files(layer: Path) -> list[Path]:
    """Return the template files of one directory with settings, sorted."""
    try:
        names = sorted(os.listdir(layer / FOLDER))
    except OSError:
        return []
    return [layer / FOLDER / name for name in names if name.endswith(SUFFIXES) and not name.startswith(".")]


def load_template(path: Path) -> JobTemplate:
    """Read a template. Raises InvalidFile for a field that no job has, and for an invalid placeholder."""
    try:
        document = documents.read_document(path)
    except InvalidFile as error:
        if not error.fix and error.message.startswith(
            "keys must be text"
        ):  # YAML reads {{NAME}} as a mapping
            error.fix = 'write placeholders in quotes: "{{NAME}}"'
        raise
    for problem in documents.find_unknown_keys(JobSpec, document).values():
        raise problem
    names: set[str] = set()

    def collect(text: str, place: FieldPath) -> str:
        names.update(list_names(text))
        return text

    _map_texts(document, collect)
    return JobTemplate(path, document, frozenset(names))


def fill_template(template: JobTemplate, values: Mapping[str, Any], typed: Mapping[str, str]) -> Document:
    """Return the job.yaml of a template with its values; `typed` are texts that a person typed, and `values` comes before it.

    A field that is only a placeholder gets the value itself: a number, a list, or anything else that the field can have.
    Raises UsageError for a value that is missing, or that the template doesn't have.
    """
    data = {**typed, **values}
    for name in sorted(data.keys() - template.names):
        fix = documents.suggest_names(name, template.names) or "it has no placeholders"
        raise UsageError(f"the template has no placeholder `{name}`", where=str(template.path), fix=fix)

    missing: dict[str, FieldPath] = {}

    def fill(text: str, place: FieldPath) -> Any:
        path = find_only_path(text)
        if path is not None and (value := paths.lookup(data, path)) is not paths.MISSING:
            is_typed = str(path[0]) in typed and str(path[0]) not in values
            return _convert_value(value, place, is_typed=is_typed)
        try:
            return render(text, data, strict=True).text
        except TemplateError as error:
            absent = list_names(text, inserted=True) - data.keys()
            named = [name for name in sorted(absent) if name in error.message]
            if not named:
                raise
            missing.setdefault(named[0], place)
            return text

    filled = _map_texts(template.document, fill)
    if missing:
        name, place = next(iter(missing.items()))
        message = f"missing value for {', '.join(f'`{each}`' for each in missing)}"
        options = " ".join(f"--set {each}=VALUE" for each in missing)
        it = "it" if len(missing) == 1 else "them"
        fix = f"to set {it}: {options}, or the same names in the lines of a batch"
        raise UsageError(message, where=_locate(template.document, place), fix=fix)
    return replace(template.document, data=filled)


def _convert_value(value: Any, place: FieldPath, *, is_typed: bool) -> Any:
    """Return a value as a field can have it; as it is, if the field can't have it: then it is refused with the field."""
    if isinstance(value, str):
        if is_typed and not documents.can_hold(JobSpec, place, str):
            return documents.parse_value(value)
        return value
    kind = type(value)
    if not documents.can_hold(JobSpec, place, kind) and documents.can_hold(JobSpec, place, str):
        return render("{{value}}", {"value": value}).text
    return value


def _map_texts(document: Document, change: Callable[[str, FieldPath], Any]) -> dict[str, Any]:
    """Return the data with every text that has a placeholder changed. Raises InvalidFile for a TemplateError."""

    def visit(value: Any, place: FieldPath) -> Any:
        if isinstance(value, dict):
            return {key: visit(each, (*place, key)) for key, each in value.items()}
        if isinstance(value, list):
            return [visit(each, (*place, number)) for number, each in enumerate(value)]
        if not isinstance(value, str) or "{{" not in value:
            return value
        try:
            return change(value, place)
        except TemplateError as error:
            message = f"`{documents.format_path(place)}`: {error.message}"
            raise InvalidFile(message, where=_locate(document, place)) from error

    filled: dict[str, Any] = visit(document.data, ())
    return filled


def _locate(document: Document, place: FieldPath) -> str:
    return f"{document.path}:{document.lines.get(documents.format_path(place), 1)}"
