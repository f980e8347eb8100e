"""Validates a document with a model; errors name the line and the field."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Annotated, Any, TypeVar, get_args, get_origin

from logist.core.text.field_problems import Path, describe_misfit, find_real_path, join_alternatives
from logist.documents.reading import Document, join_field_path
from logist.errors import InvalidFile
from logist.quick_model import BaseModel, ValidationError

Checked = TypeVar("Checked", bound=BaseModel)

_SLIP = 0.8
"""The least similarity of two words that differ in one or two letters."""


def validate_document(model: type[Checked], document: Document) -> Checked:
    """Return the document as an instance of the model. Raises InvalidFile for the first error.

    Types are strict: the text "no" is not false, and "5" is not a number.
    """
    try:
        return _validate_model(model, document)
    except ValidationError as error:
        problems = _to_problems(error)
    raise _build_error(model, document, problems)


def _validate_model(model: type[Checked], document: Document) -> Checked:
    # From JSON, strict still turns lists to tuples and words to enum members.
    return model.model_validate_json(json.dumps(document.data), strict=True)


def _find_problems(model: type[BaseModel], document: Document) -> list[dict[str, Any]]:
    try:
        _validate_model(model, document)
    except ValidationError as error:
        return _to_problems(error)
    return []


def _to_problems(error: ValidationError) -> list[dict[str, Any]]:
    return [dict(problem) for problem in error.errors(include_url=False)]


def find_document_faults(model: type[BaseModel], document: Document) -> dict[str, InvalidFile]:
    """Return every error that `validate_document` could raise for the document, by the path of the field."""
    by_path: dict[Path, list[dict[str, Any]]] = {}
    for problem in _find_problems(model, document):
        by_path.setdefault(find_real_path(document.data, problem), []).append(problem)
    return {
        format_path(path): _build_error(model, document, path_problems)
        for path, path_problems in by_path.items()
    }


def find_unknown_keys(model: type[BaseModel], document: Document) -> dict[Path, InvalidFile]:
    """Return the keys that the model does not have, by path, each with the error of `validate_document`."""
    unknown = [each for each in _find_problems(model, document) if each["type"] == "extra_forbidden"]
    return {find_real_path(document.data, one): _build_error(model, document, [one]) for one in unknown}


def find_misspelled_keys(model: type[BaseModel], document: Document) -> dict[Path, InvalidFile]:
    """Return those of `find_unknown_keys` that are spelled almost like a key of the model: typing errors."""
    return {
        path: problem
        for path, problem in find_unknown_keys(model, document).items()
        if _find_close_matches(str(path[-1]), _collect_known_keys(model, path[:-1]), n=1, cutoff=_SLIP)
    }


def remove_keys(document: Document, keys: Iterable[Path]) -> Document:
    """Return the document without these keys; the lines of the other fields do not change."""
    data = copy.deepcopy(document.data)
    for *parents, key in keys:
        container: Any = data
        for part in parents:
            container = container[part]
        del container[key]
    return replace(document, data=data)


def suggest_names(word: str, known: Iterable[str]) -> str | None:
    """Return advice for an unknown word: the similar known ones, or the list of all known ones."""
    names = sorted(known)
    lower = {name.lower(): name for name in reversed(names)}
    similar = [lower[name] for name in _find_similar(word, lower)]
    if similar:
        return f"did you mean {join_alternatives([f'`{name}`' for name in similar])}?"
    return f"known: {', '.join(names)}" if names else None


def find_key_path(model: type[BaseModel], key: str, *, entry: bool = False) -> tuple[str, ...] | None:
    """Return the path that a dotted key means in documents of the model; None if no such document can have it.

    Names that a document chooses itself, like that of a model, may contain dots: such a name is taken as
    short as possible. `entry`: the key may also end with such a name, and then means a complete mapping.
    """
    return next(_find_key_paths(model, tuple(key.split(".")), entry=entry), None)


def _find_key_paths(annotation: Any, words: tuple[str, ...], *, entry: bool) -> Iterator[tuple[str, ...]]:
    if not words:
        yield ()
    for shape in _list_shapes(annotation) if words else ():
        if _is_model(shape) and words[0] in shape.model_fields:
            inner = shape.model_fields[words[0]].annotation
            yield from ((words[0], *rest) for rest in _find_key_paths(inner, words[1:], entry=entry))
        elif get_origin(shape) is dict:
            yield from _find_named_paths(get_args(shape)[1], words, entry=entry)


def _find_named_paths(annotation: Any, words: tuple[str, ...], *, entry: bool) -> Iterator[tuple[str, ...]]:
    for count in range(1, len(words)):
        name, rest = ".".join(words[:count]), words[count:]
        yield from ((name, *path) for path in _find_key_paths(annotation, rest, entry=entry))
    if entry or not any(_is_model(shape) for shape in _list_shapes(annotation)):
        yield (".".join(words),)


def list_known_keys(model: type[BaseModel], above: str = "") -> list[str]:
    """List the dotted keys of the model, except in mappings whose names a document chooses itself."""
    keys: list[str] = []
    for name, field in model.model_fields.items():
        inner_models = [shape for shape in _list_shapes(field.annotation) if _is_model(shape)]
        for shape in inner_models:
            keys += list_known_keys(shape, f"{above}{name}.")
        if not inner_models:
            keys.append(f"{above}{name}")
    return keys


def suggest_key(model: type[BaseModel], key: str) -> str | None:
    """Return advice for a dotted key that the model does not have: what its first unknown part may mean."""
    words = key.split(".")
    for end in range(len(words) - 1, -1, -1):
        above = find_key_path(model, ".".join(words[:end]), entry=True) if end else ()
        if above is not None and (known := _collect_known_keys(model, above)):
            return suggest_names(words[end], known)
    return None


def _build_error(model: type[BaseModel], document: Document, problems: list[dict[str, Any]]) -> InvalidFile:
    first = _find_misspelled(problems) or problems[0]
    path = find_real_path(document.data, first)
    where = f"{document.path}:{_find_line(document, path)}"
    field = format_path(path)
    if first["type"] == "missing":
        return InvalidFile(f"`{field}` is missing", where=where)
    if first["type"] == "extra_forbidden":
        advice = suggest_names(str(path[-1]), _collect_known_keys(model, path[:-1]))
        return InvalidFile(f"unknown key `{field}`", where=where, fix=advice)
    misfit = describe_misfit(one for one in problems if find_real_path(document.data, one) == path)
    return InvalidFile(f"`{field}` {misfit}", where=where)


def _find_misspelled(problems: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the problem of the unknown key that was meant to be the missing key of the first problem.

    None if the first problem is not a missing key, or no unknown key next to it is similar.
    """
    first = problems[0]
    if first["type"] != "missing":
        return None
    *parents, wanted = first["loc"]
    for problem in problems:
        *place, key = problem["loc"]
        if (
            problem["type"] == "extra_forbidden"
            and place == parents
            and _find_similar(str(key), [str(wanted)])
        ):
            return problem
    return None


def _find_similar(word: str, names: Iterable[str]) -> list[str]:
    return _find_close_matches(word, [name.lower() for name in names], n=3, cutoff=0.6)


def _find_close_matches(word: str, names: Iterable[str], *, n: int, cutoff: float) -> list[str]:
    from difflib import get_close_matches  # noqa: PLC0415 - only the advice of an error needs it

    return get_close_matches(word.lower(), [*names], n=n, cutoff=cutoff)


def _find_line(document: Document, path: Path) -> int:
    """Return the line of the field or, if it is missing, of the nearest field around it."""
    for end in range(len(path), -1, -1):
        if line := document.lines.get(format_path(path[:end])):
            return line
    return 1


def can_hold(model: type[BaseModel], path: Path, kind: type) -> bool:
    """Whether a field of the model can have values of this type; True also for a field that can have any."""
    annotations: list[Any] = [model]
    for part in path:
        annotations = [inner for shape in annotations for inner in _list_inner_annotations(shape, part)]
    shapes = [shape for outer in annotations for shape in _list_shapes(outer)]
    return not shapes or any(_is_of_kind(shape, kind) for shape in shapes)


def _is_of_kind(shape: Any, kind: type) -> bool:
    if shape is Any or (kind is dict and _is_model(shape)):
        return True
    if not isinstance(shape, type):  # a list, or a word of a Literal
        return isinstance(shape, kind) or get_origin(shape) is kind
    return issubclass(shape, kind) or (kind is int and shape is float)


def format_path(path: Path) -> str:
    """Return a path as messages show it."""
    formatted = ""
    for part in path:
        formatted = join_field_path(formatted, part)
    return formatted


def _collect_known_keys(model: type[BaseModel], path: Path) -> set[str]:
    annotations: list[Any] = [model]
    for part in path:
        annotations = [inner for shape in annotations for inner in _list_inner_annotations(shape, part)]
    models = [shape for outer in annotations for shape in _list_shapes(outer)]
    return {name for shape in models if _is_model(shape) for name in shape.model_fields}


def _list_inner_annotations(annotation: Any, part: str | int) -> Iterator[Any]:
    """Yield the annotations of what is under this key or index."""
    for shape in _list_shapes(annotation):
        if _is_model(shape):
            if isinstance(part, str) and part in shape.model_fields:
                yield shape.model_fields[part].annotation
        elif get_origin(shape) is dict:
            yield get_args(shape)[1]
        elif get_origin(shape) in {list, tuple}:
            yield get_args(shape)[0]


def _list_shapes(annotation: Any) -> Iterator[Any]:
    """Yield the members of a union, without their annotations."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _list_shapes(get_args(annotation)[0])
    elif origin in {None, dict, list, tuple}:
        yield annotation
    else:
        for member in get_args(annotation):
            yield from _list_shapes(member)


def _is_model(shape: Any) -> bool:
    return isinstance(shape, type) and issubclass(shape, BaseModel)
