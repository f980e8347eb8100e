"""Replaces a text in a packed job: unpacks the file next to it, scrubs the job, and packs it again."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from logist.jobs.archive.job_pack import MOST_BYTES, pack_job, unpack_job
from logist.jobs.base.project import ProjectContext
from logist.jobs.erasure.job_scrub import ScrubOptions, ScrubResult, scrub_job
from logist.store import files


def scrub_pack(
    project: ProjectContext, path: Path, options: ScrubOptions, *, max_bytes: int = MOST_BYTES
) -> ScrubResult:
    """Erase a text from the job that the file `path` contains; the file is replaced at once, or stays as it is.

    Raises what `job_pack.unpack_job` and `job_scrub.scrub_job` raise.
    """
    with _make_folder_beside(path) as folder:
        inside = replace(project, jobs_dir=folder / "jobs", home=folder)
        unpacked = unpack_job(inside, path, max_bytes=max_bytes)
        result = scrub_job(inside, unpacked.job.id, options)
        if result.places and not options.dry_run:
            pack_job(inside, unpacked.job.id, path, force=True)
        return result


@contextmanager
def _make_folder_beside(path: Path) -> Iterator[Path]:
    """Make a private directory on the same file system; remove those that a killed command has left."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{12}}\.scrub")
    for name in os.listdir(path.parent):
        if pattern.fullmatch(name):
            with suppress(OSError), _lock(path.parent / name):
                files.remove_tree(path.parent / name)
    folder = path.with_name(f".{path.name}.{os.urandom(6).hex()}.scrub")
    files.make_directory(folder)
    with _lock(folder):
        try:
            yield folder
        finally:
            files.remove_tree(folder)


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Hold an flock on a directory. Raises OSError if another process has it."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(fd)
