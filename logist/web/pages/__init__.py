"""One module for each page. `ROUTES` are all of them, below the prefix of the sessions."""

from __future__ import annotations

from logist.web.pages import changes, costs, decisions, events, inbox, job, jobs, workflow

ROUTES = [
    *inbox.ROUTES,
    *jobs.ROUTES,
    *job.ROUTES,
    *changes.ROUTES,
    *decisions.ROUTES,
    *events.ROUTES,
    *workflow.ROUTES,
    *costs.ROUTES,
]
