"""The page of a project, in this process, for the tests of what a person can do on it."""

from __future__ import annotations

import html
import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from httpx2 import Response

from logist.config.environment import Environment
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.project_opening import open_project
from logist.web.served_project import ServedProject
from logist.web.server import build_app
from logist.web.sessions import Sessions, create_link
from tests.cli.desk import Desk

with warnings.catch_warnings():  # it would rather use a newer client, which is not released yet
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

PORT = 8799


class ActionPage:
    """A browser without a script, signed in at the page of a desk."""

    def __init__(
        self, desk: Desk, *, env: Mapping[str, str] | None = None, steward: str | None = None
    ) -> None:
        self.desk = desk
        self._env = desk.env | dict(env or {})
        folder = desk.home / "serve" / str(PORT)
        (folder / "links").mkdir(parents=True, exist_ok=True)
        self.served = ServedProject(self._open)
        self.sessions = Sessions(folder, PORT, "ada")
        self.base = self.sessions.prefix
        self.client = TestClient(
            build_app(self.served, self.sessions, PORT),
            base_url=f"http://127.0.0.1:{PORT}",
            headers={"Origin": f"http://127.0.0.1:{PORT}"},
            follow_redirects=False,
        )
        key = create_link(folder, PORT, steward).partition("key=")[2]
        entered = self.client.post("/enter", data={"key": key})
        assert entered.status_code == 303, entered.text

    def _open(self) -> ProjectContext:
        return open_project(Environment(dict(os.environ) | self._env), self.desk.place, say=lambda text: None)

    def get(self, path: str, **headers: str) -> Response:
        response: Response = self.client.get(f"{self.base}{path}", headers=headers)
        return response

    def read(self, path: str) -> str:
        """Return the text of a page, without its tags."""
        response = self.get(path)
        assert response.status_code == 200, response.text
        return strip_tags(response.text)

    def post(self, path: str, **form: Any) -> Response:
        """Post a form; `headers` are no field of it."""
        headers = form.pop("headers", None)
        response: Response = self.client.post(f"{self.base}{path}", data=form, headers=headers)
        return response

    def act(self, name: str, job: str = "j1", **form: str) -> Response:
        """Post the form of an action as the page of the job has it now."""
        form = {"revision": self.revision(job), **form}
        return self.post(f"/jobs/{job}/act/{name}", **form)

    def do(self, name: str, job: str = "j1", **form: str) -> str:
        """Do something, and return the message that the next page shows."""
        response = self.act(name, job, **form)
        assert response.status_code == 303, strip_tags(response.text)
        shown = self.client.get(response.headers["location"])
        assert shown.status_code == 200
        return " ".join(
            html.unescape(each) for each in re.findall('class="message"[^>]*>([^<]*)<', shown.text)
        )

    def revision(self, job: str = "j1") -> str:
        found = re.search(r'data-revision="(\d+)"', self.get(f"/jobs/{job}").text)
        assert found
        return found[1]

    def list_actions(self, job: str = "j1") -> set[str]:
        """Return the names of the actions that the page of a job offers."""
        return set(re.findall(r'/act/([a-z_]+)"', self.get(f"/jobs/{job}").text))


def strip_tags(page: str) -> str:
    """Return the text of a page on one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def write_file(desk: Desk, name: str, text: str, job: str = "j1") -> Path:
    """Write a file into the workspace of a job."""
    file = desk.job(job) / "workspace" / name
    file.write_text(text, "utf-8")
    return file
