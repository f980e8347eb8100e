"""The workflow of a job: a drawing with the state of each step, and the child jobs that it waits for."""

from __future__ import annotations

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from logist.core.drawing.svg import describe_steps, draw_svg
from logist.core.machine.job_row import RUNNING
from logist.core.model import TERMINAL, Status, StepType
from logist.core.text.counts import format_count
from logist.errors import Refused
from logist.jobs.followed_workflow import Followed, read_followed
from logist.jobs.workflow_progress import SeenChild, find_step_number
from logist.web.job_view import JobHead
from logist.web.pages.job import build_common, load_job
from logist.web.site import get_site

MOST_CHILDREN = 200
"""Children in a table; the others are only counted."""


def show_workflow(request: Request) -> Response:
    """Show the drawing, the steps in words, and the child jobs."""
    head = load_job(request)
    found = _read(head)
    marks = found.marks
    children = order_children(found.children)
    return get_site(
        request
    ).render(
        request,
        "job_workflow.html",
        flow=found.flow,
        number=find_step_number(found.flow, found.state.step),
        is_open=found.state.status not in TERMINAL,
        drawing=Markup(draw_svg(found.flow, marks, taken=list_taken(found), here=found.state.step)),  # noqa: S704
        steps=describe_steps(found.flow, marks),
        children=children[:MOST_CHILDREN],
        left_out=max(0, len(children) - MOST_CHILDREN),
        gathered=[
            (step, mark.children)
            for step, mark in marks.items()
            if step != found.state.step and mark.children
        ],
        waits_for=describe_wait(found),
        revision=_describe_revision(head, found),
        follows=[child.id for child in list_all_children(found.children)],
        **build_common(request, head, "workflow"),
    )


def _read(head: JobHead) -> Followed:
    """Read the progress. Raises Refused for a job without a workflow, or with one of a newer Logist."""
    is_running = head.row["status"] in RUNNING.values()
    try:
        found = read_followed(head.job, head.state.model_dump(mode="json"), running=is_running)
    except ValueError as error:
        raise Refused("the workflow of this job needs a newer Logist", where=head.id) from error
    if found is None:
        raise Refused("nothing to draw: this job has no workflow", where=head.id)
    return found


def list_taken(found: Followed) -> set[tuple[str, str]]:
    """Return the branches that decisions took last: decision and target."""
    return {
        (decision, str(said["branch"]))
        for decision, said in found.told.way.decisions.items()
        if said.get("branch") is not None
    }


def order_children(children: tuple[SeenChild, ...]) -> list[SeenChild]:
    """Return the children that wait for a person first, then those that are not done, then the others."""
    return sorted(
        children,
        key=lambda child: (not child.waiting_for_steward, not child.is_open, child.status == Status.SUCCESS),
    )


def list_all_children(children: tuple[SeenChild, ...]) -> list[SeenChild]:
    """Return the children, and theirs."""
    return [each for child in children for each in (child, *list_all_children(child.children))]


def describe_wait(found: Followed) -> str:
    """Say what has to happen to the child jobs before the next step begins; "" if the job waits for none."""
    step, children = found.step, found.children
    if step is None or not children or found.state.status is not Status.WAITING:
        return ""
    done = sum(child.status == Status.SUCCESS for child in children)
    waiting = sum(bool(child.waiting_for_steward) for child in children)
    is_open = sum(child.is_open for child in children)
    others = len(children) - done - waiting - is_open
    parts = [
        f"{number} {words}"
        for number, words in (
            (done, "done"),
            (is_open, "can go on by themselves" if is_open > 1 else "can go on by itself"),
            (waiting, "wait for a person" if waiting > 1 else "waits for a person"),
            (others, "ended without success"),
        )
        if number
    ]
    needed = (
        f" and {step.min_success_percent:g} % of them are done" if step.step_type is StepType.FOREACH else ""
    )
    return (
        f"The job goes on as soon as none of its {format_count(len(children), 'child job')} is open{needed}. "
        f"Now: {', '.join(parts)}."
    )


def _describe_revision(head: JobHead, found: Followed) -> str:
    """Return a text that is another one as soon as something on the page has changed."""
    return " ".join(
        [str(head.state.revision), str(head.row["status"])]
        + [f"{child.id}={child.status_text}" for child in list_all_children(found.children)]
    )


ROUTES = [Route("/jobs/{job}/workflow", show_workflow)]
