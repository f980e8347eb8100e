"""The repository that a job starts from, and warnings about it."""

from __future__ import annotations

from pathlib import Path

from logist.core.model import JobSpec
from logist.errors import UsageError
from logist.jobs.base.project import ProjectContext
from logist.workspace import source as source_checkout


def find_job_repository(project: ProjectContext, spec: JobSpec) -> Path | None:
    """The repository that the spec names, bare or with a work tree; by default the one that contains `.logist`.

    None if there is none. Raises UsageError if the spec names something that is not a repository.
    """
    if spec.repo is False:
        return None
    if not isinstance(spec.repo, str):
        return (
            source_checkout.find_repository(project.home.parent) if project.home.name == ".logist" else None
        )
    path = Path(spec.repo).expanduser()
    try:
        if path.is_dir():
            return source_checkout.resolve_source(path)
    except UsageError:
        pass
    raise UsageError(
        f"{spec.repo} is not a git repository", where="repo", fix="use --no-repo for an empty workspace"
    )


def explain_empty_workspace(source: Path | None) -> tuple[str, ...]:
    """Warn that the workspace is empty because the repository has no commit."""
    return (f"{source} has no commits yet, so the workspace is empty",)


def find_uncommitted_warnings(source: Path | None) -> tuple[str, ...]:
    """Warn about files in the repository's work tree that are not in a new workspace."""
    if source is None or not (source / ".git").exists():
        return ()
    changed = [path for path in source_checkout.list_uncommitted(source) if not path.startswith(".logist/")]
    if not changed:
        return ()
    names = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
    return (f"the workspace contains HEAD of {source}, without uncommitted changes: {names}",)
