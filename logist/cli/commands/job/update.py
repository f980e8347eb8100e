"""`logist job update`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import note_option, wait_option
from logist.cli.project import on_job
from logist.cli.shell_values import complete_directory
from logist.cli.show.output import Line, Output, StyledText, make_warnings
from logist.errors import Refused, UsageError

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext
    from logist.workspace.merge import SourceUpdate

LISTED = 50
"""Files listed for people; --json has all."""


@click.command("update")
@click.option("--dry-run", is_flag=True, help="Change nothing; show what would change, and what conflicts.")
@click.option(
    "--resolve", is_flag=True, help="If files conflict, let the agent resolve the conflicts as its next task."
)
@click.option(
    "--onto",
    metavar="COMMIT",
    help="Move onto this commit or branch, instead of the checked-out one, even if its history was rewritten.",
)
@click.option(
    "--repo",
    metavar="DIR",
    help="Update from this repository instead of the job's own, such as a clone of it.",
    shell_complete=complete_directory,
)
@on_job
@note_option()
@wait_option
def update(
    project: ProjectContext,
    job_id: str,
    note: str | None,
    wait: float,
    dry_run: bool,
    resolve: bool,
    onto: str | None,
    repo: str | None,
) -> Output:
    """Bring later commits of the source repository into the workspace of a job.

    Logist merges them with the work of the job. If files conflict, the job stays as it was, unless --resolve gives the
    conflicts to the agent. Finished work must be reviewed and approved again. The repository is only read; its
    uncommitted changes don't count. To undo an update: logist job restep.
    """
    from logist.cli.show.view import build_result_output
    from logist.jobs.steward import job_update

    if dry_run and note:
        raise UsageError("can't use --dry-run and --note together", fix="use only one of them")
    place = Path(repo).expanduser() if repo else None
    if place is not None and not place.is_dir():
        raise UsageError(f"{repo} is not a directory", where="--repo", fix="use the path of a git repository")
    updated = job_update.update_job(
        project, job_id, onto=onto, repository=place, resolve=resolve, dry_run=dry_run, note=note, wait=wait
    )
    found, standing = updated.update, build_result_output(updated.result)
    description = job_update.describe_update(found, would=dry_run)
    lines: list[Line] = [(StyledText(description, "bold"),), *_format_update(found)]
    if not dry_run:
        lines += standing.lines
    code = (Refused.exit_code if found.conflicts and not resolve else 0) if dry_run else standing.exit_code
    diagnostics = standing.diagnostics
    if dry_run and found.conflicts and not resolve:
        command = job_update.build_resolve_command(job_id, onto, place)
        hint = f"to have the agent resolve that as its next task: {command}"
        diagnostics += make_warnings([hint])
    data = {**standing.data, "update": _build_data(found, description)}
    return Output(data, lines, diagnostics, code)


def _format_update(found: SourceUpdate) -> Iterator[Line]:
    from logist.cli.show.file_changes import format_file_changes

    yield from format_file_changes(found.files, LISTED)
    for each in found.conflicts:
        yield ("  conflict: ", StyledText(str(each), "red"))


def _build_data(found: SourceUpdate, description: str) -> dict[str, Any]:
    return {
        "needed": found.is_needed,
        "description": description,
        "repository": str(found.place),
        "branch": found.branch,
        "before": found.before,
        "after": found.after,
        "commits": found.commits,
        "files": [change._asdict() for change in found.files],
        "conflicts": [
            {"path": each.path, "kind": each.kind, "has_markers": each.has_markers}
            for each in found.conflicts
        ],
    }
