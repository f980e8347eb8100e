"""The state machine: the full product of places, actors, actions and facts against the table as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

import pytest

from logist.core.machine import advice, machine
from logist.core.machine.actions import Action, Who
from logist.core.machine.event import Event
from logist.core.machine.machine import TABLE, Situation, TransitionRow, exit_code, next_place
from logist.core.model import (
    HALTED,
    TERMINAL,
    Approval,
    EffectiveSpec,
    Limits,
    Phase,
    Place,
    Status,
    StuckKind,
)
from logist.errors import Refused, UsageError
from tests.core.builders import spec, stuck
from tests.support import is_deep

# A second formulation of DESIGN §5: state(s) | who | action | guards | next. Whatever no line names is refused.
EXPECTED = """
none               | steward  | create     | draft                     | DRAFT
none               | steward  | create     | not draft                 | START
DRAFT              | steward  | activate   | prompt                    | START
PENDING REVIEW WAITING | system | halt     | a limit                   | HALTED
PENDING            | doer     | completed  | review                    | REVIEW_REQUIRED, same attempts
PENDING            | doer     | completed  | not review, unsure        | APPROVAL_REQUIRED review
PENDING            | doer     | completed  | not review, not unsure, approval     | APPROVAL_REQUIRED end
PENDING            | doer     | completed  | not review, not unsure, not approval | SUCCESS
PENDING            | doer     | retry      | attempts left             | PENDING, attempt used
PENDING            | doer     | retry      | not attempts left         | STUCK attempts doer, attempt used
PENDING            | doer     | stuck      |                           | STUCK agent doer, same attempts
PENDING            | doer     | breach     |                           | STUCK permission doer, same attempts
REVIEW             | reviewer | completed  | accepted, looked at again | APPROVAL_REQUIRED review
REVIEW             | reviewer | completed  | accepted, not looked at again, approval end | APPROVAL_REQUIRED end
REVIEW             | reviewer | completed  | accepted, not looked at again, not approval | SUCCESS
REVIEW             | reviewer | completed  | not accepted, attempts left     | PENDING, attempt used
REVIEW             | reviewer | completed  | not accepted, not attempts left | STUCK attempts reviewer, attempt used
REVIEW             | reviewer | retry      | attempts left             | PENDING, attempt used
REVIEW             | reviewer | retry      | not attempts left         | STUCK attempts reviewer, attempt used
REVIEW             | reviewer | stuck      |                           | STUCK agent reviewer, same attempts
REVIEW             | reviewer | breach     |                           | STUCK permission reviewer, same attempts
PENDING            | system   | transient  | attempts left             | PENDING, attempt used
PENDING            | system   | transient  | not attempts left         | STUCK attempts doer, attempt used
REVIEW             | system   | transient  | attempts left             | REVIEW_REQUIRED, attempt used
REVIEW             | system   | transient  | not attempts left         | STUCK attempts reviewer, attempt used
PENDING            | system   | in_doubt   | doubt stuck               | STUCK in_doubt doer, same attempts
REVIEW             | system   | in_doubt   | doubt stuck               | STUCK in_doubt reviewer, same attempts
PENDING            | system   | in_doubt   | doubt retry, attempts left     | PENDING, attempt used
PENDING            | system   | in_doubt   | doubt retry, not attempts left | STUCK attempts doer, attempt used
REVIEW             | system   | in_doubt   | doubt retry, attempts left     | REVIEW_REQUIRED, attempt used
REVIEW             | system   | in_doubt   | doubt retry, not attempts left | STUCK attempts reviewer, attempt used
PENDING REVIEW     | system   | unanswered |                           | HERE
APPROVAL           | steward  | approve    |                           | SUCCESS
REVIEW             | steward  | override   |                           | SUCCESS
PENDING            | steward  | override   | sent back                 | SUCCESS
STUCK              | steward  | override   | reviewer stuck, not in doubt | SUCCESS
APPROVAL           | steward  | reject     | awaiting end              | PENDING
APPROVAL           | steward  | reject     | awaiting review           | PENDING
APPROVAL           | steward  | reject     | awaiting manual           | STUCK agent doer
STUCK              | steward  | resubmit   | settled, not to review, not children differ | PENDING
STUCK              | steward  | resubmit   | children differ, not to review | WAITING
STUCK              | steward  | resubmit   | settled, to review, not children differ | REVIEW_REQUIRED
STUCK              | steward  | supply     | answerable, doer stuck    | PENDING, same attempts
STUCK              | steward  | supply     | answerable, reviewer stuck| REVIEW_REQUIRED, same attempts
PENDING            | system   | spawn      | spawns, not a fault, children      | WAITING
PENDING            | system   | spawn      | spawns, not a fault, not children, approval     | APPROVAL_REQUIRED end
PENDING            | system   | spawn      | spawns, not a fault, not children, not approval | SUCCESS
PENDING            | system   | spawn      | spawns, a fault                    | STUCK agent doer
WAITING            | system   | collect    | reached, approval         | APPROVAL_REQUIRED end
WAITING            | system   | collect    | reached, not approval     | SUCCESS
WAITING            | system   | collect    | too few                   | STUCK share doer
WAITING            | system   | collect    | no fit                    | STUCK conflict doer
HALTED             | steward  | resume     | raised                    | BEFORE
WAITING OPEN       | steward  | suspend    |                           | SUSPENDED
HALTED             | steward  | suspend    |                           | SUSPENDED
WAITING OPEN       | steward  | cancel     |                           | CANCELED
HALTED SUSPENDED   | steward  | cancel     |                           | CANCELED
WAITING OPEN       | steward  | fail       |                           | FAILED
HALTED SUSPENDED   | steward  | fail       |                           | FAILED
WAITING OPEN       | steward  | role       |                           | HANDED OVER
HALTED SUSPENDED   | steward  | role       |                           | HANDED OVER
SUSPENDED          | steward  | resume     |                           | BEFORE
WAITING OPEN HALTED SUSPENDED ENDED | steward | restep | back          | BACK
WAITING OPEN HALTED SUSPENDED ENDED | steward | rerun  | prompt        | START
SUCCESS            | steward  | merge      | fits                      | SUCCESS
SUCCESS            | system   | merge      | fits                      | SUCCESS
SUCCESS            | steward  | merge      | not fits                  | STUCK merge doer
SUCCESS            | system   | merge      | not fits                  | STUCK merge doer
STUCK              | steward  | merge      | unmerged, fits            | SUCCESS
STUCK              | system   | merge      | unmerged, fits            | SUCCESS
STUCK              | steward  | merge      | unmerged, not fits        | STUCK merge doer, same attempts
STUCK              | system   | merge      | unmerged, not fits        | STUCK merge doer, same attempts
DRAFT PENDING REVIEW | steward | update    | fits                      | HERE
APPROVAL           | steward  | update     | fits, not awaiting manual, review     | REVIEW_REQUIRED
APPROVAL           | steward  | update     | fits, not awaiting manual, not review | HERE
APPROVAL           | steward  | update     | fits, awaiting manual     | HERE
STUCK              | steward  | update     | fits, not unmerged, not children differ | HERE
STUCK              | steward  | update     | fits, unmerged, review    | REVIEW_REQUIRED
STUCK              | steward  | update     | fits, unmerged, not review, approval     | APPROVAL_REQUIRED end
STUCK              | steward  | update     | fits, unmerged, not review, not approval | SUCCESS
SUCCESS            | steward  | update     | fits, review              | REVIEW_REQUIRED
SUCCESS            | steward  | update     | fits, not review, approval     | APPROVAL_REQUIRED end
SUCCESS            | steward  | update     | fits, not review, not approval | SUCCESS
HALTED SUSPENDED   | steward  | update     | fits                      | HERE
PENDING REVIEW APPROVAL SUCCESS | steward | update | not fits         | PENDING
STUCK              | steward  | update     | not fits, not in doubt, not children differ | PENDING
HALTED SUSPENDED   | steward  | update     | not fits, not draft before | BEGUN AGAIN
"""

GROUPS = {
    "REVIEW": {"REVIEW_REQUIRED"},
    "APPROVAL": {"APPROVAL_REQUIRED"},
    "HALTED": {"HALTED_COST", "HALTED_TIME", "HALTED_ITERATION"},
    "ENDED": {"SUCCESS", "FAILED", "CANCELED"},
    "OPEN": {"DRAFT", "PENDING", "REVIEW_REQUIRED", "APPROVAL_REQUIRED", "STUCK"},
}
MAX_ATTEMPTS = 3
LIMITS = Limits(
    cost_threshold=100, time_threshold_minutes=10, max_allowed_iterations=5, max_attempts=MAX_ATTEMPTS
)
RAISED = Limits(
    cost_threshold=100.5, time_threshold_minutes=10.5, max_allowed_iterations=6, max_attempts=MAX_ATTEMPTS
)
EARLIER = Place(status=Status.REVIEW_REQUIRED, attempts=1)


@dataclass(frozen=True)
class Case:
    """One point of the product."""

    here: Place | None
    event: Event
    spec: EffectiveSpec

    @property
    def status(self) -> str:
        return self.here.status.value if self.here else "none"


GUARDS: dict[str, Callable[[Case], bool]] = {
    "draft": lambda c: c.event.draft,
    "prompt": lambda c: c.spec.prompt != "",
    "a limit": lambda c: c.event.limit is not None and c.event.limit.value in GROUPS["HALTED"],
    "review": lambda c: c.spec.review,
    "approval": lambda c: c.spec.approval in ("end", "each"),
    "approval end": lambda c: c.spec.approval == "end",
    "approval each": lambda c: c.spec.approval == "each",
    "attempts left": lambda c: c.here is not None and c.here.attempts < MAX_ATTEMPTS - 1,
    "doubt stuck": lambda c: c.spec.on_doubt == "stuck",
    "doubt retry": lambda c: c.spec.on_doubt == "retry",
    "awaiting end": lambda c: c.here is not None and c.here.awaiting == "end",
    "awaiting review": lambda c: c.here is not None and c.here.awaiting == "review",
    "awaiting manual": lambda c: c.here is not None and c.here.awaiting == "manual",
    "to review": lambda c: c.event.to_review,
    "settled": lambda c: (stuck_kind(c) == "in_doubt") == (c.event.doubt is not None),
    "children differ": lambda c: stuck_kind(c) in ("share", "conflict"),
    "unsure": lambda c: c.event.unsure,
    "accepted": lambda c: not c.event.blocked,
    "sent back": lambda c: c.event.sent_back,
    "in doubt": lambda c: stuck_kind(c) == "in_doubt",
    "looked at again": lambda c: c.event.unsure or c.spec.approval == "each",
    "spawns": lambda c: c.here is not None and c.here.spawns is True,
    "a fault": lambda c: c.event.fault != "",
    "children": lambda c: c.event.children > 0,
    "reached": lambda c: c.event.gathered == "reached",
    "too few": lambda c: c.event.gathered == "share",
    "no fit": lambda c: c.event.gathered == "conflict",
    "fits": lambda c: c.event.fits,
    "draft before": lambda c: c.here is not None and c.here.before == Place(status=Status.DRAFT),
    "unmerged": lambda c: stuck_kind(c) == "merge",
    "answerable": lambda c: stuck_kind(c) in ("agent", "attempts", "in_doubt"),
    "doer stuck": lambda c: stuck_phase(c) == "doer",
    "reviewer stuck": lambda c: stuck_phase(c) == "reviewer",
    "raised": lambda c: c.spec.limits == RAISED,
    "back": lambda c: c.event.back_to is not None,
}


def stuck_kind(case: Case) -> str | None:
    return case.here.stuck.kind.value if case.here and case.here.stuck else None


def stuck_phase(case: Case) -> str | None:
    return case.here.stuck.phase.value if case.here and case.here.stuck else None


def lines() -> dict[tuple[str, str, str], list[tuple[list[str], str]]]:
    """Guards and `next` of the lines, by state, who and action."""
    rows: dict[tuple[str, str, str], list[tuple[list[str], str]]] = {}
    for line in EXPECTED.strip().splitlines():
        states, who, action, cell, after = (cell.strip() for cell in line.split("|"))
        guards = [word.strip() for word in cell.split(",") if word.strip()]
        for name in set().union(*(GROUPS.get(word, {word}) for word in states.split())):
            rows.setdefault((name, who, action), []).append((guards, after))
    return rows


LINES = lines()


def holds(guard: str, case: Case) -> bool:
    negated = guard.startswith("not ")
    return GUARDS[guard.removeprefix("not ")](case) is not negated


def expected(case: Case) -> str | None:
    """The `next` cell of the one line that fits; None: refused."""
    rows = LINES.get((case.status, case.event.who.value, case.event.action.value), [])
    found = [after for guards, after in rows if all(holds(guard, case) for guard in guards)]
    assert len(found) <= 1, f"two lines fit {case}"
    return found[0] if found else None


def is_as_told(after: Place, told: str, case: Case) -> bool:
    """Whether a place is the one that a `next` cell describes; nothing but the told is left over."""
    here = case.here
    if told in ("HERE", "BEFORE", "BACK", "HALTED", "SUSPENDED", "HANDED OVER", "BEGUN AGAIN"):
        return after == special(told, case)
    head, _, attempts = told.partition(", ")
    status, *rest = {"START": "PENDING"}.get(head, head).split()
    used = 0 if here is None else here.attempts
    want = {"same attempts": used, "attempt used": used + 1}.get(attempts, 0)
    kind, phase, awaiting = None, None, None
    if status == "STUCK":
        kind, phase = rest
    elif rest:
        (awaiting,) = rest
    got = after.stuck
    return (
        (after.status.value, after.attempts, after.awaiting) == (status, want, awaiting)
        and (got.kind.value if got else None, got.phase.value if got else None) == (kind, phase)
        and (got is None or (got.role, got.reason, got.step) == ("Somebody", "because", "task"))
        and (after.before, after.halted_at, after.step) == (None, None, "task")
    )


def special(told: str, case: Case) -> Place | None:
    here, event = case.here, case.event
    assert here is not None
    if told == "HALTED":
        assert event.limit is not None
        reached = {"HALTED_COST": 100.0, "HALTED_TIME": 10.0, "HALTED_ITERATION": 5.0}
        value = reached[event.limit.value] + (0 if case.spec.limits == LIMITS else 1)
        value -= 0.5 if case.spec.limits == RAISED and event.limit is not Status.HALTED_ITERATION else 0
        return Place(status=event.limit, attempts=here.attempts, before=here, halted_at=value)
    if told == "SUSPENDED":
        return Place(status=Status.SUSPENDED, attempts=here.attempts, before=here)
    if told == "HANDED OVER":
        return Place.model_validate(handed_over(here.model_dump()))
    if told == "BEGUN AGAIN":
        return Place.model_validate(begun_again(here.model_dump()))
    return {"HERE": here, "BEFORE": here.before, "BACK": event.back_to}[told]


def begun_again(place: dict[str, Any]) -> dict[str, Any]:
    """The same place, but the doer begins the step again when the job goes on."""
    before = place["before"]
    return {**place, "before": begun_again(before)} if before else {"status": "PENDING"}


def handed_over(place: dict[str, Any]) -> dict[str, Any]:
    """The same place, but that Somebody owes what the doer owed."""
    stuck, before = place["stuck"], place["before"]
    if stuck and stuck["phase"] == "doer":
        stuck = {**stuck, "role": "Somebody"}
    return {**place, "stuck": stuck, "before": before and handed_over(before)}


def places() -> Iterator[Place | None]:
    yield None
    for status in (Status.DRAFT, Status.WAITING, *sorted(TERMINAL)):
        yield Place(status=status)
    for status, attempts in product((Status.PENDING, Status.REVIEW_REQUIRED), range(MAX_ATTEMPTS)):
        yield Place(status=status, attempts=attempts)
    yield Place(status=Status.PENDING, spawns=True)
    for awaiting in ("manual", "end", "review"):
        yield Place.model_validate({"status": "APPROVAL_REQUIRED", "awaiting": awaiting})
    for kind, phase in product(StuckKind, Phase):
        yield stuck(kind, phase, attempts=MAX_ATTEMPTS if kind is StuckKind.ATTEMPTS else 1)
    for status, reached in zip(sorted(HALTED), (100.0, 5.0, 10.0), strict=True):
        yield Place(status=status, before=EARLIER, halted_at=reached, attempts=1)
    for before in (EARLIER, stuck(), Place(status=Status.DRAFT)):
        yield Place(status=Status.SUSPENDED, before=before)
    halted = Place(status=Status.HALTED_COST, before=EARLIER, halted_at=100.0)
    yield Place(status=Status.SUSPENDED, before=halted)


FACTS: dict[Action, tuple[dict[str, Any], ...]] = {
    Action.COMPLETED: ({"unsure": True}, {"blocked": True}),
    Action.OVERRIDE: ({"sent_back": True},),
    Action.SPAWN: ({"children": 3}, {"fault": "too many"}),
    Action.COLLECT: ({"gathered": "share"}, {"gathered": "conflict"}),
    Action.MERGE: ({"fits": False},),
    Action.UPDATE: ({"fits": False},),
}


def events() -> Iterator[Event]:
    """Every actor with every action; each action with all values of the facts that are its own."""
    for who, action in product(Who, Action):
        event = Event(who, action, role="Somebody", reason="because")
        yield event
        yield replace(event, draft=True, limit=Status.HALTED_TIME, to_review=True, back_to=EARLIER)
        if action is Action.HALT:
            yield from (replace(event, limit=limit) for limit in (*sorted(HALTED), Status.PENDING))
        if action in (Action.CREATE, Action.RESUBMIT):
            yield from (replace(event, draft=a, to_review=b) for a, b in product((False, True), repeat=2))
        if action is Action.RESUBMIT:
            yield from (replace(event, doubt=word) for word in machine.DOUBTS)
        yield from (replace(event, **facts) for facts in FACTS.get(action, ()))
        if action is Action.RESTEP:
            yield from (
                replace(event, back_to=place) for place in (EARLIER, stuck(), Place(status=Status.SUCCESS))
            )


def specs() -> list[EffectiveSpec]:
    facts = product((True, False), Approval, (LIMITS, RAISED), ("stuck", "retry"), ("Do it.", ""))
    return [
        EffectiveSpec.model_validate(
            {"title": "t", "prompt": prompt, "review": review, "approval": approval, "limits": limits}
            | {"on_doubt": doubt}
        )
        for review, approval, limits, doubt, prompt in facts
    ]


EVENTS, SPECS, PLACES = list(events()), specs(), list(places())
SAMPLE = 7
"""Without --deep, every seventh combination is tried: each event, and over all events each spec."""


def cases(status: str) -> Iterator[Case]:
    here = [place for place in PLACES if (place.status.value if place else "none") == status]
    points = product(here, EVENTS, SPECS)
    yield from (Case(*point) for point in islice(points, 0, None, 1 if is_deep() else SAMPLE))


STATUSES = ["none", *(status.value for status in Status)]
"""Each is one test, so that they can run side by side."""


def outcome(case: Case) -> Place | Refused:
    try:
        return next_place(case.here, case.event, case.spec)
    except Refused as refusal:
        return refusal


@pytest.mark.parametrize("status", STATUSES)
def test_every_combination_goes_where_the_table_says(status: str) -> None:
    before = [place.model_dump_json() if place else "" for place in PLACES]
    for case in cases(status):
        told, after = expected(case), outcome(case)
        if isinstance(after, Refused):
            assert told is None, case
            assert after.fix, case
        else:
            assert told is not None, (after, case)
            assert is_as_told(after, told, case), (told, after, case)
    assert [place.model_dump_json() if place else "" for place in PLACES] == before


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_what_has_ended_takes_only_restep_rerun_and_what_succeeded_a_merge_or_an_update(
    status: Status,
) -> None:
    taken = {
        (case.event.who, case.event.action)
        for case in cases(status.value)
        if not isinstance(outcome(case), Refused)
    }
    merges = {(Who.STEWARD, Action.MERGE), (Who.SYSTEM, Action.MERGE), (Who.STEWARD, Action.UPDATE)}
    more = merges if status is Status.SUCCESS else set()
    assert taken == {(Who.STEWARD, Action.RESTEP), (Who.STEWARD, Action.RERUN)} | more


def test_the_product_is_a_whole_one() -> None:
    assert {place.status if place else None for place in PLACES} == {None, *Status}
    assert {(event.who, event.action) for event in EVENTS} == set(product(Who, Action))
    assert {place.stuck.kind for place in PLACES if place and place.stuck} == set(StuckKind)
    assert len(PLACES) * len(EVENTS) * len(SPECS) > 100_000
    assert len(EVENTS) % SAMPLE
    assert len(SPECS) % SAMPLE


def test_every_row_is_taken_and_no_two_compete() -> None:
    taken: set[int] = set()
    rows: dict[Action, list[tuple[int, TransitionRow]]] = {}
    for index, row in enumerate(TABLE):
        rows.setdefault(row.action, []).append((index, row))
    for here, event, one in product(PLACES, EVENTS, SPECS):
        situation = Situation(here or Place(status=Status.DRAFT), event, one)
        status = here.status if here else None
        fits = [
            index
            for index, row in rows[event.action]
            if status in row.states and event.who in row.who and row.guard(situation)
        ]
        assert len(fits) <= 1, (here, event, one)
        taken.update(fits)
    assert taken == set(range(len(TABLE)))


def test_the_rows_are_numbered_as_in_the_design() -> None:
    the_rule_of_refusal = {22}
    assert {row.number for row in TABLE} == set(range(1, 25)) - the_rule_of_refusal
    assert [row.number for row in TABLE] == sorted(row.number for row in TABLE)


STEPS = {Status.PENDING: Who.DOER, Status.REVIEW_REQUIRED: Who.REVIEWER}
READS = {"history"}


class TestAdvice:
    """A refusal names a command that helps, and the machine takes that command."""

    def takes(self, here: Place | None, name: str, one: EffectiveSpec, rest: str = "") -> None:
        """Refused unless the job takes the command."""
        if name in READS or (name == "run" and here and here.status is Status.WAITING):
            return  # it looks for children, and waits if they are not there
        who, action = Who.STEWARD, Action.SUPPLY
        if name == "step":
            assert here is not None
            who, action = STEPS[here.status], Action.COMPLETED
        elif name != "poststep":
            action = Action(name)
        doubt = next((word for word in machine.DOUBTS if f"--{word.replace('_', '-')}" in rest), None)
        event = Event(who, action, back_to=EARLIER, doubt=doubt, to_review="--review" in rest)
        next_place(here, event, one)

    def follow(self, advice: str, here: Place | None, one: EffectiveSpec) -> None:
        for name, rest in re.findall(r"logist job (\w+)([^,]*)", advice):
            if name == "config":
                prompt = "prompt=" in rest
                changes = {"prompt": "Do it."} if prompt else {"limits": RAISED}
                one = one.model_copy(update=changes)
            else:
                name = "override" if "--override" in rest else name
                self.takes(here, name, one, rest)

    @pytest.mark.parametrize("status", STATUSES)
    def test_the_fix_of_a_refusal_is_taken(self, status: str) -> None:
        seen: set[tuple[int, int, str]] = set()
        for case in cases(status):
            refusal = outcome(case)
            if isinstance(refusal, Refused):
                assert refusal.fix is not None
                commands = re.findall(r"logist job (\w+)(?: --job (\w+))?", refusal.fix)
                assert all(job == "JOB" for name, job in commands if name != "create"), refusal.fix
                key = (id(case.here), id(case.spec), refusal.fix)
                if key not in seen:
                    self.follow(refusal.fix, case.here, case.spec)
                seen.add(key)
        assert seen

    def test_a_place_that_lost_where_it_came_from(self) -> None:
        for status in (Status.SUSPENDED, *HALTED):
            here = Place(status=status)
            with pytest.raises(Refused) as caught:
                next_place(here, Event(Who.STEWARD, Action.RESUME), spec())
            assert caught.value.fix == "logist job restep --job JOB --to N"
            self.follow(caught.value.fix, here, spec())

    @pytest.mark.parametrize(
        ("here", "action", "prompt", "message", "fix"),
        [
            (
                None,
                Action.APPROVE,
                "x",
                "can't approve: the job doesn't exist yet",
                'logist job create --prompt "..."',
            ),
            (
                Place(status=Status.DRAFT),
                Action.ACTIVATE,
                "",
                "can't activate: the job has no prompt",
                'logist job config --job j --set prompt="...", then: logist job activate --job j',
            ),
            (
                Place(status=Status.PENDING),
                Action.RERUN,
                "",
                "can't rerun: the job has no prompt",
                "logist job step --job j",
            ),
            (
                Place(status=Status.CANCELED),
                Action.RERUN,
                "",
                "can't rerun: the job has no prompt",
                "logist job restep --job j --to N",
            ),
            (
                Place(status=Status.SUCCESS),
                Action.APPROVE,
                "x",
                "can't approve: the job is SUCCESS",
                "it is approved already, or needed no approval; to see its history: logist job history --job j",
            ),
            (
                Place(status=Status.SUCCESS),
                Action.CANCEL,
                "x",
                "can't cancel: the job is SUCCESS",
                "logist job restep --job j --to N, or: logist job rerun --job j",
            ),
            (
                Place(status=Status.HALTED_TIME, before=EARLIER, halted_at=60.0),
                Action.RESUME,
                "x",
                "can't resume: the limit behind HALTED_TIME was not raised",
                "logist job config --job j --set limits.time_threshold_minutes=MINUTES, then: logist job resume --job j",
            ),
            (
                Place(status=Status.SUSPENDED, before=EARLIER),
                Action.SUSPEND,
                "x",
                "can't suspend: the job is SUSPENDED",
                "logist job resume --job j",
            ),
        ],
    )
    def test_what_a_refusal_says(
        self, here: Place | None, action: Action, prompt: str, message: str, fix: str
    ) -> None:
        with pytest.raises(Refused) as caught:
            next_place(here, Event(Who.STEWARD, action, job="j"), spec(prompt=prompt))
        assert (caught.value.message, caught.value.fix) == (message, fix)


def test_an_unknown_step_is_a_wrong_argument() -> None:
    event = Event(Who.STEWARD, Action.RESUBMIT, to_step="deploy")
    with pytest.raises(UsageError, match="unknown step 'deploy' in this job") as caught:
        next_place(stuck(), event, spec())
    assert caught.value.fix == "the only step is 'task'"
    assert next_place(stuck(), replace(event, to_step="task"), spec()).status is Status.PENDING


def test_a_state_that_forbids_it_comes_before_a_wrong_argument() -> None:
    event = Event(Who.STEWARD, Action.RESUBMIT, to_step="deploy")
    with pytest.raises(Refused):
        next_place(Place(status=Status.SUCCESS), event, spec())


@pytest.mark.parametrize(
    ("attempts_allowed", "failures", "status"),
    [(1, 1, "STUCK"), (2, 1, "PENDING"), (2, 2, "STUCK"), (3, 2, "PENDING"), (3, 3, "STUCK")],
)
def test_a_step_gets_as_many_attempts_as_the_limit_says(
    attempts_allowed: int, failures: int, status: str
) -> None:
    here = Place(status=Status.PENDING)
    for _ in range(failures):
        here = next_place(here, Event(Who.DOER, Action.RETRY), spec(max_attempts=attempts_allowed))
    assert (here.status, here.attempts) == (status, failures)


def test_rework_and_retry_share_one_count() -> None:
    one = spec(max_attempts=3)
    here = Place(status=Status.PENDING)
    for who, action in (
        (Who.DOER, Action.RETRY),
        (Who.DOER, Action.COMPLETED),
        (Who.REVIEWER, Action.RETRY),
        (Who.DOER, Action.COMPLETED),
    ):
        here = next_place(here, Event(who, action), one)
    assert (here.status, here.attempts) == (Status.REVIEW_REQUIRED, 2)
    here = next_place(here, Event(Who.REVIEWER, Action.RETRY, role="Supervisor"), one)
    assert here.stuck is not None
    assert (here.stuck.kind, here.stuck.phase) == (StuckKind.ATTEMPTS, Phase.REVIEWER)


def test_suspended_while_halted_still_needs_the_limit_raised() -> None:
    tight, wide = spec(cost_threshold=10), spec(cost_threshold=10.01)
    halt = Event(Who.SYSTEM, Action.HALT, limit=Status.HALTED_COST)
    resume = Event(Who.STEWARD, Action.RESUME)
    pending = Place(status=Status.PENDING, attempts=1)
    halted = next_place(pending, halt, tight)
    suspended = next_place(halted, Event(Who.STEWARD, Action.SUSPEND), tight)
    assert next_place(suspended, resume, tight) == halted
    with pytest.raises(Refused):
        next_place(halted, resume, tight)
    assert next_place(halted, resume, wide) == pending


COMMANDS = {
    "DRAFT": "logist job activate --job j",
    "PENDING": "logist job step --job j",
    "REVIEW_REQUIRED": "logist job step --job j",
    "WAITING": "logist job run --job j",
    "APPROVAL_REQUIRED": 'logist job approve --job j, or: logist job reject --job j --note "..."',
    "STUCK": 'logist job resubmit --job j --note "..."',
    "SUSPENDED": "logist job resume --job j",
    "HALTED_COST": "logist job config --job j --set limits.cost_threshold=CENTS, then: logist job resume --job j",
    "HALTED_TIME": "logist job config --job j --set limits.time_threshold_minutes=MINUTES, "
    "then: logist job resume --job j",
    "HALTED_ITERATION": "logist job config --job j --set limits.max_allowed_iterations=N, "
    "then: logist job resume --job j",
    "SUCCESS": "logist job history --job j",
    "FAILED": "logist job rerun --job j",
    "CANCELED": "logist job rerun --job j",
}


@pytest.mark.parametrize("status", Status)
def test_every_state_carries_its_command(status: Status) -> None:
    assert advice.next_command(status, "j") == COMMANDS[status.value]


def test_listings_know_every_state() -> None:
    assert list(advice.STATUSES) == [status.value for status in Status]


def test_a_job_in_doubt_offers_both_ways_out() -> None:
    assert advice.next_command(Status.STUCK, "j", StuckKind.IN_DOUBT) == (
        "logist job resubmit --job j --assume-paid if it was charged, or: logist job resubmit --job j --retry if it was not; "
        "or: logist job poststep --job j --response-file FILE to supply the answer"
    )


def test_what_is_in_doubt_is_not_asked_again_without_a_word() -> None:
    here, again = stuck(StuckKind.IN_DOUBT), Event(Who.STEWARD, Action.RESUBMIT)
    with pytest.raises(Refused, match="it is unknown whether the last request was charged"):
        next_place(here, again, spec())
    for word in machine.DOUBTS:
        assert next_place(here, replace(again, doubt=word), spec()).status is Status.PENDING
    with pytest.raises(Refused, match="it is unknown whether the last request was charged"):
        next_place(here, replace(again, doubt="perhaps"), spec())
    with pytest.raises(
        Refused, match="can't resubmit with --assume-paid or --retry: no request of this job is in doubt"
    ):
        next_place(stuck(StuckKind.AGENT), replace(again, doubt="retry"), spec())


def test_exit_codes() -> None:
    assert {status.value: exit_code(status) for status in Status} == {
        "DRAFT": 8,
        "PENDING": 0,
        "REVIEW_REQUIRED": 0,
        "WAITING": 0,
        "APPROVAL_REQUIRED": 11,
        "STUCK": 3,
        "SUSPENDED": 8,
        "HALTED_COST": 7,
        "HALTED_TIME": 7,
        "HALTED_ITERATION": 7,
        "SUCCESS": 0,
        "FAILED": 4,
        "CANCELED": 4,
    }


def test_the_table_is_all_there_is() -> None:
    with pytest.raises(Refused):
        next_place(Place(status=Status.APPROVAL_REQUIRED), Event(Who.STEWARD, Action.APPROVE), spec())
    assert set(Status) == machine.RESTING | TERMINAL
