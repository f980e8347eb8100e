"""`logist job export --dataset`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from logist.cli.options import require_free
from logist.cli.show import render
from logist.cli.show.output import Diagnostic, Output, make_notes
from logist.cli.show.progress import ProgressBar
from logist.config.environment import Environment, require_utf8
from logist.core.text.counts import format_count
from logist.errors import UsageError

if TYPE_CHECKING:
    from logist.jobs.archive.dataset import ExportedDataset
    from logist.jobs.base.project import ProjectContext


class _NoLineError(Exception):
    """Every history was skipped, so there is no file to write."""


def write_dataset(
    environment: Environment,
    names: Sequence[str],
    jobs_dir: str | None,
    output: str | None,
    *,
    redact: bool,
    force: bool,
) -> Output:
    """Write the lines to a file or, as they are produced, to standard output."""
    from logist.cli.context import open_project
    from logist.cli.recorded import find_recorded_jobs
    from logist.jobs.archive.dataset import ExportedDataset, export_dataset
    from logist.store.files import replace_chunks

    here = open_project(environment, jobs_dir)
    file = None if output in (None, "-") else _require_outside_jobs(here, str(output))
    if file is not None:
        require_free(file, force=force)
    histories = find_recorded_jobs(environment, names, jobs_dir)
    progress, exported = ProgressBar(len(histories)), ExportedDataset()
    lines = export_dataset(
        here,
        histories,
        exported,
        redacted=redact,
        each=progress.count_interaction,
        done=progress.count_history,
    )
    try:
        if file is not None:
            with suppress(_NoLineError):
                replace_chunks(file.resolve(), _encode_lines(lines, exported))
        else:
            for text in lines:
                progress.clear()
                render.print_text(text)
    finally:
        progress.clear()
    return _build_output(
        exported, file if exported.histories else None, redacted=redact, to_file=file is not None
    )


def _require_outside_jobs(project: ProjectContext, name: str) -> Path:
    path = Path(require_utf8(name, "the file name", "choose another file name"))
    if path.resolve().is_relative_to(os.path.realpath(project.jobs_dir)):
        raise UsageError(
            "can't write a data set to the jobs directory", where="--output", fix="choose another FILE"
        )
    return path


def _encode_lines(lines: Iterator[str], exported: ExportedDataset) -> Iterator[bytes]:
    for text in lines:
        yield text.encode("ascii")
    if not exported.histories:
        raise _NoLineError


def _build_output(exported: ExportedDataset, file: Path | None, *, redacted: bool, to_file: bool) -> Output:
    """Return the output. If the lines went to standard output, the summary is a note on standard error."""
    data = {
        "path": None if file is None else str(file),
        "histories": exported.histories,
        "left_out": len(exported.left_out),
        "interactions": exported.interactions,
        "redacted": redacted,
    }
    done = f"{format_count(exported.interactions, 'interaction')} from {format_count(exported.histories, 'history')}"
    diagnostics = [
        Diagnostic.from_error(error)._replace(message=f"skipped: {error.message}", target=name)
        for name, error in exported.left_out
    ]
    if not redacted and exported.interactions:
        diagnostics += make_notes(
            ["prompts and answers are not redacted; to share the data set, use --redact"]
        )
    if not to_file:
        diagnostics += make_notes([done])
        return Output(data, diagnostics=tuple(diagnostics), exit_code=exported.exit_code)
    lines = (done, f"file: {file}" if file is not None else "no file was written")
    return Output(data, lines, tuple(diagnostics), exported.exit_code)
