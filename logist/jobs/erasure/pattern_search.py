"""Finds the values that a pattern matches in a job, so that all their spellings can be replaced."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import IO

from logist.core.secrets.erasing import LONGEST
from logist.core.share.entry import texts
from logist.errors import Refused, UsageError
from logist.jobs.doctor import leaked_secrets
from logist.jobs.doctor.leaked_secrets import Scanned
from logist.jobs.erasure import matching_texts
from logist.store import HISTORY, JobDir, segments
from logist.workspace.checkpoint import objects
from logist.workspace.files import safe_open
from logist.workspace.git import Git

MOST_VALUES = 1000
"""Each value is searched for in all its spellings, which takes time."""
_BLOCK = 1 << 20


class PatternSearch:
    """A process that matches one pattern."""

    def __init__(self, pattern: str) -> None:
        self.values: set[str] = set()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", matching_texts.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            close_fds=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._given: IO[bytes] = self._process.stdin
        self._answers: IO[bytes] = self._process.stdout
        try:
            self._given.write(json.dumps(pattern).encode("ascii") + b"\n")
            self._given.flush()
            problem = self._read_answer()
        except BaseException:
            self.close()
            raise
        if problem is not None:
            self.close()
            raise UsageError(f"invalid pattern: {problem}", where="--pattern")

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        with suppress(BrokenPipeError):
            self._given.close()
        self._answers.close()
        self._process.wait()

    def search_job(self, job: JobDir) -> None:
        """Add what the pattern matches in the files of a job, their names, its history and its checkpoints."""
        for blocks in _list_texts(job):
            self._search(blocks)

    def _search(self, blocks: Iterable[str]) -> None:
        window, begins = "", True
        for block in blocks:
            window += block
            if len(window) >= _BLOCK:
                self._match(window, begins=begins, ends=False)
                window, begins = window[-LONGEST:], False
        self._match(window, begins=begins, ends=True)

    def _match(self, text: str, *, begins: bool, ends: bool) -> None:
        if not text:
            return
        data = text.encode("utf-8", "surrogatepass")
        try:
            self._given.write(json.dumps([len(data), begins, ends]).encode("ascii") + b"\n" + data)
            self._given.flush()
            found = self._read_answer()
        except BrokenPipeError:
            found = None
        if not isinstance(found, list):
            fix = "nothing was changed; use a simpler pattern"
            raise Refused(
                f"the pattern takes more than {matching_texts.SECONDS} s", where="--pattern", fix=fix
            )
        self.values.update(map(str, found))
        if "" in self.values:
            fix = "nothing was changed; use a pattern that needs at least one character"
            raise UsageError("the pattern matches the empty text", where="--pattern", fix=fix)
        if len(self.values) > MOST_VALUES:
            message = f"the pattern matches more than {MOST_VALUES:,} different texts"
            raise Refused(message, where="--pattern", fix="nothing was changed; use a narrower pattern")

    def _read_answer(self) -> object:
        line = self._answers.readline()
        return json.loads(line) if line else {}


def _list_texts(job: JobDir) -> Iterator[Iterable[str]]:
    scanned = Scanned(job.id)
    for entry in job.read_entries():
        yield [field.text + "\n" for field in texts(entry)]
    with safe_open.open_root(job.path) as top:
        for path in leaked_secrets.list_files(top, b"", scanned):
            yield [os.fsdecode(path)]
            if path == HISTORY.encode() or (
                b"/" not in path and segments.NAME.fullmatch(os.fsdecode(path)) is not None
            ):
                continue
            with (
                suppress(OSError),
                safe_open.open_regular_below(top, path.split(b"/")) as descriptor,
            ):
                read = leaked_secrets.open_reader(path, descriptor)
                yield leaked_secrets.decode_blocks(scanned, leaked_secrets.read_blocks(read))
    if job.git_dir.is_dir():
        git = Git(job.git_dir, of_job=True)
        every = ("cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)")
        names = git.run(*every).decode("ascii").split()
        with objects.open_contents(git, names) as contents:
            for pieces in contents:
                yield leaked_secrets.decode_blocks(scanned, pieces)
