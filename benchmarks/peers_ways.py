"""How each program is used in the kill tests of peers_killed.py: its command lines, its settings, and what it is asked to do.

Each is used as its own documentation says, with the settings that make it safest. Libraries are used through the small programs
in peers_probes/.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from peers_install import Installed

Json = dict[str, Any]

PROBES = Path(__file__).resolve().with_name("peers_probes")
KEY = "dummy-key-for-benchmarks"
PRICES = (5.0, 25.0)
"""Dollars for a million tokens of input, and of output, of the model: what Claude Code has in its own table for CLAUDE."""
CLAUDE = "claude-opus-4-5"
LONGEST = 20_000
"""Tokens of output of the longest answer."""
SESSION = "3f1c1a52-6a8e-4d6c-9d55-0c35d2f0b7aa"
TASK = "Write hello into a.txt. This is the first call."
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
    "additionalProperties": False,
}


@dataclass
class Stage:
    """Where a program runs: an empty directory, its model, and the program itself."""

    folder: Path
    base: str
    """The address of the model, without a path."""
    peer: Installed | None
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        home = self.folder.parent / "home"
        home.mkdir()
        own = Path(sys.executable if self.peer is None else self.peer.python or self.peer.command).parent
        path = os.pathsep.join([str(own), *os.environ.get("PATH", os.defpath).split(os.pathsep)])
        self.environment = {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb"}

    @property
    def url(self) -> str:
        """The address as clients of OpenAI want it."""
        return f"{self.base}/v1"

    @property
    def command(self) -> str:
        """The path of the program."""
        assert self.peer
        return self.peer.command

    def write(self, name: str, content: str | Json) -> None:
        """Write a file in the directory, or a JSON document."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")


Argv = Callable[[Stage], list[str]]


def _keep_all(stage: Stage) -> Mapping[str, str]:
    return {}


def _prepare_nothing(stage: Stage) -> None:
    pass


def find_reason(text: str) -> str:
    """The last line of an output that says something."""
    lines = [line.strip(" │╭╰─╮╯") for line in text.splitlines()]
    return next((line for line in reversed(lines) if re.search(r"\w", line)), "no message")[:160]


def _tell_end(code: int | None, text: str) -> str:
    return "continues" if code == 0 else find_reason(text)


@dataclass(frozen=True)
class Way:
    """How one program is used. What it can't do, or what says nothing about it, is None, and its test is left out."""

    run: Argv | None = None
    """Begin work that makes two paid calls after each other."""
    resume: Argv | None = None
    """Continue it after a kill."""
    ask: Argv | None = None
    """Ask the model once, from the command line."""
    strict: Argv | None = None
    """The same, with a schema for the answer."""
    capped: Callable[[Stage, float], list[str]] | None = None
    """The work of `run` with a limit in dollars."""
    save: Argv | None = None
    """Save until it is killed."""
    read: Argv | None = None
    """Open what was saved, and save once more."""
    add: Callable[[Stage, int], list[str]] | None = None
    """Make one change."""
    count: Argv | Callable[[Stage], int] | None = None
    """How many changes there are."""
    change: str = ""
    """What `add` changes."""
    environment: Callable[[Stage], Mapping[str, str]] = _keep_all
    prepare: Callable[[Stage], None] = _prepare_nothing
    first: Json = field(default_factory=lambda: {"text": "one"})
    """What the model answers to the first call, and to the second."""
    second: Json = field(default_factory=lambda: {"text": "two"})
    tell_end: Callable[[int | None, str], str] = _tell_end
    """What the command that continues did, from its exit code and output."""


ASKS = "asks a person, who decides"
"""What a command says that may not go on by itself."""
WRITES = {"calls": [{"write": ["a.txt", "hello\n"]}]}
"""An agent's first answer: it calls a tool."""


def _verb(name: str, *words: str) -> Argv:
    """A verb of a probe, and its arguments; an empty one is the address of the model."""

    def argv(stage: Stage) -> list[str]:
        python = stage.peer.python if stage.peer else sys.executable
        return [python, str(PROBES / f"probe_{name}.py"), *(word or stage.url for word in words)]

    return argv


def _probe(name: str, change: str = "", **more: Any) -> Way:
    """A library, through peers_probes/probe_NAME.py. `change`: what its verb `add` changes, if it has one."""
    verbs: Json = {"save": _verb(name, "save"), "read": _verb(name, "read")}
    if change:
        verbs |= {"add": lambda stage, number: _verb(name, "add", str(number), "")(stage)}
        verbs |= {"count": _verb(name, "count"), "change": change}
    return Way(**(verbs | more))


def _probe_calls(name: str, change: str, **more: Any) -> Way:
    """The same, with the two verbs that make paid calls."""
    return _probe(name, change, run=_verb(name, "run", ""), resume=_verb(name, "resume", ""), **more)


# Logist.


def _prepare_logist(stage: Stage) -> None:
    user = Path(stage.environment["HOME"]) / ".config" / "logist"
    user.mkdir(parents=True)
    model = {"provider_model": "openai/scripted", "endpoint": stage.url, "api_key_env": "MY_KEY"}
    model |= {"input_price": PRICES[0], "output_price": PRICES[1], "max_output_tokens": LONGEST}
    settings = {"models": {"scripted": model}, "model": "scripted", "min_free_bytes": 0}
    (user / "config.yaml").write_text(json.dumps(settings), "utf-8")
    _run_logist(stage, "init")
    _create_job(stage, "j")


def _create_job(stage: Stage, name: str, *options: str) -> None:
    whole = ("--id", name, "--no-repo", "--no-review", "--approval", "none", *options, TASK)
    _run_logist(stage, "job", "create", *whole)


def _run_logist(stage: Stage, *words: str) -> None:
    argv, place = _logist(*words), {"cwd": stage.folder, "env": stage.environment}
    subprocess.run(argv, **place, check=True, capture_output=True, stdin=subprocess.DEVNULL)


def _run_capped(stage: Stage, cap: float) -> list[str]:
    _create_job(stage, "capped", "--cost-threshold", f"{cap * 100:g}")
    return _logist("job", "run", "capped")


def _logist(*words: str) -> list[str]:
    return [sys.executable, "-m", "logist", *words]


def _tell_end_of_job(code: int | None, text: str) -> str:
    return ASKS if code == 3 and "in doubt" in text else _tell_end(code, text)


DONE = json.dumps({"action": "COMPLETED", "evidence_files": ["a.txt"], "summary_for_supervisor": "Wrote it."})
LOGIST = _probe(
    "logist",
    "a note for one job",
    run=lambda stage: _logist("job", "run", "j"),
    resume=lambda stage: _logist("job", "run", "j"),
    ask=lambda stage: _logist("job", "run", "j"),
    strict=lambda stage: _logist("job", "run", "j"),
    capped=_run_capped,
    add=lambda stage, number: _logist("inbox", "note", "j", str(number), "--wait", "60"),
    environment=lambda stage: {"MY_KEY": KEY, "LOGIST_STEWARD": "ada", "GIT_CONFIG_NOSYSTEM": "1"},
    prepare=_prepare_logist,
    first={"calls": [{"tool": ["write_file", {"path": "a.txt", "content": "hello\n"}]}]},
    second={"text": DONE},
    tell_end=_tell_end_of_job,
)

LOGIST_AT_ONCE = replace(LOGIST, add=lambda stage, number: _logist("inbox", "note", "j", str(number)))
"""Without `--wait`, a command refuses to work on a job that another one works on."""


# Agent programs.


def _claude(*more: str) -> Argv:
    options = ["-p", "--output-format", "json", "--model", CLAUDE, "--permission-mode", "acceptEdits"]
    return lambda stage: [stage.command, *options, *more]


def _claude_environment(stage: Stage) -> Mapping[str, str]:
    return {
        "ANTHROPIC_BASE_URL": stage.base,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


CLAUDE_CODE = Way(
    run=_claude("--session-id", SESSION, TASK),
    resume=_claude("--resume", SESSION, "Continue."),
    ask=_claude(TASK),
    strict=_claude("--json-schema", json.dumps(SCHEMA), TASK),
    capped=lambda stage, cap: _claude("--max-budget-usd", str(cap), TASK)(stage),
    environment=_claude_environment,
    first=WRITES,
)


def _codex(*words: str) -> Argv:
    def argv(stage: Stage) -> list[str]:
        settings: Json = {
            "model_provider": "p",
            "model_providers.p.name": "p",
            "model_providers.p.base_url": stage.url,
            "model_providers.p.env_key": "MY_KEY",
            "model_providers.p.wire_api": "responses",
            "analytics.enabled": False,
            "check_for_update_on_startup": False,
        }
        options = [
            "--skip-git-repo-check",
            "--json",
            "-m",
            "scripted",
            "--dangerously-bypass-approvals-and-sandbox",
        ]
        for name, value in settings.items():
            options += ["-c", f"{name}={json.dumps(value)}"]
        for feature in ("unbounded_connection_retries", "plugins", "remote_plugin", "apps", "skill_search"):
            options += ["--disable", feature]
        return [stage.command, "exec", *words[:-1], *options, words[-1]]

    return argv


def _prepare_codex(stage: Stage) -> None:
    (Path(stage.environment["HOME"]) / ".codex").mkdir()
    stage.write("../schema.json", SCHEMA)


CODEX = Way(
    run=_codex(TASK),
    resume=_codex("resume", "--last", "Continue."),
    ask=_codex(TASK),
    strict=_codex("--output-schema", "../schema.json", TASK),
    environment=lambda stage: {"MY_KEY": KEY},
    prepare=_prepare_codex,
    first={"calls": [{"shell": "echo hello > a.txt"}]},
)


def _litellm_environment(stage: Stage) -> Mapping[str, str]:
    return {
        "OPENAI_API_BASE": stage.url,
        "OPENAI_BASE_URL": stage.url,
        "OPENAI_API_KEY": KEY,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }


def _mini(stage: Stage, cap: float = 0.0) -> list[str]:
    options = ["-y", "--exit-immediately", "-m", "openai/scripted", "-o", "trajectory.json", "-l", str(cap)]
    return [stage.command, *options, "-t", TASK]


def _mini_environment(stage: Stage) -> Mapping[str, str]:
    mini = {
        "MSWEA_CONFIGURED": "true",
        "MSWEA_SILENT_STARTUP": "1",
        "MSWEA_GLOBAL_CONFIG_DIR": str(stage.folder.parent / "mini"),
        "LITELLM_MODEL_REGISTRY_PATH": str(stage.folder.parent / "prices.json"),
    }
    return {**_litellm_environment(stage), **mini}


def _prepare_mini(stage: Stage) -> None:
    prices = {"input_cost_per_token": PRICES[0] / 1e6, "output_cost_per_token": PRICES[1] / 1e6}
    prices_file = {"openai/scripted": {**prices, "litellm_provider": "openai", "mode": "chat"}}
    stage.write("../prices.json", prices_file)


MINI = _probe(
    "mini",
    run=_mini,
    ask=_mini,
    capped=_mini,
    environment=_mini_environment,
    prepare=_prepare_mini,
    first={"calls": [{"shell": "echo hello > a.txt"}]},
    second={"calls": [{"shell": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}]},
)


def _aider(stage: Stage) -> list[str]:
    options = [
        "--model",
        "openai/scripted",
        "--yes-always",
        "--no-stream",
        "--no-pretty",
        "--no-git",
        "--no-check-update",
    ]
    options += [
        "--no-show-model-warnings",
        "--no-show-release-notes",
        "--no-detect-urls",
        "--map-tokens",
        "0",
    ]
    return [stage.command, *options, "--analytics-disable", "--message", TASK]


def _llm(*words: str) -> Argv:
    return lambda stage: [stage.command, "-m", "scripted", *words, TASK]


def _prepare_llm(stage: Stage) -> None:
    model = {"model_id": "scripted", "model_name": "scripted", "api_base": stage.url, "supports_schema": True}
    stage.write("../llm/extra-openai-models.yaml", json.dumps([model]))


LLM = Way(
    ask=_llm(),
    strict=_llm("--schema", json.dumps(SCHEMA)),
    environment=lambda stage: {"LLM_USER_PATH": str(stage.folder.parent / "llm"), "OPENAI_API_KEY": KEY},
    prepare=_prepare_llm,
)

AIDER = Way(ask=_aider, environment=_litellm_environment)


INSPECT_MODEL = "openai/gpt-4o"
"""It takes a price only for a model that it knows."""


def _prepare_inspect(stage: Stage) -> None:
    samples = ", ".join(f"Sample(input='This is the {which} call.')" for which in ("first", "second"))
    task = f"""
        from inspect_ai import Task, task
        from inspect_ai.dataset import Sample
        from inspect_ai.solver import generate, user_message

        @task
        def calls():
            return Task(dataset=[{samples}], solver=generate())

        @task
        def chain():
            again = user_message("This is the second call.")
            return Task(dataset=[Sample(input="This is the first call.")], solver=[generate(), again, generate()])
        """
    stage.write("calls.py", "\n".join(line[8:] for line in task.splitlines()))
    price = {"input": PRICES[0], "output": PRICES[1], "input_cache_write": 0, "input_cache_read": 0}
    stage.write("prices.json", {INSPECT_MODEL: price})


def _inspect(command: str, *words: str) -> Argv:
    options = ["--max-connections", "1", "--max-samples", "1", "--display", "none", "--log-dir", "logs"]
    return lambda stage: [stage.command, command, *words, *options]


_MODEL = ("--model", INSPECT_MODEL, "-M", "responses_api=false")


def _retry_inspect(stage: Stage) -> list[str]:
    logs = sorted((stage.folder / "logs").iterdir())
    return _inspect("eval-retry", *(str(log) for log in logs if log.is_file()))(stage)


def _inspect_capped(stage: Stage, cap: float) -> list[str]:
    limit = ("--cost-limit", str(cap), "--model-cost-config", "prices.json")
    return _inspect("eval", "calls.py@chain", *_MODEL, *limit)(stage)


INSPECT = Way(
    run=_inspect("eval", "calls.py@calls", *_MODEL),
    resume=_retry_inspect,
    ask=_inspect("eval", "calls.py@calls", *_MODEL),
    capped=_inspect_capped,
    environment=_litellm_environment,
    prepare=_prepare_inspect,
)


# Workflows.


def _write_pflow(stage: Stage, step: Callable[[str], str]) -> None:
    steps = "".join(
        f"### {which}\n\nMakes the {which} call.\n\n{step(which)}\n\n" for which in ("first", "second")
    )
    stage.write("calls.pflow.md", f"# Calls\n\nMakes two calls after each other.\n\n## Steps\n\n{steps}")


def _prepare_pflow(stage: Stage) -> None:
    head = "- type: llm\n- model: openai/scripted\n\n"
    _write_pflow(stage, lambda which: f"{head}```prompt\nthe {which} call\n```")


def _prepare_pflow_shell(stage: Stage) -> None:
    _write_pflow(stage, lambda which: f"- type: shell\n\n```shell command\n{_call(stage, which)}\n```")


def _call(stage: Stage, which: str) -> str:
    """A shell command that makes a paid call."""
    return f"{sys.executable} {PROBES / 'call.py'} {stage.url} {which}"


PFLOW = Way(
    run=lambda stage: [stage.command, "./calls.pflow.md", "--no-cache"],
    resume=lambda stage: [stage.command, "resume", "./calls.pflow.md"],
    ask=lambda stage: [stage.command, "./calls.pflow.md", "--no-cache"],
    environment=_litellm_environment,
    prepare=_prepare_pflow,
)
PFLOW_SHELL = replace(
    PFLOW,
    prepare=_prepare_pflow_shell,
    tell_end=lambda code, text: ASKS if code and "--force" in text else _tell_end(code, text),
)
"""A command may have effects that a model call hasn't."""


def _prepare_spec_kit(stage: Stage) -> None:
    steps = "".join(
        f"  - id: {which}\n    type: shell\n    run: {_call(stage, which)}\n" for which in ("first", "second")
    )
    head = "schema_version: '1.0'\nworkflow:\n  id: calls\n  name: Calls\n  version: 1.0.0\n"
    stage.write("calls.yml", f"{head}steps:\n{steps}")
    stage.write(".specify/init-options.json", {})


def _resume_spec_kit(stage: Stage) -> list[str]:
    run = next((stage.folder / ".specify" / "workflows" / "runs").iterdir())
    return [stage.command, "workflow", "resume", run.name]


SPEC_KIT = _probe(
    "spec_kit",
    run=lambda stage: [stage.command, "workflow", "run", "calls.yml"],
    resume=_resume_spec_kit,
    prepare=_prepare_spec_kit,
)


# A list of tasks.


def _prepare_task_master(stage: Stage) -> None:
    task = {"title": "a", "description": "d", "status": "pending", "dependencies": [], "priority": "medium"}
    task |= {"details": "", "testStrategy": "", "subtasks": []}
    tasks = [{"id": number, **task} for number in range(1, 17)]
    stage.write(".taskmaster/tasks/tasks.json", {"master": {"tasks": tasks}})


def _count_done(stage: Stage) -> int:
    tasks = json.loads((stage.folder / ".taskmaster/tasks/tasks.json").read_text("utf-8"))["master"]["tasks"]
    return sum(task["status"] == "done" for task in tasks)


TASK_MASTER = Way(
    add=lambda stage, number: [stage.command, "set-status", f"--id={number}", "--status=done"],
    count=_count_done,
    change="the status of another task each",
    prepare=_prepare_task_master,
)

WAYS: dict[str, Way] = {
    "logist": LOGIST,
    "langgraph": _probe_calls("langgraph", "an item of one thread's list"),
    "dbos": _probe_calls("dbos", "a workflow each"),
    "pydantic-graph": _probe_calls("pydantic_graph", "a snapshot in one file"),
    "pflow": PFLOW,
    "spec-kit": SPEC_KIT,
    "inspect": INSPECT,
    "mini": MINI,
    "claude": CLAUDE_CODE,
    "codex": CODEX,
    "aider": AIDER,
    "llm": LLM,
    "vcrpy": _probe_calls("vcr", "a call in one cassette", save=_verb("vcr", "save", "")),
    "task-master": TASK_MASTER,
}
