"""The command line: parses arguments, calls a use case, renders its result. `main` is the entry point."""

import gc
import os

_collecting = gc.isenabled()
gc.disable()  # imports create no garbage, and collecting takes an eighth of the start-up time of a short command

from logist.lazy_modules import load_standard_module, load_standard_module_on_use  # noqa: E402


def clean_text(text: str) -> str:
    """Do what `inspect.cleandoc` does; for one line without an indent, without loading `inspect`."""
    if text[:1].strip() and "\n" not in text and "\t" not in text:
        return text
    cleaned: str = load_standard_module("inspect").cleandoc(text)
    return cleaned


# What click, dataclasses (`inspect`), uuid (`platform`), pathlib (`ipaddress`) and subprocess (`locale`) import, and what
# a usual command needs of it. Loading them takes a fifth of the time of a short command. There are no translations of
# click's messages.
load_standard_module_on_use("inspect", cleandoc=clean_text)
load_standard_module_on_use("platform", system=lambda: os.uname().sysname)
load_standard_module_on_use("gettext", gettext=str, ngettext=lambda one, many, n: one if n == 1 else many)
load_standard_module_on_use("ipaddress")
load_standard_module_on_use("locale")

from logist.cli.main import main  # noqa: E402

gc.freeze()
gc.set_threshold(20_000)  # the modules of a command come after this; by default, they cause sixty collections
if _collecting:
    gc.enable()

__all__ = ["main"]
