"""`logist job replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logist.cli.options import job_options
from logist.cli.replayed import (
    colored,
    junit_file,
    outcome_of,
    prompts_of,
    replay_options,
    row,
    told,
    write_junit,
)
from logist.cli.show.output import Output
from logist.config.environment import Environment
from logist.errors import UsageError

if TYPE_CHECKING:
    from logist.jobs.archive.recorded_jobs import Archive


@click.command("replay")
@click.option(
    "--archive",
    metavar="PATH",
    type=click.Path(),
    help="A jobHistory.json anywhere, or the directory it is in.",
)
@replay_options
@job_options
@click.pass_obj
def replay(
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    archive: str | None,
    prompts: str,
    strict: bool,
    junit: str | None,
) -> Output:
    """Run a recorded history through today's rules: no model, no network, no clock.

    Exit code 9 when an interaction ends in another way today than it did then (with --prompts fail also
    when a prompt would be another one, with --strict also when only a rule that a newer Logist has
    changed is the cause), 10 when the history is damaged. `logist replay` takes many.
    """
    from logist.jobs.archive.archive_replay import replay_archive
    from logist.jobs.archive.replay_report import Junit, lines
    from logist.resources import schema

    if archive and (job_argument or job_option):
        raise UsageError("name a job or --archive, not both", where="--archive")
    target = junit_file(junit)
    history = _archive(environment, job_argument, job_option, jobs_dir, archive)
    compared = prompts_of(environment, jobs_dir, prompts)
    found = replay_archive(history, schema("llm-chat-schema"), prompts=compared)
    fail_on_prompts = prompts == "fail"
    report = Junit(fail_on_prompts, strict)
    report.add(found)
    write_junit(target, report)
    if found.error:
        raise found.error
    code, errors = outcome_of(found, prompts=fail_on_prompts, rules=strict)
    return Output(row(found), colored(lines(found)), (*told(found), *errors), code)


def _archive(
    environment: Environment,
    argument: str | None,
    option: str | None,
    jobs_dir: str | None,
    archive: str | None,
) -> Archive:
    from pathlib import Path

    from logist.cli.context import open_job
    from logist.jobs.archive import recorded_jobs

    if archive:
        return recorded_jobs.one(Path(archive))
    return recorded_jobs.Archive.of(open_job(environment, argument, option, jobs_dir))
