"""What a program gets instead of an answer, in the form of its format."""

from __future__ import annotations

import json

from logist.agents.gate.recorder import Format, GateRefusal
from logist.core.model import JsonObject

BAD_REQUEST, UNAUTHORIZED, NOT_FOUND, WRONG_METHOD = 400, 401, 404, 405
TOO_LARGE, TOO_MANY, BAD_GATEWAY, GATEWAY_TIMEOUT = 413, 429, 502, 504

JSON = {"content-type": "application/json"}
BUSY_SECONDS = 5
"""Seconds after which a program may ask again, if only running calls of other jobs prevent its request."""

_TYPES = {
    UNAUTHORIZED: "authentication_error",
    NOT_FOUND: "not_found_error",
    TOO_LARGE: "request_too_large",
    TOO_MANY: "rate_limit_error",
    BAD_GATEWAY: "api_error",
    GATEWAY_TIMEOUT: "api_error",
}
_GOOGLE_STATUSES = {
    BAD_REQUEST: "FAILED_PRECONDITION",
    UNAUTHORIZED: "UNAUTHENTICATED",
    NOT_FOUND: "NOT_FOUND",
    TOO_MANY: "RESOURCE_EXHAUSTED",
    BAD_GATEWAY: "UNAVAILABLE",
    GATEWAY_TIMEOUT: "DEADLINE_EXCEEDED",
}


def choose_status(refusal: GateRefusal) -> int:
    """Return the HTTP status of a refusal. Programs don't send a request again after 400 and 404, and do after 429."""
    return {"model": NOT_FOUND, "busy": TOO_MANY}.get(refusal.reason, BAD_REQUEST)


def build_error(form: Format, status: int, message: str, code: str | None = None) -> bytes:
    """Return the body of an error as the provider of this format writes it."""
    kind = _TYPES.get(status, "invalid_request_error")
    error: JsonObject
    if form == "messages":
        error = {"type": "error", "error": {"type": kind, "message": message}}
    elif form == "gemini":
        name = _GOOGLE_STATUSES.get(status, "INVALID_ARGUMENT")
        error = {"error": {"code": status, "message": message, "status": name}}
    else:
        error = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return json.dumps(error, ensure_ascii=False).encode("utf-8", "replace")
