"""`logist stats`: the table, the bars, CSV and JSON, over archives of every kind."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logist.cli.commands.stats import FORMULA, _format_percent, _format_tokens, _make_csv_safe
from logist.cli.show import render
from logist.cli.show.bars import Bar, BarPiece, draw_bars, share_columns
from logist.cli.show.output import StyledText
from logist.core.history.statistics import StatisticsTable
from logist.core.history.statistics_words import BY
from logist.errors import Damaged, Refused, Stopped
from logist.jobs.archive import recorded_jobs
from logist.jobs.archive.archive_statistics import Gathered, gather_statistics
from logist.store.entries import CLOSING, format_header, seal_entry
from tests.cli.desk import Desk, answer, command
from tests.support import ROOT, Ran

FIXTURES = ROOT / "fixtures" / "jobs"
Json = dict[str, Any]


def history(folder: Path, *entries: Json) -> Path:
    """A recorded job of these interactions; what they lack is that of an agent's COMPLETED."""
    folder.mkdir(parents=True)
    file, previous = folder / "jobHistory.json", None
    with file.open("wb") as out:
        out.write(format_header())
        for number, entry in enumerate(entries, 1):
            whole = {"kind": "ask", "actor": "agent", "response": {"actions": ["COMPLETED"]}, **entry}
            complete, line = seal_entry(whole, number, previous)
            previous = complete["checksum"]
            out.write((b"," if number > 1 else b"") + line + b"\n")
        out.write(CLOSING)
    return file


def by_role(role: str, **more: Any) -> Json:
    return {"observed": {"role": role}, "state_after": "PENDING", **more}


def rows(ran: Ran) -> list[list[str]]:
    return [line.split("\t") for line in ran.out.split("\n\n")[0].splitlines()]


def test_the_table(desk: Desk) -> None:
    used = {"cost_cents": 12, "cost_microcents": 345_600, "seconds": 61.2, "input_tokens": 1000}
    history(
        desk.place / "a",
        by_role("Worker", usage=used, attempt=2),
        by_role("Worker", response={"actions": ["RETRY"]}),
        by_role("Worker", state_after="STUCK", reason="invalid answer: no exit command"),
        by_role("Tester", response={}, usage={"seconds": 7199}),
        by_role("Tester", simulated=True, state_after="SUCCESS"),
    )
    ran = desk("stats", "a")
    assert ran.code == 0
    assert rows(ran) == [
        ["Worker", "3", "33%", "33%", "33%", "0%", "2.0", "$0.1235", "1m01s", "1,000"],
        ["Tester", "1", "0%", "0%", "0%", "100%", "-", "$0.00", "1h59m", "0"],
        ["Tester (by hand)", "1", "100%", "0%", "0%", "0%", "-", "$0.00", "0.0s", "0"],
        ["total", "4", "25%", "25%", "25%", "25%", "2.0", "$0.1235", "2h01m", "1,000"],
        ["total (by hand)", "1", "100%", "0%", "0%", "0%", "-", "$0.00", "0.0s", "0"],
    ]
    assert ran.out.split("\n\n", 1)[1].splitlines() == [
        "reasons for STUCK",
        "      1  -           invalid answer: no exit command",
        "",
        "1 job: 1 SUCCESS",
    ]


def test_the_rest_of_the_reasons_is_counted(desk: Desk) -> None:
    words = ("one", "two", "three", "four", "five", "six", "seven", "seven")
    history(desk.place / "a", *[by_role("Worker", state_after="STUCK", reason=word) for word in words])
    told = desk("stats", "a").out.split("\n\n")[1].splitlines()
    assert told[1] == "      2  -           seven"
    assert told[6:] == ["      2  for 2 other reasons"]


def test_the_same_dimension_twice_is_one(desk: Desk) -> None:
    history(desk.place / "a", by_role("Worker"))
    assert desk("stats", "a", "--by", "role", "--by", "role").out == desk("stats", "a").out


def test_damage_comes_before_what_else_cannot_be_read() -> None:
    found = Gathered(StatisticsTable(("role",)))
    assert found.exit_code == 0
    found.left_out.append(("a", Refused("newer")))
    assert found.exit_code == 8
    found.left_out.append(("b", Damaged("torn")))
    assert found.exit_code == 10


def test_names_are_cut_to_the_terminal(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    history(desk.place / "a", by_role("漢" * 60), by_role("Tester"))
    assert [row[0] for row in rows(desk("stats", "a"))] == ["Tester", "漢" * 60, "total"]
    for columns, name in ((80, "漢" * 6 + "…"), (100, "漢" * 14 + "…")):
        monkeypatch.setattr(render, "get_drawing_space", lambda columns=columns: (columns, True))
        assert [row[0] for row in rows(desk("stats", "a"))] == ["Tester", name, "total"]


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0"),
        (9_999, "9,999"),
        (10_000, "10.0k"),
        (999_949, "999.9k"),
        (999_950, "1.0M"),
        (10**10, "10,000.0M"),
    ],
)
def test_tokens_are_short(count: int, shown: str) -> None:
    assert _format_tokens(count) == shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [(None, "-"), (0.0, "0%"), (0.001, "<1%"), (0.5, "50%"), (0.999, ">99%"), (1.0, "100%")],
)
def test_percents_tell_never_from_seldom(share: float | None, shown: str) -> None:
    assert _format_percent(share) == shown


def test_the_jobs_of_the_project(desk: Desk) -> None:
    assert desk("stats").code == 2
    desk.create("j1")
    desk("job", "step", "j1")
    desk.create("j2", "--draft")
    found = desk("stats", "--json", "--by", "job", "--by", "phase").json["data"]
    assert [group["by"] for group in found["groups"]] == [{"job": "j1", "phase": "doer"}]
    assert (found["histories"], found["jobs"]) == (2, {"DRAFT": 1, "REVIEW_REQUIRED": 1})
    assert (
        desk("stats", "--jobs-dir", str(desk.jobs)).out
        == desk("stats", str(desk.jobs)).out
        == desk("stats").out
    )


def test_the_fixtures_by_everything(desk: Desk) -> None:
    ran = desk("stats", str(FIXTURES), "--json", *(word for by in BY for word in ("--by", by)))
    found = ran.json["data"]
    assert (found["histories"], found["interactions"], found["left_out"]) == (5, 39, 0)
    assert [total["runs"] for total in found["totals"]] == [18, 2]
    assert sum(group["runs"] for group in found["groups"]) == 20
    main = [group for group in found["groups"] if group["by"]["job"].endswith("main-job")]
    worker = next(group for group in main if group["by"]["role"] == "Worker")
    assert worker["by"] == {
        "role": "Worker",
        "model": "scripted/grok-code-fast-1",
        "phase": "doer",
        "step": "task",
        "workflow": None,
        "prompt-size": "2k-4k",
        "day": "2026-11-22",
        "job": str(FIXTURES / "main-job"),
    }
    kinds = [(each["kind"], each["count"]) for each in found["totals"][0]["stuck_reasons"]]
    assert kinds == [("agent", 1), ("attempts", 1), ("attempts", 1)]


def test_csv_is_clean(desk: Desk) -> None:
    used = {"cost_cents": 1, "cost_microcents": 5}
    evil = ['=HYPERLINK("http://x")', "@a,b", '"quoted" \x1b[31mred', "two\nlines", "+1", "-"]
    history(desk.place / "a", *[by_role(role, usage=used) for role in evil])
    ran = desk("stats", "a", "--csv", "--by", "role", "--by", "prompt-size")
    table = list(csv.DictReader(io.StringIO(ran.out)))
    assert [row["role"] for row in table] == [
        *('"quoted" [31mred', "'+1", "'-", '\'=HYPERLINK("http://x")', "'@a,b", "two lines"),
    ]
    assert {len(row) for row in csv.reader(io.StringIO(ran.out))} == {21}
    assert table[0] | {"role": ""} == {
        "role": "",
        "prompt_size": "",
        "simulated": "false",
        "histories": "1",
        "runs": "1",
        "completed": "1",
        "retry": "0",
        "stuck": "0",
        "unanswered": "0",
        "success_share": "1.0",
        "stuck_share": "0.0",
        "retry_share": "0.0",
        "attempts_mean": "",
        "attempts_most": "",
        "cost_cents": "1.000005",
        "seconds": "0.0",
        "input_tokens": "0",
        "cached_tokens": "0",
        "output_tokens": "0",
        "stuck_kind": "",
        "stuck_reason": "",
    }
    assert "\x1b" not in ran.out


@given(st.text())
def test_no_cell_is_a_formula(text: str) -> None:
    assert not _make_csv_safe(text).startswith(FORMULA)


def test_what_is_damaged_stops_no_other(desk: Desk) -> None:
    shutil.copytree(FIXTURES, desk.place / "all")
    torn = desk.place / "all" / "main-job" / "jobHistory.json"
    torn.write_bytes(torn.read_bytes().replace(b'"sequence":2,', b'"sequence":9,'))
    (desk.place / "all" / "no-answer-from-the-provider" / "jobHistory.json").write_text("[", "utf-8")
    ran = desk("stats", "all", "--json", "--by", "job")
    assert ran.code == 10
    assert (ran.json["data"]["histories"], ran.json["data"]["left_out"]) == (3, 2)
    assert [told["target"] for told in ran.json["diagnostics"]] == [
        "all/main-job",
        "all/no-answer-from-the-provider",
    ]
    text = desk("stats", "all")
    assert (text.code, text.out.splitlines()[-1]) == (10, "3 jobs: 2 SUCCESS, 1 CANCELED")
    assert text.err.count("error: ") == 2


def test_hostile_files_are_told(desk: Desk) -> None:
    history(desk.place / "all" / "good", by_role("Worker"))
    deep = "[" * 100_000
    for name, text in (("deep", deep), ("empty", ""), ("zeros", "\0" * 1000)):
        (desk.place / "all" / name).mkdir()
        (desk.place / "all" / name / "jobHistory.json").write_text(text, "utf-8")
    (desk.place / "all" / "fifo").mkdir()
    os.mkfifo(desk.place / "all" / "fifo" / "jobHistory.json")
    ran = desk("stats", "all", "--json")
    assert (ran.code, ran.json["data"]["histories"]) == (10, 1)
    assert ran.json["data"]["left_out"] >= 3


@pytest.mark.parametrize("error", [OSError(5, "I/O error"), RecursionError("too deep")])
def test_what_fails_half_way_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def failing(archive: recorded_jobs.Archive) -> Iterator[Json]:
        yield by_role("Worker")
        raise error

    history(tmp_path / "a", by_role("Worker"))
    monkeypatch.setattr(recorded_jobs.Archive, "read_entries", failing)
    gathered = gather_statistics(recorded_jobs.find_histories([str(tmp_path)]), ("role",))
    assert (gathered.exit_code, gathered.table.groups, gathered.table.jobs) == (10, {}, {})
    assert str(error) in gathered.left_out[0][1].message


def test_several_processes_count_the_same(desk: Desk) -> None:
    for number in range(7):
        history(desk.place / "a" / str(number), by_role(f"Worker {number % 3}"), by_role("Writer"))
    history(desk.place / "a" / "8", by_role("Worker 1"), by_role("Writer"))
    damaged = desk.place / "a" / "8" / "jobHistory.json"
    damaged.write_bytes(damaged.read_bytes().replace(b"Worker 1", b"Worker 2", 1))
    for options in ((), ("--json",), ("--by", "role", "--by", "job", "--csv")):
        one, several = (desk("stats", "a", *options, "--jobs", jobs) for jobs in "13")
        assert (several.code, several.out, several.err) == (one.code, one.out, one.err)
        assert several.code == 10
    assert desk("stats", "a", "--jobs", "0").code == 2


def test_who_asks_to_stop_is_not_a_bad_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(archive: recorded_jobs.Archive) -> None:
        raise Stopped("stopped", exit_code=143)

    history(tmp_path / "a", by_role("Worker"))
    monkeypatch.setattr(recorded_jobs.Archive, "read_entries", stopped)
    with pytest.raises(Stopped):
        gather_statistics(recorded_jobs.find_histories([str(tmp_path)]), ("role",))


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (["nowhere"], 2, "no history found at nowhere"),
        (["--chart", "--csv", "a"], 2, "can't use --chart and --csv together"),
        (["a", "--jobs-dir", "empty"], 2, "can't use paths and --jobs-dir together"),
        (["a", "--by", "colour"], 2, "'colour' is not one of"),
        (["empty"], 0, "these histories contain no answers of agents"),
    ],
)
def test_what_is_said_beside_it(desk: Desk, args: list[str], code: int, told: str) -> None:
    history(desk.place / "a", by_role("Worker"))
    history(desk.place / "empty", {"kind": "create", "actor": "steward", "state_after": "PENDING"})
    ran = desk("stats", *args)
    assert (ran.code, told in ran.err) == (code, True), ran.err


def test_a_chart_in_a_pipe_has_no_colours(desk: Desk) -> None:
    retry = by_role("Worker", response={"actions": ["RETRY"]}, usage={"cost_cents": 300})
    tester = by_role("Tester", usage={"cost_cents": 100})
    history(desk.place / "a", retry, by_role("Worker"), retry, by_role("Worker"), tester)
    runs = desk("stats", "a", "--chart").out.splitlines()
    assert runs[:3] == [
        f"Worker  {'█' * 30}{'▓' * 30}  4  50%",
        f"Tester  {'█' * 15}{' ' * 45}  1  100%",
        "        █ completed  ▓ retry  ▒ stuck  ░ no answer",
    ]
    cost = desk("stats", "a", "--chart", "--measure", "cost").out.splitlines()
    assert cost[0] == f"Worker  {'█' * 60}  $6.00"
    assert cost[1] == f"Tester  {'█' * 10}{' ' * 50}  $1.00"


@pytest.mark.deep
@pytest.mark.parametrize(
    ("args", "columns", "head", "gone"),
    [
        ([], 80, "ROLE RUNS SUCCESS RETRY STUCK NO ANS ATTEMPT COST TIME TOKENS", ""),
        (
            ["--by", "role", "--by", "day"],
            68,
            "ROLE DAY RUNS SUCCESS RETRY STUCK NO ANS ATTEMPT COST",
            "TIME, TOKENS",
        ),
        (["--measure", "tokens"], 60, "ROLE RUNS SUCCESS RETRY STUCK ATTEMPT COST TOKENS", "NO ANS, TIME"),
        ([], 30, "ROLE RUNS SUCCESS STUCK", "RETRY, NO ANS, ATTEMPT, COST, TIME, TOKENS"),
    ],
)
def test_figures_that_a_narrow_terminal_has_no_room_for_are_named(
    desk: Desk, args: list[str], columns: int, head: str, gone: str
) -> None:
    history(desk.place / "a", by_role("Worker"), by_role("Tester"))
    seen = desk.on_terminal("stats", "a", *args, columns=columns, env={"NO_COLOR": "1"})
    lines = [line.strip("\r").rpartition("\r")[2] for line in seen.split("\n")]  # without the progress bar
    assert " ".join(lines[0].split()) == head
    assert [line for line in lines if line.startswith("terminal too narrow")] == (
        [f"terminal too narrow for {gone}: use a pipe, --csv or --json"] if gone else []
    )
    assert len(desk("stats", "a", *args).out.splitlines()[0].split("\t")) >= 10


def test_a_chart_is_as_wide_as_the_terminal(desk: Desk) -> None:
    history(desk.place / "a", by_role("Wörker\x1b[2J"), by_role("Tester"))
    seen = desk.on_terminal("stats", "a", "--chart", columns=50)
    drawn = "Tester     \x1b[32m" + "█" * 30 + "\x1b[0m  1  100%"
    assert drawn in seen.split("\n")[0]
    assert "\x1b[2J" not in seen


@pytest.mark.parametrize(
    ("pieces", "room", "most", "expected"),
    [
        ((0, 0), 10, 0, [0, 0]),
        ((5, 5), 10, 10, [5, 5]),
        ((999, 1, 0), 10, 1000, [9, 1, 0]),
        ((1, 0), 10, 10**6, [1, 0]),
        ((1, 1, 1), 10, 3, [4, 3, 3]),
        ((-5, 5), 10, 5, [0, 10]),
        ((1, 1, 1), 2, 3, [1, 1, 0]),
    ],
)
def test_pieces_of_a_bar(pieces: tuple[int, ...], room: int, most: int, expected: list[int]) -> None:
    assert share_columns(pieces, room, most) == expected


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=5), st.integers(10, 200), st.integers(0, 10**12))
def test_a_bar_is_never_too_long(pieces: list[int], room: int, more: int) -> None:
    lengths = share_columns(pieces, room, sum(pieces) + more)
    assert sum(lengths) <= room
    assert (sum(lengths) > 0) == (sum(pieces) > 0)


def test_bars_without_unicode_and_with_wide_labels() -> None:
    row = Bar("漢字" * 30, (1, 1), "2")
    first, legend = draw_bars([row], [BarPiece("a", ""), BarPiece("b", "")], 60, unicode=False)
    text = "".join(part.text if isinstance(part, StyledText) else part for part in first)
    assert text == "漢字" * 9 + "漢… " + "  " + "#" * 8 + "=" * 7 + "  2"
    assert "# a" in "".join(part.text if isinstance(part, StyledText) else part for part in legend)


def test_old_shapes_count_too(desk: Desk) -> None:
    """A bare list from sequence 0, with `action`, as other programs wrote them; and a file of any name."""
    asked = {"prompt": "Do it.", "metadata": {"role": "Worker", "model": "m", "phase": "PENDING"}}
    said = {"status": "SUCCESS", "evidence_files": [], "summary_for_supervisor": "I need a key."}
    entry = {"timestamp": "2025-01-29T14:30:45Z", "state_before": "PENDING", "request": asked}
    entries = [
        entry | {"sequence": 0, "response": said | {"action": "RETRY"}},
        entry | {"sequence": 1, "response": said | {"action": "STUCK"}},
    ]
    (desk.place / "old.json").write_text(json.dumps(entries), "utf-8")
    found = desk("stats", "old.json", "--json", "--by", "day", "--by", "model").json["data"]
    (group,) = found["groups"]
    assert group["by"] == {"day": "2025-01-29", "model": "m"}
    assert (group["runs"], group["retry"], group["stuck"]) == (2, 1, 1)
    assert group["stuck_reasons"] == [{"kind": "agent", "reason": "I need a key", "count": 1}]


@pytest.mark.parametrize("whole", [True, False])
def test_what_was_imported_from_a_history_of_the_same_set_counts_once(desk: Desk, whole: bool) -> None:
    desk.script(*[answer(usage={"input_tokens": 7})] * 6)
    desk.create("j1", "--review", prompt="Do it.")
    desk("job", "step", "j1")
    path = str((desk.job("j1") / "jobHistory.json").relative_to(desk.place))
    for name in ("j2", "j3"):
        assert desk("job", "import", path, "--id", name).code == 0
    for name in ("j1", "j2"):
        desk("job", "step", name)

    def runs(*args: str) -> list[int]:
        data = desk("stats", *args, "--json").json["data"]
        return [data["totals"][0]["runs"], data["histories"]]

    if not whole:
        desk.job("j1").rename(desk.place / "elsewhere")
    assert runs() == ([3, 3] if whole else [2, 2])
    assert runs(".logist/jobs/j3") == [1, 1]
    saved = desk("whatif", "--set", "limits.iterations=0", "--json").json["data"]["totals"]["saved"]
    assert saved["calls"] == (3 if whole else 2)


def test_a_history_of_another_shape_and_what_was_imported_from_it(desk: Desk) -> None:
    said = {"action": "COMPLETED", "evidence_files": [], "summary_for_supervisor": "Done."}
    entry = {"sequence": 0, "state_before": "PENDING", "request": {"prompt": "Do it."}, "response": said}
    (desk.place / "old.json").write_text(json.dumps([entry]), "utf-8")
    assert desk("job", "import", "old.json", "--id", "new").code == 0
    for paths, histories in ((["old.json"], 1), ([".logist/jobs/new", "old.json"], 2)):
        data = desk("stats", *paths, "--json").json["data"]
        assert (data["totals"][0]["runs"], data["histories"]) == (1, histories)


def test_a_rotated_history_is_one(desk: Desk) -> None:
    desk.settings("history: {rotate_at: 1}\n")
    desk.script(answer(command("RETRY")), answer())
    desk.create("j1")
    for _ in range(2):
        desk("job", "step", "j1")
    assert list(desk.job().glob("jobHistory.*.json.gz"))
    found = desk("stats", "--json").json["data"]
    total = found["totals"][0]
    assert (found["interactions"], total["runs"], total["retry"]) == (3, 2, 1)
    assert total["attempts"] == {"mean": 2.0, "most": 2}


def test_json_is_the_same_for_every_way_to_name_them(desk: Desk) -> None:
    shutil.copytree(FIXTURES, desk.place / "all")
    ways = (["all"], ["all/*"], ["all/*/jobHistory.json", "all"], ["all/main-job", "all"])
    documents = {json.dumps(desk("stats", *way, "--json").json["data"]) for way in ways}
    assert len(documents) == 1
