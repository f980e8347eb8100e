"""`logist job scrub`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import choose_job_id, job_options
from logist.cli.show.output import Command, Diagnostic, Line, Output, StyledText, make_notes
from logist.config.environment import Environment
from logist.core.text.counts import format_count
from logist.core.text.ids import is_job_id
from logist.errors import Refused, UsageError

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.erasure.job_scrub import ScrubbedJob, ScrubOptions, ScrubResult

REMAINS = 3
"""The exit code if other places have the text too: a person has to act."""
MOST = 1 << 18
"""Bytes of a value that are read from standard input."""


@click.command("scrub")
@click.option("--value-from-stdin", is_flag=True, help="Read the text to erase from standard input.")
@click.option("--pattern", metavar="REGEX", help="Erase all texts that this regular expression matches.")
@click.option("--note", metavar="TEXT", help="Reason, recorded in the history. Don't name the text itself.")
@click.option("--forks", is_flag=True, help="Also scrub the jobs that were forked from this one.")
@click.option("--dry-run", is_flag=True, help="Only count the places.")
@click.option("--force", is_flag=True, help="Allow a text with fewer than 6 characters.")
@click.option("--yes", is_flag=True, help="Scrub without asking.")
@job_options
@click.pass_obj
def scrub(
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    value_from_stdin: bool,
    pattern: str | None,
    note: str | None,
    forks: bool,
    dry_run: bool,
    force: bool,
    yes: bool,
) -> Output:
    """Erase a secret or personal data from a job: history, checkpoints, workspace, logs, and its child jobs.

    Each place gets [redacted], also where the text is written in JSON, in a URL, in base64 or in hex. Nothing of the
    old text stays in the job. The history gets a new chain, with an entry that says who did this, when, why and in how
    many places, but not what. Without --value-from-stdin and --pattern, you are asked for the text, and it is not
    shown. It is not possible to pass it as an argument, because other users can see arguments.

    JOB can also be a file of `logist job pack`. Refused while an agent works, or if its answer is not recorded.
    Exit code 3: erased from the job, but other places have it too, such as forks or a branch in your repository. They
    are listed, with what to do. Revoke a key all the same: it may have been copied.
    """
    from logist.cli.context import open_project
    from logist.jobs.erasure.job_scrub import ScrubOptions, list_family, require_erasable, scrub_job
    from logist.jobs.erasure.pack_scrub import scrub_pack

    if value_from_stdin and pattern is not None:
        fix = "use one of them"
        raise UsageError("can't use --value-from-stdin and --pattern together", where="--pattern", fix=fix)
    project = open_project(environment, jobs_dir)
    file = _find_file(job_argument)
    job_id = None if file else choose_job_id(environment, job_argument, job_option)
    jobs = [str(file)] if job_id is None else list_family(project, job_id, forks=forks)
    value = None if pattern is not None else _read_value(from_stdin=value_from_stdin)
    if value is not None:
        require_erasable([value], force=force)  # rather than ask, and then refuse
    options = ScrubOptions(value, pattern, note, forks, force, dry_run)
    if not (yes or dry_run):
        _confirm(environment, jobs, can_ask=not value_from_stdin)
    result = scrub_pack(project, file, options) if file else scrub_job(project, jobs[0], options)
    return _build_output(project, result, options, file)


def _find_file(argument: str | None) -> Path | None:
    """Return the packed job that an argument names: no job id contains a dot."""
    if argument is None or is_job_id(argument):
        return None
    path = Path(argument).absolute()
    if argument.endswith(".gz") and not path.exists():
        raise UsageError("file not found", where=argument, fix="check the path")
    return path if path.is_file() else None


def _read_value(*, from_stdin: bool) -> str:
    """Return the text to erase; without the newline at its end."""
    if from_stdin:
        data = sys.stdin.buffer.read(MOST + 1)
        if len(data) > MOST:
            raise UsageError(f"the value has more than {MOST:,} bytes", where="standard input")
        return data.decode("utf-8", "surrogateescape").removesuffix("\n").removesuffix("\r")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        fix = "pass the text with --value-from-stdin, or use --pattern"
        raise UsageError("no text to erase", fix=fix)
    value: str = click.prompt("Text to erase (not shown)", hide_input=True, err=True)
    return value


def _confirm(environment: Environment, jobs: list[str], *, can_ask: bool) -> None:
    """Ask the person at the terminal. Raises Refused without a yes."""
    from logist.cli.show import render

    named = ", ".join(jobs[:5]) + (f" and {len(jobs) - 5} more" if len(jobs) > 5 else "")
    question = f"replace the text everywhere in {named}? This can't be undone."
    if not (can_ask and render.ask_to_confirm(question, environment)):
        fix = "to confirm, add --yes to the command; to count the places first, --dry-run"
        raise Refused("nothing was changed: it was not confirmed", fix=fix)


def _build_output(
    project: ProjectContext, result: ScrubResult, options: ScrubOptions, file: Path | None
) -> Output:
    data = {
        "dry_run": options.dry_run,
        "places": result.places,
        "jobs": [_build_row(job) for job in result.jobs],
        "remaining": [{"place": each.place, "fix": each.fix} for each in result.remaining],
    }
    notes = [*(f"{job.job_id}: {note}" for job in result.jobs for note in job.notes), *result.notes]
    remaining = tuple(
        Diagnostic("warning", "remaining", each.place, fix=each.fix) for each in result.remaining
    )
    lines = [line for job in result.jobs for line in _format_job(job, file, is_dry=options.dry_run)]
    code = REMAINS if remaining else 0
    return Output(data, lines, (*make_notes(notes), *remaining), code)


def _build_row(job: ScrubbedJob) -> dict[str, Any]:
    return {
        "job": job.job_id,
        "places": job.places,
        "history": job.history,
        "files": job.files,
        "checkpoints": job.checkpoints,
        "sequence": job.sequence,
        "signatures": job.signed,
        "differs": job.differs,
    }


def _format_job(job: ScrubbedJob, file: Path | None, *, is_dry: bool) -> Iterator[Line]:
    name = StyledText(job.job_id, "bold")
    if job.sequence is None:
        yield (name, ": the text was not found; nothing was replaced")
        return
    would = "would be replaced" if is_dry else "replaced"
    parts = f"history {job.history:,}, files {job.files:,}, checkpoints {job.checkpoints:,}"
    yield (name, f": {format_count(job.places, 'place')} {would} ({parts})")
    if job.signed:
        signatures = format_count(job.signed, "signature")
        yield StyledText(
            f"{signatures} no longer valid: job verify reports them as signed before the scrub", "dim"
        )
    if job.differs:
        differing = format_count(job.differs, "interaction")
        yield StyledText(
            f"{differing} replay differently because of it; a replay says so, and doesn't fail", "dim"
        )
    if not is_dry:
        recorded = f"recorded as interaction {job.sequence:,}"
        verify = f"; to verify: logist job verify --job {job.job_id}"
        # A job in a file can't be verified by its id: that is another copy, if it is anything.
        yield Command(f"{recorded} in {file}, and verified" if file else recorded + verify, "dim")
