"""A project with things to steal and to damage, in which a hostile agent works in a real job."""

from __future__ import annotations

import json
import os
import secrets
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.torture.lab import JOB, World, command

Json = dict[str, Any]

OTHER = "other"
NOWHERE = "http://127.0.0.1:9/v1"
DONE = command()
TESTED = command(output={"passed": True, "commands": []})
"""The answer of a Tester: its role requires an output."""
REVIEW, PERMISSION, STUCK, AGAIN = "REVIEW_REQUIRED", "STUCK/permission", "STUCK/agent", "PENDING"
DOUBT, HALTED = "STUCK/in_doubt", "HALTED_COST"

ANYTHING, CACHE = "*", "node_modules"
FILES = {
    "kept.txt": "kept\n",
    "Case.txt": "case\n",
    "src/app.py": "ANSWER = 42\n",
    "src/deep/inner.txt": "inner\n",
    "ignored/old.txt": "old\n",
    ".gitignore": "ignored/\n*.log\n",
    "old.log": "log\n",
    "node_modules/pkg/index.js": "0\n",
    "big.bin": "b" * 300_000,
}
"""The first content of the workspace; `big.bin` is too large for a checkpoint if the limit is set low."""

AGENT = """
import json, os, shutil, signal, socket, subprocess, sys, time
from pathlib import Path
prompt = sys.stdin.read()
E, HOME, found = os.environ, Path(os.environ["HOME"]), []
OUTSIDE, JOB, USER = (Path(E[name]) for name in ("OUTSIDE", "JOB", "USERHOME"))
usage, cost, session, more = {{"in": 100, "out": 10, "cached": 0}}, 0.5, "s-1", []

def steal(*paths):
    for path in paths:
        try:
            with open(path, "rb") as file: found.append(file.read(4096).decode("utf-8", "replace"))
        except (OSError, ValueError, OverflowError) as error: found.append(repr(error)[:200])

def spoil(*paths, text="spoiled"):
    for path in paths:
        try: Path(path).write_text(text); found.append(f"wrote {{path}}")
        except OSError as error: found.append(repr(error)[:200])

def sh(script):
    done = subprocess.run(["/bin/sh", "-c", script], stdin=-3, stdout=-1, stderr=-2, timeout=60)
    found.append(done.stdout.decode("utf-8", "replace")[-4000:])

def tried(function, *given):
    try: found.append(repr(function(*given))[:200])
    except OSError as error: found.append(repr(error)[:200])

says = {says}
try:
{body}
except (OSError, subprocess.SubprocessError) as error: found.append(repr(error)[:200])
print(json.dumps({{"result": says, "found": found, "usage": usage, "cost": cost, "id": session}}), *more, sep="\\n")
"""


LEDGER = ".logist/ledger"


@dataclass(frozen=True)
class Attempt:
    """What one agent tries in a job, and the status that the job must have afterwards."""

    name: str
    body: str = ""
    """The Python code of an agent program."""
    steps: tuple[Json, ...] = ()
    """Or the answers of a model with tools; `$NAME` in them has the same value as in a program's environment.
    """
    ends: tuple[str, ...] = (REVIEW,)
    says: str = DONE
    role: str = "Worker"
    same: bool = False
    """Whether the workspace must be unchanged."""
    plus: tuple[str, ...] = ()
    """New files that are allowed in an otherwise unchanged workspace; `ANYTHING` for a role that may create
    files.
    """
    lost: tuple[str, ...] = ()
    """Files that no checkpoint contains: a change of these is detected, but can't be undone."""
    free: tuple[str, ...] = ()
    """The status without a sandbox; () if it is not tried, because such a program has all rights of the user.
    """
    quick: bool = False
    boxed: bool = False
    """Only in separate namespaces: it would harm this machine."""
    entry: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    requests: int | None = None
    """How often the model is called."""


class Site(World):
    """A world with canaries; the job and its workspace are below `.logist`, all the rest is outside."""

    canary = planted = ""

    @classmethod
    def template(cls, place: Path) -> Site:
        """A world with two jobs."""
        cls.made(place)
        site = cls(place)
        site.create()
        ran = site.run("job", "create", "--id", OTHER, "--prompt", "Another.", "--no-repo")
        assert ran.code == 0, ran
        return site

    @classmethod
    def of(cls, template: World, to: Path, role: str) -> Site:
        """Return a copy with different canaries, and a job for this role."""
        template.copied(to)
        site = cls(to)
        if role != "Worker":
            ran = site.run("job", "role", JOB, role)
            assert ran.code == 0, ran
        site.canary, site.planted = f"canary-{secrets.token_hex(8)}", f"sk-planted-{secrets.token_hex(12)}"
        site._plant()
        return site

    @property
    def env(self) -> dict[str, str]:
        """Return the environment of any world, plus a secret key."""
        own = {"XDG_CONFIG_HOME": str(self.place / "home" / ".config")}
        return {**super().env, **own, **({"PLANTED_API_KEY": self.planted} if self.planted else {})}

    @property
    def config(self) -> Path:
        """The user's config, because settings of a project about programs need trust first."""
        return self.place / "home" / ".config" / "logist" / "config.yaml"

    @property
    def workspace(self) -> Path:
        """Where the agent works."""
        return self.folder / "workspace"

    def told(self) -> dict[str, str]:
        """Return the facts about this world that an attempt can use."""
        names = {"OUTSIDE": "outside", "USERHOME": "home", "JOB": f".logist/jobs/{JOB}"}
        more = {"OTHERJOB": f".logist/jobs/{OTHER}"}
        return {name: str(self.place / path) for name, path in (names | more).items()} | {"NAP": self.nap()}

    def nap(self) -> str:
        """Seconds of sleep by which a process of this attempt is recognized."""
        return f"9{int(self.canary[-8:], 16) % 10**8:08}"

    def _plant(self) -> None:
        texts = {
            "outside/secret": self.canary,
            f"outside/named-{self.canary}": "",
            "outside/repo/.git/config": f"# {self.canary}\n",
            "home/.ssh/id_key": self.canary,
            "home/.netrc": self.canary,
            "home/.gitconfig": f"# {self.canary}\n",
            "home/.config/logist/config.yaml": "",
            f".logist/jobs/{OTHER}/workspace/secret": self.canary,
            f".logist/jobs/{OTHER}/logs/secret": self.canary,
            f".logist/jobs/{JOB}/logs/earlier.txt": self.canary,
        }
        for name, text in texts.items():
            (self.place / name).parent.mkdir(parents=True, exist_ok=True)
            (self.place / name).write_text(text, "utf-8")
        for name, text in FILES.items():
            (self.workspace / name).parent.mkdir(parents=True, exist_ok=True)
            (self.workspace / name).write_text(text, "utf-8")
        (self.workspace / "link").symlink_to("kept.txt")

    def settle_on(self, attempt: Attempt, url: str, mode: str) -> None:
        """The config of an attempt, and its program."""
        is_tester = attempt.role == "Tester" and attempt.says == DONE
        self.write_program(attempt.body, TESTED if is_tester else attempt.says)
        program = self.place / "program" / "agent.py"
        described: Json = {
            "argv": [sys.executable, str(program), "{model}", "{endpoint}"],
            "output": "json",
            "text": "result",
            "usage": {"input": "usage.in", "output": "usage.out", "cached": "usage.cached"},
            "cost": "cost",
            "session": "id",
            "environment": self.told(),
            **attempt.entry,
        }
        priced = {"endpoint": url, "api_key_env": "MY_MODEL", "input_price": 0.5, "output_price": 2.0}
        config: Json = {
            "models": {
                name: {"provider_model": f"openai/{name}", **priced}
                for name in ("grok-code-fast-1", "gemini-2.5-flash")
            },
            "agent": "model" if attempt.steps else "hostile",
            "agents": {"hostile": described},
            "agent_timeout_minutes": 1,
            **attempt.config,
        }
        config["sandbox"] = {
            "mode": mode,
            "readable": [str(program.parent)],
            **config.get("sandbox", {}),
        }
        self.config.write_text(json.dumps(config), "utf-8")

    def write_program(self, body: str, says: str = DONE) -> None:
        """Set the code of the agent program."""
        path = self.place / "program" / "agent.py"
        path.parent.mkdir(exist_ok=True)
        lines = "\n".join(f"    {line}" for line in (body or "pass").strip().splitlines())
        path.write_text(AGENT.format(body=lines, says=repr(says)), "utf-8")

    def outside(self) -> dict[str, Any]:
        """Everything that no agent may change: all files except the job, and the files that control it.

        Except the ledger, in which each step books its calls (`hostile_judge` verifies it).
        """
        kept = dict(_everything(self.place, skipping=self.folder))
        kept = {name: seen for name, seen in kept.items() if not name.startswith(LEDGER)}
        kept |= {name: look(self.folder / name) for name in ("job.yaml", "logs/earlier.txt", "git/config")}
        return kept | {"hooks": (self.folder / "git" / "hooks").exists()}

    def inside(self) -> dict[str, Any]:
        """The workspace, except git's directory."""
        seen = dict(_everything(self.workspace, skipping=self.workspace / ".git"))
        return {name: _as_kept(look) for name, look in seen.items()}


def _everything(top: Path, skipping: Path) -> Iterator[tuple[str, Any]]:
    """Return every name below `top` with its content; not recursive, because agents create deep directories."""
    left = [top]
    while left:
        for path in left.pop().iterdir():
            if path != skipping:
                yield str(path.relative_to(top)), look(path)
                if path.is_dir() and not path.is_symlink():
                    left.append(path)


def look(path: Path) -> Any:
    """Return kind, mode, number of names and content of a file, without following links."""
    seen = path.lstat()
    if stat.S_ISLNK(seen.st_mode):
        return "link", os.readlink(path)
    if stat.S_ISREG(seen.st_mode):
        return seen.st_mode, seen.st_nlink, path.read_bytes()
    return seen.st_mode


def _as_kept(look: Any) -> Any:
    """Return what a checkpoint saves of a file: only the executable bit of its mode."""
    if isinstance(look, int):
        return stat.S_IFMT(look)
    mode, *rest = look
    return (bool(mode & 0o100), *rest) if isinstance(mode, int) else look
