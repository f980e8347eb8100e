"""What becomes of the work of a job that has succeeded, as the history tells it."""

from __future__ import annotations

from typing import Any

import pytest

from logist.core.history import fold, merge_policy
from logist.core.machine import advice, steward
from logist.core.model import Actor, EffectiveSpec, Interaction, Kind, Place, State, Status
from logist.core.model.commands import MergeCommand, ResubmitCommand
from logist.errors import Refused

SPEC = EffectiveSpec(title="t", prompt="Do it.", auto_merge=True)


def entry(number: int, kind: Kind, status: Status, **more: Any) -> Interaction:
    return Interaction.model_validate(
        {
            "sequence": number,
            "timestamp": "2026-01-02T03:04:05Z",
            "kind": kind,
            "actor": Actor.SYSTEM,
            "state_before": Status.PENDING,
            "state_after": status,
            "workspace_path": "w",
            "after": Place(status=status),
            **more,
        }
    )


def history(spec: EffectiveSpec, source: str | None, *rest: Interaction) -> State:
    made = entry(1, Kind.CREATE, Status.PENDING, spec=spec, command={"source": source} if source else {})
    return fold.fold([made, *rest])


def reviewed(phase: str, **seen: Any) -> Interaction:
    """A job that an answer has ended."""
    return entry(2, Kind.ASK, Status.SUCCESS, observed={"phase": phase, **seen})


DONE = entry(2, Kind.APPROVE, Status.SUCCESS)
MANUAL = entry(
    2, Kind.ASK, Status.APPROVAL_REQUIRED, after=Place(status=Status.APPROVAL_REQUIRED, awaiting="manual")
)
CONFLICT = entry(3, Kind.MERGE, Status.STUCK, command={"merge": "conflict", "conflicts": ["a"]})
MERGED = entry(3, Kind.MERGE, Status.SUCCESS, command={"merge": "merge"})


@pytest.mark.parametrize(
    ("spec", "source", "rest", "merge"),
    [
        (SPEC, "/repo", [], None),
        (SPEC, "/repo", [DONE], "due"),
        (SPEC, None, [DONE], None),
        (SPEC.model_copy(update={"auto_merge": None}), "/repo", [DONE], None),
        (SPEC.model_copy(update={"parent": "p"}), "/repo", [DONE], None),
        (SPEC, "/repo", [DONE, MERGED], "merged"),
        (SPEC, "/repo", [reviewed("reviewer")], "due"),
        (SPEC, "/repo", [reviewed("reviewer", partial=True)], None),
        (SPEC, "/repo", [reviewed("doer")], None),
        (SPEC, "/repo", [reviewed("reviewer", partial=True), MERGED], "merged"),
        (SPEC, "/repo", [entry(2, Kind.COLLECT, Status.SUCCESS)], None),
        (SPEC, "/repo", [MANUAL, entry(3, Kind.APPROVE, Status.SUCCESS)], None),
        (SPEC, "/repo", [DONE, CONFLICT], None),
        (SPEC, "/repo", [DONE, entry(3, Kind.RERUN, Status.PENDING)], None),
        (SPEC, "/repo", [DONE, MERGED, entry(4, Kind.RESTEP, Status.SUCCESS, command={"to": 3})], "due"),
        (SPEC, "/repo", [entry(2, Kind.SPEC, Status.PENDING, spec=EffectiveSpec(title="t")), DONE], None),
    ],
)
def test_a_merge_is_due_once_the_job_has_succeeded(
    spec: EffectiveSpec, source: str | None, rest: list[Interaction], merge: str | None
) -> None:
    state = history(spec, source, *rest)
    assert state.merge == merge
    assert merge_policy.is_merge_held(state) is (
        state.status is Status.SUCCESS and bool(state.merges) and merge is None
    )
    assert state.source == source


@pytest.mark.parametrize("spec", [SPEC, SPEC.model_copy(update={"auto_merge": False})])
def test_only_what_is_to_be_merged_by_itself_is(spec: EffectiveSpec) -> None:
    assert merge_policy.is_merged_automatically(spec, "/repo") is bool(spec.auto_merge)
    assert not merge_policy.is_merged_automatically(spec, None)


def test_work_that_does_not_fit_is_stuck_with_the_reason() -> None:
    done = Place(status=Status.SUCCESS)
    command = MergeCommand(conflicts=["a.py"], lack=": a.py")
    place = steward.apply_command(Kind.MERGE, done, command, SPEC)
    assert (place.status, place.stuck and place.stuck.kind, place.stuck and place.stuck.reason) == (
        Status.STUCK,
        "merge",
        ": a.py",
    )
    assert steward.apply_command(Kind.MERGE, place, MergeCommand(), SPEC) == done
    assert steward.apply_command(Kind.RESUBMIT, place, ResubmitCommand(), SPEC).status is Status.PENDING
    with pytest.raises(Refused):
        steward.apply_command(Kind.MERGE, Place(status=Status.PENDING), MergeCommand(), SPEC)


@pytest.mark.parametrize(
    ("source", "parent", "merge", "unmerged"),
    [
        (None, None, None, False),
        ("/r", None, None, True),
        ("/r", None, "due", True),
        ("/r", "p", None, False),
        ("/r", None, "merged", False),
    ],
)
def test_what_is_not_merged_yet_can_be(
    source: str | None, parent: str | None, merge: str | None, unmerged: bool
) -> None:
    assert advice.is_unmerged(source, parent, merge) is unmerged
    command = advice.next_command("SUCCESS", job="j", unmerged=unmerged)
    assert command == f"logist job {'merge' if unmerged else 'history'} --job j"
