"""Imports Logist's own modules with less work: a command imports 100 to 250 of them.

For each module, the import system looks again whether the directory has changed, tries several endings, asks for the status
of the source three times, and works out the name of the compiled file twice. This takes longer than to load most modules.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER
from marshal import loads
from types import CodeType, ModuleType

_MOST = 3 << 15
"""The bytes that are read at once: for more, the C library would map new memory each time. None of our modules has more."""
_ENDING = f".{sys.implementation.cache_tag}.pyc"


class _QuickLoader(SourceFileLoader):
    """Loads the compiled file of a module if it is that of the source; otherwise, the import system compiles it."""

    def __init__(self, name: str, path: str, compiled: str) -> None:
        self.name = name
        self.path = path
        self._compiled = compiled

    def get_code(self, fullname: str) -> CodeType | None:
        return self._read_code() or super().get_code(fullname)

    def _read_code(self) -> CodeType | None:
        try:
            source = os.stat(self.path)
            descriptor = os.open(self._compiled, os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = os.read(descriptor, _MOST)
            finally:
                os.close(descriptor)
            stamp = (int(source.st_mtime) & 0xFFFFFFFF) | (source.st_size & 0xFFFFFFFF) << 32
            if data[:16] == MAGIC_NUMBER + bytes(4) + stamp.to_bytes(8, "little"):
                code: CodeType = loads(memoryview(data)[16:])  # noqa: S302 - the import system does the same
                # If the directory was moved, the import system corrects the path.
                return code if code.co_filename == self.path else None
        except (OSError, EOFError, ValueError, TypeError):  # missing, or not complete
            pass
        return None


class _ListedFinder(FileFinder):
    """Finds the modules in one directory by a list of its files, which is read once."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory, (SourceFileLoader, SOURCE_SUFFIXES))
        self._names = frozenset(os.listdir(directory))

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        own_name = fullname.rpartition(".")[2]
        if own_name in self._names:
            directory = f"{self.path}/{own_name}"
            if os.path.exists(f"{directory}/__init__.py"):
                find_quickly(directory)
                return _make_spec(fullname, directory, "__init__")
        elif f"{own_name}.py" in self._names:
            return _make_spec(fullname, self.path, own_name)
        return super().find_spec(fullname, target)


def _make_spec(name: str, directory: str, file_name: str) -> ModuleSpec:
    path = f"{directory}/{file_name}.py"
    compiled = f"{directory}/__pycache__/{file_name}{_ENDING}"
    spec = ModuleSpec(name, _QuickLoader(name, path, compiled), origin=path)
    if file_name == "__init__":
        spec.submodule_search_locations = [directory]
    spec.has_location = True
    spec.cached = compiled
    return spec


def find_quickly(directory: str) -> None:
    """Let this process import the modules in a directory, and in the packages below it, with less work.

    Only for a program: later files of the same directory are found, but only as slowly as ever.
    """
    if not sys.flags.optimize and sys.pycache_prefix is None:  # the compiled files have other names
        sys.path_importer_cache[directory] = _ListedFinder(directory)
