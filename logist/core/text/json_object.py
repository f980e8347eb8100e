"""The type of a JSON object whose structure is defined elsewhere. Imports nothing else, so that commands start
quickly.
"""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]
