"""What a person needs besides the outcome of an answer: the output of failed checks, the errors of tools, the
question, and the commands that read and answer. Takes plain values and has few imports, because `job status` uses it.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from logist.cli.show.output import Command, Line, StyledText
from logist.core.answer import findings
from logist.core.answer.failed_calls import FailedCall, list_failed_calls
from logist.core.answer.questions import is_question
from logist.core.money.amounts import format_cents
from logist.core.text.counts import format_count
from logist.regular_files import read_regular
from logist.store.transcripts import read_transcript, transcript_name

OUTPUT_LINES = 20
"""Lines of the output of a failed check; `job show --checks` has all that was recorded."""
CALLS = 5
"""Failed calls of tools that are listed; --json and the transcript have all."""
_ANSWERED_BY_HAND = ("agent", "attempts", "in_doubt")
"""The kinds of STUCK in which `job poststep` is accepted."""
_ABOUT_ANSWERS = ("agent", "attempts", "permission")
"""The kinds of STUCK that follow from an answer, so that reading it helps."""


def read_command(stuck_kind: str | None, job: str, sequence: int | None) -> str | None:
    """Return the command that prints the answer because of which a job is STUCK; None for another reason."""
    if sequence is None or stuck_kind not in _ABOUT_ANSWERS:
        return None
    return f"logist job history --job {job} --raw {sequence}"


def poststep_command(stuck_kind: str | None, job: str, folder: str | None = None) -> str | None:
    """Return the command that answers by hand; None if the job accepts no answer.

    `folder`: the directory of the job, which may have a late answer of a worker that was in doubt.
    """
    if stuck_kind not in _ANSWERED_BY_HAND:
        return None
    late = _find_late_answer(os.path.join(folder, "logs")) if folder and stuck_kind == "in_doubt" else None
    return f"logist job poststep --job {job} --response-file {late or 'FILE'}"


def _find_late_answer(logs: str) -> str | None:
    """Return the last late answer, and its cost, as options of `job poststep`; None if there is none."""
    late = []
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        names = [name for name in os.listdir(logs) if name.startswith("late-") and name.endswith(".json")]
        for name in names:
            kept = json.loads(read_regular(os.path.join(logs, name), 1 << 16))
            text = shlex.quote(os.path.join(logs, name.removesuffix("json") + "txt"))
            late.append((kept["sequence"], f"{text} --charge {format_cents(kept['cost_microcents'])}"))
    return max(late)[1] if late else None


def command_lines(read: str | None, by_hand: str | None, indent: str = "  ") -> Iterator[Line]:
    """Yield both commands."""
    if read:
        yield indent, Command(f"to read the answer: {read}", "dim")
    if by_hand:
        yield indent, Command(f"to answer by hand: {by_hand}", "dim")


def check_output_lines(
    results: Iterable[Mapping[str, Any]], job: str, indent: str = "    "
) -> Iterator[Line]:
    """Yield the end of the output of each failed check."""
    for result in results:
        output = result.get("output")
        if not isinstance(output, str) or not findings.is_failed_check(result.get("outcome")):
            continue
        lines = output.rstrip().splitlines()
        if not lines:
            continue
        more = len(lines) - OUTPUT_LINES
        last = f"last {OUTPUT_LINES} of {len(lines)} lines of the output" if more > 0 else "output"
        yield f"{indent}{last} of {_to_one_line(str(result.get('check')))}:"
        yield from (f"{indent}  | {line}".rstrip() for line in lines[-OUTPUT_LINES:])
        if more > 0:
            yield indent, Command(f"to see the rest: logist job show --job {job} --checks", "dim")


def read_failed_calls(folder: str | os.PathLike[str], sequence: int) -> list[FailedCall]:
    """Return the failed calls of interaction `sequence` of the job in `folder`."""
    return list_failed_calls(read_transcript(folder, sequence))


def failed_call_lines(calls: list[FailedCall], sequence: int, indent: str = "  ") -> Iterator[Line]:
    """Yield the failed calls, each with the error that the model got."""
    if not calls:
        return
    yield f"{indent}{format_count(len(calls), 'failed tool call')} of #{sequence}:"
    for call in calls[-CALLS:]:
        yield f"{indent}  {' '.join(filter(None, (call.tool, call.target)))}: {call.error}"
    if len(calls) > CALLS:
        yield f"{indent}  and {len(calls) - CALLS} earlier; all are in logs/{transcript_name(sequence)}"


def question_lines(output: object, indent: str = "  ") -> Iterator[Line]:
    """Yield the question of an agent and its options, if its output has the form of a question (see
    core.answer.output_schema).
    """
    if not (isinstance(output, dict) and is_question(output)):
        return
    if text := output.get("question"):
        yield f"{indent}question: {_format_value(text)}"
    options = output.get("options")
    for option in options if isinstance(options, list) else []:
        choice = option if isinstance(option, dict) else {"value": option}
        mark = " (default)" if "default" in output and choice.get("value") == output["default"] else ""
        label = f": {_format_value(choice['label'])}" if "label" in choice else ""
        yield f"{indent}  {_format_value(choice.get('value'))}{label}{mark}"


def facts_lines(facts: Iterable[str], width: int, indent: str = "   ") -> Iterator[Line]:
    """Yield the facts on one dim line, or on several if they don't fit."""
    line = ""
    for fact in filter(None, facts):
        if line and len(f"{indent}{line}, {fact}") > width:
            yield (StyledText(f"{indent}{line}", "dim"),)
            line = fact
        else:
            line = f"{line}, {fact}" if line else fact
    yield (StyledText(f"{indent}{line}", "dim"),)


def _format_value(value: object) -> str:
    """Return a value from an agent on one line: text unchanged, other values as JSON."""
    return _to_one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _to_one_line(text: str) -> str:
    return " ".join(text.split())
