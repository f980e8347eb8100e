"""What an address of the gate means: the format of the request, and where it goes."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import unquote, urlsplit

from logist.agents.gate.recorder import Format
from logist.agents.programs.reach import strip_version
from logist.quick_tuple import NamedTuple

Purpose = Literal["answer", "count", "models"]
"""A paid answer; a free count of the tokens of a request; the list of models, which the gate answers itself."""

_ENDS: tuple[tuple[str, Format], ...] = (
    ("/chat/completions", "chat"),
    ("/responses", "responses"),
    ("/messages", "messages"),
)
_COUNT = "/messages/count_tokens"
_GEMINI = re.compile(r"(?P<prefix>.*)/models/(?P<model>[^/:]+):(?P<method>\w+)\Z")
_GEMINI_METHODS: dict[str, tuple[Purpose, bool]] = {
    "generateContent": ("answer", False),
    "streamGenerateContent": ("answer", True),
    "countTokens": ("count", False),
}
_MODELS = re.compile(r"(?P<prefix>.*)/models(?:/[^/:]+)?\Z")
_VERSIONS = ("", "/v1", "/v1alpha", "/v1beta", "/v1beta/openai")


class RequestTarget(NamedTuple):
    """The target of one request."""

    format: Format
    purpose: Purpose
    prefix: str
    """The path before that of the format: `/v1`."""
    model: str = ""
    """The model, if the path has it, as Gemini's does."""
    stream: bool = False
    """Whether the path asks for a stream."""


def find_target(path: str) -> RequestTarget | None:
    """Return the meaning of a path; None if the gate doesn't know it."""
    if path.endswith(_COUNT):
        return RequestTarget("messages", "count", path.removesuffix(_COUNT))
    for end, name in _ENDS:
        if path.endswith(end):
            return RequestTarget(name, "answer", path.removesuffix(end))
    if match := _GEMINI.match(path):
        method = _GEMINI_METHODS.get(match["method"])
        return method and RequestTarget(
            "gemini", method[0], match["prefix"], unquote(match["model"]), method[1]
        )
    if match := _MODELS.match(path):
        is_gemini = "v1beta" in match["prefix"] and not match["prefix"].endswith("/openai")
        return RequestTarget("gemini" if is_gemini else "chat", "models", match["prefix"])
    return None


def guess_format(path: str) -> Format:
    """Return the format in which a program at an unknown path most likely reads an error."""
    if "/v1beta" in path or ":" in path:
        return "gemini"
    return "messages" if "/messages" in path or "/complete" in path else "chat"


def build_url(base_url: str, target: RequestTarget, model: str, path: str, query: str = "") -> str | None:
    """Return the address at the provider; None if the path is not one of the provider's.

    Programs add the version to an address, or remove it. Nothing else of the path is the program's choice, so it can't
    reach other parts of a server that several programs use. What the query of the base sets, that of the program can't.
    """
    base = urlsplit(base_url)
    own_path = base.path.rstrip("/").removesuffix("/chat/completions").removesuffix("/messages")
    if target.prefix != own_path and target.prefix not in {
        strip_version(own_path) + version for version in _VERSIONS
    }:
        return None
    end = path.removeprefix(target.prefix)
    if target.model:
        end = f"/models/{model}:{end.rpartition(':')[2]}"
    own = base.query.split("&") if base.query else []
    names = {part.partition("=")[0] for part in own}
    more = [part for part in query.split("&") if part and part.partition("=")[0] not in names]
    return f"{base.scheme}://{base.netloc}{target.prefix}{end}" + (
        "?" + "&".join(own + more) if own or more else ""
    )
