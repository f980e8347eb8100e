"""All jobs: by status, by tag, or with words in their id, title or reason."""

from __future__ import annotations

from collections import Counter
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from logist.core.machine.job_row import RUNNING
from logist.core.machine.predecessors import describe_unmet
from logist.jobs.base.predecessors import find_unmet
from logist.store.listing import read_glances
from logist.web.site import get_site

PAGE = 100
"""Jobs on a page."""

Row = dict[str, Any]


def show_jobs(request: Request) -> Response:
    """Show a page of all jobs, those that changed last first."""
    site = get_site(request)
    asked = request.query_params
    query, status, tag = asked.get("q", ""), asked.get("status", ""), asked.get("tag", "")
    rows = list(site.project.look().rows.values())
    words = query.casefold().split()
    matching = [row for row in rows if _matches(row, words, tag)]
    counts = Counter(str(row["status"]) for row in matching)
    found = [row for row in matching if not status or row["status"] == status]
    found.sort(key=lambda row: (str(row["updated_at"]), str(row["id"])), reverse=True)
    number = _read_page_number(asked.get("page", ""), len(found))
    shown = found[(number - 1) * PAGE : number * PAGE]
    return site.render(
        request,
        "jobs.html",
        rows=shown,
        waits=_describe_waits(str(site.project.jobs_dir), shown),
        found=len(found),
        total=len(rows),
        counts=sorted(counts.items()),
        query=query,
        status=status,
        tag=tag,
        page=number,
        pages=max(1, -(-len(found) // PAGE)),
        link=lambda **changed: (
            "?" + urlencode({"q": query, "status": status, "tag": tag, **changed}, errors="replace")
        ),
    )


def _describe_waits(jobs_dir: str, rows: list[Row]) -> dict[str, str]:
    """Return what jobs wait for before they begin, by id. It changes although their own files don't."""
    ids = [str(row["id"]) for row in rows if row["status"] in RUNNING]
    return {
        glance.id: describe_unmet(unmet)
        for glance in read_glances(jobs_dir, ids)
        if glance.state is not None and (unmet := find_unmet(jobs_dir, glance.state))
    }


def _matches(row: Row, words: list[str], tag: str) -> bool:
    if tag and tag not in row["tags"]:
        return False
    everything = f"{row['id']}\n{row['title']}\n{row['reason']}\n{row['role']}".casefold()
    return all(word in everything for word in words)


def _read_page_number(text: str, found: int) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 1
    return min(max(1, number), max(1, -(-found // PAGE)))


ROUTES = [Route("/jobs", show_jobs)]
