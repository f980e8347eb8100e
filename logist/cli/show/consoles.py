"""Consoles of rich that follow the rules of Logist. Loads rich."""

from __future__ import annotations

from rich.console import Console


class VisibleCursorConsole(Console):
    """Never hides the cursor: a command that is killed could not show it again."""

    def show_cursor(self, show: bool = True) -> bool:
        return False


def create_console(*, color: bool, stderr: bool = False, width: int | None = None) -> Console:
    """Return a console for a terminal, which interprets no markup, and has no styles without `color`."""
    return VisibleCursorConsole(
        stderr=stderr,
        width=width,
        color_system="auto" if color else None,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        force_terminal=True,
        legacy_windows=False,
    )
