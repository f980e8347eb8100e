"""Role files: define who does the work; found in the shipped, the user's and the project's directories."""

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
