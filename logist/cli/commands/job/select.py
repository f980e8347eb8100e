"""`logist job select`."""

from __future__ import annotations

import click

from logist.cli.current_job import SELECTED_JOB_FILE, get_current_directory
from logist.cli.options import choose_job_id, jobs_dir_option, json_option
from logist.cli.shell_values import complete_job
from logist.cli.show.output import Output, StyledText, make_notes
from logist.config.environment import Environment
from logist.errors import UsageError


@click.command("select")
@click.argument("job_argument", metavar="[JOB]", required=False, shell_complete=complete_job)
@click.option("--clear", is_flag=True, help="Clear the selection.")
@jobs_dir_option
@json_option
@click.pass_obj
def select(environment: Environment, job_argument: str | None, clear: bool, jobs_dir: str | None) -> Output:
    """Select the current job, which commands use if no job is named; without JOB, print it."""
    if clear and job_argument:
        raise UsageError("can't use --clear with a job", where="--clear")
    if clear:
        return _clear_choice(environment)
    if job_argument is None:
        current = choose_job_id(environment, None, None)
        return Output({"job": current}, (current,))
    return _choose_job(environment, job_argument, jobs_dir)


def _choose_job(environment: Environment, chosen: str, jobs_dir: str | None) -> Output:
    from pathlib import Path

    from logist.cli.context import open_job
    from logist.jobs.base import project_home
    from logist.store import replace_file

    chosen = open_job(environment, chosen, None, jobs_dir).id
    place = environment.find_home(Path(get_current_directory())).path
    project_home.ensure_project_home(place)
    replace_file(place / SELECTED_JOB_FILE, f"{chosen}\n".encode())
    named = environment.job_id()
    hidden = [f"LOGIST_JOB_ID overrides this selection: {named}"] if named and named != chosen else []
    return Output({"job": chosen}, ((StyledText(chosen, "bold"), " is the current job"),), make_notes(hidden))


def _clear_choice(environment: Environment) -> Output:
    from pathlib import Path

    (environment.find_home(Path(get_current_directory())).path / SELECTED_JOB_FILE).unlink(missing_ok=True)
    return Output({"job": None}, ("selection cleared",))
