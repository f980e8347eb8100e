"""The entry point: the command groups, and the only place that turns errors into exit codes."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import click

from logist import __version__, event_log
from logist.cli import command_log
from logist.cli.commands.inbox import INBOX
from logist.cli.lazy import CommandEntry, DefaultGroup, LazyGroup
from logist.cli.show import render
from logist.cli.show.output import Output, exit_code_of_signal
from logist.config.environment import Environment, replace_process, require_utf8
from logist.errors import LogistError, Stopped, StorageError, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of writing to standard output, where the OSError names no file."""

JOB = {
    "create": CommandEntry("commands.job.create:create", "Create a job from a prompt, a file, or a spec."),
    "list": CommandEntry("commands.job.list:list_", "List jobs by rank, then by age."),
    "show": CommandEntry("commands.job.show:show", "Show the task, answers, results and paths of a job."),
    "status": CommandEntry("commands.job.status:status", "Show the status of a job and the next command."),
    "tail": CommandEntry("commands.job.tail:tail", "Show what the agent of a job does while it works."),
    "diff": CommandEntry("commands.job.diff:diff", "Show what has changed in the workspace of a job."),
    "config": CommandEntry("commands.job.config:config", "Show or change job.yaml."),
    "activate": CommandEntry("commands.job.decide:activate", "Start a draft job."),
    "select": CommandEntry("commands.job.select:select", "Select the current job."),
    "rank": CommandEntry("commands.job.rank:rank", "Set the position of a job in the queue."),
    "preview": CommandEntry("commands.job.preview:preview", "Print the exact prompt that a step would send."),
    "step": CommandEntry("commands.job.step:step", "Run one step of a job."),
    "poststep": CommandEntry("commands.job.poststep:poststep", "Record an answer supplied by hand."),
    "run": CommandEntry("commands.job.run:run", "Run a job until it waits for a person or ends."),
    "approve": CommandEntry("commands.job.decide:approve", "Approve a job that waits for approval."),
    "merge": CommandEntry(
        "commands.job.merge:merge", "Merge the work of a successful job into its source repository."
    ),
    "update": CommandEntry(
        "commands.job.update:update",
        "Bring later commits of the source repository into the workspace of a job.",
    ),
    "reject": CommandEntry("commands.job.decide:reject", "Send the work back with a note."),
    "resubmit": CommandEntry("commands.job.resubmit:resubmit", "Resolve a STUCK job and try again."),
    "role": CommandEntry("commands.job.role:role", "Switch the role that does the work of a job."),
    "suspend": CommandEntry("commands.job.decide:suspend", "Suspend a job."),
    "resume": CommandEntry("commands.job.decide:resume", "Resume a suspended or halted job."),
    "cancel": CommandEntry("commands.job.decide:cancel", "Cancel a job that is no longer needed."),
    "fail": CommandEntry("commands.job.decide:fail", "Mark a job as FAILED."),
    "restep": CommandEntry(
        "commands.job.restep:restep", "Reset state and workspace to before an interaction."
    ),
    "rerun": CommandEntry("commands.job.rerun:rerun", "Start a job over."),
    "fork": CommandEntry("commands.job.fork:fork", "Create a new job from the history of this one."),
    "import": CommandEntry("commands.job.import_:import_", "Create a job from a recorded history."),
    "history": CommandEntry("commands.job.history:history", "Show the history of a job."),
    "replay": CommandEntry("commands.job.replay:replay", "Replay a recorded history with the current rules."),
    "verify": CommandEntry("commands.job.verify:verify", "Verify the history and the state of a job."),
    "export": CommandEntry("commands.job.export:export", "Export histories as a fixture or a data set."),
    "open": CommandEntry("commands.job.open_:open_", "Open the workspace of a job in your editor."),
    "du": CommandEntry("commands.job.du:du", "Show how much disk space jobs take."),
    "pack": CommandEntry("commands.job.pack:pack", "Pack a job into one file."),
    "unpack": CommandEntry("commands.job.unpack:unpack", "Create a job from a packed file."),
    "scrub": CommandEntry("commands.job.scrub:scrub", "Erase a secret or personal data from a job."),
    "delete": CommandEntry("commands.job.delete:delete", "Delete jobs that have ended, and their branches."),
}
ROLE = {
    "list": CommandEntry("commands.role.list:list_", "List the roles."),
    "show": CommandEntry("commands.role.show:show", "Show a role with all its fields."),
    "validate": CommandEntry("commands.role.validate:validate", "Check role files."),
    "new": CommandEntry("commands.role.new:new", "Create a role file."),
    "set": CommandEntry("commands.role.set:set_", "Set a field of a role; comments are kept."),
    "tools": CommandEntry("commands.role.tools:tools", "Ask a role's MCP servers for their tools."),
}


WORKFLOW = {
    "list": CommandEntry("commands.workflow.list:list_", "List the workflows."),
    "show": CommandEntry("commands.workflow.show:show", "Draw a workflow and list its steps."),
    "validate": CommandEntry("commands.workflow.validate:validate", "Check workflows for errors."),
    "lint": CommandEntry(
        "commands.workflow.lint:lint", "Check workflows for errors and possible improvements."
    ),
    "migrate": CommandEntry("commands.workflow.migrate:migrate", "Move agent roles out of prompts."),
    "next": CommandEntry("commands.workflow.next:next_", "Print the next step of a workflow, without a job."),
    "import": CommandEntry("commands.workflow.import_:import_", "Import a workflow into the project."),
    "export": CommandEntry("commands.workflow.export:export", "Export a workflow and its roles as one file."),
}
CONFIG = {
    "show": CommandEntry("commands.config_show:show", "Show all settings and their sources."),
    "set": CommandEntry("commands.config_set:set_", "Set a config key; comments are kept."),
    "unset": CommandEntry("commands.config_set:unset", "Remove a config key."),
}


BUDGET = {
    "show": CommandEntry("commands.budget.show:show", "Show how much of each budget is used."),
    "set": CommandEntry("commands.budget.set:set_", "Set what all jobs together may spend."),
    "history": CommandEntry(
        "commands.budget.history:history", "Show what was spent, by day, job, model or tag."
    ),
    "verify": CommandEntry("commands.budget.verify:verify", "Verify the ledger."),
}


SKILL = {
    "install": CommandEntry(
        "commands.skill.install:install", "Install the skill that tells agents how to use Logist."
    ),
}
RUNS = {
    "list": CommandEntry("commands.runs.list:list_", "List the runs, the latest first."),
    "show": CommandEntry("commands.runs.show:show", "Show what a run did, and what its jobs wait for."),
}


ATTEST = {
    "create": CommandEntry(
        "commands.attest.create:create", "Write an attestation of a job; `create` may be left out."
    ),
    "verify": CommandEntry("commands.attest.verify:verify", "Verify an attestation."),
}


@click.group("job", cls=LazyGroup, entries=JOB, short_help="Work with one job.")
def job_group() -> None:
    """Work with one job.

    The job is the argument or --job; otherwise LOGIST_JOB_ID; otherwise the job chosen with `logist job select`.
    """


@click.group("role", cls=LazyGroup, entries=ROLE)
def role_group() -> None:
    """Manage roles: models and their instructions."""


@click.group("workflow", cls=LazyGroup, entries=WORKFLOW)
def workflow_group() -> None:
    """Manage workflows: graphs of steps that a job can follow.

    Commands accept a file, FILE#NAME for one of several workflows in a file, or a name. Names are looked up in
    .logist/workflows first, then in your user workflows.
    """


@click.group("config", cls=LazyGroup, entries=CONFIG)
def config_group() -> None:
    """Show and change the settings."""


@click.group("budget", cls=LazyGroup, entries=BUDGET)
def budget_group() -> None:
    """Show and change budgets: what all jobs of the project together may spend."""


@click.group("skill", cls=LazyGroup, entries=SKILL)
def skill_group() -> None:
    """Tell other agents how to use Logist."""


@click.group("attest", cls=DefaultGroup, entries=ATTEST, context_settings={"ignore_unknown_options": True})
def attest_group() -> None:
    """Attest how the work of a job was made: `logist attest JOB`, and verify attestations."""


@click.group("runs", cls=LazyGroup, entries=RUNS)
def runs_group() -> None:
    """Look at earlier runs of `logist run`: what each did, and why it ended."""


ROOT = {
    "init": CommandEntry("commands.init:init", "Create a .logist directory here."),
    "trust": CommandEntry(
        "commands.trust:trust", "Trust the programs and other sensitive settings of this project."
    ),
    "demo": CommandEntry("commands.demo:demo", "Run a demo job with archived answers; no API key needed."),
    "doctor": CommandEntry("commands.doctor:doctor", "Check this machine and this project for problems."),
    "config": CommandEntry("main:config_group", "Show and change the settings."),
    "budget": CommandEntry("main:budget_group", "Show and change what all jobs together may spend."),
    "schema": CommandEntry("commands.schema:schema", "Print the JSON schema of a file, for editors."),
    "completion": CommandEntry("commands.completion:completion", "Print a completion script for a shell."),
    "run": CommandEntry("commands.run:run", "Run every ready job, lowest rank first."),
    "runs": CommandEntry("main:runs_group", "List earlier runs, and show what they did."),
    "inbox": CommandEntry("commands.inbox.list:inbox", "List what waits for you, and decide one by one."),
    "mcp": CommandEntry("commands.mcp:mcp", "Let agents list, create and run jobs, as an MCP server."),
    "serve": CommandEntry(
        "commands.serve:serve", "Show the inbox, jobs and decisions on a local page, for your browser."
    ),
    "watch": CommandEntry("commands.watch:watch", "Watch all jobs while agents work."),
    "gc": CommandEntry("commands.gc:gc", "Remove jobs that ended long ago, or only their files."),
    "adopt": CommandEntry("commands.adopt:adopt", "Create jobs from sessions of other agent programs."),
    "replay": CommandEntry("commands.replay:replay", "Replay recorded histories with the current rules."),
    "bisect": CommandEntry(
        "commands.bisect:bisect", "Find the commit that made recorded jobs replay differently."
    ),
    "stats": CommandEntry("commands.stats:stats", "Show statistics about agents from recorded jobs."),
    "otel": CommandEntry("commands.otel:otel", "Export recorded jobs as OpenTelemetry traces."),
    "sarif": CommandEntry("commands.sarif:sarif", "Export findings of reviews and failed checks as SARIF."),
    "whatif": CommandEntry("commands.whatif:whatif", "Replay recorded jobs with different rules."),
    "skill": CommandEntry("main:skill_group", "Tell other agents how to use Logist."),
    "attest": CommandEntry("main:attest_group", "Attest how the work of a job was made."),
    "blame": CommandEntry("commands.blame:blame", "Show which interaction wrote the lines of a file."),
    "job": CommandEntry("main:job_group", "Work with one job."),
    "role": CommandEntry("main:role_group", "Manage roles: models and their instructions."),
    "workflow": CommandEntry(
        "main:workflow_group", "Manage workflows: graphs of steps that a job can follow."
    ),
}
GROUPS: Mapping[str, Mapping[str, CommandEntry]] = {
    "job": JOB,
    "role": ROLE,
    "workflow": WORKFLOW,
    "config": CONFIG,
    "budget": BUDGET,
    "runs": RUNS,
    "skill": SKILL,
    "inbox": INBOX,
    "attest": ATTEST,
}


_OUTPUT_LOST = 120
"""Python's exit code if the rest of the output can't be written when it ends."""


@contextmanager
def _translate_broken_pipes() -> Iterator[None]:
    """Handle broken pipes, for which click exits silently with 1: exit with 0 if the reader of the output has
    closed it, else raise an error.
    """
    try:
        yield
    except BrokenPipeError as error:
        if render.has_reader_left():  # the reader of a help text; results are printed elsewhere
            raise click.exceptions.Exit(0) from None
        raise RuntimeError("a child process closed its pipe unexpectedly") from error


class Root(LazyGroup):
    """The top-level group, in which every command runs."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _translate_broken_pipes():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _translate_broken_pipes():
            return super().invoke(ctx)


def _begin_log_file(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    file = value or (ctx.obj.log_file_name() if ctx.parent is None else None)
    if file and not ctx.resilient_parsing:
        command_log.begin(ctx.obj, log_file=file)


def _complete_file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from logist.cli.shell_values import complete_file

    return complete_file(ctx, param, incomplete)


def _begin_to_tell(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        command_log.begin(ctx.obj, is_verbose=True)


@click.group(
    "logist",
    cls=Root,
    entries=ROOT,
    shortcuts=JOB,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="logist", message="%(prog)s %(version)s")
@click.option(
    "--no-color",
    is_flag=True,
    expose_value=False,
    help="Print plain text, without colors and badges.",
)
@click.option(
    "--no-input",
    is_flag=True,
    expose_value=False,
    help="Never ask: a command that needs an answer fails  [default: $LOGIST_NO_INPUT].",
)
@click.option(
    "--log-file",
    metavar="FILE",
    expose_value=False,
    callback=_begin_log_file,
    shell_complete=_complete_file,
    help="Append what Logist does to FILE, one JSON object per line  [default: $LOGIST_LOG_FILE].",
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    expose_value=False,
    callback=_begin_to_tell,
    help="Print to standard error what Logist does, and why.",
)
@click.option(
    "--plain",
    is_flag=True,
    expose_value=False,
    help="Print only lines of text: no colors, boxes, progress bars or pager.",
)
def root() -> None:
    """Run LLM-agent work as plain directories.

    A job is a directory. `logist job step` asks an agent to do one step, checks its answer and records
    everything. Try it without an API key: `logist demo`.

    The options below are also allowed after a command.

    The commands of `logist job` also work without the word `job`, as in `logist status` or `logist step`.
    Exceptions are `config`, `replay`, `role` and `run`, which mean something else here.
    """


_COLLECTED_AFTER = 20_000
"""So many new objects are searched for garbage together. Python's own limit is 700: a preview of 20,000 files would search
more than forty times, and find nothing.
"""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with the code of its outcome."""
    if args is None and sys.getfilesystemencoding() != "utf-8" and "utf8" not in sys._xoptions:
        _start_again_with_utf8()
    _open_closed_streams()
    if args is None:  # a program that calls this has a limit of its own
        gc.set_threshold(_COLLECTED_AFTER)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _raise_stopped)
    exit_code = run_command_line(sys.argv[1:] if args is None else list(args))
    if args is None:
        _end_process(exit_code)
    sys.exit(exit_code)


def _start_again_with_utf8() -> NoReturn:
    """Replace this process by one for which names of files are UTF-8 in every locale, as they are in jobs and in git."""
    python, *words = sys.orig_argv
    replace_process([python, "-X", "utf8", *words])


def _end_process(exit_code: int) -> None:
    """End this process at once if nothing needs more; otherwise return, and Python ends it.

    Taking apart all that a command has loaded takes a twentieth of its time, and the kernel does it anyway.
    """
    gc.freeze()  # there is nothing to collect
    if _is_observed() or threading.active_count() > 1:
        return
    atexit._run_exitfuncs()
    if render.write_buffered_output():
        os._exit(exit_code)
    sys.exit(
        exit_code or _OUTPUT_LOST
    )  # Python may not notice: what it could not write is no longer buffered


def _is_observed() -> bool:
    """Whether a debugger, a profiler or a person at the prompt of Python goes on after the command."""
    if sys.gettrace() is not None or sys.getprofile() is not None or sys.flags.inspect:
        return True
    monitoring = getattr(sys, "monitoring", None)  # since Python 3.12, cProfile uses this instead
    return monitoring is not None and any(map(monitoring.get_tool, range(6)))


def run_command_line(args: list[str]) -> int:
    """Run one command and return its exit code."""
    environment = _read_environment(args)
    command_log.note_command(_find_command_words(args), _list_option_words(args))
    exit_code = LogistError.exit_code
    try:
        exit_code = _run_command(args, environment)
    finally:
        if event_log.is_on():
            command_log.end(exit_code)
    return exit_code


def _run_command(args: list[str], environment: Environment) -> int:
    mode = read_output_mode(args)
    try:
        output = root.main(
            _require_utf8_words(args), prog_name="logist", standalone_mode=False, obj=environment
        )
        return (
            render.show_output(output, mode, environment) if isinstance(output, Output) else int(output or 0)
        )
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        return _show_group_help(error, mode, environment)
    except click.UsageError as error:
        return render.show_error(_make_usage_error(error, args), mode, environment)
    except click.ClickException as error:
        return render.show_error(UsageError(error.format_message()), mode, environment)
    except (KeyboardInterrupt, click.Abort):
        return render.show_error(Stopped("stopped"), mode, environment)
    except LogistError as error:
        return render.show_error(error, mode, environment)
    except Exception as error:
        if environment.is_debugging():
            raise
        if isinstance(error, OSError) and (error.filename or error.errno in NO_ROOM):
            return _show_storage_error(error, mode, environment)
        surprise = f"{type(error).__name__}: {error}"
        fix = "this is a bug in Logist; set LOGIST_DEBUG=1 to see the traceback"
        return render.show_error(LogistError(surprise, fix=fix), mode, environment)


def _require_utf8_words(args: list[str]) -> list[str]:
    return [require_utf8(word, "this argument", "use UTF-8") for word in args]


def read_output_mode(args: list[str]) -> str:
    """Return `json`, `jsonl` or `text`: read from the arguments, so that usage errors are printed in it too."""
    options = _list_option_words(args)
    return "json" if "--json" in options else "jsonl" if "--jsonl" in options else "text"


def _read_environment(args: list[str]) -> Environment:
    """Return the environment; what these arguments say applies even if the others can't be parsed."""
    environment = Environment.from_process()
    options = _list_option_words(args)
    if "--no-color" in options:
        environment.turn_colors_off()
    if "--plain" in options:
        environment.make_plain()
    if environment.is_plain():
        render.forbid_redrawing()
    if "--no-input" in options:
        environment.turn_input_off()
    return environment


def _list_option_words(args: list[str]) -> list[str]:
    """Return the words that may be options: those before `--`."""
    return args[: args.index("--")] if "--" in args else args


def _make_usage_error(error: click.UsageError, args: Sequence[str] = ()) -> UsageError:
    command = error.ctx.command_path if error.ctx else " ".join(("logist", *_find_command_words(args)))
    # click puts each of the possible values on a line, after a tab.
    message = " ".join(line.strip() for line in error.format_message().splitlines())
    if "#" in args:  # pasted from a page; zsh has no comments at a prompt
        fix = "zsh passes comments on: leave out # and what follows it, or run: setopt interactive_comments"
        return UsageError(message, fix=fix)
    return UsageError(message, fix=f"{command} --help")


def _find_command_words(args: Sequence[str]) -> Iterator[str]:
    """Yield the words that name the command; click's error for an option without a value doesn't have them."""
    entries: Mapping[str, CommandEntry] = {**JOB, **ROOT}
    for word in args:
        if word in entries:
            yield word
            entries = GROUPS.get(word, {})


def _show_group_help(error: click.exceptions.NoArgsIsHelpError, mode: str, environment: Environment) -> int:
    """Print the help of a group to standard error if its command is missing."""
    if mode == "json":
        return render.show_error(
            _make_usage_error(click.UsageError("missing command", error.ctx)), mode, environment
        )
    render.print_message_lines(error.format_message())
    return UsageError.exit_code


def _raise_stopped(number: int, frame: object) -> NoReturn:
    raise Stopped("stopped", exit_code=exit_code_of_signal(number))


def _open_closed_streams() -> None:
    """Open the null device in place of a closed standard stream, so that no file of a job gets its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest number: this one
            stream = open(number, "w" if number else "r", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


def _show_storage_error(error: OSError, mode: str, environment: Environment) -> int:
    """Report that a file, or standard output itself, can't be read or written."""
    if error.filename is None:
        render.drop_output()
    where = str(error.filename or "standard output")
    failed = StorageError(error.strerror or str(error), where=where, fix="check the disk and the permissions")
    return render.show_error(failed, mode if error.filename else "text", environment)
