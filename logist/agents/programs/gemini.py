"""Gemini CLI (Google): uses Gemini's format only; prints one JSON object, on stderr if it failed."""

from __future__ import annotations

import json

from logist.agents.programs import reach
from logist.agents.programs.output import Json, find_document, get_at_path, read_count, text_of
from logist.agents.programs.protocol import Finished, Invocation, Result, Run, Spent
from logist.agents.programs.trouble import Heard, build_result, was_cut

_MODES = {"read": "plan", "edit": "auto_edit", "full": "yolo"}
_SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"disableAutoUpdate": True, "disableUpdateNag": True, "maxAttempts": 2},
}

_OTHER_MODELS = (
    "base",
    *(
        f"chat-compression-{name}"
        for name in (
            "default",
            "2.5-flash",
            "2.5-flash-lite",
            "2.5-pro",
            "3-flash",
            "3-pro",
            "3.1-flash-lite",
        )
    ),
    "agent-history-provider-summarizer",
)
"""What its settings call the uses of a model. All that are not listed here are based on `base`."""


class Gemini:
    """The program `gemini`."""

    name = "gemini"
    executable = "gemini"
    metered = True

    def invocation(self, run: Run) -> Invocation:
        """Build the `gemini -p` call; the address is always set, so that a
        `.env` file in the workspace can't set another.
        """
        base = reach.strip_version(reach.resolve_address(run, self.name, reach.GEMINI))
        environment = {
            "GOOGLE_GEMINI_BASE_URL": base,
            "GEMINI_API_KEY": reach.resolve_key(run, self.name),
            "GEMINI_TELEMETRY_ENABLED": "false",
            "NO_COLOR": "1",
        }
        model = reach.strip_provider(run.model)
        argv = ["gemini", "-m", model, "--approval-mode", _MODES[run.profile]]
        argv += ["--skip-trust", "-o", "json", "-p", ""]
        return Invocation(
            tuple(argv),
            environment,
            stdin=run.prompt.encode("utf-8", "replace"),
            files={".gemini/settings.json": json.dumps(_SETTINGS | _choose_models(model)).encode()},
        )

    def read(self, finished: Finished) -> Result:
        """Return the response, or the error; nothing in the output shows that an answer was cut."""
        output = find_document(finished.stdout)
        output = output if isinstance(output, dict) else {}
        error_output = find_document(finished.stderr)
        error = get_at_path(output, "error") or get_at_path(error_output, "error")
        failure, status = None, None
        if isinstance(error, dict):
            failure = text_of(error.get("message")) or "it failed without a message"
            code = error.get("code")
            status = code if isinstance(code, int) else None
        heard = Heard(
            text=text_of(output.get("response")),
            failure=failure,
            status=status,
            cut=failure is not None and was_cut(failure),
            spent=_read_usage(get_at_path(output, "stats.models")),
            session=text_of(output.get("session_id")) or text_of(get_at_path(error_output, "session_id")),
            denials=_list_denials(get_at_path(output, "stats.tools.byName")),
        )
        return build_result(finished, heard)


def _choose_models(model: str) -> Json:
    """Return the settings by which it uses this model also to summarize, to correct itself and to detect loops."""
    chosen = [{"match": {"model": name}, "modelConfig": {"model": model}} for name in _OTHER_MODELS]
    return {"modelConfigs": {"customOverrides": chosen}}


def _read_usage(models: object) -> Spent | None:
    tokens = [get_at_path(one, "tokens") for one in models.values()] if isinstance(models, dict) else []
    if not tokens:
        return None
    read, cached, written, thoughts = (
        sum(read_count(get_at_path(one, name)) for one in tokens)
        for name in ("prompt", "cached", "candidates", "thoughts")
    )
    return Spent(max(0, read - cached), cached, written + thoughts)


def _list_denials(tools: object) -> tuple[str, ...]:
    """List the refused calls; Gemini counts them by tool."""
    tools_by_name = tools.items() if isinstance(tools, dict) else ()
    refused = {
        text_of(name): read_count(get_at_path(told, "decisions.reject")) for name, told in tools_by_name
    }
    return tuple(f"{name}: {number} refused" for name, number in refused.items() if number)
