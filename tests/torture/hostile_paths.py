"""Paths that try to leave a workspace, and unusual ones that do not; with the traps that some of them need.

`plant` creates the traps, and the canaries next to the workspace; `canaries` returns what must stay the same, byte for byte.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

TOP = "root"
"""The root directory of a process in /proc."""
CANARY = "canary-4c1d-that-nobody-may-see"
"""The text in every file outside the workspace."""

_ABOVE = [
    "..",
    "../",
    "../..",
    "../outside/secret",
    "../outside/new",
    "../outside",
    "../outside/",
    "./../outside/secret",
    ".//../outside/secret",
    "src/../../outside/secret",
    "src/../src/app.py",
    "src/..",
    "src/../",
    "src/./../../outside/secret",
    "missing/../../outside/secret",
    "src//..//..//outside//secret",
    "../workspace/src/app.py",
    "../../../../../../../../etc/passwd",
    "../" * 200 + "etc/passwd",
    "src/app.py/..",
    "src/app.py/../../../outside/secret",
    "..//outside/secret",
    "../outside/./secret",
    "a/b/../../../outside/secret",
    "../link-home/secret",
]
_ABSOLUTE = [
    "/",
    "//",
    "///",
    "/.",
    "/..",
    "/etc/passwd",
    "//etc/passwd",
    "/etc/../etc/passwd",
    "/proc/self/environ",
    "/proc/self/cwd/../outside/secret",
    f"/proc/self/{TOP}/etc/passwd",
    "/proc/self/fd/0",
    "/dev/null",
    "/dev/zero",
    "/dev/stdin",
    "/tmp",
    "/home/somebody/.ssh/id_rsa",
    "/./etc/passwd",
    "/src/app.py",
]
_NUL = [
    "\0",
    "a\0",
    "\0a",
    "src/app.py\0",
    "src/app.py\0.txt",
    "\0/etc/passwd",
    "..\0/outside/secret",
    "src\0/../../outside/secret",
    "../outside/secret\0.txt",
]
_EMPTY = [""]
_LONG = [
    "a" * 256,
    "a" * 1025,
    "a" * 5000,
    "ä" * 128,
    "src/" + "b" * 300,
    "b" * 300 + "/app.py",
    "a/" * 2048 + "b",
    "./" * 3000 + "src/app.py",
    "/".join(["n" * 255] * 17),
    "🦊" * 64,
]
_GIT = [
    ".git",
    ".git/",
    ".git/config",
    "./.git/config",
    ".//.git//config",
    ".git/hooks/post-commit",
    ".git/HEAD",
    ".GIT",
    ".GIT/config",
    ".Git/config",
    ".gIt/hooks/pre-commit",
    ".giT/objects/info/alternates",
    ".git /config",
    ".git./config",
    ".git. . /config",
    "git~1/config",
    "GIT~1/config",
    ".g\u200cit/config",
    "\u200e.git/config",
    ".gi\u200dt/hooks/update",
    ".git\u2060/config",
    "\ufeff.git/config",
]
_NOT_TEXT = ["\ud800", "src/\udcff", "\udc2e\udc2e/outside/secret", "a\ud83d"]

NEVER = [*_ABOVE, *_ABSOLUTE, *_NUL, *_EMPTY, *_LONG, *_GIT, *_NOT_TEXT]
"""Refused because of their spelling, whatever exists there."""

TRAPS = [
    "linked",
    "linked/",
    "linked/x",
    "absolute-link",
    "root-link",
    "root-link/etc/passwd",
    "directory-link/secret",
    "directory-link/new",
    "directory-link/deep/secret",
    "directory-link/deep/new",
    "./directory-link//secret",
    "src/up/outside/secret",
    "src/up/outside/new",
    "src/up/outside/deep/secret",
    "chain-1/secret",
    "chain-2/secret",
    "proc-link/self/environ",
    "fd-link/0",
    "git-link/config",
    "workspace-link/src/app.py",
    "loop",
    "loop/x",
    "loop-a",
    "loop-a/x",
    "dangling-link",
    "dangling-outside",
    "dangling-outside/x",
    "hard",
    "src/hard",
    "fifo",
    "fifo/x",
    "src/fifo",
    "socket",
    "socket/x",
    "device-link",
]
"""Refused because of what `plant` created: links, files with a second name outside, pipes and sockets."""

ODD = [
    "-x",
    "--help",
    "-rf",
    "~",
    "~/x",
    "~root/x",
    "$HOME/x",
    "${HOME}",
    "`id`",
    "$(id)",
    ";id",
    "a|b",
    "a&b",
    "*",
    "?",
    "[a]",
    "{a,b}",
    "a b",
    " a",
    "a ",
    "a.",
    "a..",
    "...",
    ". .",
    ".. ",
    " ..",
    "..a",
    "a..b",
    "....//x",
    "..;/x",
    "..\\outside\\secret",
    "C:\\x",
    "C:/x",
    "\\\\host\\share",
    "file:x",
    "http://x/y",
    "%2e%2e/outside/secret",
    "%2e%2e%2foutside%2fsecret",
    "..%2foutside",
    "%00",
    "\\0",
    "..%c0%af",
    "\uff0e\uff0e/outside/secret",
    "\u2024\u2024/outside/secret",
    "..\u2215outside",
    "..\u2044outside",
    "..\uff0foutside",
    "\u202ebackwards",
    "zero\u200bwidth",
    "caf\u00e9",
    "cafe\u0301",
    "\u212b",
    "\u00c5",
    "A\u030a",
    "\uac00",
    "\u1100\u1161",
    "\ufb01le",
    "stra\u00dfe",
    "STRASSE",
    "\u0130",
    "a\nb",
    "a\tb",
    "a\rb",
    "\x1b[31mred",
    "\x7f",
    "\x85",
    "con",
    "NUL",
    "aux.txt",
    "a" * 255,
    "ä" * 127,
    "n/" * 50 + "deep",
    "src/.git/config",
    "src/.GIT",
    ".gitignore",
    ".gitx",
    "x.git",
    ".git-",
    "git",
    ".logist~.git",
    ".logist~",
    "README.MD",
    "readme.md",
]
"""Plain names in a workspace, although they look unusual: they open files inside."""

EVERY = [*NEVER, *TRAPS, *ODD]


def plant(workspace: Path, outside: Path) -> None:
    """Create a workspace with one ordinary file and all traps, and canaries in `outside` next to it."""
    (workspace / "src").mkdir(parents=True)
    (workspace / "src" / "app.py").write_text("ANSWER = 42\n")
    (workspace / ".git").mkdir()
    (workspace / ".git" / "config").write_text(CANARY)
    (outside / "deep").mkdir(parents=True)
    for place in ("secret", "hard", "deep/secret", "config"):
        (outside / place).write_text(f"{CANARY} {place}\n")
    for name, target in _links(workspace, outside).items():
        (workspace / name).symlink_to(target)
    os.link(outside / "hard", workspace / "hard")
    os.link(outside / "hard", workspace / "src" / "hard")
    os.mkfifo(workspace / "fifo")
    os.mkfifo(workspace / "src" / "fifo")
    _bind(workspace, "socket")


def _links(workspace: Path, outside: Path) -> dict[str, str]:
    return {
        "linked": "../outside/secret",
        "absolute-link": str(outside / "secret"),
        "root-link": "/",
        "directory-link": str(outside),
        "src/up": "../..",
        "chain-1": "directory-link",
        "chain-2": "chain-1",
        "proc-link": "/proc",
        "fd-link": "/proc/self/fd",
        "git-link": ".git",
        "workspace-link": str(workspace),
        "loop": "loop",
        "loop-a": "loop-b",
        "loop-b": "loop-a",
        "dangling-link": "missing",
        "dangling-outside": str(outside / "new"),
        "device-link": "/dev/zero",
    }


def _bind(workspace: Path, name: str) -> None:
    """The path of a socket has about 100 bytes at most, so bind it from inside the directory."""
    before = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.chdir(workspace)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(name)
    finally:
        os.fchdir(before)
        os.close(before)


def canaries(outside: Path) -> dict[str, bytes | None]:
    """Everything in `outside`, by path; None for a directory."""
    return {
        str(path.relative_to(outside)): path.read_bytes() if path.is_file() else None
        for path in sorted(outside.rglob("*"))
    }
