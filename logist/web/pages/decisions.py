"""Makes the decisions of a person: each is a form with the revision of the job that the person has seen."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from logist.core.machine.kinds import DECISIONS
from logist.core.model import Interaction
from logist.errors import LogistError
from logist.jobs.base.job_reader import read_interactions
from logist.jobs.base.result import CommandResult
from logist.jobs.step_job import GivenAnswer, do_poststep
from logist.jobs.steward.inbox_decisions import DecisionChoice, Input, make_decision, require_unchanged
from logist.jobs.steward.signed_decisions import NotSigned
from logist.jobs.turn.next_request import Choice
from logist.web.job_view import JobHead
from logist.web.line_comments import CommentDrafts, add_to_note, describe_kept, takes_comments
from logist.web.pages.job import load_job, render_job
from logist.web.site import Form, describe_error, get_session, get_site, get_status, post_handler
from logist.web.typed_commands import build_decision_command, require_signer

MOST_ENTRIES = 20
"""Interactions that a conflict lists."""
UNSIGNED = ("answer", "end_wait", "drop_failed", "merge")
"""Decisions that are not signed."""


def decide(request: Request, form: Form) -> Response:
    """Make one of the decisions that the state of the job allows."""
    head = load_job(request)
    name, entered = form.get("decision", ""), form.get("entered", "")
    choice = head.find_choice(name)
    if form.get("revision") != str(head.state.revision) or choice is None:
        return render_conflict(request, head, form)
    drafts = CommentDrafts(head)
    placed = drafts.place()
    is_with_comments = takes_comments(head, choice)
    if is_with_comments:
        entered = add_to_note(placed, entered)
    try:
        if choice.name not in UNSIGNED:
            require_signer(head.project)
        result = _make(head, choice, entered, form.get("seen") or None)
    except LogistError as error:
        typed = build_decision_command(head, choice, entered, form.get("seen") or None)
        return show_failure(request, head, form, error, command=typed)
    if is_with_comments:
        drafts.remove(each.comment.id for each in placed)
    elif placed:
        get_session(request).messages.append(describe_kept(placed))
    return finish(request, head.id, result)


def _make(head: JobHead, choice: DecisionChoice, entered: str, seen: str | None) -> CommandResult:
    if choice.input is not Input.ANSWER:
        return make_decision(head.project, head.id, head.state, choice, entered, seen=seen)
    require_unchanged(head.project, head.id, head.state)
    return do_poststep(head.project, head.id, GivenAnswer(entered), Choice(), revision=head.state.revision)


def finish(request: Request, job_id: str, result: CommandResult) -> Response:
    """Say on the page of the job what a decision did."""
    session = get_session(request)
    reason = f": {' '.join(result.state.reason.split())}" if result.state.place.stuck is not None else ""
    session.messages.append(f"Done: {job_id} is now {result.state.status.value}{reason}")
    session.messages += [*result.notes, *result.warnings]
    return get_site(request).redirect(f"/jobs/{job_id}")


def show_failure(
    request: Request, head: JobHead, form: Form, error: LogistError, *, command: str = ""
) -> Response:
    """Say why a decision was not made, and keep what the person has typed.

    `command`: what makes the decision in a terminal, to show it if the page can't sign the decision.
    """
    now = load_job(request)
    if now.state.revision != head.state.revision:
        return render_conflict(request, now, form)
    advice = f" ({error.fix})" if error.fix else ""
    status = get_status(error)
    return render_job(
        request,
        now,
        400 if status == 404 else status,
        problem=describe_error(error) + advice,
        entered=form,
        typed_command=command if isinstance(error, NotSigned) else "",
    )


def render_conflict(request: Request, head: JobHead, form: Form) -> Response:
    """Say what has happened to the job since the person saw it. Nothing was decided."""
    shown = form.get("revision", "")
    seen = int(shown) if shown.isascii() and shown.isdigit() and len(shown) < 12 else 0
    entries = [entry for entry in read_interactions(head.job) if entry.sequence > seen]
    return get_site(request).render(
        request,
        "conflict.html",
        409,
        job=head.id,
        state=head.state,
        entries=[(entry, _describe(entry)) for entry in entries[-MOST_ENTRIES:]],
        entered=form.get("entered", ""),
        is_stale=seen != head.state.revision,
    )


def _describe(entry: Interaction) -> str:
    """Return who did what, as words."""
    if entry.steward is not None and entry.kind in DECISIONS:
        return f"{entry.steward.name} decided: {entry.kind.value}"
    if entry.observed is not None:
        return f"{entry.observed.role} answered"
    return entry.kind.value


ROUTES = [Route("/jobs/{job}/decide", post_handler(decide), methods=["POST"])]
