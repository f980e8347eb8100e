"""Imports modules one after the other and notes what runs with each: `python -m tests.near.importing PATH...`."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.near.tree import module_name


def main(paths: list[str]) -> None:
    """Writes a line for each module of the checkout that was imported, those that others imported too."""
    near: Any = sys.near  # type: ignore[attr-defined]
    loader: Any = sys.modules["_frozen_importlib_external"]._LoaderBasics
    execute = loader.exec_module
    root = str(Path.cwd())
    reached = {}

    def watch(self: Any, module: Any) -> None:
        before = near.take()
        near.clear()
        try:
            execute(self, module)
        finally:
            own = near.take()
            near.put(before | own)
            origin = str(module.__spec__.origin)
            if origin.startswith(root):
                reached[os.path.relpath(origin, root)] = own

    loader.exec_module = watch
    for path in paths:
        try:
            importlib.import_module(module_name(path))
        except Exception:  # noqa: BLE001 - a module in the middle of an edit: its tests say so
            continue
    with open(os.path.join(near.run, f"{os.getpid()}.reached"), "w", encoding="utf-8") as file:
        for path, mask in reached.items():
            print(json.dumps({"import": path, "units": f"{mask:x}"}), file=file)


if __name__ == "__main__":
    main(sys.argv[1:])
