"""The spec of a new job: a spec file, overridden by the options of `job create`."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from logist import documents
from logist.config.environment import require_utf8
from logist.core.model import JobSpec
from logist.core.text.ids import JOB_ID_PATTERN, is_job_id
from logist.documents import Document
from logist.errors import InvalidFile, UsageError

PROMPT_FILES = (".md", ".txt")
SPEC_FILES = (".yaml", ".yml", ".json")


def apply_task_argument(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with the argument as the prompt, if it is the text of a task and not a file name."""
    argument = options["spec_file"]
    if argument is None or len(argument.split()) < 2 or os.path.lexists(argument):
        return options
    if options["prompt"] is not None or options["prompt_file"]:
        raise UsageError(
            "more than one prompt", where="TASK", fix="use only one of TASK, --prompt and --file"
        )
    return {**options, "spec_file": None, "prompt": argument}


def warn_missing_file(options: dict[str, Any]) -> tuple[str, ...]:
    """Warn about a task that looks like a file name, if there is no such file."""
    task = options["spec_file"] or ""
    if apply_task_argument(options) is options or not task.endswith((*PROMPT_FILES, *SPEC_FILES)):
        return ()
    return (f"file not found: {task!r}; using it as the text of the task",)


def read_spec(options: dict[str, Any], filled: Document | None = None) -> tuple[str, JobSpec]:
    """Return the text of job.yaml as the user wrote it (or "") and the spec. `filled`: the job.yaml of a template."""
    changes = collect_changes(options)
    if filled is not None:
        return "", documents.validate_document(JobSpec, override_fields(filled, changes))
    if options["spec_file"] is None:
        document = documents.parse_document(documents.dump_yaml(_nest_changes(changes)), "options")
        return "", documents.validate_document(JobSpec, document)
    name, text = _read_text(options["spec_file"], "spec", _suggest_option(options))
    if name.endswith(PROMPT_FILES):
        raise UsageError(f"{name} is not a spec file", where="SPEC", fix=f"use --file {name}")
    edited = documents.edit_text(text, name, changes) if changes else text
    spec = documents.validate_document(JobSpec, documents.parse_document(edited, name))
    return ("" if name.endswith(".json") or edited.lstrip().startswith("{") else edited), spec


def collect_changes(options: dict[str, Any]) -> dict[tuple[str, ...], object | None]:
    """Return the fields of the spec that the options set, by path. Raises UsageError for options that contradict each other."""
    if options["prompt"] is not None and options["prompt_file"]:
        raise UsageError("more than one prompt", where="--file", fix="use either --prompt or --file")
    if options["repo"] and options["no_repo"]:
        raise UsageError("can't use --repo and --no-repo together", where="--no-repo")
    prompt = options["prompt"]
    if options["prompt_file"]:
        prompt = _read_text(options["prompt_file"], "prompt")[1]
    if prompt is not None and not prompt.strip():
        raise UsageError("the prompt is empty", where="--prompt")
    job_id = options["job_id"]
    if job_id is not None and not is_job_id(job_id):
        raise UsageError(f"invalid job id {job_id!r}", where="--id", fix=f"an id must match {JOB_ID_PATTERN}")
    values: dict[tuple[str, ...], object | None] = {
        ("id",): job_id,
        ("title",): options["title"],
        ("prompt",): prompt,
        ("acceptance_criteria",): list(options["criteria"]) or None,
        ("files",): list(options["files"]) or None,
        ("tags",): list(options["tags"]) or None,
        ("task_type",): options["task_type"],
        ("role",): options["role"],
        ("model",): options["model"],
        ("repo",): False if options["no_repo"] else options["repo"] and _make_absolute(options["repo"]),
        ("review",): options["review"],
        ("review_mode",): options["review_mode"],
        ("approval",): options["approval"],
        ("rank",): options["rank"],
        ("after",): list(options["after"]) or None,
        ("workflow",): options["workflow"],
        ("input",): parse_json_option(options["input_"], "--input"),
    }
    for name in ("cost_threshold", "time_threshold_minutes", "max_allowed_iterations", "max_attempts"):
        values["limits", name] = options[name]
    return {path: value for path, value in values.items() if value is not None}


def override_fields(document: Document, changes: dict[tuple[str, ...], object | None]) -> Document:
    """Return the document with other values of these fields."""
    data = dict(document.data)
    for (key, *inner), value in changes.items():
        if not inner:
            data[key] = value
        elif isinstance(held := data.get(key, {}), dict):  # validation refuses anything else
            data[key] = {**held, inner[0]: value}
    return replace(document, data=data)


def parse_json_option(text: str | None, option: str) -> Any:
    """Return the JSON value of an option, or of the file after `@`; None without the option. Raises UsageError."""
    if text is None:
        return None
    name = text[1:] if text.startswith("@") else ""
    try:
        value = json.loads(_read_text(name, "JSON")[1] if name else text, parse_constant=_reject_constant)
        is_deep = _is_deep(value)
    except RecursionError:
        is_deep = True
    except ValueError as error:
        fix = "correct the file" if name else "quote it for the shell: '{\"n\": 1}', or name a file: @FILE"
        raise UsageError(f"invalid JSON: {error}", where=name or option, fix=fix) from None
    if is_deep:
        raise UsageError(f"nested more than {documents.MAX_DEPTH} levels deep", where=name or option)
    return value


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a finite number")


def _is_deep(value: Any) -> bool:
    layer = [value]
    for _ in range(documents.MAX_DEPTH + 1):
        layer = [
            held
            for each in layer
            if isinstance(each, dict | list)
            for held in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(layer)


def find_base_directory(options: dict[str, Any]) -> Path:
    """Return the base directory for relative paths in a spec: the directory of the file, or the current one if the
    paths come from options, or from a template, which may be far away.
    """
    name: str | None = options["spec_file"] or (None if options["template"] else options["batch_file"])
    if name is None or name == "-" or options["workflow"] is not None:
        return Path.cwd()
    return Path(name).absolute().parent


def _make_absolute(repository: str) -> str:
    return require_utf8(str(Path(repository).absolute()), "the repository path", "use UTF-8 characters")


def _nest_changes(changes: dict[tuple[str, ...], object | None]) -> dict[str, object]:
    data: dict[str, Any] = {}
    for path, value in changes.items():
        place = data
        for key in path[:-1]:
            place = place.setdefault(key, {})
        place[path[-1]] = value
    return data


def _suggest_option(options: dict[str, Any]) -> str | None:
    """Return the option that a user may have meant, if the argument is not a file."""
    name = options["spec_file"]
    if options["prompt"] is None and not options["prompt_file"]:
        return "to use a text as the task: --prompt TEXT"
    return f"to choose the id: --id {name}" if is_job_id(name) and options["job_id"] is None else None


def _read_text(name: str, what: str, fix: str | None = None) -> tuple[str, str]:
    """Return the name for messages, and the text. `fix`: the advice if the file can't be read."""
    try:
        if name == "-":
            return "standard input", sys.stdin.buffer.read().decode("utf-8")
        data = documents.read_content(name)
        if len(data) > documents.MAX_BYTES:
            raise InvalidFile(f"the file is larger than {documents.MAX_BYTES:,} bytes", where=name)
        return name, data.decode("utf-8")
    except OSError as error:
        raise UsageError(f"can't read the {what}: {error.strerror}", where=name, fix=fix) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the {what} is not UTF-8 text", where=name) from error
