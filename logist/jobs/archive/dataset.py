"""`job export --dataset`: writes the interactions of many histories as JSON lines. Takes no lock."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO

from logist.core.history import dataset
from logist.core.model import JsonObject
from logist.core.share import Replacing
from logist.errors import LogistError
from logist.jobs.archive import originals, redaction
from logist.jobs.archive.recorded_jobs import Archive, catch_read_errors, exit_code_of_errors
from logist.jobs.archive.redaction import Leaks
from logist.jobs.base.project import ProjectContext
from logist.jobs.doctor import leaked_secrets
from logist.quick_dataclass import dataclass
from logist.store import files

IN_MEMORY = 1 << 20
"""Characters of one history's lines that are kept in memory; more are kept in an unnamed temporary file."""
AT_ONCE = 1 << 16
"""Characters that are written at once."""


@dataclass
class ExportedDataset:
    """The result of an export: counts, and the histories that were left out."""

    histories: int = 0
    interactions: int = 0
    """The number of lines."""
    left_out: list[tuple[str, LogistError]] = field(default_factory=list)
    """Name and reason; the output contains no lines from these."""

    @property
    def exit_code(self) -> int:
        """10 if a history is damaged; else that of the first one left out; 0 if none was."""
        return exit_code_of_errors(error for _, error in self.left_out)


def export_dataset(
    project: ProjectContext,
    archives: Iterable[Archive],
    exported: ExportedDataset,
    *,
    redacted: bool = False,
    each: Callable[[], None] = lambda: None,
    done: Callable[[], None] = lambda: None,
) -> Iterator[str]:
    """Yield the lines, in pieces of text. If one line of a history must not be written, none of it is.

    Interactions that a fork or an imported job shares with another job are left out, as in statistics.
    `exported` collects the result; `each` is called for every interaction, `done` for every history. One
    interaction is in memory at a time.
    """
    every = list(archives)
    shared_counts = originals.count_shared_interactions(every)
    for archive in every:
        with tempfile.SpooledTemporaryFile(IN_MEMORY, "w+", encoding="ascii") as lines:
            count = 0
            with catch_read_errors(archive) as result:
                count = _write_lines(
                    project, archive, lines, shared_counts.get(archive.path, 0), each, redacted=redacted
                )
            if result.error:
                exported.left_out.append((archive.name, result.error))
            else:
                exported.histories += 1
                exported.interactions += count
                lines.seek(0)
                yield from iter(partial(lines.read, AT_ONCE), "")
        done()


def _write_lines(
    project: ProjectContext,
    archive: Archive,
    lines: IO[str],
    shared: int,
    each: Callable[[], None],
    *,
    redacted: bool,
) -> int:
    """Write the lines of a history and return their number. Raises Refused
    if a secret would be in one of them.
    """
    private = redaction.collect_private_values(project) if redacted else None
    name = os.path.relpath(archive.name) if os.path.isabs(archive.name) else archive.name
    survey = redaction.survey_history(
        name, archive.path, archive.call_for_each(archive.read_entries(), each), private
    )
    replacing = Replacing(survey.places, private)
    secrets = {**leaked_secrets.known(project), **replacing.known}
    leaks = Leaks()
    job, found_leaks = redaction.redact_job_name(name, replacing, secrets)
    for leak in found_leaks:
        leaks.add_leak(leak)
    count, workflow = 0, None
    first = max(shared + 1, survey.forked)
    for entry in islice(archive.read_entries(), survey.count):
        workflow = dataset.read_workflow_name(entry) or workflow
        if entry["sequence"] < first:
            continue
        fields = dataset.select_fields(entry, workflow)
        line, _, found_leaks = redaction.redact_entry(
            fields, replacing, secrets, {}, partial(_make_line, job)
        )
        for leak in found_leaks:
            leaks.add_leak(leak)
        if not leaks.told:  # after a leak, write nothing more to disk
            _append_line(lines, line)
            count += 1
    leaks.require_none(
        "add a pattern to redact.patterns to remove it" if redacted else "use --redact to remove it"
    )
    return count


def _make_line(job: str, chosen: JsonObject) -> tuple[JsonObject, bytes]:
    made = dataset.build_dataset_line(job, chosen)
    return made, files.dump_json(made)


def _append_line(lines: IO[str], made: JsonObject) -> None:
    """Write a line in ASCII only, so that it can't control a terminal and no encoding fails."""
    with files.convert_os_errors(Path(tempfile.gettempdir())):
        lines.write(json.dumps(made, ensure_ascii=True, separators=(",", ":")) + "\n")
