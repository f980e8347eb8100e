"""The type of a JSON object whose shape is defined elsewhere. Imports
nothing else: the quick commands use it too.
"""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]
