"""opencode: uses OpenAI's chat format here, and prints events as JSON lines."""

from __future__ import annotations

import json
import re

from logist.agents.programs import reach
from logist.agents.programs.output import (
    Json,
    dollars_to_microcents,
    get_at_path,
    iter_events,
    read_count,
    text_of,
)
from logist.agents.programs.protocol import Finished, Invocation, Profile, Result, Run, Spent
from logist.agents.programs.trouble import Heard, build_result, detect_stub

PACKAGE = "opencode-ai"
CONTEXT = 128_000
"""Tokens; opencode requires the size of the context window, although compaction is turned off."""

_RULES: dict[Profile, Json] = {
    "read": {"edit": "deny", "bash": "deny", "webfetch": "deny", "external_directory": "deny"},
    "edit": {"edit": "allow", "bash": "deny", "webfetch": "deny", "external_directory": "deny"},
    "full": {"edit": "allow", "bash": "allow", "external_directory": "deny"},
}
_REFUSED = re.compile(r"rejected permission|specified a rule|permission denied", re.IGNORECASE)


class Opencode:
    """The program `opencode`."""

    name = "opencode"
    executable = "opencode"
    metered = True

    def invocation(self, run: Run) -> Invocation:
        """Build the `opencode run` call; its configuration is in a variable, which no file of the
        workspace overrides.
        """
        model = f"logist/{reach.strip_provider(run.model)}"
        config = {
            "autoupdate": False,
            "share": "disabled",
            "snapshot": False,
            "permission": _RULES[run.profile],
            "provider": {"logist": _build_provider(run, self.name)},
            "model": model,
            "small_model": model,
        }
        environment = {
            "XDG_CONFIG_HOME": str(run.home / ".config"),
            "XDG_DATA_HOME": str(run.home / ".local/share"),
            "XDG_STATE_HOME": str(run.home / ".local/state"),
            "XDG_CACHE_HOME": str(run.home / ".cache"),
            "OPENCODE_CONFIG_CONTENT": json.dumps(config),
            "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_AUTOCOMPACT": "1",  # otherwise it compacts a context that is too long again and again
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        }
        argv = ("opencode", "run", "--format", "json", "-m", model, "--title", run.name)
        return Invocation(argv, environment, stdin=run.prompt.encode("utf-8", "replace"))

    def read(self, finished: Finished) -> Result:
        """Return the last text; tokens are reported step by step, without those for the session's title."""
        text, session, failure, reason = "", None, None, None
        status: object = None
        steps: list[Json] = []
        denials: list[str] = []
        for event in iter_events(finished.stdout):
            session = text_of(event.get("sessionID")) or session
            match event.get("type"):
                case "text":
                    text = text_of(get_at_path(event, "part.text")) or text
                case "tool_use" if refused := _describe_denial(event):
                    denials.append(refused)
                case "step_finish":
                    steps.append(event)
                    reason = get_at_path(event, "part.reason")
                case "error":
                    failure = _read_error_message(event)
                    status = get_at_path(event, "error.data.statusCode")
        heard = Heard(
            text=text,
            failure=failure,
            status=status if isinstance(status, int) else None,
            cut=reason == "length",
            spent=_read_usage(steps) if steps else None,
            reported_microcents=_sum_cost(steps) if steps else None,
            session=session,
            denials=tuple(denials),
        )
        is_empty = not text and failure is None and not steps
        return build_result(finished, (detect_stub(finished, PACKAGE) or heard) if is_empty else heard)


def _build_provider(run: Run, program: str) -> Json:
    options = {
        "baseURL": reach.resolve_openai_address(run, program),
        "apiKey": reach.resolve_key(run, program),
    }
    limit = {"context": CONTEXT, "output": run.model.max_output_tokens}
    model: Json = {"tool_call": True, "limit": limit}
    if run.model.input_price is not None and run.model.output_price is not None:
        cached = run.model.input_price if run.model.cached_price is None else run.model.cached_price
        stored = run.model.cache_write_price
        model["cost"] = {
            "input": run.model.input_price,
            "output": run.model.output_price,
            "cache_read": cached,
            **({} if stored is None else {"cache_write": stored}),
        }
    return {
        "npm": "@ai-sdk/openai-compatible",
        "options": options,
        "models": {reach.strip_provider(run.model): model},
    }


def _read_error_message(event: Json) -> str:
    message = text_of(get_at_path(event, "error.data.message")) or text_of(
        get_at_path(event, "error.message")
    )
    return message or text_of(get_at_path(event, "error.name")) or "it failed without a message"


def _describe_denial(event: Json) -> str:
    """Describe a call that opencode's rules refused; "" for every other."""
    error = text_of(get_at_path(event, "part.state.error"))
    if not _REFUSED.search(error):
        return ""
    place = text_of(get_at_path(event, "part.state.input.filePath")) or text_of(
        get_at_path(event, "part.state.input.command")
    )
    return f"{text_of(get_at_path(event, 'part.tool')) or 'a tool'} {place}".strip()[:200]


def _read_usage(steps: list[Json]) -> Spent:
    def sum_tokens(path: str) -> int:
        return sum(read_count(get_at_path(step, f"part.tokens.{path}")) for step in steps)

    stored = sum_tokens("cache.write")
    written = sum_tokens("output") + sum_tokens("reasoning")
    return Spent(sum_tokens("input") + stored, sum_tokens("cache.read"), written, cache_write=stored)


def _sum_cost(steps: list[Json]) -> int | None:
    costs = [dollars_to_microcents(get_at_path(step, "part.cost")) for step in steps]
    return (
        sum(cost for cost in costs if cost is not None) if any(cost is not None for cost in costs) else None
    )
