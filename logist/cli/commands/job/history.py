"""`logist job history`."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import job_named, listing_options
from logist.cli.shell_values import complete_answered_interaction, complete_job_or_file
from logist.cli.show.output import Line, Output, StyledText
from logist.config.environment import Environment
from logist.core.money.amounts import counted
from logist.core.text.ids import is_job_id
from logist.errors import UsageError

if TYPE_CHECKING:
    from logist.core.model import Interaction
    from logist.core.replay.drift import Comparison, Drift
    from logist.jobs.archive.recorded_jobs import Archive
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
    help="Compare the prompts and answers of interactions N and M, part by part.",
    shell_complete=complete_answered_interaction,
)
@click.option(
    "--with",
    "other",
    metavar="JOB|PATH",
    help="Compare with another job or recorded history: M is its interaction. Without --diff: the first difference.",
    shell_complete=complete_job_or_file,
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
    other: str | None,
) -> Output:
    """Show what happened, one interaction after the other; --json and --jsonl give them whole."""
    from logist.cli.context import open_job
    from logist.cli.recorded import one_recorded
    from logist.cli.show.view import entry_lines
    from logist.jobs.archive.recorded_jobs import Archive
    from logist.jobs.base.job_reader import interactions

    compare = "--with" if pair is None and other is not None else "--diff"
    chosen = (("--raw", raw), ("--prompt", prompt), (compare, pair or other))
    given = [name for name, value in chosen if value is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other", where=given[1])
    job = open_job(environment, job_argument, job_option, jobs_dir)
    if raw is not None:
        return _answer(job, raw)
    if prompt is not None:
        return _prompt(job, prompt)
    if pair is not None or other is not None:
        second = one_recorded(environment, other, jobs_dir) if other is not None else None
        return _diff(Archive.of(job), second, pair)
    lines = (line for entry in interactions(job) for line in entry_lines(entry, every_decision=True))
    return Output(job.entries(), lines)


def _answer(job: JobDir, sequence: int) -> Output:
    from logist.jobs.base.job_reader import interaction

    entry = interaction(job, sequence)
    if entry.kind != "ask":
        raise _not_asked(job.id, entry, "answer", _shows(job.id, is_job=True))
    text = entry.response.raw_response
    return Output({"sequence": sequence, "raw_response": text}, raw=text)


def _prompt(job: JobDir, sequence: int) -> Output:
    from logist.jobs.archive.recorded_jobs import Archive

    archive = Archive.of(job)
    text = _asked(archive, sequence, archive).request.prompt
    return Output({"sequence": sequence, "prompt": text}, raw=text)


def _diff(one: Archive, other: Archive | None, pair: tuple[int, int] | None) -> Output:
    """Two interactions side by side: those of `pair`, else the first of the two histories that differ."""
    same = None
    before: Interaction | None
    after: Interaction | None
    if pair is not None:
        before, after = _asked(one, pair[0], one), _asked(other or one, pair[1], one)
    else:
        assert other is not None
        same, before, after = _first_difference(one, other)
        if before is None or after is None:
            return _no_difference(one, other, same, before, after)
    jobs = one.name, (other or one).name
    numbers = f"#{before.sequence}", f"#{after.sequence}"
    names = numbers if other is None else (f"{jobs[0]} {numbers[0]}", f"{jobs[1]} {numbers[1]}")
    return _compared(before, after, names, jobs, same)


def _compared(
    before: Interaction,
    after: Interaction,
    names: tuple[str, str],
    jobs: tuple[str, str],
    same: int | None = None,
) -> Output:
    """`names` are those of the interactions, `same` how many before them are the same in both jobs."""
    from logist.core.replay.drift import compared, compared_answers, settings_differ

    found, answers = compared(before, after, names), compared_answers(before, after, names)
    settings = settings_differ(before.request, after.request)
    data = {
        "before": _told(before, jobs[0]),
        "after": _told(after, jobs[1]),
        "same_before": same,
        **_comparison(found),
        "settings": {name: {"before": was, "after": now} for name, (was, now) in settings.items()},
        "answers": _comparison(answers),
    }
    lines: list[Line] = [(StyledText(f"{names[0]} {_role(before)} -> {names[1]} {_role(after)}", "bold"),)]
    if same:
        lines.append(f"the same before: {_prompts(same)}")
    lines += [f"{name}: {_value(was)} -> {_value(now)}" for name, (was, now) in settings.items()]
    lines += [line for drift in found.drifts for line in _drift_lines(drift, names)]
    lines.append(f"equal: {', '.join(found.equal)}" if found.equal else "no part is equal")
    lines += [line for drift in answers.drifts for line in _drift_lines(drift, names)]
    if answers.equal:
        lines.append(f"equal in the answers: {', '.join(answers.equal)}")
    return Output(data, lines)


def _first_difference(one: Archive, other: Archive) -> tuple[int, Interaction | None, Interaction | None]:
    """The first prompts, by their order, that differ or whose answers do, and how many before are the same.

    A fork has the beginning of its origin, so with that this is where they go their own ways. None for a history
    that ends before the other.
    """
    from itertools import zip_longest

    from logist.core.replay.drift import compared_answers, settings_differ

    asked = ((each for each in archive.interactions() if each.request.prompt) for archive in (one, other))
    same = 0
    for before, after in zip_longest(*asked):
        if before is None or after is None:
            return same, before, after
        if (
            before.request.prompt != after.request.prompt
            or settings_differ(before.request, after.request)
            or compared_answers(before, after).drifts
        ):
            return same, before, after
        same += 1
    return same, None, None


def _no_difference(
    one: Archive, other: Archive, same: int, before: Interaction | None, after: Interaction | None
) -> Output:
    """One history is the beginning of the other, which goes on with `before` or `after`; or both are the same."""
    lines: list[Line] = [f"no difference in {_prompts(same)}"]
    for archive, more in ((one, before), (other, after)):
        if more is not None:
            lines.append(f"only {archive.name} goes on, with #{more.sequence} {_role(more)}")
    nothing: dict[str, Any] = {"equal": [], "different": []}
    data = {
        "before": before and _told(before, one.name),
        "after": after and _told(after, other.name),
        "same_before": same,
        **nothing,
        "settings": {},
        "answers": nothing,
    }
    return Output(data, lines)


def _prompts(count: int) -> str:
    return f"{counted(count, 'prompt')} with {'its answer' if count == 1 else 'their answers'}"


def _comparison(found: Comparison) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "equal": list(found.equal),
        "different": [_without_sequence(asdict(drift)) for drift in found.drifts],
    }


def _drift_lines(drift: Drift, names: tuple[str, str]) -> Iterator[Line]:
    from logist.core.replay.drift_causes import standing
    from logist.jobs.archive.replay_report import trimmed

    yield (StyledText(drift.source, "bold"), f": {standing(drift.change, *names)}")
    for line in trimmed(drift.diff):
        yield (StyledText(f"  {line}", _MARKS.get(line[:1], "")),)


def _without_sequence(drift: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in drift.items() if name != "sequence"}


def _told(entry: Interaction, job: str) -> dict[str, Any]:
    return {
        "job": job,
        "sequence": entry.sequence,
        "role": _role(entry),
        "step": entry.step,
        "attempt": entry.attempt,
    }


def _role(entry: Interaction) -> str:
    return entry.observed.role if entry.observed else str(entry.request.metadata.get("role", ""))


def _value(value: object) -> str:
    """What the metadata say, on a line; of a hash the beginning."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
    return f"{text[:12]}..." if len(text) == 64 and " " not in text else text or "none"


def _asked(archive: Archive, sequence: int, job: Archive) -> Interaction:
    """The interaction of that number, which has a prompt; `job` is the history of a job of this project."""
    fix = _shows(archive.name, is_job=archive.path.parent.parent == job.path.parent.parent)
    for entry in archive.interactions():
        if entry.sequence == sequence:
            break
    else:
        raise UsageError(f"no interaction {sequence} in {archive.name}", fix=fix)
    if not entry.request.prompt:
        raise _not_asked(archive.name, entry, "prompt", fix)
    return entry


def _not_asked(name: str, entry: Interaction, what: str, fix: str) -> UsageError:
    return UsageError(f"interaction {entry.sequence} ({entry.kind}) has no {what}", fix=fix)


def _shows(name: str, *, is_job: bool) -> str:
    """The command that shows a history; a directory elsewhere may have a name like a job's."""
    if is_job and is_job_id(name):
        return f"'logist job history --job {name}' shows them"
    return f"'logist replay {quote(name)} --json' reads it"
