"""Codex (OpenAI): uses the responses format only, and prints events as JSON lines."""

from __future__ import annotations

import json

from logist.agents.programs import reach
from logist.agents.programs.output import Json, get_at_path, iter_events, read_count, text_of
from logist.agents.programs.protocol import Finished, Invocation, Result, Run, Spent
from logist.agents.programs.trouble import Heard, build_result, was_cut

KEY = "CODEX_MODEL_API_KEY"

_PROFILES = {
    "read": ("-s", "read-only"),
    "edit": ("-s", "workspace-write"),
    "full": ("--dangerously-bypass-approvals-and-sandbox",),
}
# Without these it connects to other hosts, and never ends if these don't answer.
_OFF = ("unbounded_connection_retries", "plugins", "remote_plugin", "apps", "skill_search")
_SETTINGS = {
    "model_provider": "logist",
    "model_providers.logist.name": "logist",
    "model_providers.logist.env_key": KEY,
    "model_providers.logist.wire_api": "responses",
    "model_providers.logist.request_max_retries": 1,
    "model_providers.logist.stream_max_retries": 1,
    "sandbox_workspace_write.exclude_slash_tmp": True,
    "sandbox_workspace_write.exclude_tmpdir_env_var": True,
    "shell_environment_policy.ignore_default_excludes": False,
    "web_search": "disabled",  # the provider runs it, and may bill each use
    "analytics.enabled": False,
    "check_for_update_on_startup": False,
}


class Codex:
    """The program `codex`."""

    name = "codex"
    executable = "codex"
    metered = True

    def invocation(self, run: Run) -> Invocation:
        """Build the `codex exec` call; its provider is on the command line, which no file of the workspace
        overrides.
        """
        base = reach.resolve_openai_address(run, self.name, reach.RESPONSES)
        settings = _SETTINGS | {"model_providers.logist.base_url": base}
        argv = ["codex", "exec", "--json", "--skip-git-repo-check", "-C", str(run.workspace)]
        argv += [*_PROFILES[run.profile], "-m", reach.strip_provider(run.model)]
        for name, value in settings.items():
            argv += ["-c", f"{name}={json.dumps(value)}"]
        for feature in _OFF:
            argv += ["--disable", feature]
        return Invocation(
            argv=(*argv, "-"),
            environment={"CODEX_HOME": str(run.home / ".codex"), KEY: reach.resolve_key(run, self.name)},
            stdin=run.prompt.encode("utf-8", "replace"),
            files={".codex/config.toml": b""},  # the directory must exist
        )

    def read(self, finished: Finished) -> Result:
        """Return the last message; only `turn.failed` is a failure, because
        Codex prints errors in every run.
        """
        text, session, failure = "", None, None
        spent: Spent | None = None
        for event in iter_events(finished.stdout):
            match event.get("type"):
                case "item.completed" if get_at_path(event, "item.type") == "agent_message":
                    text = text_of(get_at_path(event, "item.text"))
                case "thread.started":
                    session = text_of(event.get("thread_id"))
                case "turn.completed":
                    failure, spent = None, _read_usage(event)
                case "turn.failed":
                    failure = _read_error_message(event)
        cut = failure is not None and was_cut(failure)
        return build_result(
            finished, Heard(text=text, failure=failure, cut=cut, spent=spent, session=session)
        )


def _read_error_message(event: Json) -> str:
    return text_of(get_at_path(event, "error.message")) or "the turn failed"


def _read_usage(event: Json) -> Spent:
    read, cached = (
        read_count(get_at_path(event, f"usage.{name}")) for name in ("input_tokens", "cached_input_tokens")
    )
    written = read_count(get_at_path(event, "usage.output_tokens"))
    return Spent(max(0, read - cached), cached, written, scope="session")
