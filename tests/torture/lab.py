"""A world to torture: a project with one job, ways to run Logist in it, and checks that must always pass."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from logist.agents.protocol import MODEL
from logist.config.environment import Environment
from logist.config.settings import load_settings
from logist.config.trust import Trust
from logist.jobs.base import job_reader
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.project_opening import create_clock
from logist.resources import find_resource
from logist.roles import load_roles
from logist.store import JobDir
from tests import support
from tests.loopback import Loopback

Json = dict[str, Any]

JOB = "j"
KEY = "dummy-key-for-tests-0001"
WAITING = (0, 3, 4, 7, 8, 11)
"""Exit codes that report the status of a job; all others are errors."""

READING = ("status", "show", "history", "preview")
"""Commands that only read; `verify` and `replay` must end with 0."""


def command(action: str = "COMPLETED", summary: str = "Done.", **more: Any) -> str:
    """An exit command as an agent writes it."""
    return json.dumps({"action": action, "evidence_files": [], "summary_for_supervisor": summary, **more})


class World:
    """A directory with `.logist` in it. Everything in it is relative to `place`, so a copy is a world too."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.home = place / ".logist"
        self.jobs = self.home / "jobs"
        self.python = sys.executable

    @classmethod
    def made(cls, place: Path, answers: Sequence[str] = (), config: str = "") -> World:
        """A new world without jobs. `answers`: the answers of the scripted agent in order; without them, use
        `paid_by`.
        """
        world = cls(place)
        world.home.mkdir(parents=True)
        (place / "home").mkdir()
        (world.home / "config.yaml").write_text(config, "utf-8")
        world._set_for_user("min_free_bytes: 0\n")  # some disks are small
        if answers:
            script = json.dumps({"answers": [{"text": text} for text in answers]})
            (place / "answers.json").write_text(script, "utf-8")
        return world

    def paid_by(self, url: str, agent: str | None = MODEL) -> World:
        """Call the models at `url` from now on, over HTTP, through a courier; None: the user's config names
        the agent.
        """
        lines = [*([f"agent: {agent}"] if agent else []), "models:"]
        for name in ("grok-code-fast-1", "gemini-2.5-flash"):
            lines += [f"  {name}:", f"    provider_model: openai/{name}", f"    endpoint: {url}"]
            lines += ["    api_key_env: MY_MODEL", "    input_price: 0.5", "    output_price: 2.0"]
        (self.home / "config.yaml").write_text("\n".join(lines) + "\n", "utf-8")
        return self

    def unconfined(self) -> World:
        """Use no sandbox from now on: its system calls are not of interest here."""
        self._set_for_user("sandbox: {mode: 'off'}\nmin_free_bytes: 0\n")
        return self

    def _set_for_user(self, text: str) -> None:
        user = self.place / "home" / ".config" / "logist"
        user.mkdir(parents=True, exist_ok=True)
        (user / "config.yaml").write_text(text, "utf-8")

    @property
    def env(self) -> dict[str, str]:
        """The complete environment of a command."""
        values = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.place / "home"),
            "XDG_CONFIG_HOME": str(self.place / "home" / ".config"),  # the tests around may have one
            "LANG": "C.UTF-8",
            "LOGIST_STEWARD": "ada",
            "MY_MODEL": KEY,
            "GIT_CONFIG_NOSYSTEM": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if (self.place / "answers.json").exists():
            values["LOGIST_AGENT"] = f"scripted:{self.place / 'answers.json'}"
        return values

    @property
    def folder(self) -> Path:
        """The directory of the one job."""
        return self.jobs / JOB

    @property
    def job(self) -> JobDir:
        return JobDir.open(self.jobs, JOB)

    def copied(self, to: Path) -> World:
        """The same world in another directory."""
        shutil.copytree(self.place, to, symlinks=True)
        world = World(to)
        world.python = self.python
        return world

    def argv(self, *args: str) -> list[str]:
        """Return the command line of `logist ARGS`, for a separate process."""
        return [self.python, "-m", "logist", *args]

    def started(self, *args: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start `logist ARGS` as a process and do not wait for it; its output is dropped by default."""
        nowhere = subprocess.DEVNULL
        pipes: Json = {"stdin": nowhere, "stdout": nowhere, "stderr": nowhere, **options}
        process: Any = subprocess.Popen(self.argv(*args), cwd=self.place, env=self.env, **pipes)
        started: subprocess.Popen[bytes] = process
        return started

    def run(self, *args: str, stdin: str = "") -> support.Ran:
        """Run `logist ARGS` in this process, which is faster. Not for runs with a kill or a courier."""
        return support.run_in_process(*args, stdin=stdin, env=self.env, cwd=self.place)

    def create(self, *args: str) -> World:
        """The one job."""
        ran = self.run("job", "create", "--id", JOB, "--prompt", "Do it.", "--no-repo", *args)
        assert ran.code == 0, ran
        return self

    def project(self) -> ProjectContext:
        """The project, for use of the library instead of the command line."""
        environment = Environment(self.env)
        settings = load_settings(self.home, self.place / "home").settings
        return ProjectContext(
            home=self.home,
            jobs_dir=self.jobs,
            settings=settings,
            roles=load_roles([find_resource("roles")]),
            environment=environment,
            clock=create_clock(),
            steward="ada",
            agent=environment.agent_name() or settings.agent,
            say=lambda text: None,
            trust=Trust(self.place / "home", self.home),
        )

    def history(self) -> list[Json]:
        """Return every entry, verified."""
        return list(self.job.read_entries())

    def state(self) -> Json:
        """Return state.json as it is on disk."""
        state = self.job.read_state()
        assert state is not None
        return state


def broken(world: World) -> list[str]:
    """Return the problems of the job: [] if every reading command works, and history and state agree.

    Writes nothing. A state that is only behind the history is allowed.
    """
    problems = []
    for name in READING:
        ran = world.run("job", name, JOB)
        if ran.code not in WAITING:
            problems.append(f"job {name} ends with {ran.code}: {ran.err.strip()}")
    for name in ("verify", "replay"):
        ran = world.run("job", name, JOB)
        if ran.code != 0 and not (name == "verify" and heals(world)):
            problems.append(f"job {name} ends with {ran.code}: {ran.out.strip()} {ran.err.strip()}")
    return problems


def heals(world: World) -> bool:
    """Whether `verify` finds only an incomplete append that was never acknowledged: the next append removes
    it.
    """
    found = job_reader.verify_job(world.project(), world.job)
    return bool(found.problems) and all(problem == found.proof.ending for problem in found.problems)


def broken_files(world: World) -> list[str]:
    """The same, with the library only: for many thousands of states."""
    found = job_reader.verify_job(world.project(), world.job)
    return [problem.message for problem in found.problems]


def lost(world: World, acknowledged: Sequence[Json]) -> list[str]:
    """Return acknowledged interactions that are missing or changed."""
    now = {entry["sequence"]: entry["checksum"] for entry in world.history()}
    return [
        f"interaction {entry['sequence']} is gone or changed"
        for entry in acknowledged
        if now.get(entry["sequence"]) != entry["checksum"]
    ]


@contextmanager
def paid_server(*steps: Json) -> Iterator[Loopback]:
    """A model server on 127.0.0.1 that charges for each request: `requests` is its ledger."""
    with Loopback(*(steps or ({"text": command(), "usage": {"input": 10, "output": 10}},))) as server:
        yield server


def own_python(place: Path) -> tuple[str, Path]:
    """Create an interpreter like this one, with a separate directory for packages; return both paths."""
    venv.create(place, symlinks=True, with_pip=False)
    site = next(place.glob("lib/python*/site-packages"))
    ours = [path for path in sys.path if path.endswith("site-packages")]
    (site / "others.pth").write_text("\n".join([*ours, str(support.ROOT)]) + "\n", "utf-8")
    return str(place / "bin" / "python"), site


def standin_python(place: Path) -> str:
    """An interpreter like this one, in which `litellm` is a stand-in that loads immediately.

    The real package takes seconds to load. The stand-in makes the same HTTP request and returns the same
    objects, so that many paid steps can be killed; the real package is used at a sample of the points.
    """
    python, site = own_python(place)
    shutil.copytree(Path(__file__).with_name("standin") / "litellm", site / "litellm")
    return python
