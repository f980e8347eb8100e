"""Regular expressions that are compiled when they are first used.

Compiling one takes up to a millisecond, and a command uses a tenth of those in the modules that it loads.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    compile_on_use = re.compile
else:

    class compile_on_use:  # noqa: N801 - used as a function
        """Return what behaves as `re.compile(expression, flags)`."""

        def __init__(self, expression: str | bytes, flags: int = 0) -> None:
            self._arguments = expression, flags

        def __getattr__(self, name: str) -> Any:
            value = getattr(re.compile(*self._arguments), name)
            self.__dict__[name] = value  # the next time, this is not called
            return value
