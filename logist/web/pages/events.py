"""Live updates: tells an open page within a second which jobs have changed, also by other commands."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from logist.errors import LogistError
from logist.store.progress import read_last_record
from logist.store.progress_text import format_progress
from logist.web.served_project import ServedProject
from logist.web.site import get_site

LOOK_SECONDS = 0.5
LOAD = 10
"""Looking takes at most one of so many seconds, however many jobs there are."""
MOST_CHANGED = 200
"""Jobs in one event; for more, the page is told that all may have changed."""
KEEP_ALIVE_SECONDS = 15.0


async def stream_events(request: Request) -> Response:
    """Stream an event for each change; with `job`, also what its agent does."""
    project = get_site(request).project
    stream = _iter_events(project, request.query_params.get("job"))
    return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _iter_events(project: ServedProject, job_id: str | None) -> AsyncIterator[str]:
    seen = await run_in_threadpool(project.look)
    yield _format_event("hello", {"seen": seen.number})
    quiet = 0.0
    progress = None
    while not project.is_closing:
        started = asyncio.get_running_loop().time()
        await asyncio.sleep(LOOK_SECONDS)
        now = await run_in_threadpool(project.look)
        if now.number != seen.number:
            changed = now.list_changed(seen)
            waiting = sum(item.snoozed_until is None for item in now.inbox)
            listed = changed if len(changed) <= MOST_CHANGED else None
            yield _format_event("change", {"jobs": listed, "waiting": waiting, "seen": now.number})
            seen, quiet = now, 0.0
        if job_id is not None:
            latest = await run_in_threadpool(_describe_progress, project, job_id)
            if latest != progress:
                yield _format_event("progress", {"job": job_id, "text": latest})
                progress, quiet = latest, 0.0
        took = asyncio.get_running_loop().time() - started - LOOK_SECONDS
        await asyncio.sleep(max(0.0, took * LOAD))
        quiet += asyncio.get_running_loop().time() - started
        if quiet > KEEP_ALIVE_SECONDS:
            yield ": nothing new\n\n"
            quiet = 0.0


def _describe_progress(project: ServedProject, job_id: str) -> str | None:
    """Return what the agent of a job does; None if none works."""
    try:
        job = project.open_job(job_id)
    except LogistError:
        return None
    record = read_last_record(job.inflight)
    if record is None or not job.has_running_agent():
        return None
    return format_progress(record, record.seconds)


def _format_event(name: str, data: object) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


ROUTES = [Route("/events", stream_events)]
