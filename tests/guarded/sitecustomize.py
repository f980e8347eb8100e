"""The fence around every test: it writes only below its own directories and reaches only this machine.

Python imports a module of this name by itself when it starts: this directory is on the PYTHONPATH of every
Python program that a test starts, so they are fenced too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

_CREATING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_CHANGED: dict[str, tuple[int, ...]] = {
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.link": (1,),
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.symlink": (1,),
    "os.truncate": (0,),
    "os.utime": (0,),
}
"""Which arguments of an audit event name what is changed."""

_REACHED = {"socket.connect": 1, "socket.sendto": 1, "socket.getaddrinfo": 0, "socket.gethostbyname": 0}
"""Which argument of an audit event says who is reached."""


class Trespass(BaseException):
    """A test left its fence. Not an Exception: no handler of the product may take it for one of its own."""


class Fence:
    """An audit hook that is on while `roots` are set; `seen` are the trespasses since then."""

    def __init__(self) -> None:
        self.roots: tuple[str, ...] = ()
        self.seen: list[str] = []
        sys.addaudithook(self._audit)

    def close(self, roots: Sequence[str]) -> None:
        """Lets nothing out but writing below `roots` (and to devices, /proc and byte code caches)."""
        self.seen = []
        self.roots = tuple(os.path.realpath(root) for root in roots)

    def open(self) -> list[str]:
        """Ends the watch and returns what was refused during it."""
        self.roots = ()
        return self.seen

    def _audit(self, event: str, args: tuple[object, ...]) -> None:
        if not self.roots:
            return
        if event == "open":
            path, _, flags = args
            if isinstance(flags, int) and flags & _CREATING:
                self._written(path, follow=True)
        elif event in _CHANGED:
            for index in _CHANGED[event]:
                self._written(args[index], follow=False)
        elif event in _REACHED:
            self._reached(args[_REACHED[event]])

    def _written(self, path: object, *, follow: bool) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return  # a descriptor: it was opened under the same watch
        name = os.fsdecode(path)
        place = os.path.realpath(name) if follow else _unfollowed(name)
        if not self._inside(place):
            self._refuse(f"writes {place}")

    def _inside(self, place: str) -> bool:
        return place.startswith(tuple(f"{root}/" for root in (*self.roots, "/dev", "/proc"))) or (
            "/__pycache__" in place or place in self.roots
        )

    def _reached(self, address: object) -> None:
        host = address[0] if isinstance(address, tuple) else address
        if isinstance(host, bytes):
            host = host.decode(errors="replace")
        if not isinstance(host, str) or not host or host in ("localhost", "::1"):
            return
        if not host.startswith(("127.", "/", "\0")):
            self._refuse(f"reaches {host}")

    def _refuse(self, what: str) -> None:
        self.seen.append(what)
        raise Trespass(what)


def _unfollowed(name: str) -> str:
    parent, base = os.path.split(os.path.abspath(name))
    return os.path.join(os.path.realpath(parent), base)


if "TEST_FENCE" in os.environ:
    Fence().close(os.environ["TEST_FENCE"].split(os.pathsep))
