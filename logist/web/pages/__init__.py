"""One module for each page. `ROUTES` are all of them, below the prefix of the sessions."""

from __future__ import annotations

from logist.web.pages import (
    actions,
    changes,
    costs,
    decisions,
    events,
    history,
    inbox,
    job,
    jobs,
    prompt,
    workflow,
)

ROUTES = [
    *inbox.ROUTES,
    *jobs.ROUTES,
    *job.ROUTES,
    *changes.ROUTES,
    *decisions.ROUTES,
    *actions.ROUTES,
    *history.ROUTES,
    *prompt.ROUTES,
    *events.ROUTES,
    *workflow.ROUTES,
    *costs.ROUTES,
]
