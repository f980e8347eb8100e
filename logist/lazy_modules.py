"""Modules that are loaded when they are first used: a command calls functions of a third of the modules it imports.

After `load_on_use(globals())` in a package, `from package import module` gives the module, but runs its code only at the
first `module.function()`. Nothing else changes for the code that imports it; its imports stay at its top, where readers,
type checkers and import-linter see them. `from package.module import name` loads the module at once.
"""

from __future__ import annotations

import importlib
import sys
import typing
from _thread import allocate_lock
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_FROM_CODE = frozenset({"__all__", "__dict__", "__doc__"})
"""Attributes with underscores that only the code gives their values; the import system sets and reads the others before."""
_loading = allocate_lock()
_specs: dict[str, ModuleSpec] = {}
"""The modules that somebody has imported and that no module has used, by name."""


class _UnloadedModule(ModuleType):
    """A module whose code has not run. The import system runs it, so threads wait for each other as always."""

    def __getattribute__(self, name: str) -> Any:
        if name[:2] != "__" or name in _FROM_CODE:
            __import__(self.__name__)
            module = sys.modules[self.__name__]
            if module is not self:  # somebody removed it from sys.modules, or has a finder before ours
                return getattr(module, name)
        return ModuleType.__getattribute__(self, name)  # not super(): it is no _UnloadedModule any more

    def __setattr__(self, name: str, value: Any) -> None:
        module: ModuleType = self
        if name[:2] != "__":
            __import__(self.__name__)
            module = sys.modules[self.__name__]
        ModuleType.__setattr__(module, name, value)


class _Finder:
    """Makes the import system load these modules into the objects that their importers already have."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = _specs.get(name)
        package, _, own_name = name.rpartition(".")
        # The package may be another one by now: tests replace all modules.
        module = vars(sys.modules[package]).get(own_name) if spec else None
        return spec if isinstance(module, _UnloadedModule) else None


class _Loader:
    def __init__(self, spec: ModuleSpec) -> None:
        self.spec = spec
        self._loader: Any = spec.loader
        self.module = _UnloadedModule(spec.name)
        self.module.__file__ = spec.origin  # for modules that are run as programs, and not loaded

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        module.__class__ = ModuleType
        module.__loader__ = self.spec.loader = self._loader
        _specs.pop(module.__name__, None)


def load_on_use(package: dict[str, Any], names: Mapping[str, Sequence[str]] | None = None) -> None:
    """Let the modules of a package be loaded when they are used.

    `package`: its globals. `names`: by module, the names that the package itself has from it; also loaded on use.
    """
    own_name, path = package["__name__"], package["__path__"]
    sources = {name: module for module, own in (names or {}).items() for name in own}

    def get_attribute(name: str) -> Any:
        if source := sources.get(name):
            module = __import__(f"{own_name}.{source}", fromlist=[name])
            value = package[name] = getattr(module, name)
            return value
        full_name = f"{own_name}.{name}"
        spec = None if name[:2] == "__" else PathFinder.find_spec(full_name, path)
        if spec is None:
            raise AttributeError(f"module {own_name!r} has no attribute {name!r}")
        loader = _Loader(spec)
        spec.loader = loader  # type: ignore[assignment]
        _specs[full_name] = spec
        package[name] = loader.module
        return loader.module

    package["__getattr__"] = get_attribute


class _StandIn(ModuleType):
    """What importers of a module get instead of it; loads it when they read what this doesn't have."""

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(name)
        value = getattr(load_standard_module(self.__name__), name)
        setattr(self, name, value)
        return value


def load_standard_module_on_use(name: str, **own: Any) -> None:
    """Let a module of the standard library be loaded when something other than `own` is used of it.

    For a module that a library imports, but that no usual command needs. Does nothing if it is loaded already.
    """
    if name not in sys.modules:
        stand_in = sys.modules[name] = _StandIn(name)
        vars(stand_in).update(own)
        package, _, own_name = name.rpartition(".")
        if package:
            setattr(importlib.import_module(package), own_name, stand_in)


def _call_on_use(module: str, *names: str) -> dict[str, Callable[..., Any]]:
    """Return functions that load the module and call its functions of these names."""

    def make(name: str) -> Callable[..., Any]:
        def call(*positional: Any, **named: Any) -> Any:
            return getattr(load_standard_module(module), name)(*positional, **named)

        return call

    return {name: make(name) for name in names}


def load_standard_module(name: str) -> ModuleType:
    """Return the real module, also after `load_standard_module_on_use`."""
    with _loading:  # another thread may be here, and must not remove the real one
        if isinstance(sys.modules.get(name), _StandIn):
            del sys.modules[name]
    return importlib.import_module(name)


def load_few_standard_modules() -> None:
    """Let this program, which is `logist`, do without modules of the standard library whose loading takes a third of the time
    of a short command.

    They are what click (`uuid`), dataclasses (`inspect`), pathlib (`fnmatch`, `ipaddress`, `ntpath`, `urllib.parse`) and
    subprocess (`locale`, `selectors`) import, what modules of Logist import of which many commands call nothing (`zlib`), and
    those of which a usual command needs only a few functions, which are here. There are no translations of click's messages.
    """
    load_standard_module_on_use("inspect", cleandoc=clean_text)
    load_standard_module_on_use("platform", system=sys.platform.capitalize)
    load_standard_module_on_use("gettext", gettext=str, ngettext=lambda one, many, n: one if n == 1 else many)
    for name in _RARELY_USED:
        load_standard_module_on_use(name)
    # `subprocess` asks which of them there is, and uses it for a process with several pipes.
    load_standard_module_on_use("selectors", **_call_on_use("selectors", "PollSelector", "SelectSelector"))
    sys.modules.setdefault("msvcrt", None)  # type: ignore[arg-type]  # of Windows; `subprocess` would search everywhere
    load_standard_module_on_use("uuid", **_call_on_use("uuid", "UUID"))  # click names it in an annotation
    load_standard_module_on_use("shlex", **_call_on_use("shlex", "join", "quote", "split"))
    load_standard_module_on_use("urllib.parse", **_call_on_use("urllib.parse", *_URL_FUNCTIONS))
    load_standard_module_on_use(
        "signal", **_list_names("_signal")
    )  # it makes enumerations of all these numbers
    if sys.version_info < (3, 12):  # until then, it also defines all its classes in Python, and drops them
        load_standard_module_on_use("datetime", **_list_names("_datetime"))
    _compile_no_forward_references()


_RARELY_USED = [
    "binascii",
    "fnmatch",
    "heapq",
    "ipaddress",
    "locale",
    "math",
    "mmap",
    "ntpath",
    "unicodedata",
    "zlib",
]
_URL_FUNCTIONS = ("quote", "quote_from_bytes", "unquote", "urlencode", "urlsplit")


def _list_names(module: str) -> dict[str, Any]:
    """Return what a module in C has: most of what the module in Python of the same name has."""
    return {name: value for name, value in vars(importlib.import_module(module)).items() if name[0] != "_"}


def _compile_no_forward_references() -> None:
    """Let `typing` evaluate the text of an annotation instead of compiling it first.

    click has thirty annotations in quotes, which Logist never evaluates. The function `compile`, unlike `eval`, first defines a
    class for each kind of syntax: 120 classes, which take a fifth as long as starting Python.
    """
    typing.compile = lambda source, *_: source  # type: ignore[attr-defined]


def clean_text(text: str) -> str:
    """Do what `inspect.cleandoc` does; for one line without an indent, without loading `inspect`."""
    if text[:1].strip() and "\n" not in text and "\t" not in text:
        return text
    cleaned: str = load_standard_module("inspect").cleandoc(text)
    return cleaned


def load_all() -> None:
    """Load every module that a loaded one imports: for a process that will be forked, or that works for a long time."""
    while names := [*_specs]:  # those that are loaded import more
        for name in names:
            __import__(name)
            _specs.pop(name, None)


sys.meta_path.insert(0, _Finder)
