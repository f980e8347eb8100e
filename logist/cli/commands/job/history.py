"""`logist job history`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import job_and_dir_options, listing_options
from logist.cli.shell_values import complete_answered_interaction, complete_job_or_file
from logist.cli.show.answer_details import facts_lines
from logist.cli.show.output import Line, Output, Screen, StreamedRows, StyledText, note_removal
from logist.config.environment import Environment
from logist.core.text.counts import format_count
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
    help="Compare with another job or recorded history; M is its interaction. Without --diff: show the first difference.",
    shell_complete=complete_job_or_file,
)
@job_and_dir_options
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
    """Show the history of a job, one interaction after another; --json and --jsonl print all fields.

    A terminal shows also the time of each interaction and, for an answer, its duration, cost, model and step.
    """
    from logist.cli.context import open_job
    from logist.cli.show.view import entry_lines
    from logist.jobs.base.plain_reader import read_interactions

    compare = "--with" if pair is None and other is not None else "--diff"
    chosen = (("--raw", raw), ("--prompt", prompt), (compare, pair or other))
    named_options = [name for name, value in chosen if value is not None]
    if len(named_options) > 1:
        raise UsageError(f"can't use {' and '.join(named_options)} together", where=named_options[1])
    job = open_job(environment, job_argument, job_option, jobs_dir)
    if raw is not None:
        return _show_answer(job, raw)
    if prompt is not None:
        return _show_prompt(job, prompt)
    if pair is not None or other is not None:
        from logist.cli.recorded import find_recorded_job
        from logist.jobs.archive.recorded_jobs import Archive

        second = find_recorded_job(environment, other, jobs_dir) if other is not None else None
        return _show_difference(Archive.from_job(job), second, pair)
    lines = (line for entry in read_interactions(job) for line in entry_lines(entry, every_decision=True))
    return Output(
        StreamedRows(job.read_entries),
        lines,
        note_removal(str(job.path)),
        on_terminal=partial(_iter_terminal_lines, job),
    )


def _iter_terminal_lines(job: JobDir, screen: Screen) -> Iterator[Line]:
    """Yield the lines of the history, with time, duration, cost, model and step below each headline."""
    from logist.cli.show.view import entry_lines, list_facts
    from logist.jobs.base.plain_reader import read_interactions

    for entry in read_interactions(job):
        headline, *details = entry_lines(entry, every_decision=True)
        yield headline
        yield from facts_lines(list_facts(entry), screen.columns)
        yield from details


def _show_answer(job: JobDir, sequence: int) -> Output:
    from logist.jobs.base.plain_reader import find_interaction

    entry = find_interaction(job, sequence)
    if entry.kind != "ask":
        raise _make_not_asked_error(job.id, entry, "answer", _suggest_reading(job.id, is_job=True))
    text = entry.response.raw_response
    return Output({"sequence": sequence, "raw_response": text}, raw=text)


def _show_prompt(job: JobDir, sequence: int) -> Output:
    from logist.jobs.archive.recorded_jobs import Archive

    archive = Archive.from_job(job)
    text = _find_asked(archive, sequence, archive).request.prompt
    return Output({"sequence": sequence, "prompt": text}, raw=text)


def _show_difference(one: Archive, other: Archive | None, pair: tuple[int, int] | None) -> Output:
    """Compare two interactions: those of `pair`, or the first that differ in the two histories."""
    same = None
    before: Interaction | None
    after: Interaction | None
    if pair is not None:
        before, after = _find_asked(one, pair[0], one), _find_asked(other or one, pair[1], one)
    else:
        assert other is not None
        same, before, after = _find_first_difference(one, other)
        if before is None or after is None:
            return _show_no_difference(one, other, same, before, after)
    jobs = one.name, (other or one).name
    numbers = f"#{before.sequence}", f"#{after.sequence}"
    names = numbers if other is None else (f"{jobs[0]} {numbers[0]}", f"{jobs[1]} {numbers[1]}")
    return _build_comparison(before, after, names, jobs, same)


def _build_comparison(
    before: Interaction,
    after: Interaction,
    names: tuple[str, str],
    jobs: tuple[str, str],
    same: int | None = None,
) -> Output:
    """Compare two interactions. `names`: their names; `same`: how many before them are equal in both jobs."""
    from logist.core.replay.drift import compare_answers, compare_prompts, find_setting_differences

    comparison, answers = compare_prompts(before, after, names), compare_answers(before, after, names)
    settings = find_setting_differences(before.request, after.request)
    data = {
        "before": _build_side(before, jobs[0]),
        "after": _build_side(after, jobs[1]),
        "same_before": same,
        **_build_parts(comparison),
        "settings": {name: {"before": was, "after": now} for name, (was, now) in settings.items()},
        "answers": _build_parts(answers),
    }
    lines: list[Line] = [
        (StyledText(f"{names[0]} {_find_role(before)} -> {names[1]} {_find_role(after)}", "bold"),)
    ]
    if same:
        lines.append(f"identical before these: {_count_prompts(same)}")
    lines += [
        f"{name}: {_format_value(was)} -> {_format_value(now)}" for name, (was, now) in settings.items()
    ]
    lines += [line for drift in comparison.drifts for line in _format_drift(drift, names)]
    lines.append(f"equal: {', '.join(comparison.equal)}" if comparison.equal else "no equal parts")
    lines += [line for drift in answers.drifts for line in _format_drift(drift, names)]
    if answers.equal:
        lines.append(f"equal in the answers: {', '.join(answers.equal)}")
    return Output(data, lines)


def _find_first_difference(
    one: Archive, other: Archive
) -> tuple[int, Interaction | None, Interaction | None]:
    """Return how many interactions at the beginning are equal, and the first pair that differs in its prompt, its
    settings or its answer.

    Prompts are compared in order. A fork begins with the history of its origin, so this finds where the two
    diverge. None for a history that ends before the other.
    """
    from itertools import zip_longest

    from logist.core.replay.drift import compare_answers, find_setting_differences

    prompts_of_each = (
        (each for each in archive.read_interactions() if each.request.prompt) for archive in (one, other)
    )
    same = 0
    for before, after in zip_longest(*prompts_of_each):
        if before is None or after is None:
            return same, before, after
        if (
            before.request.prompt != after.request.prompt
            or find_setting_differences(before.request, after.request)
            or compare_answers(before, after).drifts
        ):
            return same, before, after
        same += 1
    return same, None, None


def _show_no_difference(
    one: Archive, other: Archive, same: int, before: Interaction | None, after: Interaction | None
) -> Output:
    """Report that the histories are equal, or that one is the beginning of the other, which continues with
    `before` or `after`.
    """
    lines: list[Line] = [f"no differences in {_count_prompts(same)}"]
    for archive, more in ((one, before), (other, after)):
        if more is not None:
            lines.append(f"only {archive.name} continues, with #{more.sequence} {_find_role(more)}")
    nothing: dict[str, Any] = {"equal": [], "different": []}
    data = {
        "before": before and _build_side(before, one.name),
        "after": after and _build_side(after, other.name),
        "same_before": same,
        **nothing,
        "settings": {},
        "answers": nothing,
    }
    return Output(data, lines)


def _count_prompts(count: int) -> str:
    return f"{format_count(count, 'prompt')} with {'its answer' if count == 1 else 'their answers'}"


def _build_parts(found: Comparison) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "equal": list(found.equal),
        "different": [_without_sequence(asdict(drift)) for drift in found.drifts],
    }


def _format_drift(drift: Drift, names: tuple[str, str]) -> Iterator[Line]:
    from logist.core.replay.drift_causes import describe_change
    from logist.jobs.archive.replay_report import trim_diff

    yield (StyledText(drift.source, "bold"), f": {describe_change(drift.change, *names)}")
    for line in trim_diff(drift.diff):
        yield (StyledText(f"  {line}", _MARKS.get(line[:1], "")),)


def _without_sequence(drift: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in drift.items() if name != "sequence"}


def _build_side(entry: Interaction, job: str) -> dict[str, Any]:
    return {
        "job": job,
        "sequence": entry.sequence,
        "role": _find_role(entry),
        "step": entry.step,
        "attempt": entry.attempt,
    }


def _find_role(entry: Interaction) -> str:
    return entry.observed.role if entry.observed else str(entry.request.metadata.get("role", ""))


def _format_value(value: object) -> str:
    """Format a value of the metadata on one line; a hash is shortened."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
    return f"{text[:12]}..." if len(text) == 64 and " " not in text else text or "none"


def _find_asked(archive: Archive, sequence: int, job: Archive) -> Interaction:
    """Return the interaction with that number. Raises UsageError if it doesn't exist or has no prompt.

    `job` is the history of a job of this project.
    """
    fix = _suggest_reading(archive.name, is_job=archive.path.parent.parent == job.path.parent.parent)
    for entry in archive.read_interactions():
        if entry.sequence == sequence:
            break
    else:
        raise UsageError(f"interaction {sequence} not found in {archive.name}", fix=fix)
    if not entry.request.prompt:
        raise _make_not_asked_error(archive.name, entry, "prompt", fix)
    return entry


def _make_not_asked_error(name: str, entry: Interaction, what: str, fix: str) -> UsageError:
    return UsageError(f"interaction {entry.sequence} ({entry.kind}) has no {what}", fix=fix)


def _suggest_reading(name: str, *, is_job: bool) -> str:
    """Return the command that prints a history; a directory outside the project may be named like a job."""
    if is_job and is_job_id(name):
        return f"to list the interactions: logist job history --job {name}"
    return f"to read the history: logist replay {quote(name)} --json"
