"""`logist job create`."""

from __future__ import annotations

from typing import Any

import click

from logist.cli.glance import status_span
from logist.cli.options import Amount, jobs_dir_option, json_option
from logist.cli.output import Output, Span, warnings
from logist.config.environment import Environment


@click.command("create")
@click.argument("spec_file", metavar="[SPEC]", required=False)
@click.option("--prompt", metavar="TEXT", help="What is to be done.")
@click.option(
    "--file", "prompt_file", metavar="FILE", help="A file with the prompt, or - for standard input."
)
@click.option("--workflow", metavar="FILE", help="A workflow to follow: a file, FILE#NAME, or a name.")
@click.option("--input", "input_", metavar="JSON", help="What the workflow is given, or @FILE.")
@click.option("--id", "job_id", metavar="ID", help="The job's id  [default: made from the title]")
@click.option("--title", metavar="TEXT", help="One line that names the job.")
@click.option("--task-type", metavar="TYPE", help="What kind of task it is.")
@click.option("--role", metavar="NAME", help="Who does it.")
@click.option("--repo", metavar="PATH", help="The git repository the workspace starts from.")
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
@jobs_dir_option
@json_option
@click.pass_obj
def create(environment: Environment, /, jobs_dir: str | None, **options: Any) -> Output:
    """Make a job.

    SPEC is a YAML or JSON file with the keys of job.yaml, or - for standard input; options win over it.
    Without SPEC the job is what --prompt or --file says, or what its workflow says.
    """
    from logist.cli import context, given_spec
    from logist.core.machine import next_command
    from logist.jobs.create import create as create_job

    project = context.project(environment, jobs_dir)
    text, spec = given_spec.read(options)
    job_id = options["job_id"] or spec.id or given_spec.new_id(spec)
    here = given_spec.directory(options)
    made = create_job(project, job_id, spec, draft=options["draft"], text=text, here=here)
    state = made.state
    data = {
        "job": job_id,
        "path": str(made.job.path),
        "status": state.status.value,
        "title": state.title,
        "next_command": next_command(state.place(), job_id),
    }
    lines = (
        (Span(job_id, "bold"), " is ", status_span(state.status.value)),
        (Span(f"directory: {made.job.path}", "dim"),),
        (Span(f"next: {data['next_command']}", "dim"),),
    )
    diagnostics = warnings(made.warnings, "uncommitted") + warnings(made.merge_warnings, "unchecked_merge")
    diagnostics += context.unused_permissions(environment) + context.untrusted(project)
    return Output(data, lines, diagnostics)
