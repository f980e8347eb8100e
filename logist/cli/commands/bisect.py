"""`logist bisect`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import recorded_jobs_dir_option
from logist.cli.show.output import Diagnostic, Line, Output, StyledText
from logist.cli.stops import get_stop_code, stop_on_signals
from logist.config.environment import Environment
from logist.core.text.counts import format_count
from logist.errors import ReplayDiffers, UsageError

if TYPE_CHECKING:
    from logist.jobs.archive.archive_bisect import Bisected, Culprit
    from logist.jobs.archive.recorded_jobs import Archive
    from logist.workspace.commit_search import Commit


@click.command("bisect")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@click.option(
    "--good",
    metavar="COMMIT",
    help="A commit at which the histories replay with the same prompts; by default, the last one before each was recorded.",
)
@click.option(
    "--bad", metavar="COMMIT", default="HEAD", show_default=True, help="A commit at which they are different."
)
@recorded_jobs_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_obj
@stop_on_signals
def bisect(
    environment: Environment,
    paths: tuple[str, ...],
    good: str | None,
    bad: str,
    jobs_dir: str | None,
    as_json: bool,
) -> Output:
    """Find the commit that made recorded jobs replay differently.

    Replays each history with the roles, workflows and settings of earlier commits of this project, as `git bisect`
    chooses them, and names the commit since which its prompts are different, with the cause. Works in a temporary
    directory: it neither checks out anything nor runs hooks or programs. PATH is as in `logist replay`.

    Exit code: 0 if all histories replay with the same result at the bad commit; 9 if one doesn't, whether its
    commit was found or not; 10 if one is damaged; 2 if the good commit is not good.
    """
    from logist.cli.checkup.surroundings import surroundings
    from logist.cli.current_job import get_current_directory
    from logist.cli.recorded import list_recorded
    from logist.jobs.archive.archive_bisect import bisect_all, bisect_archive
    from logist.jobs.archive.recorded_jobs import exit_code_of_errors
    from logist.workspace.commit_search import open_commit_search

    archives = list_recorded(environment, paths, None if paths else jobs_dir)
    home = environment.find_home(Path(get_current_directory()))
    if home.source != "project":
        raise UsageError("not in a project", fix="run it in a directory with .logist, or below it")
    with open_commit_search(home.path.parent) as search:
        last = search.resolve_commit(bad)
        first = search.resolve_commit(good) if good is not None else None

        def bisect_one(archive: Archive) -> Bisected:
            return bisect_archive(
                search,
                archive,
                lambda root: surroundings(environment, jobs_dir, strict=True, directory=root),
                good=first,
                bad=last,
                get_stop_code=get_stop_code,
            )

        results, errors = bisect_all(archives, bisect_one)
    data = {"histories": [_build_row(each) for each in results]}
    lines = tuple(line for each in results for line in _format_result(each))
    diagnostics = [
        Diagnostic.from_error(error)._replace(target=error.where or name) for name, error in errors
    ]
    different = [each for each in results if each.is_different]
    if different:
        of = f"{len(different):,} of {format_count(len(archives), 'history')}"
        message = f"{of} replayed differently at {bad}"
        diagnostics.append(Diagnostic("error", ReplayDiffers.code, message))
    code = exit_code_of_errors([error for _, error in errors])
    return Output(data, lines, tuple(diagnostics), code or (ReplayDiffers.exit_code if different else 0))


def _build_row(found: Bisected) -> dict[str, Any]:
    return {
        "source": found.name,
        "good": found.good or None,
        "bad": found.bad,
        "different": found.is_different,
        "earlier": found.earlier,
        "culprits": [
            {
                "commits": [asdict(commit) for commit in each.candidates],
                "files": list(each.files),
                "prompts": [asdict(drift) for drift in each.drifts],
                "skipped": [asdict(commit) for commit in each.skipped],
            }
            for each in found.culprits
        ],
    }


def _format_result(found: Bisected) -> Iterator[Line]:
    from logist.jobs.archive.replay_report import format_replay_verdict

    yield f"{found.name}: {format_replay_verdict(found.replayed)}"
    if found.replayed.nothing_compared and not found.is_different:
        yield "  its prompts can't be compared: the history does not record their parts"
    elif not found.is_different:
        yield "  only commits are searched: if logist replay shows a difference, its cause is not committed yet"
    elif not found.culprits:
        yield "  no commit of this project is the cause: its files don't decide this"
    shown: set[str] = set()
    for each in found.culprits:
        yield from _format_culprit(each, shown)
    if found.earlier:
        yield f"  {format_count(found.earlier, 'other difference')} from before the good commit {found.good[:12]}"


def _format_culprit(culprit: Culprit, shown: set[str]) -> Iterator[Line]:
    from logist.cli.replayed import color_report
    from logist.jobs.archive.replay_report import format_drift_lines

    if len(culprit.candidates) == 1:
        yield (StyledText(f"  commit {_format_commit(culprit.candidates[0])}", "bold"),)
    else:
        yield "  one of these commits, because the others between good and bad can't be tested:"
        yield from (f"    {_format_commit(each)}" for each in culprit.candidates)
    if culprit.files:
        yield f"    changed: {', '.join(culprit.files)}"
    if culprit.skipped:
        yield f"    skipped: {format_count(len(culprit.skipped), 'commit')} with an invalid config or role"
    yield from color_report(f"  {line}" for line in format_drift_lines(culprit.drifts, shown))


def _format_commit(commit: Commit) -> str:
    return f"{commit.id[:12]} {commit.subject} ({commit.author}, {commit.date[:10]})"
