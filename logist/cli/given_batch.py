"""The specs of a batch of new jobs: one JSON object on each line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from logist import documents
from logist.cli import given_spec
from logist.cli.given_template import GivenTemplate
from logist.core.model import JobSpec
from logist.documents import Document
from logist.errors import InvalidFile, LogistError, Refused, UsageError
from logist.jobs.base import job_names
from logist.jobs.base.create import PlannedJob, plan_job
from logist.jobs.base.predecessors import NamedPredecessors
from logist.jobs.base.project import ProjectContext
from logist.quick_tuple import NamedTuple
from logist.store import jobdir

NOTHING = "no job was created"
ONE_PER_LINE = "write one JSON object per line"
Fill = Callable[[Document], Document]
"""Returns the job.yaml for the document of a line."""


class BatchLine(NamedTuple):
    """A line with a spec; `number` counts from 1."""

    number: int
    text: bytes


def read_batch(options: dict[str, Any], template: GivenTemplate | None = None) -> Batch:
    """Read the lines of --batch; the other options override the fields of every job. Raises UsageError, InvalidFile.

    With a template, the lines have its values instead of the fields of jobs.
    """
    for name, option in (("spec_file", "SPEC"), ("job_id", "--id")):
        if options[name] is not None:
            fix = "write `id` into the lines" if option == "--id" else "leave it out"
            raise UsageError(f"can't use {option} with --batch", where="--batch", fix=fix)
    changes = given_spec.collect_changes(options)

    def fill(document: Document) -> Document:
        filled = document if template is None else template.fill(document.data)
        return given_spec.override_fields(filled, changes)

    here = given_spec.find_base_directory(options)
    return Batch(options["batch_file"], here, fill, draft=options["draft"])


class Batch:
    """The lines of a batch, and how each becomes a job.

    The lines stay in memory, because standard input can be read only once; what is made of them doesn't.
    """

    def __init__(self, name: str, here: Path, fill: Fill, *, draft: bool) -> None:
        """`here`: the directory for relative paths in the specs."""
        self.name = "standard input" if name == "-" else name
        self._here = here
        self._fill = fill
        self._draft = draft
        self.lines = _read_lines(name, self.name)
        self._ids: list[str] = []
        self.models: dict[str | None, None] = {}
        """The models that lines name, each once."""

    def check(self, project: ProjectContext, on_checked: Callable[[], None]) -> None:
        """Check every line, and choose the ids of the jobs. Raises the error of the first line that can't become a job."""
        # Before ids are compared: a killed batch may have left some of its jobs, and the same batch is tried again.
        jobdir.remove_abandoned(project.jobs_dir)
        taken: dict[str, int] = {}
        named: dict[str, list[str]] = {}
        for line in self.lines:
            with self._name_line(line):
                spec = self._read_spec(line)
                job_id = spec.id or _create_free_id(project, spec, taken)
                if job_id in taken:
                    raise InvalidFile(f"duplicate id {job_id!r}: already on line {taken[job_id]}")
                if os.path.lexists(project.jobs_dir / job_id):
                    raise Refused(f"job {job_id!r} already exists", fix="choose another id")
                taken[job_id] = line.number
                self.models[spec.model] = None
                self._plan(project, job_id, spec)
                named[job_id] = spec.after
            on_checked()
        if any(named.values()):
            known = NamedPredecessors(project, named)
            for require in (known.require_known, known.require_order):
                for line, job_id in zip(self.lines, named, strict=True):
                    with self._name_line(line):
                        require(job_id)
        self._ids = list(taken)

    def iter_plans(self, project: ProjectContext) -> Iterator[PlannedJob]:
        """Yield the plans of all jobs, in order; `check` comes first."""
        for line, job_id in zip(self.lines, self._ids, strict=True):
            with self._name_line(line):
                yield self._plan(project, job_id, self._read_spec(line))

    def _plan(self, project: ProjectContext, job_id: str, spec: JobSpec) -> PlannedJob:
        return plan_job(project, job_id, spec, draft=self._draft, here=self._here)

    def _read_spec(self, line: BatchLine) -> JobSpec:
        document = documents.parse_json_line(line.text, self.name, line.number)
        return documents.validate_document(JobSpec, self._fill(document))

    @contextmanager
    def _name_line(self, line: BatchLine) -> Iterator[None]:
        """Add the place to errors inside the block, and that nothing was created."""
        try:
            yield
        except LogistError as error:
            place = f"{self.name}:{line.number}"
            if not error.where or error.where == self.name:
                error.where = place
            elif not error.where.startswith(place):
                error.where = f"{place}: {error.where}"
            error.message = f"{error.message}; {NOTHING}"
            if error.message.startswith("invalid JSON") and not error.fix:
                error.fix = ONE_PER_LINE
            raise


def _create_free_id(project: ProjectContext, spec: JobSpec, taken: dict[str, int]) -> str:
    """Generate an id: of ten thousand with the same words, a few would get the same random characters."""
    while True:
        job_id = job_names.create_job_id(spec)
        if job_id not in taken and not os.path.lexists(project.jobs_dir / job_id):
            return job_id


def _read_lines(name: str, shown: str) -> list[BatchLine]:
    try:
        with ExitStack() as stack:
            file = sys.stdin.buffer if name == "-" else stack.enter_context(documents.open_file(name))
            lines = list(_iter_lines(file, shown))
    except OSError as error:
        raise UsageError(f"can't read the batch: {error.strerror}", where=shown) from error
    if not lines:
        raise InvalidFile(f"the batch is empty; {NOTHING}", where=shown, fix=ONE_PER_LINE)
    return lines


def _iter_lines(file: BinaryIO | Any, shown: str) -> Iterator[BatchLine]:
    number = 0
    while text := file.readline(documents.MAX_BYTES + 3):  # with the end of the line
        number += 1
        text = text.rstrip(b"\r\n")
        if len(text) > documents.MAX_BYTES:
            message = f"must not be longer than {documents.MAX_BYTES:,} bytes; {NOTHING}"
            raise InvalidFile(message, where=f"{shown}:{number}")
        yield BatchLine(number, text)
