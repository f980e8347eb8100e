"""`logist stats`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import json_option, processes_option, recorded_jobs_dir_option
from logist.cli.show.output import Diagnostic, Line, Output, StyledText, TextTable
from logist.config.environment import Environment
from logist.core.history.statistics_words import BY, MEASURES, RunEnding
from logist.core.money import amounts
from logist.core.text.columns import count_columns
from logist.core.text.counts import format_count

if TYPE_CHECKING:
    from logist.core.history.statistics import Key, Tally
    from logist.core.history.statistics import StatisticsTable as Counted
    from logist.jobs.archive.archive_statistics import Gathered

WHY = 5
"""Maximum number of reasons for STUCK in the text output."""
REASONS = 10
"""Maximum number of reasons for each group in JSON."""
CHART_COLUMNS = 80
"""Width of a chart without a terminal."""
UNKNOWN = "-"
GIVEN = "by hand"
"""Marks runs whose answers a person supplied."""

FIGURES = ("RUNS", "SUCCESS", "RETRY", "STUCK", "NO ANS", "ATTEMPT", "COST", "TIME", "TOKENS")
DISPENSABLE = ("TIME", "TOKENS", "NO ANS", "ATTEMPT", "RETRY", "COST")
"""Columns that are removed on a narrow terminal, in this order."""
FIGURES_WIDTH = 71
"""Usual width of all figures, in columns."""
NARROWEST = 14
"""Minimum width of a name, even on a narrow terminal."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""Characters that start a formula in a spreadsheet."""
COUNTS = (
    *("simulated", "histories", "runs", *(str(ended) for ended in RunEnding)),
    *("success_share", "stuck_share", "retry_share", "attempts_mean", "attempts_most", "cost_cents"),
    *("seconds", "input_tokens", "cached_tokens", "output_tokens", "stuck_kind", "stuck_reason"),
)
"""The columns of --csv after those of --by."""

LEGEND = (("completed", "green"), ("retry", "yellow"), ("stuck", "red"), ("no answer", "dim"))


@click.command("stats")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@click.option(
    "--by",
    multiple=True,
    type=click.Choice(BY),
    default=("role",),
    show_default=False,
    help="Group runs by this; can be used several times  [default: role]",
)
@click.option(
    "--measure",
    type=click.Choice(MEASURES),
    default="runs",
    show_default=True,
    help="Sort rows by this figure; also the length of the bars.",
)
@click.option("--chart", is_flag=True, help="Print bars instead of a table.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values with a header line.")
@processes_option("Read")
@recorded_jobs_dir_option
@json_option
@click.pass_obj
def stats(
    environment: Environment,
    paths: tuple[str, ...],
    by: tuple[str, ...],
    measure: str,
    chart: bool,
    as_csv: bool,
    processes: int,
    jobs_dir: str | None,
) -> Output:
    """Show statistics about agents from recorded jobs.

    The figures are success, STUCK with its reasons, RETRY, attempts, cost, time and tokens. PATH is a job
    directory, a history file, a folder that contains them, or a glob; by default, all jobs of the project.

    A run counts as SUCCESS if the agent answered COMPLETED, and as STUCK if the job then waited for a steward.
    Answers supplied by hand are counted separately. For a fork, only its own runs count. Exit code 10 if a
    history is damaged; the other histories still count.
    """
    if chart and as_csv:
        raise click.UsageError("can't use --chart and --csv together")
    by = tuple(dict.fromkeys(by))
    gathered = _gather_statistics(environment, paths, jobs_dir, by, processes)
    table, diagnostics = gathered.table, _list_diagnostics(gathered)
    data = _build_data(gathered, measure)
    if as_csv:
        return Output(
            data, diagnostics=diagnostics, exit_code=gathered.exit_code, raw=_build_csv(table, measure)
        )
    if chart:
        lines = [*_draw_chart(table, measure), *_format_jobs(table)]
        return Output(data, lines, diagnostics, gathered.exit_code)
    if not table.groups:
        return Output(
            data, [*_format_stuck_reasons(table), *_format_jobs(table)], diagnostics, gathered.exit_code
        )
    full_table = TextTable((*(name.upper() for name in by), *FIGURES), _iter_rows(table, measure))
    fitting_table, removed = _drop_columns(full_table, measure.upper())
    lines = [*_format_left_out(removed), *_format_stuck_reasons(table), *_format_jobs(table)]
    return Output(data, lines, diagnostics, gathered.exit_code, table=fitting_table)


def _gather_statistics(
    environment: Environment,
    paths: tuple[str, ...],
    jobs_dir: str | None,
    by: tuple[str, ...],
    processes: int,
) -> Gathered:
    import gc

    from logist.cli.recorded import list_recorded
    from logist.cli.show.progress import ProgressBar
    from logist.jobs.archive.archive_statistics import gather_statistics

    histories = list_recorded(environment, paths, jobs_dir)
    progress = ProgressBar(len(histories))
    try:
        gc.freeze()  # as in replay: don't search what is loaded for garbage
        return gather_statistics(
            histories,
            by,
            each=progress.count_interaction,
            done=progress.count_history,
            processes=processes,
        )
    finally:
        progress.clear()


def _list_diagnostics(gathered: Gathered) -> tuple[Diagnostic, ...]:
    """Return the histories that could not be read, and a note if there are no runs."""
    diagnostics = [
        Diagnostic.from_error(error)._replace(message=f"skipped: {error.message}", target=name)
        for name, error in gathered.left_out
    ]
    if gathered.table.histories and not gathered.table.totals:
        diagnostics.append(Diagnostic("info", "no_runs", "these histories contain no answers of agents"))
    return tuple(diagnostics)


def _build_data(gathered: Gathered, measure: str) -> dict[str, Any]:
    table = gathered.table
    return {
        "by": list(table.by),
        "histories": table.histories,
        "left_out": len(gathered.left_out),
        "interactions": table.interactions,
        "jobs": dict(sorted(table.jobs.items())),
        "groups": [
            {
                "by": dict(zip(table.by, key.names, strict=True)),
                "simulated": key.simulated,
                **_build_figures(tally),
            }
            for key, tally in table.sort_rows(measure)
        ],
        "totals": [
            {"simulated": simulated, **_build_figures(tally)}
            for simulated, tally in sorted(table.totals.items())
        ],
    }


def _build_figures(tally: Tally) -> dict[str, Any]:
    used = tally.used
    mean = tally.get_mean_attempt()
    return {
        "histories": tally.histories,
        "runs": tally.runs,
        **{str(ended): number for ended, number in tally.ended.items()},
        "success_share": _round_share(tally.get_share(RunEnding.COMPLETED)),
        "stuck_share": _round_share(tally.get_share(RunEnding.STUCK)),
        "retry_share": _round_share(tally.get_share(RunEnding.RETRY)),
        "attempts": {"mean": _round_share(mean), "most": tally.most_attempts or None},
        "cost_cents": used.microcents // amounts.MICROCENTS,
        "cost_microcents": used.microcents % amounts.MICROCENTS,
        "seconds": used.milliseconds / 1000,
        "input_tokens": used.input_tokens,
        "cached_tokens": used.cached_tokens,
        "output_tokens": used.output_tokens,
        "stuck_reasons": [
            {"kind": kind or None, "reason": reason, "count": number}
            for kind, reason, number in tally.list_top_reasons(REASONS)
        ],
    }


def _round_share(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _iter_rows(table: Counted, measure: str) -> Iterator[tuple[StyledText | str, ...]]:
    from logist.cli.show import render
    from logist.cli.show.bars import cut_to_width

    columns, _ = render.get_drawing_space()
    room = max(NARROWEST, (columns - FIGURES_WIDTH) // len(table.by))
    for key, tally in table.sort_rows(measure):
        yield (*(cut_to_width(label, room) for label in _format_labels(key)), *_format_cells(tally))
    for simulated, tally in sorted(table.totals.items()):
        label = f"total ({GIVEN})" if simulated else "total"
        blank = ("",) * (len(table.by) - 1)
        yield (StyledText(label, "bold"), *blank, *_format_cells(tally))


def _drop_columns(table: TextTable, measure: str) -> tuple[TextTable, tuple[str, ...]]:
    """Return the table without the figures that don't fit on the terminal, and their names; `measure` is
    removed last.
    """
    from logist.cli.show import render

    columns = render.get_drawing_space()[0]
    rows = [table.head, *table.rows]
    removed: list[str] = []
    for name in sorted(DISPENSABLE, key=lambda name: name == measure):
        widths = [max(map(_measure_width, column)) for column in zip(*rows, strict=True)]
        if sum(widths) + 2 * (len(widths) - 1) <= columns:
            break
        place = rows[0].index(name)
        rows = [(*row[:place], *row[place + 1 :]) for row in rows]
        removed.append(name)
    head = tuple(str(name) for name in rows[0])
    return TextTable(head, rows[1:]), tuple(name for name in FIGURES if name in removed)


def _measure_width(cell: StyledText | str) -> int:
    return count_columns(cell if isinstance(cell, str) else cell.text)


def _format_left_out(figures: tuple[str, ...]) -> list[Line]:
    if not figures:
        return []
    return [
        (StyledText(f"terminal too narrow for {', '.join(figures)}: use a pipe, --csv or --json", "dim"),)
    ]


def _format_labels(key: Key) -> tuple[str, ...]:
    first, *others = (name or UNKNOWN for name in key.names)
    return (f"{first} ({GIVEN})" if key.simulated else first, *others)


def _format_cells(tally: Tally) -> tuple[str, ...]:
    mean = tally.get_mean_attempt()
    return (
        f"{tally.runs:,}",
        *(_format_percent(tally.get_share(ended)) for ended in RunEnding),
        UNKNOWN if mean is None else f"{mean:.1f}",
        amounts.format_money(tally.used.microcents),
        _format_time(tally.used.milliseconds),
        _format_tokens(tally.get_measure("tokens")),
    )


def _format_percent(share: float | None) -> str:
    """Return a whole percentage; `<1%` and `>99%` instead of a rounded 0% and 100%."""
    if share is None:
        return UNKNOWN
    if 0 < share < 0.01:
        return "<1%"
    return ">99%" if 0.99 < share < 1 else f"{share:.0%}"


def _format_tokens(count: int) -> str:
    """Return `9,999`, `12.3k`, `4.5M`."""
    if count < 10_000:
        return f"{count:,}"
    return f"{count / 1000:,.1f}k" if count < 999_950 else f"{count / 1e6:,.1f}M"


def _format_time(milliseconds: int) -> str:
    seconds = round(milliseconds / 1000)
    if seconds < 60:
        return f"{milliseconds / 1000:.1f}s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}m{seconds:02}s"
    return f"{minutes // 60:,}h{minutes % 60:02}m"


def _format_stuck_reasons(table: Counted) -> list[Line]:
    """Return the most common reasons for STUCK, of agents' runs if there are any, else of answers by hand."""
    tally = next((tally for _, tally in sorted(table.totals.items())), None)
    reasons = tally.list_top_reasons(WHY) if tally else []
    if tally is None or not reasons:
        return []
    lines: list[Line] = ["", (StyledText("reasons for STUCK", "dim"),)]
    for kind, reason, number in reasons:
        lines.append(
            (f"{number:>7,}  ", StyledText(f"{kind or UNKNOWN:<10}", "red"), f"  {_to_one_line(reason)}")
        )
    rest = tally.ended[RunEnding.STUCK] - sum(number for *_, number in reasons)
    return [
        *lines,
        *(
            [f"{rest:>7,}  for {format_count(len(tally.reasons) - len(reasons), 'other reason')}"]
            if rest
            else []
        ),
    ]


def _format_jobs(table: Counted) -> list[Line]:
    if not table.histories:
        return []
    many = sorted(table.jobs.items(), key=lambda item: (-item[1], item[0]))
    by_status = ", ".join(f"{number:,} {status}" for status, number in many)
    return ["", f"{format_count(table.histories, 'job')}: {by_status}"]


def _to_one_line(text: str) -> str:
    return " ".join(text.split())


def _draw_chart(table: Counted, measure: str) -> list[Line]:
    from logist.cli.show import render
    from logist.cli.show.bars import Bar, BarPiece, draw_bars

    columns, unicode = render.get_drawing_space()
    legend = [BarPiece(*each) for each in LEGEND] if measure == "runs" else [BarPiece(measure, "cyan")]
    rows = []
    for key, tally in table.sort_rows(measure):
        pieces = tuple(tally.ended.values()) if measure == "runs" else (tally.get_measure(measure),)
        rows.append(Bar(" ".join(_format_labels(key)), pieces, _format_measure(tally, measure)))
    return draw_bars(rows, legend, CHART_COLUMNS if columns == render.UNLIMITED else columns, unicode=unicode)


def _format_measure(tally: Tally, measure: str) -> str:
    if measure == "runs":
        return f"{tally.runs:,}  {_format_percent(tally.get_share(RunEnding.COMPLETED))}"
    if measure == "cost":
        return amounts.format_money(tally.used.microcents)
    return (
        _format_time(tally.used.milliseconds)
        if measure == "time"
        else _format_tokens(tally.get_measure(measure))
    )


def _build_csv(table: Counted, measure: str) -> str:
    """Return a line for each group, without totals, so that columns can be summed; costs are exact, in cents."""
    import csv
    import io

    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*(name.replace("-", "_") for name in table.by), *COUNTS])
    for key, tally in table.sort_rows(measure):
        figures = _build_figures(tally)
        figures["simulated"] = "true" if key.simulated else "false"
        figures["attempts_mean"], figures["attempts_most"] = figures["attempts"].values()
        figures["cost_cents"] = _format_cents(tally.used.microcents)
        figures["stuck_kind"], figures["stuck_reason"] = next(
            ((_make_csv_safe(kind), _make_csv_safe(reason)) for kind, reason, _ in tally.list_top_reasons(1)),
            ("", ""),
        )
        writer.writerow(
            [*(_make_csv_safe(name or "") for name in key.names), *(figures[name] for name in COUNTS)]
        )
    return file.getvalue()


def _format_cents(microcents: int) -> str:
    whole, fraction = divmod(abs(microcents), amounts.MICROCENTS)
    return f"{'-' if microcents < 0 else ''}{whole}.{fraction:06}"


def _make_csv_safe(text: str) -> str:
    """Return text that is safe for spreadsheets (no formulas) and terminals (no control characters)."""
    from logist.cli.show.render import clean_for_terminal

    text = _to_one_line(clean_for_terminal(text))
    return f"'{text}" if text.startswith(FORMULA) else text
