"""`logist job replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logist.cli.options import job_options
from logist.cli.replayed import (
    build_replay_row,
    color_report,
    judge_history,
    list_replay_notes,
    load_prompts,
    replay_options,
    require_junit_file,
    write_junit,
)
from logist.cli.show.output import Output, note_removal
from logist.config.environment import Environment
from logist.errors import UsageError

if TYPE_CHECKING:
    from logist.jobs.archive.recorded_jobs import Archive


@click.command("replay")
@click.option(
    "--archive",
    metavar="PATH",
    type=click.Path(),
    help="Replay this jobHistory.json, or the one in this directory, instead of a job.",
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
    """Replay a recorded history with the current rules, without a model, network or clock.

    Exit code 9: an interaction now has a different result; with --prompts fail, also if a prompt would be
    different; with --strict, also if the only cause is a rule that a newer Logist has changed. Exit code 10: the
    history is damaged. To replay many histories: `logist replay`.
    """
    from logist.jobs.archive.archive_replay import replay_archive
    from logist.jobs.archive.replay_report import Junit, format_replay_lines
    from logist.resources import load_schema

    if archive and (job_argument or job_option):
        raise UsageError("can't use a job and --archive together", where="--archive")
    target = require_junit_file(junit)
    history = _find_archive(environment, job_argument, job_option, jobs_dir, archive)
    compared = load_prompts(environment, jobs_dir, prompts)
    replayed = replay_archive(history, load_schema("llm-chat-schema"), prompts=compared)
    fail_on_prompts = prompts == "fail"
    report = Junit(fail_on_prompts, strict)
    report.add(replayed)
    write_junit(target, report)
    if replayed.error:
        raise replayed.error
    code, errors = judge_history(replayed, prompts=fail_on_prompts, rules=strict)
    return Output(
        build_replay_row(replayed),
        color_report(format_replay_lines(replayed)),
        (*list_replay_notes(replayed), *note_removal(str(history.path.parent)), *errors),
        code,
    )


def _find_archive(
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
        return recorded_jobs.find_history(Path(archive))
    return recorded_jobs.Archive.from_job(open_job(environment, argument, option, jobs_dir))
