"""One module for each page. `ROUTES` are all of them, below the prefix of the sessions."""

from __future__ import annotations

from logist.web.pages import changes, decisions, events, inbox, job, jobs

ROUTES = [*inbox.ROUTES, *jobs.ROUTES, *job.ROUTES, *changes.ROUTES, *decisions.ROUTES, *events.ROUTES]
