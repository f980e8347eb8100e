"""`logist demo`: runs a real job with archived answers."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from logist.cli.commands.serve import load_server, print_at_once
from logist.cli.options import json_flag
from logist.cli.show import render
from logist.cli.show.output import Line, Output, StyledText
from logist.cli.stops import get_stop_code, stop_on_signals
from logist.config.environment import Environment
from logist.errors import Stopped, UsageError
from logist.resources import find_resource

GREET = '"""Greets people."""\n\nimport sys\n\nprint(f"Hello, {sys.argv[-1]}!")\n'
JOB = "shout"

STORY: tuple[tuple[str, tuple[str, ...], int], ...] = (
    (
        "Create a job from a spec file; its workspace is a copy of this repository.",
        ("job", "create", "spec.yaml", "--id", JOB),
        0,
    ),
    ("The Worker does the task.", ("job", "step", JOB), 0),
    ("The Supervisor reviews it and sends it back.", ("job", "step", JOB), 0),
    ("The Worker fixes it.", ("job", "step", JOB), 0),
    (
        "The Supervisor's answer is cut off; Logist never repairs answers, so the job is STUCK (exit 3).",
        ("job", "step", JOB),
        3,
    ),
    ("Show the status of the job.", ("job", "status", JOB), 0),
    (
        "The steward resolves it: review again.",
        ("job", "resubmit", JOB, "--review", "--note", "Your answer was cut off. Keep it short."),
        0,
    ),
    ("The Supervisor accepts it; now a person has to approve (exit 11).", ("job", "step", JOB), 11),
    ("The steward approves.", ("job", "approve", JOB), 0),
    ("Show what happened:", ("job", "history", JOB), 0),
    ("Replay the same history with the current rules, without a model:", ("job", "replay", JOB), 0),
    ("Check that all files of the job match:", ("job", "verify", JOB), 0),
)


@click.command("demo")
@click.argument("directory", required=False)
@click.option(
    "--serve",
    is_flag=True,
    help="Show the page of `logist serve` with example jobs in every state; Ctrl-C removes them.",
)
@json_flag
@click.pass_obj
def demo(environment: Environment, directory: str | None, serve: bool, as_json: bool) -> Output:
    """Run a demo job with archived answers; no API key needed.

    No model is called. DIRECTORY is created and kept, so that you can look at the files
    [default: a new temporary directory].
    """
    if serve and directory is not None:
        raise click.UsageError("can't use DIRECTORY and --serve together: the examples are temporary")
    if serve:
        return _serve_examples(environment, as_json)
    home = _create_directory(directory)
    fixture = find_resource("fixtures", "jobs", "main-job")
    _create_repository(home, fixture, environment)
    _print_lines(
        environment,
        "No model is called: the answers come from an archived run that is part of Logist:",
        f"{fixture / 'answers.json'}. Everything else is real: git, files, checks, history.",
        "",
    )
    results = _run_story(environment, home, fixture)
    return Output(
        {"directory": str(home), "commands": results}, _format_farewell(home, _find_program(environment))
    )


@stop_on_signals
def _serve_examples(environment: Environment, as_json: bool) -> Output:
    """Make the example project in a temporary directory, and serve it until Ctrl-C."""
    server = load_server()
    from logist.web.examples.project import make_example_project, run_slow_agent

    folder = Path(tempfile.mkdtemp(prefix="logist-demo-"))
    try:
        _print_lines(environment, "creating example jobs in every state; this takes some seconds")
        example = make_example_project(folder, environment.build_child_environment(), stopping=get_stop_code)

        def show_link(address: str, port: int) -> None:
            lines = [
                f"The page is at http://127.0.0.1:{port}. Open this link in your browser; it works once:",
                f"  {address}",
                f"The jobs are in {example.directory}. To stop, and to remove them: Ctrl-C.",
            ]
            print_at_once(lines, environment, as_message=as_json)

        with run_slow_agent(example):
            server.serve(example.open, 0, show_link=show_link, is_stopped=get_stop_code)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Output({"directory": str(example.directory), "commands": []}, [], exit_code=get_stop_code())


def _create_directory(directory: str | None) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="logist-demo-"))
    home = Path(directory).absolute()
    if home.exists() and any(home.iterdir()):
        raise UsageError("the directory is not empty", where=str(home), fix="choose a new directory")
    home.mkdir(parents=True, exist_ok=True)
    return home


def _create_repository(home: Path, fixture: Path, environment: Environment) -> None:
    """Create a real git repository with one commit."""
    (home / "greet.py").write_text(GREET, "utf-8")
    (home / "spec.yaml").write_text((fixture / "spec.yaml").read_text("utf-8"), "utf-8")
    identity = ("-c", "user.name=Logist demo", "-c", "user.email=demo@localhost")
    git = ("git", "-C", str(home), *identity)
    for command in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "A greeting")):
        subprocess.run(
            [*git, *command], env=environment.build_child_environment(), check=True, stdin=subprocess.DEVNULL
        )


@stop_on_signals
def _run_story(environment: Environment, home: Path, fixture: Path) -> list[dict[str, object]]:
    """Run all commands; after a signal, the running one ends first.

    Without that, Ctrl-C while a command starts would leave it behind: nothing knows its process yet.
    """
    return [
        _run_scene(environment, home, fixture, *scene)
        for scene in ((("Create a project:", ("init",), 0)), *STORY)
    ]


def _run_scene(
    environment: Environment, home: Path, fixture: Path, title: str, words: tuple[str, ...], expected: int
) -> dict[str, object]:
    """Print one command as a person would type it, run it, and check its exit code."""
    _print_lines(environment, f"# {title}", f"$ logist {shlex.join(words)}")
    script = f"scripted:{fixture / 'answers.json'}"
    child = {
        **environment.build_child_environment(),
        "LOGIST_AGENT": script,
        "LOGIST_STEWARD": environment.user_name(),
    }
    if environment.has_color(sys.stderr.isatty()):
        child["FORCE_COLOR"] = "1"
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-m", "logist", *words],
        cwd=home,
        env=child,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno(),
        start_new_session=True,  # only the demo gets Ctrl-C
        check=False,
    )
    if code := get_stop_code():
        raise Stopped("stopped", exit_code=code)
    if done.returncode != expected:
        raise UsageError(
            f"demo failed: exit code {done.returncode}, expected {expected}", where=shlex.join(words)
        )
    _print_lines(environment, "")
    return {"command": ["logist", *words], "exit_code": done.returncode}


def _print_lines(environment: Environment, *lines: str) -> None:
    for line in lines:
        render.print_message(line, environment)


def _find_program(environment: Environment) -> str:
    """Return the command that starts Logist: `logist` if it is on PATH, else its path."""
    if shutil.which("logist", path=environment.build_child_environment().get("PATH")):
        return "logist"
    beside = Path(sys.executable).with_name("logist")
    return shlex.quote(str(beside)) if beside.exists() else f"{shlex.quote(sys.executable)} -m logist"


def _format_farewell(home: Path, logist: str) -> tuple[Line, ...]:
    job = f".logist/jobs/{JOB}"
    return (
        f"All files are in {home}. Have a look:",
        "",
        f"  cd {shlex.quote(str(home))}",
        f"  ls {job} {job}/workspace",
        f"  {logist} job status {JOB} -v",
        f"  {logist} job history {JOB} --prompt 3     # the prompt for the Supervisor",
        f"  {logist} job history {JOB} --raw 5        # the answer that was cut off",
        "",
        "To use real models: set XAI_API_KEY (Worker) and GEMINI_API_KEY (Supervisor), and run the same",
        "commands. To use your own model for all roles: `logist config set model PROVIDER/MODEL`.",
        (StyledText("No API key? With `logist job poststep` you can type or paste any answer.", "dim"),),
    )
