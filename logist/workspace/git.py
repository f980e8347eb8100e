"""The only place that calls git: the repository is named, and no
configuration of the caller or the agent is used.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from logist.errors import Damaged, StorageError

GIT_PATH = "/usr/local/bin:/usr/bin:/bin"

IDENTITY = "Logist <logist@localhost>"

SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.fsync=all",
    "core.pager=cat",
    "core.quotePath=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.autocrlf=false",
    "core.protectNTFS=false",
    "core.protectHFS=false",
    "core.logAllRefUpdates=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "diff.external=",
    "submodule.recurse=false",
    "safe.directory=*",
    "init.defaultBranch=main",
    # Always a pack, never loose objects: then two directories are all there is to make durable.
    "fastimport.unpackLimit=0",
    "fetch.unpackLimit=1",
)

UPLOAD_PACK = "git -c safe.directory='*' upload-pack"
"""git hides the caller's settings from the sender, so what it needs is said again (this goes through sh)."""

_OPENED = ("", "info", "objects/info", "objects/pack", "refs/heads")
"""Directories of a repository of checkpoints: git opens what is in them whatever it is to do."""

Argument = str | bytes | Path


def build_git_environment(path: str) -> dict[str, str]:
    """Return the complete environment of a git process; `path` is where programs are searched."""
    return {
        "PATH": path,
        "HOME": "/nonexistent",
        "XDG_CONFIG_HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_ALLOW_PROTOCOL": "file",
        "GIT_DEFAULT_HASH": "sha1",
        "GIT_DEFAULT_REF_FORMAT": "files",
        "GIT_AUTHOR_NAME": "Logist",
        "GIT_AUTHOR_EMAIL": "logist@localhost",
        "GIT_COMMITTER_NAME": "Logist",
        "GIT_COMMITTER_EMAIL": "logist@localhost",
        # As in every checkpoint: when it was is in the history, and the same work gives the same id.
        "GIT_AUTHOR_DATE": "@0 +0000",
        "GIT_COMMITTER_DATE": "@0 +0000",
    }


def open_unnamed_file() -> IO[bytes]:
    """Open a new file without a name, in memory where the system can: a command that only reads a job writes
    to no disk.
    """
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("logist"), "w+b")
    return tempfile.TemporaryFile()


@dataclass(frozen=True)
class Git:
    """git on one repository; every call waits for the end and fails with a StorageError."""

    git_dir: Path
    path: str = GIT_PATH
    settings: tuple[tuple[bytes, bytes], ...] = ()
    """More settings, whatever is in their names: `-c` would end a name at its first `=`."""
    variables: tuple[tuple[str, str], ...] = ()
    """More of its environment."""
    umask: int = 0o077
    """Of the files it makes."""
    flushing: bool = True
    """False while a job is made: nothing is flushed then, because its maker flushes all of it once."""

    of_job: bool = False
    """A repository of checkpoints, which may have come from elsewhere with its job: what is no file is refused."""

    def flush(self, descriptor: int) -> None:
        """Make a file or directory of the job durable."""
        if self.flushing:
            os.fsync(descriptor)

    def run(self, *arguments: Argument) -> bytes:
        """Return git's output. Raises StorageError with git's own error line."""
        with self.open_stream(*arguments) as process:
            assert process.stdout is not None
            return process.stdout.read()

    def run_with_input(self, data: bytes, *arguments: Argument) -> bytes:
        """Return git's output when it reads `data` as its input. Raises
        StorageError with git's own error line.
        """
        with open_unnamed_file() as input_file:
            input_file.write(data)
            input_file.seek(0)
            with self.open_stream(*arguments, stdin=input_file) as process:
                assert process.stdout is not None
                return process.stdout.read()

    def run_for_status(self, *arguments: Argument) -> tuple[int, bytes, str]:
        """Return `(status, output, error line)`, where a status that is not 0 is an answer too."""
        with open_unnamed_file() as complaints:
            process = self._start_process(arguments, subprocess.DEVNULL, complaints)
            assert process.stdout is not None
            try:
                printed = process.stdout.read()
            finally:
                _end_process(process)
            if process.returncode < 0:  # it was killed, which is no answer
                raise self._make_error(process.returncode, complaints, arguments)
            complaints.seek(0)
            return process.returncode, printed, _find_error_line(complaints.read())

    def read_beginning(self, most: int, *arguments: Argument) -> tuple[bytes, bool]:
        """Return the first `most` bytes of git's output, and whether that is all; then git is ended."""
        with open_unnamed_file() as complaints:
            process = self._start_process(arguments, subprocess.DEVNULL, complaints)
            assert process.stdout is not None
            try:
                text = process.stdout.read(most + 1)
                if len(text) > most:
                    process.kill()
            finally:
                _end_process(process)
            if len(text) <= most and process.returncode:
                raise self._make_error(process.returncode, complaints, arguments)
            return text[:most], len(text) <= most

    @contextmanager
    def open_stream(
        self, *arguments: Argument, stdin: int | IO[bytes] = subprocess.DEVNULL
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run git with its stdout on a pipe; when the block is left, git is ended and its status checked."""
        with open_unnamed_file() as complaints:
            process = self._start_process(arguments, stdin, complaints)
            ended_early = False
            try:
                yield process
            except BrokenPipeError:
                ended_early = True
            except BaseException:
                process.kill()
                raise
            finally:
                _end_process(process)
            if process.returncode or ended_early:
                raise self._make_error(process.returncode, complaints, arguments)

    def _start_process(
        self, arguments: Sequence[Argument], stdin: int | IO[bytes], complaints: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        if self.of_job:
            require_files(self.git_dir)
        flushed = () if self.flushing else ("core.fsync=none",)
        settings = [part for setting in (*SETTINGS, *flushed) for part in ("-c", setting)]
        try:
            return subprocess.Popen(
                ["git", f"--git-dir={self.git_dir}", "--literal-pathspecs", *settings, *arguments],
                env=self._build_environment(),
                cwd="/",
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=complaints,
                umask=self.umask,
                # A Ctrl-C is for us: we stop between two pieces of work, git must not be cut off in one.
                process_group=0,
            )
        except FileNotFoundError:
            raise StorageError(
                "git is not installed", where=self.path, fix="install git 2.36 or newer"
            ) from None

    def _build_environment(self) -> dict[bytes, bytes]:
        own = {name.encode(): os.fsencode(value) for name, value in build_git_environment(self.path).items()}
        own |= {name.encode(): os.fsencode(value) for name, value in self.variables}
        own[b"GIT_CONFIG_COUNT"] = b"%d" % len(self.settings)
        for number, (name, value) in enumerate(self.settings):
            own |= {b"GIT_CONFIG_KEY_%d" % number: name, b"GIT_CONFIG_VALUE_%d" % number: value}
        return own

    def _make_error(self, status: int, complaints: IO[bytes], arguments: Sequence[Argument]) -> StorageError:
        complaints.seek(0)
        reason = _find_error_line(complaints.read()) or f"it ended with status {status}"
        fix = "check the disk and the space on it, then run the command again"
        return StorageError(f"git {arguments[0]!s} failed: {reason}", where=str(self.git_dir), fix=fix)


def require_files(git_dir: Path) -> None:
    """Raise Damaged where a pipe or device replaces a file that git opens: git would wait for it for ever."""
    for folder in _OPENED:
        with suppress(OSError), os.scandir(git_dir / folder) as entries:
            irregular = next((entry.path for entry in entries if _is_irregular(entry)), None)
            if irregular is not None:
                fix = "remove it, or put the repository back from a backup"
                raise Damaged("not a regular file", where=irregular, fix=fix)


def _is_irregular(entry: os.DirEntry[str]) -> bool:
    return not (entry.is_file() or entry.is_dir()) and os.path.exists(entry.path)


def _end_process(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
    process.wait()


def _find_error_line(complaints: bytes) -> str:
    lines = [
        line.strip() for line in complaints.decode("utf-8", "backslashreplace").splitlines() if line.strip()
    ]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return (fatal or lines or [""])[-1]
