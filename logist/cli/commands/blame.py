"""`logist blame FILE`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import json_option, recorded_jobs_dir_option
from logist.cli.shell_values import complete_file
from logist.cli.show.output import Diagnostic, Line, Output
from logist.config.environment import Environment
from logist.core.money import amounts
from logist.core.text.counts import format_count
from logist.errors import Damaged, UsageError

if TYPE_CHECKING:
    from logist.jobs.archive.line_origins import FileOrigins, LineOrigin, WorkStep

_RANGE = re.compile(r"(?P<file>.+):(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?", re.DOTALL)
_SHORT = 12
"""Digits of a commit in the text output."""


@click.command("blame")
@click.argument("file", metavar="FILE[:LINE[-LINE]]", type=click.Path(), shell_complete=complete_file)
@recorded_jobs_dir_option
@json_option
@click.pass_obj
def blame(environment: Environment, file: str, jobs_dir: str | None) -> Output:
    """Show which interaction of which job wrote the lines of a merged file.

    For each line: the job, the interaction, its role, model and cost, the checks, and the decision of the steward. The history of
    each job is verified. Lines that are not from a job are shown with their commit. Changes nothing.
    Exit code 10 if a job that a line comes from is damaged.
    """
    from logist.cli.checkup.surroundings import surroundings
    from logist.jobs.archive import line_origins

    path, first, last = _split_argument(file)
    found = line_origins.find_origins(surroundings(environment, jobs_dir), path, first, last)
    damaged = [job for job in found.jobs if job.is_damaged]
    errors = tuple(Diagnostic("error", Damaged.code, str(job.problem), job.id) for job in damaged)
    return Output(_build_data(found), _build_lines(found), errors, Damaged.exit_code if damaged else 0)


def _split_argument(text: str) -> tuple[Path, int | None, int | None]:
    """Split `FILE:LINE-LINE`; a file whose name looks like that is taken as it is."""
    here = Path(get_current_directory())
    match = _RANGE.fullmatch(text)
    if match is None or (here / text).exists():
        return here / text, None, None
    first = int(match["first"])
    last = int(match["last"] or first)
    if not 0 < first <= last:
        raise UsageError(
            f"not a range of lines: {text.removeprefix(match['file'])[1:]}", fix="use FILE:3 or FILE:3-7"
        )
    return here / match["file"], first, last


def _build_data(found: FileOrigins) -> dict[str, object]:
    return {
        "file": found.path,
        "origins": [
            {
                **origin._asdict(),
                "commit": origin.commit or None,
                "work": origin.work and {**origin.work._asdict(), "parts": list(origin.work.parts)},
                "checks": [check._asdict() for check in origin.checks],
                "decisions": [decision._asdict() for decision in origin.decisions],
            }
            for origin in found.origins
        ],
        "jobs": [
            {
                "id": job.id,
                "ok": job.problem is None,
                "interactions": job.interactions,
                "problem": job.problem,
            }
            for job in found.jobs
        ],
    }


def _build_lines(found: FileOrigins) -> list[Line]:
    lines: list[Line] = []
    for origin in found.origins:
        numbers = f"{origin.first}-{origin.last}" if origin.last > origin.first else f"{origin.first}"
        commit = f" ({origin.commit[:_SHORT]})" if origin.commit else ""
        if origin.work is None:
            lines.append(f"{found.path}:{numbers}: {origin.message}{commit}")
            continue
        lines.append(f"{found.path}:{numbers}: {_describe_step(origin.work)}{commit}")
        lines += [f"  {detail}" for detail in _describe_details(origin, origin.work)]
    checked = [job for job in found.jobs if job.problem is None]
    lines += [f"{job.id}: OK, {format_count(job.interactions, 'interaction')} verified" for job in checked]
    return lines


def _describe_step(step: WorkStep) -> str:
    by = {
        "agent": ", ".join(filter(None, (step.role, step.model, amounts.format_money(step.cost_microcents)))),
        "hand": f"{step.role}, answer supplied by hand",
        "edit": "files changed before it, by a person or the setup",
        "steward": f"{step.kind} by the steward",
    }.get(step.by, step.kind)
    return f"job {step.job}, interaction {step.interaction}: {by}"


def _describe_details(origin: LineOrigin, step: WorkStep) -> list[str]:
    details = []
    if origin.job != step.job:
        details.append(f"merged with the work of its parent {origin.job}")
    if not origin.recorded:
        details.append(f"the commit names the job {origin.job}, but its history doesn't name the commit")
    if step.parts:
        details.append(f"prompt: {', '.join(step.parts)}")
    if origin.checks:
        details.append(f"checks: {', '.join(f'{check.name} {check.outcome}' for check in origin.checks)}")
    for decision in origin.decisions:
        override = " with --override" if decision.override else ""
        who = decision.steward or "a steward"
        details.append(f"approved{override} by {who} (interaction {decision.interaction})")
    if not origin.decisions:
        details.append("not approved by a steward")
    return details
