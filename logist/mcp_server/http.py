"""Serves the MCP server over HTTP on 127.0.0.1, for clients that have the token of the project.

A port on 127.0.0.1 is open to all programs and users of the machine, and to web pages in a browser.
"""

from __future__ import annotations

import hmac
import re
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from logist.errors import Refused
from logist.regular_files import read_regular
from logist.store import files

HOST = "127.0.0.1"
FOLDER = "mcp"
"""In the `.logist` directory; it has the token, so that a client needs to be set up only once."""
PATH = "/mcp"
_TOKEN = re.compile(rb"[A-Za-z0-9_-]{43}")


class TokenGuard:
    """Refuses every request without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with 401, or pass the request on."""
        if scope["type"] == "http":
            given = Headers(scope=scope).get("authorization", "").encode("utf-8", "replace")
            if not hmac.compare_digest(given, self._expected):
                refusal = PlainTextResponse("the token is missing or wrong\n", 401)
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def read_token(home: Path) -> str:
    """Return the token of a project; the first call creates it, readable only by the user."""
    folder = home / FOLDER
    if folder.is_symlink():
        raise Refused("a symbolic link, where the token belongs", where=str(folder), fix="remove it")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    path = folder / "token"
    try:
        content = read_regular(path)
    except FileNotFoundError:
        content = b""
    if not _TOKEN.fullmatch(content):
        content = secrets.token_urlsafe(32).encode()
        files.replace_file(folder / ".gitignore", b"*\n")
        files.replace_file(path, content)
        path.chmod(0o600)
    return content.decode()


def build_app(server: MCPServer[Any], port: int, token: str) -> ASGIApp:
    """Return the application behind its guards: the token, and the host and origin of each request."""
    hosts = [f"{HOST}:{port}", f"localhost:{port}"]
    rules = TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=[])
    return TokenGuard(server.streamable_http_app(transport_security=rules), token)


def serve(server: MCPServer[Any], home: Path, port: int, show: Callable[[str, str], None]) -> None:
    """Serve until a signal. `show` gets the address and the token."""
    token = read_token(home)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
        except OSError as error:
            fix = "choose another one with --port, or 0 for any free one"
            raise Refused(f"can't listen on port {port}: {error.strerror}", fix=fix) from error
        listening.listen(128)
        port = listening.getsockname()[1]
        config = uvicorn.Config(
            build_app(server, port, token),
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=2,
        )
        show(f"http://{HOST}:{port}{PATH}", token)
        uvicorn.Server(config).run(sockets=[listening])
