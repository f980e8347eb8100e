"""Hostile agents: commands, paths, answers and texts that try to escape, and agents that try it in a real
job.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from logist.agents import sandbox
from logist.agents.sandbox import launcher
from logist.core.model import EVERYTHING
from tests.cli import test_hostile_answers as answers_told
from tests.cli import test_hostile_text as texts_told
from tests.cli.desk import Desk, answer
from tests.shell.agents import test_tools_paths as tools_told
from tests.shell.agents.tool_bench import bench
from tests.support import ROOT, run_in_process
from tests.torture import hostile_calls, hostile_paths, hostile_programs, hostile_roles, hostile_stage
from tests.torture.crowd_forks import Forks
from tests.torture.hostile_commands import ATTEMPTS as COMMANDS
from tests.torture.hostile_judge import attempted
from tests.torture.hostile_site import Attempt, Site
from tests.torture.hostile_texts import faults
from tests.torture.suite import Case, Run, Skip

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
SYSTEM_PYTHON = "/usr/bin/python3"
STAGE_KEY = "sk-stage-0123456789"
FEW = ("read-symlink", "write-hard-link", "left-twice-forked")
"""Hostile commands in the slice: tests/shell has a larger one."""
AS_IT_IS = ("config",)
"""Copies a file unchanged to an output that is not a terminal."""
TIMED = 1200.0
"""Seconds that all commands of one kind and user may take."""


def commands(run: Run) -> None:
    """Every hostile command in every sandbox that works here, as this user and, if that is root, also as the
    user `nobody`.
    """
    kinds = _kinds()
    if not kinds:
        raise Skip("no sandbox works here: " + "; ".join(sandbox.detect_sandbox().details))
    who = [False, *([True] if _nobody_can() else [])]
    for kind in kinds if run.full else kinds[:1]:
        for nobody in who if run.full else who[:1]:
            wanted = [each.name for each in COMMANDS if kind not in each.gaps]
            names = wanted if run.full else [name for name in wanted if name in FEW]
            run.say(f"  {kind}, as {'nobody' if nobody else 'this user'}: {len(names)}")
            for name, problems in _tried(kind, names, nobody=nobody, scratch=run.scratch):
                run.check(problems, f"{name}, {kind}, {'nobody' if nobody else 'self'}")
    run.notes.append(f"{', '.join(kinds)}; {'also as nobody' if who[1:] else 'as one user'}")


def _kinds() -> list[str]:
    found = sandbox.detect_sandbox().kind
    landlock = ["landlock"] if launcher.read_landlock_version() >= launcher.SCOPES_SINCE else []
    return [*(["bubblewrap"] if found == "bubblewrap" else []), *landlock]


def _nobody_can() -> bool:
    if os.getuid() != 0 or not Path(SYSTEM_PYTHON).exists():
        return False
    look = "import sys; assert sys.version_info >= (3, 11); import tests.torture.hostile_stage"
    argv = [*NOBODY, SYSTEM_PYTHON, "-B", "-c", look]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, check=False).returncode == 0


def _tried(
    kind: str, names: Sequence[str], *, nobody: bool, scratch: Path
) -> Iterator[tuple[str, list[str]]]:
    """Yield `(name, problems)` for each attempt; a process with a key in its environment runs them."""
    python = [*NOBODY, SYSTEM_PYTHON] if nobody else [sys.executable]
    environment = {
        "PATH": hostile_stage.PATH,
        "TMPDIR": "/tmp" if nobody else str(scratch),
        "PYTHONDONTWRITEBYTECODE": "1",
        hostile_stage.KEY: STAGE_KEY,
    }
    done = subprocess.run(
        [*python, "-m", "tests.torture.hostile_stage", kind, *names],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        timeout=TIMED,
        check=False,
    )
    lines = {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}
    for name in names:
        if name not in lines:
            yield name, [f"it was not tried: {done.stderr.decode('utf-8', 'replace')[-500:]}"]
        else:
            other = [] if lines[name]["sandbox"] == kind else [f"held by {lines[name]['sandbox']}"]
            yield name, [*lines[name]["problems"], *other]


def paths(run: Run) -> None:
    """Every tool that takes a path, with every hostile path."""
    calls = [(tool, path) for tool in tools_told.FAMILIES for path in hostile_paths.EVERY]
    for number, (tool, path) in enumerate(run.some(calls, 60)):
        place = run.scratch / str(number)
        hostile_paths.plant(place / "workspace", place / "outside")
        run.check(list(_path_problems(place, tool, path)), f"{tool} {path!r:.80}")
        shutil.rmtree(place)


def _path_problems(place: Path, tool: str, path: str) -> Iterator[str]:
    before = hostile_paths.canaries(place / "outside")
    outcome = bench(place, EVERYTHING).call(tool, path=path, **tools_told.FAMILIES[tool])
    refused = _refused(tool, path)
    if outcome.error != refused:
        yield f"{'accepted' if refused else 'refused'}: {outcome.content[:200]}"
    if hostile_paths.canaries(place / "outside") != before:
        yield "something outside was changed"
    if (place / "workspace/.git/config").read_text("utf-8") != hostile_paths.CANARY:
        yield "git's own directory was changed"
    if os.listdir(place / "workspace/.git") != ["config"]:
        yield "something was made in git's own directory"
    if hostile_paths.CANARY in outcome.content:
        yield "a canary was read"
    if outcome.refusal is not None:
        yield f"a bad path is an error, not a breach: {outcome.refusal}"


def _refused(tool: str, path: str) -> bool:
    """Whether this call must fail."""
    if path in hostile_paths.ODD:
        return tool not in ("write_file", "create_file")
    return not (tool == "delete_file" and path in tools_told.DELETABLE)


def answers(run: Run) -> None:
    """Every hostile answer in a complete job: it makes one step of the state machine, and changes nothing
    else.
    """
    for name in run.some(list(answers_told.EVERY), 2):
        desk = Desk(run.scratch / name, run_in_process)
        run.check(list(_answer_problems(desk, name)), name)
        shutil.rmtree(desk.place)


def _answer_problems(desk: Desk, name: str) -> Iterator[str]:
    desk.create("j2")
    desk.create("j1")
    before = answers_told.unchanged(desk)
    desk.script(answer({**answers_told.CLAIMS, **answers_told.STUCK}[name]))
    desk("job", "step", "j1")
    status, history = desk.state()["status"], desk.history()
    if status != answers_told.EVERY[name]:
        yield f"the job is {status}: {history[-1]['reason']}"
    if [(entry["kind"], entry["actor"]) for entry in history[1:]] != [("ask", "agent")]:
        yield f"recorded: {[entry['kind'] for entry in history]}"
    if answers_told.unchanged(desk) != before:
        yield "it changed more than its own job's state"
    for look in ("verify", "replay", "status"):
        if (code := desk("job", look, "j1").code) not in (0, 3, 11):
            yield f"job {look} ends with {code}"


def texts(run: Run) -> None:
    """Hostile texts in every text field, printed by every command, in a pipe and as JSON."""
    chosen = list(texts_told.CLASSES) if run.full else [texts_told.ALL]
    for number, name in enumerate(chosen):
        desk = Desk(run.scratch / str(number), run_in_process)
        for args, problems in _shown(desk, texts_told.CLASSES[name], full=run.full):
            run.check(problems, f"{name}: {' '.join(args)[:80]!r}")
        shutil.rmtree(desk.place, ignore_errors=True)
    run.notes.append(f"{len(chosen)} classes of texts")


def _shown(desk: Desk, text: str, *, full: bool) -> Iterator[tuple[list[str], list[str]]]:
    env = texts_told.steward(text)
    texts_told.made(desk, text)
    for args in texts_told.history(text):
        desk(*args, env=env)
    tries = chain(texts_told.looks(), texts_told.mistakes(text), texts_told.broken(desk, text))
    for args in tries if full else islice(tries, 8):  # the last ones damage the project before they read it
        ran = desk(*args, env=env)
        raw = {*texts_told.RAW, *AS_IT_IS}.intersection(args) and ran.code == 0
        shown = (ran.err if raw else ran.out + ran.err).encode("utf-8", "surrogatepass")
        yield args, [*faults(shown), *(["a surprise"] if ran.code == 1 else [])]


def _at_work(attempts: Sequence[Attempt]) -> Callable[[Run], None]:
    """A case in which agents try these in a job: in a sandbox, and without one if it is harmless."""

    def case(run: Run) -> None:
        kind = sandbox.detect_sandbox().kind
        if kind == "none":
            raise Skip("no sandbox works here: " + "; ".join(sandbox.detect_sandbox().details))
        template = Site.template(run.scratch / "template")
        tries = list(_tries(attempts, kind, full=run.full))
        with Forks(run.scratch / "errors") as forks:
            for number, (attempt, mode, ends) in enumerate(tries):
                site = Site.of(template, run.scratch / f"site{number}", attempt.role)
                problems = list(attempted(site, forks, attempt, mode=mode, ends=ends))
                run.check(problems, f"{attempt.name}, sandbox {mode}")
                run.say(f"  {number + 1} of {len(tries)}: {attempt.name}, {mode}: {problems or 'held'}")
                subprocess.run(["rm", "-rf", str(site.place)], check=True)
        bare = sum(mode == "off" for _, mode, _ in tries)
        run.notes.append(f"{len(tries) - bare:,} by {kind}, {bare:,} without a sandbox")

    return case


def _tries(
    attempts: Sequence[Attempt], kind: str, *, full: bool
) -> Iterator[tuple[Attempt, str, tuple[str, ...]]]:
    """Yield `(attempt, sandbox mode, allowed statuses of the job afterwards)`."""
    for attempt in attempts:
        if not (full or attempt.quick):
            continue
        if not (attempt.boxed and kind != "bubblewrap"):
            yield attempt, "required", attempt.ends
        if attempt.free and full:
            yield attempt, "off", attempt.free


CASES = (
    Case("commands", "attempts", 110, commands),
    Case("paths", "calls", 1400, paths),
    Case("answers", "answers", 50, answers),
    Case("texts", "listings", 1000, texts),
    Case("programs", "attempts in a job", 170, _at_work(hostile_programs.ATTEMPTS)),
    Case("roles", "attempts in a job", 240, _at_work(hostile_roles.ATTEMPTS)),
    Case("models", "attempts in a job", 125, _at_work(hostile_calls.ATTEMPTS)),
)
