"""Running programs that are not trusted: one writable place, a built environment, limits, and a sure end."""

from logist.agents.sandbox.confinement import MARKER, Confinement, Ended, Kind, Means
from logist.agents.sandbox.ending import sweep
from logist.agents.sandbox.probing import means
from logist.agents.sandbox.running import run

__all__ = ["MARKER", "Confinement", "Ended", "Kind", "Means", "means", "run", "sweep"]
