"""The tables of the comparison with other programs: on the terminal, in peers_recorded.json, and in docs/comparison.md."""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import measure

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "comparison.md"
RECORDED = Path(__file__).with_name("peers_recorded.json")
BEGIN = "<!-- recorded: begin; made by benchmarks/peers.py --record -->"
END = "<!-- recorded: end -->"


class Table(NamedTuple):
    """What was measured of Logist and of others, in the same way."""

    name: str
    """For `--only`."""
    title: str
    note: str
    """What was done, what is compared, and where the work of one differs from that of the others."""
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]
    """A row for each program; its first cell is the name."""


class Run(NamedTuple):
    """When and where it was measured, and with what."""

    date: str
    machine: str
    versions: Mapping[str, str]
    """Of each peer that was measured, by its title; and of Logist."""
    missing: Mapping[str, str]
    """Why a peer is not there, by its title."""


def describe_run(versions: Mapping[str, str], missing: Mapping[str, str]) -> Run:
    """Today's run on this machine."""
    from logist.store import filesystem_type

    kind = filesystem_type(Path(tempfile.gettempdir())) or "unknown file system"
    load = os.getloadavg()[0]
    machine_text = (
        f"{os.cpu_count()} cores, {sys.platform} {os.uname().release}, {kind}, "
        f"Python {platform.python_version()}, load {load:.1f} at the end"
    )
    return Run(f"{datetime.now(UTC):%Y-%m-%d}", machine_text, versions, missing)


def print_tables(tables: Iterable[Table], run: Run) -> None:
    """Print tables for a terminal."""
    for table in tables:
        print(f"\n{table.title} ({table.name})\n{table.note}\n")
        measure.table([table.head, *table.rows])
    print(f"\n{run.date}, {run.machine}")
    print("; ".join(run.versions.values()))
    for title, reason in run.missing.items():
        print(f"not installed: {title}: {reason}")


def record_tables(
    tables: Sequence[Table], run: Run, *, recorded_file: Path = RECORDED, page_file: Path = PAGE
) -> None:
    """Replace what was recorded of these tables and peers, and write the block of the page again."""
    known = read_recorded(recorded_file)
    kept = {table["name"]: table for table in known["tables"]}
    measured = {"date": run.date, "machine": run.machine}
    kept.update({table.name: {**table._asdict(), "run": measured} for table in tables})
    versions = {**known["versions"], **run.versions}
    missing = {**known["missing"], **run.missing}
    recorded = {
        "tables": sorted(kept.values(), key=lambda table: find_place(table["name"])),
        "versions": {title: text for title, text in sorted(versions.items()) if title not in run.missing},
        "missing": {title: text for title, text in sorted(missing.items()) if title not in run.versions},
    }
    recorded_file.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n", "utf-8")
    page = page_file.read_text("utf-8")
    block = render_tables(read_recorded(recorded_file))
    page_file.write_text(page.replace(cut_block(page), block), "utf-8")


ORDER = (
    *("calls", "saves", "writers", "exits", "limits"),
    *("startup", "step", "command", "append", "replay", "listing", "call"),
)
"""The tables in the order of the page: what is promised comes before what is fast."""


def find_place(name: str) -> tuple[int, str]:
    """Where a table is on the page."""
    return ORDER.index(name) if name in ORDER else len(ORDER), name


def read_recorded(recorded_file: Path = RECORDED) -> Json:
    """What the recorded runs have measured; empty if there is none."""
    if not recorded_file.exists():
        return {"tables": [], "versions": {}, "missing": {}}
    recorded: Json = json.loads(recorded_file.read_text("utf-8"))
    return recorded


def cut_block(page: str) -> str:
    """The text between the two markers of a page."""
    return page.partition(f"{BEGIN}\n")[2].partition(END)[0]


def render_tables(recorded: Json) -> str:
    """The block of the page: each table with its run, then the versions and what is missing."""
    if not recorded["tables"]:
        return "\nNo run is recorded.\n\n"
    lines = [""]
    for table in recorded["tables"]:
        lines += [f"### {table['title']}", "", table["note"], "", *render_table(table), ""]
        lines += [f"Measured on {table['run']['date']}: {table['run']['machine']}.", ""]
    lines += ["### Versions", "", f"{'; '.join(recorded['versions'].values())}.", ""]
    lines += [
        f"- Not measured: {title}, because it could not be installed here ({escape_cell(reason)})."
        for title, reason in recorded["missing"].items()
    ]
    return "\n".join([*lines, *([""] if recorded["missing"] else []), ""])


def render_table(table: Json) -> list[str]:
    """The lines of one table in Markdown."""
    rows = [table["head"], ["---"] * len(table["head"]), *table["rows"]]
    return [f"| {' | '.join(escape_cell(cell) for cell in row)} |" for row in rows]


def escape_cell(text: str) -> str:
    """A cell on one line."""
    return " ".join(text.replace("|", "\\|").split())


def format_ratio(value: float | None, own: float | None) -> str:
    """How many times Logist's figure another one is; empty if one of both is missing."""
    if not value or not own:
        return ""
    ratio = value / own
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}"
