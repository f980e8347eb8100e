"""What if: the recorded answers and decisions under other rules, and exactly the recorded end under the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.config.sections import APPROVAL_OF_MODE
from logist.core.history import fold
from logist.core.machine import kinds, steward
from logist.core.model import (
    Actor,
    Approval,
    Change,
    CheckResult,
    Edge,
    ErrorKind,
    Evidence,
    Execution,
    Interaction,
    JsonObject,
    Kind,
    Limits,
    Observed,
    Permission,
    Permissions,
    Refusal,
    Status,
    Step,
    StepType,
    TransportError,
    Usage,
    Workflow,
)
from logist.core.model.commands import CreateCommand
from logist.core.replay import replay
from logist.core.step import step
from logist.core.step.step import Outcome
from logist.core.whatif import KEYS, ChangedRules, WhatIfRun, named, read_permissions, read_settings, run
from logist.core.whatif.rules import BROUGHT
from logist.errors import Damaged, LogistError, UsageError
from tests.core.builders import SCHEMA, Recorder, command, whole_history
from tests.support import examples

CENT = 1_000_000
HISTORY = whole_history().entries


class Recorded(Recorder):
    """The same with what a workflow and a review record."""

    def __init__(self, **asked: Any) -> None:
        super().__init__(**asked)
        routed = steward.route_command(Kind.CREATE, None, CreateCommand(), self.spec)
        if routed is not None:
            place = steward.apply_command(Kind.CREATE, None, CreateCommand(), self.spec, routed=routed)
            self.more(after=place, state_after=place.status, state_before=place.status, step=place.step)

    def answer(self, text: str | None = None, **fields: Any) -> Outcome:
        outcome = super().answer(text, **fields)
        self.more(route=outcome.route, command=step.recorded(outcome).write())
        return outcome

    def gather(self, kind: Kind, **command: Any) -> None:
        """What the system does with the children of a step."""
        asked = kinds.read_command(kind, command)
        routed = steward.route_command(kind, self.state, asked, self.spec)
        place = steward.apply_command(kind, self.state.place, asked, self.spec, routed=routed)
        route = routed.route if routed else []
        self._record(kind, place, actor=Actor.SYSTEM, command=command, route=route, usage=Usage(cost_cents=7))

    def more(self, **fields: Any) -> None:
        """Fields of the last entry."""
        self.entries[-1] = self.entries[-1].model_copy(update=fields)


def tried(entries: Sequence[Interaction], *sets: str, **rules: Any) -> WhatIfRun:
    changed = ChangedRules(rules.pop("schema", SCHEMA), read_settings(sets), **rules)
    return run(iter(entries), changed, replay.collect_restep_targets(entries))


def accepted() -> Recorder:
    """Written, reviewed, approved."""
    job = Recorded(approval="end", max_attempts=3)
    job.answer()
    job.answer()
    job.decide(Kind.APPROVE)
    return job


def reworked() -> Recorder:
    """Sent back once: four calls, each of a cent."""
    job = Recorded(approval="end", max_attempts=3)
    job.answer()
    job.answer(command("RETRY", summary="Louder."))
    job.answer()
    job.answer()
    job.decide(Kind.APPROVE)
    return job


def given_up() -> Recorder:
    """Three attempts that failed; then a person says how."""
    job = Recorded(approval="none", review=False, max_attempts=3)
    for _ in range(3):
        job.answer(command("RETRY"))
    job.decide(Kind.RESUBMIT, note="Use capitals.")
    job.answer()
    return job


def raised() -> Recorder:
    """Halted by its limit of cost, which was raised."""
    job = Recorded(approval="none", cost_threshold=1)
    job.answer()
    job.decide(Kind.HALT, limit="HALTED_COST")
    job.change(limits=Limits(cost_threshold=5))
    job.decide(Kind.RESUME)
    job.answer()
    return job


def unapproved() -> Recorder:
    job = Recorded(approval="none")
    job.answer()
    job.answer()
    return job


def unreviewed() -> Recorder:
    job = Recorded(approval="none", review=False)
    job.answer()
    return job


def doubtful() -> Recorder:
    job = Recorded(approval="none", review=False)
    job.lose()
    job.decide(Kind.RESUBMIT, doubt="retry", released_microcents=5 * CENT, released_of=2)
    job.answer()
    return job


def invalid() -> Recorder:
    job = Recorded(approval="none", review=False)
    job.answer("Done, I think.")
    job.decide(Kind.RESUBMIT)
    job.answer()
    return job


def canceled() -> Recorder:
    job = Recorded(approval="none")
    job.answer()
    job.decide(Kind.CANCEL)
    return job


def started_over() -> Recorder:
    job = Recorded(approval="none")
    job.answer()
    job.answer()
    job.decide(Kind.RERUN)
    job.answer()
    job.answer(command("STUCK"))
    return job


JOBS: dict[str, Callable[[], Recorder]] = {
    made.__name__: made
    for made in (
        *(accepted, reworked, given_up, raised, unapproved, unreviewed),
        *(doubtful, invalid, canceled, started_over),
    )
}
# job, rules, where it ends, at which interaction it differs, calls saved, open, needed, decisions spared
CASES = [
    ("accepted", "review=off", "SUCCESS", 2, 1, 0, [], 0),
    ("accepted", "approval=none", "SUCCESS", 3, 0, 0, [], 1),
    ("accepted", "approval=each", "APPROVAL_REQUIRED (review)", 3, 0, 0, [], 0),
    ("accepted", "limits.iterations=1", "HALTED_ITERATION", 3, 1, 0, [], 0),
    ("accepted", "limits.cost=1", "HALTED_COST", 3, 1, 0, [], 0),
    ("accepted", "limits.cost=1.5", "HALTED_COST", 3, 1, 0, [], 0),
    ("accepted", "limits.cost=2", "SUCCESS", None, 0, 0, [], 0),
    ("accepted", "limits.minutes=0.03", "HALTED_TIME", 3, 1, 0, [], 0),
    ("reworked", "limits.attempts=1", "STUCK (attempts)", 3, 2, 0, [], 0),
    ("reworked", "review=off", "SUCCESS", 2, 3, 0, [], 0),
    ("reworked", "limits.iterations=2", "HALTED_ITERATION", 4, 2, 0, [], 0),
    ("given_up", "limits.attempts=2", "SUCCESS", 3, 1, 0, [], 0),
    ("given_up", "limits.attempts=4", "SUCCESS", 4, 0, 0, [], 1),
    ("given_up", "review=on", "REVIEW_REQUIRED", 6, 0, 0, ["Supervisor"], 0),
    ("raised", "limits.cost=9", "SUCCESS", 3, 0, 0, [], 1),
    ("raised", "limits.cost=1", "HALTED_COST", 5, 1, 0, [], 0),
    ("raised", "limits.cost=0", "HALTED_COST", 2, 2, 0, [], 0),
    ("unapproved", "approval=end", "APPROVAL_REQUIRED (end)", 3, 0, 0, [], 0),
    ("unapproved", "approval=true", "APPROVAL_REQUIRED (end)", 3, 0, 0, [], 0),
    ("unapproved", "approval=each", "APPROVAL_REQUIRED (review)", 3, 0, 0, [], 0),
    ("unreviewed", "review.enabled=true", "REVIEW_REQUIRED", 2, 0, 0, ["Supervisor"], 0),
    ("doubtful", "on_doubt=retry", "SUCCESS", 2, 0, 0, [], 1),
    ("invalid", "response_format=sections", "STUCK (agent)", 4, 0, 0, [], 0),
    ("canceled", "review=off", "SUCCESS", 2, 0, 0, [], 1),
    ("canceled", "limits.iterations=0", "CANCELED", 2, 1, 0, [], 0),
    ("started_over", "review=off", "SUCCESS", 2, 2, 0, [], 0),
    ("started_over", "limits.iterations=1", "HALTED_ITERATION", 3, 1, 2, [], 0),
]


@pytest.mark.parametrize(("job", "rule", "end", "at", "saved", "left_open", "needs", "spared"), CASES)
def test_a_changed_rule(
    job: str, rule: str, end: str, at: int | None, saved: int, left_open: int, needs: list[str], spared: int
) -> None:
    entries = JOBS[job]().entries
    found = tried(entries, rule)
    assert (named(found.ended), found.differs_at, found.saved.calls, found.open.calls) == (
        end,
        at,
        saved,
        left_open,
    )
    assert (list(found.needs), found.spared, found.interactions) == (needs, spared, len(entries))
    assert bool(found.reason) is (at is not None)


@pytest.mark.parametrize("count", range(1, len(HISTORY) + 1))
def test_rules_that_change_nothing_change_nothing(count: int) -> None:
    found = tried(HISTORY[:count])
    assert (found.same_end, found.differs_at, found.reason, found.notes) == (True, None, "", ())
    assert found.ended == fold.fold(HISTORY[:count]).place == found.recorded_end
    assert found.saved == found.open == type(found.saved)()
    assert (found.needs, found.spared) == ((), 0)


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize(
    "rule", ["limits.attempts=3", "limits.cost=1000", "on_doubt=stuck", "response_format=json"]
)
def test_a_rule_that_held_anyway_changes_nothing(job: str, rule: str) -> None:
    if job == "raised" and rule == "limits.cost=1000":
        return
    assert tried(JOBS[job]().entries, rule).differs_at is None


def test_costs_are_exact() -> None:
    job = Recorded(approval="end")
    job.answer(usage=Usage(cost_cents=1, cost_microcents=1, seconds=0.1))
    job.answer(usage=Usage(cost_cents=3, cost_microcents=999_999, seconds=0.2))
    job.decide(Kind.APPROVE)
    found = tried(job.entries, "review=off")
    assert (found.saved.calls, found.saved.microcents, found.saved.seconds) == (1, 3_999_999, 0.2)
    assert {role: (calls.count, calls.mean) for role, calls in found.calls.items()} == {
        "Worker": (1, 1_000_001),
        "Supervisor": (1, 3_999_999),
    }


def test_a_booking_that_nobody_took_back_costs() -> None:
    assert tried(doubtful().entries, "on_doubt=retry").saved.microcents == -5 * CENT


def test_a_limit_that_stood_is_no_difference_though_an_answer_cost_more() -> None:
    job = Recorded(approval="none", review=False, cost_threshold=2)
    job.answer(command("RETRY"), usage=Usage(cost_cents=1))
    job.answer(usage=Usage(cost_cents=9))  # a program that can't be metered
    assert tried(job.entries, "limits.attempts=9").differs_at is None
    assert tried(job.entries, "limits.cost=1").ended.status is Status.HALTED_COST


def test_what_was_given_by_a_person_needs_no_limit() -> None:
    job = Recorded(approval="none", review=False)
    job.answer(command("STUCK"))
    job.answer(simulated=True)
    assert tried(job.entries, "limits.iterations=1").differs_at is None


def test_a_decision_on_another_outcome_ends_what_can_be_told() -> None:
    found = tried(started_over().entries, "approval=end")
    assert (named(found.ended), found.broken_off, found.same_end) == ("APPROVAL_REQUIRED (end)", True, False)
    assert found.reason == (
        "APPROVAL_REQUIRED (end) instead of SUCCESS; a steward's rerun was based on another outcome"
    )


def forked(at: int) -> dict[str, Any]:
    return {"from": "j", "at": at, "head": "h"}


def test_of_a_fork_counts_what_it_has_of_its_own() -> None:
    job, fork = given_up(), given_up()
    del fork.entries[4:]
    fork.decide(Kind.FORK, **forked(4))
    fork.decide(Kind.RESUBMIT)
    fork.answer()
    rules = ChangedRules(SCHEMA, read_settings(["limits.attempts=2"]))
    runs = [
        run(job.entries, rules),
        run(fork.entries, rules),
        run(job.entries, rules, shared=4),
        run(job.entries[:4], rules, shared=4),
    ]
    assert [(each.differs_at, each.saved.calls) for each in runs] == [(3, 1), (3, 0), (3, 0), (3, 0)]
    assert [sum(calls.count for calls in each.calls.values()) for each in runs] == [4, 1, 1, 0]


def test_what_its_beginning_needs_is_needed_by_the_original() -> None:
    job = unreviewed()
    assert tried(job.entries, "review=on").needs == ("Supervisor",)
    job.decide(Kind.FORK, **forked(2))
    assert tried(job.entries, "review=on").needs == ()
    assert tried(job.entries[:1], "review=on").needs == ()


def test_what_only_a_newer_logist_knows_ends_it_too() -> None:
    entries = reworked().entries
    odd = entries[4].model_copy(update={"kind": Kind("pause")})
    assert tried([*entries[:4], odd, *entries[5:]]).same_end
    found = tried([*entries[:4], odd, *entries[5:]], "limits.attempts=1")
    assert found.broken_off
    assert "interaction 5" in found.reason


def test_errors_of_the_provider_take_attempts() -> None:
    job = Recorded(approval="none", review=False)
    job.answer("", error=TransportError(kind=ErrorKind.TRANSIENT, message="overloaded"))
    job.answer()
    found = tried(job.entries, "limits.attempts=1")
    assert (named(found.ended), found.reason) == ("STUCK (attempts)", "no answer: overloaded")


STRICTER: JsonObject = {**SCHEMA, "properties": {**SCHEMA["properties"]}}
STRICTER["properties"]["response"] = {**SCHEMA["properties"]["response"], "maxProperties": 3}
LAXER = {**SCHEMA, "properties": {**SCHEMA["properties"]}}
LAXER["properties"]["response"] = {**SCHEMA["properties"]["response"], "additionalProperties": True}


def test_a_stricter_schema() -> None:
    job = Recorded(approval="none")
    job.answer(command(output=1))
    job.answer()
    found = tried(job.entries, schema=STRICTER)
    assert (named(found.ended), found.differs_at, found.saved.calls) == ("STUCK (agent)", 2, 1)
    assert found.reason.startswith("invalid answer: ")


def test_a_laxer_schema_takes_evidence_as_far_as_it_is_known() -> None:
    job = Recorded(approval="none", review=False)
    job.answer(command("COMPLETED", "new.txt", "old.txt", "gone.txt", mood="good"))
    changes = [
        Change(path="new.txt", kind="created", mode="100644"),
        Change(path="gone.txt", kind="deleted", mode="100644"),
    ]
    job.more(observed=Observed(role="Worker", changes=changes))
    found = tried(job.entries, schema=LAXER)
    assert (named(found.ended), named(found.recorded_end)) == ("STUCK (agent)", "STUCK (agent)")
    assert found.ended.stuck is not None
    assert "gone.txt" in found.ended.stuck.reason
    assert "new.txt" not in found.ended.stuck.reason
    assert found.notes == (
        "interaction 2: not recorded whether the evidence old.txt existed: assumed that it did",
    )


MAKES = Permissions.from_names(["read_files", "create_files"])


def changing(kind: str, *, refusals: Sequence[JsonObject] = (), tools: JsonObject | None = None) -> Recorder:
    """A doer that changed a file; `tools` as the model called them."""
    job = Recorded(approval="none", review=False)
    job.answer(command("COMPLETED", "a.txt"))
    last = job.entries[-1]
    seen = Observed(
        role="Worker",
        changes=[Change(path="a.txt", kind=kind, mode="100644")],
        evidence=[Evidence(path="a.txt", exists=not refusals)],
        refusals=[Refusal.model_validate(each) for each in refusals],
    )
    job.more(observed=seen, response=last.response.model_copy(update={"tools": tools or {}}))
    if refusals:
        outcome = replay.judge_interaction(
            job.spec, fold.fold(job.entries[:-1]), job.entries[-1], None, SCHEMA
        )
        assert outcome is not None
        job.more(after=outcome.place, state_after=outcome.place.status, response=outcome.response)
    return job


def with_permissions(entries: list[Interaction], names: Sequence[str]) -> list[Interaction]:
    """The history with what the role could do then."""
    last = entries[-1]
    request = last.request.model_copy(update={"metadata": {"permissions": list(names)}})
    return [*entries[:-1], last.model_copy(update={"request": request})]


@pytest.mark.parametrize(
    ("kind", "may", "end"),
    [
        ("created", "create_files", "SUCCESS"),
        ("modified", "create_files", "STUCK (permission)"),
        ("modified", "write_files", "SUCCESS"),
        ("mode", "create_files,delete_files", "STUCK (permission)"),
        ("deleted", "write_files", "STUCK (permission)"),
        ("deleted", "delete_files", "SUCCESS"),
        ("created", "none", "STUCK (permission)"),
    ],
)
def test_permissions_are_held_against_what_was_changed(kind: str, may: str, end: str) -> None:
    found = tried(changing(kind).entries, permissions=read_permissions([f"Worker:{may}"]))
    assert named(found.ended) == end
    assert tried(changing(kind).entries, permissions=read_permissions([f"Supervisor:{may}"])).same_end


@pytest.mark.parametrize(
    ("tools", "may", "end", "why"),
    [
        ({"read_file": 2}, "create_files", "STUCK (permission)", "it lacks read_files"),
        ({"read_file": 2}, "create_files,read_files", "SUCCESS", ""),
        (
            {"execute_command": 1},
            "create_files,read_files",
            "STUCK (permission)",
            "it lacks execute_commands",
        ),
        ({"Bash": 7}, "create_files", "SUCCESS", ""),
    ],
)
def test_permissions_are_held_against_the_tools_that_were_called(
    tools: JsonObject, may: str, end: str, why: str
) -> None:
    found = tried(changing("created", tools=tools).entries, permissions=read_permissions([f"Worker:{may}"]))
    assert named(found.ended) == end
    assert why in found.reason


def test_what_was_undone_then_stays_where_it_is_allowed() -> None:
    refusal = {"kind": "workspace", "path": "a.txt", "change": "created", "role": "Worker", "message": "no"}
    entries = with_permissions(changing("created", refusals=[refusal]).entries, ["read_files"])
    assert named(tried(entries).ended) == "STUCK (permission)"
    found = tried(entries, permissions={"Worker": MAKES})
    assert (named(found.ended), found.differs_at) == ("SUCCESS", 2)


def test_a_tool_that_would_have_been_run_leaves_the_answer_open() -> None:
    refusal = {
        "kind": "tool",
        "tool": "delete_file",
        "role": "Worker",
        "missing": ["delete_files"],
        "message": "no",
    }
    job = changing("created", refusals=[refusal], tools={"delete_file": 1})
    entries = with_permissions(job.entries, MAKES.list_names())
    assert tried(entries).same_end
    found = tried(entries, permissions=read_permissions(["Worker:read_files,create_files,delete_files"]))
    assert (named(found.ended), found.needs) == ("PENDING", ("Worker",))
    assert "the refused tool (delete_file) would have run" in found.reason
    still = tried(entries, permissions=read_permissions(["Worker:create_files,execute_commands"]))
    assert named(still.ended) == "STUCK (permission)"


def test_the_permissions_that_a_role_had_change_nothing() -> None:
    entries = with_permissions(changing("modified").entries, MAKES.list_names())
    assert tried(entries, permissions={"Worker": MAKES}).same_end
    assert not tried(changing("modified").entries, permissions={"Worker": MAKES}).same_end


def test_another_role_file_is_told() -> None:
    job = Recorded(approval="none", roles={"Worker": "0" * 64})
    job.answer()
    assert tried(job.entries, roles={"Worker": "0" * 64}).notes == ()
    assert (
        "the role file of Worker has changed, but its recorded answers are to the old prompts"
        in tried(job.entries, roles={"Worker": "1" * 64}).notes[0]
    )


CHECKED: list[JsonObject] = [{"check": "lint_passes", "severity": "warning", "outcome": "failed", "code": 1}]


def reviewed(issue: JsonObject, *, checks: Sequence[JsonObject] = ()) -> Recorder:
    """A review that passes with one issue; `checks` were run after the doer."""
    job = Recorded(approval="end")
    job.answer()
    assert job.entries[-1].observed is not None
    job.more(
        observed=job.entries[-1].observed.model_copy(
            update={"checks": [CheckResult.model_validate(each) for each in checks]}
        )
    )
    seen = {"verdict": "PASS", "issues": [issue], "suggestions": []}
    job.answer(command(output=seen))
    assert job.entries[-1].observed is not None
    job.more(observed=job.entries[-1].observed.model_copy(update={"asks_verdict": True}))
    job.decide(Kind.APPROVE)
    return job


WARNING = {"check": "code_quality", "severity": "warning", "message": "long"}


@pytest.mark.parametrize(
    ("sets", "end"),
    [
        (["review.mode=strict"], "PENDING"),
        (["review.mode=strict", "limits.attempts=1"], "STUCK (attempts)"),
        (["review.mode=yolo"], "SUCCESS"),
        (["review.checks.code_quality.severity=error"], "PENDING"),
        (["review.checks.code_quality.enabled=false", "review.mode=strict", "approval=end"], "SUCCESS"),
        (["review.checks.security.severity=warning"], "SUCCESS"),
    ],
)
def test_the_rules_of_a_review(sets: list[str], end: str) -> None:
    found = tried(reviewed(WARNING).entries, *sets)
    assert named(found.ended) == end
    assert found.needs == (("Worker",) if end == "PENDING" else ())


def test_a_check_that_is_switched_off_was_not_run() -> None:
    entries = reviewed({"message": "x", "severity": "warning"}, checks=CHECKED).entries
    assert tried(entries).same_end
    strict = "review.checks.lint_passes.severity=error"
    assert named(tried(entries, strict).ended) == "PENDING"
    assert tried(entries, strict, "review.checks.lint_passes.enabled=off").same_end


def test_a_mode_brings_its_approval_along_unless_another_was_asked_for() -> None:
    assert BROUGHT == APPROVAL_OF_MODE
    spec = reviewed(WARNING).spec
    strict = ChangedRules(SCHEMA, read_settings(["review.mode=strict"]))
    assert strict.spec(spec).approval is Approval.EACH
    assert strict.spec(spec.model_copy(update={"approval": Approval.NONE})).approval is Approval.NONE
    both = ChangedRules(SCHEMA, read_settings(["review.mode=yolo", "approval=each", "auto_merge=no"])).spec(
        spec
    )
    assert (both.approval, both.auto_merge, both.review_mode) == (Approval.EACH, None, "yolo")
    yolo = ChangedRules(SCHEMA, read_settings(["review.mode=yolo"])).spec(spec)
    assert (yolo.approval, yolo.auto_merge) == (Approval.NONE, True)
    again = ChangedRules(SCHEMA, read_settings(["review.mode=normal"])).spec(yolo)
    assert (again.approval, again.auto_merge, again.review_mode) == (Approval.END, None, None)


def test_a_part_of_another_job_has_its_limits_from_there() -> None:
    spec = reviewed(WARNING).spec.model_copy(update={"parent": "p", "approval": Approval.NONE})
    rules = ChangedRules(
        SCHEMA, read_settings(["limits.cost=1", "limits.attempts=7", "approval=each", "review.mode=strict"])
    )
    changed = rules.spec(spec)
    assert (changed.limits.cost_threshold, changed.limits.max_attempts) == (1000, 7)
    assert (changed.approval, changed.review_mode) == (Approval.NONE, "strict")


def flow(*, threshold: int = 80, **fields: Any) -> Workflow:
    """`write`, then by its score `publish` or `polish`, which leads to `publish`; `fields` are more of `write`."""
    return Workflow(
        name="letter",
        steps=(
            Step(id="write", name="Write", **fields),
            Step(id="good", name="Good?", step_type=StepType.DECISION),
            Step(id="polish", name="Polish"),
            Step(id="publish", name="Publish"),
        ),
        edges=(
            Edge(source="write", target="good"),
            Edge(source="good", target="publish", condition=f"output.score >= {threshold}"),
            Edge(source="good", target="polish"),
            Edge(source="polish", target="publish"),
        ),
        start="write",
    )


def posted(score: int = 85, **fields: Any) -> Recorder:
    job = Recorded(approval="none", workflow=flow(**fields))
    job.answer(command(output={"score": score}))
    while job.state.status is Status.PENDING:
        job.answer()
    return job


def test_a_workflow_that_decides_otherwise() -> None:
    entries = posted().entries
    assert tried(entries, workflow=flow()).same_end
    found = tried(entries, workflow=flow(threshold=90))
    assert (named(found.ended), found.differs_at, found.needs) == ("PENDING at polish", 2, ("Worker",))
    assert (found.open.calls, found.saved.calls, found.follows) == (1, 0, True)


def test_a_workflow_that_passes_over_a_step_saves_its_call() -> None:
    entries = posted(70).entries
    assert len(entries) == 4
    found = tried(entries, workflow=flow(threshold=60))
    assert (named(found.ended), found.differs_at, found.saved.calls) == ("SUCCESS", 2, 1)


def test_a_workflow_with_another_step_to_confirm() -> None:
    found = tried(posted().entries, workflow=flow(confirm=True))
    assert (named(found.ended), found.open.calls) == ("APPROVAL_REQUIRED (review) at write", 1)
    assert "it waits for a steward, but no decision is recorded at write" in found.reason
    manual = tried(posted().entries, workflow=flow(execution=Execution.MANUAL))
    assert (named(manual.ended), manual.differs_at) == ("APPROVAL_REQUIRED (manual) at write", 1)


def fan_out(share: float, **fields: Any) -> Workflow:
    """`each`, for every item of the input, and then `last`."""
    each = Step(id="each", name="Each", step_type=StepType.FOREACH, min_success_percent=share, **fields)
    edges = (Edge(source="each", target="last"),)
    return Workflow(name="letter", steps=(each, Step(id="last", name="Last")), edges=edges, start="each")


def gathered(share: float, good: int) -> Recorder:
    """Of two children that many succeeded."""
    job = Recorded(approval="none", workflow=fan_out(share), max_allowed_iterations=9)
    ids = [{"id": "j--2-1"}, {"id": "j--2-2"}]
    job.gather(Kind.SPAWN, children=ids)
    done = [{**child, "status": "SUCCESS" if n < good else "FAILED"} for n, child in enumerate(ids)]
    reached = 100 * good >= share * 2
    job.gather(Kind.COLLECT, gathered="reached" if reached else "share", children=done)
    if reached:
        job.answer()
    return job


def test_a_workflow_that_wants_another_share_of_its_children() -> None:
    assert tried(gathered(50, 1).entries, workflow=fan_out(50)).same_end
    stricter = tried(gathered(50, 1).entries, workflow=fan_out(60))
    assert (named(stricter.ended), stricter.differs_at) == ("STUCK (share) at each", 3)
    assert (stricter.reason, stricter.saved.calls) == ("1 of 2 succeeded, but 60 % must", 1)
    laxer = tried(gathered(100, 1).entries, workflow=fan_out(50))
    assert (named(laxer.ended), laxer.needs) == ("PENDING at last", ("Worker",))
    assert "whether the work of the child jobs can be merged" in laxer.notes[0]


def test_a_limit_before_a_step_is_given_away() -> None:
    found = tried(gathered(50, 1).entries, "limits.iterations=1")
    assert (named(found.ended), found.differs_at) == ("HALTED_ITERATION at each", 2)
    assert (found.saved.calls, found.saved.microcents) == (1, 15 * CENT)
    none = tried(gathered(50, 1).entries, workflow=fan_out(50, when="input.more"))
    assert (named(none.ended), none.saved.calls, none.saved.microcents) == ("SUCCESS", 0, 14 * CENT)


def test_a_workflow_of_another_name_is_not_touched() -> None:
    other = flow(threshold=90).model_copy(update={"name": "parcel"})
    found = tried(posted().entries, workflow=other)
    assert (found.same_end, found.follows) == (True, False)
    outer = flow().model_copy(update={"name": "outer", "subflows": {"parcel": flow()}})
    assert ChangedRules(SCHEMA, workflow=other).spec(
        posted().spec.model_copy(update={"workflow": outer})
    ).workflow == (outer.model_copy(update={"subflows": {"parcel": other}}))


def test_the_step_that_a_child_does_is_that_of_the_new_workflow() -> None:
    alone = flow().steps[0].model_copy(update={"rendered": True, "prompt": "Write to Ada."})
    child = posted().spec.model_copy(
        update={"parent": "p", "workflow": flow().model_copy(update={"steps": (alone,), "edges": ()})}
    )
    changed = ChangedRules(SCHEMA, workflow=flow(review=True, prompt="x", confirm=True)).spec(child).workflow
    assert changed is not None
    assert changed.steps == (alone.model_copy(update={"review": True}),)


@pytest.mark.parametrize("entries", [[], HISTORY[1:], [HISTORY[0].model_copy(update={"spec": None})]])
def test_a_history_without_a_beginning(entries: list[Interaction]) -> None:
    with pytest.raises(Damaged):
        tried(entries)


ANSWERS = ("COMPLETED", "RETRY", "STUCK")
DECISIONS = (
    Kind.APPROVE,
    Kind.REJECT,
    Kind.RESUBMIT,
    Kind.SUSPEND,
    Kind.RESUME,
    Kind.RERUN,
    Kind.CANCEL,
    Kind.FAIL,
)
MOVES = st.lists(
    st.one_of(
        st.sampled_from(ANSWERS),
        st.sampled_from(ANSWERS),
        st.sampled_from(DECISIONS),
        st.sampled_from(["lost", "cut", "nonsense", "back", "given"]),
    ),
    max_size=9,
)
CHANGED = st.sampled_from(
    [
        *(
            "limits.attempts=1",
            "limits.attempts=9",
            "limits.iterations=2",
            "limits.cost=3",
            "limits.minutes=0.1",
        ),
        *("review=off", "review=on", "review.mode=strict", "review.mode=yolo", "on_doubt=retry"),
        *("approval=none", "approval=each", "response_format=sections"),
    ]
)


def played(moves: Sequence[Any], **asked: Any) -> Recorder:
    """A history of these moves, as far as the job takes them."""
    job = Recorded(**asked)
    for move in moves:
        try:
            _play(job, move)
        except LogistError:
            continue
    return job


def _play(job: Recorder, move: Any) -> None:
    if isinstance(move, Kind):
        job.decide(move)
    elif move == "back":
        job.decide(Kind.RESTEP, to=max(2, len(job.entries) - 1))
    elif move == "given" or job.state.status in (Status.PENDING, Status.REVIEW_REQUIRED):
        if move == "lost":
            job.lose()
        elif move == "cut":
            job.answer("", error=TransportError(kind=ErrorKind.TIMEOUT, message="slow"))
        else:
            text = command(move) if move in ANSWERS else command() if move == "given" else "?"
            job.answer(text, simulated=move == "given")


@settings(max_examples=examples(40))
@given(MOVES, st.sampled_from(["none", "end", "each"]), st.booleans(), st.integers(1, 3))
def test_the_same_rules_lead_to_the_same_end(
    moves: list[Any], approval: str, with_review: bool, attempts: int
) -> None:
    job = played(moves, approval=approval, review=with_review, max_attempts=attempts)
    found = tried(job.entries)
    assert (found.ended, found.differs_at, found.notes) == (job.state.place, None, ())
    assert (found.saved.calls, found.open.calls, found.needs, found.spared) == (0, 0, (), 0)


@settings(max_examples=examples(40))
@given(MOVES, st.sampled_from(["none", "end", "each"]), st.booleans(), CHANGED)
def test_no_rule_spends_what_was_not_recorded(
    moves: list[Any], approval: str, with_review: bool, rule: str
) -> None:
    entries = played(moves, approval=approval, review=with_review).entries
    found = tried(entries, rule)
    calls = sum(fold.is_agent_asked(entry) for entry in entries)
    assert 0 <= found.saved.calls <= calls - found.open.calls
    assert sum(each.count for each in found.calls.values()) == calls
    assert found.same_end or found.reason
    assert (found.differs_at is None) <= found.same_end


@settings(max_examples=examples(40))
@given(MOVES, st.integers(0, 5))
def test_a_lower_limit_ends_no_job_later(moves: list[Any], runs: int) -> None:
    entries = played(moves, approval="end").entries
    found = tried(entries, f"limits.iterations={runs}")
    used = sum(each.count for each in found.calls.values()) - found.saved.calls - found.open.calls
    assert found.same_end or found.ended.status is Status.HALTED_ITERATION or found.broken_off
    if Kind.RERUN not in {entry.kind for entry in entries}:
        assert used <= runs or found.differs_at is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("limits.attempts", "has no `=`"),
        ("limits.attempts=0", "integer of at least 1"),
        ("limits.attempts=2.5", "integer of at least 1"),
        ("limits.attempts=²", "integer of at least 1"),
        ("limits.cost=-1", "number of at least 0"),
        ("limits.cost=nan", "number of at least 0"),
        ("limits.cost=1e999", "number of at least 0"),
        ("review=maybe", "true or false"),
        ("review.mode=lax", "strict, normal or yolo"),
        ("approval=sometimes", "none, end, each"),
        ("review.checks.x.command=rm", "unknown setting"),
        ("doer=Planner", "unknown setting"),
        ("=1", "unknown setting"),
    ],
)
def test_what_can_not_be_set(text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        read_settings([text])
    assert said in str(error.value)
    if said == "unknown setting":
        named = str(error.value).partition("one of: ")[2].rstrip(")").split(", ")
        assert named == list(KEYS)  # the names of the config, so that `config set` takes what was tried


def test_what_can_be_set() -> None:
    given_ = [
        "limits.cost = 2.5",
        "review=No",
        "approval=false",
        "review.checks.a.b.severity=error",
        "auto_merge=on",
    ]
    assert read_settings(given_) == {
        "limits.cost_threshold": 2.5,
        "review.enabled": False,
        "approval": Approval.NONE,
        "review.checks.a.b.severity": "error",
        "review.auto_merge": True,
    }
    assert read_settings(["limits.cost=1", "limits.cost_threshold=1"]) == {"limits.cost_threshold": 1}
    with pytest.raises(UsageError, match="two different values"):
        read_settings(["limits.cost=1", "limits.cost_threshold=2"])


def test_permissions() -> None:
    assert read_permissions(["Worker:read_files, can_create_files", "a:b:none"]) == {
        "Worker": MAKES,
        "a:b": Permissions(),
    }
    for text, said in (
        ("Worker", "has no `ROLE:` part"),
        (":none", "has no `ROLE:` part"),
        ("Worker:fly", "'fly'"),
    ):
        with pytest.raises(UsageError, match=said):
            read_permissions([text])
    with pytest.raises(UsageError) as error:
        read_permissions(["Worker:fly"])
    assert all(permission.value in str(error.value) for permission in Permission)
