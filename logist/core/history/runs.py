"""The agent runs in a history: every request to an agent, how it ended, and what it used.

Interactions are read as plain JSON, without validation, because ten thousand histories must be read in a minute.
The code only assumes that an interaction is an object; it ignores values of the wrong type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from logist.core.history.statistics_words import RunEnding
from logist.core.machine import kinds
from logist.core.model.words import Actor, ExitAction, Kind, Phase, Status
from logist.core.money import amounts
from logist.core.text.json_object import JsonObject
from logist.quick_tuple import NamedTuple

LONGEST_NAME = 200
LONGEST_REASON = 120
_READ = 600
"""The number of characters of a name or a reason that are read."""

SIZES: tuple[int, ...] = tuple(1_000 * 2**n for n in range(11))
"""The boundaries of the prompt size classes, in characters: 1k, 2k, ... 1024k."""

_MOST = 10**15
"""Larger counts can't be real and are ignored."""
_NOBODY_ASKED = ("scripted/", "given/")
"""Prefixes of provider models that were not really called."""

_DAY = re.compile(r"\d{4}-\d\d-\d\d(?=T|$)", re.ASCII)
_QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”|(?<!\w)'[^']*'(?!\w)")
_PATH = re.compile(
    r"[a-z][a-z0-9+.-]*://\S+"  # a URL
    r"|(?<!\w)[~.]{0,2}(?:/[\w.@-]+)+/?"  # /a, ./a, ~/a
    r"|[\w@-][\w.@-]*(?:/[\w.@-]+){2,}/?"  # a/b/c
    r"|[\w@-][\w.@-]*/[\w@-]*\.\w+"  # a/b.c
    r"|\b\w[\w-]+\.(?!\d)\w{1,5}\b"  # a file
)
_WORD = re.compile(r"`[A-Za-z_-]{1,30}`")
"""A quoted word such as `action`: it is part of the reason."""
_HEX = re.compile(r"\b(?=[0-9a-f-]*\d)[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w])\d(?:[\d,._]*\d)?")


class RunUsage(NamedTuple):
    """What a run used."""

    microcents: int = 0
    milliseconds: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


class AgentRun(NamedTuple):
    """One time that an agent was asked, or that its answer was supplied by hand."""

    names: dict[str, str | None]
    """The values to group by, for each of BY except `job`; None if the history doesn't record one."""
    simulated: bool
    """The answer was supplied by hand: no agent worked."""
    ended: RunEnding | None
    """None: not a run, but recorded cost of an earlier run that a steward released."""
    used: RunUsage
    attempt: int | None = None
    stuck: tuple[str, str] = ("", "")
    """For a run that ended STUCK: the kind and the normalized reason (see `normalize_reason`)."""


class RunHistory:
    """Reads one history; afterwards, `status` is the final status of its job."""

    def __init__(self) -> None:
        self.status = "?"
        """The status after the last interaction; `?` if the history doesn't record it."""
        self.interactions = 0
        self._workflow: str | None = None
        self._booked: dict[int, AgentRun] = {}
        """Runs in doubt whose cost was recorded, by the number of the interaction."""

    def forget_bookings(self) -> None:
        """Forget the recorded costs so far: only another job can release them."""
        self._booked.clear()

    def read_interaction(self, entry: JsonObject) -> Iterator[AgentRun]:
        """Read the next interaction.

        Yields its run, if it is one, and the released cost of an earlier run.
        """
        self.interactions += 1
        self.status = _clean_name(entry.get("state_after")) or "?"
        spec = entry.get("spec")
        if isinstance(spec, dict):
            self._workflow = _clean_name(_get_object(spec, "workflow").get("name"))
        if is_fork(entry):
            self.forget_bookings()
        yield from self._release_booking(_get_object(entry, "command"))
        if _has_agent_run(entry):
            run = _build_run(entry, self._workflow)
            if entry.get("kind") == Kind.RECOVER and isinstance(entry.get("sequence"), int):
                self._booked[entry["sequence"]] = run
            yield run

    def _release_booking(self, command: JsonObject) -> Iterator[AgentRun]:
        amount, of = _clean_count(command.get("released_microcents")), command.get("released_of")
        booked = self._booked.pop(of, None) if isinstance(of, int) else None
        if booked is not None:
            back = RunUsage(-min(amount, booked.used.microcents))
            yield booked._replace(ended=None, used=back)


def is_fork(entry: JsonObject) -> bool:
    """Whether the interactions before this one belong to another job, whose history also contains them."""
    return entry.get("kind") == Kind.FORK


def _has_agent_run(entry: JsonObject) -> bool:
    """Whether an agent was asked or its answer was supplied by hand. Histories of other programs have no kinds."""
    kind = entry.get("kind", Kind.ASK)
    if not isinstance(kind, str):
        return False
    return kind in kinds.ASKS_AGENT or (entry.get("actor") == Actor.AGENT and not Kind(kind).is_known)


def _build_run(entry: JsonObject, workflow: str | None) -> AgentRun:
    ended = _read_ending(entry)
    attempt = _clean_count(entry.get("attempt"))
    return AgentRun(
        names=_read_names(entry, workflow),
        simulated=entry.get("simulated") is True,
        ended=ended,
        used=_read_usage(_get_object(entry, "usage")),
        attempt=attempt or None,
        stuck=_read_stuck_reason(entry) if ended is RunEnding.STUCK else ("", ""),
    )


def _read_names(entry: JsonObject, workflow: str | None) -> dict[str, str | None]:
    request, observed = _get_object(entry, "request"), _get_object(entry, "observed")
    metadata = _get_object(request, "metadata")
    prompt, when = request.get("prompt"), entry.get("timestamp")
    day = _DAY.match(when) if isinstance(when, str) else None
    role = _clean_name(observed.get("role")) or _clean_name(metadata.get("role"))
    return {
        "role": role,
        "model": _read_model_name(metadata),
        "phase": _clean_name(observed.get("phase")) or _phase_of_status(metadata.get("phase")),
        "step": _clean_name(entry.get("step")),
        "workflow": workflow,
        "prompt-size": classify_prompt_size(len(prompt)) if isinstance(prompt, str) and prompt else None,
        "day": day[0] if day else None,
    }


def _phase_of_status(status: Any) -> str:
    """Return the phase of a run, by the status that the job was in."""
    return Phase.REVIEWER if status in (Status.REVIEW_REQUIRED, "REVIEWING") else Phase.DOER


def _read_model_name(metadata: JsonObject) -> str | None:
    """Return the short name of the model; for a model that was not called, the full name
    (`scripted/grok-code-fast-1`).
    """
    provider = _clean_name(metadata.get("provider_model"))
    if provider and provider.startswith(_NOBODY_ASKED):
        return provider
    return _clean_name(metadata.get("model")) or provider


def _read_ending(entry: JsonObject) -> RunEnding:
    actions = _get_object(entry, "response").get("actions")
    action = actions[0] if isinstance(actions, list) and actions else None
    if entry.get("state_after") == Status.STUCK or action == ExitAction.STUCK:
        return RunEnding.STUCK
    if action == ExitAction.COMPLETED:
        return RunEnding.COMPLETED
    return RunEnding.RETRY if action == ExitAction.RETRY else RunEnding.UNANSWERED


def _read_stuck_reason(entry: JsonObject) -> tuple[str, str]:
    stuck = _get_object(_get_object(entry, "after"), "stuck")
    reason = stuck.get("reason") or entry.get("reason")
    reason = reason or _get_object(entry, "response").get("summary_for_supervisor")
    return _clean_name(stuck.get("kind")) or "", normalize_reason(reason if isinstance(reason, str) else "")


def normalize_reason(reason: str) -> str:
    """Remove the variable parts of a reason, so that equal reasons are counted together.

    Quoted text (except `names`), paths and long hexadecimal words become `…`, numbers become `N`. The result is
    one line of at most LONGEST_REASON characters.
    """
    text = " ".join(reason[:_READ].split())
    text = _QUOTED.sub(lambda found: found[0] if _WORD.fullmatch(found[0]) else "…", text)
    for pattern, instead in ((_PATH, "…"), (_HEX, "…"), (_NUMBER, "N")):
        text = pattern.sub(instead, text)
    text = text.rstrip(" .") or "(no reason)"
    return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 1].rstrip() + "…"


def classify_prompt_size(characters: int) -> str:
    """Return the size class of a prompt with this many characters: `<1k`, `1k-2k`, ... `>=1024k`."""
    class_index = next((n for n, end in enumerate(SIZES) if characters < end), len(SIZES))
    if class_index == 0:
        return "<1k"
    lower_end = f"{SIZES[class_index - 1] // 1000}k"
    return f"{lower_end}-{SIZES[class_index] // 1000}k" if class_index < len(SIZES) else f">={lower_end}"


def _read_usage(usage: JsonObject) -> RunUsage:
    seconds = usage.get("seconds")
    timed = isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds < _MOST
    return RunUsage(
        amounts.join_cents(_clean_count(usage.get("cost_cents")), _clean_count(usage.get("cost_microcents"))),
        round(seconds * 1000) if timed and seconds is not None else 0,
        _clean_count(usage.get("input_tokens")),
        _clean_count(usage.get("cached_tokens")),
        _clean_count(usage.get("output_tokens")),
    )


def _get_object(value: JsonObject, name: str) -> JsonObject:
    """Return a member that is an object; an empty one if it is something else."""
    member = value.get(name)
    return member if isinstance(member, dict) else {}


def _clean_name(value: Any) -> str | None:
    """Return a text on one line and of limited length; None if it is empty or not a text."""
    if not isinstance(value, str):
        return None
    text = " ".join(value[:_READ].split())
    return (text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…") or None


def _clean_count(value: Any) -> int:
    """Return the value if it is an integer from 0 to the maximum, else 0."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= _MOST else 0
