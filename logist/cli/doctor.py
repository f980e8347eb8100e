"""`logist doctor`."""

from __future__ import annotations

from typing import Any

import click

from logist.cli.options import jobs_dir_option, json_option
from logist.cli.output import Line, Output, Span
from logist.config.environment import Environment

STYLES = {"ok": "green", "warning": "yellow", "error": "red"}


@click.command("doctor")
@click.option("--deep", is_flag=True, help="Verify every job's whole history too.")
@jobs_dir_option
@json_option
@click.pass_obj
def doctor(environment: Environment, deep: bool, jobs_dir: str | None) -> Output:
    """Check this machine and this project; each finding names what mends it.

    Exit code 10 when a job is damaged, else 5 when anything else is wrong, else 0. Nothing is changed.
    """
    from logist.cli.checkup import examine

    checks = [check._asdict() for check in examine(environment, jobs_dir, deep=deep)]
    worst = max((check["exit_code"] for check in checks), default=0)
    rows = [{key: value for key, value in check.items() if key != "exit_code"} for check in checks]
    return Output({"ok": worst == 0, "checks": rows}, [_line(row) for row in rows], exit_code=worst)


def _line(row: dict[str, Any]) -> Line:
    advice = f" ({row['fix']})" if row["fix"] else ""
    return (
        Span(f"{row['level']:8}", STYLES[row["level"]]),
        Span(row["check"], "bold"),
        f": {row['message']}{advice}",
    )
