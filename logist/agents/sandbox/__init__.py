"""Running programs that are not trusted: one writable place, a built environment, limits, and a sure end."""

from logist.agents.sandbox.confinement import MARKER, Confinement, Kind, Means, ProgramEnd
from logist.agents.sandbox.ending import sweep
from logist.agents.sandbox.probing import means, require_linux
from logist.agents.sandbox.running import choose, run
from logist.agents.sandbox.view import is_visible, pin_program

__all__ = [
    "MARKER",
    "Confinement",
    "Kind",
    "Means",
    "ProgramEnd",
    "choose",
    "is_visible",
    "means",
    "pin_program",
    "require_linux",
    "run",
    "sweep",
]
