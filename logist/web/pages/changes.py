"""What has changed in the files of a job, line by line, and comments on lines, which go with the next note to the agent."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from logist.errors import LogistError
from logist.jobs.steward.inbox_decisions import PAID_TEXT
from logist.web import line_comments
from logist.web.changes_query import ChangesQuery, read_query
from logist.web.diff_view import DiffOptions, DiffView, LineKey, build_diff, parse_line_key
from logist.web.job_view import Changes, JobHead, find_changes, get_default_answer
from logist.web.line_comments import CommentDrafts
from logist.web.pages.decisions import render_conflict
from logist.web.pages.job import build_common, load_job
from logist.web.site import Form, describe_error, get_site, get_status, post_handler

LINES_PER_FILE = 400
LINES_PER_PAGE = 3_000
LINES_OF_ONE_FILE = 3_000
"""If the page shows only one file."""
SCOPES = {
    "start": "since the start",
    "review": "since the last review",
    "approval": "since the last approval",
}


def show_changes(request: Request) -> Response:
    """Show the changes of a job."""
    return render_changes(request, load_job(request), read_query(request.query_params))


def render_changes(
    request: Request,
    head: JobHead,
    query: ChangesQuery,
    status: int = 200,
    *,
    problem: str = "",
    typed: str = "",
) -> Response:
    """Return the page with changes. `problem`: why a comment was not kept; `typed`: its text."""
    changes = find_changes(head, query.build_scope())
    common = build_common(request, head, "changes")
    lines_per_file = LINES_OF_ONE_FILE if query.path else LINES_PER_FILE
    diff = build_diff(changes, DiffOptions(lines_per_file, LINES_PER_PAGE, common["comments"], query.form))
    quote = _find_quote(head, changes, diff, query.form)
    return get_site(request).render(
        request,
        "changes.html",
        status,
        changes=changes,
        diff=diff,
        query=query,
        scopes=SCOPES.items(),
        commented={placed.comment.path for placed in common["comments"]},
        form=query.form,
        quote=quote,
        comment_fields=_build_fields(changes, query, quote or "") if query.form is not None else {},
        problem=problem,
        typed=typed,
        most_characters=line_comments.MOST_CHARACTERS,
        entered={},
        checked=None,
        default_answer=get_default_answer(head),
        paid_text=PAID_TEXT,
        **common,
    )


def _find_quote(head: JobHead, changes: Changes, diff: DiffView, form: LineKey | None) -> str | None:
    """Return the line that a comment is written for; None if it is neither shown nor in a present file."""
    if form is None or diff.quote is not None:
        return diff.quote
    if form.is_old or changes.after != line_comments.ON_DISK:
        return None
    return line_comments.read_line(head, form.path, form.number)


def _build_fields(changes: Changes, query: ChangesQuery, quote: str) -> dict[str, str]:
    """Return the hidden fields of the form for a comment."""
    assert query.form is not None
    return {
        "id": line_comments.create_comment_id(),
        "comment": str(query.form),
        "side": changes.before if query.form.is_old else changes.after,
        "quote": line_comments.quote_line(quote),
        "query": urlencode(query.list_parameters(), errors="replace"),
    }


def add_comment(request: Request, form: Form) -> Response:
    """Keep a comment on a line as a draft."""
    head = load_job(request)
    if form.get("revision") != str(head.state.revision):
        return render_conflict(request, head, form)
    key = parse_line_key(form.get("comment", "")) or LineKey("", False, 0)
    query = _read_return_query(form)
    comment = line_comments.create_comment(
        form.get("id", ""),
        key.path,
        key.number,
        form.get("side", ""),
        form.get("quote", ""),
        form.get("entered", ""),
        is_old=key.is_old,
        revision=head.state.revision,
    )
    try:
        CommentDrafts(head).add(comment)
    except LogistError as error:
        advice = f" ({error.fix})" if error.fix else ""
        return render_changes(
            request,
            head,
            query._replace(form=key if key.path else None),
            get_status(error),
            problem=describe_error(error) + advice,
            typed=form.get("entered", ""),
        )
    return get_site(request).redirect(f"/jobs/{head.id}/changes{query.build_link()}#comment-{comment.id}")


def remove_comment(request: Request, form: Form) -> Response:
    """Remove a draft."""
    head = load_job(request)
    if form.get("revision") != str(head.state.revision):
        return render_conflict(request, head, form)
    CommentDrafts(head).remove([form.get("id", "")])
    page = f"/changes{_read_return_query(form).build_link()}" if form.get("page") == "changes" else ""
    return get_site(request).redirect(f"/jobs/{head.id}{page}#decide")


def _read_return_query(form: Form) -> ChangesQuery:
    """Return what the page showed from which a form was sent."""
    return read_query(QueryParams(form.get("query", "")))


ROUTES = [
    Route("/jobs/{job}/changes", show_changes),
    Route("/jobs/{job}/comments", post_handler(add_comment), methods=["POST"]),
    Route("/jobs/{job}/comments/remove", post_handler(remove_comment), methods=["POST"]),
]
