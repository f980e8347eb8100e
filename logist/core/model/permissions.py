"""What a role may do to the files of a job, and with programs."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from logist.core.model.base import Frozen


class Permission(StrEnum):
    """One thing that a role may be allowed to do, as tools ask for it."""

    READ_FILES = "read_files"
    WRITE_FILES = "write_files"
    DELETE_FILES = "delete_files"
    EXECUTE_COMMANDS = "execute_commands"
    CREATE_FILES = "create_files"


class Permissions(Frozen):
    """What a role may do; what is not listed is not allowed."""

    can_read_files: bool = False
    can_write_files: bool = False
    can_delete_files: bool = False
    can_execute_commands: bool = False
    can_create_files: bool = False

    @classmethod
    def from_names(cls, names: Iterable[str]) -> Permissions:
        """Return these permissions, as in `["read_files", "create_files"]`.
        Raises ValueError for an unknown name.
        """
        return cls(**{f"can_{Permission(name)}": True for name in names})

    def allows(self, permission: Permission) -> bool:
        """Whether this permission is granted."""
        return bool(getattr(self, f"can_{permission}"))

    def find_missing(self, required: Iterable[Permission]) -> tuple[Permission, ...]:
        """Return the permissions that are required and not granted."""
        return tuple(permission for permission in required if not self.allows(permission))

    def list_names(self) -> list[str]:
        """Return the permissions that are granted, in the order of the fields."""
        return [permission.value for permission in Permission if self.allows(permission)]

    @property
    def changes_files(self) -> bool:
        """Whether any change of a file is allowed."""
        return self.can_write_files or self.can_delete_files or self.can_create_files


EVERYTHING = Permissions(**{f"can_{permission}": True for permission in Permission})
"""What a role may do that says nothing about permissions."""
