"""Options and output shared by `logist replay` and `logist job replay`."""

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
from logist.core.text.counts import format_count
from logist.errors import InvalidFile, ReplayDiffers, UsageError

if TYPE_CHECKING:
    from logist.core.replay.replay import Prompts
    from logist.jobs.archive.archive_replay import Replayed
    from logist.jobs.archive.replay_report import Junit, ReplayTotals

F = TypeVar("F", bound=Callable[..., Any])

ANOTHER_WAY = "replayed with a different result"
MARKS = {"    -": "red", "    +": "green"}
"""Colors of the lines of a diff by their prefixes, as in `logist job history --diff`."""
BY_CHANGED_RULES = "replayed with a different result because of a changed rule (an error with --strict)"
UNCOMPARED = "can be compared with the current ones (to get only a warning: --prompts warn)"
OTHERWISE = "no longer match the recorded ones (to get only a warning: --prompts warn)"


def replay_options(command: F) -> F:
    """--prompts, --strict and --junit."""
    prompts = click.option(
        "--prompts",
        type=click.Choice(["fail", "warn", "accept"]),
        default="warn",
        show_default=True,
        help="What to do if a prompt would now be different: fail, warn, or accept (don't compare).",
    )
    junit = click.option(
        "--junit", metavar="FILE", type=click.Path(), help="Also write a JUnit report, for CI."
    )
    strict = click.option(
        "--strict",
        is_flag=True,
        help="Also fail if the only cause is a rule that changed in a newer Logist.",
    )
    return prompts(strict(junit(command)))


def load_prompts(environment: Environment, jobs_dir: str | None, choice: str) -> Prompts | None:
    """Return a function that compares recorded prompts with current ones; None for the choice `accept`.

    With `fail`, raises InvalidFile for an invalid config, because then the current prompts are unknown.
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
        project.say(f"warning: comparing prompts with the default settings: {error}")
    return build_drift_finder(project)


def require_junit_file(name: str | None) -> Path | None:
    """Return the path of the report. Raises UsageError, before any work, if it can't be written."""
    if name is None:
        return None
    path = Path(os.path.realpath(name))
    if not path.parent.is_dir():
        raise UsageError("directory not found", where=f"--junit {name}", fix=f"mkdir -p {path.parent}")
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        raise UsageError("not a regular file", where=f"--junit {name}", fix="choose another file")
    if path.exists() and not _is_report(path):
        fix = "choose another file; only JUnit reports are overwritten"
        raise UsageError("the file exists and is not a JUnit report", where=f"--junit {name}", fix=fix)
    return path


def _is_report(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(5) in (b"", b"<?xml")


def write_junit(path: Path | None, report: Junit) -> None:
    """Write the report completely or not at all."""
    if path is not None:
        from logist.store import files

        files.replace_chunks(path, report.generate_document(), 0o644)


def color_report(lines: Iterable[str]) -> Iterator[Line]:
    """Return the lines of a report, with diff colors."""
    for line in lines:
        style = MARKS.get(line[:5])
        yield (StyledText(line, style),) if style else line


def build_replay_row(found: Replayed) -> dict[str, Any]:
    """Return the result of one history for `--json`."""
    return {
        "source": found.name,
        "interactions": found.interactions,
        "skipped": found.unjudged,
        "differences": [asdict(each) for each in found.differences],
        "changed_rules": [asdict(each) for each in found.changed_rules],
        "scrubbed": [asdict(each) for each in found.scrubbed],
        "prompts": [asdict(each) for each in found.drifts],
        "more": found.more,
        "manifest": list(found.disagreements),
        "notes": list(found.notes),
        "error": Diagnostic.from_error(found.error)._asdict() if found.error else None,
    }


def list_replay_notes(found: Replayed, name: str | None = None) -> tuple[Diagnostic, ...]:
    """Return the notes on a history that are not differences; `name` identifies it among several."""
    newer = tuple(Diagnostic("warning", "newer", text, name) for text in found.skipped)
    return (*newer, *(Diagnostic("info", "note", text, name) for text in found.notes))


def judge_history(found: Replayed, *, prompts: bool, rules: bool) -> tuple[int, tuple[Diagnostic, ...]]:
    """Return the exit code for one history that was read completely, and the reason."""
    if not found.has_failed(prompts=prompts, rules=rules):
        return 0, ()
    message = f"its prompts {OTHERWISE}" if found.drifts else f"none of its prompts {UNCOMPARED}"
    if found.is_different:
        message = f"the history {ANOTHER_WAY}"
    elif rules and found.changed_rules:
        message = f"the history {BY_CHANGED_RULES}"
    return ReplayDiffers.exit_code, (Diagnostic("error", ReplayDiffers.code, message, found.name),)


def judge_totals(totals: ReplayTotals, *, prompts: bool, rules: bool) -> tuple[int, tuple[Diagnostic, ...]]:
    """Return the exit code for several histories, and the reasons; unreadable histories take precedence."""
    from logist.jobs.archive.recorded_jobs import exit_code_of_errors

    of = f"of {format_count(totals.histories, 'history')}"
    drift = totals.drift if prompts else 0
    reasons = []
    if totals.unreadable:
        reasons.append(
            Diagnostic("error", "unreadable", f"{totals.unreadable:,} {of} can't be read completely")
        )
    if totals.differ:
        reasons.append(Diagnostic("error", ReplayDiffers.code, f"{totals.differ:,} {of} {ANOTHER_WAY}"))
    if rules and totals.changed_rules:
        text = f"{totals.changed_rules:,} {of} {BY_CHANGED_RULES}"
        reasons.append(Diagnostic("error", ReplayDiffers.code, text))
    if drift:
        reasons.append(Diagnostic("error", ReplayDiffers.code, f"the prompts of {drift:,} {of} {OTHERWISE}"))
    if prompts and totals.uncompared:
        prompts_of = f"none of the prompts of {totals.uncompared:,} {of}"
        reasons.append(Diagnostic("error", ReplayDiffers.code, f"{prompts_of} {UNCOMPARED}"))
    differs = ReplayDiffers.exit_code if reasons else 0
    return exit_code_of_errors(totals.errors) or differs, tuple(reasons)
