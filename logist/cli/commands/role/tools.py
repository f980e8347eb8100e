"""`logist role tools`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import click

from logist.cli.commands.role.set import find_role_folder, read_trust_again
from logist.cli.options import json_option
from logist.cli.shell_values import complete_role
from logist.cli.show.output import Diagnostic, Line, Output, StyledText
from logist.config.environment import Environment
from logist.errors import UsageError


@click.command("tools")
@click.argument("name", shell_complete=complete_role)
@click.option("--user", is_flag=True, help="Change your own roles, which apply to all projects.")
@click.option("--dry-run", is_flag=True, help="Show what would change, without writing it.")
@json_option
@click.pass_obj
def tools(environment: Environment, name: str, user: bool, dry_run: bool) -> Output:
    """Ask the MCP servers of a role for their tools, and write them to its file.

    Each server is started in the sandbox. A model is offered the tools as they are in the role file, so that a server
    can't change a prompt later: run this command again after an update of a server. Read the descriptions before you
    use the role, and remove tools that it doesn't need. A project's servers must be allowed first: `logist trust`.
    """
    from logist.cli.context import list_role_directories, load_current_settings, load_known_roles
    from logist.core.prompt.budget import estimate_tokens
    from logist.jobs.base import server_tools
    from logist.jobs.base.role_file import change_role_field

    role = load_known_roles(environment).get(name)
    if not role.mcp_servers:
        fix = "add them with their commands to the role file; see docs/roles.md, MCP servers"
        raise UsageError(f"the role {name} has no `mcp_servers`", fix=fix)
    folder = find_role_folder(environment, user=user)
    before = read_trust_again(environment)
    before.require_to_run()
    rules = load_current_settings(environment).settings.sandbox
    listed = server_tools.list_tools_of_servers(
        role, rules, environment.build_child_environment(), lambda: False
    )
    differences = server_tools.compare_tools(role, listed.servers)
    directories = list_role_directories(environment)
    change = change_role_field(directories, folder, name, "mcp_servers", listed.servers, dry_run=dry_run)
    if not user and change.changes_file and not dry_run:
        path = (f"roles/{name}", *([] if change.is_new_file else ["mcp_servers"]))
        read_trust_again(environment).allow_change(before.claims, path, str(change.file))
    offered = [tool for server in listed.servers.values() for tool in server["tools"]]
    data = {
        "name": name,
        "file": str(change.file),
        "tools": differences,
        "tokens": estimate_tokens(json.dumps(offered)),
        "left_out": list(listed.left_out),
        "changed": change.changes_file,
        "dry_run": dry_run,
    }
    warnings = tuple(Diagnostic("warning", "warning", text) for text in listed.left_out)
    return Output(data, _format_tools(data, differences), warnings)


def _format_tools(data: Mapping[str, object], differences: Mapping[str, list[str]]) -> Iterator[Line]:
    for how, names in differences.items():
        for each in names:
            yield (f"{each}", StyledText(f"  {how}", "dim"))
    yield f"about {data['tokens']:,} tokens in each request"
    if not data["changed"]:
        yield "nothing to change"
    elif data["dry_run"]:
        yield StyledText(f"dry run, file not written: {data['file']}", "dim")
    else:
        yield StyledText(f"file: {data['file']}", "dim")
