"""Jobs whose workspace, checkpoints and logs `logist gc --keep-history` has removed: the removal itself, and the
commands that can't work without them.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from logist.errors import Refused
from logist.store import JobDir, files
from logist.store.cleaned import Cleaned, describe_removal

if TYPE_CHECKING:
    from logist.jobs.base.session import Session


def require_files(job: JobDir, action: str) -> None:
    """Raise Refused for a job without workspace and checkpoints: it can't `action`, as in "can't restep j"."""
    removal = describe_removal(str(job.path))
    if removal is not None:
        fix = f"its history is kept: logist job show --job {job.id}; to begin again: logist job create"
        raise Refused(f"can't {action} {job.id}: {removal}", fix=fix)


def clean_job(session: Session) -> None:
    """Remove the workspace, the checkpoints and the logs of a locked job, and record who did it.

    Nothing is written to the disk before these files are gone, so it also works on a full one.
    """
    session.job.begin_cleaning()
    finish_cleaning(session)


def finish_cleaning(session: Session) -> None:
    """Remove what a removal that was begun has left, and record it. Raises StorageError if something can't be removed."""
    job = session.job
    with files.convert_os_errors(job.path):
        empty_directory(job.cleaning)
        remove_directory(job.git_dir)
        empty_directory(job.logs)
    # A record that is there already is of the command that was killed before it removed the empty directory.
    job.end_cleaning(job.read_cleaned() or _build_record(session))


def _build_record(session: Session) -> Cleaned:
    project = session.project
    by = project.redact_text(project.steward)
    return Cleaned(project.clock.timestamp(), by, session.state.revision, str(session.position.hash))


def empty_directory(folder: Path) -> None:
    """Remove everything in a directory; no error if it does not exist. A link is removed, never followed."""
    if folder.is_symlink():
        os.unlink(folder)
    with suppress(FileNotFoundError):
        os.chmod(folder, 0o700)  # an agent may have locked its workspace
        for name in os.listdir(folder):
            path = folder / name
            if path.is_dir() and not path.is_symlink():
                remove_directory(path)
            else:
                os.unlink(path)


def remove_directory(folder: Path) -> None:
    """Remove a directory with everything in it, also on a full disk. A link is removed, never followed."""
    import shutil  # noqa: PLC0415 - few commands remove anything

    from logist.workspace.files import removal  # noqa: PLC0415

    if folder.is_symlink():
        os.unlink(folder)
    # What agents have locked, or nested too deep, is left to `removal`: it needs a directory to move things to, which
    # can't be created on a full disk before something is removed.
    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    removal.remove_directory(folder)
