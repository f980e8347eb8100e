"""Statistics: what counts as a run, how it ended, and that nothing in a history can break the counting."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.core.history import fold, runs, statistics
from logist.core.history.statistics import OTHERS, Key, StatisticsTable, Tally
from logist.core.history.statistics_words import BY, MEASURES, RunEnding
from tests.core import builders
from tests.support import examples

Json = dict[str, Any]


def ask(action: str | None = "COMPLETED", state: str = "PENDING", **more: Any) -> Json:
    """An interaction in which an agent was asked."""
    request = {"prompt": "Do it.", "metadata": {"role": "Worker", "model": "small", "phase": "PENDING"}}
    response = {"status": "SUCCESS", "actions": [action] if action else []}
    return {
        "sequence": 1,
        "timestamp": "2026-01-02T03:04:05Z",
        "kind": "ask",
        "actor": "agent",
        "state_after": state,
        "step": "task",
        "attempt": 1,
        "request": request,
        "response": response,
        **more,
    }


def stuck(kind: str, reason: str, action: str | None = "STUCK", **more: Any) -> Json:
    return ask(action, "STUCK", after={"stuck": {"kind": kind, "reason": reason}}, **more)


def counted(*entries: Json, by: tuple[str, ...] = ("role",)) -> StatisticsTable:
    table = StatisticsTable(by)
    table.add_history("j", entries)
    return table


def total(*entries: Json) -> Tally:
    return counted(*entries).totals[False]


@pytest.mark.parametrize(
    ("entry", "ended"),
    [
        (ask(), RunEnding.COMPLETED),
        (ask("RETRY"), RunEnding.RETRY),
        (stuck("agent", "why"), RunEnding.STUCK),
        (stuck("attempts", "again", "RETRY"), RunEnding.STUCK),
        (stuck("permission", "no", "COMPLETED"), RunEnding.STUCK),
        (stuck("agent", "invalid answer: none", None), RunEnding.STUCK),
        (ask(None), RunEnding.UNANSWERED),
        (ask(None, "HALTED_COST"), RunEnding.UNANSWERED),
        ({"response": {"actions": ["STUCK"]}}, RunEnding.STUCK),
        ({"response": {"actions": ["COMPLETED"]}}, RunEnding.COMPLETED),
    ],
)
def test_every_run_ends_in_one_way(entry: Json, ended: RunEnding) -> None:
    tally = total(entry)
    assert (tally.runs, tally.ended[ended], tally.get_share(ended)) == (1, 1, 1.0)


@pytest.mark.parametrize(
    ("kind", "actor", "asked"),
    [
        ("ask", "agent", True),
        ("ask", "steward", True),
        ("recover", "system", True),
        ("pause", "agent", True),
        ("pause", "steward", False),
        *((kind, "steward", False) for kind in ("create", "approve", "collect", "restep", "fork")),
    ],
)
def test_what_is_a_run(kind: str, actor: str, asked: bool) -> None:
    used = {"cost_cents": 7}
    table = counted(ask(kind=kind, actor=actor, usage=used))
    assert (len(table.totals), table.interactions) == (int(asked), 1)
    assert not asked or table.totals[False].used.microcents == 7_000_000


def test_given_answers_are_apart() -> None:
    table = counted(ask(), ask("RETRY", simulated=True), ask(simulated=True))
    assert {key: tally.runs for key, tally in table.groups.items()} == {
        Key(False, ("Worker",)): 1,
        Key(True, ("Worker",)): 2,
    }
    assert [row[0].simulated for row in table.sort_rows("runs")] == [False, True]


@pytest.mark.parametrize(
    ("by", "entry", "name"),
    [
        ("role", ask(observed={"role": "Tester"}), "Tester"),
        ("role", {}, None),
        ("model", ask(), "small"),
        ("model", ask(request={"metadata": {"model": "m", "provider_model": "scripted/m"}}), "scripted/m"),
        ("model", ask(request={"metadata": {"model": "m", "provider_model": "maker/m-1"}}), "m"),
        ("phase", ask(), "doer"),
        ("phase", ask(request={"metadata": {"phase": "REVIEW_REQUIRED"}}), "reviewer"),
        ("phase", ask(observed={"phase": "reviewer"}), "reviewer"),
        ("step", ask(), "task"),
        ("workflow", ask(), None),
        ("workflow", ask(spec={"workflow": {"name": "Letter"}}), "Letter"),
        ("prompt-size", ask(), "<1k"),
        ("prompt-size", ask(request={}), None),
        ("day", ask(), "2026-01-02"),
        ("day", ask(timestamp="yesterday"), None),
        ("job", ask(), "j"),
        ("role", ask(observed={"role": " a\n b\x00" + "x" * 1000}), "a b\x00" + "x" * 195 + "…"),
    ],
)
def test_what_runs_are_told_apart_by(by: str, entry: Json, name: str | None) -> None:
    (key,) = counted(entry, by=(by,)).groups
    assert key.names == (name,)


def test_the_workflow_is_that_of_the_latest_spec() -> None:
    create = {"kind": "create", "spec": {"workflow": {"name": "A"}}}
    later = {"kind": "spec", "spec": {"workflow": None}}
    table = counted(create, ask(), later, ask(), by=("workflow", "step"))
    assert set(table.groups) == {Key(False, ("A", "task")), Key(False, (None, "task"))}


@pytest.mark.parametrize(
    ("characters", "name"),
    [
        *((0, "<1k"), (999, "<1k"), (1000, "1k-2k"), (3999, "2k-4k"), (4000, "4k-8k")),
        *((1_023_999, "512k-1024k"), (1_024_000, ">=1024k"), (10**9, ">=1024k")),
    ],
)
def test_classes_of_prompts(characters: int, name: str) -> None:
    assert runs.classify_prompt_size(characters) == name


def test_days_and_sizes_have_their_own_order() -> None:
    sizes = [ask(request={"prompt": "x" * n}) for n in (9_000, 9_000, 0, 3_000, 700_000)]
    table = counted(*sizes, by=("prompt-size",))
    assert [key.names[0] for key, _ in table.sort_rows("runs")] == ["2k-4k", "8k-16k", "512k-1024k", None]
    days = [ask(timestamp=f"2026-01-0{n}T00:00:00Z") for n in (3, 3, 1, 2)]
    assert [key.names[0][-1] for key, _ in counted(*days, by=("day",)).sort_rows("runs") if key.names[0]] == [
        *("1", "2", "3")
    ]


@pytest.mark.parametrize(("measure", "first"), [("runs", "b"), ("cost", "a"), ("time", "c"), ("tokens", "d")])
def test_the_largest_comes_first(measure: str, first: str) -> None:
    used = {"a": {"cost_cents": 9}, "c": {"seconds": 0.4}, "d": {"input_tokens": 1, "output_tokens": 1}}
    entries = [ask(observed={"role": role}, usage=used.get(role, {})) for role in "abbcd"]
    assert counted(*entries).sort_rows(measure)[0][0].names == (first,)


def test_attempts_are_those_of_completed_work() -> None:
    tally = total(ask("RETRY"), ask("RETRY", attempt=2), ask(attempt=3), ask(), ask(attempt=None))
    assert (tally.get_mean_attempt(), tally.most_attempts) == (2.0, 3)
    assert total(ask("RETRY", attempt=9)).get_mean_attempt() is None


def test_costs_are_exact() -> None:
    third = {
        "cost_cents": 0,
        "cost_microcents": 333_333,
        "seconds": 0.1,
        "input_tokens": 1,
        "output_tokens": 2,
    }
    used = total(*[ask(usage=third | {"cached_tokens": 1})] * 3).used
    assert used == (999_999, 300, 3, 3, 6)


@pytest.mark.parametrize("number", [10**16, 10**4000, -1, True, "7", 1.5, None])
def test_what_is_no_count_counts_nothing(number: Any) -> None:
    usage = {"cost_cents": number, "input_tokens": number, "output_tokens": 3}
    assert total(ask(usage=usage)).used == (0, 0, 0, 0, 3)


@pytest.mark.parametrize("seconds", [10**16, 1e300, float("inf"), float("nan"), -0.1, True, "7"])
def test_what_is_no_time_counts_nothing(seconds: Any) -> None:
    assert total(ask(usage={"seconds": seconds})).used.milliseconds == 0


def recover(sequence: int, cents: int) -> Json:
    usage = {"cost_cents": cents, "input_tokens": 5}
    return ask(None, "STUCK", kind="recover", actor="system", sequence=sequence, usage=usage)


def resubmit(of: int, microcents: Any) -> Json:
    return {"kind": "resubmit", "command": {"released_microcents": microcents, "released_of": of}}


@pytest.mark.parametrize(
    ("taken_back", "left"),
    [
        ([resubmit(2, 30_000_000)], 20_000_000),
        ([resubmit(2, 90_000_000)], 0),
        ([resubmit(2, 30_000_000), resubmit(2, 30_000_000)], 20_000_000),
        ([resubmit(3, 30_000_000)], 50_000_000),
        ([resubmit(2, -1)], 50_000_000),
    ],
)
def test_a_booking_that_was_taken_back_costs_its_group_nothing(taken_back: list[Json], left: int) -> None:
    table = counted(recover(2, 50), *taken_back, ask(observed={"role": "Other"}, usage={"cost_cents": 1}))
    tally = table.groups[Key(False, ("Worker",))]
    assert (tally.used.microcents, tally.used.input_tokens, tally.runs) == (left, 5, 1)
    assert table.totals[False].used.microcents == left + 1_000_000


def test_what_is_counted_elsewhere_is_not_counted_again() -> None:
    entries = [{"kind": "create"}, ask("RETRY"), ask()]
    for shared, many in ((0, 4), (2, 3), (3, 2)):
        table = counted(*entries)
        table.add_history("imported", entries, shared=shared)
        assert table.totals[False].runs == many
    table.add_history("imported", [*entries[:1], recover(2, 50), resubmit(2, 50_000_000)], shared=2)
    assert table.totals[False].used.microcents == 0


def test_of_a_fork_counts_what_it_has_of_its_own() -> None:
    shared = [{"kind": "create"}, ask("RETRY", usage={"cost_cents": 5}), recover(3, 50)]
    fork = {"kind": "fork", "state_after": "STUCK"}
    first, other = [*shared, ask()], [*shared, fork, resubmit(3, 50_000_000), ask()]
    table = counted(*first)
    table.add_history("fork", other)
    for tally in (table.totals[False], table.groups[Key(False, ("Worker",))]):
        assert (tally.runs, tally.used.microcents) == (4, 55_000_000)
    assert table.interactions == 10


@pytest.mark.parametrize(
    ("reason", "normal"),
    [
        (
            "the answer is the condition is too long: 300,000 characters, at most 262,144 are allowed",
            "the answer is the condition is too long: N characters, at most N are allowed",
        ),
        ("I can't open src/app/main.py.", "I can't open …"),
        ("I can't open app.py, nor ./b, nor /etc/hosts", "I can't open …, nor …, nor …"),
        ('"name" is missing in `config.yaml`', "… is missing in …"),
        ("no `action` key in `a b`", "no `action` key in …"),
        ("commit 3f2a9bc01 and 123e4567-e89b-12d3-a456-426614174000 differ", "commit … and … differ"),
        ("no answer: https://example.org:8443/v1 says 503", "no answer: … says N"),
        ("Not this and/or that, e.g. 3.5  or\n\t4.", "Not this and/or that, e.g. N or N"),
        ("", "(no reason)"),
        ("é" * 500, "é" * 119 + "…"),
    ],
)
def test_reasons_that_differ_in_details_are_one(reason: str, normal: str) -> None:
    assert runs.normalize_reason(reason) == normal


def test_the_commonest_reasons_come_first() -> None:
    tally = total(*[stuck("agent", f"lost file {n}") for n in range(3)], stuck("attempts", "again"))
    assert tally.list_top_reasons(5) == [("agent", "lost file N", 3), ("attempts", "again", 1)]
    assert tally.list_top_reasons(1) == [("agent", "lost file N", 3)]


def test_a_reason_is_found_wherever_it_stands() -> None:
    said = {"response": {"actions": ["STUCK"], "summary_for_supervisor": "No key."}}
    assert total(said).list_top_reasons(1) == [("", "No key", 1)]
    assert total(ask("STUCK", "STUCK", reason="Because.")).list_top_reasons(1) == [("", "Because", 1)]


def test_what_is_kept_apart_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "MOST_REASONS", 3)
    monkeypatch.setattr(statistics, "MOST_GROUPS", 2)
    words = ("one", "two", "three", "four", "five")
    table = counted(*[stuck("agent", word, observed={"role": word}) for word in words])
    assert {key.names[0]: tally.runs for key, tally in table.groups.items()} == {
        "one": 1,
        "two": 1,
        OTHERS: 3,
    }
    assert table.totals[False].list_top_reasons(9)[-1] == ("", OTHERS, 2)


def test_a_history_counts_whole_or_not_at_all() -> None:
    def breaking() -> Any:
        yield ask()
        raise ValueError("torn")

    table = counted(ask())
    with pytest.raises(ValueError, match="torn"):
        table.add_history("k", breaking())
    assert (table.histories, table.interactions, table.totals[False].runs) == (1, 1, 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = (*ask(), "after", "observed", "usage", "spec", "simulated", "command", "reason")
NESTED = ("metadata", "prompt", "stuck", "kind", "reason", "workflow", "seconds", "cost_cents", "actions")
RELEASES = ("released_microcents", "released_of")
ENTRY = st.dictionaries(
    st.sampled_from(FIELDS),
    JSON | st.dictionaries(st.sampled_from((*NESTED, *RELEASES)), JSON, max_size=5),
)


@settings(max_examples=examples(40))
@given(st.lists(ENTRY.map(lambda more: more if len(more) > 6 else ask() | more), max_size=6))
def test_nothing_in_a_history_breaks_the_counting(entries: list[Json]) -> None:
    table = counted(*entries, by=BY)
    asked = sum(tally.runs for tally in table.totals.values())
    assert asked == sum(tally.runs for tally in table.groups.values()) <= len(entries)
    for measure in MEASURES:
        assert sorted(map(repr, table.sort_rows(measure))) == sorted(map(repr, table.groups.items()))
    for tally in table.totals.values():
        assert min(tally.used) >= 0
        json.dumps([tally.used, tally.get_mean_attempt(), tally.list_top_reasons(9)], allow_nan=False)


@given(
    st.lists(st.lists(st.sampled_from([ask(), stuck("agent", "x"), recover(1, 3)]), max_size=4), max_size=4)
)
def test_the_order_of_histories_changes_nothing(histories: list[list[Json]]) -> None:
    there, back = StatisticsTable(("role", "step")), StatisticsTable(("role", "step"))
    for entries in histories:
        there.add_history("j", entries)
    for entries in reversed(histories):
        back.add_history("j", entries)
    assert there == back


def test_the_cost_of_a_history_is_that_of_its_job() -> None:
    """As the fold has it, over every kind of interaction."""
    history = builders.whole_history().entries
    table = counted(*[entry.model_dump(mode="json") for entry in history])
    used, folded = sum_of(table), fold.sum_usage(history)
    assert used.microcents == folded.cumulative_cost * 1_000_000 + folded.cumulative_cost_microcents > 0
    assert (used.milliseconds, used.input_tokens) == (
        folded.cumulative_time_seconds * 1000,
        folded.input_tokens,
    )
    assert table.jobs == {"FAILED": 1}


def sum_of(table: StatisticsTable) -> runs.RunUsage:
    all_of = Tally()
    for tally in table.totals.values():
        all_of.add_tally(tally)
    return all_of.used
