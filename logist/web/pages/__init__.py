"""One module for each page. `ROUTES` are all of them, below the prefix of the sessions."""

from __future__ import annotations

from logist.web.pages import costs, decisions, events, inbox, job, jobs, workflow

ROUTES = [
    *inbox.ROUTES,
    *jobs.ROUTES,
    *job.ROUTES,
    *decisions.ROUTES,
    *events.ROUTES,
    *workflow.ROUTES,
    *costs.ROUTES,
]
