"""Shared by `logist replay` and `logist job replay`: their options, and how they present a result."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from logist.cli.show.output import Diagnostic, Line, StyledText
from logist.config.environment import Environment
from logist.core.money.amounts import format_count
from logist.errors import InvalidFile, ReplayDiffers, UsageError

if TYPE_CHECKING:
    from logist.core.replay.replay import Prompts
    from logist.jobs.archive.archive_replay import Replayed
    from logist.jobs.archive.replay_report import Junit, ReplayTotals

F = TypeVar("F", bound=Callable[..., Any])

ANOTHER_WAY = "would not go the same way today"
MARKS = {"    -": "red", "    +": "green"}
"""How a line of a diff begins, and its colour; as in `logist job history --diff`."""
BY_CHANGED_RULES = "would go another way today by a rule that has changed (an error because of --strict)"
UNCOMPARED = "can't be compared with today's, none of them (--prompts warn only tells)"
OTHERWISE = "would be put in another way today (--prompts warn only tells)"


def replay_options(command: F) -> F:
    """--prompts, --strict and --junit."""
    prompts = click.option(
        "--prompts",
        type=click.Choice(["fail", "warn", "accept"]),
        default="warn",
        show_default=True,
        help="If agents would be told something else today: fail, warn, or (accept) do not look.",
    )
    junit = click.option(
        "--junit", metavar="FILE", type=click.Path(), help="Write a JUnit report too, for a CI."
    )
    strict = click.option(
        "--strict",
        is_flag=True,
        help="Fail also where a rule that a newer Logist has changed is the only cause.",
    )
    return prompts(strict(junit(command)))


def load_prompts(environment: Environment, jobs_dir: str | None, choice: str) -> Prompts | None:
    """Return what compares a recorded prompt with today's; None if prompts are not to be compared.

    With `fail`, raises InvalidFile for a config that is not valid: then today's prompts are unknown.
    """
    if choice == "accept":
        return None
    from logist.cli.checkup.surroundings import surroundings
    from logist.jobs.archive.archive_drift import build_drift_finder

    try:
        project = surroundings(environment, jobs_dir, strict=True)
    except InvalidFile as error:
        if choice == "fail":
            raise
        project = surroundings(environment, jobs_dir)
        project.say(f"warning: prompts are compared with the defaults of Logist: {error}")
    return build_drift_finder(project)


def require_junit_file(name: str | None) -> Path | None:
    """Return the path of the report. Raises UsageError, before any work is
    done, for a path that can't be written.
    """
    if name is None:
        return None
    path = Path(os.path.realpath(name))
    if not path.parent.is_dir():
        raise UsageError("there is no such directory", where=f"--junit {name}", fix=f"mkdir -p {path.parent}")
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        raise UsageError("it is no regular file", where=f"--junit {name}", fix="name a file")
    if path.exists() and not _is_report(path):
        fix = "name another file; only a report is written over"
        raise UsageError("there is a file that is no report", where=f"--junit {name}", fix=fix)
    return path


def _is_report(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(5) in (b"", b"<?xml")


def write_junit(path: Path | None, report: Junit) -> None:
    """Write the report, completely or not at all."""
    if path is not None:
        from logist.store import files

        files.replace_chunks(path, report.generate_document(), 0o644)


def color_report(lines: Iterable[str]) -> Iterator[Line]:
    """Return the lines of a report, with the colours of a diff."""
    for line in lines:
        style = MARKS.get(line[:5])
        yield (StyledText(line, style),) if style else line


def build_replay_row(found: Replayed) -> dict[str, Any]:
    """Return one history as `--json` prints it."""
    return {
        "source": found.name,
        "interactions": found.interactions,
        "skipped": found.unjudged,
        "differences": [asdict(each) for each in found.differences],
        "changed_rules": [asdict(each) for each in found.changed_rules],
        "prompts": [asdict(each) for each in found.drifts],
        "more": found.more,
        "manifest": list(found.disagreements),
        "notes": list(found.notes),
        "error": Diagnostic.from_error(found.error)._asdict() if found.error else None,
    }


def list_replay_notes(found: Replayed, name: str | None = None) -> tuple[Diagnostic, ...]:
    """Return notes on a history that are no differences; `name` is the history's, where there are many."""
    newer = tuple(Diagnostic("warning", "newer", text, name) for text in found.skipped)
    return (*newer, *(Diagnostic("info", "note", text, name) for text in found.notes))


def judge_history(found: Replayed, *, prompts: bool, rules: bool) -> tuple[int, tuple[Diagnostic, ...]]:
    """Return the exit code of one history that was read to its end, and its reason."""
    if not found.has_failed(prompts=prompts, rules=rules):
        return 0, ()
    prompts_are = OTHERWISE if found.drifts else UNCOMPARED
    message = f"its prompts {prompts_are}"
    if found.is_different:
        message = f"it {ANOTHER_WAY}"
    elif rules and found.changed_rules:
        message = f"it {BY_CHANGED_RULES}"
    return ReplayDiffers.exit_code, (Diagnostic("error", ReplayDiffers.code, message, found.name),)


def judge_totals(totals: ReplayTotals, *, prompts: bool, rules: bool) -> tuple[int, tuple[Diagnostic, ...]]:
    """Return the exit code of many, and its reasons: what can't be read comes before what differs."""
    from logist.jobs.archive.recorded_jobs import exit_code_of_errors

    of = f"of {format_count(totals.histories, 'history')}"
    drift = totals.drift if prompts else 0
    reasons = []
    if totals.unreadable:
        reasons.append(
            Diagnostic("error", "unreadable", f"{totals.unreadable:,} {of} can't be read to the end")
        )
    if totals.differ:
        reasons.append(Diagnostic("error", ReplayDiffers.code, f"{totals.differ:,} {of} {ANOTHER_WAY}"))
    if rules and totals.changed_rules:
        text = f"{totals.changed_rules:,} {of} {BY_CHANGED_RULES}"
        reasons.append(Diagnostic("error", ReplayDiffers.code, text))
    if drift:
        reasons.append(Diagnostic("error", ReplayDiffers.code, f"the prompts of {drift:,} {of} {OTHERWISE}"))
    if prompts and totals.uncompared:
        prompts_of = f"the prompts of {totals.uncompared:,} {of}"
        reasons.append(Diagnostic("error", ReplayDiffers.code, f"{prompts_of} {UNCOMPARED}"))
    differs = ReplayDiffers.exit_code if reasons else 0
    return exit_code_of_errors(totals.errors) or differs, tuple(reasons)
