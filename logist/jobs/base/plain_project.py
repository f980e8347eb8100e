"""Opens the files of jobs to read them, without the settings and roles that a project needs for work."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from logist.quick_tuple import NamedTuple
from logist.store import JobDir
from logist.workspace.reading import WorkspaceReader

if TYPE_CHECKING:
    from logist.config.environment import Environment


class JobFiles(Protocol):
    """What reading jobs needs: a `ProjectContext` or a `PlainProject`."""

    @property
    def jobs_dir(self) -> Path: ...

    @property
    def environment(self) -> Environment: ...

    def redact_text(self, text: str) -> str:
        """Return the text as it may be written to a file: no secrets, valid Unicode only."""
        ...

    def open_job(self, job_id: str) -> JobDir:
        """Open the directory of a job. Raises UsageError for an invalid or unknown id."""
        ...

    def open_workspace(self, job: JobDir) -> WorkspaceReader:
        """Return the workspace of a job."""
        ...


class PlainProject(NamedTuple):
    """A project whose settings need no models; see `config.plain_settings`."""

    jobs_dir: Path
    settings: dict[str, Any]
    """As JSON."""
    environment: Environment

    def redact_text(self, text: str) -> str:
        from logist.config.key_names import list_key_names  # noqa: PLC0415 - few commands that only read need this
        from logist.core.secrets.redact import redact  # noqa: PLC0415
        from logist.core.text.surrogates import replace_surrogates  # noqa: PLC0415

        models = self.settings["models"].values()  # plain settings have no providers
        names = list_key_names(model.get("api_key_env") for model in models)
        return redact(replace_surrogates(text)[0], self.environment.list_secrets(*names))[0]

    def open_job(self, job_id: str) -> JobDir:
        return JobDir.open(self.jobs_dir, job_id)

    def open_workspace(self, job: JobDir) -> WorkspaceReader:
        rules = self.settings["workspace"]
        return WorkspaceReader(
            job.workspace,
            job.git_dir,
            caches=rules["caches"],
            max_checkpoint_bytes=rules["max_checkpoint_bytes"],
            outputs=_read_setup_outputs(job),
        )


def _read_setup_outputs(job: JobDir) -> tuple[str, ...]:
    if not os.path.lexists(job.setup_file):
        return ()
    from logist.workspace.prepared import read_setup_outputs  # noqa: PLC0415 - few jobs have a setup

    return read_setup_outputs(job.setup_file, job.workspace)
