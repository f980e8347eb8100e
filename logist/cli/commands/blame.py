"""`logist blame`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import jobs_dir_option, json_option
from logist.cli.shell_values import complete_file
from logist.cli.show.output import Line, Output, StyledText
from logist.config.environment import Environment
from logist.core.money.amounts import format_money
from logist.errors import UsageError
from logist.lazy_patterns import compile_on_use

if TYPE_CHECKING:
    from logist.core.model import Interaction, JsonObject
    from logist.jobs.archive.line_origins import LineOrigin, OriginatedLines

SHOWN = 3
"""Lines of a group that are printed; --json has all."""
_PLACE = compile_on_use(r"(.+?):(\d+)(?:-(\d+))?")


@click.command("blame")
@click.argument("place", metavar="FILE[:LINE[-LINE]]", shell_complete=complete_file)
@jobs_dir_option
@json_option
@click.pass_obj
def blame(environment: Environment, place: str, jobs_dir: str | None) -> Output:
    """Show which agent wrote a line, and who accepted it.

    FILE is in a git repository into which jobs were merged. For each line, or those named, shows the job and the interaction after which the
    line was there for the first time: role, model, cost, the parts of its prompt, the checks, the review, the approval, and the merge.
    Lines of the same origin are shown together.

    The history of each job is verified; exit code 10 if one is damaged. Nothing is changed, and no program of the repository is started.
    """
    from logist.jobs.archive.line_origins import find_line_origins

    cwd = Path(get_current_directory())
    name, first, last = _read_place(place, cwd)
    found = find_line_origins(environment.jobs_dir(jobs_dir, cwd), cwd / name, first, last)
    data = {"file": name, "groups": [_build_row(each) for each in found]}
    return Output(data, [line for each in found for line in _format_group(each)])


def _read_place(place: str, cwd: Path) -> tuple[str, int | None, int | None]:
    match = _PLACE.fullmatch(place)
    if match is None or (cwd / place).exists():
        return place, None, None
    first = int(match[2])
    last = int(match[3] or first)
    if not 1 <= first <= last:
        raise UsageError(
            f"not lines of a file: {place}", fix="use FILE:LINE or FILE:FIRST-LAST; the first line is 1"
        )
    return match[1], first, last


def _build_row(group: OriginatedLines) -> JsonObject:
    origin = group.origin
    entry = origin.interaction
    metadata = entry.request.metadata if entry is not None else {}
    return {
        "first": group.first,
        "last": group.last,
        "lines": list(group.texts),
        "commit": origin.commit,
        "summary": origin.summary,
        "job": origin.job,
        "interaction": _sequence(entry),
        "role": metadata.get("role"),
        "model": metadata.get("provider_model"),
        "step": entry.step if entry is not None else None,
        "attempt": entry.attempt if entry is not None else None,
        "by_hand": bool(entry is not None and entry.simulated),
        "prompt_parts": [part.source for part in entry.request.parts] if entry is not None else [],
        "cost_microcents": origin.cost_microcents,
        "checks": [{"name": check.check, "outcome": check.outcome} for check in origin.checks],
        "review": _sequence(origin.review),
        "verdict": origin.verdict,
        "decision": _sequence(origin.decision),
        "steward": _steward(origin.decision),
        "override": bool(origin.decision is not None and origin.decision.command.get("override")),
        "merge": _sequence(origin.merge),
        "edited_before": origin.edited_before,
        "note": origin.note or None,
    }


def _sequence(entry: Interaction | None) -> int | None:
    return None if entry is None else entry.sequence


def _steward(entry: Interaction | None) -> str | None:
    return None if entry is None or entry.steward is None else entry.steward.name


def _format_group(group: OriginatedLines) -> Iterator[Line]:
    where = f"{group.first}" if group.first == group.last else f"{group.first}-{group.last}"
    width = len(str(group.last))
    yield (StyledText(f"line {where}: ", "bold"), _describe_origin(group.origin))
    for number, text in enumerate(group.texts[:SHOWN], group.first):
        yield (StyledText(f"  {number:>{width}} | ", "dim"), StyledText(text))
    if len(group.texts) > SHOWN:
        yield StyledText(f"  {'':>{width}} | ({len(group.texts) - SHOWN} more)", "dim")
    for line in _describe_details(group.origin):
        yield StyledText(f"  {line}")


def _describe_origin(origin: LineOrigin) -> str:
    if origin.commit is None:
        return origin.note
    commit = f"commit {origin.commit[:12]}"
    if origin.job is None:
        return f"{origin.note}: {commit}, {origin.summary}"
    entry = origin.interaction
    if entry is None:
        return f"job {origin.job}, {commit}"
    model = entry.request.metadata.get("provider_model") or "unknown model"
    by_hand = ", answer supplied by hand" if entry.simulated else ""
    return f"job {origin.job} #{entry.sequence}, {entry.request.metadata.get('role') or entry.kind} with {model}{by_hand}"


def _describe_details(origin: LineOrigin) -> Iterator[str]:
    if origin.job is not None and origin.edited_before is not None:
        yield f"a person wrote it into the workspace before interaction {origin.edited_before}"
    if origin.job is not None and origin.note:
        yield origin.note
    entry = origin.interaction
    if entry is None:
        return
    cost = format_money(origin.cost_microcents or 0)
    yield f"step {entry.step}, attempt {entry.attempt}, cost {cost}: logist job history --job {origin.job} --prompt {entry.sequence}"
    if entry.request.parts:
        yield f"prompt: {', '.join(dict.fromkeys(part.source for part in entry.request.parts))}"
    if origin.checks:
        yield f"checks: {', '.join(f'{check.check} {check.outcome}' for check in origin.checks)}"
    if origin.review is not None:
        role = origin.review.request.metadata.get("role") or "review"
        yield f"review: #{origin.review.sequence} {role}{f', verdict {origin.verdict}' if origin.verdict else ''}"
    if origin.decision is not None:
        override = ", accepted without a passed review" if origin.decision.command.get("override") else ""
        yield f"approved: #{origin.decision.sequence} by {_steward(origin.decision) or 'unknown'}{override}"
    if origin.merge is not None and origin.commit is not None:
        yield f"merged: #{origin.merge.sequence}, commit {origin.commit[:12]}"
