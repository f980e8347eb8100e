"""The type of a JSON object whose shape belongs to somebody else. Loads nothing: the quick commands use it too."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]
