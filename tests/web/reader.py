"""A person who reads the pages of an example project, without a browser."""

from __future__ import annotations

import html
import re
from pathlib import Path

from starlette.testclient import TestClient

from logist.web.examples.project import ExampleProject
from logist.web.served_project import ServedProject
from logist.web.server import build_app
from logist.web.sessions import Sessions, create_link

PORT = 8722
ADDRESS = f"http://127.0.0.1:{PORT}"


class Reader:
    """Signed in at the page; reads it in this process."""

    def __init__(self, example: ExampleProject, folder: Path) -> None:
        (folder / "links").mkdir(parents=True)
        self.served = ServedProject(example.open)
        self._sessions = Sessions(folder, PORT, "alex")
        app = build_app(self.served, self._sessions, PORT)
        self._client = TestClient(app, base_url=ADDRESS, follow_redirects=False)
        key = create_link(folder, PORT).partition("key=")[2]
        assert self._client.post("/enter", data={"key": key}, headers={"Origin": ADDRESS}).status_code == 303

    def read(self, path: str, status: int = 200) -> str:
        """Return the source of a page."""
        answer = self._client.get(self._sessions.prefix + path)
        assert answer.status_code == status, answer.text
        return str(answer.text)

    def read_text(self, path: str, status: int = 200) -> str:
        """Return the text of a page, on one line."""
        without_tags = re.sub(r"<[^>]*>", " ", self.read(path, status))
        return " ".join(html.unescape(without_tags).split())
