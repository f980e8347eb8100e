"""`logist inbox`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from logist.cli.commands.inbox import INBOX
from logist.cli.current_job import get_current_directory
from logist.cli.lazy import LazyGroup
from logist.cli.options import jobs_dir_option, listing_options
from logist.cli.shell_values import complete_assignee, complete_tag
from logist.cli.show import inbox_table
from logist.cli.show.output import Command, Diagnostic, Line, Output
from logist.core.machine import waiting
from logist.core.text.counts import format_count
from logist.errors import UsageError
from logist.jobs.steward import inbox as inbox_rows

if TYPE_CHECKING:
    from logist.config.environment import Environment
    from logist.jobs.steward.inbox import InboxItem

GROUPS = {"stuck": waiting.STUCK_KINDS, "halted": tuple(waiting.LIMIT_KINDS.values())}
"""Words for several kinds."""


@click.group(
    "inbox",
    cls=LazyGroup,
    entries=INBOX,
    invoke_without_command=True,
    subcommand_metavar="[COMMAND] [ARGS]...",
)
@click.option(
    "-i", "--interactive", is_flag=True, help="Go through them one by one, and decide with one key each."
)
@click.option("--all", "everywhere", is_flag=True, help="In all `projects` of your own config.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice((*GROUPS, *waiting.KINDS), case_sensitive=False),
    metavar="KIND",
    help="Only this kind; repeatable. `stuck` and `halted` are several kinds.",
)
@click.option(
    "--assignee",
    metavar="NAME",
    help="Only manual steps with this assignee.",
    shell_complete=complete_assignee,
)
@click.option("--tag", metavar="TAG", help="Only jobs with this tag.", shell_complete=complete_tag)
@click.option("--snoozed", is_flag=True, help="Only the jobs that are hidden by `logist inbox snooze`.")
@jobs_dir_option
@listing_options
@click.pass_context
def inbox(
    ctx: click.Context,
    interactive: bool,
    everywhere: bool,
    kinds: tuple[str, ...],
    assignee: str | None,
    tag: str | None,
    snoozed: bool,
    jobs_dir: str | None,
) -> Output | None:
    """List everything that waits for you.

    That is: STUCK jobs, approvals, manual steps, jobs at a limit, jobs that gave up waiting for their provider, jobs
    whose budget is used up, jobs that can't begin because of another one, and damaged jobs. What blocks most other jobs
    comes first, then what has waited longest. With -i, go through them one by one on a terminal: see the question, the
    answer, failed checks and changed files, and decide.

    Kinds: question, agent, attempts, permission, in_doubt, no_branch, share, conflict, merge (all STUCK); approval,
    plan, manual; cost, time, iterations (limits); provider, budget, predecessor, damaged.

    In a pipe, the columns are separated by tabs: job, kind, age, number of blocked jobs, cost, number of changed
    files, the next command, the question or reason; with --all, the project comes first. The exit code is 0 if nothing
    is listed, otherwise the first of these that applies: 10 (damaged), 3 (STUCK), 7 (limit), 11 (approval), 5 (a file
    can't be read), 6 (provider).
    """
    if ctx.invoked_subcommand is not None:
        _require_no_options(ctx)
        return None
    environment: Environment = ctx.obj
    if everywhere and jobs_dir:
        raise UsageError("can't use --all and --jobs-dir together", fix="use only one of them")
    wanted = frozenset(each for word in kinds for each in GROUPS.get(word, (word,)))

    def read_shown() -> tuple[list[InboxItem], tuple[Diagnostic, ...]]:
        items, diagnostics = _read_items(environment, jobs_dir, everywhere=everywhere)
        chosen = [
            item
            for item in items
            if (not wanted or item.kind in wanted)
            and (assignee is None or item.assignee == assignee)
            and (tag is None or tag in item.tags)
        ]
        shown = [item for item in chosen if (item.snoozed_until is not None) == snoozed]
        return shown, diagnostics + _note_hidden(len(chosen) - len(shown), len(shown), snoozed=snoozed)

    if interactive:
        _require_terminal(ctx)
        return _go_through(environment, jobs_dir, read_shown)
    shown, diagnostics = read_shown()
    hashes: dict[tuple[str, str], str | None] = {}
    if any(_is_named(ctx, name) for name in ("as_json", "jsonl")):
        hashes = _find_review_hashes(environment, jobs_dir, shown)
    return _build_output(environment, inbox_rows.count_changed_files(shown), hashes, diagnostics)


def _find_review_hashes(
    environment: Environment, jobs_dir: str | None, shown: list[InboxItem]
) -> dict[tuple[str, str], str | None]:
    """Return the review hash of each job that waits for approval; loads nothing if none does."""
    if not any(item.status == "APPROVAL_REQUIRED" for item in shown):
        return {}
    from logist.cli.commands.inbox.review_hashes import find_review_hashes

    return find_review_hashes(environment, jobs_dir, shown)


def _require_no_options(ctx: click.Context) -> None:
    """Raise UsageError for an option before the name of a command: it would have no effect."""
    everywhere = {parameter.name for parameter in ctx.find_root().command.params}
    for parameter in ctx.command.params:
        if parameter.name not in everywhere and _is_named(ctx, parameter.name or ""):
            raise UsageError(
                f"{parameter.opts[-1]} has no effect before {ctx.invoked_subcommand}",
                fix=f"logist inbox {ctx.invoked_subcommand} --help",
            )


def _is_named(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _read_items(
    environment: Environment, jobs_dir: str | None, *, everywhere: bool
) -> tuple[list[InboxItem], tuple[Diagnostic, ...]]:
    now = time.time()
    if not everywhere:
        folder = environment.jobs_dir_name(jobs_dir, get_current_directory())
        return inbox_rows.list_inbox(folder, now), ()
    items: list[InboxItem] = []
    diagnostics: list[Diagnostic] = []
    for project in list_projects(environment):
        home = project if os.path.basename(project) == ".logist" else os.path.join(project, ".logist")
        if not os.path.isdir(home):
            fix = "correct `projects` in your config: logist config show projects"
            diagnostics.append(Diagnostic("warning", "project_not_found", "project not found", project, fix))
            continue
        items += inbox_rows.list_inbox(os.path.join(home, "jobs"), now, os.path.dirname(home))
    return inbox_rows.sort_inbox(items), tuple(diagnostics)


def list_projects(environment: Environment) -> list[str]:
    """Return the directories of `projects` in the user's config. Raises UsageError if there are none."""
    from logist.config.settings import CONFIG_FILE, load_settings

    user = environment.user_config_dir()
    projects = load_settings(user, user).settings.projects
    if not projects:
        fix = f"add them to {user / CONFIG_FILE}: `projects: [~/code/app, ~/code/site]`"
        raise UsageError("no projects are listed", where="--all", fix=fix)
    return [os.path.normpath(environment.expand_home(each)) for each in dict.fromkeys(projects)]


def _note_hidden(others: int, listed: int, *, snoozed: bool) -> tuple[Diagnostic, ...]:
    notes = []
    if not listed:
        message = "no job is snoozed" if snoozed else "nothing waits for you"
        notes.append(Diagnostic("info", "nothing_waits", message))
    if others and not snoozed:
        message = f"{format_count(others, 'job')} snoozed"
        notes.append(Diagnostic("info", "snoozed", message, None, "to list: logist inbox --snoozed"))
    return tuple(notes)


def _build_output(
    environment: Environment,
    items: list[InboxItem],
    hashes: dict[tuple[str, str], str | None],
    diagnostics: tuple[Diagnostic, ...],
) -> Output:
    is_terminal = sys.stdout.isatty()
    code = waiting.choose_exit_code({item.exit_code for item in items})
    data = [inbox_table.build_row(item, hashes.get((item.jobs_dir, item.job))) for item in items]
    if not items:
        return Output(data, diagnostics=diagnostics, exit_code=code)
    table = inbox_table.build_table(items, environment.named_jobs_dir, is_terminal=is_terminal)
    lines: list[Line] = [(Command("to decide one by one: logist inbox -i", "dim"),)] if is_terminal else []
    return Output(data, lines, diagnostics, code, table=table)


def _require_terminal(ctx: click.Context) -> None:
    fix = "to list the jobs: logist inbox"
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("needs a terminal", where="-i", fix=fix)
    if ctx.obj.is_input_off():
        raise UsageError("can't ask: --no-input or LOGIST_NO_INPUT is set", where="-i", fix=fix)
    if any(_is_named(ctx, name) for name in ("as_json", "jsonl")):
        raise UsageError("can't use -i with --json or --jsonl", where="-i", fix=fix)


def _go_through(
    environment: Environment,
    jobs_dir: str | None,
    read_shown: Callable[[], tuple[list[InboxItem], tuple[Diagnostic, ...]]],
) -> Output:
    """Go through the jobs one by one; the exit code is that of what still waits."""
    from logist.cli.commands.inbox.one_by_one import InboxWalk

    items, diagnostics = read_shown()
    walk = InboxWalk(environment, jobs_dir)
    walk.go_through(items)
    if not items:
        return Output([], diagnostics=diagnostics)
    left, _ = read_shown()
    code = waiting.choose_exit_code({item.exit_code for item in left})
    waits = f"{format_count(len(left), 'job')} still waiting" if left else "none of them waits any more"
    lines: list[Line] = ["", f"{format_count(walk.decided, 'decision')} made, {waits}"]
    if walk.decided:
        lines.append((Command("to let the agents continue: logist run", "dim"),))
    return Output([], lines, diagnostics, code)
