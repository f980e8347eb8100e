"""`logist replay`."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import processes_option, recorded_jobs_dir_option
from logist.cli.replayed import (
    build_replay_row,
    color_report,
    judge_totals,
    list_replay_notes,
    load_prompts,
    replay_options,
    require_junit_file,
    write_junit,
)
from logist.cli.show import render
from logist.cli.show.output import Diagnostic, Output
from logist.cli.show.progress import ProgressBar
from logist.config.environment import Environment

if TYPE_CHECKING:
    from logist.jobs.archive.archive_replay import Replayed


@click.command("replay")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@replay_options
@click.option("--fail-fast", is_flag=True, help="Stop after the first history that fails.")
@processes_option("Replay")
@recorded_jobs_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON at the end.")
@click.option(
    "--jsonl", "as_jsonl", is_flag=True, help="Print one JSON object per history, as soon as it is done."
)
@click.pass_obj
def replay(
    environment: Environment,
    paths: tuple[str, ...],
    prompts: str,
    strict: bool,
    junit: str | None,
    fail_fast: bool,
    processes: int,
    jobs_dir: str | None,
    as_json: bool,
    as_jsonl: bool,
) -> Output:
    """Replay recorded histories with the current rules.

    A replay uses no model, no network and no clock. PATH is a job directory, a history file, a folder that
    contains them, or a glob; by default, all jobs of the project.

    Exit code: 10 if a history is damaged; 9 if one now gives a different result (with --prompts fail, also if
    a prompt would be different; with --strict, also if the only cause is a rule that changed in a newer
    Logist); else 0.
    """
    from logist.cli.recorded import list_recorded
    from logist.jobs.archive.archive_replay import replay_all
    from logist.jobs.archive.replay_report import Junit, ReplayTotals
    from logist.resources import load_schema

    target = require_junit_file(junit)
    histories = list_recorded(environment, paths, None if paths else jobs_dir)
    progress = ProgressBar(len(histories))
    fail_on_prompts = prompts == "fail"
    mode = "json" if as_json else "jsonl" if as_jsonl else "text"
    display, totals, report = (
        _ReplayDisplay(environment, mode, progress),
        ReplayTotals(),
        Junit(fail_on_prompts, strict),
    )
    compared = load_prompts(environment, jobs_dir, prompts)
    gc.freeze()  # what is loaded now stays: don't search it for garbage again and again
    try:
        for each in replay_all(
            histories,
            load_schema("llm-chat-schema"),
            prompts=compared,
            each=progress.count_interaction,
            processes=processes,
        ):
            totals.add(each)
            report.add(each)
            display.add_history(each)
            progress.count_history()
            if fail_fast and each.has_failed(prompts=fail_on_prompts, rules=strict):
                break
    finally:
        progress.clear()
    write_junit(target, report)
    code, errors = judge_totals(totals, prompts=fail_on_prompts, rules=strict)
    data = {"histories": display.rows, "totals": totals.to_counts()}
    return Output(
        [] if as_jsonl and not as_json else data, (totals.format_line(),), (*display.told, *errors), code
    )


class _ReplayDisplay:
    """Prints each history when it is done; keeps only what is needed at the end."""

    def __init__(self, environment: Environment, mode: str, progress: ProgressBar) -> None:
        self.rows: list[dict[str, Any]] = []
        """Rows for --json; empty in other modes."""
        self.told: list[Diagnostic] = []
        self._environment = environment
        self._mode = mode
        self._progress = progress
        self._diffs: set[str] = set()

    def add_history(self, found: Replayed) -> None:
        """Print or keep the result of one history."""
        from logist.jobs.archive.replay_report import format_replay_lines

        if self._mode == "json":
            self.rows.append(build_replay_row(found))
            self.told += list_replay_notes(found, found.name)
            return
        replay_notes = list_replay_notes(found, found.name)
        has_differences = (
            found.drifts or found.changed_rules or found.scrubbed or found.has_failed(prompts=True)
        )
        if self._mode == "jsonl" or replay_notes or has_differences:
            self._progress.clear()
        if self._mode == "jsonl":
            render.print_json(build_replay_row(found))
        elif has_differences:
            render.print_lines(color_report(format_replay_lines(found, shown=self._diffs)), self._environment)
        render.print_diagnostics(replay_notes, self._environment)
