"""`logist job export`."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import TYPE_CHECKING

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import job_option, jobs_dir_option, json_flag
from logist.cli.shell_values import complete_directory, complete_file, complete_job_or_file
from logist.cli.show.output import Line, Output, StyledText, make_notes, make_warnings
from logist.config.environment import Environment
from logist.errors import UsageError

if TYPE_CHECKING:
    from logist.jobs.archive.fixture_export import ExportedFixture

KINDS = {
    "secret": "secrets",
    "pattern": "matches of redact.patterns",
    "user": "names of users",
    "host": "names of hosts",
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
    help="Write a fixture to DIR, which is made.",
)
@click.option("--dataset", is_flag=True, help="Write a JSON line for each interaction, of many jobs.")
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    help="With --dataset: write it there instead of to standard output.",
    shell_complete=complete_file,
)
@click.option(
    "--redact",
    is_flag=True,
    help="Replace secrets, e-mail and IP addresses, who works here and on which machine, owners of home"
    " directories, and what redact.patterns finds.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Replace FILE, or a fixture of this job in DIR; a redacted one only with --redact.",
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
    """Write the job's history as a fixture: a directory that replays anywhere, without the job.

    It holds jobHistory.json, with ${JOB_DIR} for the job's paths, and fixture.json, which says how each
    interaction moved the job. With --redact what is private is replaced, as long as it was, and by the
    same everywhere. The result is replayed before it is written; one that goes another way (exit code 9),
    or in which a secret is still found (8), is not.

    With --dataset, write one JSON line for each interaction instead: request, answer, outcome, cost, model,
    role. JOB is the id of a job, PATH a job directory, a history file, a folder of such or a glob; without
    one, all jobs of the project. A history that is damaged (10), or that has a secret in it (8), is named
    and left out; the others are written.
    """
    if dataset == (fixture is not None):
        raise UsageError(
            "name one of --fixture DIR and --dataset", fix="a fixture is of one job, a data set of many"
        )
    if not dataset and output is not None:
        raise UsageError(
            "--output goes with --dataset", where="--output", fix="--fixture DIR names the directory"
        )
    if dataset:
        if as_json and output in (None, "-"):
            raise UsageError("standard output has the lines", where="--json", fix="--output FILE takes them")
        from logist.cli.commands.job import dataset as lines

        every = (*names, *([job_option] if job_option else ()))
        return lines.write_dataset(environment, every, jobs_dir, output, redact=redact, force=force)
    if len(names) > 1:
        raise UsageError("a fixture is of one job", where=names[1], fix="--dataset takes many")
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
        raise UsageError("it has no name", where="--fixture", fix="--fixture DIR")
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
        () if redact else ("prompts and answers are in it as they were; --redact makes it fit to share",)
    )
    return Output(
        data,
        tuple(_format_result(job.id, done)),
        (*make_warnings(_list_doubts(done)), *make_notes(note_texts)),
    )


def _format_result(name: str, done: ExportedFixture) -> Iterator[Line]:
    manifest = done.manifest
    yield (
        StyledText(name, "bold"),
        f": a fixture of {_count_interactions(manifest.interactions)}, which replay as the original's",
    )
    if manifest.redacted:
        many = ", ".join(f"{KINDS.get(kind, kind)} {count}" for kind, count in manifest.replaced.items())
        yield f"replaced: {many or 'nothing'}"
    yield (StyledText(f"directory: {done.path}", "dim"),)
    yield (StyledText(f"next: logist replay {quote(str(done.path))}", "dim"),)


def _list_doubts(done: ExportedFixture) -> Iterator[str]:
    if done.differences:
        go = "goes" if done.differences == 1 else "go"
        yield f"{_count_interactions(done.differences)} {go} another way today, in the original as in the fixture"
    if done.skipped:
        known = "it" if done.skipped == 1 else "them"
        yield f"not replayed: {_count_interactions(done.skipped)}, for only a newer Logist knows {known} whole"


def _count_interactions(number: int) -> str:
    return f"{number:,} interaction{'' if number == 1 else 's'}"
