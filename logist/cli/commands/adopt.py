"""`logist adopt`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import json_option, new_jobs_dir_option
from logist.cli.show.output import Command, Diagnostic, Line, Output, StyledText, make_notes
from logist.config.environment import Environment, require_utf8
from logist.core.text.counts import format_count

if TYPE_CHECKING:
    from logist.jobs.archive.session_adoption import Adopted


@click.command("adopt")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())
@new_jobs_dir_option
@json_option
@click.pass_obj
def adopt(environment: Environment, paths: tuple[str, ...], jobs_dir: str | None) -> Output:
    """Create jobs from sessions of other agent programs.

    PATH is a session of Claude Code (~/.claude/projects), a rollout of Codex (~/.codex/sessions), a trajectory of
    mini-swe-agent, or a folder with some. Logist only reads the files. Each session becomes a canceled job with a
    history, which 'logist replay', 'logist stats' and 'logist whatif' can use.

    A session that can't be adopted is reported with the reason, and the others are adopted; then the exit code is
    that of the first problem, such as 10 for a file that is not a session. A session that was adopted before is
    left as it is. Known secrets are removed; review the jobs before you share them, with 'logist job export --fixture --redact'.
    """
    from logist.cli.context import open_project
    from logist.jobs.archive.recorded_jobs import exit_code_of_errors
    from logist.jobs.archive.session_adoption import adopt_sessions
    from logist.jobs.archive.session_files import find_session_files

    files = find_session_files([require_utf8(path, "the path", "rename the file") for path in paths])
    results = list(adopt_sessions(open_project(environment, jobs_dir), files))
    rows = [_build_row(each) for each in results]
    lines = [line for each in results for line in _format_result(each)]
    errors = [each.error for each in results if each.error is not None]
    adopted = [each for each in results if each.is_new]
    summary = f"{format_count(len(adopted), 'session')} adopted"
    known = sum(each.job is not None and not each.is_new for each in results)
    summary += f", {known} already adopted" if known else ""
    summary += f", {len(errors)} refused" if errors else ""
    diagnostics = [Diagnostic.from_error(error) for error in errors]
    if adopted:
        diagnostics += make_notes(
            [
                "adopted jobs can contain secrets that Logist doesn't know: before you share them, export them with --redact"
            ]
        )
    lines.append((StyledText(summary, "dim"),))
    return Output({"sessions": rows}, tuple(lines), tuple(diagnostics), exit_code_of_errors(errors))


def _build_row(each: Adopted) -> dict[str, Any]:
    return {
        "path": str(each.path),
        "program": each.program or None,
        "session": each.session or None,
        "job": each.job,
        "is_new": each.is_new,
        "interactions": each.interactions,
        "calls": each.calls,
        "notes": list(each.notes),
        "error": Diagnostic.from_error(each.error)._asdict() if each.error else None,
    }


def _format_result(each: Adopted) -> Iterator[Line]:
    from logist.jobs.archive.session_adoption import describe_count

    if each.job is None:
        return
    if not each.is_new:
        yield (StyledText(each.job, "bold"), " was adopted before: unchanged")
        return
    yield (StyledText(each.job, "bold"), f" from {each.program}: {describe_count(each)}")
    for note in each.notes:
        yield (StyledText(f"    {note}", "dim"),)
    yield (Command(f"    logist job show --job {each.job}", "dim"),)
