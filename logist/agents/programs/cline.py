"""Cline: uses OpenAI's chat format here; it takes the endpoint only from a file, which is always written."""

from __future__ import annotations

import json

from logist.agents.programs import reach
from logist.agents.programs.output import Json, get_at_path, iter_events, read_count, text_of
from logist.agents.programs.protocol import Finished, Invocation, Result, Run, Spent
from logist.agents.programs.trouble import Heard, build_result, was_cut

ARGUMENT = "Do what the piped text says."
"""The prompt is piped, but cline also requires an argument."""
WRITTEN = "2026-01-01T00:00:00.000Z"
_PROVIDER = "openai-compatible"


class Cline:
    """The program `cline`."""

    name = "cline"
    executable = "cline"
    metered = True

    def invocation(self, run: Run) -> Invocation:
        """Build the `cline --json` call; without the providers file it would use
        OpenAI, whatever its options say.
        """
        settings = {
            "provider": _PROVIDER,
            "apiKey": reach.resolve_key(run, self.name),
            "model": reach.strip_provider(run.model),
            "baseUrl": reach.resolve_openai_address(run, self.name),
        }
        entry = {"settings": settings, "updatedAt": WRITTEN, "tokenSource": "manual"}
        providers = {
            "version": 1,
            "lastUsedProvider": _PROVIDER,
            "modes": {},
            "providers": {_PROVIDER: entry},
        }
        general = {"telemetryOptOut": True, "autoUpdateEnabled": False}
        environment = {
            "CLINE_DIR": str(run.home / ".cline"),
            "CLINE_PROVIDER_SETTINGS_PATH": str(run.home / "providers.json"),
            "CLINE_GLOBAL_SETTINGS_PATH": str(run.home / "general.json"),
            "CLINE_SESSION_BACKEND_MODE": "local",  # otherwise a daemon keeps running
        }
        argv = [
            "cline",
            "--json",
            "-c",
            str(run.workspace),
            "-P",
            "openai",
            "-m",
            reach.strip_provider(run.model),
        ]
        argv += ["-p"] if run.profile == "read" else []
        return Invocation(
            (*argv, ARGUMENT),
            environment,
            stdin=run.prompt.encode("utf-8", "replace"),
            files={
                "providers.json": json.dumps(providers).encode(),
                "general.json": json.dumps(general).encode(),
            },
        )

    def read(self, finished: Finished) -> Result:
        """Read the `run_result`; its cost is always 0, and therefore ignored."""
        result: Json = {}
        failure = None
        for event in iter_events(finished.stdout):
            match event.get("type"):
                case "run_result":
                    result = event
                case "error":
                    failure = (
                        text_of(event.get("message"))
                        or text_of(get_at_path(event, "error.message"))
                        or "it failed without a message"
                    )
        reason = text_of(result.get("finishReason"))
        text = text_of(result.get("text"))
        if reason in ("error", "aborted"):
            failure = failure or text or reason
        elif result:
            failure = None
        heard = Heard(
            text=text if failure is None else "",
            failure=failure,
            cut=reason in ("length", "max_tokens") or (failure is not None and was_cut(failure)),
            spent=_read_usage(result.get("aggregateUsage") or result.get("usage")),
        )
        return build_result(finished, heard)


def _read_usage(usage: object) -> Spent | None:
    if not isinstance(usage, dict):
        return None
    read, cached = read_count(usage.get("inputTokens")), read_count(usage.get("cacheReadTokens"))
    return Spent(max(0, read - cached), cached, read_count(usage.get("outputTokens")))
