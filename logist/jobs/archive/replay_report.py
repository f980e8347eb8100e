"""Formats the findings of a replay: for a terminal, a failing test and a JUnit report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import field

from logist.core.replay import difference
from logist.core.replay.drift import Drift
from logist.core.replay.replay import ChangedRule
from logist.core.text.counts import format_count
from logist.errors import LogistError
from logist.jobs.archive.archive_replay import Replayed
from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass

DIFF = 30
"""How many lines of a diff are printed."""
NAMED = 8
"""How many interactions with the same drift are listed."""
DIFFERENCES = 20
"""How many differences of one history are printed."""
UNCOMPARED = "prompts_not_compared"
RULE_CHANGED = "rule_changed"
_NOT_XML = compile_on_use("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 forbids, and the carriage return, which a parser would turn into a line break."""


def format_replay_lines(found: Replayed, *, shown: set[str] | None = None) -> Iterator[str]:
    """All findings in one history, its name and verdict first; one line if it replays with the same result.

    `shown` contains the diffs that were displayed before, and gets those displayed here.
    """
    yield f"{found.name}: {format_replay_verdict(found)}"
    yield from (f"  {each}" for each in found.disagreements)
    for each in found.differences[:DIFFERENCES]:
        yield from (f"  {line}" for line in difference.format_difference(each))
    if (omitted := len(found.differences) - DIFFERENCES) > 0:
        yield f"  and {omitted:,} more differences"
    for each in found.scrubbed[:DIFFERENCES]:
        yield f"  interaction {each.sequence}: {each.field} differs, because {each.cause}"
    if (omitted := len(found.scrubbed) - DIFFERENCES) > 0:
        yield f"  and {omitted:,} more differences because of a scrub"
    for by_rule in _group_by_rule(found.changed_rules):
        yield from (f"  {line}" for line in _format_rule(by_rule))
    shown_diffs = set() if shown is None else shown
    yield from (f"  {line}" for line in format_drift_lines(found.drifts, shown_diffs))
    if found.more:
        yield f"  and {found.more:,} more findings, not listed"


def format_replay_verdict(found: Replayed) -> str:
    """The result of one history on one line."""
    if found.error:
        fix = f" ({found.error.fix})" if found.error.fix else ""
        return f"can't be read completely: {found.error.message}{fix}"
    interactions = format_count(found.interactions, "interaction")
    if found.differences:
        return f"{format_count(len(found.differences), 'difference')} in {interactions}"
    if found.disagreements:
        return f"does not match its manifest ({interactions})"
    judged = found.interactions - found.unjudged
    skipped = f", {found.unjudged:,} skipped" if found.unjudged else ""
    drifted = len({each.sequence for each in found.drifts})
    changed = len({each.sequence for each in found.changed_rules})
    if changed:
        skipped += f"; {changed:,} would now differ because a rule has changed"
    if found.scrubbed:
        scrubbed = len({each.sequence for each in found.scrubbed})
        skipped += f"; {scrubbed:,} differ because of a scrub"
    prompts = f"; {format_count(drifted, 'prompt')} would now be different" if drifted else ""
    return f"{format_count(judged, 'interaction')} {_conjugate_go(judged)} with the same result{skipped}{prompts}"


def _group_by_rule(changed: Iterable[ChangedRule]) -> Iterator[list[ChangedRule]]:
    same: dict[str, list[ChangedRule]] = {}
    for each in changed:
        same.setdefault(each.rule, []).append(each)
    return iter(same.values())


def _format_rule(same: list[ChangedRule]) -> Iterator[str]:
    """Describe one changed rule: the interactions judged by the earlier version, and the rule today."""
    first = same[0]
    word = "interactions" if len(same) > 1 else "interaction"
    yield f"{word} {_format_sequences([each.sequence for each in same])}: a rule has changed in Logist {first.version} ({first.rule})"
    yield f"  {first.change}"
    yield from (f"  {line}" for line in difference.format_sides(first.differences[0]))


def _format_sequences(sequences: list[int]) -> str:
    more = f" and {len(sequences) - NAMED:,} more" if len(sequences) > NAMED else ""
    return ", ".join(map(str, sequences[:NAMED])) + more


def format_drift_lines(drifts: Iterable[Drift], shown: set[str]) -> Iterator[str]:
    """Describe what is different in prompts; for `shown`, see `format_replay_lines`."""
    for same in _group_drifts(drifts):
        yield from _format_drift(same, shown)


def _group_drifts(drifts: Iterable[Drift]) -> Iterator[list[Drift]]:
    """Group the drifts that are the same in several prompts."""
    same: dict[tuple[str, str, str], list[Drift]] = {}
    for each in drifts:
        same.setdefault((each.source, each.change, each.cause), []).append(each)
    return iter(same.values())


def _format_drift(same: list[Drift], known: set[str]) -> Iterator[str]:
    first = same[0]
    what = f" {first.source} {first.change}" if first.source else ""
    prompts = "prompts of interactions" if len(same) > 1 else "prompt of interaction"
    yield f"{prompts} {_format_sequences([each.sequence for each in same])}:{what}"
    yield f"  cause     {first.cause}"
    text = "\n".join(first.diff)
    if text in known:
        yield "  same diff as above"
        return
    known.add(text)
    diff = trim_diff(first.diff)
    yield from (f"  {line}" for line in diff[:DIFF])
    if (omitted := len(diff) - DIFF) > 0:
        yield f"  ... {omitted:,} more lines"


def trim_diff(diff: tuple[str, ...]) -> tuple[str, ...]:
    """Remove the unchanged blank lines around a diff."""
    changed_places = [place for place, line in enumerate(diff) if line != " "]
    return diff[changed_places[0] : changed_places[-1] + 1] if changed_places else ()


@dataclass
class ReplayTotals:
    """How many histories were replayed, with which results."""

    histories: int = 0
    interactions: int = 0
    same: int = 0
    differ: int = 0
    drift: int = 0
    """Histories with the same result, but different prompts."""
    changed_rules: int = 0
    """Histories with the same result except for a rule that a newer Logist has changed."""
    uncompared: int = 0
    """Histories without any prompt that can be compared with today's; also counted elsewhere."""
    unreadable: int = 0
    skipped: int = 0
    """Interactions that were not judged."""
    errors: list[LogistError] = field(default_factory=list)
    """The errors of the unreadable histories."""

    def add(self, found: Replayed) -> None:
        """Add the result of one more history."""
        self.histories += 1
        self.interactions += found.interactions
        self.skipped += found.unjudged
        self.uncompared += found.nothing_compared
        if found.error:
            self.unreadable += 1
            self.errors.append(found.error)
        elif found.is_different:
            self.differ += 1
        elif found.changed_rules:
            self.changed_rules += 1
        elif found.drifts:
            self.drift += 1
        else:
            self.same += 1

    def to_counts(self) -> dict[str, int]:
        """All counts by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, int)}

    def format_line(self) -> str:
        """All counts on one line."""
        parts = [f"{self.same:,} the same"]
        parts += [f"{self.differ:,} different"] if self.differ else []
        parts += [f"{self.changed_rules:,} the same except for changed rules"] if self.changed_rules else []
        parts += [f"{self.drift:,} the same except for the prompts"] if self.drift else []
        parts += [f"{self.unreadable:,} unreadable"] if self.unreadable else []
        skipped = f" ({self.skipped:,} of them skipped)" if self.skipped else ""
        return f"{format_count(self.histories, 'history')}, {format_count(self.interactions, 'interaction')}{skipped}: {', '.join(parts)}"


@dataclass
class Junit:
    """A JUnit report, one test case for each history. It has no times: a replay reads no clock."""

    prompts: bool
    """True if a changed prompt is a failure."""
    rules: bool = False
    """True if a changed rule is a failure."""
    _cases: list[str] = field(default_factory=list)
    _failures: int = 0
    _errors: int = 0

    def add(self, found: Replayed) -> None:
        """Add the result of one more history."""
        text = "\n".join([*format_replay_lines(found), *found.skipped, *found.notes])
        case = f'<testcase classname="logist.replay" name={_quote_attribute(found.name)} time="0"'
        if found.error:
            self._errors += 1
            content = f"<error type={_quote_attribute(found.error.code)} message={_quote_attribute(format_replay_verdict(found))}>{_escape_text(text)}</error>"
        elif found.has_failed(prompts=self.prompts, rules=self.rules):
            self._failures += 1
            kind = "prompt_drifts" if found.drifts else UNCOMPARED
            kind = RULE_CHANGED if self.rules and found.changed_rules else kind
            kind = "replay_differs" if found.is_different else kind
            content = f'<failure type="{kind}" message={_quote_attribute(format_replay_verdict(found))}>{_escape_text(text)}</failure>'
        elif found.drifts or found.changed_rules or found.scrubbed or found.skipped or found.notes:
            content = f"<system-out>{_escape_text(text)}</system-out>"
        else:
            content = ""
        self._cases.append(f"{case}>{content}</testcase>" if content else f"{case}/>")

    def generate_document(self) -> Iterator[bytes]:
        """Yield the report in pieces."""
        counts = f'tests="{len(self._cases)}" failures="{self._failures}" errors="{self._errors}" skipped="0"'
        yield b'<?xml version="1.0" encoding="UTF-8"?>\n'
        yield f'<testsuites>\n<testsuite name="logist replay" {counts} time="0">\n'.encode()
        yield from (f"{case}\n".encode() for case in self._cases)
        yield b"</testsuite>\n</testsuites>\n"


def _escape_text(text: str) -> str:
    return _escape(text, quote=False)


def _quote_attribute(text: str) -> str:
    text = _escape(text, quote=True).replace("\n", "&#10;").replace("\t", "&#9;")
    return f'"{text}"'


def _escape(text: str, *, quote: bool) -> str:
    from html import escape  # noqa: PLC0415 - takes 1 ms, and few replays write this report

    return escape(_NOT_XML.sub(_escape_character, text), quote=quote)


def _escape_character(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _conjugate_go(number: int) -> str:
    return "replays" if number == 1 else "replay"
