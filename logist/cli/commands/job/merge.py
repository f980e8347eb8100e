"""`logist job merge`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import wait_option
from logist.cli.project import on_job
from logist.cli.shell_values import complete_directory
from logist.cli.show.output import Diagnostic, Line, Output, StyledText, make_warnings
from logist.errors import Refused, UsageError

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext
    from logist.workspace.merge import Published

LISTED = 50
"""Files listed for people; --json has all."""
STYLES = {"+": "green", "-": "red", "@": "cyan"}


@click.command("merge")
@click.option(
    "--dry-run", is_flag=True, help="Change nothing; show what would be merged, and what prevents it."
)
@click.option("--diff", is_flag=True, help="Show the full patch, not only the list of files.")
@click.option("--branch", "branch_only", is_flag=True, help="Only create the branch, to merge it with git.")
@click.option(
    "--repo",
    metavar="DIR",
    help="Merge into this repository instead of the job's own, such as a clone of it.",
    shell_complete=complete_directory,
)
@on_job
@wait_option
def merge(
    project: ProjectContext,
    job_id: str,
    wait: float,
    dry_run: bool,
    diff: bool,
    branch_only: bool,
    repo: str | None,
) -> Output:
    """Merge the work of a successful job into its source repository.

    Logist commits the work to the branch logist/JOB and merges it into the branch that is checked out there,
    and updates the files there; git-ignored files are left out. It refuses to merge if files conflict, if you have
    changed the same files, or if another merge is in progress. Hooks and filters of the repository are not run.
    To finish an interrupted merge, run the command again.
    """
    if dry_run and branch_only:
        raise UsageError("can't use --dry-run and --branch together", fix="use only one of them")
    from logist.cli.show.view import build_result_output
    from logist.jobs.steward import job_merge

    mode = "look" if dry_run else "branch" if branch_only else "merge"
    place = Path(repo).expanduser() if repo else None
    if place is not None and not place.is_dir():
        raise UsageError(f"{repo} is not a directory", where="--repo", fix="use the path of a git repository")
    merged = job_merge.merge_job(project, job_id, mode=mode, patch=diff, repository=place, wait=wait)
    published, standing = merged.published, build_result_output(merged.result)
    said = job_merge.describe_merge(published, would=dry_run)
    lines: list[Line] = [(StyledText(said, "bold"),), *_format_merge(published)]
    diagnostics: tuple[Diagnostic, ...] = make_warnings(
        f"left out of the merge: {each}" for each in published.left_out
    )
    if not published.whole:
        diagnostics += make_warnings(
            ["the patch is truncated; to see all of it with git, create the branch with --branch"]
        )
    if dry_run or branch_only:
        moved = job_merge.describe_moved_source(job_id, published)
        diagnostics += make_warnings([moved] if moved else [])
    if published.blocked is not None:
        diagnostics += (Diagnostic.from_error(published.blocked),)
    if not dry_run:
        lines += standing.lines
    code = _choose_exit_code(published) if dry_run else standing.exit_code
    return Output({**standing.data, "merge": _build_data(published, said)}, lines, diagnostics, code)


def _choose_exit_code(found: Published) -> int:
    """Return the exit code of a dry run: whether a merge would be refused."""
    return Refused.exit_code if found.blocked is not None or found.conflicts else 0


def _format_merge(found: Published) -> Iterator[Line]:
    from logist.cli.show.file_changes import format_file_changes

    yield from format_file_changes(found.files, LISTED)
    for path in found.conflicts:
        yield ("  conflict: ", StyledText(path, "red"))
    for line in found.patch.splitlines():
        yield (StyledText(line, STYLES.get(line[:1], "")),)
    if found.revert:
        yield (StyledText(f"To undo: {found.revert}", "dim"),)


def _build_data(found: Published, said: str) -> dict[str, Any]:
    return {
        "outcome": found.how,
        "told": said,
        "repository": str(found.place),
        "into": found.into,
        "branch": found.branch,
        "commit": found.commit,
        "before": found.before,
        "after": found.after,
        "files": [change._asdict() for change in found.files],
        "left_out": list(found.left_out),
        "conflicts": list(found.conflicts),
        "ahead": found.ahead,
        "revert": found.revert or None,
        "patch": found.patch or None,
        "whole": found.whole,
    }
