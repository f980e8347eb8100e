"""The permissions of a role: what it may do with files and programs."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from logist.core.model.base import Frozen


class Permission(StrEnum):
    """One permission, as tools require it."""

    READ_FILES = "read_files"
    WRITE_FILES = "write_files"
    DELETE_FILES = "delete_files"
    EXECUTE_COMMANDS = "execute_commands"
    CREATE_FILES = "create_files"


class Permissions(Frozen):
    """The permissions of a role; everything else is not allowed."""

    can_read_files: bool = False
    can_write_files: bool = False
    can_delete_files: bool = False
    can_execute_commands: bool = False
    can_create_files: bool = False

    @classmethod
    def from_names(cls, names: Iterable[str]) -> Permissions:
        """Build permissions from names such as `["read_files", "create_files"]`.

        Raises ValueError for an unknown name.
        """
        return cls(**{f"can_{Permission(name)}": True for name in names})

    def allows(self, permission: Permission) -> bool:
        """Whether this permission is granted."""
        return bool(getattr(self, f"can_{permission}"))

    def find_missing(self, required: Iterable[Permission]) -> tuple[Permission, ...]:
        """Return the required permissions that are not granted."""
        return tuple(permission for permission in required if not self.allows(permission))

    def list_names(self) -> list[str]:
        """Return the names of the granted permissions, in the order of the fields."""
        return [permission.value for permission in Permission if self.allows(permission)]

    @property
    def changes_files(self) -> bool:
        """Whether any kind of file change is allowed."""
        return self.can_write_files or self.can_delete_files or self.can_create_files


EVERYTHING = Permissions(**{f"can_{permission}": True for permission in Permission})
"""The permissions of a role that doesn't set any."""
