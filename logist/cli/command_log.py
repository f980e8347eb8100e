"""Begins and ends the log of a command: `--log-file`, LOGIST_LOG_FILE and `-v`. Has few imports, to start fast."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from logist import __version__, event_log
from logist.cli.current_job import get_current_directory
from logist.cli.show import render
from logist.cli.show.output import Diagnostic
from logist.config.environment import Environment
from logist.quick_tuple import NamedTuple

if TYPE_CHECKING:
    from logist.event_log.log_file import LogFile
    from logist.event_log.recorder import EventRecorder


class _Log(NamedTuple):
    """The command that runs, and how it is logged."""

    command: str
    options: list[str]
    """Their names; their values may be prompts."""
    began: float
    file: LogFile | None = None
    is_verbose: bool = False


_log: list[_Log] = []
"""The log of this command: one, once `note_command` was called."""


def note_command(words: Iterable[str], options: Iterable[str]) -> None:
    """Note which command runs, in case that it is logged."""
    names = sorted({option.partition("=")[0] for option in options if option.startswith("--")})
    _log[:] = [_Log(" ".join(["logist", *words]), names, time.monotonic())]


def begin(environment: Environment, *, log_file: str | None = None, is_verbose: bool = False) -> None:
    """Record events from now on; each of the two options adds to the other."""
    from logist.event_log import events

    earlier = _log[0]
    file = _open_file(environment, log_file) if log_file else None
    if earlier.file and file and earlier.file.path == file.path:
        file = earlier.file
    log = earlier._replace(file=file or earlier.file, is_verbose=is_verbose or earlier.is_verbose)
    if log == earlier:  # an option of `logist` is read again as an option of the command
        return
    _log[0] = log
    begun = events.CommandBegun(log.command, log.options, __version__, get_current_directory())
    _build_recorder(environment, file, is_verbose=is_verbose).record(begun, None)
    event_log.set_recorder(_build_recorder(environment, log.file, is_verbose=log.is_verbose))


def find_file() -> str | None:
    """Return the path of the log file of this command, if it has one."""
    return _log[0].file.path if _log and _log[0].file else None


def end(exit_code: int) -> None:
    """Record how the command ended, and stop recording."""
    from logist.event_log import events

    log = _log[0]
    event_log.report(events.CommandEnded(log.command, exit_code, round(time.monotonic() - log.began, 3)))
    event_log.set_recorder(None)


def _open_file(environment: Environment, name: str) -> LogFile:
    from logist.event_log.log_file import LogFile

    def warn(text: str) -> None:
        render.print_diagnostics((Diagnostic("warning", "log_file", text),), environment)

    return LogFile(os.path.join(get_current_directory(), name), warn)


def _build_recorder(environment: Environment, file: LogFile | None, *, is_verbose: bool) -> EventRecorder:
    from logist.config import key_names
    from logist.event_log.recorder import EventRecorder

    def tell(text: str) -> None:
        render.print_message(text, environment)

    secrets = environment.list_secrets(*key_names.list_key_names([]))
    return EventRecorder(secrets, log_file=file, show=tell if is_verbose else None)
