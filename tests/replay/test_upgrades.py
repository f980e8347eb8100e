"""Jobs that an earlier version recorded, under rules that have changed since: each replays, and names the changes.

`fixtures/upgrades/NAME` has the history and the state.json of a job as that version left them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logist.core.history import newer_versions
from logist.core.history.fold import fold
from logist.core.machine import rules
from logist.core.model import Status, StepStart
from logist.core.replay.replay import ChangedRule, Difference, find_differences, replay
from logist.jobs.archive import recorded_jobs, replay_report
from logist.jobs.archive.archive_replay import replay_file
from logist.jobs.base import job_reader
from logist.jobs.base.job_reader import read_interactions
from tests import support
from tests.replay.test_fixtures import SCHEMA

GATES = support.ROOT / "fixtures/upgrades/gates-that-a-missing-confidence-opened"
KINDS = support.ROOT / "fixtures/upgrades/branches-by-kinds-that-do-not-fit"
LENGTHS = support.ROOT / "fixtures/upgrades/lengths-of-objects-and-emoji"
THOUGHTS = support.ROOT / "fixtures/upgrades/thinking-that-was-part-of-the-answer"
LOST = support.ROOT / "fixtures/upgrades/steps-that-lost-their-data"
JOBS = sorted(path.parent for path in (support.ROOT / "fixtures" / "upgrades").glob("*/jobHistory.json"))


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.name)
def test_an_old_job_loads_verifies_and_replays(path: Path) -> None:
    job = recorded_jobs.find_history(path).job
    assert job.verify() == []
    state = fold(read_interactions(job)).model_dump(mode="json", exclude={"head"})
    recorded = job_reader.add_missing_fields(json.loads(job.state_file.read_bytes()))
    assert [
        name
        for name, value in state.items()
        if not newer_versions.has_expected_value(recorded.get(name), value)
    ] == []
    replayed = replay_file(SCHEMA, path)
    assert (replayed.differences, replayed.disagreements) == ((), ())
    assert not replayed.has_failed(prompts=False)


def test_a_changed_rule_is_named_with_its_version_and_fails_only_if_that_is_wanted() -> None:
    replayed = replay_file(SCHEMA, GATES)
    changed = [(each.sequence, each.rule, each.version) for each in replayed.changed_rules]
    assert changed == [(number, "closed_gates", "0.1.0") for number in (2, 3, 4, 5, 6)]
    assert {"state_after", "unsure"} <= {each.field for each in replayed.changed_rules[0].differences}
    assert not replayed.has_failed()
    assert replayed.has_failed(rules=True)
    text = "\n".join(replay_report.format_replay_lines(replayed))
    assert "interactions 2, 3, 4, 5, 6: a rule has changed in Logist 0.1.0 (closed_gates)" in text
    assert "waits for approval if its step's `confidence`" in text


def test_branches_that_javascript_takes_otherwise_name_their_rule() -> None:
    replayed = replay_file(SCHEMA, KINDS)
    assert [(each.sequence, each.rule) for each in replayed.changed_rules] == [
        (2, "javascript_order"),
        (4, "javascript_order"),
    ]
    assert not replayed.has_failed()
    assert replayed.has_failed(rules=True)


def test_an_example_in_what_was_thought_names_its_rule() -> None:
    replayed = replay_file(SCHEMA, THOUGHTS)
    assert [(each.sequence, each.rule) for each in replayed.changed_rules] == [(2, "thinking_apart")]
    assert not replayed.has_failed()
    assert replayed.has_failed(rules=True)


def test_a_length_that_templates_filled_in_otherwise_is_other_wording_and_no_failure() -> None:
    """Only conditions decide by a length, and they have a rule; prompts and inputs are as they were recorded."""
    replayed = replay_file(SCHEMA, LENGTHS)
    assert (replayed.differences, replayed.changed_rules) == ((), ())
    ran = support.run_as_process("replay", str(LENGTHS))
    assert (ran.code, "+The object has {{output.parts.length}} keys, the word 2" in ran.out) == (0, True)


def test_a_step_that_lost_its_data_replays_with_the_prompts_and_the_skip_that_were_recorded() -> None:
    replayed = replay_file(SCHEMA, LOST)
    assert (replayed.differences, replayed.changed_rules) == ((), ())
    ran = support.run_as_process("replay", str(LOST))
    assert (ran.code, "{{output.files}}" in ran.out) == (0, False)
    entries = [*read_interactions(recorded_jobs.find_history(LOST).job)]
    assert ["{{output.files}}" in entry.request.prompt for entry in entries[2:9]] == [
        *(False, False),  # the first attempts
        *(True, True, True),  # the review, the rework and its review
        *(False, True),  # the decision of a person, and the rework after it
    ]
    assert entries[10].route[0]["skipped"] == "report"
    assert fold(entries).step_starts is None


def test_with_a_step_that_keeps_its_data_the_skip_names_its_rule() -> None:
    """An earlier Logist that continues a job of this one skips the step, because it doesn't know what it began with."""
    entries = [*read_interactions(recorded_jobs.find_history(LOST).job)]
    today = [entry.model_copy(update={"rules": rules.LATEST}) for entry in entries[:10]]
    assert fold(today).step_starts == {"count": StepStart(), "report": StepStart(output_of="count")}
    (changed,) = replay([*today, entries[10]], SCHEMA, ())
    assert isinstance(changed, ChangedRule)
    assert (changed.sequence, changed.rule, changed.version) == (11, "same_step_data", "0.1.0")
    by_today = entries[10].model_copy(update={"rules": rules.LATEST})
    found = [*find_differences([*today, by_today], SCHEMA)]
    assert [(each.field, each.recorded, each.today) for each in found][-1] == (
        "state_after",
        "APPROVAL_REQUIRED",
        "PENDING",
    )


def test_what_no_rule_explains_is_a_difference_also_beside_a_changed_rule(tmp_path: Path) -> None:
    entries = [*read_interactions(recorded_jobs.find_history(GATES).job)]
    wrong = entries[1].model_copy(update={"state_after": Status.SUCCESS})
    found = list(replay([entries[0], wrong], SCHEMA, ()))
    assert found
    assert all(isinstance(each, Difference) for each in found)


def test_an_interaction_that_was_judged_by_todays_rules_has_no_excuse() -> None:
    entries = [
        each.model_copy(update={"rules": rules.LATEST})
        for each in read_interactions(recorded_jobs.find_history(GATES).job)
    ]
    assert {each.sequence for each in find_differences(entries, SCHEMA)} == {2, 3, 4, 5, 6}


def test_an_interaction_of_a_newer_logist_says_that_its_rules_are_not_known() -> None:
    entries = [
        each.model_copy(update={"rules": rules.LATEST + 1})
        for each in read_interactions(recorded_jobs.find_history(GATES).job)
    ]
    assert "judged by a rule that only a newer Logist has" in next(find_differences(entries, SCHEMA)).cause


def test_the_flag_of_earlier_versions_says_the_rule(tmp_path: Path) -> None:
    entry = [*read_interactions(recorded_jobs.find_history(GATES).job)][1]
    assert entry.observed is not None
    flagged = entry.observed.model_copy(update={"strict_gates": True})
    assert rules.find_recorded_rules(entry) == frozenset()
    assert rules.find_recorded_rules(entry.model_copy(update={"observed": flagged})) == {
        rules.Rule.CLOSED_GATES
    }


def test_of_several_changes_those_are_named_that_lead_elsewhere() -> None:
    (only,) = rules.find_responsible_changes(frozenset(), lambda by: rules.Rule.CLOSED_GATES not in by)
    assert only.rule is rules.Rule.CLOSED_GATES
    assert [*rules.find_responsible_changes(frozenset(), lambda by: True)] == [
        *rules.CHANGES
    ]  # none alone: all of them


def test_each_rule_has_one_row() -> None:
    assert sorted(change.rule for change in rules.CHANGES) == sorted(rules.Rule)


def test_each_gate_was_passed_without_a_number() -> None:
    entries = [*read_interactions(recorded_jobs.find_history(GATES).job)]
    passed = [entry.step for entry in entries if entry.observed and entry.state_after == "PENDING"]
    assert passed == ["missing", "word", "above", "sections", "condition"]
