"""A web server of an attacker on this machine: serves one page, and keeps what browsers send it."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class Attacker:
    """Listens at a free port of 127.0.0.1 inside `with`; `page` is the HTML that it answers everything with."""

    def __init__(self, page: str = "") -> None:
        self.page = page
        self.headers: list[dict[str, str]] = []
        """Of each request; with its path as `:path`."""

    def __enter__(self) -> Self:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fields = {name.lower(): value for name, value in self.headers.items()}
                owner.headers.append(fields | {":path": self.path})
                body = owner.page.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815 - the name that http.server looks for

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])
