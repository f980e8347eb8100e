"""The scripted agent: archived answers, replayed in order, at no cost."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

from logist import documents
from logist.agents.protocol import Ask
from logist.core.model import ErrorKind, Frozen, JsonObject, Reply, TransportError, Usage
from logist.core.replay.old_entry import find_logged_operation, read_old_answer
from logist.core.text.surrogates import replace_surrogates
from logist.errors import Damaged, InvalidFile, Refused
from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass
from logist.quick_model import Field
from logist.store import HISTORY, history, segments
from logist.store.entries import read_header


class ScriptedFailure(Frozen):
    """Why a scripted answer fails."""

    kind: ErrorKind
    message: str
    http_status: int | None = None


class ScriptedUsage(Frozen):
    """The usage that a scripted answer reports."""

    input_tokens: Annotated[int, Field(ge=0)] = 0
    output_tokens: Annotated[int, Field(ge=0)] = 0
    cost_cents: Annotated[int, Field(ge=0)] = 0
    cost_microcents: Annotated[int, Field(ge=0, lt=1_000_000)] = 0
    seconds: Annotated[float, Field(ge=0)] = 0.0


class ScriptedAnswer(Frozen):
    """One answer of a script; `exit` is an exit command, which becomes the text of the answer."""

    text: str | None = None
    exit: JsonObject | None = None
    role: str | None = None
    """The role that must use this answer."""
    files: dict[str, str | None] = Field(default_factory=dict)
    """Files to write to the workspace before the answer; null deletes the file."""
    usage: ScriptedUsage | None = None
    finish: str | None = "stop"
    error: ScriptedFailure | None = None


class Script(Frozen):
    """A script file: `answers` in the order of the asks, or separate lists for the steps of a workflow.

    `steps` has, by step id, the answers for that step in the order of its asks; for a step that several jobs do,
    `C[2]` has the answers for the second item.
    """

    answers: list[ScriptedAnswer] | None = None
    steps: dict[str, list[ScriptedAnswer]] = Field(default_factory=dict)


@dataclass(frozen=True)
class Scripted:
    """Returns the answers of a script, or of an archived job."""

    name: str
    answers: tuple[ScriptedAnswer, ...]
    steps: Mapping[str, list[ScriptedAnswer]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Scripted:
        """Load a script file (JSON or YAML), a jobHistory.json, or a directory that holds one.

        Raises InvalidFile with the field that is wrong.
        """
        if not path.exists():
            fix = "correct LOGIST_AGENT or --agent; a relative path begins in the current directory"
            raise InvalidFile("file with scripted answers not found", where=str(path), fix=fix)
        archive = path / HISTORY if path.is_dir() else path
        if archive.name == HISTORY:
            return cls(str(path), tuple(_load_archived_answers(archive)))
        script = _load_script(path)
        return cls(str(path), tuple(script.answers or ()), script.steps)

    def ask(self, ask: Ask, workspace: Path) -> Reply:
        """Return the answer for this ask, after writing its files to the workspace."""
        answers, index, where = self._select_answers(ask)
        if index >= len(answers):
            message = (
                f"not enough answers in the script: {self.name} has {len(answers)}{where}, needed {index + 1}"
            )
            return _make_failed_reply(ErrorKind.REFUSED, message)
        answer = answers[index]
        if answer.role not in (None, ask.role):
            return _make_failed_reply(
                ErrorKind.BAD_REQUEST,
                f"answer {index + 1} of the script{where} is for role {answer.role}, but the role is {ask.role}",
            )
        try:
            _put_files(workspace, answer.files)
        except OSError as error:
            return _make_failed_reply(
                ErrorKind.BAD_REQUEST, f"the script can't write {error.filename}: {error.strerror}"
            )
        return _build_reply(answer)

    def changes_files(self, ask: Ask) -> bool:
        """Whether the answer for this ask writes or deletes files."""
        answers, index, _ = self._select_answers(ask)
        return index < len(answers) and bool(answers[index].files)

    def _select_answers(self, ask: Ask) -> tuple[Sequence[ScriptedAnswer], int, str]:
        """Return the list of answers for this ask, the index of the answer, and
        a description of the step for errors.
        """
        step = str(ask.request.metadata.get("step", ""))
        item = _ITEM.search(str((ask.request.command or {}).get("job_id", "")))
        for name in (f"{step}[{item[1]}]" if item else "", step):
            if name in self.steps:
                return self.steps[name], ask.visit, f" for step {name}"
        return self.answers, ask.index, ""


_ITEM = compile_on_use(r"--[0-9]+-([0-9]+)$")
"""At the end of a child's id: the number of its item, from 1."""


def _build_reply(answer: ScriptedAnswer) -> Reply:
    text = answer.text or ""
    if answer.exit is not None:
        text = json.dumps(answer.exit, ensure_ascii=False)
    return Reply(
        text=text,
        usage=Usage(**answer.usage.model_dump(), source="provider") if answer.usage else Usage(),
        finish=None if answer.error else answer.finish,
        error=TransportError(**answer.error.model_dump()) if answer.error else None,
    )


def _make_failed_reply(kind: ErrorKind, message: str) -> Reply:
    return Reply(error=TransportError(kind=kind, message=replace_surrogates(message)[0]))


def _load_script(path: Path) -> Script:
    script = documents.validate_document(Script, documents.read_document(path))
    if script.answers is None and not script.steps:
        raise InvalidFile("missing `answers`", where=str(path))
    _check_answers(path, "answers", script.answers or [])
    for step, answers in script.steps.items():
        _check_answers(path, f"steps.{step}", answers)
    return script


def _check_answers(path: Path, field: str, answers: Sequence[ScriptedAnswer]) -> None:
    for number, answer in enumerate(answers):
        where = f"{path}: {field}[{number}]"
        if answer.text is None and answer.exit is None and answer.error is None:
            raise InvalidFile("needs `text`, `exit` or `error`", where=where)
        if answer.text is not None and answer.exit is not None:
            raise InvalidFile("can't have both `text` and `exit`", where=where, fix="remove one of them")
        for name in answer.files:
            if not _is_inside(name):
                raise InvalidFile(
                    f"`{name}` is outside the workspace",
                    where=f"{where}.files",
                    fix="use a relative path without `..`",
                )


def _load_archived_answers(path: Path) -> list[ScriptedAnswer]:
    """Return the asks of an archived job, including simulated ones; in a history from another tool, which has no
    `kind`, all entries except log entries are asks.
    """
    try:
        with documents.open_file(path) as file:
            archive = json.loads(file.read())
    except OSError as error:
        raise InvalidFile(f"can't read the file: {error.strerror}", where=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise InvalidFile(f"invalid JSON: {error}", where=str(path)) from error
    is_list = isinstance(archive, list) and bool(archive)
    entries = archive if is_list else archive.get("interactions") if isinstance(archive, dict) else None
    if not isinstance(entries, list):
        raise InvalidFile("missing `interactions`", where=str(path))
    entries = [*_read_older_segments(path, None if is_list else archive.get("segment")), *entries]
    asks = [
        (number, entry)
        for number, entry in enumerate(entries)
        if not isinstance(entry, dict)
        or (entry.get("kind", "ask") == "ask" and not find_logged_operation(entry))
    ]
    return [_parse_archived_answer(entry, f"{path}: interactions[{number}]") for number, entry in asks]


def _read_older_segments(path: Path, segment: object) -> list[JsonObject]:
    """Return the entries of a rotated history that are before its last file."""
    if segment in (None, 1):
        return []
    try:
        with history.open_history(path) as file:
            return list(segments.read_older_entries(path, read_header(file, path)))
    except (Damaged, Refused) as error:
        raise InvalidFile(error.message, where=error.where, fix=error.fix) from error


def _parse_archived_answer(entry: Any, where: str) -> ScriptedAnswer:
    response = entry.get("response") if isinstance(entry, dict) else None
    if not isinstance(response, dict):
        raise InvalidFile("missing `response`", where=where)
    text, rebuilt = read_old_answer(
        response
    )  # in an old archive, the text may have to be built from the fields
    if not rebuilt and not isinstance(response.get("raw_response"), str):
        raise InvalidFile("`response.raw_response` must be text", where=where)
    finish = response.get("finish")
    return ScriptedAnswer(
        text=replace_surrogates(text)[0],
        finish=replace_surrogates(finish)[0] if isinstance(finish, str) else None,
        error=_parse_archived_error(response, where),
    )


def _parse_archived_error(response: JsonObject, where: str) -> ScriptedFailure | None:
    error, status = response.get("error"), response.get("status", "SUCCESS")
    if isinstance(error, dict):
        try:
            message = error.get("message")
            message = replace_surrogates(message)[0] if isinstance(message, str) else message
            fields = {key: error.get(key) for key in ScriptedFailure.model_fields}
            return ScriptedFailure.model_validate(fields | {"message": message})
        except ValueError as problem:
            raise InvalidFile("invalid `response.error`", where=where) from problem
    if status == "SUCCESS":
        return None
    kind = ErrorKind.TIMEOUT if status == "TIMEOUT" else ErrorKind.TRANSIENT
    return ScriptedFailure(kind=kind, message=replace_surrogates(f"the archived answer is {status}")[0])


def _is_inside(name: str) -> bool:
    parts = name.split("/")
    return "\0" not in name and all(part not in ("", ".", "..") for part in parts)


def _put_files(workspace: Path, files: dict[str, str | None]) -> None:
    for name, content in files.items():
        *folders, leaf = name.split("/")
        with _open_folder(workspace, folders, make=content is not None) as folder:
            if folder is None:
                continue
            if content is None:
                _delete_file(folder, leaf)
            else:
                _write_file(folder, leaf, content.encode("utf-8", "replace"))


@contextmanager
def _open_folder(workspace: Path, folders: list[str], *, make: bool) -> Iterator[int | None]:
    """Open a folder without following a link; yield its descriptor, or None if
    it does not exist and `make` is not set.
    """
    with ExitStack() as opened:
        at = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, at)
        for name in folders:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=at)
            try:
                at = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            except FileNotFoundError:
                yield None
                return
            opened.callback(os.close, at)
        yield at


def _write_file(folder: int, name: str, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o644, dir_fd=folder)
    with open(descriptor, "wb") as file:
        file_status = os.fstat(descriptor)
        if not stat.S_ISREG(file_status.st_mode) or file_status.st_nlink != 1:
            raise OSError(0, "not a regular file, or it has hard links", name)
        os.ftruncate(descriptor, 0)
        file.write(content)


def _delete_file(folder: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
