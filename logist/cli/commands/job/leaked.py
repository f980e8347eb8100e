"""`logist job verify --secrets`: the result of the search for secrets, for people and for scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from logist.cli.checkup.surroundings import surroundings
from logist.cli.context import open_job
from logist.cli.current_job import get_current_directory
from logist.cli.show.output import Diagnostic, Output
from logist.config.environment import Environment
from logist.core.text.counts import format_count
from logist.errors import StorageError
from logist.jobs.doctor import leaked_secrets
from logist.jobs.doctor.leaked_secrets import FoundLeak, Scanned
from logist.store import JobDir, list_jobs

LEAKED = 3
"""The exit code: a person has to act."""
SHOWN = 20
"""Leaks of a job that are listed for people; --json has up to 1,000."""

REVOKE = "revoke the key and create a new one: the files may have been copied"


def report_leaks(
    environment: Environment, named: tuple[str | None, str | None] | None, jobs_dir: str | None
) -> Output:
    """Search one job (`named`: the argument, and --job), or all jobs if it is None."""
    project = surroundings(environment, jobs_dir)
    scanned = [leaked_secrets.scan(project, job) for job in _list_job_dirs(environment, named, jobs_dir)]
    lines = [line for each in scanned for line in _format_scan(each)]
    diagnostics = tuple(diagnostic for each in scanned for diagnostic in _list_diagnostics(each))
    return Output(
        {"jobs": [_build_data(each) for each in scanned]}, lines, diagnostics, _choose_exit_code(scanned)
    )


def _list_job_dirs(
    environment: Environment, named: tuple[str | None, str | None] | None, jobs_dir: str | None
) -> list[JobDir]:
    if named is not None:
        return [open_job(environment, *named, jobs_dir)]
    place = environment.jobs_dir(jobs_dir, Path(get_current_directory()))
    return [JobDir.open(place, job_id) for job_id in list_jobs(place)]


def _choose_exit_code(scanned: Sequence[Scanned]) -> int:
    if any(each.recorded for each in scanned):
        return LEAKED
    return StorageError.exit_code if any(each.unread for each in scanned) else 0


def _format_scan(scanned: Scanned) -> Iterator[str]:
    if not scanned.found:
        searched = (
            f"{format_count(scanned.files, 'file')} and {format_count(scanned.objects, 'checkpoint object')}"
        )
        yield f"{scanned.job}: no secrets found in {searched}"
    for found in scanned.found[:SHOWN]:
        yield f"{scanned.job}: {_format_leak(found)}"
    more = len(scanned.found) + scanned.more - SHOWN
    if more > 0:
        yield f"{scanned.job}: {more:,} more"


def _format_leak(found: FoundLeak) -> str:
    leak = found.leak
    begins = f", starting with {leak.shown}" if leak.shown else ""
    place = f"{found.file}, line {leak.line:,} (byte {leak.offset:,})"
    return " ".join(f"{place}: {leak.kind}, {leak.length} characters{begins}".splitlines())


def _list_diagnostics(scanned: Scanned) -> Iterator[Diagnostic]:
    in_workspace = len(scanned.found) + scanned.more - scanned.recorded
    if scanned.recorded:
        message = f"{scanned.job}: {_count_secrets(scanned.recorded)} in files written by Logist"
        fix = f"{REVOKE}; then erase it: logist job scrub --job {scanned.job}"
        yield Diagnostic("error", "secret", message, fix=fix)
    if in_workspace:
        where = "in the workspace or its checkpoints, which Logist doesn't redact"
        yield Diagnostic("warning", "secret", f"{scanned.job}: {_count_secrets(in_workspace)} {where}")
    for each in scanned.unread:
        yield Diagnostic("error", StorageError.code, f"{scanned.job}: not searched: {each}")


def _count_secrets(count: int) -> str:
    return "a secret" if count == 1 else f"{count:,} secrets"


def _build_data(scanned: Scanned) -> dict[str, Any]:
    return {
        "job": scanned.job,
        "ok": not (scanned.recorded or scanned.unread),
        "files": scanned.files,
        "objects": scanned.objects,
        "bytes": scanned.bytes,
        "secrets": [
            {"place": each.place, "file": each.file, **each.leak._asdict()} for each in scanned.found
        ],
        "more": scanned.more,
        "unread": scanned.unread,
    }
