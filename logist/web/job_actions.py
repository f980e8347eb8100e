"""What a person can do with a job besides the decision that it waits for: the forms, and what each of them does.

Each is the use case of a command. The forms that the page shows are those that the state of the job allows; the use
case checks again, under the job's lock.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from enum import StrEnum

from logist.core.history import fold
from logist.core.model import HALTED, TERMINAL, Kind, Status, StuckKind
from logist.errors import Busy, Refused, UsageError
from logist.jobs.archive.job_fork import fork_job
from logist.jobs.base.result import CommandResult
from logist.jobs.step_job import GivenAnswer, do_poststep
from logist.jobs.steward.inbox_decisions import require_unchanged
from logist.jobs.steward.job_edits import configure_job, set_rank
from logist.jobs.steward.job_merge import MergeResult, describe_merge, merge_job
from logist.jobs.steward.role_switch import switch_role
from logist.jobs.steward.snoozing import parse_snooze_end, snooze_job
from logist.jobs.steward.steward_decisions import record_decision, rerun_job, restep_job
from logist.jobs.turn.next_request import Choice
from logist.quick_dataclass import dataclass
from logist.timestamps import format_local
from logist.web.job_view import JobHead, get_default_answer

LIMITS = {
    "cost_threshold": "Cost, in US cents",
    "time_threshold_minutes": "Time that agents work, in minutes",
    "max_allowed_iterations": "Runs of agents",
    "max_attempts": "Attempts per step",
}
LOOK_AT_MERGE = "look_at_merge"
"""The action that changes nothing: it shows what a merge would do."""
LONGEST_DESCRIPTION = 90
"""Characters of the description of a role, in a list to choose from."""


class FieldKind(StrEnum):
    """How a field of a form is filled in."""

    LINE = "line"
    NOTE = "note"
    NUMBER = "number"
    CHOICE = "choice"
    TICK = "tick"
    ANSWER = "answer"
    HIDDEN = "hidden"


@dataclass(frozen=True)
class FormField:
    """One field of a form."""

    name: str
    label: str
    kind: FieldKind = FieldKind.LINE
    value: str = ""
    """What it contains at first; for a tick, whether it is set."""
    options: tuple[tuple[str, str], ...] = ()
    """For a choice: each value, with what the page shows."""
    is_required: bool = False


@dataclass(frozen=True)
class Done:
    """What an action did."""

    message: str
    notes: tuple[str, ...] = ()
    job: str | None = None
    """The job to show next, if it is another one."""


Form = dict[str, str]


@dataclass(frozen=True)
class JobAction:
    """Something that a person can do with a job in its current state."""

    name: str
    title: str
    explanation: str
    button: str
    make: Callable[[JobHead, Form], Done]
    fields: tuple[FormField, ...] = ()
    is_dangerous: bool = False
    """It undoes or ends something, so its button is marked."""
    command: str | None = None
    """The name of the decision in a terminal, if it is one that may have to be signed."""


NOTE = FormField("entered", "Note, if you want", FieldKind.NOTE)
STOP_AGENT = FormField(
    "ends_agent",
    "Stop the agent that is working now. What it did so far is kept, and its unanswered request may have been charged.",
    FieldKind.TICK,
    is_required=True,
)


def list_actions(head: JobHead) -> list[JobAction]:
    """Return what a person can do with a job in its current state."""
    return [*_list_moves(head), *_list_changes(head), *_list_ends(head)]


def find_action(head: JobHead, name: str) -> JobAction | None:
    """Return the action with this name; None if the state of the job doesn't allow it."""
    merge = [build_merge(head)] if _can_merge(head) else []
    every = [*list_actions(head), *list_returns(head, head.state.revision), *merge]
    return next((each for each in every if each.name == name), None)


def is_agent_working(head: JobHead) -> bool:
    """Whether an agent or a command works on the job now."""
    return head.job.find_lock_holder() is not None


def _list_moves(head: JobHead) -> Iterator[JobAction]:
    """Yield what lets the job continue."""
    status = head.state.status
    if status is Status.DRAFT:
        text = "The job is a draft. Once it is started, agents may work on it."
        yield JobAction("activate", "Start this draft", text, "Start", _activate, command="activate")
    if status is Status.SUSPENDED:
        text = "The job continues where it was suspended."
        yield JobAction(
            "resume",
            "Continue the job",
            text,
            "Continue",
            _resume,
            (FormField("entered", "Note for the agent, if you want", FieldKind.NOTE),),
            command="resume",
        )
    if status in (Status.PENDING, Status.REVIEW_REQUIRED) and not is_agent_working(head):
        text = "You do this step instead of an agent. Your answer is judged in the same way."
        value = get_default_answer(head)
        yield JobAction(
            "answer",
            "Write the answer yourself, instead of the agent",
            text,
            "Record this answer",
            _answer,
            (FormField("entered", "Answer", FieldKind.ANSWER, value, is_required=True),),
        )
    if _can_merge(head):
        text = (
            "Shows what a merge into the repository would change, and what prevents it. Nothing is changed."
        )
        yield JobAction(LOOK_AT_MERGE, "Merge the work", text, "See what would be merged", _merge)


def build_merge(head: JobHead) -> JobAction:
    """Return the form that merges, for a person who has seen what would be merged."""
    text = "Commits the work to a branch of the repository, and merges it into the branch that is checked out there."
    return JobAction("merge", "Merge", text, "Merge", _merge)


def _can_merge(head: JobHead) -> bool:
    state, stuck = head.state, head.state.place.stuck
    is_due = state.status is Status.SUCCESS and state.merge != "merged"
    return state.parent is None and (is_due or (stuck is not None and stuck.kind is StuckKind.MERGE))


def _list_changes(head: JobHead) -> Iterator[JobAction]:
    """Yield what changes the job, or what people know of it."""
    state = head.state
    text = "For people: it is recorded in the history. No agent reads it, and the job stays as it is."
    field = FormField("entered", "Note", FieldKind.NOTE, is_required=True)
    yield JobAction("note", "Add a note", text, "Add the note", _add_note, (field,), command="note")
    if head.item is not None and head.item.revision is not None:
        if head.item.snoozed_until is not None:
            text = "The job is hidden in the inbox."
            yield JobAction("unsnooze", "Show it in the inbox again", text, "Show it again", _end_snooze)
        else:
            text = "Hides the job in the inbox until then, or until it changes."
            until = FormField(
                "entered",
                "Until: 2h, 3d, 2w, or a local time such as 2026-12-01T09:00",
                value="1d",
                is_required=True,
            )
            yield JobAction("snooze", "Snooze", text, "Hide it", _snooze, (until,))
    if state.status in TERMINAL:
        return
    is_halted = state.status in HALTED
    text = "Each limit is checked before every call of a model."
    yield JobAction(
        "limits",
        "Change the limits",
        text + (" If the limit that was reached is high enough then, the job continues." * is_halted),
        "Change the limits" + " and continue" * is_halted,
        _change_limits,
        tuple(
            FormField(name, label, FieldKind.NUMBER, f"{getattr(state.limits, name):g}", is_required=True)
            for name, label in LIMITS.items()
        ),
    )
    yield _build_role_switch(head)
    rank = FormField("entered", "Rank: lower numbers run first", FieldKind.NUMBER, str(state.rank))
    yield JobAction(
        "rank",
        "Change its position in the queue",
        "Jobs with a lower rank run first. The default is 0.",
        "Change the rank",
        _set_rank,
        (rank,),
    )
    yield JobAction(
        "tags",
        "Change its tags",
        "Tags are for people: searches and filters find them.",
        "Change the tags",
        _set_tags,
        (FormField("entered", "Tags, separated by commas", value=", ".join(state.tags)),),
    )


def _build_role_switch(head: JobHead) -> JobAction:
    state = head.state
    options = [
        (name, f"{name}: {_shorten(loaded.role.description)}")
        for name, loaded in sorted(head.project.roles.by_name.items())
    ]
    if fold.is_switched(state):
        options.insert(0, ("", "the role that is set for the job (undo the switch)"))
    return JobAction(
        "role",
        "Switch the role that does the work",
        "From the next step on, the job uses the prompt, tools and model of that role. The reviewer stays the same.",
        "Switch the role",
        _switch_role,
        (
            FormField("entered", "Role", FieldKind.CHOICE, state.agent_role, tuple(options)),
            FormField("note", "Note, if you want", FieldKind.NOTE),
            *_ask_to_stop(head),
        ),
    )


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_DESCRIPTION else f"{line[: LONGEST_DESCRIPTION - 1]}…"


def _ask_to_stop(head: JobHead) -> tuple[FormField, ...]:
    return (STOP_AGENT,) if is_agent_working(head) else ()


def _list_ends(head: JobHead) -> Iterator[JobAction]:
    """Yield what stops the job or an agent, or begins again."""
    status = head.state.status
    if status not in TERMINAL:
        fields = (NOTE, *_ask_to_stop(head))
        if status is not Status.SUSPENDED:
            text = "No agent works on it until a person continues it."
            yield JobAction(
                "suspend", "Suspend the job", text, "Suspend", _suspend, fields, command="suspend"
            )
        text = "The job ends as not needed any more. Files and history are kept."
        yield JobAction(
            "cancel", "Cancel the job", text, "Cancel the job", _cancel, fields, True, command="cancel"
        )
        text = "The job ends as FAILED. Files and history are kept."
        yield JobAction(
            "fail", "Mark the job as failed", text, "Mark as failed", _fail, fields, True, command="fail"
        )
    if status is not Status.DRAFT:
        yield JobAction(
            "rerun",
            "Start the job over",
            "Resets its usage and its workspace. The history is kept, and with it the way back.",
            "Start over",
            _rerun,
            (
                FormField(
                    "clean", "Reset the workspace to how it was at the start", FieldKind.TICK, value="yes"
                ),
                FormField("keep_files", "Copy the evidence files to attachments/ first", FieldKind.TICK),
                NOTE,
            ),
            is_dangerous=True,
        )
    yield build_fork(head, head.state.revision)


def build_fork(head: JobHead, at: int) -> JobAction:
    """Return the form that forks the job after interaction `at`."""
    return JobAction(
        "fork",
        "Fork: continue in a copy",
        f"Creates a new job with the same history up to interaction {at}, and the workspace as it was then. "
        "This job does not change.",
        "Fork",
        _fork,
        (
            FormField("at", "Last interaction to copy", FieldKind.NUMBER, str(at), is_required=True),
            FormField("id", "Id of the new job, if you want to choose it"),
            FormField("entered", "Note for the agent, if you want", FieldKind.NOTE),
        ),
    )


def list_returns(head: JobHead, at: int) -> list[JobAction]:
    """Return the forms that the page of interaction `at` shows: a fork after it, and the return to before it."""
    fork = build_fork(head, at)
    if at < 2:
        return [fork]
    undone = (
        "this interaction" if at == head.state.revision else f"interactions {at} to {head.state.revision}"
    )
    explanation = (
        f"Resets the state and the files to before interaction {at}: it undoes {undone}. Nothing is deleted: the "
        "history continues, and cost and time that were used still count."
    )
    restep = JobAction(
        "restep",
        "Go back to before this interaction",
        explanation,
        f"Go back to before interaction {at}",
        _restep,
        (
            FormField("to", "", FieldKind.HIDDEN, str(at)),
            FormField("entered", "Note for the agent, if you want", FieldKind.NOTE),
        ),
        is_dangerous=True,
    )
    return [restep, fork]


def look_at_merge(head: JobHead) -> MergeResult:
    """Return what a merge would change, and what prevents it. Changes nothing."""
    return merge_job(head.project, head.id, mode="look", patch=True)


def _tell(result: CommandResult, message: str = "") -> Done:
    reason = f": {' '.join(result.state.reason.split())}" if result.state.place.stuck is not None else ""
    said = message or f"Done: {result.job_id} is now {result.state.status.value}{reason}"
    return Done(said, (*result.notes, *result.warnings))


def _decide(head: JobHead, kind: Kind, form: Form, *, message: str = "", may_stop: bool = False) -> Done:
    """Record a decision about the job as the person has seen it.

    To stop an agent changes the job, so then only the page has checked the revision.
    """
    ends_agent = may_stop and bool(form.get("ends_agent"))
    result = record_decision(
        head.project,
        head.id,
        kind,
        note=form.get("entered", "").strip() or None,
        ends_agent=ends_agent,
        revision=None if ends_agent else head.state.revision,
    )
    return _tell(result, message)


def _activate(head: JobHead, form: Form) -> Done:
    return _decide(head, Kind.ACTIVATE, form)


def _resume(head: JobHead, form: Form) -> Done:
    return _decide(head, Kind.RESUME, form)


def _suspend(head: JobHead, form: Form) -> Done:
    return _decide(head, Kind.SUSPEND, form, may_stop=True)


def _cancel(head: JobHead, form: Form) -> Done:
    return _decide(head, Kind.CANCEL, form, may_stop=True)


def _fail(head: JobHead, form: Form) -> Done:
    return _decide(head, Kind.FAIL, form, may_stop=True)


def _add_note(head: JobHead, form: Form) -> Done:
    if not form.get("entered", "").strip():
        raise UsageError("the note is empty")
    return _decide(head, Kind.NOTE, form, message=f"The note is in the history of {head.id}")


def _snooze(head: JobHead, form: Form) -> Done:
    now, text = time.time(), form.get("entered", "")
    end = parse_snooze_end(text, now)
    if end is None:
        raise UsageError(f"not a time in the future: {text!r}", fix="for example: 2h, 3d, 2026-12-01T09:00")
    item = snooze_job(str(head.project.jobs_dir), head.id, end, now)
    if item.snoozed_until is None:
        return Done(f"{head.id} is in the inbox again")
    until = format_local(item.snoozed_until)
    return Done(f"{head.id} is snoozed until {until}, or until it changes")


def _end_snooze(head: JobHead, form: Form) -> Done:
    return _snooze(head, {"entered": "now"})


def _answer(head: JobHead, form: Form) -> Done:
    require_unchanged(head.project, head.id, head.state)
    holder = head.job.find_lock_holder()
    if holder is not None:  # otherwise the answer would wait for the agent
        raise Busy(f"the job is busy: {holder}", where=head.id)
    given = GivenAnswer(form.get("entered", ""))
    return _tell(do_poststep(head.project, head.id, given, Choice(), revision=head.state.revision))


def check_answer(head: JobHead, text: str) -> CommandResult:
    """Return what an answer would do, without recording it. Raises Refused if the job accepts none now."""
    return do_poststep(head.project, head.id, GivenAnswer(text), Choice(), dry_run=True)


def _change_limits(head: JobHead, form: Form) -> Done:
    changes: dict[tuple[str, ...], object | None] = {}
    for name, label in LIMITS.items():
        value = _parse_number(form.get(name, ""), label)
        if value != getattr(head.state.limits, name):
            changes["limits", name] = value
    require_unchanged(head.project, head.id, head.state)
    result = configure_job(head.project, head.id, changes, revision=head.state.revision) if changes else None
    if head.state.status not in HALTED:
        return _tell(result, f"The limits of {head.id} are changed") if result else Done("Nothing to change")
    revision = result.state.revision if result else head.state.revision
    try:
        return _tell(record_decision(head.project, head.id, Kind.RESUME, revision=revision))
    except Refused as error:
        if result is None:
            raise
        return Done(f"The limits of {head.id} are changed, but it does not continue", (str(error),))


def _parse_number(text: str, label: str) -> int | float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"expected a number, got: {text[:60]!r}", where=label)
    return int(number) if number.is_integer() else number


def _switch_role(head: JobHead, form: Form) -> Done:
    ends_agent = bool(form.get("ends_agent"))
    if not ends_agent:
        require_unchanged(head.project, head.id, head.state)
    name = form.get("entered", "").strip() or None
    result = switch_role(
        head.project,
        head.id,
        name,
        note=form.get("note", "").strip() or None,
        ends_agent=ends_agent,
        revision=None if ends_agent else head.state.revision,
    )
    if not result.entries:
        return Done(result.notes[0] if result.notes else "Nothing to change", result.notes[1:])
    return _tell(
        result, f"The role {result.state.agent_role} does the work of {head.id} from the next step on"
    )


def _set_rank(head: JobHead, form: Form) -> Done:
    text = form.get("entered", "").strip()
    try:
        rank = int(text)
    except ValueError:
        raise UsageError(f"expected an integer, got: {text[:60]!r}", where="rank") from None
    require_unchanged(head.project, head.id, head.state)
    return _tell(
        set_rank(head.project, head.id, rank, revision=head.state.revision),
        f"The rank of {head.id} is now {rank}",
    )


def _set_tags(head: JobHead, form: Form) -> Done:
    named = (tag.strip() for tag in form.get("entered", "").split(","))
    tags = list(dict.fromkeys(tag for tag in named if tag))
    require_unchanged(head.project, head.id, head.state)
    result = configure_job(head.project, head.id, {("tags",): tags or None}, revision=head.state.revision)
    return _tell(result, f"The tags of {head.id}: {', '.join(result.state.tags) or 'none'}")


def _rerun(head: JobHead, form: Form) -> Done:
    require_unchanged(head.project, head.id, head.state)
    result = rerun_job(
        head.project,
        head.id,
        clean=bool(form.get("clean")),
        keep_files=bool(form.get("keep_files")),
        note=form.get("entered", "").strip() or None,
        revision=head.state.revision,
    )
    return _tell(result, f"{head.id} was started over: it is now {result.state.status.value}")


def _restep(head: JobHead, form: Form) -> Done:
    require_unchanged(head.project, head.id, head.state)
    to = _parse_interaction(form.get("to", ""))
    result = restep_job(
        head.project,
        head.id,
        to,
        note=form.get("entered", "").strip() or None,
        revision=head.state.revision,
    )
    return _tell(result, f"{head.id} is as it was before interaction {to}: {result.state.status.value}")


def _fork(head: JobHead, form: Form) -> Done:
    forked = fork_job(
        head.project,
        head.id,
        _parse_interaction(form.get("at", "")),
        new_id=form.get("id", "").strip() or None,
        note=form.get("entered", "").strip() or None,
    )
    message = f"{forked.job.id} was forked from {forked.origin} at interaction {forked.at}"
    return Done(message, forked.notes, forked.job.id)


def _parse_interaction(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise UsageError(f"expected the number of an interaction, got: {text[:60]!r}")
    return int(text)


def _merge(head: JobHead, form: Form) -> Done:
    require_unchanged(head.project, head.id, head.state)
    merged = merge_job(head.project, head.id, revision=head.state.revision)
    left_out = (f"left out of the merge: {each}" for each in merged.published.left_out)
    undo = (f"To undo: {merged.published.revert}",) if merged.published.revert else ()
    message = f"{head.id} {describe_merge(merged.published)}"
    return Done(message, (*undo, *left_out, *merged.result.notes, *merged.result.warnings))
