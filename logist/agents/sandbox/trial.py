"""Starts a command once to test whether a kind of sandbox works on this machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from logist.agents.sandbox import ending
from logist.agents.sandbox.confinement import MARKER

_LONGEST = 10.0
"""Seconds that a trial may take."""


def try_command(argv: Sequence[str], passed: Sequence[int], closing: Sequence[int] = ()) -> str | None:
    """Run it with these descriptors. Returns None if it succeeds, else its error message. Closes them, and
    `closing`.

    Leftover processes are ended: a killed launcher may have started one that waits for it forever.
    """
    marker = f"trial-{os.urandom(8).hex()}"
    try:
        process = subprocess.Popen(
            list(argv),
            env={MARKER: marker},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=passed,
        )
    except OSError as error:
        return str(error)
    finally:
        for number in (*passed, *closing):
            os.close(number)
    with process:
        late = _is_late(process)
        if late or process.returncode:
            ending.end_leftover_processes(marker)
        assert process.stderr is not None
        message = process.stderr.read().decode("utf-8", "replace").strip()
    if late:
        return f"it didn't end within {_LONGEST:g} seconds"
    return None if process.returncode == 0 else message or f"exit status {process.returncode}"


def _is_late(process: subprocess.Popen[bytes]) -> bool:
    """Wait for the process, and kill it if it takes too long. Returns whether it did."""
    try:
        process.wait(_LONGEST)
    except subprocess.TimeoutExpired:
        process.kill()
        return True
    return False
