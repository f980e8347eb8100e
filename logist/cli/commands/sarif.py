"""`logist sarif`."""

from __future__ import annotations

import json

import click

from logist.cli.options import choose_output_file, json_flag, recorded_jobs_dir_option
from logist.cli.shell_values import complete_file
from logist.cli.show import render
from logist.cli.show.output import Diagnostic, Output, make_notes
from logist.cli.show.progress import ProgressBar
from logist.config.environment import Environment
from logist.core.text.counts import format_count
from logist.errors import UsageError


@click.command("sarif")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@click.option(
    "--output",
    metavar="FILE",
    shell_complete=complete_file,
    help="Write to FILE; - for standard output, the default.",
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@recorded_jobs_dir_option
@json_flag
@click.pass_obj
def sarif(
    environment: Environment,
    paths: tuple[str, ...],
    output: str | None,
    force: bool,
    jobs_dir: str | None,
    as_json: bool,
) -> Output:
    """Export findings of reviews and failed checks as SARIF 2.1.0.

    PATH is a job directory, a history file, a folder that contains them, or a glob; by default, all jobs of the project. Only the last
    review of each step counts. Findings that a steward overrode with an approval are suppressed.

    Exit code 10 if a history is damaged; the others are still exported.
    """
    from logist.cli.recorded import list_recorded
    from logist.jobs.archive.sarif_export import export_findings

    to_stdout = output in (None, "-")
    if to_stdout and as_json:
        raise UsageError(
            "with --json, standard output has the summary", where="--json", fix="use --output FILE"
        )
    file = choose_output_file(output, force=force)
    archives = list_recorded(environment, paths, jobs_dir)
    progress = ProgressBar(len(archives))
    try:
        exported = export_findings(archives, progress.count_interaction, progress.count_history)
    finally:
        progress.clear()
    text = json.dumps(exported.build_log(), indent=2) + "\n"
    suppressed, unplaced = exported.count_suppressed(), exported.count_unplaced()
    diagnostics = [
        Diagnostic.from_error(error)._replace(message=f"left out: {error.message}", target=name)
        for name, error in exported.left_out
    ]
    if unplaced:
        message = (
            f"{format_count(unplaced, 'finding')} without a file: some readers refuse a log with such results"
        )
        diagnostics.append(Diagnostic("warning", "no_file", message))
    counted = f"{format_count(len(exported.results), 'finding')} of {format_count(exported.histories, 'job')}"
    counted += f", {suppressed} suppressed" if suppressed else ""
    data = {
        "path": None if file is None else str(file),
        "histories": exported.histories,
        "left_out": len(exported.left_out),
        "findings": len(exported.results),
        "suppressed": suppressed,
        "without_file": unplaced,
    }
    if file is None:
        render.print_text(text)
        return Output(data, diagnostics=(*diagnostics, *make_notes([counted])), exit_code=exported.exit_code)
    from logist.store.files import replace_chunks

    replace_chunks(file.resolve(), [text.encode()])
    return Output(data, (counted, f"file: {file}"), tuple(diagnostics), exported.exit_code)
