"""What tests of every kind need: a repository, and the product run as a person runs it."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
GUARDED = ROOT / "tests" / "guarded"

CRASHED = 120.0
"""Seconds after which a program that a test started is taken for hung."""


class Ran(NamedTuple):
    """What a run of logist left: exit code, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, read as one JSON document."""
        return json.loads(self.out)


class RunLogist(Protocol):
    """Runs logist with these arguments; `env` is laid over the test's own clean environment."""

    def __call__(
        self,
        *args: str,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Ran: ...


def examples(most: int) -> int:
    """How many random examples a property gets: all of them with --deep, else a fifth."""
    return most if is_deep() else max(10, most // 5)


def is_deep() -> bool:
    """Whether this is a run with --deep: the one with random examples."""
    return settings.get_current_profile_name() == "random"


def logist_command() -> list[str]:
    """The installed console script, or the module where this checkout is not installed."""
    script = Path(sys.executable).with_name("logist")
    return [str(script)] if script.exists() else [sys.executable, "-m", "logist"]


def run_as_process(
    *args: str, stdin: str = "", env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Ran:
    """Runs logist as a process of its own, inside the test's fence."""
    done = subprocess.run(
        [*logist_command(), *args],
        input=stdin.encode(),
        capture_output=True,
        env=process_environment() | dict(env or {}),
        cwd=cwd,
        timeout=CRASHED,
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def process_environment() -> dict[str, str]:
    """The test's environment for a Python program that it starts: fenced, and able to import the product."""
    path = [str(GUARDED)] if len(logist_command()) == 1 else [str(GUARDED), str(ROOT)]
    return dict(os.environ) | {"PYTHONPATH": os.pathsep.join(path)}


def run_in_process(
    *args: str, stdin: str = "", env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Ran:
    """The same without a process: quicker, for what does not depend on one."""
    from logist.cli import main

    out, err, given = (_stream(text) for text in ("", "", stdin))
    before = dict(os.environ), Path.cwd(), signal.getsignal(signal.SIGTERM), sys.stdin
    os.environ.update(env or {})
    os.chdir(cwd or before[1])
    sys.stdin = given
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main(list(args))
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else int(done.code is not None)
    finally:
        os.environ.clear()
        os.environ.update(before[0])
        os.chdir(before[1])
        signal.signal(signal.SIGTERM, before[2])
        sys.stdin = before[3]
    return Ran(code, _written(out), _written(err))


def _stream(text: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8", newline="")


def _written(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def extract_archive(archive: tarfile.TarFile, folder: Path) -> None:
    """Extract an archive without surprises; the argument `filter` needs Python 3.11.4, and Debian 12 has 3.11.2."""
    if hasattr(tarfile, "data_filter"):
        archive.extraction_filter = tarfile.data_filter
    archive.extractall(folder)


def git(repository: Path, *args: str) -> str:
    """Runs git there as a fixed person at a fixed time, so that commits have the same ids every time."""
    person = {"NAME": "A Tester", "EMAIL": "tester@example.org", "DATE": "2026-01-02T03:04:05Z"}
    fixed = {f"GIT_{who}_{key}": value for who in ("AUTHOR", "COMMITTER") for key, value in person.items()}
    done = subprocess.run(
        ["git", "-C", str(repository), *args],
        env=dict(os.environ) | fixed,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def open_writer(pipe: Path) -> int | None:
    """Return the end of a named pipe for writing; None as long as no program waits for what comes out of it.

    With the pipe as `include.path` of a repository, a test can hold a command at the moment when it runs git.
    """
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return None


def make_repository(path: Path) -> Path:
    """A small real git repository at `path` with two commits: README.md, then src/app.py and a program."""
    path.mkdir(parents=True)
    git(path, "init", "--quiet", "--initial-branch", "main")
    (path / "README.md").write_text("# Example\n", encoding="utf-8")
    _commit(path, "first")
    (path / "src").mkdir()
    (path / "src" / "app.py").write_text("ANSWER = 42\n", encoding="utf-8")
    program = path / "run.sh"
    program.write_text("#!/bin/sh\necho 42\n", encoding="utf-8")
    program.chmod(0o755)
    _commit(path, "second")
    return path


def _commit(path: Path, message: str) -> None:
    git(path, "add", "--all")
    git(path, "commit", "--quiet", "--message", message)


def tree(root: Path) -> dict[str, bytes | None]:
    """Every file below `root` with its bytes, a link as "-> target", a directory as None: to compare by."""
    return {str(path.relative_to(root)): _content(path) for path in sorted(root.rglob("*"))}


def _content(path: Path) -> bytes | None:
    if path.is_symlink():
        return b"-> " + os.fsencode(path.readlink())
    return None if path.is_dir() else path.read_bytes()
