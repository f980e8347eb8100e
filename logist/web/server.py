"""Puts the page together, and runs it on 127.0.0.1 until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from logist.errors import LogistError, Refused, UsageError
from logist.jobs.base.project import ProjectContext
from logist.lazy_modules import load_all
from logist.store import files
from logist.web import pages, site
from logist.web.guard import Guard
from logist.web.private_folders import make_private_directory
from logist.web.served_project import ServedProject
from logist.web.sessions import LINKS, Sessions, create_link, remove_links
from logist.web.site import Form, Site, get_session, get_site, post_handler

HOST = "127.0.0.1"
FOLDER = "serve"
"""In the `.logist` directory; one directory for each port."""
STOP_SECONDS = 0.2
LOCK_TRIES = 10
CLOSE_SECONDS = 2


def build_app(project: ServedProject, sessions: Sessions, port: int) -> ASGIApp:
    """Return the application with all its pages, behind the guard."""
    static = StaticFiles(directory=Path(__file__).parent / "static")
    app = Starlette(
        routes=[
            Route("/enter", _show_entrance),
            Route("/enter", post_handler(_enter), methods=["POST"]),
            Route("/leave", post_handler(_leave), methods=["POST"]),
            Mount("/static", static),
            Mount(sessions.prefix, routes=pages.ROUTES),
            Route("/", _show_root),
        ],
        exception_handlers={LogistError: site.show_error, 404: _show_missing},
    )
    app.state.site = Site(project, sessions)
    return Guard(app, sessions, port)


def _show_root(request: Request) -> Response:
    # The cookie is not sent to this path, so the guard answers all others with 401.
    return get_site(request).redirect("/")


def _show_entrance(request: Request) -> Response:
    """A GET uses up no link, because chat programs and browsers open links by themselves."""
    return get_site(request).render(request, "enter.html", key=request.query_params.get("key", ""))


def _enter(request: Request, form: Form) -> Response:
    its_site = get_site(request)
    cookie = its_site.sessions.start(form.get("key", ""))
    if cookie is None:
        return its_site.render(
            request,
            "error.html",
            403,
            title="This link can't be used any more",
            text="A link works once, for an hour. If you have not used it yourself, another person may have: stop "
            "the server with Ctrl-C, and start it again.",
            advice="to get another link: logist serve --link",
        )
    response = its_site.redirect("/")
    response.set_cookie(
        its_site.sessions.cookie, cookie, path=its_site.sessions.prefix, httponly=True, samesite="strict"
    )
    return response


def _leave(request: Request, form: Form) -> Response:
    get_site(request).sessions.end(get_session(request))
    return PlainTextResponse("You are signed out.\n")


def _show_missing(request: Request, error: Exception) -> Response:
    return get_site(request).render(
        request, "error.html", 404, title="Not found", text="There is no such page.", advice=None
    )


def open_socket(port: int) -> socket.socket:
    """Return a socket that listens on 127.0.0.1. Raises Refused if the port is in use."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except OSError as error:
        listening.close()
        fix = "choose another one with --port, or 0 for any free one"
        raise Refused(f"can't listen on port {port}: {error.strerror}", fix=fix) from error
    listening.listen(128)
    return listening


@contextmanager
def claim_folder(home: Path, port: int) -> Iterator[Path]:
    """Keep the directory of a server at this port for this process; `find_servers` finds it as long as it runs."""
    folder = home / FOLDER / str(port)
    home.mkdir(parents=True, exist_ok=True)
    for each in (home / FOLDER, folder, folder / LINKS):
        make_private_directory(each)
    files.replace_file(home / FOLDER / ".gitignore", b"*\n")  # nothing in it is for others
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _lock(descriptor, folder)
        remove_links(folder)
        yield folder
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    """Lock the directory of a server. `find_servers` may hold it for a moment, to see whether a server runs."""
    for _ in range(LOCK_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(STOP_SECONDS)
    raise Refused(
        "another server uses this directory", where=str(folder), fix="choose another port with --port"
    )


def find_servers(home: Path) -> list[tuple[int, Path]]:
    """Return the ports of the servers of a project that run now, each with its directory."""
    found = []
    try:
        if (home / FOLDER).is_symlink():
            return []
        names = sorted(name for name in os.listdir(home / FOLDER) if name.isascii() and name.isdigit())
    except OSError:
        return []
    for name in names:
        with contextlib.suppress(OSError):
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(home / FOLDER / name, flags)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append((int(name), home / FOLDER / name))
            finally:
                os.close(descriptor)
    return found


def print_further_link(home: Path, port: int | None, steward: str | None) -> str:
    """Return a further one-time link to a running server. Raises UsageError if it is not clear to which one."""
    servers = [each for each in find_servers(home) if port is None or each[0] == port]
    if not servers:
        raise UsageError("no server runs for this project", fix="to start one: logist serve")
    if len(servers) > 1:
        ports = ", ".join(str(each[0]) for each in servers)
        raise UsageError(f"several servers run, at the ports {ports}", fix="choose one with --port")
    return create_link(servers[0][1], servers[0][0], steward)


def serve(
    open_context: Callable[[], ProjectContext],
    port: int,
    *,
    show_link: Callable[[str, int], None],
    is_stopped: Callable[[], int],
) -> None:
    """Serve the page until `is_stopped` returns a signal. `show_link` gets the first link and the port."""
    project = ServedProject(open_context)
    owner = open_context().steward
    with contextlib.closing(open_socket(port)) as listening:
        port = listening.getsockname()[1]
        with claim_folder(project.home, port) as folder:
            sessions = Sessions(folder, port, owner)
            config = uvicorn.Config(
                build_app(project, sessions, port),
                log_config=None,
                log_level="error",  # not a warning for each request that is no HTTP: nobody here can do anything about it
                access_log=False,
                server_header=False,
                http="h11",
                ws="none",
                lifespan="off",
                timeout_graceful_shutdown=CLOSE_SECONDS,
            )
            server = _Server(config)
            logging.getLogger("uvicorn.error").addFilter(_is_error)
            show_link(create_link(folder, port), port)
            load_all()  # threads must not load them at once, and Logist may be upgraded while the server runs
            # While the person opens the link, so that the first page doesn't wait for it.
            threading.Thread(target=_look_ahead, args=(project,), daemon=True).start()
            asyncio.run(_serve_until_stopped(server, listening, project, is_stopped))


def _look_ahead(project: ServedProject) -> None:
    with contextlib.suppress(LogistError):  # the page shows it
        project.look()
    load_all()  # Logist may be upgraded while the server runs: its modules must fit each other


def _is_error(record: logging.LogRecord) -> bool:
    """Whether a message is about an error, and not about a request that the end of the server has cut off."""
    is_cut_off = record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not is_cut_off and "timeout graceful shutdown exceeded" not in record.getMessage()


class _Server(uvicorn.Server):
    """A server that leaves signals to the command line."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve_until_stopped(
    server: uvicorn.Server, listening: socket.socket, project: ServedProject, is_stopped: Callable[[], int]
) -> None:
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    while not serving.done():
        if is_stopped():
            project.is_closing = True
            server.should_exit = True
        await asyncio.wait([serving], timeout=STOP_SECONDS)
    await serving
