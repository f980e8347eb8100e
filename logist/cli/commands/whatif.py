"""`logist whatif`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import json_flag, recorded_jobs_dir_option
from logist.cli.shell_values import complete_workflow
from logist.cli.show import render
from logist.cli.show.output import Diagnostic, Line, Output, StyledText
from logist.cli.show.progress import ProgressBar
from logist.config.environment import Environment, require_utf8
from logist.core.money.amounts import format_money
from logist.core.text.counts import format_count
from logist.errors import ReplayDiffers, UsageError

if TYPE_CHECKING:
    from logist.core.model import Place
    from logist.core.whatif import ChangedRules, WhatIfSpending
    from logist.jobs.archive.archive_whatif import Total, Tried, WhatIfTotals

SHOWN = 5
"""Maximum number of notes in the text output; --json has all."""
SHOWN_CALLS = 20
"""Maximum number of refused tool calls for each job in the text output."""
LONGEST_CALL = 100
"""Maximum characters of the arguments of a call in the text output."""


@click.command("whatif")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a setting of the config: limits.cost_threshold, limits.time_threshold_minutes, "
    "limits.max_allowed_iterations, limits.max_attempts, review.enabled, review.mode, review.auto_merge, "
    "review.checks.NAME.enabled, review.checks.NAME.severity, approval, on_doubt, response_format.",
)
@click.option(
    "--permissions",
    multiple=True,
    metavar="ROLE:PERM,PERM",
    help="Set the permissions of a role; ROLE:none removes all.",
)
@click.option(
    "--role-file",
    "role_files",
    multiple=True,
    metavar="FILE",
    type=click.Path(),
    help="Use the permissions from this role file.",
)
@click.option("--schema", metavar="FILE", type=click.Path(), help="Use another schema for the exit command.")
@click.option(
    "--workflow",
    metavar="FILE|NAME",
    shell_complete=complete_workflow,
    help="Use another version of a workflow, for jobs that follow the workflow of that name.",
)
@click.option(
    "--expect",
    type=click.Choice(["same"]),
    help="Exit with code 9 if a job would have ended differently.",
)
@recorded_jobs_dir_option
@json_flag
@click.option(
    "--jsonl", "as_lines", is_flag=True, help="Print one JSON object per history, as soon as it is done."
)
@click.pass_obj
def whatif(
    environment: Environment,
    paths: tuple[str, ...],
    settings: tuple[str, ...],
    permissions: tuple[str, ...],
    role_files: tuple[str, ...],
    schema: str | None,
    workflow: str | None,
    expect: str | None,
    jobs_dir: str | None,
    as_json: bool,
    as_lines: bool,
) -> Output:
    """Replay recorded jobs with different rules.

    Shows which jobs would have ended differently, and what that saves or costs. PATH is a job directory, a
    history file, a folder that contains them, or a glob; by default, all jobs of the project.

    With --permissions or --role-file, it also lists the recorded tool calls that the permissions would have
    refused, such as those of jobs from 'logist adopt'.

    The recorded answers and decisions are used again. If one is missing, the replay of the job ends there; the
    minimum number of additional calls is counted. It is unknown whether the recorded calls after that point
    would have been made: they are listed as undetermined. Exit code 10 if a history is damaged; the other
    histories are still replayed.
    """
    from logist.cli.recorded import list_recorded
    from logist.jobs.archive.archive_whatif import WhatIfTotals, try_all

    if not (settings or permissions or role_files or schema or workflow):
        fix = "use --set, --permissions, --role-file, --schema or --workflow"
        raise UsageError("no rule to change", where="whatif", fix=fix)
    rules = _build_rules(environment, settings, permissions, role_files, schema, workflow)
    histories = list_recorded(environment, paths, jobs_dir)
    totals, rows, kept = WhatIfTotals(), [], []
    progress = ProgressBar(len(histories))
    try:
        for tried in try_all(histories, rules, progress.count_interaction):
            totals.add(tried)
            if as_lines and not as_json:
                progress.clear()
                render.print_json(_build_row(tried))
            elif as_json:
                rows.append(_build_row(tried))
            if tried.elsewhere or tried.error or (tried.run and tried.run.refused_calls):
                kept.append(tried)
            progress.count_history()
    finally:
        progress.clear()
    data = [] if as_lines and not as_json else {"histories": rows, "totals": _build_totals(totals.total())}
    return _build_output(kept, totals, rules, data, strict=expect is not None)


def _build_rules(
    environment: Environment,
    settings: tuple[str, ...],
    permissions: tuple[str, ...],
    role_files: tuple[str, ...],
    schema: str | None,
    workflow: str | None,
) -> ChangedRules:
    from logist import resources
    from logist.cli.context import list_role_directories
    from logist.core.whatif import read_permissions, read_settings
    from logist.jobs.archive import trial_schema
    from logist.jobs.archive.archive_whatif import rules_of

    values, may = read_settings(settings), read_permissions(permissions)
    today = resources.load_schema("llm-chat-schema")
    flow = None
    if workflow is not None:
        from logist.cli.commands.workflow.given import load_usable_workflow

        flow = load_usable_workflow(environment, workflow)[0]
    return rules_of(
        today if schema is None else trial_schema.load_trial_schema(_parse_path(schema)),
        values,
        flow,
        may,
        [_parse_path(name) for name in role_files],
        list_role_directories(environment) if role_files else [],
        today,
    )


def _parse_path(name: str) -> Path:
    return Path(require_utf8(name, "the file name", "use UTF-8 characters"))


def _build_output(
    kept: list[Tried], totals: WhatIfTotals, rules: ChangedRules, data: Any, *, strict: bool
) -> Output:
    from logist.jobs.archive.recorded_jobs import exit_code_of_errors

    total = totals.total()
    elsewhere = [tried for tried in kept if tried.elsewhere]
    unused = list(_list_unused(totals, rules, "error" if strict else "warning"))
    diagnostics = [*_list_damage(kept), *unused, *_list_notes(elsewhere)]
    code = exit_code_of_errors(tried.error for tried in kept if tried.error)
    if strict and elsewhere:
        code = code or ReplayDiffers.exit_code
        count = format_count(len(elsewhere), "job")
        diagnostics.append(Diagnostic("error", ReplayDiffers.code, f"{count} would have ended differently"))
    if strict and unused:
        code = code or UsageError.exit_code
    lines = [line for tried in elsewhere for line in _format_job(tried)]
    lines += [line for tried in kept for line in _format_refused_calls(tried)]
    return Output(data, [*lines, _format_summary(total)], tuple(diagnostics), code)


def _format_job(tried: Tried) -> Iterator[Line]:
    """Yield one job that ends differently: its result, what that saves or costs, and why."""
    from logist.core.whatif import named

    trial_run = tried.run
    assert trial_run is not None
    more = [
        f"saves {_format_money(trial_run.saved)}" if _is_spending(trial_run.saved) else "",
        f"needs at least {format_count(len(trial_run.needs), 'more call')}" if trial_run.needs else "",
        f"{_format_money(trial_run.open)} undetermined" if _is_spending(trial_run.open) else "",
    ]
    cost_text = "".join(f"; {part}" for part in more if part)
    recorded_end, now = named(trial_run.recorded_end), named(trial_run.ended)
    yield (
        StyledText(tried.name, "bold"),
        f" at interaction {trial_run.differs_at}: {recorded_end} -> ",
        StyledText(now, "yellow"),
        cost_text,
    )
    if trial_run.reason != f"{now} instead of {recorded_end}":  # the line above already has that
        yield f"    {trial_run.reason}"


def _format_refused_calls(tried: Tried) -> Iterator[Line]:
    """Yield the recorded tool calls that the permissions would have refused."""
    calls = tried.run.refused_calls if tried.run else ()
    if not calls:
        return
    count = sum(call.count for call in calls)
    yield (StyledText(tried.name, "bold"), f": {format_count(count, 'tool call')} would have been refused")
    for call in calls[:SHOWN_CALLS]:
        times = f" ({call.count} times)" if call.count > 1 else ""
        what = f" {' '.join(call.call[:LONGEST_CALL].split())}" if call.call else ""
        yield f"    #{call.sequence} {call.tool}{what}{times}: lacks {', '.join(call.missing)}"
    if len(calls) > SHOWN_CALLS:
        yield f"    and {format_count(len(calls) - SHOWN_CALLS, 'more call')} (see --json)"


def _is_spending(spent: WhatIfSpending) -> bool:
    return bool(spent.calls or spent.microcents)


def _format_money(spent: WhatIfSpending) -> str:
    return f"{format_money(spent.microcents)} ({format_count(spent.calls, 'call')})"


def _format_summary(total: Total) -> str:
    """Return the totals on one line."""
    parts = [
        f"{format_count(total.jobs, 'job')}: {total.elsewhere or 'none'} would have ended differently",
        f"{format_count(total.refused_calls, 'tool call')} would have been refused"
        if total.refused_calls
        else "",
        f"{total.damaged} can't be read" if total.damaged else "",
        f"{total.another_way} would have reached the same result in a different way"
        if total.another_way
        else "",
        f"{_format_money(total.saved)} saved" if _is_spending(total.saved) else "",
        _format_needed(total),
        f"{_format_money(total.open)} undetermined" if _is_spending(total.open) else "",
        f"{format_count(total.spared, 'decision')} of stewards saved" if total.spared else "",
    ]
    return ", ".join(part for part in parts if part)


def _format_needed(total: Total) -> str:
    if not total.needs:
        return ""
    cost = "unknown cost" if total.estimate is None else f"estimated cost {format_money(total.estimate)}"
    return f"at least {format_count(total.needs, 'more call')} ({cost})"


def _list_damage(kept: list[Tried]) -> Iterator[Diagnostic]:
    for tried in kept:
        if tried.error is not None:
            yield Diagnostic.from_error(tried.error)._replace(target=tried.name)


def _list_unused(totals: WhatIfTotals, rules: ChangedRules, severity: str) -> Iterator[Diagnostic]:
    """Yield changed rules without any effect, because no recorded job depends on them."""
    from logist.core.whatif.keys import check_of

    for role in sorted(set(rules.permissions) - totals.roles):
        yield Diagnostic(severity, "unused", f"no recorded answers of the role {role}")
    checks_named = {about[0] for key in rules.settings if (about := check_of(key))}
    for check in sorted(checks_named - totals.checks):
        yield Diagnostic(severity, "unused", f"no recorded job has the check {check}")
    if rules.workflow is not None and not totals.follow:
        yield Diagnostic(severity, "unused", f"no recorded job follows the workflow {rules.workflow.name}")


def _list_notes(elsewhere: list[Tried]) -> Iterator[Diagnostic]:
    anyway = [tried.name for tried in elsewhere if tried.differs_anyway]
    if anyway:
        message = f"{format_count(len(anyway), 'job')} would now end differently even without the change"
        yield Diagnostic("warning", "differs_anyway", message, anyway[0], "run 'logist replay' to see why")
    notes = [(tried.name, note) for tried in elsewhere if tried.run for note in tried.run.notes]
    for name, note in notes[:SHOWN]:
        yield Diagnostic("info", "note", note, name)
    if len(notes) > SHOWN:
        yield Diagnostic("info", "note", f"and {format_count(len(notes) - SHOWN, 'more note')} (see --json)")


def _build_row(tried: Tried) -> dict[str, Any]:
    trial_run, error = tried.run, tried.error
    return {
        "source": tried.name,
        "interactions": trial_run.interactions if trial_run else None,
        "same": not tried.elsewhere if trial_run else None,
        "differs_at": trial_run.differs_at if trial_run else None,
        "recorded": _build_place(trial_run.recorded_end) if trial_run else None,
        "would_be": _build_place(trial_run.ended) if trial_run else None,
        "reason": trial_run.reason if trial_run else None,
        "saved": asdict(trial_run.saved) if trial_run else None,
        "open": asdict(trial_run.open) if trial_run else None,
        "needs": list(trial_run.needs) if trial_run else [],
        "spared": trial_run.spared if trial_run else 0,
        "broken_off": trial_run.broken_off if trial_run else False,
        "differs_anyway": tried.differs_anyway,
        "notes": list(trial_run.notes) if trial_run else [],
        "refused_calls": [asdict(call) for call in trial_run.refused_calls] if trial_run else [],
        "error": Diagnostic.from_error(error)._asdict() if error else None,
    }


def _build_place(place: Place) -> dict[str, Any]:
    kind = place.stuck.kind if place.stuck else None
    return {"status": place.status, "step": place.step, "awaiting": place.awaiting, "stuck": kind}


def _build_totals(total: Total) -> dict[str, Any]:
    fields = asdict(total)
    estimate = fields.pop("estimate")
    return {**fields, "estimate_microcents": estimate}
