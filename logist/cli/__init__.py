"""The command line: parses arguments, calls a use case, renders its result. `main` is the entry point."""

import gc

_collecting = gc.isenabled()
gc.disable()  # imports create no garbage, and collecting takes an eighth of the start-up time of a short command

from logist.cli.main import main  # noqa: E402

gc.freeze()
gc.set_threshold(20_000)  # the modules of a command come after this; by default, they cause sixty collections
if _collecting:
    gc.enable()

__all__ = ["main"]
