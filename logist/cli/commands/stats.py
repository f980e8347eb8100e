"""`logist stats`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import json_option, recorded_jobs_dir_option
from logist.cli.show.output import Diagnostic, Line, Output, StyledText, TextTable
from logist.config.environment import Environment
from logist.core.history.statistics_words import BY, MEASURES, RunEnding
from logist.core.money import amounts

if TYPE_CHECKING:
    from logist.core.history.statistics import Key, Tally
    from logist.core.history.statistics import StatisticsTable as Counted
    from logist.jobs.archive.archive_statistics import Gathered

WHY = 5
"""Reasons for STUCK that a person sees."""
REASONS = 10
"""Of each group, in JSON."""
CHART_COLUMNS = 80
"""Where there is no terminal."""
UNKNOWN = "-"
GIVEN = "given"
"""Marks the runs that no agent was asked for."""

FIGURES = ("RUNS", "SUCCESS", "RETRY", "STUCK", "NO ANS", "ATTEMPT", "COST", "TIME", "TOKENS")
DISPENSABLE = ("TIME", "TOKENS", "NO ANS", "ATTEMPT", "RETRY", "COST")
"""Those that give way on a narrow terminal, in this order."""
FIGURES_WIDTH = 71
"""Columns that they take, as a rule."""
NARROWEST = 14
"""Columns that a name gets on a terminal, however narrow that is."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""What a spreadsheet takes for the beginning of a formula."""
COUNTS = (
    *("simulated", "histories", "runs", *(str(ended) for ended in RunEnding)),
    *("success_share", "stuck_share", "retry_share", "attempts_mean", "attempts_most", "cost_cents"),
    *("seconds", "input_tokens", "cached_tokens", "output_tokens", "stuck_kind", "stuck_reason"),
)
"""The columns of --csv behind those of --by."""

LEGEND = (("completed", "green"), ("retry", "yellow"), ("stuck", "red"), ("no answer", "dim"))


@click.command("stats")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@click.option(
    "--by",
    multiple=True,
    type=click.Choice(BY),
    default=("role",),
    show_default=False,
    help="What to tell runs apart by; may be given more than once  [default: role]",
)
@click.option(
    "--measure",
    type=click.Choice(MEASURES),
    default="runs",
    show_default=True,
    help="What the rows are ordered by, and how long the bars are.",
)
@click.option("--chart", is_flag=True, help="Bars instead of a table.")
@click.option("--csv", "as_csv", is_flag=True, help="Comma-separated values, with a head.")
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
    jobs_dir: str | None,
) -> Output:
    """How agents did, from recorded jobs alone: success, STUCK and why, RETRY, attempts, cost, time, tokens.

    PATH is a job directory, a history file, a folder of such or a glob; without one, all jobs of the
    project. Each run ended in one way: SUCCESS is COMPLETED, STUCK whatever made the job wait for a
    steward. Answers that a person gave are counted apart, and of a fork only what it did itself. Exit code
    10 when a history is damaged; the others count.
    """
    if chart and as_csv:
        raise click.UsageError("--chart and --csv exclude each other")
    by = tuple(dict.fromkeys(by))
    gathered = _gathered(environment, paths, jobs_dir, by)
    table, told = gathered.table, _told(gathered)
    data = _data(gathered, measure)
    if as_csv:
        return Output(data, diagnostics=told, exit_code=gathered.exit_code, raw=_csv(table, measure))
    if chart:
        lines = [*_chart(table, measure), *_jobs(table)]
        return Output(data, lines, told, gathered.exit_code)
    if not table.groups:
        return Output(data, [*_why(table), *_jobs(table)], told, gathered.exit_code)
    whole = TextTable((*(name.upper() for name in by), *FIGURES), _rows(table, measure))
    shown, gone = _fitting(whole, measure.upper())
    lines = [*_left_out(gone), *_why(table), *_jobs(table)]
    return Output(data, lines, told, gathered.exit_code, table=shown)


def _gathered(
    environment: Environment, paths: tuple[str, ...], jobs_dir: str | None, by: tuple[str, ...]
) -> Gathered:
    from logist.cli.recorded import recorded
    from logist.cli.show.progress import ProgressBar
    from logist.jobs.archive.archive_statistics import gather

    found = recorded(environment, paths, jobs_dir)
    progress = ProgressBar(len(found))
    try:
        return gather(found, by, each=progress.tick, done=progress.done)
    finally:
        progress.clear()


def _told(gathered: Gathered) -> tuple[Diagnostic, ...]:
    """What could not be read; and that there is nothing to see, where that is so."""
    told = [
        Diagnostic.of(error)._replace(message=f"left out: {error.message}", target=name)
        for name, error in gathered.left_out
    ]
    if gathered.table.histories and not gathered.table.totals:
        told.append(Diagnostic("info", "no_runs", "no agent was asked in any of these histories"))
    return tuple(told)


def _data(gathered: Gathered, measure: str) -> dict[str, Any]:
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
                **_figures(tally),
            }
            for key, tally in table.rows(measure)
        ],
        "totals": [
            {"simulated": simulated, **_figures(tally)} for simulated, tally in sorted(table.totals.items())
        ],
    }


def _figures(tally: Tally) -> dict[str, Any]:
    used = tally.used
    mean = tally.mean_attempt()
    return {
        "histories": tally.histories,
        "runs": tally.runs,
        **{str(ended): number for ended, number in tally.ended.items()},
        "success_share": _rounded(tally.share(RunEnding.COMPLETED)),
        "stuck_share": _rounded(tally.share(RunEnding.STUCK)),
        "retry_share": _rounded(tally.share(RunEnding.RETRY)),
        "attempts": {"mean": _rounded(mean), "most": tally.most_attempts or None},
        "cost_cents": used.microcents // amounts.MICROCENTS,
        "cost_microcents": used.microcents % amounts.MICROCENTS,
        "seconds": used.milliseconds / 1000,
        "input_tokens": used.input_tokens,
        "cached_tokens": used.cached_tokens,
        "output_tokens": used.output_tokens,
        "stuck_reasons": [
            {"kind": kind or None, "reason": reason, "count": number}
            for kind, reason, number in tally.commonest(REASONS)
        ],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _rows(table: Counted, measure: str) -> Iterator[tuple[StyledText | str, ...]]:
    from logist.cli.show import render
    from logist.cli.show.bars import cut

    columns, _ = render.paper()
    room = max(NARROWEST, (columns - FIGURES_WIDTH) // len(table.by))
    for key, tally in table.rows(measure):
        yield (*(cut(label, room) for label in _labels(key)), *_cells(tally))
    for simulated, tally in sorted(table.totals.items()):
        label = f"total ({GIVEN})" if simulated else "total"
        blank = ("",) * (len(table.by) - 1)
        yield (StyledText(label, "bold"), *blank, *_cells(tally))


def _fitting(table: TextTable, measure: str) -> tuple[TextTable, tuple[str, ...]]:
    """The table without the figures that the terminal has no room for, `measure` last, and which these are."""
    from logist.cli.show import render

    columns = render.paper()[0]
    rows = [table.head, *table.rows]
    gone: list[str] = []
    for name in sorted(DISPENSABLE, key=lambda name: name == measure):
        widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
        if sum(widths) + 2 * (len(widths) - 1) <= columns:
            break
        place = rows[0].index(name)
        rows = [(*row[:place], *row[place + 1 :]) for row in rows]
        gone.append(name)
    head = tuple(str(name) for name in rows[0])
    return TextTable(head, rows[1:]), tuple(name for name in FIGURES if name in gone)


def _width(cell: StyledText | str) -> int:
    from logist.cli.show import render

    return render.display_width(cell if isinstance(cell, str) else cell.text)


def _left_out(figures: tuple[str, ...]) -> list[Line]:
    if not figures:
        return []
    return [
        (StyledText(f"no room here for {', '.join(figures)}: a pipe, --csv and --json have them", "dim"),)
    ]


def _labels(key: Key) -> tuple[str, ...]:
    first, *others = (name or UNKNOWN for name in key.names)
    return (f"{first} ({GIVEN})" if key.simulated else first, *others)


def _cells(tally: Tally) -> tuple[str, ...]:
    mean = tally.mean_attempt()
    return (
        f"{tally.runs:,}",
        *(_percent(tally.share(ended)) for ended in RunEnding),
        UNKNOWN if mean is None else f"{mean:.1f}",
        amounts.dollars(tally.used.microcents),
        _time(tally.used.milliseconds),
        _tokens(tally.measure("tokens")),
    )


def _percent(share: float | None) -> str:
    """Whole percents; never 0% for what there was, nor 100% for what was not always so."""
    if share is None:
        return UNKNOWN
    if 0 < share < 0.01:
        return "<1%"
    return ">99%" if 0.99 < share < 1 else f"{share:.0%}"


def _tokens(count: int) -> str:
    """`9,999`, `12.3k`, `4.5M`."""
    if count < 10_000:
        return f"{count:,}"
    return f"{count / 1000:,.1f}k" if count < 999_950 else f"{count / 1e6:,.1f}M"


def _time(milliseconds: int) -> str:
    seconds = round(milliseconds / 1000)
    if seconds < 60:
        return f"{milliseconds / 1000:.1f}s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}m{seconds:02}s"
    return f"{minutes // 60:,}h{minutes % 60:02}m"


def _why(table: Counted) -> list[Line]:
    """The commonest reasons for STUCK, of agents' runs; of given answers where there are no others."""
    tally = next((tally for _, tally in sorted(table.totals.items())), None)
    reasons = tally.commonest(WHY) if tally else []
    if tally is None or not reasons:
        return []
    lines: list[Line] = ["", (StyledText("why STUCK", "dim"),)]
    for kind, reason, number in reasons:
        lines.append((f"{number:>7,}  ", StyledText(f"{kind or UNKNOWN:<10}", "red"), f"  {_line(reason)}"))
    rest = tally.ended[RunEnding.STUCK] - sum(number for *_, number in reasons)
    return [*lines, *([f"{rest:>7,}  for {len(tally.reasons) - len(reasons)} other reasons"] if rest else [])]


def _jobs(table: Counted) -> list[Line]:
    if not table.histories:
        return []
    many = sorted(table.jobs.items(), key=lambda item: (-item[1], item[0]))
    stand = ", ".join(f"{number:,} {status}" for status, number in many)
    return ["", f"{amounts.counted(table.histories, 'job')}: {stand}"]


def _line(text: str) -> str:
    return " ".join(text.split())


def _chart(table: Counted, measure: str) -> list[Line]:
    from logist.cli.show import render
    from logist.cli.show.bars import Bar, BarPiece, bars

    columns, unicode = render.paper()
    legend = [BarPiece(*each) for each in LEGEND] if measure == "runs" else [BarPiece(measure, "cyan")]
    rows = []
    for key, tally in table.rows(measure):
        pieces = tuple(tally.ended.values()) if measure == "runs" else (tally.measure(measure),)
        rows.append(Bar(" ".join(_labels(key)), pieces, _measure(tally, measure)))
    return bars(rows, legend, CHART_COLUMNS if columns == render.UNLIMITED else columns, unicode=unicode)


def _measure(tally: Tally, measure: str) -> str:
    if measure == "runs":
        return f"{tally.runs:,}  {_percent(tally.share(RunEnding.COMPLETED))}"
    if measure == "cost":
        return amounts.dollars(tally.used.microcents)
    return _time(tally.used.milliseconds) if measure == "time" else _tokens(tally.measure(measure))


def _csv(table: Counted, measure: str) -> str:
    """A line for each group, and no total, so that columns can be added up; costs exactly, in cents."""
    import csv
    import io

    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*(name.replace("-", "_") for name in table.by), *COUNTS])
    for key, tally in table.rows(measure):
        figures = _figures(tally)
        figures["simulated"] = "true" if key.simulated else "false"
        figures["attempts_mean"], figures["attempts_most"] = figures["attempts"].values()
        figures["cost_cents"] = _cents(tally.used.microcents)
        figures["stuck_kind"], figures["stuck_reason"] = next(
            ((_plain(kind), _plain(reason)) for kind, reason, _ in tally.commonest(1)), ("", "")
        )
        writer.writerow([*(_plain(name or "") for name in key.names), *(figures[name] for name in COUNTS)])
    return file.getvalue()


def _cents(microcents: int) -> str:
    whole, fraction = divmod(abs(microcents), amounts.MICROCENTS)
    return f"{'-' if microcents < 0 else ''}{whole}.{fraction:06}"


def _plain(text: str) -> str:
    """Text that no spreadsheet runs, and no terminal obeys."""
    from logist.cli.show.render import clean

    text = _line(clean(text))
    return f"'{text}" if text.startswith(FORMULA) else text
