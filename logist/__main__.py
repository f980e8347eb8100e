"""`logist` and `python -m logist`."""

import _signal  # type: ignore[import-not-found]  # `signal` takes longer to load than all that this module does
import gc
import sys

if sys.platform in ("win32", "cygwin"):  # first, because the other imports need modules that Windows lacks
    sys.stderr.write("error: Logist does not run on native Windows: use WSL2 (Windows Subsystem for Linux)\n")
    sys.exit(8)

_signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # until all is loaded, Ctrl-C ends without a traceback

# Imports create no garbage, and collecting takes an eighth of the start-up time of a short command. Only here: a program
# that imports a part of Logist, such as pytest, keeps its own settings, and its modules of the standard library.
gc.disable()

from logist import quick_imports  # noqa: E402

quick_imports.find_quickly(quick_imports.__file__.rpartition("/")[0])

from logist.lazy_modules import load_few_standard_modules  # noqa: E402

load_few_standard_modules()

from logist.cli import main  # noqa: E402

gc.freeze()
gc.set_threshold(50_000)  # the modules of a command come after this; by default, they cause sixty collections
gc.enable()

__all__ = ["main"]

if __name__ == "__main__":
    main()
