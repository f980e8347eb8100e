"""goose: speaks OpenAI's chat format here, ends with 0 and "completed" in every case, and confines nothing."""

from __future__ import annotations

import re

from logist.agents.programs import reach
from logist.agents.programs.output import Json, at, count, document, listed, text_of
from logist.agents.programs.protocol import Finished, Invocation, Result, Run, Spent
from logist.agents.programs.trouble import Heard, concluded
from logist.core.model import ErrorKind

TURNS = 100
"""Answers of the model; it knows no limit of cost."""
_TURN_LIMIT = re.compile(r"reached the maximum number of (?:actions|turns)", re.IGNORECASE)
"""What goose says there, in the place of the model's answer."""


class Goose:
    """The program `goose`."""

    name = "goose"
    executable = "goose"
    metered = True

    def invocation(self, run: Run) -> Invocation:
        """`goose run`; as a reader it runs no tool at all, for it has no mode that only looks."""
        host, path = reach.host_and_path(reach.openai_address(run, self.name))
        environment = {
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": reach.bare(run.model),
            "GOOSE_MODE": "chat" if run.profile == "read" else "auto",
            "GOOSE_DISABLE_KEYRING": "1",
            "GOOSE_TELEMETRY_ENABLED": "false",
            "GOOSE_MAX_TOKENS": str(run.model.max_output_tokens),
            "OPENAI_HOST": host,
            "OPENAI_BASE_PATH": f"{path}/chat/completions".lstrip("/"),
            "OPENAI_API_KEY": reach.key(run, self.name),
            "XDG_CONFIG_HOME": str(run.home / ".config"),
            "XDG_DATA_HOME": str(run.home / ".local/share"),
            "XDG_STATE_HOME": str(run.home / ".local/state"),
        }
        argv = ["goose", "run", "-i", "-", "--no-profile", "--with-builtin", "developer"]
        argv += ["--output-format", "json", "-q", "--max-turns", str(TURNS), "--no-session"]
        return Invocation(tuple(argv), environment, stdin=run.prompt.encode("utf-8", "replace"))

    def read(self, finished: Finished) -> Result:
        """The last message, if the model wrote it: goose's own have no `metadata.inference`."""
        said = document(finished.stdout)
        if not isinstance(said, dict):
            return concluded(finished, Heard())
        messages = listed(said.get("messages"))
        last = next((one for one in reversed(messages) if one.get("role") == "assistant"), {})
        text = "\n".join(filter(None, (text_of(part.get("text")) for part in listed(last.get("content")))))
        failure, kind = None, None
        if _own(last):
            text, failure = "", _words(last)
            if _TURN_LIMIT.search(failure):
                failure, kind = f"it reached its limit of {TURNS} turns", ErrorKind.BAD_REQUEST
        heard = Heard(
            text=text,
            failure=failure,
            kind=kind,
            cut=at(last, "metadata.outputTokenLimitReached") is True,
            spent=_spent(said.get("metadata")),
        )
        return concluded(finished, heard)


def _own(message: Json) -> bool:
    """Whether these are words of goose, not of the model."""
    kinds = {part.get("type") for part in listed(message.get("content"))}
    return bool(message) and (
        at(message, "metadata.inference") is None or bool(kinds & {"error", "systemNotification"})
    )


def _words(message: Json) -> str:
    parts = listed(message.get("content"))
    words = [
        text_of(part.get("text")) or text_of(part.get("msg")) or text_of(part.get("message"))
        for part in parts
    ]
    return "\n".join(filter(None, words)) or "goose ended without a word of the model"


def _spent(metadata: object) -> Spent | None:
    read = count(at(metadata, "input_tokens"))
    written = count(at(metadata, "output_tokens"))
    cached = count(at(metadata, "cache_read_input_tokens"))
    return Spent(max(0, read - cached), cached, written, scope="session") if read or written else None
