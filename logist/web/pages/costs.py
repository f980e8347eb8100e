"""What the jobs cost, by day, model and role; how often agents succeed; and how jobs ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from logist.core.drawing.charts import Column, Row, Series, draw_columns, draw_rows
from logist.core.history.statistics import Tally
from logist.core.history.statistics_words import RunEnding
from logist.core.money import amounts
from logist.core.text.counts import format_count
from logist.errors import UsageError
from logist.jobs.archive.daily_statistics import BY, DailyTotals
from logist.jobs.archive.recorded_jobs import Archive
from logist.quick_dataclass import dataclass
from logist.web.served_project import SeenJobs, ServedProject
from logist.web.site import get_site

PERIODS = ("7", "30", "90", "all")
DEFAULT_PERIOD = "30"
MOST_COLUMNS = 92
"""For a longer period, a column is a week, or more."""
MOST_ROWS = 12
UNKNOWN = "not recorded"
_COST = (Series("cost", "cost"),)
_ENDINGS = (
    Series("success", "success"),
    Series("failed", "failed"),
    Series("canceled", "canceled"),
)


@dataclass(frozen=True)
class Chart:
    """A chart, and the same numbers as a table."""

    title: str
    drawing: Markup
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def show_costs(request: Request) -> Response:
    """Show the charts of a period: `days` is one of PERIODS."""
    site = get_site(request)
    asked = request.query_params.get("days", "")
    period = asked if asked in PERIODS else DEFAULT_PERIOD
    seen = site.project.look()
    totals = site.project.costs.gather(_iter_archives(site.project, seen), seen.stamps)
    today = datetime.now().astimezone().date()
    first = find_first_day(totals, period, today)
    runs = {day: tally for day, tally in _add_by(totals, "day").items() if first.isoformat() <= day}
    by_role, by_model = (_add_by(totals, name, first.isoformat()) for name in ("role", "model"))
    all_runs = sum_tallies(runs.values())
    return site.render(
        request,
        "costs.html",
        period=period,
        periods=PERIODS,
        total=all_runs,
        ended=sum(number for (day, _), number in totals.ended.items() if day >= first.isoformat()),
        left_out=sorted(totals.left_out.items()),
        charts=[
            _draw_days(runs, first, today),
            _draw_endings(totals, first, today),
            _draw_shares("models", "Cost by model", "Model", by_model),
            _draw_shares("roles", "Cost by role", "Role", by_role),
            _draw_rates("model-rates", "Success by model", "Model", by_model),
            _draw_rates("role-rates", "Success by role", "Role", by_role),
        ]
        if all_runs.used.microcents or all_runs.runs or totals.ended
        else [],
    )


def _iter_archives(project: ServedProject, seen: SeenJobs) -> Iterator[Archive]:
    for job_id in seen.rows:
        with suppress(UsageError):  # it was just deleted
            yield Archive.from_job(project.open_job(job_id))


def find_first_day(totals: DailyTotals, period: str, today: date) -> date:
    """Return the first day of a period; of all days, the first that has a run."""
    if period != "all":
        return today - timedelta(days=int(period) - 1)
    days = [key.names[0] for key in totals.runs if key.names[0] is not None]
    return min([*(date.fromisoformat(day) for day in days), today])


def sum_tallies(tallies: Iterable[Tally]) -> Tally:
    """Add up runs."""
    total = Tally()
    for tally in tallies:
        total.add_tally(tally)
    return total


def _add_by(totals: DailyTotals, name: str, first: str = "") -> dict[str, Tally]:
    """Add up the runs since the first day, by a member of BY. Runs without a day count with all days only."""
    place, groups = BY.index(name), dict[str, Tally]()
    for key, tally in totals.runs.items():
        day = key.names[0]
        if (day or "") >= first and (day is not None or name != "day"):
            groups.setdefault(key.names[place] or UNKNOWN, Tally()).add_tally(tally)
    return groups


def list_spans(first: date, today: date) -> list[tuple[date, date]]:
    """Return the first and the last day of each column, the last of which ends today."""
    days = (today - first).days + 1
    length = next((size for size in (1, 7, 28) if days <= MOST_COLUMNS * size), 364)
    ends = [today - timedelta(days=length * number) for number in range(-(-days // length))]
    return [(end - timedelta(days=length - 1), end) for end in reversed(ends)]


def _name_span(span: tuple[date, date]) -> str:
    return span[0].isoformat() if span[0] == span[1] else f"{span[0].isoformat()} to {span[1].isoformat()}"


def _draw_days(runs: Mapping[str, Tally], first: date, today: date) -> Chart:
    columns, rows = [], []
    for span in list_spans(first, today):
        total = sum_tallies(tally for day, tally in runs.items() if _is_in(day, span))
        name, cost = _name_span(span), amounts.format_money(total.used.microcents)
        columns.append(Column(span[1].isoformat()[5:], (total.used.microcents,), f"{name}: {cost}"))
        if total.runs or total.used.microcents:
            rows.append((name, cost, f"{total.runs:,}"))
    drawing = draw_columns("days", "Cost per day in US dollars", columns, _COST, amounts.format_money)
    return Chart("Cost per day", Markup(drawing), ("Day", "Cost", "Runs"), rows[::-1])  # noqa: S704


def _is_in(day: str, span: tuple[date, date]) -> bool:
    return span[0].isoformat() <= day <= span[1].isoformat()


def _draw_shares(name: str, title: str, head: str, groups: Mapping[str, Tally]) -> Chart:
    ordered = sorted(groups.items(), key=lambda each: (-each[1].used.microcents, each[0]))
    rows = [
        Row(group, tally.used.microcents, amounts.format_money(tally.used.microcents))
        for group, tally in _put_together(ordered)
    ]
    most = max([row.value for row in rows], default=0)
    ends = ("$0", amounts.format_money(int(most)))
    table = [(row.name, row.text, f"{groups[row.name].runs:,}" if row.name in groups else "") for row in rows]
    drawing = Markup(draw_rows(name, f"{title} in US dollars", rows, most, "cost", ends))  # noqa: S704
    return Chart(title, drawing, (head, "Cost", "Runs"), table)


def _put_together(ordered: Sequence[tuple[str, Tally]]) -> list[tuple[str, Tally]]:
    """Return the first groups, and the others as one."""
    if len(ordered) <= MOST_ROWS:
        return list(ordered)
    others = ordered[MOST_ROWS - 1 :]
    return [
        *ordered[: MOST_ROWS - 1],
        (format_count(len(others), "other"), sum_tallies(tally for _, tally in others)),
    ]


def _draw_rates(name: str, title: str, head: str, groups: Mapping[str, Tally]) -> Chart:
    ordered = sorted(groups.items(), key=lambda each: (-each[1].runs, each[0]))
    known = _put_together([(group, tally) for group, tally in ordered if tally.runs])
    rows, table = [], []
    for group, tally in known:
        share = tally.get_share(RunEnding.COMPLETED) or 0.0
        text = f"{share:.0%} of {format_count(tally.runs, 'run')}"
        rows.append(Row(group, share, text))
        table.append((group, f"{tally.runs:,}", *(f"{tally.ended[ending]:,}" for ending in RunEnding)))
    drawing = Markup(draw_rows(name, title, rows, 1.0, "success", ("0%", "100%")))  # noqa: S704
    return Chart(title, drawing, (head, "Runs", *(str(ending) for ending in RunEnding)), table)


def _draw_endings(totals: DailyTotals, first: date, today: date) -> Chart:
    columns, rows = [], []
    for span in list_spans(first, today):
        counts: Counter[str] = Counter()
        for (day, status), number in totals.ended.items():
            if _is_in(day, span):
                counts[status.lower()] += number
        name, parts = _name_span(span), tuple(counts[each.name] for each in _ENDINGS)
        text = ", ".join(f"{part} {each.name}" for part, each in zip(parts, _ENDINGS, strict=True) if part)
        columns.append(Column(span[1].isoformat()[5:], parts, f"{name}: {text or 'none'}"))
        if any(parts):
            rows.append((name, *map(str, parts)))
    drawing = draw_columns("endings", "Jobs that ended, per day", columns, _ENDINGS, str)
    head = ("Day", *(each.name for each in _ENDINGS))
    return Chart("Jobs that ended", Markup(drawing), head, rows[::-1])  # noqa: S704


ROUTES = [Route("/costs", show_costs)]
