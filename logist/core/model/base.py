"""The two kinds of value: exactly its own fields, and open to fields of a newer Logist."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field

FORMAT = 1
"""The version of state.json and of interactions that this Logist writes; it reads no other to the full."""

Known = TypeVar("Known")
Open = Annotated[Known | str, Field(union_mode="left_to_right")]
"""One of the words known, or a word of a newer Logist as it is written."""


class Frozen(BaseModel):
    """A value with exactly its own fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Recorded(BaseModel):
    """A value read back from disk; fields of a newer Logist are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")
