"""docs/reliability.md says what the torture suite does, and what came of it: neither without the other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.torture import page
from tests.torture.suite import PARTS, Case, Result, every_case

Json = dict[str, Any]

CASES = {f"{part}/{case.name}": case for part, case in every_case()}
NAME = re.compile(rf"`((?:{'|'.join(PARTS)})/[\w-]+)`")
RUN = {
    "date": "2026-01-02",
    "machine": {"cores": 2, "kernel": "6.1", "file_systems": ["ext4"], "python": "3.11", "platform": "linux"},
}


def text() -> str:
    return page.PAGE.read_text("utf-8")


def section(title: str) -> str:
    return text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def faults(recorded: list[Json], cases: dict[str, Case]) -> list[str]:
    """What a record has too little of, and what it has that should not be there."""
    known = {f"{one['part']}/{one['case']}": one for one in recorded}
    found = [f"{name} is recorded and not in the suite" for name in known if name not in cases]
    for name, one in known.items():
        if one["failures"]:
            found.append(f"{name} failed {one['failures']} times")
        least = cases[name].at_least if name in cases else 0
        if not one["skipped"] and one["checked"] < least:
            found.append(f"{name} checked {one['checked']:,}, not {least:,}")
    return found


def test_the_table_is_what_was_recorded() -> None:
    recorded = page.read()
    assert page.table_of(text()) == page.rendered(recorded, page.missing(recorded)), (
        "run scripts/torture --record"
    )


def test_what_is_recorded_was_enough_and_did_not_fail() -> None:
    assert faults(page.read(), CASES) == [], "run scripts/torture --record"


def test_a_case_without_a_record_is_said_to_have_none() -> None:
    assert recorded_or_missing() == sorted(CASES)
    assert "Not recorded yet: `kill/create`" in page.rendered([WELL], page.missing([WELL]))


def recorded_or_missing() -> list[str]:
    table = page.table_of(text())
    return sorted(set(NAME.findall(table)))


def test_the_page_names_no_case_that_is_gone() -> None:
    assert sorted(set(NAME.findall(text())) - set(CASES)) == []


def test_every_promise_is_tried_by_something_that_exists() -> None:
    promises = rows("Promises")
    assert len(promises) > 9
    for promise, tried in promises:
        names = re.findall(r"`([^`]+)`", tried)
        assert names, promise
        assert [name for name in names if name not in (*PARTS, *CASES)] == [], promise


def test_every_part_is_explained_and_keeps_a_promise() -> None:
    assert [row[0] for row in rows("How it is tried")] == [f"`{part}`" for part in PARTS]
    tried = " ".join(row[1] for row in rows("Promises"))
    assert [part for part in PARTS if f"`{part}" not in tried] == []


CASE = Case("step", "points", 100, lambda run: None)
WELL: Json = {
    "part": "kill",
    "case": "step",
    "unit": "points",
    "checked": 100,
    "failures": 0,
    "skipped": "",
    "notes": [],
    "seconds": 1.5,
    "run": RUN,
}


class TestFaults:
    """The check sees what it is there for."""

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({}, []),
            ({"checked": 99}, ["kill/step checked 99, not 100"]),
            ({"checked": 0, "skipped": "needs root"}, []),
            ({"failures": 2}, ["kill/step failed 2 times"]),
            ({"case": "walk"}, ["kill/walk is recorded and not in the suite"]),
        ],
    )
    def test_of_a_record(self, change: Json, said: list[str]) -> None:
        assert faults([WELL | change], {"kill/step": CASE}) == said


class TestRecording:
    @pytest.fixture
    def files(self, tmp_path: Path) -> Json:
        marked = f"before\n\n{page.BEGIN}\nold\n{page.END}\n\nafter\n"
        (tmp_path / "page.md").write_text(marked, "utf-8")
        return {"recorded_file": tmp_path / "recorded.json", "page_file": tmp_path / "page.md"}

    def result(self, part: str, case: str, count: int = 1_234, **more: Any) -> Result:
        fields: Json = {"failures": (), "skipped": "", "notes": ("a|b",), "seconds": 1.5, **more}
        return Result(part, case, "points", count, **fields)

    def test_a_table_is_made_between_the_markers(self, files: Json) -> None:
        page.record([self.result("kill", "step")], "2026-01-02", **files)
        text = files["page_file"].read_text("utf-8")
        assert text.startswith(f"before\n\n{page.BEGIN}\n")
        assert text.endswith(f"{page.END}\n\nafter\n")
        assert "| `kill/step` | 1,234 points | 0 | 1.5 | a\\|b |" in text
        assert "Run on 2026-01-02 (" in text
        recorded = page.read(files["recorded_file"])
        assert page.table_of(text) == page.rendered(recorded, page.missing(recorded))
        assert "old" not in text

    def test_a_case_replaces_what_was_recorded_of_it_and_no_other(self, files: Json) -> None:
        page.record([self.result("pay", "both"), self.result("kill", "step")], "2026-01-02", **files)
        page.record([self.result("pay", "both", 5)], "2026-01-03", **files)
        recorded = page.read(files["recorded_file"])
        assert [(one["part"], one["checked"], one["run"]["date"]) for one in recorded] == [
            ("kill", 1_234, "2026-01-02"),
            ("pay", 5, "2026-01-03"),
        ]
        text = files["page_file"].read_text("utf-8")
        assert text.index("2026-01-02") < text.index("2026-01-03")

    def test_failures_are_counted_and_a_skip_says_why(self, files: Json) -> None:
        failed = self.result("kill", "step", failures=("x", "y"))
        skipped = self.result("disk", "full-xfs", 0, skipped="needs root", notes=())
        page.record([failed, skipped], "2026-01-02", **files)
        shown = page.rendered(page.read(files["recorded_file"]))
        assert "| `kill/step` | 1,234 points | 2 |" in shown
        assert "| skipped: needs root |" in shown

    def test_the_file_is_the_same_for_the_same_results(self, files: Json) -> None:
        page.record([self.result("pay", "both"), self.result("kill", "step")], "2026-01-02", **files)
        before = files["recorded_file"].read_bytes()
        json.loads(before)
        page.record([self.result("kill", "step"), self.result("pay", "both")], "2026-01-02", **files)
        assert files["recorded_file"].read_bytes() == before

    def test_nothing_recorded_says_so(self) -> None:
        assert "No run is recorded." in page.rendered([])
