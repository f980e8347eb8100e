"""Runs first in every Python process while tests are recorded: gives marked code its marks, notes files that it opens.

A line of a .pth file in the environment executes it, with RUN: the directory of the recording. It imports next to
nothing, since tests look at what a process has loaded.
"""

from __future__ import annotations

import marshal
import os
import sys
from typing import Any

# Not `importlib.machinery`: these are loaded in every process already.
_external: Any = sys.modules["_frozen_importlib_external"]


_READING = {"open", "os.listdir", "os.scandir"}
_LINKING = {"os.link", "os.symlink"}
_STARTING = {"subprocess.Popen": 1, "os.exec": 1, "os.posix_spawn": 1, "os.system": 0}
"""Events of programs that are started, and which argument has the words of the command."""


class Marks:
    """Bytes, one for each unit, file and listing of the checkout: 1 if this process, or a child, reached it."""

    def __init__(self, run: str, layout: dict[str, Any], maps: list[Any]) -> None:
        self.run = run
        self.first: dict[str, int] = layout["units"]
        self.files: dict[str, int] = layout["files"]
        self.listings: dict[str, int] = layout["listings"]
        self.outside: int = layout["outside"]
        self.maps = maps
        self.size: int = layout["size"]

    def view(self, module: str) -> Any:
        """What the marked code of a module writes to."""
        first = self.first[module]
        views = [memoryview(each)[first:] for each in self.maps]
        return views[0] if len(views) == 1 else _All(views)

    def take(self) -> int:
        """All marks as the bits of one number, the first byte being the lowest."""
        raw = bytes(self.maps[0])
        return int(raw[::-1].translate(_DIGITS), 2)

    def put(self, mask: int) -> None:
        """Sets the marks to what `take` returned."""
        self.maps[0][:] = f"{mask:0{self.size}b}".encode()[::-1].translate(_MARKS)

    def clear(self) -> None:
        """Takes all marks away."""
        self.maps[0][:] = bytes(self.size)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Notes the files that are opened, the directories that are listed, and what processes are started with."""
        if event in _READING:
            if not _is_incidental():
                self._note(arguments[0], self.files if event == "open" else self.listings)
        elif event in _LINKING:
            self._note(arguments[0], self.files)
        elif event in _STARTING:
            place = arguments[2] if event == "subprocess.Popen" and arguments[2] else ""
            words = _words(arguments[_STARTING[event]])
            for each in words:
                self._note(os.path.join(os.fsdecode(place), each), self.files)
            has_hook = sys.executable in words and "-S" not in words
            if not has_hook and any(each.startswith(("logist.", "tests.")) for each in words):
                self._set(self.outside)

    def _note(self, path: Any, numbers: dict[str, int]) -> None:
        if path is None or isinstance(path, int):
            return
        try:
            name = os.fsdecode(path)
            number = numbers.get(name)
            if number is None and (
                not name.startswith("/") or "/." in name or "//" in name or name.endswith("/")
            ):
                number = numbers.get(os.path.abspath(name))
        except (TypeError, ValueError, OSError):
            return
        if number is not None:
            self._set(number)

    def _set(self, number: int) -> None:
        for each in self.maps:
            each[number] = 1


def _is_incidental() -> bool:
    """Whether the caller of `audit` imports, which the graph of imports knows better, or removes what a test made."""
    caller = sys._getframe(1).f_back
    if caller is None:
        return False
    name = caller.f_code.co_filename
    is_import = (
        name.startswith("<frozen importlib")
        or "/importlib/" in name
        or name.endswith("/logist/quick_imports.py")
    )
    is_removal = caller.f_code.co_name.startswith("_rmtree")
    return is_import or is_removal or name.endswith("/_pytest/assertion/rewrite.py")


class _All:
    """Marks of several maps: the process of a test whose ancestors are gone could be of any of them."""

    def __init__(self, views: list[Any]) -> None:
        self.views = views

    def __setitem__(self, index: int, value: int) -> None:
        for view in self.views:
            view[index] = value


class Loader(_external.FileLoader, _external.SourceLoader):  # type: ignore[misc]
    """Loads marked code instead of a module's own, even if its source has changed since the recording began.

    No SourceFileLoader: pytest leaves it alone, and does not compile the module itself to explain its asserts.
    """

    def get_code(self, fullname: str) -> Any:
        with open(sys.near_code[self.path], "rb") as file:  # type: ignore[attr-defined]
            return marshal.load(file)


def _find_marked() -> None:
    find_spec = _external.PathFinder.find_spec

    def find(cls: Any, name: str, path: Any = None, target: Any = None) -> Any:
        spec = find_spec(name, path, target)
        if spec is not None and spec.origin in sys.near_code:  # type: ignore[attr-defined]
            spec.loader = Loader(name, spec.origin)
        return spec

    # Not another finder: pytest puts its own first, and that one asks this class.
    _external.PathFinder.find_spec = classmethod(find)


_DIGITS = bytes([48, 49]) + bytes([49]) * 254
_MARKS = bytes([0]) * 49 + bytes([1]) * 207


def _words(arguments: Any) -> list[str]:
    """The words of a command, those of a script within it too."""
    each = [arguments] if isinstance(arguments, str | bytes | os.PathLike) else arguments
    text = " ".join(os.fsdecode(word) for word in each if not isinstance(word, int))
    for mark in "\"'();=:,":
        text = text.replace(mark, " ")
    return text.split()


def _parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])


def _is_worker(parent: int, runner: int) -> bool:
    """Whether this process is one of those that run pytest's tests, and not what a test started."""
    with open("/proc/self/cmdline", "rb") as file:
        return b"exec(eval(sys.stdin.readline()))" in file.read() and _parent(parent) == runner


def _name_maps(run: str, layout: dict[str, Any]) -> list[str]:
    """The file of the marks of the process that runs this one's test; of every such process if that one is gone."""
    own, parent = os.getpid(), os.getppid()
    if parent == layout["runner"] or _is_worker(parent, layout["runner"]):
        name = os.path.join(run, f"{own}.marks")
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
        os.ftruncate(descriptor, layout["size"])
        os.close(descriptor)
        os.environ["PYTEST_NEAR_MARKS"] = name
        return [name]
    while parent > 1:
        name = os.path.join(run, f"{parent}.marks")
        if os.path.exists(name):
            return [name]
        parent = _parent(parent)
    if os.environ.get("PYTEST_NEAR_MARKS", "").startswith(run):
        return [os.environ["PYTEST_NEAR_MARKS"]]
    return [os.path.join(run, each) for each in os.listdir(run) if each.endswith(".marks")]


def start(run: str) -> None:
    """Begins in this process; does nothing where that is not possible."""
    try:
        with open(os.path.join(run, "layout"), "rb") as file:
            layout = marshal.load(file)
        if not os.path.exists(f"/proc/{layout['runner']}"):
            return  # it was killed and left this behind
        names = _name_maps(run, layout)
        if not names:
            return
        import mmap

        maps = []
        for name in names:
            descriptor = os.open(name, os.O_RDWR)
            maps.append(mmap.mmap(descriptor, layout["size"]))
            os.close(descriptor)
    except (OSError, ValueError, EOFError):
        return
    near = sys.near = Marks(run, layout, maps)  # type: ignore[attr-defined]
    sys.near_code = layout["code"]  # type: ignore[attr-defined]
    _find_marked()
    sys.addaudithook(near.audit)


if "RUN" in globals():
    start(globals()["RUN"])
