"""Role files define who does the work.

They ship with Logist or come from the user's or the project's directory. Names are loaded on first use: listing the
shipped roles needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logist.lazy_modules import load_on_use

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


load_on_use(
    globals(),
    {
        "loaded": ("FALLBACK", "INTERNAL", "LoadedRole", "Origin", "RoleProblem", "Roles", "role_hash"),
        "loading": ("load_roles",),
    },
)
