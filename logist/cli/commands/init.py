"""`logist init`."""

from __future__ import annotations

from pathlib import Path

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import json_option
from logist.cli.show.output import Output
from logist.config.environment import PROJECT_DIRECTORY, Environment, find_coven_directory
from logist.store import require_local


@click.command("init")
@json_option
@click.pass_obj
def init(environment: Environment) -> Output:
    """Create a .logist directory here.

    It contains settings, roles and jobs. Existing files are not changed.
    """
    home = Path(get_current_directory()) / PROJECT_DIRECTORY
    require_local(Path(environment.chosen_jobs_dir(None, get_current_directory()) or home))
    from logist.jobs.base import project_home

    created = project_home.create_project(home)
    what = "created" if created else "already exists"
    below = find_coven_directory(str(home))
    more = (f"{below} still applies; .logist overrides it",) if below else ()
    return Output({"home": str(home), "made": [name or "." for name in created]}, (f"{what}: {home}", *more))
