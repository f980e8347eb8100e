"""The history of a job: each interaction on a line, the latest first, and a page for each of them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from logist.errors import UsageError
from logist.web import history_view
from logist.web.history_view import MOST_VERIFIED, PAGE_SIZE
from logist.web.job_actions import list_returns
from logist.web.pages.job import build_common, load_job
from logist.web.site import get_site
from logist.web.texts import MOST_CHARACTERS

WHOLE = 3_000_000
"""Characters of a text on a page of an interaction, if a person asks for all of it."""


def show_history(request: Request) -> Response:
    """Show a page of the history; with `verify`, also whether the files of a job with many interactions verify."""
    head = load_job(request)
    count = head.state.revision
    pages = max(1, -(-count // PAGE_SIZE))
    page = min(_read_page_number(request.query_params.get("page", "")), pages)
    is_verified = count <= MOST_VERIFIED or "verify" in request.query_params
    return get_site(request).render(
        request,
        "history.html",
        rows=history_view.read_page(head, page),
        page=page,
        pages=pages,
        count=count,
        chain=history_view.verify_chain(head) if is_verified else None,
        **build_common(request, head, "history"),
    )


def show_interaction(request: Request) -> Response:
    """Show all of one interaction; long texts only to their limit, unless `whole` is there."""
    head = load_job(request)
    number = _read_number(request.path_params["number"])
    entry = history_view.find_interaction(head, number)
    return get_site(request).render(
        request,
        "interaction.html",
        entry=entry,
        view=history_view.build_view(head, entry),
        parts=list(history_view.list_parts(entry.request)),
        returns=list_returns(head, number),
        most=WHOLE if "whole" in request.query_params else MOST_CHARACTERS,
        last=head.state.revision,
        entered={},
        checked=None,
        **build_common(request, head, "history"),
    )


def _read_page_number(text: str) -> int:
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 12 else 1


def _read_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 12):
        raise UsageError(f"interaction {text[:60]!r} not found")
    return max(1, int(text))


ROUTES = [
    Route("/jobs/{job}/history", show_history),
    Route("/jobs/{job}/history/{number}", show_interaction),
]
