"""What all pages share: templates, forms, and errors as pages."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from fractions import Fraction
from typing import Any, cast
from urllib.parse import parse_qsl, quote

import jinja2
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from logist import __version__
from logist.core.machine import waiting
from logist.core.machine.job_row import format_cost
from logist.core.money import amounts
from logist.core.text.counts import format_count
from logist.errors import Busy, Damaged, LogistError, Refused, UsageError
from logist.timestamps import format_local
from logist.web import texts
from logist.web.served_project import SeenJobs, ServedProject
from logist.web.sessions import Sessions, WebSession

MOST_FIELDS = 200

Form = dict[str, str]
Handler = Callable[[Request, Form], Response]


class Site:
    """What every page works with: the project, the sessions, and the templates."""

    def __init__(self, project: ServedProject, sessions: Sessions) -> None:
        self.project = project
        self.sessions = sessions
        self._templates = jinja2.Environment(
            loader=jinja2.PackageLoader("logist.web"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "text": texts.show_text,
            "line": texts.to_one_line,
            "age": _format_time_since,
            "local": format_local,
            "money": amounts.format_money,
            "cents": _format_cents,
            "path": lambda value: quote(str(value), safe="", errors="replace"),
            "count": format_count,
            "duration": texts.format_age,
            "cost": format_cost,
        }
        self._templates.globals |= {"version": __version__, "kinds": waiting.KIND_TEXTS}

    def render(self, request: Request, template: str, code: int = 200, **values: Any) -> Response:
        """Return a page."""
        session: WebSession | None = request.scope["session"]
        seen = self._look() if session is not None else None
        # A script in the background must not take the messages for the page that a person is about to see.
        is_page = request.headers.get("sec-fetch-mode", "navigate") == "navigate"
        common = {
            "base": self.sessions.prefix if session is not None else "",  # it is a secret
            "project": self.project.name,
            "steward": session.steward if session is not None else None,
            "waiting": len(seen.waiting) if seen is not None else 0,
            "seen": seen.number if seen is not None else 0,
            "messages": session.take_messages() if session is not None and is_page else [],
            "here": request.url.path,
            "answers_form": request.method == "POST",
        }
        page = self._templates.get_template(template).render(**common, **values)
        return HTMLResponse(page.encode("utf-8", "replace"), code)

    def _look(self) -> SeenJobs | None:
        """Return all jobs; None if they can't be listed, since the page that says so needs them too."""
        try:
            return self.project.look()
        except LogistError:
            return None

    def redirect(self, path: str) -> Response:
        """Return a redirection to a page, after a form was posted."""
        return RedirectResponse(self.sessions.prefix + path, 303)


def get_site(request: Request) -> Site:
    """Return the site of a request."""
    return cast("Site", request.app.state.site)


def get_session(request: Request) -> WebSession:
    """Return the session of a request; the guard has let no other requests through."""
    return cast("WebSession", request.scope["session"])


def post_handler(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that reads the form, and then calls the handler in a thread."""

    async def endpoint(request: Request) -> Response:
        try:
            form = parse_form(await request.body())
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except ValueError:
            text = f"It must be UTF-8 in the encoding of a form, with at most {MOST_FIELDS} fields."
            return get_site(request).render(
                request, "error.html", 400, title="The form can't be read", text=text, advice=None
            )
        response = await run_in_threadpool(handler, request, form)
        get_site(request).project.expect_change()
        return response

    return endpoint


def parse_form(body: bytes) -> Form:
    """Return the fields of a form; of a field that is there twice, the last. Raises ValueError."""
    pairs = parse_qsl(
        body.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict"
    )
    return {name: value.replace("\r\n", "\n") for name, value in pairs}


def get_status(error: LogistError) -> int:
    """Return the HTTP status for an error."""
    if isinstance(error, Busy):
        return 423
    if isinstance(error, Refused):
        return 409
    if isinstance(error, UsageError):
        return 404 if "not found" in error.message else 400
    return 500


def show_error(request: Request, error: Exception) -> Response:
    """Return an error as a page, with the sentences that the terminal prints."""
    assert isinstance(error, LogistError)
    titles = {404: "Not found", 409: "Not possible now", 423: "The job is being worked on", 400: "Not valid"}
    status = get_status(error)
    title = titles.get(status, "That did not work")
    if isinstance(error, Damaged):
        title = f"{request.path_params.get('job', 'The job')}: files are damaged"
    return get_site(request).render(
        request, "error.html", status, title=title, text=describe_error(error), advice=error.fix
    )


def describe_error(error: LogistError) -> str:
    """Return what is wrong, and where, without the advice."""
    details = "".join(f"\n{detail}" for detail in error.details)
    return f"{error.where}: {error.message}{details}" if error.where else error.message + details


def _format_cents(cents: float) -> str:
    """Return an amount in US cents as money; a limit may be so large that a float of a smaller unit is infinite."""
    return amounts.format_money(round(Fraction(cents) * 1_000_000))


def _format_time_since(timestamp: object) -> str:
    """Return how long ago a recorded time is, or seconds since 1970."""
    try:
        at = timestamp if isinstance(timestamp, float) else datetime.fromisoformat(str(timestamp)).timestamp()
    except ValueError:
        return ""
    return texts.format_age(max(0.0, time.time() - at))
