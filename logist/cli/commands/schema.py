"""`logist schema`."""

from __future__ import annotations

import json

import click

from logist.cli.options import json_option
from logist.cli.shell_values import complete_schema
from logist.cli.show.output import Output, TextTable
from logist.errors import UsageError


@click.command("schema")
@click.argument("name", required=False, shell_complete=complete_schema)
@json_option
def schema(name: str | None) -> Output:
    """Print the JSON schema of a file that people write; without NAME, list the schemas.

    An editor that knows the schema completes keys, shows what each means, and marks errors. `logist init` puts the schemas
    into .logist/schemas and names them in the files that it writes.
    """
    from logist.jobs.base.editor_schemas import SCHEMAS, read_schema

    if name is None:
        rows = [{"name": each, "about": about} for each, about in SCHEMAS.items()]
        return Output(
            rows, table=TextTable(("NAME", "DESCRIBES"), [(row["name"], row["about"]) for row in rows])
        )
    if name not in SCHEMAS:
        raise UsageError(f"unknown schema {name!r}", where="NAME", fix=f"known: {', '.join(SCHEMAS)}")
    text = read_schema(name)
    return Output(json.loads(text), raw=text)
