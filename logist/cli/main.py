"""The entry point: the groups of commands, and the one place that turns errors into exit codes."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from logist import __version__
from logist.cli.lazy import CommandEntry, LazyGroup
from logist.cli.show import render
from logist.cli.show.output import Output, exit_code_of_signal
from logist.config.environment import Environment, require_utf8
from logist.errors import LogistError, Stopped, StorageError, UsageError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""How writing to standard output fails, where no file is named."""

JOB = {
    "create": CommandEntry("commands.job.create:create", "Make a job from a prompt, a file or a spec."),
    "list": CommandEntry("commands.job.list:list_", "List jobs, in rank order."),
    "show": CommandEntry("commands.job.show:show", "Show what was asked and what came out."),
    "status": CommandEntry("commands.job.status:status", "Show where a job stands and what to do next."),
    "config": CommandEntry("commands.job.config:config", "Show or change job.yaml."),
    "activate": CommandEntry("commands.job.decide:activate", "Start a draft."),
    "select": CommandEntry("commands.job.select:select", "Choose the current job."),
    "rank": CommandEntry("commands.job.rank:rank", "Set a job's place in the queue."),
    "preview": CommandEntry("commands.job.preview:preview", "Show exactly what a step would send."),
    "step": CommandEntry("commands.job.step:step", "Ask one agent for one piece of work."),
    "poststep": CommandEntry("commands.job.poststep:poststep", "Give an answer instead of asking for it."),
    "run": CommandEntry("commands.job.run:run", "Step a job until it waits or ends."),
    "approve": CommandEntry("commands.job.decide:approve", "Accept what waits for approval."),
    "merge": CommandEntry("commands.job.merge:merge", "Merge the work into the repository it came from."),
    "reject": CommandEntry("commands.job.decide:reject", "Send it back with a note."),
    "resubmit": CommandEntry("commands.job.resubmit:resubmit", "Resolve a STUCK job: have it tried again."),
    "role": CommandEntry("commands.job.role:role", "Switch the role that does the work."),
    "suspend": CommandEntry("commands.job.decide:suspend", "Set a job aside."),
    "resume": CommandEntry("commands.job.decide:resume", "Take up a suspended or halted job."),
    "cancel": CommandEntry("commands.job.decide:cancel", "End a job: not wanted any more."),
    "fail": CommandEntry("commands.job.decide:fail", "End a job: it failed."),
    "restep": CommandEntry("commands.job.restep:restep", "Go back to before an interaction."),
    "rerun": CommandEntry("commands.job.rerun:rerun", "Start a job over."),
    "fork": CommandEntry("commands.job.fork:fork", "Make a new job from the beginning of this one."),
    "import": CommandEntry("commands.job.import_:import_", "Make a job of a recorded history."),
    "history": CommandEntry("commands.job.history:history", "Show what happened."),
    "replay": CommandEntry("commands.job.replay:replay", "Run a recorded history through today's rules."),
    "verify": CommandEntry("commands.job.verify:verify", "Check a job's files against each other."),
    "export": CommandEntry(
        "commands.job.export:export", "Write histories to share: a fixture or a data set."
    ),
}
ROLE = {
    "list": CommandEntry("commands.role.list:list_", "List the roles."),
    "show": CommandEntry("commands.role.show:show", "Show one role whole."),
    "validate": CommandEntry("commands.role.validate:validate", "Check role files."),
    "new": CommandEntry("commands.role.new:new", "Start a role file of your own."),
}


WORKFLOW = {
    "list": CommandEntry("commands.workflow.list:list_", "List the workflows."),
    "show": CommandEntry("commands.workflow.show:show", "Draw a workflow, and list its steps."),
    "validate": CommandEntry(
        "commands.workflow.validate:validate", "Say everything that is wrong with workflows."
    ),
    "lint": CommandEntry("commands.workflow.lint:lint", "The same, and what could be better."),
    "migrate": CommandEntry("commands.workflow.migrate:migrate", "Move words to the agent out of prompts."),
    "next": CommandEntry("commands.workflow.next:next_", "Say which step comes next, without a job."),
    "import": CommandEntry("commands.workflow.import_:import_", "Take a workflow into the project."),
    "export": CommandEntry("commands.workflow.export:export", "Write a workflow with the agents that do it."),
}
CONFIG = {
    "show": CommandEntry("commands.config_show:show", "Show every setting."),
    "set": CommandEntry("commands.config_set:set_", "Set a key, and keep the comments."),
    "unset": CommandEntry("commands.config_set:unset", "Remove a key."),
}


@click.group("job", cls=LazyGroup, entries=JOB, short_help="Work with one job.")
def job_group() -> None:
    """Work with one job.

    The job is the argument or --job, else LOGIST_JOB_ID, else the one chosen with `logist job select`.
    """


@click.group("role", cls=LazyGroup, entries=ROLE)
def role_group() -> None:
    """Who does the work: models and their instructions."""


@click.group("workflow", cls=LazyGroup, entries=WORKFLOW)
def workflow_group() -> None:
    """Graphs of steps that a job can follow.

    A workflow is named by its file, FILE#NAME for one of several in it, or by its name, which is looked
    for in .logist/workflows and then in the user's own workflows.
    """


@click.group("config", cls=LazyGroup, entries=CONFIG)
def config_group() -> None:
    """The settings, and where each comes from."""


ROOT = {
    "init": CommandEntry("commands.init:init", "Make a .logist directory here."),
    "trust": CommandEntry("commands.trust:trust", "Allow the programs that this project's config names."),
    "demo": CommandEntry("commands.demo:demo", "Run the main job with archived answers; no key needed."),
    "doctor": CommandEntry("commands.doctor:doctor", "Check this machine and this project."),
    "config": CommandEntry("main:config_group", "Show and change the settings."),
    "completion": CommandEntry("commands.completion:completion", "Print a completion script for a shell."),
    "run": CommandEntry("commands.run:run", "Run every ready job, in rank order."),
    "replay": CommandEntry("commands.replay:replay", "Run recorded histories through today's rules."),
    "stats": CommandEntry("commands.stats:stats", "How agents did, from recorded jobs alone."),
    "whatif": CommandEntry("commands.whatif:whatif", "Take recorded jobs through other rules."),
    "job": CommandEntry("main:job_group", "Work with one job."),
    "role": CommandEntry("main:role_group", "Who does the work."),
    "workflow": CommandEntry("main:workflow_group", "Graphs of steps that a job can follow."),
}
GROUPS: Mapping[str, Mapping[str, CommandEntry]] = {
    "job": JOB,
    "role": ROLE,
    "workflow": WORKFLOW,
    "config": CONFIG,
}


@contextmanager
def _translate_broken_pipes() -> Iterator[None]:
    """Click takes every broken pipe for a reader that has left, and silently ends with 1: exit with 0 for
    that, else raise an error.
    """
    try:
        yield
    except BrokenPipeError as error:
        if render.has_reader_left():  # of a help text: results are printed elsewhere
            raise click.exceptions.Exit(0) from None
        raise RuntimeError("a program that was started went away") from error


class Root(LazyGroup):
    """The outermost group, in which every command runs."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _translate_broken_pipes():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _translate_broken_pipes():
            return super().invoke(ctx)


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
    help="Plain text, without colours and badges; also after a command.",
)
def root() -> None:
    """LLM-agent work as plain directories.

    A job is a directory; `logist job step` asks one agent for one piece of work, checks its answer and
    records everything. `logist demo` shows it, with no key.

    The commands of `logist job` also work without the word `job`, as in `logist status` or `logist step`.
    Only `config`, `replay`, `role` and `run` don't: these names have another meaning here.
    """


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with the code of its outcome."""
    _open_closed_streams()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _raise_stopped)
    sys.exit(run_command_line(sys.argv[1:] if args is None else list(args)))


def run_command_line(args: list[str]) -> int:
    """Run one command and return its exit code."""
    environment = _read_environment(args)
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
        fix = "this is a defect of logist; LOGIST_DEBUG=1 shows where"
        return render.show_error(LogistError(surprise, fix=fix), mode, environment)


def _require_utf8_words(args: list[str]) -> list[str]:
    return [require_utf8(word, "this argument", "write it in UTF-8") for word in args]


def read_output_mode(args: list[str]) -> str:
    """Return `json`, `jsonl` or `text`: read from the arguments, so that a
    usage error is printed in it too.
    """
    options = _list_option_words(args)
    return "json" if "--json" in options else "jsonl" if "--jsonl" in options else "text"


def _read_environment(args: list[str]) -> Environment:
    """Return the environment, without colours if the arguments say so: even where they can't be parsed."""
    environment = Environment.from_process()
    if "--no-color" in _list_option_words(args):
        environment.turn_colors_off()
    return environment


def _list_option_words(args: list[str]) -> list[str]:
    """Return the words that may be options: those before `--`."""
    return args[: args.index("--")] if "--" in args else args


def _make_usage_error(error: click.UsageError, args: Sequence[str] = ()) -> UsageError:
    command = error.ctx.command_path if error.ctx else " ".join(("logist", *_find_command_words(args)))
    return UsageError(error.format_message(), fix=f"{command} --help")


def _find_command_words(args: Sequence[str]) -> Iterator[str]:
    """Yield the words that name the command; click leaves it out of the
    error for an option without a value.
    """
    entries: Mapping[str, CommandEntry] = {**JOB, **ROOT}
    for word in args:
        if word in entries:
            yield word
            entries = GROUPS.get(word, {})


def _show_group_help(error: click.exceptions.NoArgsIsHelpError, mode: str, environment: Environment) -> int:
    """Show the help of a group without a command, on standard error, because nothing was done."""
    if mode == "json":
        return render.show_error(
            _make_usage_error(click.UsageError("no command given", error.ctx)), mode, environment
        )
    render.print_message_lines(error.format_message())
    return UsageError.exit_code


def _raise_stopped(number: int, frame: object) -> NoReturn:
    raise Stopped("stopped", exit_code=exit_code_of_signal(number))


def _open_closed_streams() -> None:
    """Open the null device where a standard stream is closed, so that no file of a job gets its number."""
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
