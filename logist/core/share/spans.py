"""Turns a history into spans in the JSON form of OTLP, with the names of the GenAI semantic conventions.

A history has no clock of its own: an interaction was recorded at its `timestamp`, to the second, and took `usage.seconds` before that. The ids of
spans come from the chain of the history, so the same history always gives the same spans.

Source of the names: OpenTelemetry, semantic conventions for generative AI (status: development), and OTLP 1.x (JSON).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from logist.core.machine import kinds
from logist.core.model import TERMINAL, Actor, Interaction, JsonObject, Kind, Phase, Status
from logist.core.model.commands import AskCommand, MergeCommand
from logist.core.money import amounts
from logist.core.secrets.redact import redact
from logist.digests import compute_sha256
from logist.quick_tuple import NamedTuple

INTERNAL, CLIENT = 1, 3
"""Kinds of spans in OTLP."""
OK, ERROR = 1, 2
"""Statuses of spans in OTLP."""
NANOSECONDS = 1_000_000_000
LATEST = 2**63 // NANOSECONDS
"""Seconds since 1970 that OTLP has room for."""
LONGEST_NAME = 100
"""Characters of the name of a tool, which a model can make up."""
PROVIDERS = {"gemini": "gcp.gemini", "xai": "x_ai", "mistral": "mistral_ai", "azure": "azure.ai.openai"}
"""The names of providers in the conventions, where they differ from those of Logist."""
_MADE_UP = ("scripted", "given")


class SpanLink(NamedTuple):
    """A span of another job, with the names of OTLP."""

    traceId: str  # noqa: N815
    spanId: str  # noqa: N815


class TracePlace(NamedTuple):
    """Where the spans of a job are in a trace."""

    trace_id: str
    """32 hexadecimal digits."""
    parent: str = ""
    """The span above that of the job, 16 hexadecimal digits; "" for none."""


def make_job_key(first: Interaction, entry: JsonObject | None = None) -> str:
    """Return what the ids of a job are derived from: the checksum of the first interaction that is its own.

    `entry`: the same as JSON, for a history without checksums.
    """
    return first.checksum or compute_sha256(
        json.dumps(entry or first.model_dump(mode="json"), sort_keys=True).encode()
    )


def make_trace_id(key: str) -> str:
    """Return the id of the trace of a job and of its child jobs, by the key of the job at the top."""
    return compute_sha256(f"trace {key}".encode())[:32]


def make_span_id(key: str, sequence: int = 0, part: str = "") -> str:
    """Return the id of a span by the key of its job; without more it is the span of the job itself."""
    return compute_sha256(f"span {key} {sequence} {part}".encode())[:16]


class SpanBuilder:
    """Builds the spans of one job, interaction by interaction; the span of the job itself comes last."""

    def __init__(
        self,
        job: str,
        key: str,
        place: TracePlace,
        read_time: Callable[[str], float | None],
        *,
        with_content: bool,
        origin: SpanLink | None = None,
    ) -> None:
        """`read_time`: returns the seconds since 1970 of a timestamp. `origin`: for a fork, the last interaction that it shares."""
        self._job, self._key, self._place, self._with_content = job, key, place, with_content
        self._read_time = read_time
        self._start = self._end = 0
        self._last: Interaction | None = None
        self._microcents = 0
        self._workflow: str | None = None
        self._origin = origin

    def build_spans(self, entry: Interaction) -> Iterator[JsonObject]:
        """Yield the spans of the next interaction."""
        end = _to_nanoseconds(self._read_time(entry.timestamp) or 0.0)
        start = max(0, end - _to_nanoseconds(entry.usage.seconds))
        if self._last is None:
            self._start = start
        self._start, self._end, self._last = min(self._start, start), max(self._end, end), entry
        self._microcents += amounts.join_cents(entry.usage.cost_cents, entry.usage.cost_microcents)
        if entry.spec is not None and entry.spec.workflow is not None:
            self._workflow = entry.spec.workflow.name
        if entry.kind in kinds.ASKS_AGENT:
            yield from self._build_agent_spans(entry, start, end)
        else:
            name = f"{'steward ' if entry.actor == Actor.STEWARD else ''}{entry.kind}"
            yield self._build_span(
                entry, "", name, (start, end), _describe_event(entry, with_content=self._with_content)
            )

    def build_job_span(self, *, is_complete: bool = True) -> JsonObject | None:
        """Return the span of the job; None if it has no interaction. `is_complete`: its history could be read to its end."""
        last = self._last
        if last is None:
            return None
        attributes = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": self._workflow or "task",
            "logist.job.id": self._job,
            "logist.job.status": last.state_after,
            "logist.interactions": last.sequence,
            "logist.cost_microcents": self._microcents,
            "logist.incomplete": None if is_complete else True,
        }
        status: JsonObject = {}
        if last.state_after == Status.SUCCESS:
            status = {"code": OK}
        elif last.state_after in TERMINAL:
            status = {"code": ERROR, "message": last.state_after}
        return {
            "traceId": self._place.trace_id,
            "spanId": make_span_id(self._key),
            **({"parentSpanId": self._place.parent} if self._place.parent else {}),
            "name": f"invoke_workflow {self._workflow or 'task'}",
            "kind": INTERNAL,
            "startTimeUnixNano": str(self._start),
            "endTimeUnixNano": str(self._end),
            "attributes": encode_attributes(attributes),
            **({"links": [self._origin._asdict()]} if self._origin else {}),
            **({"status": status} if status else {}),
        }

    def _build_span(
        self,
        entry: Interaction,
        part: str,
        name: str,
        times: tuple[int, int],
        attributes: Mapping[str, Any],
        *,
        kind: int = INTERNAL,
        error: str = "",
        above: str = "",
    ) -> JsonObject:
        common = {"logist.job.id": self._job, "logist.sequence": entry.sequence}
        return {
            "traceId": self._place.trace_id,
            "spanId": make_span_id(self._key, entry.sequence, part),
            "parentSpanId": above or make_span_id(self._key),
            "name": name,
            "kind": kind,
            "startTimeUnixNano": str(times[0]),
            "endTimeUnixNano": str(times[1]),
            "attributes": encode_attributes(
                {**attributes, **common, **({"error.type": error} if error else {})}
            ),
            **({"status": {"code": ERROR, "message": error}} if error else {}),
        }

    def _build_agent_spans(self, entry: Interaction, start: int, end: int) -> Iterator[JsonObject]:
        metadata = entry.request.metadata
        role = str(metadata.get("role") or (entry.observed.role if entry.observed else "") or "agent")
        provider, _, model = str(metadata.get("provider_model") or "").partition("/")
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": role,
            "gen_ai.provider.name": PROVIDERS.get(provider, provider) or None,
            "gen_ai.request.model": model or metadata.get("model"),
            "gen_ai.request.max_tokens": metadata.get("max_output_tokens"),
            "gen_ai.request.temperature": metadata.get("temperature"),
            "gen_ai.response.finish_reasons": [entry.response.finish] if entry.response.finish else None,
            **_describe_usage(entry),
            **_describe_step(entry),
            "logist.agent": metadata.get("agent"),
            "logist.simulated": entry.simulated or None,
        }
        if self._with_content:
            attributes |= _describe_content(entry)
        error = find_error(entry)
        yield self._build_span(
            entry,
            "",
            f"invoke_agent {role}",
            (start, end),
            attributes,
            kind=INTERNAL if provider in _MADE_UP else CLIENT,
            error=error,
        )
        above = make_span_id(self._key, entry.sequence)
        failed = entry.response.tools_failed or {}
        for name, count in entry.response.tools.items():
            tool = name[:LONGEST_NAME]
            of_tool = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": tool,
                "logist.tool.calls": count,
                "logist.tool.calls_failed": failed.get(name),
            }
            error = "tool_failed" if count and failed.get(name) == count else ""
            yield self._build_span(
                entry,
                f"tool {name}",
                f"execute_tool {tool}",
                (start, end),
                of_tool,
                error=error,
                above=above,
            )
        for check in entry.observed.checks if entry.observed else ():
            of_check = {
                "logist.check.name": check.check,
                "logist.check.severity": check.severity,
                "logist.check.outcome": check.outcome,
                "logist.check.exit_code": check.exit_code,
                "logist.check.output": _redact(check.output) if self._with_content else None,
            }
            began = max(0, end - _to_nanoseconds(check.seconds or 0.0))
            error = "" if check.outcome == "passed" else f"check_{check.outcome}"
            yield self._build_span(
                entry,
                f"check {check.check}",
                f"check {check.check}",
                (began, end),
                of_check,
                error=error,
                above=above,
            )


def find_error(entry: Interaction) -> str:
    """Return the kind of failure of an agent's run, as one word; "" if it went well."""
    if entry.response.error is not None:
        return str(entry.response.error.kind)
    if entry.kind == Kind.RECOVER:
        return "in_doubt"
    if entry.after.stuck is not None and entry.state_after == Status.STUCK:
        return f"stuck_{entry.after.stuck.kind}"
    return ""


def encode_attributes(values: Mapping[str, Any]) -> list[JsonObject]:
    """Return attributes in the form of OTLP; those that are None are left out."""
    return [
        {"key": name, "value": _encode_value(value)} for name, value in values.items() if value is not None
    ]


def _encode_value(value: Any) -> JsonObject:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int) and abs(value) < 2**63:
        return {"intValue": str(value)}
    if isinstance(value, float) and math.isfinite(value):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": str(value)}
    if isinstance(value, Sequence):
        return {"arrayValue": {"values": [_encode_value(each) for each in value]}}
    # Also numbers that the message has no room for: a receiver refuses all spans of a request with one bad value.
    return {"stringValue": json.dumps(value, sort_keys=True)}


def _to_nanoseconds(seconds: float) -> int:
    """Return a time as OTLP has it: an unsigned number of 64 bits, whatever an imported history says."""
    if not 0 < seconds < LATEST:
        return 0
    return int(seconds) * NANOSECONDS + int(seconds % 1 * NANOSECONDS)


def _redact(text: str | None) -> str | None:
    """Remove what looks like a key: recorded texts have no secrets, but imported histories may."""
    return None if text is None else redact(text, ())[0]


def _describe_usage(entry: Interaction) -> JsonObject:
    used = entry.usage
    return {
        "gen_ai.usage.input_tokens": used.input_tokens,
        "gen_ai.usage.output_tokens": used.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": used.cached_tokens or None,
        "gen_ai.usage.cache_creation.input_tokens": used.cache_write_tokens or None,
        "gen_ai.usage.reasoning.output_tokens": used.reasoning_tokens or None,
        "logist.cost_microcents": amounts.join_cents(used.cost_cents, used.cost_microcents),
        "logist.cost_source": used.source,
    }


def _describe_step(entry: Interaction) -> JsonObject:
    command = AskCommand.read(entry.command)
    return {
        "logist.phase": entry.observed.phase if entry.observed else _PHASES.get(entry.state_before),
        "logist.step": entry.step,
        "logist.attempt": entry.attempt,
        "logist.state_before": entry.state_before,
        "logist.state_after": entry.state_after,
        "logist.action": entry.response.actions[0] if entry.response.actions else None,
        "logist.verdict": command.verdict,
        "logist.findings": len(command.findings) if command.findings else None,
        "logist.changed_files": len(entry.observed.changes) if entry.observed else None,
    }


_PHASES = {Status.PENDING: Phase.DOER, Status.REVIEW_REQUIRED: Phase.REVIEWER}


def _describe_content(entry: Interaction) -> JsonObject:
    """Return the prompt and the answer, in the form that the conventions give messages."""
    messages = {
        "gen_ai.input.messages": ("user", entry.request.prompt, None),
        "gen_ai.output.messages": (
            "assistant",
            entry.response.raw_response,
            entry.response.finish or "unknown",
        ),
    }
    described: JsonObject = {
        "logist.summary": _redact(entry.response.summary_for_supervisor),
        "logist.reason": _redact(entry.reason or None),
    }
    for name, (role, text, finish) in messages.items():
        message: JsonObject = {"role": role, "parts": [{"type": "text", "content": _redact(text)}]}
        described[name] = json.dumps([{**message, "finish_reason": finish} if finish else message])
    return described


def _describe_event(entry: Interaction, *, with_content: bool) -> JsonObject:
    described: JsonObject = {
        "logist.kind": entry.kind,
        "logist.actor": entry.actor,
        "logist.step": entry.step,
        "logist.state_before": entry.state_before,
        "logist.state_after": entry.state_after,
    }
    if entry.kind == Kind.MERGE:
        described["vcs.ref.head.revision"] = MergeCommand.read(entry.command).commit
    if with_content and entry.steward is not None:
        described |= {"logist.steward": entry.steward.name, "logist.note": _redact(entry.steward.note)}
    return described
