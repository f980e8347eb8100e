"""`logist job replay`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from logist.cli.options import job_options
from logist.cli.output import Diagnostic, Output, warnings
from logist.config.environment import Environment
from logist.errors import ReplayDiffers, UsageError

if TYPE_CHECKING:
    from logist.core.replay import Difference
    from logist.jobs.looking import Replayed


@click.command("replay")
@click.option("--archive", metavar="PATH", help="A jobHistory.json anywhere, or the directory it is in.")
@job_options
@click.pass_obj
def replay(
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    archive: str | None,
) -> Output:
    """Run a recorded history through today's rules: no model, no network, no clock, nothing written.

    Exit code 9 when an interaction ends in another way today than it did then.
    """
    if archive and (job_argument or job_option):
        raise UsageError("name a job or --archive, not both", where="--archive")
    name, found = _replayed(environment, job_argument, job_option, jobs_dir, archive)
    differences = [asdict(item) for item in found.differences]
    count, skipped = found.interactions, len(found.skipped)
    data = {"source": name, "interactions": count, "skipped": skipped, "differences": differences}
    told = warnings(found.skipped, "newer")
    if not found.differences:
        but = f", {skipped} skipped" if skipped else ""
        return Output(data, (f"{name}: {count - skipped} interactions go the same way today{but}",), told)
    more = len(differences) - 1
    error = Diagnostic("error", ReplayDiffers.code, _named(found.differences[0], more), name)
    return Output(data, (), (error, *told), ReplayDiffers.exit_code)


def _replayed(
    environment: Environment,
    argument: str | None,
    option: str | None,
    jobs_dir: str | None,
    archive: str | None,
) -> tuple[str, Replayed]:
    from pathlib import Path

    from logist.cli.context import open_job, project
    from logist.jobs.looking import replay_file, replay_job
    from logist.resources import schema

    if archive:
        return archive, replay_file(schema("llm-chat-schema"), Path(archive).absolute())
    job = open_job(environment, argument, option, jobs_dir)
    return job.id, replay_job(project(environment, jobs_dir), job)


def _named(first: Difference, more: int) -> str:
    others = f"; and {more} more" if more else ""
    return (
        f"interaction {first.sequence}: {first.field} was {first.recorded}, today it is {first.today}: "
        f"{first.cause}{others}"
    )
