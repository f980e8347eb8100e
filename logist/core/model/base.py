"""Base classes: one that allows only known fields, and one that keeps the fields of a newer Logist."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, TypeVar

from logist.quick_model import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

Known = TypeVar("Known")
Open = Annotated[Known | str, Field(union_mode="left_to_right")]
"""A known word, or the unchanged word of a newer Logist."""


class Frozen(BaseModel):
    """A value that allows only its own fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Recorded(BaseModel):
    """A value that is read from disk; fields of a newer Logist are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Extended(Recorded):
    """A recorded value with fields that earlier versions don't know: each is written only if it is not the default.

    So what is written for work that doesn't use these fields is the same as before.
    """

    _added: ClassVar[frozenset[str]]
    """The names of these fields."""

    @model_serializer(mode="wrap")
    def _without_unused(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = dump(self)
        fields = type(self).model_fields
        return {
            name: value
            for name, value in data.items()
            if name not in self._added or getattr(self, name) != fields[name].default
        }


class Sparse(Recorded):
    """A recorded value that is written with only the fields that were set; None is left out."""

    @model_serializer(mode="wrap")
    def _with_what_is_set(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        told: dict[str, Any] = dump(self)
        return {
            name: value for name, value in told.items() if name in self.model_fields_set and value is not None
        }
