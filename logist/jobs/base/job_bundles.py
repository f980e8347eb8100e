"""What is sent to a worker on another machine for a job: its workspace at a checkpoint, as the objects that the machine lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logist import systems
from logist.core.text.json_object import JsonObject
from logist.digests import compute_sha256
from logist.errors import ProviderError
from logist.store import files

if TYPE_CHECKING:
    from logist.agents.remote.cluster import Worker
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.base.session import Session
    from logist.jobs.base.worker_pool import WorkerPool
    from logist.store import JobDir

FOLDER = "workers"
"""In the directory of a project: its name for the machines of workers."""
MOST_BYTES = 1 << 30
"""The largest pack that is sent."""


class BundleTooLarge(ProviderError):
    """No worker can get the workspace of a job."""


def build_bundle(session: Session, pool: WorkerPool, worker: Worker, commit: str) -> JsonObject:
    """Return the part of a task by which the copy of a job on a machine becomes equal to a checkpoint.

    Raises BundleTooLarge, and what `Cluster.call` raises.
    """
    from logist.agents.remote import worker as work  # noqa: PLC0415 - only a run with workers needs it
    from logist.agents.remote.mirror import has_commit, pack_between  # noqa: PLC0415
    from logist.workspace.checkpoint import objects  # noqa: PLC0415

    project, job = session.project, session.job
    git = project.open_workspace(job).git
    base = objects.find_base(git, commit)
    rules = {
        "caches": list(project.settings.workspace.caches),
        "max_checkpoint_bytes": project.settings.workspace.max_checkpoint_bytes,
    }
    asked = {"mirror": name_mirror(job), "job": job.id, "base": base, "rules": rules}
    known = pool.call(worker, work.find_known_commits, asked)
    common = next((each for each in known["commits"] if has_commit(git, each)), None)
    pack = pack_between(git, commit, [common or base])
    base_pack = b"" if common or known["has_base"] else pack_between(git, base, [])
    if (size := len(pack) + len(base_pack)) > MOST_BYTES:
        message = f"the workspace is too large for a worker: {size >> 20} MiB packed, and at most {MOST_BYTES >> 20} MiB can be sent"
        raise BundleTooLarge(message, fix=f"run it on this machine: logist job step --job {job.id}")
    return {
        **asked,
        "project": name_project(project),
        "commit": commit,
        "is_complete": common is None,
        "pack": pack,
        "base_pack": base_pack,
    }


def name_project(project: ProjectContext) -> str:
    """Return the name by which a machine finds the tasks of a project; a copy of the project has another one.

    Two projects at the same path, of two machines or containers, may have the same workers.
    """
    from logist.agents.remote.spool import make_name  # noqa: PLC0415 - only a run with workers needs it

    folder = project.home / FOLDER
    files.create_ignored_directory(folder)
    own = make_name(folder / "project")
    return compute_sha256(f"{own} {systems.read_machine_name()} {project.jobs_dir}".encode())[:32]


def name_mirror(job: JobDir) -> str:
    """Return the name by which a machine finds its copy of a job."""
    first = next(iter(job.read_entries()))
    return compute_sha256(f"{first['checksum']} {job.path}".encode())[:32]
