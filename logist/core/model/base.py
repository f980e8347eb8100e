"""The two kinds of value: one with exactly its own fields, and one open to fields of a newer Logist."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

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


class Sparse(Recorded):
    """A recorded value that is written with the fields it was made with; those that say nothing are left out."""

    @model_serializer(mode="wrap")
    def _with_what_is_set(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        told: dict[str, Any] = dump(self)
        return {
            name: value for name, value in told.items() if name in self.model_fields_set and value is not None
        }
