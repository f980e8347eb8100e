"""`logist job role`."""

from __future__ import annotations

import click

from logist.cli.options import (
    choose_job_id,
    job_option,
    jobs_dir_option,
    json_option,
    note_option,
    wait_option,
)
from logist.cli.shell_values import complete_job, complete_role
from logist.cli.show.output import Output
from logist.config.environment import Environment
from logist.errors import UsageError


def complete_words(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete jobs and roles for the first word; roles for the second."""
    jobs = [] if ctx.params.get("words") else complete_job(ctx, param, incomplete)
    return [*jobs, *complete_role(ctx, param, incomplete)]


@click.command("role")
@click.argument("words", nargs=-1, metavar="[JOB] NAME", shell_complete=complete_words)
@click.option("--reset", is_flag=True, help="Undo the switch: use the role set for the job.")
@click.option("--yes", is_flag=True, help="Stop a working agent without asking.")
@job_option
@wait_option
@note_option(read=False)
@jobs_dir_option
@json_option
@click.pass_obj
def role(
    environment: Environment,
    words: tuple[str, ...],
    job_option: str | None,
    jobs_dir: str | None,
    wait: float,
    note: str | None,
    yes: bool,
    reset: bool,
) -> Output:
    """Switch the role that does the work of a job.

    From the next step on, the job uses the prompt, tools and model of the new role, until the next switch. The
    switch overrides the job, its task type and the config; the reviewer and the state of the job don't change. If
    an agent is working on the job, Logist asks before it stops the agent. `logist role list` lists the roles.
    """
    from logist.cli.commands.job.decide import confirm_ending_agent
    from logist.cli.context import open_project
    from logist.cli.show.view import build_result_output
    from logist.jobs.steward.role_switch import find_needless_switch, switch_role

    named, name = _parse_words(words, reset)
    surroundings, chosen = open_project(environment, jobs_dir), choose_job_id(environment, named, job_option)
    if same := find_needless_switch(surroundings, chosen, name):
        return build_result_output(same)
    ends_agent = confirm_ending_agent(
        surroundings, chosen, "role", yes=yes, waits=wait > 0, words=f" {name or '--reset'}"
    )
    return build_result_output(
        switch_role(surroundings, chosen, name, note=note, wait=wait, ends_agent=ends_agent)
    )


def _parse_words(words: tuple[str, ...], reset: bool) -> tuple[str | None, str | None]:
    """Return `(job, role)`; the role is None with --reset."""
    fix = "use logist job role JOB NAME, or: logist job role JOB --reset"
    if reset and len(words) < 2:
        return words[0] if words else None, None
    if reset:
        raise UsageError("can't use --reset with a role", where="NAME", fix=fix)
    if len(words) not in (1, 2):
        raise UsageError("expected one role, with or without a job before it", where="NAME", fix=fix)
    return (words[0] if len(words) == 2 else None), words[-1]
