"""What a check-up finds: a fault, the command that repairs it, and what `doctor --fix` would do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal, NamedTuple

from logist.errors import Damaged, InvalidFile

FIX = "logist doctor --fix"
FIX_DEEP = f"{FIX} --deep"
"""For what only a reading of the whole history shows."""


class Cure(StrEnum):
    """What `doctor --fix` does; DONE says it in words."""

    TAKE_AWAY = "take_away"
    ABANDONED = "abandoned"
    NARROW = "narrow"
    MAKE = "make"
    SIGN = "sign"
    REBUILD = "rebuild"
    CUT = "cut"
    RESPELL = "respell"
    FREEZE = "freeze"
    REFILL = "refill"
    IGNORE = "ignore"


DONE = {
    Cure.TAKE_AWAY: "moved to the backup",
    Cure.ABANDONED: "moved to the backup, for nobody is at work on it",
    Cure.NARROW: "closed to other users",
    Cure.MAKE: "made again",
    Cure.SIGN: "made again",
    Cure.REBUILD: "made again from the history",
    Cure.CUT: "its end made whole; what was cut off is kept in logs/",
    Cure.RESPELL: "made again from what the history recorded; comments are lost",
    Cure.FREEZE: "made again from the history",
    Cure.REFILL: "made again from the last checkpoint",
    Cure.IGNORE: "made again",
}
"""What was done to the files of a remedy, as the report says it."""


class Remedy(NamedTuple):
    """A cure, and the files it is for."""

    cure: Cure
    paths: tuple[Path, ...]


@dataclass(frozen=True)
class Finding:
    """One line of a check-up."""

    check: str
    level: Literal["ok", "warning", "error"]
    message: str
    fix: str | None = None
    """A command that works as printed, where there is one; else words."""
    exit_code: int = 0
    remedy: Remedy | None = None


def warning(check: str, message: str, fix: str | None) -> Finding:
    """Something that loses nothing as it is."""
    return Finding(check, "warning", message, fix)


def invalid(check: str, message: str, fix: str | None) -> Finding:
    """A file or a setting that keeps Logist from working (exit code 5)."""
    return Finding(check, "error", message, fix, InvalidFile.exit_code)


def damage(check: str, message: str, fix: str | None) -> Finding:
    """A file of a job that is not what Logist wrote (exit code 10)."""
    return Finding(check, "error", message, fix, Damaged.exit_code)


def curable(found: Finding, cure: Cure, *paths: Path) -> Finding:
    """The same, with what `doctor --fix` does about it."""
    return Finding(found.check, found.level, found.message, FIX, found.exit_code, Remedy(cure, paths))
