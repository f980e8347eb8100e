"""The numbers of the last recorded run: recorded.json, and the table of docs/reliability.md created from it."""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from logist.store import filesystem_type
from tests.support import ROOT
from tests.torture.suite import PARTS, Result, every_case

Json = dict[str, Any]

PAGE = ROOT / "docs" / "reliability.md"
RECORDED = Path(__file__).with_name("recorded.json")
BEGIN = "<!-- recorded: begin; made by scripts/torture --record -->"
END = "<!-- recorded: end -->"
MEMORY = Path("/dev/shm")

HEAD = ("Case", "Checked", "Failed", "Seconds", "Noted")


def record(
    results: Sequence[Result], date: str = "", *, recorded_file: Path = RECORDED, page_file: Path = PAGE
) -> None:
    """Replace the recorded results, case by case, and create the page's table again.

    `date` is of the run, `YYYY-MM-DD`; by default today's, UTC.
    """
    run = {"date": date or f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine()}
    known = {_name(case): case for case in read(recorded_file)}
    known.update({f"{result.part}/{result.case}": _recorded(result, run) for result in results})
    cases = sorted(known.values(), key=_place)
    recorded_file.write_text(json.dumps({"cases": cases}, indent=1, ensure_ascii=False) + "\n", "utf-8")
    page = page_file.read_text("utf-8")
    page_file.write_text(page.replace(table_of(page), rendered(cases, missing(cases))), "utf-8")


def missing(recorded: Sequence[Json]) -> list[str]:
    """Return the names of cases that no recorded run contains."""
    known = {_name(case) for case in recorded}
    names = (f"{part}/{case.name}" for part, case in every_case())
    return [name for name in names if name not in known]


def read(recorded_file: Path = RECORDED) -> list[Json]:
    """The recorded cases, in the order of the parts; none if there is no record."""
    if not recorded_file.exists():
        return []
    cases: list[Json] = json.loads(recorded_file.read_text("utf-8"))["cases"]
    return cases


def table_of(page: str) -> str:
    """Return the text between the two markers of a page."""
    return page.partition(f"{BEGIN}\n")[2].partition(END)[0]


def rendered(recorded: Sequence[Json], unrecorded: Sequence[str] = ()) -> str:
    """Return the table of the page: a line for each case, the cases without a record, and the runs."""
    if not recorded:
        return "\nNo run is recorded.\n\n"
    rows = [HEAD, tuple("---" for _ in HEAD), *map(_row, recorded)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lacking = f"Not recorded yet: {', '.join(f'`{name}`' for name in unrecorded)}."
    return "\n".join(["", *lines, "", *([lacking, ""] if unrecorded else []), *_runs(recorded), "", ""])


def machine() -> Json:
    """Describe what the numbers depend on."""
    places = [MEMORY] if MEMORY.is_dir() else []
    kinds = {filesystem_type(place) or "unknown" for place in (*places, Path(tempfile.gettempdir()), ROOT)}
    return {
        "cores": len(os.sched_getaffinity(0)),
        "kernel": os.uname().release,
        "file_systems": sorted(kinds),
        "python": platform.python_version(),
        "platform": sys.platform,
    }


def _recorded(result: Result, run: Json) -> Json:
    fields = result._asdict()
    return {**fields, "failures": len(result.failures), "notes": list(result.notes), "run": run}


def _name(case: Json) -> str:
    return f"{case['part']}/{case['case']}"


def _place(case: Json) -> tuple[int, str]:
    part = case["part"]
    return PARTS.index(part) if part in PARTS else len(PARTS), case["case"]


def _row(case: Json) -> tuple[str, ...]:
    noted = f"skipped: {case['skipped']}" if case["skipped"] else "; ".join(case["notes"])
    checked = f"{case['checked']:,} {case['unit']}"
    return f"`{_name(case)}`", checked, f"{case['failures']:,}", f"{case['seconds']:g}", _cell(noted)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _runs(recorded: Sequence[Json]) -> list[str]:
    """List the runs of the cases, each with its machine."""
    runs: dict[str, list[str]] = {}
    for case in recorded:
        runs.setdefault(_run(case["run"]), []).append(f"`{_name(case)}`")
    if len(runs) == 1:
        return [f"Run on {run}." for run in runs]
    return [f"- Run on {run}: {', '.join(names)}" for run, names in sorted(runs.items())]


def _run(run: Json) -> str:
    on = run["machine"]
    where = f"{on['cores']} cores, {on['platform']} {on['kernel']}, {' and '.join(on['file_systems'])}"
    return f"{run['date']} ({where}, Python {on['python']})"
