"""`logist job pack`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from logist.cli.options import require_free
from logist.cli.project import on_job
from logist.cli.shell_values import complete_file
from logist.cli.show.output import Output, StyledText, make_warnings

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext


@click.command("pack")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(),
    shell_complete=complete_file,
    help="File to write  [default: JOB.tar.gz]",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@on_job
def pack(project: ProjectContext, job_id: str, output: str | None, force: bool) -> Output:
    """Pack a job into one file: its history, workspace, checkpoints and logs.

    The job is verified before, and the file after it is written. `logist job unpack` creates the job again, here or on
    another machine. The job stays. The file contains everything in the job, also secrets in its workspace.
    """
    from logist.config.environment import require_utf8
    from logist.core.text.counts import format_bytes, format_count
    from logist.jobs.archive.job_pack import pack_job

    project.open_job(job_id)
    file = Path(require_utf8(output or f"{job_id}.tar.gz", "the path", "choose another name")).absolute()
    require_free(file, force=force)
    packed = pack_job(project, job_id, file, force=force)
    data = {
        "job": job_id,
        "file": str(packed.path),
        "bytes": packed.size,
        "files": packed.files,
        "content_bytes": packed.content_bytes,
        "revision": packed.revision,
        "left_out": list(packed.left_out),
    }
    content = f"{format_count(packed.files, 'file')}, {format_bytes(packed.content_bytes)}"
    lines = (
        (
            StyledText(job_id, "bold"),
            f" is packed into {output or packed.path.name} ({format_bytes(packed.size)})",
        ),
        (StyledText(f"verified: {content}, up to interaction {packed.revision}", "dim"),),
    )
    named = ", ".join(packed.left_out[:5]) + (
        f" and {more} more" if (more := len(packed.left_out) - 5) > 0 else ""
    )
    warnings = (f"left out, because only files, directories and links can be packed: {named}",)
    return Output(data, lines, make_warnings(warnings if packed.left_out else (), "left_out"))
