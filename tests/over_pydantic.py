"""Logist's models over pydantic, whose names `logist.quick_model` has: to compare them, and for what only pydantic can do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pydantic

from logist import quick_model

LAYER = "logist.quick_model"


def put_pydantic_below() -> dict[str, ModuleType]:
    """Let modules of Logist that are imported from now on be new ones, whose models are over pydantic; return the others."""
    ours = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "logist"}
    for name in ours:
        del sys.modules[name]
    layer = ModuleType(LAYER)
    names = set(quick_model.__all__) - {"build_checks"}  # pydantic builds at once
    vars(layer).update({name: getattr(pydantic, name) for name in names})
    sys.modules[LAYER] = layer
    return ours


@contextmanager
def pydantic_below() -> Iterator[None]:
    """Put pydantic below the modules of Logist that are imported meanwhile."""
    ours = put_pydantic_below()
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "logist"]:
            del sys.modules[name]
        sys.modules.update(ours)
