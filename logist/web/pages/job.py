"""One job: why it waits, what was asked and done, and what a person can decide."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from logist.core.model import TERMINAL
from logist.jobs.steward.inbox_decisions import PAID_TEXT
from logist.web.changes_query import ChangesQuery
from logist.web.checked_answer import CheckedAnswer
from logist.web.diff_view import DiffOptions, build_diff
from logist.web.job_actions import list_actions
from logist.web.job_view import (
    JobHead,
    build_overview,
    find_changes,
    get_default_answer,
    load_head,
    needs_text,
)
from logist.web.line_comments import CommentDrafts, takes_comments
from logist.web.site import get_session, get_site
from logist.web.typed_commands import are_decisions_signed

MOST_DIFF_LINES = 400
"""Lines of the diff on this page; more are on the page with the changes."""


def show_job(request: Request) -> Response:
    """Show what a person reads before deciding, and the decisions."""
    return render_job(request, load_job(request))


def load_job(request: Request) -> JobHead:
    """Load the job of a request."""
    return load_head(get_site(request).project, get_session(request), request.path_params["job"])


def render_job(
    request: Request,
    head: JobHead,
    status: int = 200,
    *,
    problem: str = "",
    entered: dict[str, str] | None = None,
    typed_command: str = "",
    checked: CheckedAnswer | None = None,
) -> Response:
    """Return the page of a job.

    `problem`: why a decision was not made; `entered`: what a person had typed for it; `typed_command`: what does the
    same in a terminal; `checked`: what an answer would do.
    """
    changes = find_changes(head, most_lines=MOST_DIFF_LINES)
    common = build_common(request, head, "overview")
    return get_site(request).render(
        request,
        "job.html",
        status,
        overview=build_overview(head, changes),
        changes=changes,
        problem=problem,
        entered=entered or {},
        default_answer=get_default_answer(head),
        paid_text=PAID_TEXT,
        typed_command=typed_command,
        must_type=are_decisions_signed(head.project) and not head.project.may_sign,
        checked=checked,
        actions=list_actions(head),
        diff=build_diff(changes, DiffOptions(MOST_DIFF_LINES, MOST_DIFF_LINES, common["comments"])),
        query=ChangesQuery(),
        form=None,
        **common,
    )


TABS = [
    ("overview", "Overview"),
    ("changes", "Changes"),
    ("workflow", "Workflow"),
    ("history", "History"),
    ("prompt", "Next prompt"),
]
"""The pages of a job: the end of the path, and the label."""


def build_common(request: Request, head: JobHead, tab: str) -> dict[str, Any]:
    """Return what all pages of a job show. `tab`: which of them this is."""
    following = [item.job for item in get_site(request).project.look().waiting]
    place = following.index(head.id) if head.id in following else -1
    others = following[place + 1 :] + following[: max(place, 0)]
    comments = CommentDrafts(head).place()
    return {
        "comments": comments,
        "takes_comments": lambda choice: bool(comments) and takes_comments(head, choice),
        "changes_link": f"{get_site(request).sessions.prefix}/jobs/{head.id}/changes",
        "head": head,
        "job": head.id,
        "state": head.state,
        "item": head.item,
        "tab": tab,
        "tabs": [each for each in TABS if _has_tab(head, each[0])],
        "needs_text": needs_text,
        "next_job": others[0] if others else None,
    }


def _has_tab(head: JobHead, tab: str) -> bool:
    if tab == "prompt":
        return head.state.status not in TERMINAL
    return tab != "workflow" or head.state.workflow is not None


ROUTES = [Route("/jobs/{job}", show_job)]
