"""`logist` and `python -m logist`."""

import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)  # until all is loaded, Ctrl-C ends without a traceback

from logist.cli import main  # noqa: E402

__all__ = ["main"]

if __name__ == "__main__":
    main()
