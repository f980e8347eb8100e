"""The two kinds of value: exactly its own fields, and open to fields of a newer Logist."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

JsonObject = dict[str, Any]


class Frozen(BaseModel):
    """A value with exactly its own fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Recorded(BaseModel):
    """A value read back from disk; fields of a newer Logist are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")
