"""`logist job rank`."""

from __future__ import annotations

import click

from logist.cli.options import choose_job_id, job_option, jobs_dir_option, json_option
from logist.cli.shell_values import complete_job
from logist.cli.show.output import Output
from logist.config.environment import Environment
from logist.errors import UsageError


@click.command("rank", context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, required=True, metavar="[JOB] N", shell_complete=complete_job)
@job_option
@jobs_dir_option
@json_option
@click.pass_obj
def rank(
    environment: Environment, words: tuple[str, ...], job_option: str | None, jobs_dir: str | None
) -> Output:
    """Set the position of a job in the queue: an integer, lower numbers run first, the default is 0."""
    from logist.cli.context import open_project
    from logist.cli.show.view import build_result_output
    from logist.jobs.steward.job_edits import set_rank as set_rank

    named, value = _parse_words(words)
    chosen = choose_job_id(environment, named, job_option)
    return build_result_output(set_rank(open_project(environment, jobs_dir), chosen, value))


def _parse_words(words: tuple[str, ...]) -> tuple[str | None, int]:
    named, number = (words[0], words[1]) if len(words) == 2 else (None, words[0])
    try:
        if len(words) > 2:
            raise ValueError
        return named, int(number)
    except ValueError:
        text = " ".join(words)
        raise UsageError(
            f"expected a job and an integer, got: {text}", where="N", fix="use logist job rank JOB N"
        ) from None
