"""`logist job config`."""

from __future__ import annotations

import click

from logist import documents
from logist.cli.options import choose_job_id, job_options
from logist.cli.show.output import Output
from logist.config.environment import Environment
from logist.errors import UsageError


@click.command("config")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a field, such as limits.cost_threshold=2000.",
)
@click.option(
    "--unset", "removed", multiple=True, metavar="KEY", help="Remove a field; its default applies again."
)
@job_options
@click.pass_obj
def config(
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    settings: tuple[str, ...],
    removed: tuple[str, ...],
) -> Output:
    """Show or change job.yaml.

    KEY is a dotted path. VALUE is parsed as YAML: a number, true, false, null, [a, b], "quoted"; anything else
    is text. Comments and the order of fields are kept.
    """
    chosen = choose_job_id(environment, job_argument, job_option)
    if not settings and not removed:
        return _show_spec(environment, chosen, jobs_dir)
    changes = _parse_changes(settings, removed)

    from logist.cli.context import open_project
    from logist.cli.show.view import build_result_output
    from logist.jobs.steward.job_edits import configure_job

    return build_result_output(configure_job(open_project(environment, jobs_dir), chosen, changes))


def _show_spec(environment: Environment, chosen: str, jobs_dir: str | None) -> Output:
    from logist import documents
    from logist.cli.context import open_job

    job = open_job(environment, chosen, None, jobs_dir)
    job.require_known_format()
    text = documents.read_document_text(job.spec_file)
    return Output({"job": job.id, "path": str(job.spec_file), "text": text}, raw=text)


def _parse_changes(
    settings: tuple[str, ...], removed: tuple[str, ...]
) -> dict[tuple[str, ...], object | None]:
    changes: dict[tuple[str, ...], object | None] = {}
    for setting in settings:
        key, separator, text = setting.partition("=")
        if not separator:
            raise UsageError(f"missing '=' in {setting!r}", where="--set", fix="use --set KEY=VALUE")
        changes[_parse_key(key, "--set")] = documents.parse_value(text)
    for key in removed:
        changes[_parse_key(key, "--unset")] = None
    return changes


def _parse_key(key: str, option: str) -> tuple[str, ...]:
    keys = tuple(key.strip().split("."))
    if not all(keys):
        raise UsageError(f"invalid key {key!r}", where=option, fix="for example: limits.cost_threshold")
    return keys
