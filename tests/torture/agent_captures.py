"""Records again the captures that test how output is read: `python -m tests.torture.agent_captures [PROGRAM[/CASE]]...`.

Runs each real program against a model server on this machine and saves its output. Paths, ports,
ids and times are replaced by constant values, and long output is cut.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from logist.agents.programs.finding import PRESETS
from logist.agents.programs.protocol import Finished, Invocation, Profile, Program, Result, Run
from tests.endpoint import Endpoint
from tests.support import ROOT
from tests.torture.agent_bench import RECIPES, finished, installed, run_of

CAPTURES = ROOT / "tests" / "shell" / "agents" / "captures"
COMMAND = '{"action": "COMPLETED", "evidence_files": ["hello.txt"], "summary_for_supervisor": "Wrote it."}'
PROMPT = "Write hello.txt with the word hello, then end with the exit command."
BLOCK = "hello.txt\n```\n<<<<<<< SEARCH\n=======\nhello\n>>>>>>> REPLACE\n```\n\n"
USAGE = {"input": 1500, "cached": 500, "output": 50}

WRITES: dict[str, Any] = {"calls": [{"write": ["hello.txt", "hello"]}], "usage": USAGE}
SAYS: dict[str, Any] = {"text": f"Done.\n{COMMAND}", "usage": USAGE}
SUBMITS = {
    "calls": [{"shell": f"cat <<'END'\nCOMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\nDone.\n{COMMAND}\nEND\n"}],
    "usage": USAGE,
}
CONTEXT = (
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 150000 tokens."
)


def ok(name: str) -> list[dict[str, Any]]:
    """The steps of a complete run: write a file, then answer with the exit command."""
    if name == "llm":
        return [SAYS]
    if name == "aider":
        return [SAYS | {"text": BLOCK + SAYS["text"]}]
    return [WRITES, SUBMITS if name == "mini" else SAYS]


def steps(name: str, case: str) -> list[dict[str, Any]]:
    """The answers of the model in a case."""
    every: dict[str, list[dict[str, Any]]] = {
        "ok": ok(name),
        "denied": ok(name),
        "budget": ok(name),
        "stub": [SAYS],
        "outside": [{"calls": [{"write": ["/run/outside.txt", "x"]}]}, SUBMITS if name == "mini" else SAYS],
        "auth": [{"status": 401, "message": "Incorrect API key provided"}],
        "context": [{"status": 400, "message": CONTEXT, "code": "context_length_exceeded"}],
        "rate": [{"status": 429, "message": "Rate limit reached", "headers": {"retry-after": "0"}}],
        "server": [{"status": 500, "message": "The server had an error"}],
        "empty": [{"text": "", "usage": {"input": 100, "output": 0}}],
        "cut": [{"text": "This answer ends in the middle of its " * 8, "close": "middle"}],
        "truncated": [{"text": "This answer is as long as it may be, and", "cut": True, "usage": USAGE}],
        "usage": [SAYS],
        "turns": [WRITES, WRITES, WRITES],
        "hang": [{"delay": 600}],
        "refused": [{}],
    }
    return every[case]


CASES = (
    "ok",
    "denied",
    "outside",
    "budget",
    "stub",
    "usage",
    "turns",
    "refused",
    "auth",
    "context",
    "rate",
    "server",
    "empty",
    "cut",
    "truncated",
    "hang",
)
CONFINED = ("claude", "opencode", "gemini")
"""Programs that refuse to write outside the workspace, and report it."""
LIMITED = ("claude", "mini")
"""Programs with a cost limit."""
STUBS = ("claude", "opencode")
"""Programs that install only a stub if they are installed without install scripts."""
TURNS = ("goose",)
"""Programs for which Logist sets a limit of turns."""
ONLY = {"outside": CONFINED, "budget": LIMITED, "stub": STUBS, "turns": TURNS}
PROFILES: dict[str, Profile] = {"denied": "read", "outside": "edit"}
SECONDS = {"hang": 8.0}
LONGEST = 150.0


class Changed:
    """A program that is started with another command line."""

    def __init__(self, program: Program, case: str) -> None:
        self.program, self.case = program, case
        self.name, self.executable, self.metered = program.name, program.executable, program.metered

    def invocation(self, run: Run) -> Invocation:
        invocation = self.program.invocation(run)
        argv = list(invocation.argv)
        if self.case == "turns":
            argv[argv.index("--max-turns") + 1] = "1"
        elif self.case == "usage":
            argv.append("--no-such-option")
        return replace(invocation, argv=tuple(argv))

    def read(self, finished: Finished) -> Result:
        return self.program.read(finished)


@contextmanager
def endpoint(name: str, case: str, workspace: Path) -> Iterator[tuple[Endpoint, str]]:
    """The model server of a case, and the address that the program gets."""
    with Endpoint(*steps(name, case), workspace=str(workspace)) as server, socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # and never listens
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        yield server, nobody if case == "refused" else server.url


def taken(name: str, case: str, scratch: Path) -> Finished:
    """One real run of a case."""
    with endpoint(name, case, scratch / "workspace") as (_, url):
        run = run_of(
            scratch,
            installed(name, stub=case == "stub"),
            url,
            PROMPT,
            profile=PROFILES.get(case, "full"),
            allowance_microcents=1 if case == "budget" else None,
            deadline_seconds=SECONDS.get(case, LONGEST),
        )
        return finished(Changed(PRESETS[name], case), run, SECONDS.get(case, LONGEST))


def same(text: str, scratch: Path) -> str:
    """Remove everything that differs between runs."""
    text = text.replace(str(scratch), "/run").replace(str(ROOT), "/logist")
    text = re.sub(r"(?<=\$bunfs/)\w+", "inner", text)  # inside the program, not on this machine
    text = re.sub(r"(?:/[\w.@+-]+)+?(?=/(?:node_modules|lib/python3[.0-9]*)/)", "/installed", text)
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8000", text)


TAILS = {"mini": ("stdout", "stderr"), "aider": ("llm.history",), "llm": ()}
"""Cut long output of which only the end is read."""
TAIL = 3000


def small(name: str, capture: dict[str, Any]) -> dict[str, Any]:
    """Remove what no test reads: the program's own prompts and tool definitions."""
    for place in (capture, capture["files"]):
        for key in TAILS.get(name, ()):
            if key in place and "RemoteProtocolError" not in place[key]:
                place[key] = place[key][-TAIL:]
    if "trajectory.json" in capture["files"]:
        run = json.loads(capture["files"]["trajectory.json"])
        run.get("info", {}).pop("config", None)
        for one in run.get("messages", ()):
            one["content"] = str(one.get("content"))[:300]
        capture["files"]["trajectory.json"] = json.dumps(run)
    return capture


def main(wanted: list[str]) -> int:
    """Record the named captures, or all."""
    for name in RECIPES:
        for case in CASES:
            if wanted and name not in wanted and f"{name}/{case}" not in wanted:
                continue
            if name not in ONLY.get(case, RECIPES):
                continue
            scratch = Path(tempfile.mkdtemp())
            try:
                end = taken(name, case, scratch)
                wrote = (scratch / "workspace" / "hello.txt").exists()
            finally:
                kept = scratch
            capture = {
                "status": end.status,
                "how": end.how,
                "signal": end.signal,
                "stdout": same(end.stdout, kept),
                "stderr": same(end.stderr, kept),
                "files": {file: same(text, kept) for file, text in end.files.items()},
                "wrote": wrote,
            }
            shutil.rmtree(scratch, ignore_errors=True)
            path = CAPTURES / name / f"{case}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(small(name, capture), indent=1, ensure_ascii=False) + "\n", "utf-8")
            result = PRESETS[name].read(end)
            sys.stdout.write(f"{name}/{case}: {end.how} {end.status} wrote={wrote} {result}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
