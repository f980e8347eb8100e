"""Models like those of pydantic, but quick to define: a command that changes a job uses forty of a hundred.

Importing pydantic and building its schemas takes 0.16 s, which is ten times the start of Python. Here, a class costs
microseconds until data is first read with it; then its annotations are evaluated and become functions that check
values. The names, conversions, errors and dumps are those of pydantic, as far as Logist uses them, and type checkers
read `__init__.pyi`; `tests/core/test_quick_model.py` compares the two for each of Logist's classes.

Annotations that no class uses yet are a TypeError: add them to `checks.py`, and to the comparison.
"""

from __future__ import annotations

from collections.abc import Callable

from logist.quick_model.fields import (
    AfterValidator,
    Field,
    StringConstraints,
    field_serializer,
    model_serializer,
    model_validator,
)
from logist.quick_model.model import BaseModel, build_checks
from logist.quick_model.problems import ValidationError

ConfigDict = dict
SerializerFunctionWrapHandler = Callable

__all__ = [
    "AfterValidator",
    "BaseModel",
    "ConfigDict",
    "Field",
    "SerializerFunctionWrapHandler",
    "StringConstraints",
    "ValidationError",
    "build_checks",
    "field_serializer",
    "model_serializer",
    "model_validator",
]
