"""`logist job create`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import Amount, expand_job_id, json_option, model_option, new_jobs_dir_option
from logist.cli.shell_values import (
    complete_directory,
    complete_file,
    complete_job,
    complete_role,
    complete_template,
    complete_template_value,
    complete_workflow,
)
from logist.cli.show.glance import status_span
from logist.cli.show.output import Command, Output, StyledText, make_warnings
from logist.config.environment import Environment

if TYPE_CHECKING:
    from logist.core.machine.predecessors import Unmet
    from logist.core.model import State
    from logist.jobs.base.project import ProjectContext

PROGRESS_SECONDS = 1.0
"""How long a batch works before it shows its progress."""


@click.command("create")
@click.argument("spec_file", metavar="[SPEC|TASK]", required=False, shell_complete=complete_file)
@click.option(
    "--batch",
    "batch_file",
    metavar="FILE",
    help="Create one job for each line of a JSON Lines file, or - for standard input.",
    shell_complete=complete_file,
)
@click.option(
    "--from",
    "template",
    metavar="TEMPLATE",
    help="Job template to fill: a name in .logist/templates, or a file.",
    shell_complete=complete_template,
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Value for the template; repeatable.",
    shell_complete=complete_template_value,
)
@click.option("--prompt", metavar="TEXT", help="What the agent should do.")
@click.option(
    "--file",
    "prompt_file",
    metavar="FILE",
    help="File with the prompt, or - for standard input.",
    shell_complete=complete_file,
)
@click.option(
    "--workflow",
    metavar="FILE|NAME",
    help="Workflow to follow: a file, FILE#NAME, or a name.",
    shell_complete=complete_workflow,
)
@click.option("--input", "input_", metavar="JSON", help="Input of the workflow, or @FILE.")
@click.option("--id", "job_id", metavar="ID", help="Job id  [default: made from the title]")
@click.option("--title", metavar="TEXT", help="One-line title of the job.")
@click.option(
    "--criteria",
    multiple=True,
    metavar="TEXT",
    help="Requirement that the reviewer checks the work against; repeatable.",
)
@click.option(
    "--files",
    multiple=True,
    metavar="FILE",
    help="Workspace file to include in every prompt; repeatable.",
    shell_complete=complete_file,
)
@click.option(
    "--tag", "tags", multiple=True, metavar="TAG", help="Tag, for listings and prompts; repeatable."
)
@click.option("--task-type", metavar="TYPE", help="Type of the task.")
@click.option("--role", metavar="NAME", help="Role that does the work.", shell_complete=complete_role)
@model_option
@click.option(
    "--repo",
    metavar="PATH",
    help="Git repository that the workspace starts from.",
    shell_complete=complete_directory,
)
@click.option("--no-repo", is_flag=True, help="Start from an empty workspace.")
@click.option("--draft", is_flag=True, help="Create a draft; to start it: `logist job activate`.")
@click.option("--review/--no-review", default=None, help="Whether a reviewer checks the work.")
@click.option(
    "--review-mode",
    type=click.Choice(["strict", "normal", "yolo"]),
    help="How strict the review is; `yolo` also merges the work.",
)
@click.option(
    "--approval", type=click.Choice(["none", "end", "each"]), help="When the work needs a steward's approval."
)
@click.option("--cost-threshold", type=Amount(), metavar="CENTS", help="Cost limit of the job.")
@click.option(
    "--time-threshold-minutes",
    type=Amount(),
    metavar="MINUTES",
    help="Time limit for the agents.",
)
@click.option(
    "--max-allowed-iterations", type=click.IntRange(min=0), metavar="N", help="Maximum number of agent runs."
)
@click.option(
    "--max-attempts",
    type=click.IntRange(min=1),
    metavar="N",
    help="Maximum attempts per step before the job is STUCK.",
)
@click.option("--rank", type=int, metavar="N", help="Position in the queue; lower numbers run first.")
@click.option(
    "--after",
    multiple=True,
    metavar="JOB",
    help="Begin only after this job has succeeded; repeatable.",
    shell_complete=complete_job,
)
@new_jobs_dir_option
@json_option
@click.pass_obj
def create(environment: Environment, /, jobs_dir: str | None, **options: Any) -> Output:
    """Create a job from a prompt, a file, or a spec.

    SPEC is a YAML or JSON file with the keys of job.yaml, or - for standard input; options override its values.
    TASK is the prompt: `logist job create "fix the bug"` is the same as `--prompt "fix the bug"`. An argument
    is a TASK if it has more than one word and no file has that name. Without an argument, the prompt comes from
    --prompt, --file, or the workflow.

    Each line of a --batch is one JSON object with the keys of job.yaml. All jobs are created, or none: if a line is
    invalid, Logist names it and creates nothing. Prints the ids, in the order of the lines.

    A template is a job.yaml with placeholders such as {{issue}}, in quotes. Their values come from --set and, with --batch,
    from the lines, which then have only these values; those of a line come before those of --set.
    """
    from logist.cli import context

    project = context.open_project(environment, jobs_dir)
    options["after"] = [expand_job_id(environment, each) for each in options["after"]]
    if options["batch_file"] is not None:
        return _create_batch(environment, project, jobs_dir, options)
    return _create_job(environment, project, jobs_dir, options)


def _create_job(
    environment: Environment, project: ProjectContext, jobs_dir: str | None, options: dict[str, Any]
) -> Output:
    from logist.cli import context, given_spec, given_template
    from logist.core.machine.predecessors import describe_unmet
    from logist.jobs.base import job_names
    from logist.jobs.base.create import create_job as create_job
    from logist.jobs.base.predecessors import find_unmet_of

    file_warnings = given_spec.warn_missing_file(options)
    options = given_spec.apply_task_argument(options)
    template = given_template.open_template(environment, project, options)
    text, spec = given_spec.read_spec(options, template.fill() if template else None)
    job_id = options["job_id"] or spec.id or job_names.create_job_id(spec)
    here = given_spec.find_base_directory(options)
    created = create_job(project, job_id, spec, draft=options["draft"], text=text, here=here)
    state = created.state
    unmet = find_unmet_of(project, job_id, state, state.after or ())
    data = _build_data(project, job_id, state, unmet)
    lines = (
        (StyledText(job_id, "bold"), " is ", status_span(state.status.value)),
        *([describe_unmet(unmet)] if unmet else ()),
        (StyledText(f"directory: {data['path']}", "dim"),),
        (Command(f"next: {data['next_command']}", "dim"),),
    )
    diagnostics = (
        *make_warnings(file_warnings, "no_such_file"),
        *make_warnings(created.warnings, "uncommitted"),
        *make_warnings(created.file_warnings, "file_not_shown"),
        *make_warnings(created.merge_warnings, "unchecked_merge"),
        *context.warn_unused_permissions(environment),
        *context.note_outside_project(environment, jobs_dir, job_id),
        *context.warn_unknown_models(project, [spec.model]),
        *context.warn_untrusted(project),
    )
    return Output(data, lines, diagnostics)


def _create_batch(
    environment: Environment, project: ProjectContext, jobs_dir: str | None, options: dict[str, Any]
) -> Output:
    from logist.cli import context, given_spec, given_template
    from logist.cli.given_batch import read_batch
    from logist.jobs.base.create_batch import create_jobs
    from logist.jobs.base.predecessors import find_unmet_of

    options = given_spec.apply_task_argument(options)
    batch = read_batch(options, given_template.open_template(environment, project, options))
    project = _say_once(project)
    with _show_progress(len(batch.lines), "line") as count_line:
        batch.check(project, count_line)
    with _show_progress(len(batch.lines), "job") as count_job:
        created = create_jobs(project, batch.iter_plans(project), count_job)
    ids = list(created.states)
    diagnostics = (
        *make_warnings(created.warnings, "uncommitted"),
        *make_warnings(created.file_warnings, "file_not_shown"),
        *make_warnings(created.merge_warnings, "unchecked_merge"),
        *context.warn_unused_permissions(environment),
        *context.note_outside_project(environment, jobs_dir, ids[0]),
        *context.warn_unknown_models(project, batch.models),
        *context.warn_untrusted(project),
    )
    rows = [
        _build_data(project, job_id, state, find_unmet_of(project, job_id, state, state.after or ()))
        for job_id, state in created.states.items()
    ]
    return Output({"jobs": rows}, ids, diagnostics)


@contextmanager
def _show_progress(total: int, what: str) -> Iterator[Callable[[], None]]:
    """Show a bar inside the block, if it takes long; yields what counts one more."""
    from logist.cli.show.progress import ProgressBar

    bar = ProgressBar(total, what, delay=PROGRESS_SECONDS)
    try:
        yield bar.count_history
    finally:
        bar.clear()


def _build_data(
    project: ProjectContext, job_id: str, state: State, unmet: Sequence[Unmet] = ()
) -> dict[str, str]:
    from logist.core.machine.predecessors import advise_unmet
    from logist.core.machine.steward import next_command

    return {
        "job": job_id,
        "path": str(project.jobs_dir / job_id),
        "status": state.status.value,
        "title": state.title,
        "next_command": advise_unmet(job_id, state.after or (), unmet)
        if unmet
        else next_command(state, job_id),
    }


def _say_once(project: ProjectContext) -> ProjectContext:
    """Return the project without repeated messages: every line of a batch may lead to the same one."""
    from dataclasses import replace

    messages: set[str] = set()

    def say(text: str) -> None:
        if text not in messages:
            messages.add(text)
            project.say(text)

    return replace(project, say=say)
