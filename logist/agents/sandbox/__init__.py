"""Run untrusted programs: with one writable directory, their own environment and limits, and without leftover
processes.

Begin with `running.py: run_program`. It starts the program with `boxed.py` (under bubblewrap) or `bare.py` (under
Landlock, or unconfined). `bubblewrap.py` and `landlock.py` build what each of them starts, `view.py` decides what the
program can read, and `launcher.py` runs inside, before the program. `inner_listener.py` lets a program without
network reach the gate to its model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logist.lazy_modules import load_on_use

if TYPE_CHECKING:
    from logist.agents.sandbox.confinement import MARKER, Confinement, GateAccess, Kind, Means, ProgramEnd
    from logist.agents.sandbox.ending import end_leftover_processes
    from logist.agents.sandbox.probing import detect_sandbox, require_linux
    from logist.agents.sandbox.running import choose_sandbox, find_gate_problem, run_program
    from logist.agents.sandbox.view import is_visible, pin_program

__all__ = [
    "MARKER",
    "Confinement",
    "GateAccess",
    "Kind",
    "Means",
    "ProgramEnd",
    "choose_sandbox",
    "detect_sandbox",
    "end_leftover_processes",
    "find_gate_problem",
    "is_visible",
    "pin_program",
    "require_linux",
    "run_program",
]

load_on_use(
    globals(),
    {
        "confinement": ("MARKER", "Confinement", "GateAccess", "Kind", "Means", "ProgramEnd"),
        "ending": ("end_leftover_processes",),
        "probing": ("detect_sandbox", "require_linux"),
        "running": ("choose_sandbox", "find_gate_problem", "run_program"),
        "view": ("is_visible", "pin_program"),
    },
)
