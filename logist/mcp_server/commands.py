"""Runs `logist` commands for the tools of the MCP server, as processes of their own.

So a tool sees exactly what a person sees in a terminal, an error in one call can't harm another one, and a job goes on
when the server ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Thread
from typing import Any

from logist.errors import Busy, Refused

LONGEST_SECONDS = 45.0
"""Clients give up after 60 seconds."""
EARLY_SECONDS = 2.0
"""A command that is refused ends sooner than this."""
_LOGIST = (sys.executable, "-P", "-X", "utf8", "-m", "logist")
_RESULTS = frozenset({0, 3, 6, 7, 8, 9, 10, 11})
"""Exit codes of commands that have a result: they say how the job is, too."""


class Commands:
    """Runs commands in the directory of a project; can be used from any thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, *words: str) -> Any:
        """Run a command that ends soon, and return the data of its --json. Raises Refused with its errors."""
        try:
            done = subprocess.run(
                [*_LOGIST, *words, "--json"],
                stdin=subprocess.DEVNULL,  # the server's own is the connection to the client
                capture_output=True,
                cwd=self._directory,
                timeout=LONGEST_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            fix = f"run it in a terminal: logist {' '.join(words)}"
            raise Busy(f"no result within {LONGEST_SECONDS:.0f} seconds", fix=fix) from None
        return _read_output(done.stdout, done.returncode)

    def start(self, *words: str) -> bool:
        """Start a command that goes on by itself, also when this server ends. Return whether it still works.

        Raises Refused if it is refused at once.
        """
        with tempfile.TemporaryFile() as output:  # a pipe would end the command together with this server
            process = subprocess.Popen(
                [*_LOGIST, *words, "--json"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
                cwd=self._directory,
                start_new_session=True,  # what ends the client ends only the server
            )
            try:
                code = process.wait(EARLY_SECONDS)
            except subprocess.TimeoutExpired:
                Thread(target=process.wait, daemon=True).start()  # else it would stay as a zombie
                return True
            output.seek(0)
            _read_output(output.read(), code)
            return False


def _read_output(output: bytes, code: int) -> Any:
    try:
        document = json.loads(output)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise Refused(f"the command ended with exit code {code} and no result", fix="logist doctor")
    if "schema_version" not in document:
        return document  # of `workflow next`, whose form belongs to other programs
    errors = [each for each in document["diagnostics"] if each["severity"] == "error"]
    if document["data"] is None or (errors and code not in _RESULTS):
        raise Refused("\n".join(map(_format_diagnostic, errors)) or f"exit code {code}")
    return document["data"]


def _format_diagnostic(diagnostic: dict[str, Any]) -> str:
    where = f"{diagnostic['target']}: " if diagnostic["target"] else ""
    fix = f" ({diagnostic['fix']})" if diagnostic["fix"] else ""
    return f"{where}{diagnostic['message']}{fix}"
