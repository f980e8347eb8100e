"""Whether the repository of a job's checkpoints is sound."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from logist.errors import LogistError
from logist.jobs.base.project import Project
from logist.jobs.doctor.file_layout import FROM_BACKUP, check_name
from logist.jobs.doctor.finding import Finding, damage
from logist.store import JobDir
from logist.workspace.checkpoint import objects, packs
from logist.workspace.git import Git


def faults(project: Project, job: JobDir, checkpoint: str | None, *, deep: bool) -> Iterator[Finding]:
    """What is wrong with the repository; `checkpoint` is the one that the state names.

    Without `deep` only names and the last bytes of packs are read, and no git is started.
    """
    if job.git_dir.is_symlink() or not job.git_dir.is_dir():
        return  # the layout says so
    git = project.workspace(job).git
    messages = list(_at_a_glance(git, checkpoint))
    if deep and not messages and shutil.which("git", path=git.path):
        messages = list(_in_depth(git))
    for message in messages:
        yield damage(check_name(job), message, f"{FROM_BACKUP}: {job.git_dir}")


def _at_a_glance(git: Git, checkpoint: str | None) -> Iterator[str]:
    lost = [name for name in ("HEAD", "objects", "refs") if not (git.git_dir / name).exists()]
    if lost:
        yield f"the repository of checkpoints has no {', no '.join(lost)}"
        return
    yield from (f"the pack {name} of the checkpoints is cut off" for name in packs.cut_off(git.git_dir))
    try:
        tip = objects.tip(git)
    except (LogistError, OSError, UnicodeDecodeError):
        yield f"git can't tell the last checkpoint: {objects.BRANCH} does not read"
        return
    if tip is None and checkpoint:
        yield f"git has no checkpoint: {objects.BRANCH} is missing"
    named = {name for name in (tip, checkpoint) if name}
    yield from (f"the checkpoint {name} is not in git" for name in sorted(packs.lacking(git.git_dir, named)))


def _in_depth(git: Git) -> Iterator[str]:
    """What git says. Not its full check: commits of your own repository may be odd, and still be whole."""
    indexes = packs.indexes(git.git_dir)
    looks: list[tuple[str, ...]] = [
        ("fsck", "--connectivity-only", "--no-dangling", "--no-progress", "--no-reflogs")
    ]
    looks += [("verify-pack", *map(str, indexes[at : at + 100])) for at in range(0, len(indexes), 100)]
    for look in looks:
        try:
            git.run(*look)
        except LogistError as error:
            yield f"the checkpoints are damaged: {error.message}"
            return
