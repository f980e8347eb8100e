"""goose: uses OpenAI's chat format here, always ends with status 0
and "completed", and has no sandbox.
"""

from __future__ import annotations

import re

from logist.agents.programs import reach
from logist.agents.programs.output import Json, find_document, get_at_path, list_objects, read_count, text_of
from logist.agents.programs.protocol import Finished, Invocation, Result, Run, Spent
from logist.agents.programs.trouble import Heard, build_result
from logist.core.model import ErrorKind

TURNS = 100
"""Maximum answers of the model; goose has no cost limit."""
_TURN_LIMIT = re.compile(r"reached the maximum number of (?:actions|turns)", re.IGNORECASE)
"""goose's own message at that limit, instead of an answer of the model."""


class Goose:
    """The program `goose`."""

    name = "goose"
    executable = "goose"
    metered = True

    def invocation(self, run: Run) -> Invocation:
        """Build the `goose run` call; a role that may only read gets no tools,
        because goose has no read-only mode.
        """
        host, path = reach.split_host_and_path(reach.resolve_openai_address(run, self.name))
        environment = {
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": reach.strip_provider(run.model),
            "GOOSE_MODE": "chat" if run.profile == "read" else "auto",
            "GOOSE_DISABLE_KEYRING": "1",
            "GOOSE_TELEMETRY_ENABLED": "false",
            "GOOSE_MAX_TOKENS": str(run.model.max_output_tokens),
            "OPENAI_HOST": host,
            "OPENAI_BASE_PATH": f"{path}/chat/completions".lstrip("/"),
            "OPENAI_API_KEY": reach.resolve_key(run, self.name),
            "XDG_CONFIG_HOME": str(run.home / ".config"),
            "XDG_DATA_HOME": str(run.home / ".local/share"),
            "XDG_STATE_HOME": str(run.home / ".local/state"),
        }
        argv = ["goose", "run", "-i", "-", "--no-profile", "--with-builtin", "developer"]
        argv += ["--output-format", "json", "-q", "--max-turns", str(TURNS), "--no-session"]
        return Invocation(tuple(argv), environment, stdin=run.prompt.encode("utf-8", "replace"))

    def read(self, finished: Finished) -> Result:
        """Return the last message if the model wrote it: goose's own messages
        have no `metadata.inference`.
        """
        output = find_document(finished.stdout)
        if not isinstance(output, dict):
            return build_result(finished, Heard())
        messages = list_objects(output.get("messages"))
        last = next((one for one in reversed(messages) if one.get("role") == "assistant"), {})
        text = "\n".join(
            filter(None, (text_of(part.get("text")) for part in list_objects(last.get("content"))))
        )
        failure, kind = None, None
        if _is_own_message(last):
            text, failure = "", _join_text(last)
            if _TURN_LIMIT.search(failure):
                failure, kind = f"it reached its limit of {TURNS} turns", ErrorKind.BAD_REQUEST
        heard = Heard(
            text=text,
            failure=failure,
            kind=kind,
            cut=get_at_path(last, "metadata.outputTokenLimitReached") is True,
            spent=_read_usage(output.get("metadata")),
        )
        return build_result(finished, heard)


def _is_own_message(message: Json) -> bool:
    """Whether goose wrote this message, not the model."""
    kinds = {part.get("type") for part in list_objects(message.get("content"))}
    return bool(message) and (
        get_at_path(message, "metadata.inference") is None or bool(kinds & {"error", "systemNotification"})
    )


def _join_text(message: Json) -> str:
    parts = list_objects(message.get("content"))
    words = [
        text_of(part.get("text")) or text_of(part.get("msg")) or text_of(part.get("message"))
        for part in parts
    ]
    return "\n".join(filter(None, words)) or "goose ended without an answer from the model"


def _read_usage(metadata: object) -> Spent | None:
    read = read_count(get_at_path(metadata, "input_tokens"))
    written = read_count(get_at_path(metadata, "output_tokens"))
    cached = read_count(get_at_path(metadata, "cache_read_input_tokens"))
    return Spent(max(0, read - cached), cached, written, scope="session") if read or written else None
