"""Runs the courier: `python -m logist.agents.courier JOBDIR LOCK_FD`, see `process`."""

import sys

from logist.agents.courier.process import main

if __name__ == "__main__":
    main(sys.argv[1:])
