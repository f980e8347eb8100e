"""Does what a person can do with a job besides the decision that it waits for, and checks an answer while one types."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from logist.errors import LogistError
from logist.jobs.steward.job_merge import MergeResult, describe_merge
from logist.web import job_actions
from logist.web.checked_answer import check_answer
from logist.web.job_view import JobHead
from logist.web.pages.decisions import render_conflict, show_failure
from logist.web.pages.job import build_common, load_job, render_job
from logist.web.site import Form, describe_error, get_session, get_site, post_handler
from logist.web.typed_commands import build_command, require_signer

MOST_FILES = 200
"""Files of a merge that are listed."""
MOST_PATCH = 200_000
"""Characters of the patch of a merge."""


def act(request: Request, form: Form) -> Response:
    """Do what a form of the page asks for, if the job is as the person has seen it."""
    head = load_job(request)
    action = job_actions.find_action(head, request.path_params["action"])
    if form.get("revision") != str(head.state.revision) or action is None:
        return render_conflict(request, head, form)
    try:
        if action.name == job_actions.LOOK_AT_MERGE:
            return _show_merge(request, head, job_actions.look_at_merge(head))
        if action.command:
            require_signer(head.project)
        done = action.make(head, form)
    except LogistError as error:
        typed = build_command(head, action.command, form.get("entered", "")) if action.command else ""
        return show_failure(request, head, {**form, "action": action.name}, error, command=typed)
    get_session(request).messages += [done.message, *done.notes]
    return get_site(request).redirect(f"/jobs/{done.job or head.id}")


def _show_merge(request: Request, head: JobHead, merged: MergeResult) -> Response:
    found = merged.published
    return get_site(request).render(
        request,
        "merge.html",
        said=describe_merge(found, would=True),
        found=found,
        problem=describe_error(found.blocked) if found.blocked is not None else "",
        advice=(found.blocked.fix or "") if found.blocked is not None else "",
        files=found.files[:MOST_FILES],
        more=max(0, len(found.files) - MOST_FILES),
        most_patch=MOST_PATCH,
        action=None if found.blocked or found.conflicts else job_actions.build_merge(head),
        entered={},
        **build_common(request, head, "overview"),
    )


def validate(request: Request, form: Form) -> Response:
    """Say what an answer would do, without recording it: for the script as JSON, for a person as the page of the job."""
    head = load_job(request)
    checked = check_answer(head, form.get("entered", ""))
    if "application/json" in request.headers.get("accept", ""):
        return JSONResponse({"is_valid": checked.is_valid, "lines": list(checked.lines)})
    form = dict(form)
    if not form.get("decision"):
        form["action"] = "answer"
    if form.get("revision") != str(head.state.revision):
        note = "The job has changed since you looked at it."
        checked = replace(checked, lines=(*checked.lines, note))
    return render_job(request, head, entered=form, checked=checked)


ROUTES = [
    Route("/jobs/{job}/act/{action}", post_handler(act), methods=["POST"]),
    Route("/jobs/{job}/validate", post_handler(validate), methods=["POST"]),
]
