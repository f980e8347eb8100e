"""The inbox: what waits for a person, and what is running. The first page."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from logist.core.machine.job_row import RUNNING
from logist.core.machine.waiting import KIND_TEXTS
from logist.web.site import get_site

MOST_ITEMS = 500
"""Jobs on the page; a search finds the others."""
SHOWN = 10
"""Running jobs, and jobs that ended last."""
_ENDED = ("SUCCESS", "FAILED", "CANCELED")


def show_inbox(request: Request) -> Response:
    """Show the jobs that wait for a person; `q` searches in them."""
    site = get_site(request)
    seen = site.project.look()
    words = request.query_params.get("q", "").casefold().split()
    found = [
        item
        for item in seen.inbox
        if _has_words(words, item.job, item.title, item.reason, item.kind, *item.tags)
    ]
    rows = seen.rows.values()
    running = [row for row in rows if row["status"] in RUNNING.values()]
    ready = sum(row["status"] in RUNNING for row in rows)
    ended = sorted((row for row in rows if row["status"] in _ENDED), key=lambda row: str(row["updated_at"]))
    return site.render(
        request,
        "inbox.html",
        items=[item for item in found if item.snoozed_until is None][:MOST_ITEMS],
        snoozed=[item for item in found if item.snoozed_until is not None][:MOST_ITEMS],
        left_out=max(0, len(found) - MOST_ITEMS),
        running=running[:SHOWN],
        running_count=len(running),
        ready=ready,
        ended=ended[: -SHOWN - 1 : -1],
        total=len(rows),
        query=request.query_params.get("q", ""),
    )


def _has_words(words: list[str], *texts: str) -> bool:
    everything = "\n".join((*texts, KIND_TEXTS.get(texts[3], ""))).casefold()
    return all(word in everything for word in words)


ROUTES = [Route("/", show_inbox)]
