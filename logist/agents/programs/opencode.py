"""opencode: speaks OpenAI's chat format here, and prints events as JSON lines."""

from __future__ import annotations

import json
import re

from logist.agents.programs import reach
from logist.agents.programs.output import Json, at, count, events, microcents, text_of
from logist.agents.programs.protocol import Finished, Invocation, Profile, Result, Run, Spent
from logist.agents.programs.trouble import Heard, concluded, stub

PACKAGE = "opencode-ai"
CONTEXT = 128_000
"""Tokens; it wants to know when to sum up, which is turned off."""

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
        """`opencode run`; the configuration goes in a variable, which no file of the workspace overrides."""
        model = f"logist/{reach.bare(run.model)}"
        config = {
            "autoupdate": False,
            "share": "disabled",
            "snapshot": False,
            "permission": _RULES[run.profile],
            "provider": {"logist": _provider(run, self.name)},
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
            "OPENCODE_DISABLE_AUTOCOMPACT": "1",  # else a context too long is summed up again and again
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        }
        argv = ("opencode", "run", "--format", "json", "-m", model, "--title", run.name)
        return Invocation(argv, environment, stdin=run.prompt.encode("utf-8", "replace"))

    def read(self, finished: Finished) -> Result:
        """The last text; its tokens are told step by step, without those of its title."""
        text, session, failure, reason = "", None, None, None
        status: object = None
        steps: list[Json] = []
        denials: list[str] = []
        for event in events(finished.stdout):
            session = text_of(event.get("sessionID")) or session
            match event.get("type"):
                case "text":
                    text = text_of(at(event, "part.text")) or text
                case "tool_use" if refused := _denial(event):
                    denials.append(refused)
                case "step_finish":
                    steps.append(event)
                    reason = at(event, "part.reason")
                case "error":
                    failure = _message(event)
                    status = at(event, "error.data.statusCode")
        heard = Heard(
            text=text,
            failure=failure,
            status=status if isinstance(status, int) else None,
            cut=reason == "length",
            spent=_spent(steps) if steps else None,
            reported_microcents=_cost(steps) if steps else None,
            session=session,
            denials=tuple(denials),
        )
        nothing = not text and failure is None and not steps
        return concluded(finished, (stub(finished, PACKAGE) or heard) if nothing else heard)


def _provider(run: Run, program: str) -> Json:
    options = {"baseURL": reach.openai_address(run, program), "apiKey": reach.key(run, program)}
    limit = {"context": CONTEXT, "output": run.model.max_output_tokens}
    model: Json = {"tool_call": True, "limit": limit}
    if run.model.input_price is not None and run.model.output_price is not None:
        cached = run.model.input_price if run.model.cached_price is None else run.model.cached_price
        model["cost"] = {
            "input": run.model.input_price,
            "output": run.model.output_price,
            "cache_read": cached,
        }
    return {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {reach.bare(run.model): model}}


def _message(event: Json) -> str:
    said = text_of(at(event, "error.data.message")) or text_of(at(event, "error.message"))
    return said or text_of(at(event, "error.name")) or "it failed"


def _denial(event: Json) -> str:
    """A call that its rules refused; "" for every other."""
    error = text_of(at(event, "part.state.error"))
    if not _REFUSED.search(error):
        return ""
    place = text_of(at(event, "part.state.input.filePath")) or text_of(at(event, "part.state.input.command"))
    return f"{text_of(at(event, 'part.tool')) or 'a tool'} {place}".strip()[:200]


def _spent(steps: list[Json]) -> Spent:
    def total(path: str) -> int:
        return sum(count(at(step, f"part.tokens.{path}")) for step in steps)

    fresh = total("input") + total("cache.write")
    return Spent(fresh, total("cache.read"), total("output") + total("reasoning"))


def _cost(steps: list[Json]) -> int | None:
    costs = [microcents(at(step, "part.cost")) for step in steps]
    return (
        sum(cost for cost in costs if cost is not None) if any(cost is not None for cost in costs) else None
    )
