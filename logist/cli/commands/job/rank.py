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
    """Set a job's place in the queue: a whole number, the lower the earlier; 0 at first."""
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
            f"not a job and a whole number: {text}", where="N", fix="logist job rank JOB N"
        ) from None
