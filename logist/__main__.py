"""`logist` and `python -m logist`."""

import signal
import sys

if sys.platform in ("win32", "cygwin"):  # first, because the other imports need modules that Windows lacks
    sys.stderr.write("error: Logist does not run on native Windows: use WSL2 (Windows Subsystem for Linux)\n")
    sys.exit(8)

signal.signal(signal.SIGINT, signal.SIG_DFL)  # until all is loaded, Ctrl-C ends without a traceback

from logist.cli import main  # noqa: E402

__all__ = ["main"]

if __name__ == "__main__":
    main()
