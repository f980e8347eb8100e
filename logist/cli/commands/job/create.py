"""`logist job create`."""

from __future__ import annotations

from typing import Any

import click

from logist.cli.options import Amount, json_option, new_jobs_dir_option
from logist.cli.shell_values import complete_directory, complete_file, complete_role, complete_workflow
from logist.cli.show.glance import status_span
from logist.cli.show.output import Command, Output, StyledText, make_warnings
from logist.config.environment import Environment


@click.command("create")
@click.argument("spec_file", metavar="[SPEC|TASK]", required=False, shell_complete=complete_file)
@click.option("--prompt", metavar="TEXT", help="What is to be done.")
@click.option(
    "--file",
    "prompt_file",
    metavar="FILE",
    help="A file with the prompt, or - for standard input.",
    shell_complete=complete_file,
)
@click.option(
    "--workflow",
    metavar="FILE|NAME",
    help="A workflow to follow: a file, FILE#NAME, or a name.",
    shell_complete=complete_workflow,
)
@click.option("--input", "input_", metavar="JSON", help="What the workflow is given, or @FILE.")
@click.option("--id", "job_id", metavar="ID", help="The job's id  [default: made from the title]")
@click.option("--title", metavar="TEXT", help="One line that names the job.")
@click.option(
    "--criteria",
    multiple=True,
    metavar="TEXT",
    help="A requirement that the reviewer checks the work against; repeatable.",
)
@click.option(
    "--files",
    multiple=True,
    metavar="FILE",
    help="A file of the workspace whose text is put into every prompt; repeatable.",
    shell_complete=complete_file,
)
@click.option(
    "--tag", "tags", multiple=True, metavar="TAG", help="A tag, for listings and prompts; repeatable."
)
@click.option("--task-type", metavar="TYPE", help="What kind of task it is.")
@click.option("--role", metavar="NAME", help="Who does it.", shell_complete=complete_role)
@click.option(
    "--repo",
    metavar="PATH",
    help="The git repository the workspace starts from.",
    shell_complete=complete_directory,
)
@click.option("--no-repo", is_flag=True, help="Start from an empty workspace.")
@click.option("--draft", is_flag=True, help="Make it, but don't start it.")
@click.option("--review/--no-review", default=None, help="Whether a reviewer looks at the work.")
@click.option(
    "--review-mode",
    type=click.Choice(["strict", "normal", "yolo"]),
    help="Which findings send the work back; `yolo` also merges it.",
)
@click.option("--approval", type=click.Choice(["none", "end", "each"]), help="When a steward approves.")
@click.option("--cost-threshold", type=Amount(), metavar="CENTS", help="What the job may cost.")
@click.option(
    "--time-threshold-minutes",
    type=Amount(),
    metavar="MINUTES",
    help="How long agents may work.",
)
@click.option(
    "--max-allowed-iterations", type=click.IntRange(min=0), metavar="N", help="How often agents may be asked."
)
@click.option(
    "--max-attempts", type=click.IntRange(min=1), metavar="N", help="Attempts at a step before it is STUCK."
)
@click.option("--rank", type=int, metavar="N", help="Place in the queue; lower runs earlier.")
@new_jobs_dir_option
@json_option
@click.pass_obj
def create(environment: Environment, /, jobs_dir: str | None, **options: Any) -> Output:
    """Make a job.

    SPEC is a YAML or JSON file with the keys of job.yaml, or - for standard input; options win over it. TASK
    is what to do, in words: `logist job create "fix the bug"` is `--prompt "fix the bug"`. An argument is the
    task if it has more than one word and there is no file of that name. Without either the job is what
    --prompt or --file says, or what its workflow says.
    """
    from logist.cli import context, given_spec
    from logist.core.machine.steward import next_command
    from logist.jobs.base.create import create_job as create_job
    from logist.jobs.base.job_names import create_job_id

    project = context.open_project(environment, jobs_dir)
    file_warnings = given_spec.warn_missing_file(options)
    options = given_spec.apply_task_argument(options)
    text, spec = given_spec.read_spec(options)
    job_id = options["job_id"] or spec.id or create_job_id(spec)
    here = given_spec.find_base_directory(options)
    created = create_job(project, job_id, spec, draft=options["draft"], text=text, here=here)
    state = created.state
    data = {
        "job": job_id,
        "path": str(created.job.path),
        "status": state.status.value,
        "title": state.title,
        "next_command": next_command(state, job_id),
    }
    lines = (
        (StyledText(job_id, "bold"), " is ", status_span(state.status.value)),
        (StyledText(f"directory: {created.job.path}", "dim"),),
        (Command(f"next: {data['next_command']}", "dim"),),
    )
    diagnostics = (
        *make_warnings(file_warnings, "no_such_file"),
        *make_warnings(created.warnings, "uncommitted"),
        *make_warnings(created.file_warnings, "file_not_shown"),
        *make_warnings(created.merge_warnings, "unchecked_merge"),
        *context.warn_unused_permissions(environment),
        *context.note_outside_project(environment, jobs_dir, job_id),
        *context.warn_untrusted(project),
    )
    return Output(data, lines, diagnostics)
