"""`logist replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import recorded_jobs_dir_option
from logist.cli.replayed import (
    colored,
    junit_file,
    outcome,
    prompts_of,
    replay_options,
    row,
    told,
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
@click.option("--fail-fast", is_flag=True, help="Stop after the first history that does not go the same way.")
@recorded_jobs_dir_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document, at the end.")
@click.option("--jsonl", "as_jsonl", is_flag=True, help="One JSON object a history, as each is done.")
@click.pass_obj
def replay(
    environment: Environment,
    paths: tuple[str, ...],
    prompts: str,
    strict: bool,
    junit: str | None,
    fail_fast: bool,
    jobs_dir: str | None,
    as_json: bool,
    as_jsonl: bool,
) -> Output:
    """Run recorded histories through today's rules: no model, no network, no clock.

    PATH is a job directory, a history file, a folder of such or a glob; without one, all jobs of the
    project. Exit code 10 when a history is damaged, else 9 when one goes another way today (with --prompts
    fail also when a prompt would be another one, with --strict also when only a rule that a newer Logist
    has changed is the cause), else 0.
    """
    from logist.cli.recorded import recorded
    from logist.jobs.archive.archive_replay import replay_all
    from logist.jobs.archive.replay_report import Junit, ReplayTotals
    from logist.resources import schema

    target = junit_file(junit)
    found = recorded(environment, paths, None if paths else jobs_dir)
    progress = ProgressBar(len(found))
    fail_on_prompts = prompts == "fail"
    mode = "json" if as_json else "jsonl" if as_jsonl else "text"
    shown, totals, report = (
        _ReplayDisplay(environment, mode, progress),
        ReplayTotals(),
        Junit(fail_on_prompts, strict),
    )
    compared = prompts_of(environment, jobs_dir, prompts)
    try:
        for each in replay_all(found, schema("llm-chat-schema"), prompts=compared, each=progress.tick):
            totals.add(each)
            report.add(each)
            shown.add(each)
            progress.done()
            if fail_fast and each.fails(prompts=fail_on_prompts, rules=strict):
                break
    finally:
        progress.clear()
    write_junit(target, report)
    code, errors = outcome(totals, prompts=fail_on_prompts, rules=strict)
    data = {"histories": shown.rows, "totals": totals.counted()}
    return Output([] if as_jsonl and not as_json else data, (totals.line(),), (*shown.told, *errors), code)


class _ReplayDisplay:
    """What is shown of each history as it is done; nothing is kept that is not needed at the end."""

    def __init__(self, environment: Environment, mode: str, progress: ProgressBar) -> None:
        self.rows: list[dict[str, Any]] = []
        """For the document; empty in every other mode."""
        self.told: list[Diagnostic] = []
        self._environment = environment
        self._mode = mode
        self._progress = progress
        self._diffs: set[str] = set()

    def add(self, found: Replayed) -> None:
        """One more history."""
        from logist.jobs.archive.replay_report import lines

        if self._mode == "json":
            self.rows.append(row(found))
            self.told += told(found, found.name)
            return
        beside = told(found, found.name)
        telling = found.drifts or found.changed_rules or found.fails(prompts=True)
        if self._mode == "jsonl" or beside or telling:
            self._progress.clear()
        if self._mode == "jsonl":
            render.print_json(row(found))
        elif telling:
            render.print_lines(colored(lines(found, shown=self._diffs)), self._environment)
        render.diagnose(beside, self._environment)
