"""The exact prompt of the next step of a job, in its parts, as `logist job preview` prints it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from logist.web.history_view import list_parts
from logist.web.pages.history import WHOLE
from logist.web.pages.job import build_common, load_job
from logist.web.prompt_view import preview_prompt
from logist.web.site import get_site
from logist.web.texts import MOST_CHARACTERS


def show_prompt(request: Request) -> Response:
    """Show what the next step would send. Nothing is sent or written."""
    head = load_job(request)
    found = preview_prompt(head)
    return get_site(request).render(
        request,
        "prompt.html",
        found=found,
        parts=list(list_parts(found.plan.request)) if found.plan is not None else [],
        most=WHOLE if "whole" in request.query_params else MOST_CHARACTERS,
        **build_common(request, head, "prompt"),
    )


ROUTES = [Route("/jobs/{job}/prompt", show_prompt)]
