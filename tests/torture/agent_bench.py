"""Real agent programs: installs them, and runs one against a model server on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from logist.agents.programs.finding import PRESETS
from logist.agents.programs.protocol import Finished, How, Invocation, Profile, Program, Run
from logist.agents.workplace import read_proxies
from logist.core.model import Model
from tests.support import ROOT
from tests.torture.suite import Skip

KEY = "dummy-key-for-tests-0001"
DIRECTORY = "LOGIST_AGENTS"
"""The environment variable with the directory where programs are installed."""
BUNDLED = "lib/python3*/site-packages/claude_agent_sdk/_bundled"
"""The path of the `claude` binary in its package."""
INSTALLING = 1800.0
"""Maximum seconds for an installation."""


class Recipe(NamedTuple):
    """How a program is installed; the versions are those of the captures."""

    registry: Literal["npm", "pip"]
    packages: tuple[str, ...]


RECIPES = {
    "codex": Recipe("npm", ("@openai/codex@0.169.0",)),
    "claude": Recipe("npm", ("@anthropic-ai/claude-code@2.1.197",)),
    "llm": Recipe("pip", ("llm==0.36",)),
    "mini": Recipe("pip", ("mini-swe-agent==2.4.6", "mcp>=2")),
    "opencode": Recipe("npm", ("opencode-ai@1.18.33",)),
    "goose": Recipe("npm", ("@aaif/goose-acp@1.50.0",)),
    "gemini": Recipe("npm", ("@google/gemini-cli@0.61.0",)),
    "aider": Recipe("pip", ("aider-chat==0.86.2",)),
    "cline": Recipe("npm", ("cline@3.0.65",)),
}


@dataclass(frozen=True)
class Place:
    """Where a program is installed."""

    path: str
    """PATH, to find it."""
    roots: tuple[Path, ...]
    """Directories that must be readable."""


def directory() -> Path:
    """The directory where programs are installed, the same for all runs."""
    return Path(os.environ.get(DIRECTORY) or ROOT / ".venv-agents" / "more")


def installed(name: str, stub: bool = False) -> Place:
    """Return a program; install it if necessary. Raises Skip if that is impossible. `stub`: without its
    install scripts.
    """
    if stub:
        place = directory() / "npm" / f"{name}-stub"
        _npm(place, ("--ignore-scripts", *RECIPES[name].packages))
        return _place(place / "node_modules/.bin")
    for light in sorted((ROOT / ".venv-agents").glob("bin")) + sorted((ROOT / ".venv-agents").glob(BUNDLED)):
        if (light / PRESETS[name].executable).exists():
            return _place(light, (ROOT / ".venv-agents").resolve())
    recipe = RECIPES[name]
    place = directory() / recipe.registry / name
    bin_ = place / ("node_modules/.bin" if recipe.registry == "npm" else "bin")
    if not (bin_ / PRESETS[name].executable).exists():
        (_npm if recipe.registry == "npm" else _pip)(place, recipe.packages)
    return _place(bin_)


def _place(bin_: Path, root: Path | None = None) -> Place:
    bin_ = bin_.resolve()  # the sandbox shows real directories only
    node = shutil.which("node")
    tools = [Path(node).resolve().parent] if node else []
    inside = root or (bin_.parent if bin_.name == "bin" else bin_.parent.parent)
    roots = [inside, Path(sys.prefix), Path(sys.base_prefix), *(place.parent for place in tools)]
    python = bin_ / "python"
    if python.exists():
        roots.append(python.resolve().parent.parent)
    system = {"/", "/usr", "/usr/local"}  # those are shown anyway
    shown = tuple(dict.fromkeys(root.resolve() for root in roots if str(root.resolve()) not in system))
    return Place(os.pathsep.join([*map(str, (bin_, *tools)), "/usr/local/bin", "/usr/bin", "/bin"]), shown)


def _npm(place: Path, packages: tuple[str, ...]) -> None:
    if not shutil.which("npm"):
        raise Skip("npm is not installed")
    place.mkdir(parents=True, exist_ok=True)
    _install(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(place), *packages], place)


def _pip(place: Path, packages: tuple[str, ...]) -> None:
    _install([sys.executable, "-m", "venv", str(place)], place)
    _install([str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages], place)


def _install(argv: list[str], place: Path) -> None:
    try:
        done = subprocess.run(
            argv, capture_output=True, timeout=INSTALLING, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Skip(f"{argv[0]} can't install: {error}") from None
    if done.returncode:
        shutil.rmtree(place, ignore_errors=True)
        words = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
        raise Skip(f"{' '.join(argv[:3])} failed: {words[:200]}")


def model(endpoint: str | None, provider: str = "openai") -> Model:
    """A model behind an endpoint, with prices."""
    return Model(
        name="m",
        provider_model=f"{provider}/scripted",
        endpoint=endpoint,
        input_price=2.0,
        cached_price=0.2,
        output_price=10.0,
    )


def run_of(scratch: Path, place: Place, endpoint: str, prompt: str, **more: object) -> Run:
    """A run with a home and a workspace under `scratch`."""
    home, workspace = scratch / "home", scratch / "workspace"
    home.mkdir(parents=True, exist_ok=True)
    workspace.mkdir(parents=True, exist_ok=True)
    profile: Profile = more.pop("profile", "full")  # type: ignore[assignment]
    values = {"deadline_seconds": 60.0, "name": "j", "role": "Worker", **more}
    return Run(
        prompt=prompt,
        workspace=workspace,
        home=home,
        model=model(endpoint),
        api_key=KEY,
        profile=profile,
        path=place.path,
        **values,  # type: ignore[arg-type]
    )


def environment(run: Run, invocation: Invocation) -> dict[str, str]:
    """The complete environment, as the courier builds it."""
    temporary = run.home / "tmp"
    temporary.mkdir(exist_ok=True)
    own = {"PATH": run.path, "HOME": str(run.home), "TMPDIR": str(temporary), "LANG": "C.UTF-8"}
    return own | read_proxies({}) | dict(invocation.environment)


def write_files(home: Path, files: Mapping[str, bytes]) -> None:
    """Files that a program needs in its home directory."""
    for name, data in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(data)


def results(home: Path, names: tuple[str, ...]) -> dict[str, str]:
    """The files that it left there for `read`."""
    found = {name: home / name for name in names}
    return {name: path.read_text("utf-8", "replace") for name, path in found.items() if path.is_file()}


def finished(program: Program, run: Run, seconds: float) -> Finished:
    """Run once without a sandbox, in a separate process group that is killed at the deadline."""
    invocation = program.invocation(run)
    write_files(run.home, invocation.files)
    argv = [shutil.which(invocation.argv[0], path=run.path) or invocation.argv[0], *invocation.argv[1:]]
    if Path(argv[0]).is_file() and Path(argv[0]).read_bytes()[:2] not in (b"#!", b"\x7fE"):
        argv.insert(0, "/bin/sh")  # as a shell does with a file that is not a program
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        argv,
        env=environment(run, invocation),
        cwd=run.workspace,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
    )
    how: How = "exited"
    try:
        out, err = process.communicate(invocation.stdin, timeout=seconds)
    except subprocess.TimeoutExpired:
        how = "timeout"
        os.killpg(process.pid, signal.SIGTERM)
        try:
            out, err = process.communicate(timeout=3)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
    status = process.returncode
    return Finished(
        status=status if status >= 0 else None,
        how=how if status >= 0 or how == "timeout" else "killed",
        stdout=out.decode("utf-8", "replace"),
        stderr=err.decode("utf-8", "replace"),
        files=results(run.home, invocation.results),
        signal=-status if status < 0 else None,
    )
