"""Reads one entry of a history in another format: `action`, no `raw_response`, other states."""

from __future__ import annotations

import json

from logist.core.model import ExitAction, JsonObject, Phase, Request, Status, Usage
from logist.core.money import amounts
from logist.core.money.amounts import MICROCENTS
from logist.core.step import step
from logist.errors import Damaged
from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass
from logist.quick_model import ValidationError

STATES = {
    "RUNNING": Status.PENDING,
    "REVIEWING": Status.REVIEW_REQUIRED,
    "IN_PROGRESS": Status.PENDING,
    "INTERVENTION_REQUIRED": Status.STUCK,
    "ON_HOLD": Status.STUCK,
    "BLOCKED": Status.STUCK,
    "PENDING_MERGE": Status.APPROVAL_REQUIRED,
    "COMPLETED": Status.SUCCESS,
    "CANCELLED": Status.CANCELED,
}
"""Names of states that other programs use, or that were only displayed."""

_TIME = compile_on_use(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,]\d+)?(?:Z|\+00:?00)?")
_REVIEWERS = frozenset({"supervisor", "reviewer"})
MOST_USED = 10**12
"""Cents, tokens or seconds of one answer; larger or negative numbers are ignored."""
_ANSWER = ("evidence_files", "summary_for_supervisor", "output", "metadata")
_WORKING = frozenset({"step", "poststep"})
"""Operations that ask an agent, or take its answer; the others are log entries."""
_SETTINGS = ("role", "phase", "model", "temperature")
"""Settings that some histories have in the request itself and not in its metadata."""
_NOT_MODELS = frozenset({"simulated", "preview-only", "run-command"})
"""Values in place of a model's name, in entries that no model answered."""


def is_logist_interaction(entry: JsonObject) -> bool:
    """Whether an entry is an interaction of Logist, as on disk."""
    return isinstance(entry.get("kind"), str) and "after" in entry


@dataclass(frozen=True)
class OldEntry:
    """An entry as it was read; None means that a value was missing."""

    where: str
    """Its place in the file, for messages."""
    number: int | None
    raw: JsonObject
    timestamp: str | None
    before: Status | None
    after: Status | None
    request: Request
    response: JsonObject
    actions: list[str] | None
    """From `actions`, or the older `action`."""
    usage: Usage | None
    simulated: bool
    """A person supplied the answer."""

    @property
    def role(self) -> str:
        return text_or_empty(self.request.metadata.get("role"))

    @property
    def phase(self) -> Phase:
        """The phase of the answer, by the entry's phase, its state, or the name of the role."""
        phase_text = text_or_empty(self.request.metadata.get("phase")).upper()
        if phase_text in ("DOER", "REVIEWER"):
            return Phase(phase_text.lower())
        if self.before is None and self.role.lower() in _REVIEWERS:
            return Phase.REVIEWER  # the phase may be the state of a job, or a part of a plan
        state = _parse_status(phase_text) or self.before
        if state in (Status.PENDING, Status.REVIEW_REQUIRED):
            return step.PHASES[state]
        return Phase.REVIEWER if self.role.lower() in _REVIEWERS else Phase.DOER

    @property
    def who(self) -> str:
        """Who answered, for messages."""
        return f"the {self.phase.value}" + (f" {shorten_json(self.role)}" if self.role else "")

    @property
    def implied_state(self) -> Status | None:
        """The state that the job must have been in for this agent to answer.

        None if the entry has its own state or no agent.
        """
        if self.before is not None or not (self.role or self.request.metadata.get("phase")):
            return None
        return Status.REVIEW_REQUIRED if self.phase is Phase.REVIEWER else Status.PENDING


def find_logged_operation(raw: JsonObject) -> str:
    """Return the operation of an entry that only logs a command; "" for the answer of an agent."""
    request, response = raw.get("request"), raw.get("response")
    operation = text_or_empty(request.get("operation")) if isinstance(request, dict) else ""
    if not operation or not isinstance(request, dict) or not isinstance(response, dict):
        return ""
    if request.get("dry_run") is True:
        return f"{operation} --dry-run"
    if operation.lower() in _WORKING:
        return ""
    actions = to_text_list(response.get("actions", response.get("action"))) or []
    if operation.lower() != "preview" and actions and actions[0] in set(ExitAction):
        return ""
    return operation


def read_old_entry(raw: JsonObject, place: int, last: OldEntry | None) -> OldEntry:
    """Read the entry at `place` (from 1) of the file.

    Raises Damaged for an entry without an answer or out of order.
    """
    number = raw.get("sequence")
    number = number if isinstance(number, int) and not isinstance(number, bool) else None
    where = f"entry {place}" + (f" (sequence {number})" if number is not None else "")
    if is_logist_interaction(raw):
        raise Damaged(f"{where} is an interaction of Logist, but the entries before it are not")
    if last is not None and None not in (number, last.number) and number <= last.number:  # type: ignore[operator]
        raise Damaged(f"{where} comes after {last.where}: the sequence numbers must increase")
    response, request = raw.get("response"), raw.get("request", {})
    if not isinstance(response, dict) or not isinstance(request, dict):
        raise Damaged(
            f"{where}: `{'request' if isinstance(response, dict) else 'response'}` must be an object"
        )
    return OldEntry(
        where,
        number,
        raw,
        _parse_timestamp(raw.get("timestamp")),
        _read_state(raw, "state_before", where),
        _read_state(raw, "state_after", where),
        _read_request(raw, request),
        response,
        _read_actions(response, where),
        _read_usage(raw.get("usage", response.get("usage"))) or _read_measured_usage(raw, response),
        raw.get("is_simulated") is True or request.get("simulation") is True,
    )


def _parse_status(word: str) -> Status | None:
    known = Status.__members__.get(word)
    return known or STATES.get(word)


def _read_state(raw: JsonObject, name: str, where: str) -> Status | None:
    value = raw.get(name)
    if value is None:
        return None
    status = _parse_status(value.strip().upper().replace(" ", "_")) if isinstance(value, str) else None
    if status is None:
        raise Damaged(f"{where}: `{name}` is {shorten_json(value)}, which is not a known state")
    return status


def shorten_json(value: object) -> str:
    """Return the value as JSON, cut for an error message."""
    json_text = json.dumps(value, ensure_ascii=False)
    return json_text if len(json_text) <= 60 else f"{json_text[:57]}..."


def text_or_empty(value: object) -> str:
    """Return the value if it is a text; else ""."""
    return value if isinstance(value, str) else ""


def to_text_list(value: object) -> list[str] | None:
    """Return a list of texts, or one text as such a list; None for anything else."""
    if isinstance(value, str):
        return [value]
    return value if isinstance(value, list) and all(isinstance(each, str) for each in value) else None


def _parse_timestamp(told: object) -> str | None:
    match = _TIME.fullmatch(told.strip()) if isinstance(told, str) else None
    if match:
        return f"{match[1]}T{match[2]}Z"
    return told.strip() if isinstance(told, str) and told.strip() else None


def _read_request(raw: JsonObject, request: JsonObject) -> Request:
    metadata = request.get("metadata")
    settings = {name: request[name] for name in _SETTINGS if isinstance(request.get(name), str | int | float)}
    model = raw.get("model")
    if isinstance(model, str) and model not in _NOT_MODELS:
        settings.setdefault("model", model)
    return Request(
        prompt=text_or_empty(request.get("prompt")),
        files_context=to_text_list(request.get("files_context")) or [],
        metadata=settings | (metadata if isinstance(metadata, dict) else {}),
    )


def _read_actions(response: JsonObject, where: str) -> list[str] | None:
    """Read the actions from `actions` or the older `action`; None if neither exists."""
    value = response.get("actions", response.get("action"))
    if value is None:
        return None
    actions = to_text_list(value)
    if actions is None:
        raise Damaged(f"{where}: `actions` is {shorten_json(value)}, but must be a list of strings")
    return actions


def _read_usage(told: object) -> Usage | None:
    if not isinstance(told, dict):
        return None
    try:
        usage = Usage.model_validate({name: told[name] for name in Usage.model_fields if name in told})
    except ValidationError:
        return None
    numbers = [value for value in usage.model_dump().values() if isinstance(value, int | float)]
    return usage if all(0 <= value <= MOST_USED for value in numbers) else None


def _read_measured_usage(raw: JsonObject, response: JsonObject) -> Usage | None:
    """Read the usage from the fields of the first histories: dollars, seconds, and tokens without cached
    ones.
    """
    metrics = response.get("metrics")
    metrics = metrics if isinstance(metrics, dict) else {}
    dollars = _find_number(raw.get("cost"), response.get("cost_usd"), metrics.get("cost_usd"))
    seconds = _find_number(
        raw.get("execution_time_seconds"),
        response.get("execution_time_seconds"),
        metrics.get("duration_seconds"),
    )
    if dollars is None and seconds is None and not metrics:
        return None
    cents, fraction = amounts.split_cents(round((dollars or 0) * 100 * MICROCENTS))
    fresh, cached, written = (
        int(_find_number(metrics.get(f"token_{name}")) or 0) for name in ("input", "cache_read", "output")
    )
    fresh += int(_find_number(metrics.get("token_cache_write")) or 0)
    return _read_usage(
        {
            "input_tokens": fresh + cached,
            "cached_tokens": cached,
            "output_tokens": written,
            "cost_cents": cents,
            "cost_microcents": fraction,
            "seconds": seconds or 0.0,
            "source": "provider" if dollars else "none",
        }
    )


def has_odd_usage(raw: JsonObject, response: JsonObject) -> bool:
    """Whether the recorded usage makes no sense."""
    usage = raw.get("usage") or response.get("usage")
    odd = (raw.get(name) for name in ("cost", "execution_time_seconds"))
    return bool(usage and _read_usage(usage) is None) or any(
        each is not None and _find_number(each) is None for each in odd
    )


def _find_number(*values: object) -> float | None:
    """Return the first value that is a sensible number."""
    for value in values:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST_USED:
            return value
    return None


def read_old_answer(response: JsonObject) -> tuple[str, bool]:
    """Return the answer of the agent: `(text, whether it was rebuilt)`.

    It is rebuilt as the exit command that the fields of the response describe; the text is "" if there are
    none.
    """
    raw = response.get("raw_response")
    if isinstance(raw, str):
        return raw, False
    if isinstance(raw, dict | list):
        return json.dumps(raw, ensure_ascii=False), True
    actions = to_text_list(response.get("actions", response.get("action")))
    if not actions:
        return "", False
    fields = {name: response[name] for name in _ANSWER if response.get(name) is not None}
    needed = {"action": actions[0], "evidence_files": [], "summary_for_supervisor": ""}
    return json.dumps({**needed, **fields}, ensure_ascii=False), True
