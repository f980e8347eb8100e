"""`logist doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from logist.cli.options import jobs_dir_option, json_option
from logist.cli.show.output import Line, Output, StyledText
from logist.config.environment import Environment

if TYPE_CHECKING:
    from logist.cli.checkup.report import Report
    from logist.jobs.doctor.checks import Finding

STYLES = {"ok": "green", "warning": "yellow", "error": "red"}


@click.command("doctor")
@click.option("--deep", is_flag=True, help="Also verify the complete history and checkpoints of every job.")
@click.option(
    "--fix", is_flag=True, help="Repair what is safe to repair; make a backup in .logist/backup first."
)
@click.option(
    "--ping", is_flag=True, help="Also send each model a request for one token; shows the cost before."
)
@jobs_dir_option
@json_option
@click.pass_obj
def doctor(environment: Environment, deep: bool, fix: bool, ping: bool, jobs_dir: str | None) -> Output:
    """Check this machine and this project for problems.

    Each finding says how to fix it. Each model that a role uses is listed with its key, its price and its address.
    Only --ping sends anything. Without --fix, nothing is changed. --fix never changes a job that another
    process is working on, or a history that doesn't verify.

    Exit code: 10 if a job is damaged; 5 for any other error; else 0. With --fix, only remaining problems count.
    """
    from logist.cli.checkup.report import examine

    report = examine(environment, jobs_dir, deep=deep, fix=fix, ping=ping)
    worst = max((found.exit_code for found in report.findings), default=0)
    data = {
        "ok": worst == 0,
        "checks": [
            {"check": found.check, "level": found.level, "message": found.message, "fix": found.fix}
            for found in report.findings
        ],
        "fixed": [fixed._asdict() for fixed in report.fixed],
        "backup": str(report.backup) if report.backup else None,
    }
    return Output(data, list(_format_report(report)), exit_code=worst)


def _format_report(report: Report) -> Iterator[Line]:
    for fixed in report.fixed:
        yield (StyledText("fixed   ", "green"), StyledText(fixed.check, "bold"), f": {fixed.message}")
    if report.backup:
        yield (StyledText("backup  ", "dim"), str(report.backup))
    for found in report.findings:
        yield _format_finding(found)


def _format_finding(found: Finding) -> Line:
    advice = f" ({found.fix})" if found.fix else ""
    level = StyledText(f"{found.level:8}", STYLES[found.level])
    return (level, StyledText(found.check, "bold"), f": {found.message}{advice}")
