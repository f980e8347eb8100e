"""What a session of another agent program contains, whatever its format."""

from __future__ import annotations

import calendar
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from logist.core.text import surrogates
from logist.core.text.json_object import JsonObject
from logist.quick_dataclass import dataclass

LONGEST_TEXT = 1 << 20
"""Maximum characters of a prompt or an answer."""
LONGEST_ARGUMENTS = 1 << 14
LONGEST_RESULT = 2_000
MOST_CALLS = 20_000
"""Maximum number of tool calls that are listed in a turn; all of them are counted."""
MOST_TURNS = 20_000
MOST_TOKENS = 10**12
"""A larger count of tokens is not one."""
CUT = " [cut]"
REDACTED = "texts with secrets were redacted"


Redact: TypeAlias = Callable[[str], tuple[str, int]]
"""Removes the secrets from a text; also returns how many it had."""


def keep_text(text: str) -> tuple[str, int]:
    """Return a text without secrets as it is."""
    return text, 0


_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(\.\d{1,9})?(?:Z|([+-])(\d\d):?(\d\d))?", re.ASCII
)


class NotASessionError(ValueError):
    """A file is not a session that can be adopted; the message is the reason."""


@dataclass
class SessionCall:
    """A tool call of the model."""

    id: str
    name: str
    arguments: str
    """JSON or plain text as the model wrote it, shortened."""
    needs: tuple[str, ...]
    """The permissions that it requires."""
    result: str | None = None
    """The beginning of the result; None if the session has none."""
    failed: bool = False
    refused: bool = False
    """A person or the program's own rules did not allow it."""


@dataclass
class TokenCounts:
    """Tokens of one or more requests; `input` includes the cached ones."""

    input: int = 0
    cached: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0

    def add(self, other: TokenCounts) -> None:
        """Add the counts of another request."""
        self.input += other.input
        self.cached += other.cached
        self.cache_write += other.cache_write
        self.output += other.output
        self.reasoning += other.reasoning


@dataclass
class SessionTurn:
    """A prompt of a person, and all work until the next one."""

    prompt: str
    started: float | None = None
    ended: float | None = None
    answer: str = ""
    """The last text of the model that no tool call follows."""
    calls: list[SessionCall] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """How often each tool was called."""
    calls_by_id: dict[str, SessionCall] = field(default_factory=dict)
    """The last call with each id: a session can have as many results as calls."""
    requests: dict[str, tuple[str, TokenCounts, bool]] = field(default_factory=dict)
    """By the id of the answer: the model, what it used, and whether another session has recorded it too."""
    error: str | None = None
    """Why there is no complete answer."""
    cut: bool = False
    """The model reached its output limit."""
    reported_microcents: int | None = None

    def see_time(self, moment: float | None) -> None:
        """Extend the turn to this time."""
        if moment is None:
            return
        self.started = moment if self.started is None else self.started
        self.ended = moment if self.ended is None else max(self.ended, moment)

    def add_call(self, call: SessionCall) -> None:
        """Count a call, and list it if the list is not too long."""
        self.counts[call.name] += 1
        self.answer = ""
        if len(self.calls) < MOST_CALLS:
            self.calls.append(call)
            self.calls_by_id[call.id] = call

    def find_call(self, call_id: str) -> SessionCall | None:
        """Return the last call with this id."""
        return self.calls_by_id.get(call_id)


@dataclass
class AgentSession:
    """A session of an agent program."""

    program: str
    """The name for people: `Claude Code`, `Codex`, `mini-swe-agent`."""
    prefix: str
    """The first part of the job's id."""
    id: str = ""
    version: str = ""
    directory: str = ""
    """The working directory."""
    provider: str = ""
    """Who provides the models, if the session tells; it decides the prices."""
    greeting: str = ""
    """What the program writes before each task; the title of the job leaves it out."""
    turns: list[SessionTurn] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    """What was left out or shortened, and how often."""
    redact: Redact = keep_text

    def begin_turn(self, prompt: str, moment: float | None) -> SessionTurn:
        """Begin a turn. Raises NotASessionError if there are too many."""
        if len(self.turns) >= MOST_TURNS:
            raise NotASessionError(f"it has more than {MOST_TURNS:,} prompts")
        turn = SessionTurn(self.limit_text(prompt, LONGEST_TEXT))
        turn.see_time(moment)
        self.turns.append(turn)
        return turn

    def limit_text(self, text: str, longest: int) -> str:
        """Return the text in a form that can be stored, without secrets, shortened if it is too long."""
        clean = self.redact_text(text)  # first: a part of a secret is not recognized
        if len(clean) <= longest:
            return clean
        self.notes[f"texts of more than {longest:,} characters were shortened"] += 1
        return clean[:longest] + CUT

    def redact_text(self, text: str) -> str:
        """Return the text in a form that can be stored, without secrets."""
        clean, count = self.redact(text if text.isascii() else surrogates.replace_surrogates(text)[0])
        if count:
            self.notes[REDACTED] += 1
        return clean


def get_text(value: Any) -> str:
    """Return the value if it is a text, else ""."""
    return value if isinstance(value, str) else ""


def get_object(value: Any) -> JsonObject:
    """Return the value if it is an object, else {}."""
    return value if isinstance(value, dict) else {}


def get_items(value: Any) -> list[Any]:
    """Return the value if it is a list, else []."""
    return value if isinstance(value, list) else []


def read_count(source: Mapping[str, Any], *names: str) -> int:
    """Return the first of these fields that is a count of tokens, else 0."""
    for name in names:
        value = source.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS:
            return value
    return 0


def read_time(value: Any) -> float | None:
    """Return a time as seconds since 1970; None for anything that is no time of this age."""
    try:
        if isinstance(value, str):
            seconds = _parse_time(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            seconds = float(value)
        else:
            return None
    except (ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds < 2**35 else None


def _parse_time(text: str) -> float:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second = (int(match[number]) for number in range(1, 7))
    if not (
        year >= 1970 and 1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second <= 60
    ):
        raise ValueError(text)
    offset = 0
    if match[9]:
        offset = (int(match[9]) * 60 + int(match[10])) * (-60 if match[8] == "-" else 60)
    return calendar.timegm((year, month, day, hour, minute, second)) + float(f"0{match[7] or '.0'}") - offset


def join_texts(blocks: Any, *, images: str = "[image]") -> str:
    """Return the text of a message: of a plain text, or of its blocks. An image becomes a word."""
    if isinstance(blocks, str):
        return blocks
    return "\n".join(_render_blocks(get_items(blocks), images))


def _render_blocks(blocks: Iterable[Any], images: str) -> Iterable[str]:
    for block in blocks:
        if isinstance(block, str):
            yield block
        elif isinstance(block, dict):
            if "image" in get_text(block.get("type")):
                yield images
            elif isinstance(block.get("text"), str):
                yield block["text"]


def dump_arguments(value: Any) -> str:
    """Return the arguments of a call as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
