"""Real agent programs in the sandbox, against a model on this machine: their results, and that no process
remains.
"""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from logist.agents import sandbox
from logist.agents.programs.finding import PRESETS
from logist.agents.programs.protocol import Finished, Result
from logist.agents.sandbox import Confinement, ProgramEnd
from logist.core.model import ErrorKind
from tests.endpoint import Endpoint
from tests.torture import agent_bench, agent_captures, agent_mcp
from tests.torture.agent_bench import RECIPES, Place
from tests.torture.agent_lures import plant
from tests.torture.lab import KEY, World, command
from tests.torture.suite import Case, Run, Skip

SLICE = {"llm": ("ok",), "claude": ("ok", "auth")}
"""The programs of the ordinary check, with the cases for each; the others are installed only for a full run.
"""
KINDS = {
    "refused": ErrorKind.REFUSED,
    "auth": ErrorKind.AUTH,
    "context": ErrorKind.BAD_REQUEST,
    "rate": ErrorKind.TRANSIENT,
    "server": ErrorKind.TRANSIENT,
    "empty": ErrorKind.TRANSIENT,
    "cut": ErrorKind.TRANSIENT,
    "hang": ErrorKind.TIMEOUT,
}
APPROVAL = 11
"""The exit code of a step that waits for a steward."""
LONG = 240.0
"""Seconds; opencode, cline, goose and aider retry for more than a minute."""
SHORT = 15.0
"""Seconds; longer than any program needs to send its first request."""
ENDING = 20.0
"""Seconds within which a stopped program and all its processes must have ended."""
CUT_AS_REFUSED = ("aider",)
"""Programs that may report a cut answer as a refused connection, depending on their library."""
SILENT_CUT = ("gemini",)
"""Programs that do not report that an answer was cut."""
TOOLLESS = ("llm", "aider")
HALTED = 7
"""The exit code of a step that reached a limit."""
_LOOK = '(env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; grep -rs . "$HOME") > seen.txt 2>&1'
LOOK = f"echo {base64.b64encode(_LOOK.encode()).decode()} | base64 -d | sh"
"""A command that reads what a program can know about its key; some programs refuse one that names other
directories, or one with `$( )`."""
PROVIDED = (
    ("claude", "anthropic/claude-sonnet-4-5"),
    ("codex", "openai/gpt-5-codex"),
    ("gemini", "gemini/gemini-2.5-pro"),
    ("goose", "openai/gpt-5"),
    ("opencode", "gemini/gemini-2.5-flash"),
    ("aider", "anthropic/claude-sonnet-4-5"),
    ("aider", "gemini/gemini-2.5-flash"),
    ("mini", "anthropic/claude-sonnet-4-5"),
    ("mini", "gemini/gemini-2.5-pro"),
)
"""Models that programs call without an `endpoint`, by their provider: some use its own format then, some another one."""
PATHS = {"anthropic": "", "gemini": "/v1beta/openai", "openai": "/v1"}
"""The paths of the providers' own addresses."""
SUBAGENT = {"subagent_type": "Explore", "description": "look", "prompt": "Look around.", "model": "haiku"}
"""A task for which Claude Code wants another model than that of the step."""
INPUT_PRICE, OUTPUT_PRICE = 50, 200
"""Of the models of a `World`, in microcents for a token; cached ones cost the same."""
CENTS = 10
NEARLY_ALL = {"input": 195_000, "output": 50}
"""Leaves too little of that many cents for any further request."""


class Came(NamedTuple):
    """The result of one run."""

    ended: ProgramEnd
    result: Result
    wrote: bool
    left: list[str]
    """Command lines of processes that still ran after it."""


def program_case(name: str) -> Callable[[Run], None]:
    """All cases for one program."""

    def case(run: Run) -> None:
        if not run.full and name not in SLICE:
            raise Skip("in a full run only")
        place = agent_bench.installed(name)
        for what in [*agent_captures.CASES[:2], *KINDS, "truncated"] if run.full else SLICE[name]:
            run.say(f"  {name}/{what}")
            came = once(run.scratch / f"{name}-{what}", place, name, what, SHORT if run.full else SHORT / 2)
            run.check(list(wrong(name, what, came)), f"{name}/{what}")
        run.say(f"  {name}/logist")
        run.check(list(through_logist(run.scratch / f"{name}-logist", place, name)), f"{name}/logist")
        run.say(f"  {name}/lured")
        run.check(list(lured(run.scratch / f"{name}-lured", place, name)), f"{name}/lured")
        if name not in TOOLLESS and (run.full or name == "claude"):
            run.say(f"  {name}/stopped")
            run.check(list(stopped(run.scratch / f"{name}-stopped", place, name)), f"{name}/stopped")

    return case


def gate_case(run: Run) -> None:
    """Every program, when the gate lets no more requests pass; and with models that have no `endpoint`."""
    for name in RECIPES if run.full else SLICE:
        run.say(f"  {name}/capped")
        place = agent_bench.installed(name)
        run.check(list(capped(run.scratch / f"{name}-capped", place, name)), f"{name}/capped")
    for name, model in PROVIDED if run.full else PROVIDED[:1]:
        run.say(f"  {name}/{model}")
        place = agent_bench.installed(name)
        scratch = run.scratch / f"{name}-{model.replace('/', '-')}"
        run.check(list(provided(scratch, place, name, model)), f"{name}/{model}")


def once(scratch: Path, place: Place, name: str, what: str, short: float) -> Came:
    """Run a program once in the sandbox; a case that hangs is stopped after `short` seconds."""
    with agent_captures.endpoint(name, what, scratch / "workspace") as (_, url):
        deadline = short if what == "hang" else LONG
        return _run(scratch, place, name, url, what, deadline, lambda: False)


def wrong(name: str, what: str, came: Came) -> Iterator[str]:
    """Yield the problems after such a run."""
    error, result = came.result.error, came.result
    if what in KINDS:
        told = error.kind if error else None
        either = what == "cut" and name in CUT_AS_REFUSED and told is ErrorKind.REFUSED
        if told != KINDS[what] and not either:
            yield f"it is reported as {told}: {error or result.text[:100]} ({came.ended})"
    elif error:
        yield f"an error: {error} ({came.ended})"
    if what == "truncated" and name not in SILENT_CUT and result.finish != "length":
        yield f"an answer that was cut ends with {result.finish}"
    if what in ("ok", "denied") and not error and agent_captures.COMMAND not in result.text:
        yield f"the exit command is not in: {result.text[:200]}"
    if what == "ok" and name != "llm" and not came.wrote:
        yield "the file was not written"
    if what == "denied" and came.wrote:
        yield "a reader wrote a file"
    if came.left:
        yield f"left running: {came.left}"


def lured(scratch: Path, place: Place, name: str) -> Iterator[str]:
    """Settings in the workspace name another server: it must get no request, and the work must be done
    anyway.
    """
    with Endpoint({"text": "ok"}) as elsewhere:
        with agent_captures.endpoint(name, "ok", scratch / "workspace") as (_, url):
            came = _run(
                scratch, place, name, url, "ok", LONG, lambda: False, partial(plant, base=elsewhere.base)
            )
        asked = [
            (request["path"], any(agent_bench.KEY in str(value) for value in request["headers"].values()))
            for request in elsewhere.requests
        ]
    if asked:
        yield f"{len(asked)} requests went elsewhere (path, with its key): {asked[:3]}"
    yield from wrong(name, "ok", came)


def stopped(scratch: Path, place: Place, name: str) -> Iterator[str]:
    """Stop the program while a command of its model runs: all its processes must end."""
    line = f"tail -s 31{len(name)}7 -f /dev/null"  # some refuse a long `sleep`
    steps: dict[str, Any] = {"calls": [{"shell": line}]}
    with Endpoint(steps, workspace=str(scratch / "workspace")) as endpoint:
        seen: list[float] = []

        def stop() -> bool:
            if not seen and _running(line):
                seen.append(time.monotonic())
            return bool(seen)

        came = _run(scratch, place, name, endpoint.url, "stopped", 2 * SHORT, stop)
        took = time.monotonic() - seen[0] if seen else 0.0
    if not seen:
        yield f"its command never ran: {came.ended} {came.result.error}"
    elif came.ended.how != "stopped" or took > ENDING:
        yield f"it ended in another way: {came.ended}, after {took:.0f} s"
    if came.result.error is None or came.result.error.kind != ErrorKind.TRANSIENT:
        yield f"it is reported as {came.result.error}"
    if still := _running(line) + came.left:
        yield f"left running: {still}"


def through_logist(scratch: Path, place: Place, name: str) -> Iterator[str]:
    """A job with this agent: the courier runs it in the sandbox and its requests through the gate, its exact cost is
    recorded, it never has the key, and the job waits for approval.
    """
    steps = agent_captures.ok(name) if name != "llm" else [{"text": command(), "usage": agent_captures.USAGE}]
    if name not in TOOLLESS:
        steps = [{"calls": [{"shell": LOOK}]}, *steps]
    if name == "claude":
        steps = [{"calls": [{"tool": ["Task", SUBAGENT]}]}, {"text": "An empty directory."}, *steps]
    world, endpoint, said = _step(scratch, place, name, steps)
    if [code for code, _ in said] != [0, APPROVAL]:
        yield f"it does not reach approval: {said}"
        return
    yield from _misbooked(world, endpoint, "gate")
    if name != "llm" and not (world.folder / "workspace" / "hello.txt").exists():
        yield "the file was not written"
    if name not in TOOLLESS and "LOGIST_RUN_ID" not in _read(world.folder / "workspace" / "seen.txt"):
        yield "it did not look for the key"
    if any(KEY.encode() in path.read_bytes() for path in world.folder.rglob("*") if path.is_file()):
        yield "the key lies in the job"


def capped(scratch: Path, place: Place, name: str) -> Iterator[str]:
    """The job has nearly nothing left after the first answer: the program gets no second one, and ends; the job halts,
    with the work and the exact cost.
    """
    steps = [agent_captures.WRITES | {"usage": NEARLY_ALL}, agent_captures.SAYS]
    cents = 0.01 if name in TOOLLESS else CENTS  # these make only one request
    world, endpoint, said = _step(scratch, place, name, steps, f"limits:\n  cost_threshold: {cents}\n")
    if [code for code, _ in said] != [0, HALTED]:
        yield f"it does not halt: {said}"
        return
    if endpoint.taken != (0 if name in TOOLLESS else 1):
        yield f"{endpoint.taken} requests were answered"
    if name not in TOOLLESS:
        yield from _misbooked(world, endpoint, "gate")
        if not (world.folder / "workspace" / "hello.txt").exists():
            yield "its work is lost"


def provided(scratch: Path, place: Place, name: str, model: str) -> Iterator[str]:
    """The model has no `endpoint`: the gate finds the address of its provider, in the format that the program uses."""
    world, endpoint, said = _step(scratch, place, name, agent_captures.ok(name), provided_model=model)
    if [code for code, _ in said] != [0, APPROVAL]:
        yield f"it does not reach approval: {said}"
        return
    yield from _misbooked(world, endpoint, "gate")


def _configure_provider(base: str, model: str) -> str:
    """Return the settings of a model without an endpoint, whose provider is at `base`."""
    provider = model.partition("/")[0]
    entry = {"provider_model": model, "api_key_env": "MY_MODEL", "input_price": 0.5, "output_price": 2.0}
    protocol = "anthropic" if provider == "anthropic" else "openai"
    address = {"base_url": base + PATHS[provider], "api_key_env": "MY_MODEL", "protocol": protocol}
    settings = {"model": "m", "models": {"m": entry}, "providers": {provider: address}}
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in settings.items())


def _step(
    scratch: Path,
    place: Place,
    name: str,
    steps: list[dict[str, Any]],
    settings: str = "",
    provided_model: str = "",
) -> tuple[World, Endpoint, list[tuple[int, str]]]:
    """Create a job for this agent and do its step; return also what both commands said."""
    scratch.mkdir()
    with Endpoint(*steps, workspace=str(scratch / "w/.logist/jobs/j/workspace")) as endpoint:
        world = World.made(scratch / "w").paid_by(endpoint.url, None)
        config = (
            world.place / "home" / ".config" / "logist" / "config.yaml"
        )  # settings of a project need trust
        config.parent.mkdir(parents=True, exist_ok=True)
        readable = json.dumps([str(root) for root in place.roots])
        more = f"agent: {name}\nreview: false\nsandbox:\n  readable: {readable}\n{settings}"
        if provided_model:
            more += _configure_provider(endpoint.base, provided_model)
            (world.home / "config.yaml").write_text("", "utf-8")
        config.write_text(more, "utf-8")
        env = world.env | {"PATH": place.path}
        codes = [
            subprocess.run(world.argv(*words), cwd=world.place, env=env, capture_output=True, check=False)
            for words in (
                ("job", "create", "--id", "j", "--no-repo", "--prompt", "Write it."),
                ("job", "step", "j"),
            )
        ]
    return (
        world,
        endpoint,
        [(done.returncode, done.stderr.decode("utf-8", "replace")[-300:]) for done in codes],
    )


def _misbooked(world: World, endpoint: Endpoint, source: str) -> Iterator[str]:
    """Yield what differs between the requests that the endpoint answered and those that were recorded."""
    usage = world.history()[-1]["usage"]
    booked = usage.get("cost_microcents", 0) + 1_000_000 * usage.get("cost_cents", 0)
    exact = sum(read * INPUT_PRICE + written * OUTPUT_PRICE for read, _, written in endpoint.answered)
    if (booked, usage.get("source"), usage.get("calls")) != (exact, source, len(endpoint.answered)):
        yield f"{len(endpoint.answered)} requests that cost {exact} are booked as {usage}"
    models = {request["body"].get("model") or request["path"] for request in endpoint.requests}
    if len(models) != 1:
        yield f"it asked several models: {models}"
    if not all(any(KEY in value for value in request["headers"].values()) for request in endpoint.requests):
        yield "a request without the key of the model"


def _read(path: Path) -> str:
    return path.read_text("utf-8", "replace") if path.exists() else ""


def _run(
    scratch: Path,
    place: Place,
    name: str,
    url: str,
    what: str,
    deadline: float,
    stop: Callable[[], bool],
    plant: Callable[[Path], None] = lambda workspace: None,
) -> Came:
    program = PRESETS[name]
    profile = agent_captures.PROFILES.get(what, "full")
    order = agent_bench.run_of(
        scratch, place, url, agent_captures.PROMPT, profile=profile, deadline_seconds=deadline
    )
    plant(order.workspace)
    invocation = program.invocation(order)
    agent_bench.write_files(order.home, invocation.files)
    marker = f"{name}-{what}-{time.monotonic_ns()}"
    confinement = Confinement(
        workspace=order.workspace,
        writable=profile != "read",
        home=order.home,
        environment=agent_bench.environment(order, invocation),
        network=True,
        readable=place.roots,
    )
    out, err = scratch / "stdout", scratch / "stderr"
    ended = sandbox.run_program(
        invocation.argv,
        confinement,
        stdin=invocation.stdin,
        stdout=out,
        stderr=err,
        deadline_seconds=deadline,
        marker=marker,
        stop=stop,
    )
    finished = Finished(
        status=ended.status,
        how=ended.how,
        stdout=out.read_text("utf-8", "replace"),
        stderr=err.read_text("utf-8", "replace"),
        files=agent_bench.results(order.home, invocation.results),
        signal=ended.signal,
        cut=ended.output_cut,
    )
    wrote = (order.workspace / "hello.txt").exists()
    return Came(ended, program.read(finished), wrote, _marked(marker))


def _running(line: str) -> list[str]:
    """Return the processes with exactly this command line."""
    return [found for _, found in _processes("cmdline") if found.strip() == line]


def _marked(marker: str) -> list[str]:
    """Return the processes with this marker in their environment."""
    return [found[:80] for _, found in _processes("environ") if marker in found]


def _processes(file: str) -> Iterator[tuple[str, str]]:
    for path in Path("/proc").glob(f"[0-9]*/{file}"):
        try:
            yield path.parent.name, path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue


CASES = (
    *(Case(name, "runs", 13 if name in TOOLLESS else 14, program_case(name)) for name in RECIPES),
    Case("gate", "runs", len(RECIPES) + len(PROVIDED), gate_case),
    Case("mcp", "runs", len(agent_mcp.PROGRAMS), agent_mcp.mcp_case),
)
