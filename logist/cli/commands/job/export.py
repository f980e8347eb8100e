"""`logist job export`."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import TYPE_CHECKING

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import job_option, jobs_dir_option, json_flag
from logist.cli.shell_values import complete_directory, complete_file, complete_job_or_file
from logist.cli.show.output import Line, Output, StyledText, make_notes, make_warnings, note_removal
from logist.config.environment import Environment
from logist.core.text.counts import format_count
from logist.errors import UsageError

if TYPE_CHECKING:
    from logist.jobs.archive.fixture_export import ExportedFixture

KINDS = {
    "secret": "secrets",
    "pattern": "matches of redact.patterns",
    "user": "user names",
    "host": "host names",
    "address": "addresses",
    "path": "names in paths",
}


@click.command("export")
@click.argument("names", metavar="[JOB|PATH]...", nargs=-1, shell_complete=complete_job_or_file)
@click.option(
    "--fixture",
    metavar="DIR",
    type=click.Path(),
    shell_complete=complete_directory,
    help="Write a fixture to the new directory DIR.",
)
@click.option("--dataset", is_flag=True, help="Write one JSON line per interaction, of one or more jobs.")
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    help="With --dataset: write to FILE instead of standard output.",
    shell_complete=complete_file,
)
@click.option(
    "--redact",
    is_flag=True,
    help="Replace secrets, e-mail and IP addresses, your name and that of this machine, owners of home"
    " directories, and matches of redact.patterns.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Replace FILE, or a fixture of this job in DIR; a redacted fixture also needs --redact.",
)
@job_option
@jobs_dir_option
@json_flag
@click.pass_obj
def export(
    environment: Environment,
    names: tuple[str, ...],
    job_option: str | None,
    jobs_dir: str | None,
    fixture: str | None,
    dataset: bool,
    output: str | None,
    redact: bool,
    force: bool,
    as_json: bool,
) -> Output:
    """Export a job's history as a fixture, or several histories as a data set.

    --fixture writes a directory that replays anywhere, without the job: jobHistory.json, with ${JOB_DIR} in
    place of the job's paths, and fixture.json, with the state change of each interaction. With --redact, private
    values are replaced by others of the same length, and equal values by the same one. Logist replays the
    fixture before it writes it; nothing is written if the replay has a different result (exit code 9) or the
    fixture still contains a secret (8).

    --dataset writes one JSON line per interaction: request, answer, outcome, cost, model, role. JOB is a job id;
    PATH is a job directory, a history file, a directory of these, or a glob. The default is all jobs of the
    project. A history that is damaged (exit code 10) or contains a secret (8) is reported and skipped; the
    others are written.
    """
    if dataset == (fixture is not None):
        raise UsageError(
            "use either --fixture DIR or --dataset", fix="a fixture contains one job, a data set many"
        )
    if not dataset and output is not None:
        raise UsageError(
            "--output requires --dataset", where="--output", fix="to choose the directory: --fixture DIR"
        )
    if dataset:
        if as_json and output in (None, "-"):
            raise UsageError(
                "standard output is used by the data set", where="--json", fix="use --output FILE"
            )
        from logist.cli.commands.job import dataset as lines

        every = (*names, *([job_option] if job_option else ()))
        return lines.write_dataset(environment, every, jobs_dir, output, redact=redact, force=force)
    if len(names) > 1:
        raise UsageError(
            "--fixture accepts only one job", where=names[1], fix="to export several jobs: --dataset"
        )
    return _export_fixture(
        environment, names[0] if names else None, job_option, jobs_dir, str(fixture), redact, force
    )


def _export_fixture(
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    fixture: str,
    redact: bool,
    force: bool,
) -> Output:
    from pathlib import Path

    from logist.cli.context import open_job, open_project
    from logist.jobs.archive.fixture_export import export_fixture as write

    if not fixture:
        raise UsageError("missing directory name", where="--fixture", fix="use --fixture DIR")
    job, folder = (
        open_job(environment, job_argument, job_option, jobs_dir),
        Path(get_current_directory(), fixture),
    )
    done = write(open_project(environment, jobs_dir), job, folder, redacted=redact, force=force)
    manifest = done.manifest
    data = {
        "job": job.id,
        "path": str(done.path),
        "interactions": manifest.interactions,
        "head": manifest.head,
        "redacted": manifest.redacted,
        "replaced": manifest.replaced,
        "certified": manifest.certified,
        "differences": done.differences,
        "skipped": done.skipped,
    }
    note_texts = (
        () if redact else ("prompts and answers are not redacted; to share the fixture, use --redact",)
    )
    return Output(
        data,
        tuple(_format_result(job.id, done)),
        (*make_warnings(_list_doubts(done)), *make_notes(note_texts), *note_removal(str(job.path))),
    )


def _format_result(name: str, done: ExportedFixture) -> Iterator[Line]:
    manifest = done.manifest
    yield (
        StyledText(name, "bold"),
        f": fixture with {_count_interactions(manifest.interactions)}, replays like the original",
    )
    if manifest.redacted:
        many = ", ".join(f"{KINDS.get(kind, kind)} {count}" for kind, count in manifest.replaced.items())
        yield f"replaced: {many or 'nothing'}"
    yield (StyledText(f"directory: {done.path}", "dim"),)
    yield (StyledText(f"next: logist replay {quote(str(done.path))}", "dim"),)


def _list_doubts(done: ExportedFixture) -> Iterator[str]:
    if done.differences:
        go = "replays" if done.differences == 1 else "replay"
        yield f"{_count_interactions(done.differences)} {go} with a different result, in the original too"
    if done.skipped:
        known = "it was" if done.skipped == 1 else "they were"
        yield f"not replayed: {_count_interactions(done.skipped)}, because {known} recorded by a newer Logist"


def _count_interactions(number: int) -> str:
    return format_count(number, "interaction")
