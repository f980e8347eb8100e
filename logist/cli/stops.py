"""Ctrl-C and SIGTERM: the first lets the work in hand reach a place where it can stop. Imports little."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, NoReturn, TypeVar, cast

import click

from logist.cli.show import render
from logist.cli.show.output import exit_code_of_signal


class _Stop:
    """What the signal handlers leave for the work to see."""

    code = 0


_stop = _Stop()


def get_stop_code() -> int:
    """The exit code of the stop that was asked for: 130 for Ctrl-C, 143 for SIGTERM; else 0."""
    return _stop.code


Command = TypeVar("Command", bound=Callable[..., Any])


def stop_on_signals(command: Command) -> Command:
    """Ctrl-C or SIGTERM lets the work in hand reach a place where it can stop; a second one ends at once.

    It wraps all else that a command does: an exception in the middle of an import is nobody's friend.
    """

    @wraps(command)
    def stoppable(*args: Any, **kwargs: Any) -> Any:
        _handle_signals()
        return command(*args, **kwargs)

    return cast("Command", stoppable)


def _handle_signals() -> None:
    def stop(number: int, frame: object) -> None:
        if _stop.code:
            _exit_at_once(exit_code_of_signal(number))
        _stop.code = exit_code_of_signal(number)

    _stop.code = 0
    close = click.get_current_context().call_on_close
    for number in (signal.SIGINT, signal.SIGTERM):
        close(partial(signal.signal, number, signal.signal(number, stop)))


def _exit_at_once(code: int) -> NoReturn:
    """Without waiting for anything, other threads included: the files survive that at any instant."""
    render.flush_output()
    os._exit(code)
