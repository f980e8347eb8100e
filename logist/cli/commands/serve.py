"""`logist serve`."""

from __future__ import annotations

from types import ModuleType

import click

from logist.cli.options import jobs_dir_option, json_flag
from logist.cli.show import render
from logist.cli.show.output import Output
from logist.cli.stops import get_stop_code, stop_on_signals
from logist.config.environment import Environment
from logist.errors import InvalidFile

PORT = 8722


def load_server() -> ModuleType:
    """Import what serves the page. Raises InvalidFile if its packages are not installed."""
    try:
        from logist.web import server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("logist", ""):
            raise
        fix = "install Logist with the extra `web`: see Install in its README"
        raise InvalidFile(
            f"the page needs the package {error.name}, which is not installed", fix=fix
        ) from None
    return server


def print_at_once(lines: list[str], environment: Environment, *, as_message: bool) -> None:
    """Print lines while the command goes on; as a message if its output is a JSON document."""
    if as_message:
        render.print_message("\n".join(lines), environment)
        return
    render.print_lines(lines, environment)
    render.flush_output()


@click.command("serve")
@stop_on_signals
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help=f"Port on 127.0.0.1; 0 for any free one  [default: {PORT}]",
)
@click.option("--link", is_flag=True, help="Print a further one-time link to the page that runs, and exit.")
@click.option(
    "--steward",
    metavar="NAME",
    help="With --link: the name that decisions made through this link are recorded with.",
)
@jobs_dir_option
@json_flag
@click.pass_obj
def serve(
    environment: Environment,
    port: int | None,
    link: bool,
    steward: str | None,
    jobs_dir: str | None,
    as_json: bool,
) -> Output:
    """Show the inbox, jobs and decisions on a local page, for your browser.

    Prints a link that works once: open it in the browser. The page is only reachable from this machine, and shows what
    other commands change within a second. Stop it with Ctrl-C; nothing is lost.

    From another machine, forward the port with ssh -L, and keep its number: ssh -L 8722:127.0.0.1:8722 HOST
    """
    from logist.cli import context

    if steward is not None and not link:
        raise click.UsageError("--steward needs --link")
    server = load_server()
    if link:
        home = context.open_project(environment, jobs_dir).home
        address = server.print_further_link(home, port, steward)
        return Output({"link": address}, [address])

    def show_link(address: str, port: int) -> None:
        lines = [
            f"The page is at http://127.0.0.1:{port}. Open this link in your browser; it works once:",
            f"  {address}",
            "To get another link: logist serve --link. To stop: Ctrl-C.",
        ]
        print_at_once(lines, environment, as_message=as_json)

    server.serve(
        lambda: context.open_project(environment, jobs_dir),
        PORT if port is None else port,
        show_link=show_link,
        is_stopped=get_stop_code,
    )
    return Output({"link": None}, [], exit_code=get_stop_code())
