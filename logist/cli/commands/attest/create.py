"""`logist attest JOB`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from logist.cli.options import job_options, require_free
from logist.cli.shell_values import complete_file
from logist.cli.show.output import Output, make_notes
from logist.config.environment import Environment, require_utf8
from logist.core.text.counts import format_count
from logist.errors import Refused

if TYPE_CHECKING:
    from logist.core.model import JsonObject


@click.command("create")
@click.option(
    "--output",
    metavar="FILE",
    shell_complete=complete_file,
    help="Where to write it  [default: .logist/attestations/JOB.intoto.json, where `job verify` finds it]",
)
@click.option("--sign", is_flag=True, help="Sign it with your key: the setting steward.key.")
@click.option(
    "--key", metavar="FILE", shell_complete=complete_file, help="Sign it with this key of ssh-keygen."
)
@click.option(
    "--force", is_flag=True, help="Replace FILE. An attestation in the default place is always replaced."
)
@job_options
@click.pass_obj
def create(
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    output: str | None,
    sign: bool,
    key: str | None,
    force: bool,
) -> Output:
    """Write an attestation of a job: how its work was made, as an in-toto statement.

    It has the number of interactions and the checksum of the last one, the roles and models, the results of checks, the decisions of
    stewards, the cost, and the commit of the merge; no prompts, answers or notes. The same history always gives the same file.

    The signature is written to FILE.sig. `logist attest verify` and `logist job verify` check both, also whether the end of the
    history was cut off since. For a job with the name of a command: `logist attest create JOB`.
    """
    from logist.cli.context import open_job, open_project
    from logist.jobs.steward import attestations

    job = open_job(environment, job_argument, job_option, jobs_dir)
    project = open_project(environment, jobs_dir)
    if output is None:
        path = attestations.find_attestation_path(project.home, job.id)
        if path.parent.is_symlink():  # of a stranger's repository: nothing is written or removed elsewhere
            where = str(path.parent)
            raise Refused("a symbolic link, where attestations belong", where=where, fix="remove it")
    else:
        path = Path(require_utf8(output, "the file name", "choose another file name"))
        require_free(path, force=force)
    # Not resolved: a clone may have a link at that place, which is replaced, not followed.
    statement = attestations.write_attestation(path.absolute(), job)
    is_signed = sign or key is not None
    if is_signed:
        attestations.sign_attestation(project, path.absolute(), statement, None if key is None else Path(key))
    predicate: JsonObject = statement["predicate"]
    history, merge = predicate["history"], predicate["merge"]
    data = {"job": job.id, "path": str(path), "signed": is_signed, "statement": statement}
    commit = f", merged as {merge['commit'][:12]}" if merge else ""
    lines = (
        f"{job.id}: {predicate['status']}, {format_count(history['interactions'], 'interaction')}{commit}",
        f"{'signed' if is_signed else 'attestation'}: {path}",
    )
    notes = (
        ()
        if is_signed
        else make_notes(["not signed: anyone who can write the file can change it; to sign it, use --sign"])
    )
    return Output(data, lines, notes)
