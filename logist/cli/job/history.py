"""`logist job history`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import job_named, listing_options
from logist.cli.output import Line, Output, Span
from logist.cli.shell_values import complete_answered_interaction
from logist.config.environment import Environment
from logist.errors import UsageError

if TYPE_CHECKING:
    from logist.core.drift import Drift
    from logist.core.model import Interaction
    from logist.store import JobDir

_MARKS = {"-": "red", "+": "green", ".": "dim"}


@click.command("history")
@click.option(
    "--raw",
    "raw",
    type=int,
    metavar="N",
    help="Print the answer of interaction N, byte for byte.",
    shell_complete=complete_answered_interaction,
)
@click.option(
    "--prompt",
    "prompt",
    type=int,
    metavar="N",
    help="Print the prompt of interaction N.",
    shell_complete=complete_answered_interaction,
)
@click.option(
    "--diff",
    "pair",
    type=(int, int),
    metavar="N M",
    help="Compare the prompts of interactions N and M, part by part.",
    shell_complete=complete_answered_interaction,
)
@job_named
@listing_options
@click.pass_obj
def history(
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    raw: int | None,
    prompt: int | None,
    pair: tuple[int, int] | None,
) -> Output:
    """Show what happened, one interaction after the other; --json and --jsonl give them whole."""
    from logist.cli.context import open_job
    from logist.cli.view import entry_lines
    from logist.jobs.looking import interactions

    given = [
        name for name, value in (("--raw", raw), ("--prompt", prompt), ("--diff", pair)) if value is not None
    ]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other", where=given[1])
    job = open_job(environment, job_argument, job_option, jobs_dir)
    if raw is not None:
        return _answer(job, raw)
    if prompt is not None:
        return _prompt(job, prompt)
    if pair is not None:
        return _diff(job, *pair)
    lines = (line for entry in interactions(job) for line in entry_lines(entry, every_decision=True))
    return Output(job.entries(), lines)


def _answer(job: JobDir, sequence: int) -> Output:
    from logist.jobs.looking import interaction

    entry = interaction(job, sequence)
    if entry.kind != "ask":
        raise _not_asked(job, entry, "answer")
    text = entry.response.raw_response
    return Output({"sequence": sequence, "raw_response": text}, raw=text)


def _prompt(job: JobDir, sequence: int) -> Output:
    text = _asked(job, sequence).request.prompt
    return Output({"sequence": sequence, "prompt": text}, raw=text)


def _diff(job: JobDir, first: int, second: int) -> Output:
    from dataclasses import asdict

    from logist.core.drift import compared, settings_differ

    before, after = _asked(job, first), _asked(job, second)
    found = compared(before, after)
    settings = settings_differ(before.request, after.request)
    data = {
        "before": _told(before),
        "after": _told(after),
        "equal": list(found.equal),
        "different": [_without_sequence(asdict(drift)) for drift in found.drifts],
        "settings": {name: {"before": was, "after": now} for name, (was, now) in settings.items()},
    }
    lines: list[Line] = [(Span(f"#{first} {_role(before)} -> #{second} {_role(after)}", "bold"),)]
    lines += [f"{name}: {_value(was)} -> {_value(now)}" for name, (was, now) in settings.items()]
    lines += [line for drift in found.drifts for line in _drift_lines(drift, first, second)]
    lines.append(f"equal: {', '.join(found.equal)}" if found.equal else "no part is equal")
    return Output(data, lines)


def _drift_lines(drift: Drift, first: int, second: int) -> Iterator[Line]:
    from logist.core.drift_causes import standing
    from logist.jobs.replay_report import trimmed

    yield (Span(drift.source, "bold"), f": {standing(drift.change, first, second)}")
    for line in trimmed(drift.diff):
        yield (Span(f"  {line}", _MARKS.get(line[:1], "")),)


def _without_sequence(drift: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in drift.items() if name != "sequence"}


def _told(entry: Interaction) -> dict[str, Any]:
    return {"sequence": entry.sequence, "role": _role(entry), "step": entry.step, "attempt": entry.attempt}


def _role(entry: Interaction) -> str:
    return entry.observed.role if entry.observed else str(entry.request.metadata.get("role", ""))


def _value(value: object) -> str:
    """What the metadata say, on a line; of a hash the beginning."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
    return f"{text[:12]}..." if len(text) == 64 and " " not in text else text or "none"


def _asked(job: JobDir, sequence: int) -> Interaction:
    """The interaction of that number, which has a prompt."""
    from logist.jobs.looking import interaction

    entry = interaction(job, sequence)
    if not entry.request.prompt:
        raise _not_asked(job, entry, "prompt")
    return entry


def _not_asked(job: JobDir, entry: Interaction, what: str) -> UsageError:
    fix = f"'logist job history --job {job.id}' shows them"
    return UsageError(f"interaction {entry.sequence} ({entry.kind}) has no {what}", fix=fix)
