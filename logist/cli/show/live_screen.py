"""A full screen that is drawn again and again until a key is pressed. Loads rich."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol

from rich.console import Group
from rich.live import Live
from rich.text import Text

from logist.cli.show import render
from logist.cli.show.consoles import create_console
from logist.cli.show.output import Line, Screen
from logist.config.environment import Environment
from logist.lazy_modules import load_all

HINT = "press q to stop watching"
_LOOK_SECONDS = 0.1
"""How long a key or a signal may have to wait."""


class Drawing(Protocol):
    """Returns the lines for a screen of that width and height."""

    def __call__(self, screen: Screen, *, height: int) -> Iterable[Line]:
        """Draw."""
        ...


class LiveScreen:
    """Use it in `with`: the terminal is as before afterwards, also after an error."""

    def __init__(self, environment: Environment, is_stopped: Callable[[], object]) -> None:
        """`is_stopped`: whether a signal has asked to stop; then `wait` returns soon."""
        self._environment = environment
        self._is_stopped = is_stopped
        self._console = create_console(color=environment.has_color(True))
        self._live = Live(
            console=self._console,
            screen=True,
            auto_refresh=False,  # no thread
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._mode: list[Any] | None = None
        self.is_open = True
        """False as soon as the person has pressed q, or the terminal is gone."""

    def __enter__(self) -> LiveScreen:
        if sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp():
            self._mode = termios.tcgetattr(sys.stdin.fileno())
            tty.setcbreak(sys.stdin.fileno())
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._live.stop()
        if self._mode is not None:
            with suppress(termios.error, OSError):
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._mode)

    def draw(self, drawing: Drawing) -> None:
        """Draw the whole screen."""
        size = self._console.size
        color = self._environment.has_color(True)
        lines = list(drawing(Screen(size.width, color, True), height=size.height - 1))
        hint = f"{HINT}, {time.strftime('%H:%M:%S')}"
        texts = [
            Text.from_ansi(render.style_line(line, color), no_wrap=True, overflow="ellipsis")
            for line in lines
        ]
        try:
            self._live.update(Group(*texts, Text(hint, "dim" if color else "", no_wrap=True)), refresh=True)
        except OSError:
            self.is_open = False

    def wait(self, seconds: float) -> None:
        """Wait for that time, a key or a signal."""
        load_all()  # Logist may be upgraded meanwhile: its modules must fit each other
        until = time.monotonic() + seconds
        while self.is_open and not self._is_stopped() and (left := until - time.monotonic()) > 0:
            if self._mode is None:
                time.sleep(min(left, _LOOK_SECONDS))
            elif select.select([sys.stdin], [], [], min(left, _LOOK_SECONDS))[0]:
                keys = os.read(sys.stdin.fileno(), 100)
                self.is_open = bool(keys) and not keys.lower().startswith(b"q")
