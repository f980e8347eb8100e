"""Live updates: tells an open page within a second which jobs have changed, also by other commands."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from logist.errors import LogistError
from logist.web.agent_tail import AgentEvent, AgentTail
from logist.web.served_project import SeenJobs, ServedProject
from logist.web.site import get_session, get_site

LOOK_SECONDS = 0.5
LOAD = 10
"""Looking takes at most one of so many seconds, however many jobs there are."""
MOST_CHANGED = 200
"""Jobs in one event; for more, the page is told that all may have changed."""
KEEP_ALIVE_SECONDS = 15.0

NOTHING = SeenJobs(0, {}, {}, [])

Progress = tuple[str | None, list[AgentEvent]]


async def stream_events(request: Request) -> Response:
    """Stream an event for each change after `seen`, the number that the page has; with `job`, also what its agent does."""
    site, session = get_site(request), get_session(request)
    asked = request.query_params
    stream = iter_events(
        site.project,
        asked.get("seen", ""),
        asked.get("job"),
        is_wanted=lambda: site.sessions.is_open(session),
    )
    return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def iter_events(
    project: ServedProject, number: str, job_id: str | None, *, is_wanted: Callable[[], bool] = lambda: True
) -> AsyncGenerator[str, None]:
    """Yield the events of `stream_events`, until the caller closes this, or the person has signed out."""
    tail = _open_tail(project, job_id)
    try:
        async for event in _iter_job_events(project, number, tail, is_wanted):
            yield event
    finally:
        if tail is not None:
            tail.close()


async def _iter_job_events(
    project: ServedProject, number: str, tail: AgentTail | None, is_wanted: Callable[[], bool]
) -> AsyncGenerator[str, None]:
    seen = await run_in_threadpool(_look, project, NOTHING)
    # What a page missed while nobody looked at it, or while the connection was lost, is not known one by one.
    yield _format_change(seen, None) if number != str(seen.number) else ": listening\n\n"
    quiet = 0.0
    progress = None

    def is_over() -> bool:
        return project.is_closing or not is_wanted()

    while not is_over():
        started = asyncio.get_running_loop().time()
        await asyncio.sleep(LOOK_SECONDS)
        now = await run_in_threadpool(_look, project, seen)
        if now.number != seen.number:
            changed = now.list_changed(seen)
            yield _format_change(now, changed if len(changed) <= MOST_CHANGED else None)
            seen, quiet = now, 0.0
        if tail is not None:
            latest, events = await run_in_threadpool(_read_progress, tail)
            if latest != progress or events:
                lines = [{"id": each.id, "text": each.text} for each in events]
                yield _format_event("progress", {"text": latest, "lines": lines})
                progress, quiet = latest, 0.0
        took = asyncio.get_running_loop().time() - started - LOOK_SECONDS
        await _pause(took * LOAD, is_over)
        quiet += asyncio.get_running_loop().time() - started
        if quiet > KEEP_ALIVE_SECONDS:
            yield ": nothing new\n\n"
            quiet = 0.0


async def _pause(seconds: float, is_over: Callable[[], bool]) -> None:
    """Wait, but not longer than a look takes if the stream is over meanwhile."""
    now = asyncio.get_running_loop().time
    end = now() + seconds
    while not is_over() and (left := end - now()) > 0:
        await asyncio.sleep(min(left, LOOK_SECONDS))


def _look(project: ServedProject, earlier: SeenJobs) -> SeenJobs:
    """Return all jobs; if they can't be listed now, as they were earlier: the stream goes on, and a page says why."""
    try:
        return project.look()
    except LogistError:
        return earlier


def _open_tail(project: ServedProject, job_id: str | None) -> AgentTail | None:
    try:
        return AgentTail(project.open_job(job_id)) if job_id is not None else None
    except LogistError:
        return None


def _read_progress(tail: AgentTail) -> Progress:
    return tail.describe_now(), tail.read_new()


def _format_change(seen: SeenJobs, changed: list[str] | None) -> str:
    """Return an event for changed jobs; None: any may have changed."""
    return _format_event("change", {"jobs": changed, "waiting": len(seen.waiting), "seen": seen.number})


def _format_event(name: str, data: object) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


ROUTES = [Route("/events", stream_events)]
