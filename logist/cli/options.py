"""The options that commands share. Imports nothing but click and the environment."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from logist.cli.current_job import find_selected_job, get_current_directory
from logist.cli.shell_values import complete_agent, complete_directory, complete_job
from logist.config.environment import Environment
from logist.errors import InvalidFile, Refused, UsageError

if TYPE_CHECKING:
    from pathlib import Path

F = TypeVar("F", bound=Callable[..., Any])


class Amount(click.FloatRange):
    """A number that is not negative; `inf` and `nan` are not accepted."""

    def __init__(self) -> None:
        super().__init__(min=0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


def json_option(command: F) -> F:
    """--json: one JSON document instead of text. The entry point reads it from the arguments."""
    return click.option("--json", "as_json", is_flag=True, expose_value=False, help="One JSON document.")(
        command
    )


def json_flag(command: F) -> F:
    """--json for a command that prints while it works, and so must know."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON document, at the end.")(command)


def listing_options(command: F) -> F:
    """--json, and --jsonl: one JSON object per line."""
    lines = click.option("--jsonl", is_flag=True, expose_value=False, help="One JSON object a line.")
    return lines(json_option(command))


def _jobs_dir(callback: Callable[..., str | None]) -> Callable[[F], F]:
    text = "Where the jobs lie  [default: $LOGIST_JOBS_DIR, or .logist/jobs]"
    return click.option(
        "--jobs-dir", metavar="DIR", help=text, callback=callback, shell_complete=complete_directory
    )


def _require_jobs_dir(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Raise UsageError for a directory that was named and does not exist: a typing error must not look like
    "no jobs".
    """
    if ctx.resilient_parsing:  # the shell completes a line that is not finished
        return value
    environment: Environment = ctx.obj
    environment.named_jobs_dir = value
    if not (value or environment.has_jobs_dir()):
        return value
    path = environment.jobs_dir_name(value, get_current_directory())
    try:
        os.stat(path)
    except FileNotFoundError:
        source = "--jobs-dir" if value else "$LOGIST_JOBS_DIR"
        fix = f"check {source}; only 'logist job create' and 'logist job import' make it"
        raise UsageError("the directory of the jobs does not exist", where=path, fix=fix) from None
    except OSError:
        pass  # who reads it says what is wrong
    return value


def _require_named_jobs_dir(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The same for a command that reads paths too, and may not need the
    directory that the environment names.
    """
    return _require_jobs_dir(ctx, param, value) if value else value


def _note_jobs_dir(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Accept a directory that is still to be created; the commands that are printed name it all the same."""
    if not ctx.resilient_parsing:
        ctx.obj.named_jobs_dir = value
    return value


def jobs_dir_option(command: F) -> F:
    """--jobs-dir: the directory of the jobs."""
    return _jobs_dir(_require_jobs_dir)(command)


def recorded_jobs_dir_option(command: F) -> F:
    """The same for a command that reads either jobs or paths."""
    return _jobs_dir(_require_named_jobs_dir)(command)


def new_jobs_dir_option(command: F) -> F:
    """The same for a command that creates a job: it creates the directory too."""
    return _jobs_dir(_note_jobs_dir)(command)


def job_option(command: F) -> F:
    """--job: the job, for commands whose arguments may begin with one."""
    text = "The job (instead of the argument)."
    return click.option("--job", "job_option", metavar="ID", help=text, shell_complete=complete_job)(command)


def job_and_dir_options(command: F) -> F:
    """The job as argument or --job, and --jobs-dir."""
    argument = click.argument("job_argument", metavar="[JOB]", required=False, shell_complete=complete_job)
    return argument(job_option(jobs_dir_option(command)))


def job_options(command: F) -> F:
    """The job as argument or --job, --jobs-dir, --json."""
    return job_and_dir_options(json_option(command))


def agent_option(command: F) -> F:
    """--agent: the agent that answers."""
    text = (
        "litellm, the name of an agent program (codex, claude, ...), or scripted:PATH for archived answers."
    )
    return click.option("--agent", metavar="AGENT", help=text, shell_complete=complete_agent)(command)


def note_option(*, required: bool = False, read: bool = True) -> Callable[[F], F]:
    """--note: the steward's note for the history; `read` if the next prompt contains it too."""
    text = "Why; the next agent reads it." if read else "Why; it is kept in the history."
    return click.option("--note", metavar="TEXT", required=required, help=text)


def wait_option(command: F) -> F:
    """--wait: how long to wait for another command that changes the job."""
    return click.option(
        "--wait",
        type=Amount(),
        default=0.0,
        metavar="SECONDS",
        help="Wait this long for another command to finish.",
    )(command)


def choose_job_id(environment: Environment, argument: str | None, option: str | None) -> str:
    """Return the job a command is about: argument, --job, LOGIST_JOB_ID, then the selected one."""
    if argument and option and argument != option:
        raise UsageError(f"two jobs named: {argument} and {option}", where="--job", fix="name one")
    chosen = argument or option or environment.job_id() or find_selected_job(environment)
    if not chosen:
        raise UsageError("no job named", fix="name one, or: logist job select JOB")
    return chosen


def parse_yaml_value(text: str) -> Any:
    """Parse a YAML scalar or flow collection, JSON too; anything else is returned as text."""
    from logist import documents

    if "\n" in text:
        return text
    try:
        value = documents.parse_document(f"value: {text}\n", "VALUE").data["value"]
    except InvalidFile:
        return text
    plain = isinstance(value, str) and text[:1] not in ("'", '"')
    return text if plain else value


def require_free(path: Path, *, force: bool) -> None:
    """Refused if the place of a new file is taken, and --force does not say to replace it."""
    if not os.path.lexists(path):
        return
    if path.exists() and not path.is_file():
        raise Refused("is no regular file", where=str(path), fix="name another")
    if not force:
        raise Refused("there is such a file", where=str(path), fix="--force replaces it")
