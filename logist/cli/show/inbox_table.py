"""Formats the jobs of the inbox: as rows of JSON, and as a table that fits the terminal."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from logist.cli.show import pasting, render
from logist.cli.show.output import StyledText, TextTable
from logist.core.machine import waiting
from logist.core.money import amounts
from logist.core.text.columns import count_columns
from logist.quick_tuple import NamedTuple
from logist.timestamps import format_age, format_local, format_utc

if TYPE_CHECKING:
    from logist.jobs.steward.inbox import InboxItem

REASON_WIDTH = 20
"""Columns of the reason for which other columns are left out."""
WIDE_REASON = 50
"""Columns of the reason beside complete commands."""

_STYLES = {
    "damaged": "red bold",
    "provider": "yellow",
    "budget": "yellow",
    "predecessor": "yellow",
    "approval": "yellow",
    "plan": "yellow",
    "manual": "yellow",
}
_VERBS = {"cost": "limit", "time": "limit", "iterations": "limit"}


class _Column(NamedTuple):
    head: str
    format: Callable[[InboxItem], StyledText | str]
    can_be_left_out: bool = True


def build_row(item: InboxItem, review_hash: str | None = None) -> dict[str, Any]:
    """Return a job of the inbox as JSON. `review_hash`: if it waits for approval."""
    cost = item.cost_microcents
    return {
        "job": item.job,
        "project": item.project,
        "kind": item.kind,
        "status": item.status,
        "title": item.title,
        "reason": item.reason,
        "since": item.since or None,
        "age_seconds": item.age_seconds,
        "blocks": item.blocks,
        "cost_cents": None if cost is None else cost // amounts.MICROCENTS,
        "cost_microcents": None if cost is None else cost % amounts.MICROCENTS,
        "changed_files": item.changed_files,
        "assignee": item.assignee,
        "tags": list(item.tags),
        "revision": item.revision,
        "review_hash": review_hash,
        "snoozed_until": None if item.snoozed_until is None else format_utc(item.snoozed_until),
        "command": get_command(item),
        "next_command": get_command(item, item.advice),
        "exit_code": item.exit_code,
    }


def get_command(item: InboxItem, command: str | None = None) -> str:
    """Return the next command of a job, or another one; for another project, with the change to its directory."""
    command = command or item.command
    if item.project is None:
        return command
    from shlex import quote

    return f"cd {quote(item.project)} && {command}"


def build_table(items: list[InboxItem], jobs_dir: str | None, *, is_terminal: bool) -> TextTable:
    """Return the table. On a terminal, columns are left out until the reason has enough room.

    `jobs_dir`: the chosen directory of the jobs, which commands need too.
    """

    def format_whole_command(item: InboxItem) -> str:
        return pasting.add_jobs_dir(get_command(item), jobs_dir)

    next_column = _Column("NEXT", format_whole_command)
    columns = [
        *([_Column("PROJECT", _format_project, False)] if any(item.project for item in items) else []),
        _Column("JOB", lambda item: item.job, False),
        _Column("KIND", _format_kind, False),
        _Column("AGE", format_waiting_time, False),
        _Column("BLOCKS", lambda item: str(item.blocks)),
        _Column("COST", format_cost),
        _Column("FILES", _format_files),
        next_column,
        _Column("REASON", _format_reason, False),
    ]
    if not is_terminal:
        columns[0] = columns[0]._replace(format=lambda item: item.project or item.job)
        return _fill_table(columns, items)
    if not any(item.blocks for item in items):
        columns = [each for each in columns if each.head != "BLOCKS"]
    width = render.get_drawing_space()[0]
    if _measure_room(columns, items, width) < WIDE_REASON:
        columns[columns.index(next_column)] = _Column("NEXT", _format_verb)
    for head in ("BLOCKS", "FILES", "COST", "NEXT"):
        if _measure_room(columns, items, width) < REASON_WIDTH:
            columns = [each for each in columns if each.head != head]
    return _fill_table(columns, items)


def _fill_table(columns: list[_Column], items: list[InboxItem]) -> TextTable:
    rows = [tuple(column.format(item) for column in columns) for item in items]
    return TextTable(tuple(column.head for column in columns), rows)


def _measure_room(columns: list[_Column], items: list[InboxItem], width: int) -> int:
    """Return the columns of the terminal that are left for the last column of the table."""
    used = 0
    for column in columns[:-1]:
        cells = (column.format(item) for item in items)
        texts = [column.head, *(cell if isinstance(cell, str) else cell.text for cell in cells)]
        used += max(map(count_columns, texts)) + 2
    return width - used


def _format_project(item: InboxItem) -> str:
    return os.path.basename(item.project or "")


def _format_kind(item: InboxItem) -> StyledText:
    return StyledText(item.kind, _STYLES.get(item.kind, "red"))


def format_cost(item: InboxItem) -> str:
    """Return what a job has cost so far; "" if that can't be read."""
    return "" if item.cost_microcents is None else amounts.format_money(item.cost_microcents)


def _format_files(item: InboxItem) -> str:
    return "?" if item.changed_files is None else str(item.changed_files)


def _format_verb(item: InboxItem) -> str:
    return _VERBS.get(item.kind) or item.command.removeprefix("logist job ").partition(" ")[0]


def _format_reason(item: InboxItem) -> str:
    until = f"(until {format_local(item.snoozed_until)}) " if item.snoozed_until is not None else ""
    return until + item.reason


def format_waiting_time(item: InboxItem) -> str:
    """Return how long a job has waited; empty for a damaged one."""
    return "" if item.kind == waiting.DAMAGED else format_age(item.age_seconds)
