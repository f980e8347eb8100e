"""The options that commands share. Has few imports, to start fast."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from logist.cli.current_job import find_selected_job, get_current_directory
from logist.cli.shell_values import complete_agent, complete_directory, complete_job, complete_model
from logist.config.environment import Environment, require_utf8
from logist.errors import Refused, UsageError
from logist.quick_tuple import NamedTuple
from logist.store.listing import find_job_id

if TYPE_CHECKING:
    from pathlib import Path

F = TypeVar("F", bound=Callable[..., Any])


class Amount(click.FloatRange):
    """A non-negative number; `inf` and `nan` are not accepted."""

    def __init__(self) -> None:
        super().__init__(min=0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number.", param, ctx)
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class StatusChoice(click.Choice[str]):
    """Some statuses, in any case. click would name them in lower case in its messages, unlike everything else."""

    def __init__(self, statuses: Iterable[str]) -> None:
        super().__init__(statuses, case_sensitive=False)

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        return str(choice).upper()


def json_option(command: F) -> F:
    """--json: one JSON document instead of text. The entry point reads it from the arguments."""
    return click.option(
        "--json", "as_json", is_flag=True, expose_value=False, help="Print the result as JSON."
    )(command)


def json_flag(command: F) -> F:
    """--json for a command that prints while it works, and so needs the value."""
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON at the end.")(
        command
    )


def listing_options(command: F) -> F:
    """--json, and --jsonl: one JSON object per line."""
    lines = click.option("--jsonl", is_flag=True, expose_value=False, help="Print one JSON object per line.")
    return lines(json_option(command))


def _jobs_dir(callback: Callable[..., str | None]) -> Callable[[F], F]:
    text = "Directory of the jobs  [default: $LOGIST_JOBS_DIR, or .logist/jobs]"
    return click.option(
        "--jobs-dir", metavar="DIR", help=text, callback=callback, shell_complete=complete_directory
    )


def _require_jobs_dir(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Raise UsageError if the chosen directory doesn't exist: a typing error must not look like "no jobs"."""
    if ctx.resilient_parsing:  # during shell completion the line is not finished
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
        fix = f"check {source}; 'logist job create' and 'logist job import' create the directory"
        raise UsageError("jobs directory not found", where=path, fix=fix) from None
    except OSError:
        pass  # reading the directory later reports the error
    return value


def _require_named_jobs_dir(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The same for a command that also reads paths, and may not need the directory set in the environment."""
    return _require_jobs_dir(ctx, param, value) if value else value


def _note_jobs_dir(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Accept a directory that doesn't exist yet; printed commands still get its --jobs-dir."""
    if not ctx.resilient_parsing:
        ctx.obj.named_jobs_dir = value
    return value


def jobs_dir_option(command: F) -> F:
    """--jobs-dir: the directory of the jobs."""
    return _jobs_dir(_require_jobs_dir)(command)


def recorded_jobs_dir_option(command: F) -> F:
    """The same for a command that reads jobs or paths."""
    return _jobs_dir(_require_named_jobs_dir)(command)


def processes_option(verb: str) -> Callable[[F], F]:
    """--jobs: how many histories to process at the same time; `verb`: what is done with them."""
    return click.option(
        "--jobs",
        "processes",
        metavar="N",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help=f"{verb} up to N histories at the same time, in N processes.",
    )


def new_jobs_dir_option(command: F) -> F:
    """The same for a command that creates a job, and the directory if needed."""
    return _jobs_dir(_note_jobs_dir)(command)


def job_option(command: F) -> F:
    """--job: the job, for commands whose first argument may be a job."""
    text = "Job id, instead of the argument."
    return click.option("--job", "job_option", metavar="ID", help=text, shell_complete=complete_job)(command)


def job_and_dir_options(command: F) -> F:
    """The job as argument or --job, and --jobs-dir."""
    argument = click.argument("job_argument", metavar="[JOB]", required=False, shell_complete=complete_job)
    return argument(job_option(jobs_dir_option(command)))


def job_options(command: F) -> F:
    """The job as argument or --job, --jobs-dir, --json."""
    return job_and_dir_options(json_option(command))


def several_jobs_options(command: F) -> F:
    """The jobs as arguments, --job or --stdin; --revision, --jobs-dir, --json."""
    argument = click.argument("job_arguments", metavar="[JOB]...", nargs=-1, shell_complete=complete_job)
    stdin = click.option(
        "--stdin", "from_stdin", is_flag=True, help="Read the job ids from standard input, one on each line."
    )
    revision = click.option(
        "--revision",
        type=click.IntRange(min=1),
        metavar="N",
        help="Refuse if the job has changed since revision N. Only for one job.",
    )
    with_options = revision(jobs_dir_option(json_option(command)))
    return argument(job_option(stdin(with_options)))


def agent_option(command: F) -> F:
    """--agent: the agent that answers."""
    text = "Agent to use: model, litellm, an agent program (codex, claude, ...), or scripted:PATH for archived answers."
    return click.option("--agent", metavar="AGENT", help=text, shell_complete=complete_agent)(command)


def model_option(command: F) -> F:
    """--model: the model that answers."""
    text = "Model to use: a name in `models` of the config, or PROVIDER/MODEL."
    return click.option(
        "--model", metavar="NAME", help=text, shell_complete=complete_model, callback=refuse_empty
    )(command)


def refuse_empty(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty text, as an unset variable of a script gives it: it would choose nothing, silently."""
    if value is not None and not value.strip():
        raise click.BadParameter("must not be empty", context, parameter)
    return value


def note_option(*, required: bool = False, read: bool = True) -> Callable[[F], F]:
    """--note: the steward's note for the history; `read` if the next prompt contains it too."""
    text = (
        "Reason, recorded in the history and added to the next prompt."
        if read
        else "Reason, recorded in the history."
    )
    check = refuse_empty if required else None
    return click.option("--note", metavar="TEXT", required=required, help=text, callback=check)


def quiet_option(command: F) -> F:
    """--quiet: no progress."""
    text = "Don't show what the agents do while they work."
    return click.option("-q", "--quiet", is_flag=True, help=text)(command)


def detach_option(command: F) -> F:
    """--detach: leave the agent working."""
    text = "Start the agent, leave it working in the background, and return."
    return click.option("--detach", is_flag=True, help=text)(command)


def wait_option(command: F) -> F:
    """--wait: how long to wait for another command that changes the job."""
    return click.option(
        "--wait",
        type=Amount(),
        default=0.0,
        metavar="SECONDS",
        help="Wait up to this long for another command to finish.",
    )(command)


PROVIDER_SECONDS = 60.0
"""How long a step or a run waits for a provider by default."""


def provider_wait_option(command: F) -> F:
    """--wait of commands that call agents: how long to wait for a provider that is not available."""
    return click.option(
        "--wait",
        type=Amount(),
        metavar="SECONDS",
        help="Wait up to this long for a provider that is not available.  [default: 60]",
    )(command)


def step_wait_option(command: F) -> F:
    """--wait of a step: the same, and how long to wait for another command that changes the job."""
    return click.option(
        "--wait",
        type=Amount(),
        metavar="SECONDS",
        help="Wait up to this long for a provider that is not available  [default: 60], and for another command to "
        "finish  [default: 0].",
    )(command)


def choose_provider_wait(wait: float | None) -> float:
    """Return the seconds to wait for a provider; `wait`: the option, None if it was not used."""
    return PROVIDER_SECONDS if wait is None else wait


def expand_job_id(environment: Environment, text: str) -> str:
    """Return the id of the job that a person means: they may type any part of it that begins the id of no other job."""
    folder = environment.jobs_dir_name(environment.named_jobs_dir, get_current_directory())
    return find_job_id(folder, text)


def choose_job_id(environment: Environment, argument: str | None, option: str | None) -> str:
    """Return the job id: from the argument, --job, LOGIST_JOB_ID, or the selected job, in this order.

    All but the selected job may be the beginning of an id.
    """
    argument, option = (text and expand_job_id(environment, text) for text in (argument, option))
    if argument and option and argument != option:
        raise UsageError(
            f"two different jobs: {argument} and {option}",
            where="--job",
            fix="use the argument or --job, not both",
        )
    if chosen := argument or option:
        return chosen
    if named := environment.job_id():
        return expand_job_id(environment, named)
    # Not expanded: the selection is a complete id, and must not mean another job when that one is deleted.
    if selected := find_selected_job(environment):
        return selected
    raise UsageError("missing job", fix="pass a job id, or run: logist job select JOB")


class ChosenJobs(NamedTuple):
    """The jobs that a decision is about."""

    ids: tuple[str, ...]
    is_single: bool
    """Whether the result is that of one job, and not a list."""
    revision: int | None = None
    """The revision that the job must have."""

    def require_single(self, option: str) -> None:
        """Raise UsageError if an option was used that is about one job."""
        if not self.is_single:
            raise UsageError(
                f"{option} is only for one job", where=option, fix="decide about one job at a time"
            )


def choose_jobs(
    environment: Environment,
    arguments: tuple[str, ...],
    option: str | None,
    *,
    from_stdin: bool,
    revision: int | None,
) -> ChosenJobs:
    """Return the jobs of the arguments, or of standard input; each once. Without any, as `choose_job_id`."""
    if from_stdin:
        if arguments or option:
            fix = "name the jobs on the command line or on standard input, not both"
            raise UsageError("can't use --stdin with job ids", where="--stdin", fix=fix)
        chosen = ChosenJobs(_expand_job_ids(environment, _read_lines()), is_single=False, revision=revision)
    elif len(set(arguments)) > 1:
        names = (*([option] if option else []), *arguments)
        chosen = ChosenJobs(_expand_job_ids(environment, names), is_single=False, revision=revision)
    else:
        job_id = choose_job_id(environment, arguments[0] if arguments else None, option)
        chosen = ChosenJobs((job_id,), is_single=True, revision=revision)
    if revision is not None:
        chosen.require_single("--revision")
    return chosen


def _expand_job_ids(environment: Environment, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(expand_job_id(environment, name) for name in names))


def _read_lines() -> list[str]:
    lines = sys.stdin.buffer.read().decode("utf-8", "replace").splitlines()
    return [line.strip() for line in lines if line.strip()]


def choose_output_file(output: str | None, *, force: bool) -> Path | None:
    """Return the file that --output names; None for standard output. Raises Refused if it exists and --force is not set."""
    if output in (None, "-"):
        return None
    from pathlib import Path

    path = Path(require_utf8(str(output), "the file name", "choose another file name"))
    require_free(path, force=force)
    return path


def require_free(path: Path, *, force: bool) -> None:
    """Raise Refused if the path exists and --force is not set."""
    if not os.path.lexists(path):
        return
    if path.exists() and not path.is_file():
        raise Refused("not a regular file", where=str(path), fix="choose another file")
    if not force:
        raise Refused("file already exists", where=str(path), fix="use --force to replace it")
