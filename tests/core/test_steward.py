"""What people and the system ask of a job."""

from __future__ import annotations

import pytest

from logist.core.machine import kinds, steward
from logist.core.machine.actions import Action
from logist.core.model import JsonObject, Kind, Phase, Place, Status, StuckKind
from logist.core.model.commands import (
    ApproveCommand,
    HaltCommand,
    NoteCommand,
    RestepCommand,
    ResubmitCommand,
    RoleCommand,
)
from logist.errors import Refused, UsageError
from tests.core.builders import spec, stuck

PENDING = Place(status=Status.PENDING, attempts=1)
ACTIVE = Place(status=Status.PENDING)
HALTED = Place(status=Status.HALTED_TIME, attempts=1, before=PENDING, halted_at=60.0)


@pytest.mark.parametrize(
    ("kind", "here", "command", "after"),
    [
        (Kind.CREATE, None, {"draft": True}, Place(status=Status.DRAFT)),
        (Kind.CREATE, None, {"draft": False}, ACTIVE),
        (Kind.CREATE, None, {}, ACTIVE),
        (Kind.SPEC, PENDING, {"changed": ["rank"]}, PENDING),
        (Kind.SPEC, Place(status=Status.SUCCESS), {}, Place(status=Status.SUCCESS)),
        (Kind.ACTIVATE, Place(status=Status.DRAFT), {}, ACTIVE),
        (
            Kind.APPROVE,
            Place(status=Status.APPROVAL_REQUIRED, awaiting="end"),
            {},
            Place(status=Status.SUCCESS),
        ),
        (Kind.REJECT, Place(status=Status.APPROVAL_REQUIRED, awaiting="end"), {"note": "no"}, ACTIVE),
        (Kind.RESUBMIT, stuck(attempts=3), {"note": "x"}, ACTIVE),
        (Kind.RESUBMIT, stuck(attempts=3), {"review": True}, Place(status=Status.REVIEW_REQUIRED)),
        (Kind.RESUBMIT, stuck(), {"step": "task"}, ACTIVE),
        (Kind.SUSPEND, PENDING, {}, Place(status=Status.SUSPENDED, attempts=1, before=PENDING)),
        (Kind.RESUME, Place(status=Status.SUSPENDED, before=stuck()), {}, stuck()),
        (Kind.CANCEL, PENDING, {}, Place(status=Status.CANCELED)),
        (Kind.FAIL, stuck(), {}, Place(status=Status.FAILED)),
        (Kind.ROLE, PENDING, {"from": "Worker", "to": "Planner"}, PENDING),
        (Kind.ROLE, stuck(phase=Phase.REVIEWER), {"to": "Planner"}, stuck(phase=Phase.REVIEWER)),
        (Kind.NOTE, stuck(), {"note": "Ask Bob."}, stuck()),
        (Kind.NOTE, Place(status=Status.SUCCESS), {"note": "Well done."}, Place(status=Status.SUCCESS)),
        (Kind.RERUN, Place(status=Status.SUCCESS), {"clean_git": True}, ACTIVE),
        (Kind.HALT, PENDING, {"limit": "HALTED_TIME"}, HALTED),
    ],
)
def test_where_it_leads(kind: Kind, here: Place | None, command: JsonObject, after: Place) -> None:
    assert steward.apply_command(kind, here, kinds.read_command(kind, command), spec()) == after


def test_restep_goes_back_to_the_place_before() -> None:
    ended = Place(status=Status.SUCCESS)
    assert steward.apply_command(Kind.RESTEP, ended, RestepCommand(to=3), spec(), PENDING) == PENDING
    with pytest.raises(Refused):
        steward.apply_command(Kind.RESTEP, ended, RestepCommand(to=3), spec(), None)


def test_a_rejected_manual_step_is_stuck_with_the_note() -> None:
    manual = Place(status=Status.APPROVAL_REQUIRED, awaiting="manual")
    after = steward.apply_command(Kind.REJECT, manual, NoteCommand(note="not possible"), spec())
    assert after.stuck is not None
    assert (after.stuck.kind, after.stuck.phase) == (StuckKind.AGENT, Phase.DOER)
    assert (after.stuck.reason, after.stuck.role) == ("not possible", "")


def test_p35_a_new_role_owes_what_the_doer_that_got_stuck_owed() -> None:
    for here in (stuck(), Place(status=Status.SUSPENDED, before=stuck())):
        after = steward.apply_command(Kind.ROLE, here, RoleCommand(from_role="Worker", to="Planner"), spec())
        owing = after.before or after
        assert owing.stuck is not None
        assert (owing.stuck.role, owing.stuck.reason) == ("Planner", "why")
        assert after.status is here.status


def test_every_kind_of_a_steward_is_an_action_of_the_machine() -> None:
    made_by_agents_or_later = {
        *(Kind.ASK, Kind.RECOVER, Kind.SPEC),
        *(Kind.FORK, Kind.NOTE, Kind.SCRUB),
    }
    assert set(kinds.ACTIONS) == set(Kind) - made_by_agents_or_later
    assert all(action.value == kind.value for kind, action in kinds.ACTIONS.items())
    assert set(Action) >= set(kinds.ACTIONS.values())


@pytest.mark.parametrize("limit", [None, "", "HALTED", "PENDING", "nonsense", 3, [], {}])
def test_a_halt_names_a_limit(limit: object) -> None:
    command = HaltCommand.read({"limit": limit} if limit is not None else {})
    with pytest.raises(Refused):
        steward.apply_command(Kind.HALT, PENDING, command, spec())


def test_only_the_system_halts() -> None:
    with pytest.raises(Refused):
        steward.apply_command(Kind.HALT, Place(status=Status.DRAFT), HaltCommand(limit="HALTED_COST"), spec())


def test_an_unknown_step() -> None:
    with pytest.raises(UsageError, match="unknown step 'deploy' in this job"):
        steward.apply_command(Kind.RESUBMIT, stuck(), ResubmitCommand(step="deploy"), spec())


@pytest.mark.parametrize("name", [7, ["task"]])
def test_what_is_no_name_of_a_step_has_no_say(name: object) -> None:
    command = ResubmitCommand.read({"step": name})
    assert steward.apply_command(Kind.RESUBMIT, stuck(), command, spec()).status is Status.PENDING


def test_an_approval_after_a_review_is_the_last_where_no_step_follows() -> None:
    waiting = Place(status=Status.APPROVAL_REQUIRED, awaiting="review")
    after = steward.apply_command(Kind.APPROVE, waiting, ApproveCommand(), spec(approval="each"))
    assert after == Place(status=Status.SUCCESS)
