"""`logist mcp`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import ModuleType

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import json_flag
from logist.cli.show import render
from logist.cli.show.output import Output, exit_code_of_signal
from logist.config.environment import Environment
from logist.errors import InvalidFile

PORT = 8723


def load_server() -> ModuleType:
    """Import the server. Raises InvalidFile if its packages are not installed."""
    try:
        from logist.mcp_server import server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("logist", ""):
            raise
        fix = "install Logist with the extra `mcp`: see Install in its README"
        raise InvalidFile(
            f"the MCP server needs the package {error.name}, which is not installed", fix=fix
        ) from None
    return server


@click.command("mcp")
@click.option(
    "--http", "over_http", is_flag=True, help="Serve over HTTP on 127.0.0.1, for clients with the token."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help=f"With --http: port on 127.0.0.1; 0 for any free one  [default: {PORT}]",
)
@click.option("--read-only", is_flag=True, help="Offer only tools that change nothing and cost nothing.")
@json_flag
@click.pass_obj
def mcp(
    environment: Environment, over_http: bool, port: int | None, read_only: bool, as_json: bool
) -> Output:
    """Let agents list, create and run jobs of this project, as a server of the Model Context Protocol.

    An agent program starts this command and talks to it over standard input and output; with --http, you start it. Agents can't approve,
    merge, resolve, or raise a limit: ask_steward gives them what a person has to decide. Jobs that they create are reviewed, need your
    approval, and need a cost limit in your config.
    """
    if port is not None and not over_http:
        raise click.UsageError("--port needs --http")
    if as_json and not over_http:
        raise click.UsageError("--json needs --http: standard output is the connection to the agent program")
    server = load_server()
    from logist.mcp_server.served_jobs import ServedJobs

    directory = Path(get_current_directory())
    built = server.build_server(ServedJobs(environment, directory), read_only=read_only)
    if not over_http:
        if sys.stdin.isatty():
            message = "this command waits for an agent program, which starts it by itself; to stop: Ctrl-C"
            render.print_message(message, environment)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _end_at_once)
        built.run()
        return Output({"address": None}, [])
    from logist.mcp_server import http

    def show(address: str, token: str) -> None:
        lines = [
            f"The MCP server is at {address}. Clients need this header:",
            f"  Authorization: Bearer {token}",
            "To stop: Ctrl-C. Jobs that run go on.",
        ]
        if as_json:
            render.print_message("\n".join(lines), environment)
            return
        render.print_lines(lines, environment)
        render.flush_output()

    http.serve(built, environment.find_home(directory).path, PORT if port is None else port, show)
    return Output({"address": None}, [])


def _end_at_once(number: int, frame: object) -> None:
    """End the server on standard input: a thread waits there, and Python would wait for that thread."""
    os._exit(exit_code_of_signal(number))
