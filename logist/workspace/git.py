"""The only module that calls git: always with an explicit repository, and
without configuration of the user or the agent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from logist import event_log, systems
from logist.errors import Damaged, StorageError
from logist.event_log import events
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    import subprocess

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
    # Always a pack, never loose objects: then only two directories must be made durable.
    "fastimport.unpackLimit=0",
    "fetch.unpackLimit=1",
)

UPLOAD_PACK = "git -c safe.directory='*' upload-pack"
"""git doesn't pass these settings to the sending process, so the needed one is repeated (this runs through sh)."""

_OPENED = ("", "info", "objects/info", "objects/pack", "refs/heads")
"""Directories of a repository of checkpoints whose files git opens for every command."""

Argument = str | bytes | Path


def build_git_environment(path: str) -> dict[str, str]:
    """Return the complete environment of a git process; `path` is the PATH."""
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
        # As in every checkpoint: the history has the time, and the same content gets the same id.
        "GIT_AUTHOR_DATE": "@0 +0000",
        "GIT_COMMITTER_DATE": "@0 +0000",
    }


def open_unnamed_file() -> IO[bytes]:
    """Open a new file without a name, in memory if possible, so that a command that only reads a job doesn't write
    to disk.
    """
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("logist"), "w+b")
    import tempfile  # noqa: PLC0415 - its imports take longer than all others here

    return tempfile.TemporaryFile()


@dataclass(frozen=True)
class Git:
    """Runs git on one repository; every call waits for its end, and raises StorageError on failure."""

    git_dir: Path
    path: str = GIT_PATH
    settings: tuple[tuple[bytes, bytes], ...] = ()
    """More settings, with any characters in their names; with `-c`, a name would end at its first `=`."""
    variables: tuple[tuple[str, str], ...] = ()
    """More environment variables."""
    umask: int = 0o077
    """The umask for files that git creates."""
    flushing: bool = True
    """False while a job is created: nothing is flushed then, because the caller flushes everything once at the end."""

    of_job: bool = False
    """A repository of checkpoints, which may come from elsewhere with its job: refuse it if it has irregular files."""

    def borrow_objects(self, *places: Path) -> Git:
        """Return the same with access to the objects in directories of other repositories, which are only read."""
        borrowed = os.pathsep.join(os.fsdecode(quote_alternate(place)).strip() for place in places)
        return replace(self, variables=(*self.variables, ("GIT_ALTERNATE_OBJECT_DIRECTORIES", borrowed)))

    def flush(self, descriptor: int) -> None:
        """Make a file or directory of the job durable."""
        if self.flushing:
            systems.flush(descriptor)

    @property
    def is_installed(self) -> bool:
        """Whether there is a git that this can run."""
        programs = (os.path.join(folder, "git") for folder in self.path.split(os.pathsep))
        return any(os.access(program, os.X_OK) and not os.path.isdir(program) for program in programs)

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
        """Return `(status, output, error line)`; a status other than 0 is not an error."""
        with open_unnamed_file() as complaints:
            process = self._start_process(arguments, None, complaints)
            assert process.stdout is not None
            try:
                printed = process.stdout.read()
            finally:
                _end_process(process)
            if process.returncode < 0:  # it was killed, so there is no result
                raise self._make_error(process.returncode, complaints, arguments)
            complaints.seek(0)
            return process.returncode, printed, _find_error_line(complaints.read())

    def read_beginning(self, most: int, *arguments: Argument, data: bytes = b"") -> tuple[bytes, bool]:
        """Return the first `most` bytes of git's output, and whether that is everything; then end git.

        `data` is its input.
        """
        with open_unnamed_file() as complaints, open_unnamed_file() as input_file:
            input_file.write(data)
            input_file.seek(0)
            process = self._start_process(arguments, input_file if data else None, complaints)
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
        self, *arguments: Argument, stdin: int | IO[bytes] | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run git with its stdout on a pipe; at the end of the block, git is ended and its status checked."""
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
        self, arguments: Sequence[Argument], stdin: int | IO[bytes] | None, complaints: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        import subprocess  # noqa: PLC0415 - much of a job can be read without git

        if self.of_job:
            require_files(self.git_dir)
        if event_log.is_on():
            words = [each if isinstance(each, bytes) else os.fsencode(each) for each in arguments]
            shown = [word.decode("utf-8", "replace") for word in words]
            event_log.report(events.GitBegun(str(self.git_dir), shown))
        flushed = () if self.flushing else ("core.fsync=none",)
        settings = [part for setting in (*SETTINGS, *flushed) for part in ("-c", setting)]
        try:
            return subprocess.Popen(
                ["git", f"--git-dir={self.git_dir}", "--literal-pathspecs", *settings, *arguments],
                env=self._build_environment(),
                cwd="/",
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=subprocess.PIPE,
                stderr=complaints,
                umask=self.umask,
                # Ctrl-C must go only to Logist, which stops between two operations; git must not be interrupted.
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
        reason = _find_error_line(complaints.read()) or f"exit status {status}"
        fix = "check the disk and its free space, then run the command again"
        return StorageError(f"git {arguments[0]!s} failed: {reason}", where=str(self.git_dir), fix=fix)


def quote_alternate(path: Path) -> bytes:
    """Return a line of the file `alternates`; quoted, because a path can contain any character."""
    raw = os.fsencode(path.resolve()).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + raw + b'"\n'


def require_files(git_dir: Path) -> None:
    """Raise Damaged where a pipe or device replaces a file that git opens: git would wait for it forever."""
    for folder in _OPENED:
        with suppress(OSError), os.scandir(git_dir / folder) as entries:
            irregular = next((entry.path for entry in entries if _is_irregular(entry)), None)
            if irregular is not None:
                fix = "remove it, or restore the repository from a backup"
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
