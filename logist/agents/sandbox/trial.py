"""Starting something once, to see whether a kind of sandbox works here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from logist.agents.sandbox.confinement import MARKER

_LONGEST = 10.0
"""Seconds that a trial may take."""


def why_not(argv: Sequence[str], passed: Sequence[int], closing: Sequence[int] = ()) -> str | None:
    """Runs it with these descriptors; None if it ends well, else what it said. Closes them, and `closing`."""
    try:
        done = subprocess.run(
            list(argv),
            env={MARKER: "trial"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            pass_fds=passed,
            timeout=_LONGEST,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    finally:
        for number in (*passed, *closing):
            os.close(number)
    if done.returncode == 0:
        return None
    return done.stderr.decode("utf-8", "replace").strip() or f"exit status {done.returncode}"
