"""Gemini CLI (Google): speaks Gemini's format only; one JSON object, on stderr if it failed."""

from __future__ import annotations

import json

from logist.agents.programs import reach
from logist.agents.programs.output import at, count, document, text_of
from logist.agents.programs.protocol import Finished, Invocation, Result, Run, Spent
from logist.agents.programs.trouble import Heard, concluded, was_cut

_MODES = {"read": "plan", "edit": "auto_edit", "full": "yolo"}
_SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"disableAutoUpdate": True, "disableUpdateNag": True, "maxAttempts": 2},
}


class Gemini:
    """The program `gemini`."""

    name = "gemini"
    executable = "gemini"
    metered = True

    def invocation(self, run: Run) -> Invocation:
        """`gemini -p`; its address is always told, so that a `.env` of the workspace tells no other."""
        base = reach.without_version(reach.address(run, self.name, reach.GEMINI))
        environment = {
            "GOOGLE_GEMINI_BASE_URL": base,
            "GEMINI_API_KEY": reach.key(run, self.name),
            "GEMINI_TELEMETRY_ENABLED": "false",
            "NO_COLOR": "1",
        }
        argv = ["gemini", "-m", reach.bare(run.model), "--approval-mode", _MODES[run.profile]]
        argv += ["--skip-trust", "-o", "json", "-p", ""]
        return Invocation(
            tuple(argv),
            environment,
            stdin=run.prompt.encode("utf-8", "replace"),
            files={".gemini/settings.json": json.dumps(_SETTINGS).encode()},
        )

    def read(self, finished: Finished) -> Result:
        """The response, or the error; an answer that was cut shows no sign of it."""
        said = document(finished.stdout)
        said = said if isinstance(said, dict) else {}
        wrong = document(finished.stderr)
        error = at(said, "error") or at(wrong, "error")
        failure, status = None, None
        if isinstance(error, dict):
            failure = text_of(error.get("message")) or "it failed"
            code = error.get("code")
            status = code if isinstance(code, int) else None
        heard = Heard(
            text=text_of(said.get("response")),
            failure=failure,
            status=status,
            cut=failure is not None and was_cut(failure),
            spent=_spent(at(said, "stats.models")),
            session=text_of(said.get("session_id")) or text_of(at(wrong, "session_id")),
            denials=_denials(at(said, "stats.tools.byName")),
        )
        return concluded(finished, heard)


def _spent(models: object) -> Spent | None:
    tokens = [at(one, "tokens") for one in models.values()] if isinstance(models, dict) else []
    if not tokens:
        return None
    read, cached, written, thought = (
        sum(count(at(one, name)) for one in tokens) for name in ("prompt", "cached", "candidates", "thoughts")
    )
    return Spent(max(0, read - cached), cached, written + thought)


def _denials(tools: object) -> tuple[str, ...]:
    """It counts its refusals by tool."""
    named = tools.items() if isinstance(tools, dict) else ()
    refused = {text_of(name): count(at(told, "decisions.reject")) for name, told in named}
    return tuple(f"{name}: {number} refused" for name, number in refused.items() if number)
