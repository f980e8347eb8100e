"""Role files: who does the work, as the shipped, the user's and the project's directories say."""

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
