"""A person at the page, without a browser: requests to the application in this process."""

from __future__ import annotations

import html
import re
import tempfile
from pathlib import Path
from typing import Any

import httpx2
from starlette.testclient import TestClient

from logist.config.environment import Environment
from logist.jobs.base.project_opening import open_project
from logist.web.served_project import ServedProject
from logist.web.server import build_app, claim_folder
from logist.web.sessions import Sessions, create_link
from tests.cli.desk import Desk

PORT = 8722
ADDRESS = f"http://127.0.0.1:{PORT}"


class Visitor:
    """A browser that came in through a link: keeps the session, and posts forms as the page does."""

    def __init__(self, desk: Desk, folder: Path, steward: str | None = None) -> None:
        environment = Environment({"HOME": str(desk.place), "TMPDIR": tempfile.gettempdir(), **desk.env})
        self.project = ServedProject(
            lambda: open_project(
                environment, desk.place, say=lambda _: None
            )  # the command line gives its own
        )
        self.sessions = Sessions(folder, PORT, "ada")
        self.client = TestClient(
            build_app(self.project, self.sessions, PORT), base_url=ADDRESS, follow_redirects=False
        )
        key = create_link(folder, PORT, steward).partition("key=")[2]
        entered = self.client.post("/enter", data={"key": key}, headers={"Origin": ADDRESS})
        assert entered.status_code == 303, entered.text

    def get(self, path: str) -> httpx2.Response:
        """Load a page; `path` begins after the secret prefix."""
        answered: httpx2.Response = self.client.get(self.sessions.prefix + path)
        return answered

    def post(self, path: str, **fields: Any) -> httpx2.Response:
        """Post a form, and stay at its answer: 303 if it did something."""
        answered: httpx2.Response = self.client.post(
            self.sessions.prefix + path, data=fields, headers={"Origin": ADDRESS}
        )
        return answered

    def decide(self, job: str, decision: str, entered: str = "", **fields: Any) -> httpx2.Response:
        """Load the page of a job, and make a decision with the revision and the review hash that it shows."""
        shown = {name: value for name in ("revision", "seen") if (value := self.read_field(job, name))}
        path = f"/jobs/{job}/decide"
        return self.post(path, **(shown | {"decision": decision, "entered": entered} | fields))

    def read_field(self, job: str, name: str) -> str:
        """Return the value of a hidden field on the page of a job; "" if it has none."""
        found = re.search(rf'name="{name}" value="([^"]*)"', self.get(f"/jobs/{job}").text)
        return html.unescape(found[1]) if found else ""


def enter(desk: Desk) -> Visitor:
    """Return a visitor of the project, as its owner."""
    with claim_folder(desk.home, PORT) as folder:
        return Visitor(desk, folder)
