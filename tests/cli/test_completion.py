"""What shells complete: asked in this process, and typed in real shells."""

from __future__ import annotations

import os
import pty
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from logist.agents.programs.finding import PRESETS
from logist.cli import shell_values
from logist.cli.main import JOB, root
from logist.config.sections import SHIPPED_MODELS, ModelEntry
from logist.config.settings import Settings
from logist.core.machine.actions import Action, Who
from logist.core.machine.machine import TABLE
from logist.core.model import TERMINAL, Status
from logist.documents import list_known_keys
from tests.cli.desk import Desk, answer
from tests.support import CRASHED, logist_command, process_environment
from tests.test_start import TIMED, heavy

CONFIG = """\
models:
  # A comment.
  "house-model":   # quoted
    provider_model: openai/house
    nested: {input_price: 0}
  other: {provider_model: openai/other}

agents:
  in-house: {command: [true]}
agent: litellm
"""
FLOW = """\
steps:
  - {id: plan, title: Plan, prompt: Plan it.}
  - {id: build, title: Build, prompt: Build it.}
"""


@pytest.mark.parametrize(
    ("shell", "sign"), [("bash", "complete -o"), ("zsh", "compdef"), ("fish", "complete --")]
)
def test_completion_scripts(desk: Desk, shell: str, sign: str) -> None:
    ran = desk("completion", shell)
    assert (ran.code, ran.err) == (0, "")
    assert sign in ran.out
    assert f"_LOGIST_COMPLETE={shell}_complete" in ran.out
    assert desk("completion", shell, "--json").json["data"] == {
        "shell": shell,
        "script": ran.out,
    }


def test_completion_of_an_unknown_shell(desk: Desk) -> None:
    assert desk("completion", "csh").code == 2


def completing(words: str) -> dict[str, str]:
    """The environment in which bash asks what follows these words."""
    return {
        "_LOGIST_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }


def completed(desk: Desk, words: str) -> list[str]:
    ran = desk(env=completing(words))
    assert (ran.code, ran.err) == (0, "")
    return [line.removeprefix("plain,") for line in ran.out.splitlines() if line]


@pytest.fixture
def jobs(desk: Desk) -> Desk:
    """A project with a job in each of several states, and files to name."""
    desk.create("draft", "--draft")
    desk.create("ready")
    desk.create("waits")
    assert desk("job", "run", "waits").code == 11
    desk.create("done")
    assert desk("job", "run", "done").code == 11
    assert desk("job", "approve", "done").code == 0
    desk.script(answer("?"))
    desk.create("stuck")
    assert desk("job", "step", "stuck").code == 3
    desk.create("aside")
    assert desk("job", "suspend", "aside").code == 0
    (desk.place / "prompt text.md").write_text("Do it.", "utf-8")
    (desk.place / "subdirectory").mkdir()
    (desk.home / "templates").mkdir()
    template = "title: '{{title}}'\nprompt: '{{if not issue}}x{{else}}{{ .issue }}{{end}}'\n"
    (desk.home / "templates" / "fix.yaml").write_text(template)
    (desk.home / "templates" / "flaky.json").write_text("{}")
    desk.settings(CONFIG)
    return desk


def test_commands_options_and_names(desk: Desk) -> None:
    for job_id in ("alpha", "beta"):
        desk.create(job_id)
    assert completed(desk, "logist ro") == ["role"]
    assert completed(desk, "logist job re") == ["reject", "resubmit", "resume", "restep", "rerun", "replay"]
    for name in ("status", "step", "poststep", "preview", "select", "rank", "cancel", "history"):
        assert completed(desk, f"logist job {name} ")[:2] == ["alpha", "beta"]
    assert completed(desk, "logist job step --job b") == ["beta"]
    assert completed(desk, "logist role show W") == ["Worker"]
    (desk.place / ".coven" / "roles").mkdir(parents=True)
    (desk.place / ".coven" / "roles" / "Wizard.yaml").touch()
    (desk.place / ".coven" / "workflows").mkdir()
    (desk.place / ".coven" / "workflows" / "spell.mmd").touch()
    assert completed(desk, "logist role show W") == ["Wizard", "Worker"]
    assert completed(desk, "logist workflow show s") == ["spell"]
    assert "--model" in completed(desk, "logist job step --")
    assert completed(desk, "logist config set limits.c") == ["limits.cost_threshold"]
    desk.settings("models:\n  mine:\n    provider_model: x/y\n")
    assert "models.mine.endpoint" in completed(desk, "logist config unset models.mine.")


def test_shortcuts_come_with_the_first_letter(desk: Desk) -> None:
    assert "status" not in completed(desk, "logist ")
    assert completed(desk, "logist sta") == ["stats", "status"]
    desk.create("alpha")
    assert completed(desk, "logist status ") == ["alpha"]


def test_only_jobs_that_take_the_command(jobs: Desk) -> None:
    every = ["aside", "done", "draft", "ready", "stuck", "waits"]
    for words, offered in {
        "activate ": ["draft"],
        "approve ": ["waits"],
        "approve --override good ": ["ready", "stuck"],
        "reject ": ["waits"],
        "resubmit ": ["stuck"],
        "resume ": ["aside"],
        "suspend ": ["draft", "ready", "stuck", "waits"],
        "cancel ": ["aside", "draft", "ready", "stuck", "waits"],
        "step ": ["ready"],
        "step r": ["ready"],
        "step --job ": ["ready"],
        "run ": ["ready"],
        "preview ": ["ready"],
        "poststep ": ["ready", "stuck"],
        "merge ": [],
        "merge --repo . ": ["done"],
        "update ": [],
        "update --repo . ": ["aside", "done", "draft", "ready", "stuck", "waits"],
        "status ": every,
        "rerun ": every,
        "delete ": ["done"],
    }.items():
        assert completed(jobs, f"logist job {words}") == offered, words


def states(*actions: Action, who: set[Who]) -> frozenset[str]:
    rows = [row for row in TABLE if row.action in actions and row.who & who]
    return frozenset(state.value for row in rows for state in row.states if state)


def test_the_states_are_those_of_the_state_machine() -> None:
    agents = {Who.DOER, Who.REVIEWER}
    asked = states(Action.COMPLETED, who=agents)
    expected = {action.value: states(action, who={Who.STEWARD}) for action in Action}
    expected["step"] = expected["run"] = asked | states(Action.COLLECT, who={Who.SYSTEM})
    expected["preview"] = asked
    expected["poststep"] = asked | states(Action.SUPPLY, who={Who.STEWARD})
    expected["delete"] = frozenset(status.value for status in TERMINAL)
    expected["update"] -= {Status.WAITING.value}  # its children work on the same files
    for command, taken in shell_values.TAKEN_BY.items():
        assert taken == expected[command], command
    assert states(Action.OVERRIDE, who={Who.STEWARD}) == shell_values.OVERRIDDEN
    assert {status.value for status in set(Status) - TERMINAL} == shell_values.RESTING


def test_the_shipped_names_are_all_there() -> None:
    assert tuple(sorted(PRESETS)) == shell_values.PROGRAMS
    assert tuple(sorted(SHIPPED_MODELS)) == shell_values.MODELS
    assert tuple(sorted(list_known_keys(Settings))) == shell_values.SETTINGS
    assert tuple(ModelEntry.model_fields) == shell_values.MODEL_FIELDS


def test_values(jobs: Desk) -> None:
    for words, offered in {
        "job step --role Pl": ["Planner"],
        "job create --role Pl": ["Planner"],
        "job step --model ": ["gemini-2.5-flash", "grok-code-fast-1", "house-model", "other"],
        "job preview --agent in": ["in-house"],
        "run --agent c": ["claude", "cline", "codex"],
        "run --on d": ["dask", "dask:4"],
        "job step --agent s": ["scripted:"],
        "job history waits --raw ": ["2", "3"],
        "job history --job waits --prompt 3": ["3"],
        "job history waits --diff 2 ": ["2", "3"],
        "job poststep stuck --from-history ": ["2"],
        "job restep done --to ": ["2", "3", "4"],
        "job fork done --at ": ["1", "2", "3", "4"],
        "job fork --at ": [],
        "job fork nowhere --at ": [],
        "job create ": ["file,"],
        "job create --file pro": ["file,pro"],
        "job create --workflow pro": ["file,pro"],
        "job create --from f": ["fix", "flaky"],
        "job create --from ./f": ["file,./f"],
        "job create --from fix --set ": ["issue=", "title="],
        "job create --from fix --set t": ["title="],
        "job create --set ": [],
        "job create --batch pro": ["file,pro"],
        "job list --sort c": ["created", "cost"],
        "job create --repo su": ["dir,su"],
        "job list --jobs-dir ": ["dir,"],
        "job poststep ready --response-file x": ["file,x"],
        "workflow import ": ["file,"],
        "role validate ./": ["file,./"],
    }.items():
        assert completed(jobs, f"logist {words}") == offered, words
    assert jobs("job", "select", "stuck").code == 0
    assert completed(jobs, "logist job history --raw ") == ["2"]


def test_tags_and_steps_of_a_workflow(desk: Desk) -> None:
    (desk.place / "flow.yaml").write_text(FLOW, "utf-8")
    desk.create("j1", "--workflow", "flow.yaml", "--tag", "urgent", "--tag", "docs")
    assert completed(desk, "logist job list --tag ") == ["docs", "urgent"]
    assert completed(desk, "logist job resubmit j1 --to ") == ["plan", "build"]
    assert completed(desk, "logist job resubmit j1 --to b") == ["build"]


def parameters(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Parameter]]:
    for parameter in command.params:
        yield f"{context.command_path} {parameter.opts[0]}", parameter
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below
            yield from parameters(below, click.Context(below, context, name))


def test_every_file_and_directory_is_completed() -> None:
    context = click.Context(root, info_name="logist")
    offered = 0
    for name, parameter in parameters(root, context):
        words = (parameter.metavar or "").strip("[].").split("|")
        if {"FILE", "DIR", "PATH"} & set(words):
            items = parameter.shell_complete(context, "no-such-name")
            assert [item.type for item in items] in (["file"], ["dir"]), name
            offered += 1
    assert offered > 20


@pytest.mark.deep_beyond(4)
@pytest.mark.parametrize(
    "words",
    [
        "logist job st",
        "logist job step ",
        "logist job create --",
        "logist run --",
        "logist job step --model ",
        "logist job step --role ",
        "logist job approve ",
        "logist job history j1 --raw ",
        "logist runs ",
        "every",
    ],
)
def test_completing_loads_nothing_heavy(desk: Desk, words: str) -> None:
    desk.create()
    for each in [f"logist job {name} --" for name in JOB] if words == "every" else [words]:
        ran = desk.process(env=completing(each) | TIMED)
        assert ran.out
        assert heavy(ran.err) == set()


SETUP = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(logist completion bash)"'),
    "zsh": (
        ["zsh", "-f", "-i"],
        'bindkey -e; autoload -Uz compinit && compinit -u -D; eval "$(logist completion zsh)"',
    ),
    "fish": (["fish", "--no-config", "-i"], "logist completion fish | source"),
}
TYPED = {
    "logist job create pro": "prompt text.md",
    "logist job create --file pro": "prompt text.md",
    "logist job create --workflow pro": "prompt text.md",
    "logist job poststep ready --response-file pro": "prompt text.md",
    "logist job step --role Pl": "Planner",
    "logist job step --role=Pl": "--role=Planner",
    "logist job step --role=Planner rea": "ready",
    "logist job create --file=pro": "--file=prompt text.md",
    "logist job history stuck --raw=": "--raw=2",
    "logist job step --model hou": "house-model",
    "logist job step --agent in": "in-house",
    "logist job history stuck --raw ": "2",
    "logist job restep stuck --to ": "2",
    "logist job fork draft --at ": "1",
    "logist job approve ": "waits",
    "logist resubmit ": "stuck",
    "logist job create --repo sub": "subdirectory",
    "logist workf": "workflow",
}


@pytest.mark.parametrize(
    "shell",
    ["bash", pytest.param("zsh", marks=pytest.mark.deep), pytest.param("fish", marks=pytest.mark.deep)],
)
def test_typed_in_a_real_shell(jobs: Desk, shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed; .ci/run installs it")
    programs = tmp_path / "bin"
    programs.mkdir()
    logist = programs / "logist"
    logist.write_text(f'#!/bin/sh\nexec {shlex.join(logist_command())} "$@"\n', "utf-8")
    logist.chmod(0o755)
    environment = process_environment() | jobs.env
    environment |= {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "TERM": "xterm"}
    argv, setup = SETUP[shell]
    # After Tab, Ctrl-A goes to the beginning of the line, and printf shows the words that came of it.
    lines = [f"{words}\t\x01printf '<%s>' \n" for words in TYPED]
    seen = typed(argv, "".join([f"{setup}\n", *lines, "exit\n"]), jobs.place, environment)
    for words, value in TYPED.items():
        *before, _ = words.split(" ")
        shown = "".join(f"<{word}>" for word in (*before, value))
        assert shown in seen.replace("subdirectory/", "subdirectory"), shown


def typed(argv: list[str], keys: str, place: Path, environment: dict[str, str]) -> str:
    """What a terminal shows on which an interactive shell gets these keys."""
    master, slave = pty.openpty()
    # A shell that controls no terminal does not read line by line.
    started = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *argv],
        cwd=place,
        env=environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    os.write(master, keys.encode())
    seen = b""
    while chunk := read(master):
        seen += chunk
    os.close(master)
    started.wait(CRASHED)
    return seen.decode("utf-8", "replace")


def read(master: int) -> bytes:
    try:
        return os.read(master, 65536)
    except OSError:  # the other end is closed
        return b""


def test_ids_of_runs(desk: Desk) -> None:
    folder = desk.home / "runs"
    folder.mkdir()
    for run in ("2026-11-25T23:00:00-90c1", "2026-11-26T23:00:01-3f2a"):
        (folder / f"{run}.jsonl").touch()
    offered = desk.process(env=completing("logist runs show 2026")).out
    assert offered.index("3f2a") < offered.index("90c1")
