"""The command line: parses arguments, calls a use case, renders its result. `main` is the entry point."""

from logist.cli.main import main

__all__ = ["main"]
