"""`logist doctor`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from logist.cli.options import jobs_dir_option, json_option
from logist.cli.shell_values import complete_file
from logist.cli.show.output import Line, Output, StyledText
from logist.config.environment import Environment

if TYPE_CHECKING:
    from logist.cli.checkup.report import Report
    from logist.jobs.doctor.checks import Finding

REPORTED = (
    "It has versions, settings (only numbers, and names of models and modes), the names",
    "of LOGIST_ variables, the number of jobs by status, the checks above, and the last",
    "events of the log. It has no prompts, answers or contents of files. Secrets,",
    "directories, and the names of users, machines and jobs are replaced where Logist",
    "recognizes them. Read it before you attach it to a bug report.",
)
STYLES = {"ok": "green", "warning": "yellow", "error": "red"}


@click.command("doctor")
@click.option("--deep", is_flag=True, help="Also verify the complete history and checkpoints of every job.")
@click.option(
    "--fix", is_flag=True, help="Repair what is safe to repair; make a backup in .logist/backup first."
)
@click.option(
    "--ping", is_flag=True, help="Also send each model a request for one token; shows the cost before."
)
@click.option(
    "--report",
    is_flag=False,
    flag_value="logist-report.txt",
    metavar="[FILE]",
    shell_complete=complete_file,
    help="Also write a file to attach to a bug report, without secrets, names and prompts  [FILE: logist-report.txt].",
)
@jobs_dir_option
@json_option
@click.pass_obj
def doctor(
    environment: Environment, deep: bool, fix: bool, ping: bool, report: str | None, jobs_dir: str | None
) -> Output:
    """Check this machine and this project for problems.

    Each finding says how to fix it. Each model that a role uses is listed with its key, its price and its address.
    Only --ping sends anything. Without --fix, nothing is changed. --fix never changes a job that another
    process is working on, or a history that doesn't verify.

    Exit code: 10 if a job is damaged; 5 for any other error; else 0. With --fix, only remaining problems count.
    """
    from logist.cli.checkup.report import examine

    examined = examine(environment, jobs_dir, deep=deep, fix=fix, ping=ping)
    worst = max((found.exit_code for found in examined.findings), default=0)
    data = {
        "ok": worst == 0,
        "checks": [
            {"check": found.check, "level": found.level, "message": found.message, "fix": found.fix}
            for found in examined.findings
        ],
        "fixed": [fixed._asdict() for fixed in examined.fixed],
        "backup": str(examined.backup) if examined.backup else None,
        "report": None,
    }
    lines = list(_format_report(examined))
    if report is not None:
        data["report"] = _write_bug_report(examined, os.path.abspath(report))
        lines += [f"report  {data['report']}", *REPORTED]
    return Output(data, lines, exit_code=worst)


def _write_bug_report(examined: Report, path: str) -> str:
    from logist.cli import command_log
    from logist.cli.checkup import bug_report

    assert examined.project is not None
    log_file = command_log.find_file()
    bug_report.write_report(bug_report.build_report(examined.project, examined, log_file), path)
    return path


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
