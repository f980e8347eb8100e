"""Role files define who does the work.

They ship with Logist or come from the user's or the project's directory. Names are loaded on first use: listing the
shipped roles needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from logist.roles.loaded import FALLBACK, INTERNAL, LoadedRole, Origin, RoleProblem, Roles, role_hash
    from logist.roles.loading import load_roles

__all__ = [
    "FALLBACK",
    "INTERNAL",
    "LoadedRole",
    "Origin",
    "RoleProblem",
    "Roles",
    "load_roles",
    "role_hash",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "loading" if name == "load_roles" else "loaded"
    return getattr(import_module(f"{__name__}.{home}"), name)
