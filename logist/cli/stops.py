"""Ctrl-C and SIGTERM: the first one lets the current work reach a safe point to stop. Has few imports."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import click

from logist import event_log
from logist.cli.show import render
from logist.cli.show.output import Diagnostic, exit_code_of_signal
from logist.event_log import events

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext

_AT_ONCE = b"stopped at once; an agent may still be working: the next `logist job step` or `logist run` records its results\n"


class _Stop:
    """Set by the signal handlers, read by the work."""

    code = 0
    is_reported = False


_stop = _Stop()


def get_stop_code() -> int:
    """Return the exit code if a stop was requested: 130 for Ctrl-C, 143 for SIGTERM; else 0."""
    if _stop.code and not _stop.is_reported and event_log.is_on():
        _stop.is_reported = True  # not by the handler: it may interrupt a thread that writes an event
        event_log.report(events.StopRequested(signal.Signals(_stop.code - 128).name))
    return _stop.code


Command = TypeVar("Command", bound=Callable[..., Any])


def stop_on_signals(command: Command) -> Command:
    """Let Ctrl-C or SIGTERM stop the current work at the next safe point; a second signal exits at once.

    Must be called before the modules of the work are imported: an exception in the middle of an import would break
    it.
    """

    @wraps(command)
    def stoppable(*args: Any, **kwargs: Any) -> Any:
        _handle_signals()
        return command(*args, **kwargs)

    return cast("Command", stoppable)


def survive_hangup() -> None:
    """Let SIGHUP change nothing, for a service: there is no terminal that could be closed, and no file to open again.

    At a terminal, SIGHUP ends the command as it ends any other, because its output has nowhere to go; agents go on.
    """
    if not any(map(os.isatty, range(3))):
        before = signal.signal(signal.SIGHUP, lambda number, frame: None)
        click.get_current_context().call_on_close(partial(signal.signal, signal.SIGHUP, before))


def _handle_signals() -> None:
    def stop(number: int, frame: object) -> None:
        if _stop.code:
            _exit_at_once(exit_code_of_signal(number))
        _stop.code = exit_code_of_signal(number)

    _stop.code, _stop.is_reported = 0, False
    close = click.get_current_context().call_on_close
    for number in (signal.SIGINT, signal.SIGTERM):
        close(partial(signal.signal, number, signal.signal(number, stop)))


def _exit_at_once(code: int) -> NoReturn:
    """Exit without waiting for anything, including other threads: the files stay valid at any moment."""
    render.flush_output()
    with suppress(OSError, ValueError):
        if select.select([], [2], [], 0)[1]:  # a full pipe, or a terminal after Ctrl-S, would block
            os.write(2, _AT_ONCE)
    os._exit(code)


def report_upgrade(project: ProjectContext) -> tuple[Diagnostic, ...]:
    """Return an error if the run has ended because Logist was upgraded."""
    if project.stopping() or project.installed is None or not project.was_upgraded():
        return ()
    message = f"{project.installed.describe_change()}; no other step begins"
    return (Diagnostic("error", "upgraded", message, None, "run the command again"),)
