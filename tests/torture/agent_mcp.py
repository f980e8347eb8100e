"""Real agent programs as clients of `logist mcp`: they create and run a job, and can't approve it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from logist.agents.programs.finding import PRESETS
from tests.endpoint import Endpoint
from tests.support import ROOT
from tests.torture import agent_bench
from tests.torture.agent_bench import Place
from tests.torture.suite import Run

PROGRAMS = {"claude": "mcp__logist__", "codex": "mcp__logist/"}
"""The programs, with what they put before the name of a tool."""
LIGHT = ("claude",)
"""The programs of the ordinary check."""
LONGEST = 150.0
COMMAND = '{"action": "COMPLETED", "evidence_files": [], "summary_for_supervisor": "Done."}'
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("create_job", {"prompt": "Write hello.txt", "job": "hello", "approval": "none", "auto_merge": True}),
    ("run_job", {"job": "hello"}),
    ("approve_job", {"job": "hello"}),
    ("ask_steward", {"job": "hello"}),
)


def mcp_case(run: Run) -> None:
    """Each program creates a job, runs it, tries to approve it, and asks the steward."""
    for name in PROGRAMS if run.full else LIGHT:
        run.say(f"  {name}/mcp")
        place = agent_bench.installed(name)
        run.check(list(_find_problems(run.scratch / f"{name}-mcp", place, name)), f"{name}/mcp")


def _find_problems(scratch: Path, place: Place, name: str) -> Iterator[str]:
    project = scratch / "workspace"
    (project / ".logist").mkdir(parents=True)
    (project / ".logist" / "config.yaml").write_text("limits:\n  cost_threshold: 200\n", "utf-8")
    script = json.dumps({"answers": [{"text": COMMAND}, {"text": COMMAND}]})
    (project / "answers.json").write_text(script, "utf-8")
    calls = [{"calls": [{"tool": [PROGRAMS[name] + tool, arguments]}]} for tool, arguments in CALLS]
    with Endpoint(*calls, {"text": "It waits for you."}, workspace=str(project)) as endpoint:
        url = endpoint.base if name == "claude" else endpoint.url
        done = _run(scratch, place, name, url)
        heard = json.dumps(endpoint.requests[-1]["body"]) if endpoint.requests else ""
    if done.returncode:
        yield f"it ended with {done.returncode}: {done.stderr[-300:]!r}"
    history = project / ".logist" / "jobs" / "hello" / "jobHistory.json"
    if not history.exists():
        yield f"it created no job: {heard[-300:]}"
        return
    kinds = [each["kind"] for each in json.loads(history.read_bytes())["interactions"]]
    state = json.loads((history.parent / "state.json").read_bytes())
    if "approve" in kinds or state["status"] != "APPROVAL_REQUIRED":
        yield f"the job is {state['status']} after {kinds}"
    if "Only a person may decide" not in heard:
        yield f"ask_steward told nothing: {heard[-300:]}"


def _run(scratch: Path, place: Place, name: str, url: str) -> subprocess.CompletedProcess[bytes]:
    run = agent_bench.run_of(scratch, place, url, "Use your tools.", profile="full")
    called = PRESETS[name].invocation(run)
    for file, content in called.files.items():
        (run.home / file).parent.mkdir(parents=True, exist_ok=True)
        (run.home / file).write_bytes(content)
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(run.home),
        "PYTHONPATH": str(ROOT),
        "LOGIST_AGENT": f"scripted:{run.workspace / 'answers.json'}",
    }
    return subprocess.run(
        [*called.argv[:2], *_set_up(name, environment), *called.argv[2:]],
        env={"PATH": place.path, "HOME": str(run.home), **called.environment},
        cwd=run.workspace,
        input=called.stdin,
        capture_output=True,
        timeout=LONGEST,
        check=False,
    )


def _set_up(name: str, environment: dict[str, str]) -> list[str]:
    """Return the options of a program that set up the MCP server."""
    command, words = sys.executable, ["-m", "logist", "mcp"]
    if name == "claude":
        server = {"command": command, "args": words, "env": environment}
        return [f"--mcp-config={json.dumps({'mcpServers': {'logist': server}})}"]
    table = ", ".join(f"{key} = {json.dumps(value)}" for key, value in environment.items())
    values = {"command": json.dumps(command), "args": json.dumps(words), "env": f"{{{table}}}"}
    return [word for key, value in values.items() for word in ("-c", f"mcp_servers.logist.{key}={value}")]
