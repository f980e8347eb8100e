"""One module for each page. `ROUTES` are all of them, below the prefix of the sessions."""

from __future__ import annotations

from logist.web.pages import actions, decisions, events, history, inbox, job, jobs, prompt

ROUTES = [
    *inbox.ROUTES,
    *jobs.ROUTES,
    *job.ROUTES,
    *decisions.ROUTES,
    *actions.ROUTES,
    *history.ROUTES,
    *prompt.ROUTES,
    *events.ROUTES,
]
