"""Role files define who does the work.

They ship with Logist or come from the user's or the project's directory.
"""

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
