"""Which files of a workspace are git-ignored: Logist's own walk beside `git ls-files`, in time, results and safety.

Run: python benchmarks/ignoring.py [--files 50000] [--runs 3]
git is asked with a repository of Logist's own, an index of what was tracked, and nothing of the user's configuration.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from measure import table, took

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from logist.workspace import context
from logist.workspace.git import GIT_PATH, SETTINGS, Git, build_git_environment

WORDS = [
    "user",
    "order",
    "invoice",
    "payment",
    "session",
    "token",
    "cache",
    "parser",
    "limit",
    "client",
    "server",
    "config",
    "router",
    "queue",
    "index",
]
SECONDS = 5
"""How long git may take for a workspace of a few files."""
TOP = "node_modules/\n*.log\n/build\n*.py[co]\n.env\ndist/\n**/gen/*.json\n!**/gen/keep.json\ncoverage*\ndoc/**/draft\n"
NESTED = (
    "*.tmp\n!keep.tmp\n",
    "/data/*\n!/data/kept.py\n",
    "# none\n\\!odd\n",
    "*\n!*.py\n!.gitignore\n",
    "*.md \n",
)
ENDINGS = ("py", "ts", "log", "tmp", "md", "json", "pyc")
ODD = (
    b"new\nline",
    b"a b ",
    b"-dash",
    b"!odd",
    b"#hash",
    "ü\u202e.py".encode(),
    b"\xff.py",
    b"q'\"\\uote",
    b"[x].py",
)


def make_workspace(root: Path, count: int) -> None:
    """Nested directories, every tenth with a `.gitignore`, links and odd names in some; the same each time."""
    chance = random.Random(7)
    made = folders = 0
    (root / ".gitignore").write_text(TOP)
    while made < count:
        folder = root.joinpath(
            *(chance.choice([*WORDS, "gen", "data", "doc"]) for _ in range(chance.randint(1, 4)))
        )
        folder = (
            folder / f"{chance.choice([*WORDS, 'dist', 'node_modules'])}{chance.choice(['', str(folders)])}"
        )
        folder.mkdir(parents=True, exist_ok=True)
        folders += 1
        if folders % 10 == 0:
            (folder / ".gitignore").write_text(chance.choice(NESTED))
        if folders % 50 == 0:
            os.symlink(root, folder / "link")
            for name in ODD:
                Path(os.fsdecode(os.path.join(os.fsencode(folder), name))).write_bytes(b"x")
        for number in range(min(chance.randint(3, 12), count - made)):
            stem = chance.choice(["keep", "kept", "coverage", f"{chance.choice(WORDS)}{number}"])
            (folder / f"{stem}.{chance.choice(ENDINGS)}").write_bytes(b"x")
            made += 1


def first_checkpoint(root: Path) -> str:
    """A commit that tracks each seventh file, ignored or not."""
    paths = [path for path, _ in regular_files(root)][::7]
    modes = b"".join(b"M 100644 :1 %s\n" % _quoted(path) for path in paths)
    start = b"blob\nmark :1\ndata 1\n.\ncommit refs/heads/checkpoints\ncommitter L <l@localhost> 0 +0000\ndata 0\n"
    ask_git(root, "init", "-q", "--bare", root.parent / "git")
    ask_git(root, "fast-import", "--quiet", data=start + modes)
    return ask_git(root, "rev-parse", "refs/heads/checkpoints").decode().strip()


def _quoted(path: bytes) -> bytes:
    return b'"' + path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'


def regular_files(root: Path) -> list[tuple[bytes, os.stat_result]]:
    found = []
    for folder, folders, names in os.walk(os.fsencode(root)):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                found.append((os.path.relpath(path, os.fsencode(root)), os.lstat(path)))
    return found


def ask_git(root: Path, *arguments: str | Path, data: bytes = b"", seconds: float | None = None) -> bytes:
    """git with Logist's own repository and settings, beside a workspace."""
    settings = [word for setting in SETTINGS for word in ("-c", setting)]
    named = [f"--git-dir={root.parent / 'git'}", f"--work-tree={root}"] if arguments[0] != "init" else []
    done = subprocess.run(
        ["git", *settings, *named, *arguments],
        input=data,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=build_git_environment(GIT_PATH) | {"GIT_INDEX_FILE": str(root.parent / "index")},
        cwd=root,
        check=True,
        timeout=seconds,
    )
    return done.stdout


def list_with_git(root: Path, commit: str) -> set[bytes]:
    """As Logist would have to: the index of what was tracked, the list, and a look at each file for size and kind."""
    ask_git(root, "read-tree", commit)
    asked = ("ls-files", "--others", "--cached", "--exclude-per-directory=.gitignore", "-z")
    names = ask_git(root, *asked).split(b"\0")[:-1]
    top = os.fsencode(root)
    kinds = {
        name: os.lstat(os.path.join(top, name)) for name in names if os.path.lexists(os.path.join(top, name))
    }
    return {name for name, status in kinds.items() if status.st_mode & 0o170000 == 0o100000}


def list_with_logist(root: Path, commit: str) -> set[bytes]:
    return set(map(os.fsencode, survey(root, commit).files))


def survey(root: Path, commit: str | None) -> context.FileSurvey:
    """Nothing is hidden but by the `.gitignore` files: no cache, no excluded path."""
    return context.survey_workspace(root, frozenset(), (), context.Tracked(Git(root.parent / "git"), commit))


def pipe_as_ignore_file(root: Path) -> None:
    os.mkfifo(root / ".gitignore")


def pipe_in_a_nested_repository(root: Path) -> None:
    for name in ("objects", "refs"):
        (root / "nested" / ".git" / name).mkdir(parents=True)
    os.mkfifo(root / "nested" / ".git" / "HEAD")
    (root / "nested" / "file").write_text("x")


def linked_ignore_file(root: Path) -> None:
    (root / "patterns").write_text("*.py\n")
    os.symlink("patterns", root / ".gitignore")
    (root / "a.py").write_text("x")


def outcome(root: Path, make: Callable[[Path], None]) -> str:
    """What git makes of a workspace that an agent has prepared."""
    make(root)
    ask_git(root, "init", "-q", "--bare", root.parent / "git")
    try:
        ask_git(root, "ls-files", "--others", "--exclude-per-directory=.gitignore", "-z", seconds=SECONDS)
    except subprocess.TimeoutExpired:
        return f"hangs ({SECONDS} s)"
    except subprocess.CalledProcessError as error:
        return f"fails ({error.returncode})"
    return "lists"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "workspace"
        root.mkdir()
        make_workspace(root, options.files)
        commit = first_checkpoint(root)
        ours, gits = list_with_logist(root, commit), list_with_git(root, commit)
        times = [
            took(options.runs, partial(each, root, commit)) for each in (list_with_logist, list_with_git)
        ]
        table(
            [
                ["listed by", "CPU s", "files", "only here"],
                ["Logist", times[0], str(len(ours)), str(len(ours - gits))],
                ["git", times[1], str(len(gits)), str(len(gits - ours))],
            ]
        )
        for path in sorted(ours ^ gits)[:10]:
            print("  differs:", path)
    for make in (pipe_as_ignore_file, pipe_in_a_nested_repository, linked_ignore_file):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "workspace"
            root.mkdir()
            result = outcome(root, make)
            listed = "lists" if survey(root, None) else "fails"
            print(f"{make.__name__.replace('_', ' ')}: git {result}, Logist {listed}")
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
