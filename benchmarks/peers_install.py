"""Installs the programs and libraries that Logist is compared with, each at a pinned version in a directory of its own.

Run: python benchmarks/peers_install.py [--peers langgraph dbos ...] [--place .venv-peers]

pip and npm install them as child processes that get only the variables of `PASSED`. What is installed already is used
again, without the network. A peer that can't be installed is named with the reason, and the others are not affected.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from measure import table

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / ".venv-peers"
INSTALLING = 1200.0
"""Seconds that one peer may take."""
PASSED = (
    *("PATH", "HOME", "TMPDIR", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_CERT"),
    *("NPM_CONFIG_REGISTRY", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
"""The environment variables that pip and npm get: how to reach their registry, and no key of a provider."""


class Peer(NamedTuple):
    """A program or a library, and how it is installed."""

    title: str
    registry: Literal["pip", "npm"]
    packages: tuple[str, ...]
    """With versions; the first one is the peer itself, the others are what it needs for the same work."""
    command: str = ""
    """Its program, if it has one."""


PEERS = {
    "langgraph": Peer("LangGraph", "pip", ("langgraph==1.2.24", "langgraph-checkpoint-sqlite==3.1.2")),
    "dbos": Peer("DBOS", "pip", ("dbos==3.4.0",), "dbos"),
    "pydantic-graph": Peer("pydantic-graph", "pip", ("pydantic-graph==1.107.10",)),
    "temporal": Peer("Temporal's Python SDK", "pip", ("temporalio==1.35.0",)),
    "mini": Peer("mini-swe-agent", "pip", ("mini-swe-agent==2.4.6",), "mini"),
    "pflow": Peer("pflow", "pip", ("pflow-cli==0.16.0",), "pflow"),
    "llm": Peer("llm", "pip", ("llm==0.36",), "llm"),
    "inspect": Peer("Inspect", "pip", ("inspect-ai==0.3.285", "openai==3.57.0"), "inspect"),
    "aider": Peer("Aider", "pip", ("aider-chat==0.86.2",), "aider"),
    "litellm": Peer("litellm", "pip", ("litellm==1.110.2",)),
    "openai": Peer("openai SDK", "pip", ("openai==3.57.0",)),
    "vcrpy": Peer("VCR.py", "pip", ("vcrpy==9.4.2", "httpx==0.28.1")),
    "doit": Peer("doit", "pip", ("doit==0.37.0",), "doit"),
    "spec-kit": Peer("spec-kit", "pip", ("specify-cli==1.2.3",), "specify"),
    "claude": Peer("Claude Code", "npm", ("@anthropic-ai/claude-code@2.1.332",), "claude"),
    "codex": Peer("Codex", "npm", ("@openai/codex@0.171.0",), "codex"),
    "task-master": Peer("task-master", "npm", ("task-master-ai@0.43.1",), "task-master"),
}


class Installed(NamedTuple):
    """A peer that can be run."""

    name: str
    title: str
    versions: str
    """Of its packages, such as `langgraph 1.2.24`."""
    place: Path
    python: str
    """Its interpreter; empty for a peer from npm."""
    command: str
    """The path of its program; empty if it has none."""


class Missing(Exception):
    """A peer can't be installed; the message is the reason."""


def install_peers(names: Iterable[str], place: Path = PLACE) -> dict[str, Installed | Missing]:
    """Install peers one after the other, unless they are there; each is a peer that can be run, or why not."""
    peers: dict[str, Installed | Missing] = {}
    for name in names:
        try:
            peers[name] = install_peer(name, place)
        except Missing as reason:
            peers[name] = reason
    return peers


def install_peer(name: str, place: Path = PLACE) -> Installed:
    """Install one peer in `place/NAME`, unless it is there. Raises Missing."""
    peer, folder = PEERS[name], place.absolute() / name
    wanted = json.dumps(
        [*peer.packages, str(folder)]
    )  # a directory that was moved must not run its old programs
    stamp = folder / "installed.json"
    if not stamp.is_file() or stamp.read_text("utf-8") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        print(f"installing {', '.join(peer.packages)} in {folder}", file=sys.stderr, flush=True)
        folder.mkdir(parents=True)
        try:
            (_install_with_pip if peer.registry == "pip" else _install_with_npm)(folder, peer.packages)
        except Missing:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        stamp.write_text(wanted, "utf-8")
    return _find_installed(name, folder)


def _find_installed(name: str, folder: Path) -> Installed:
    peer = PEERS[name]
    versions = ", ".join(" ".join(split_version(package)) for package in peer.packages)
    bin_ = folder / ("bin" if peer.registry == "pip" else "node_modules/.bin")
    command = str(bin_ / peer.command) if peer.command else ""
    if command and not Path(command).exists():
        raise Missing(f"{peer.packages[0]} has no program {peer.command}")
    python = str(bin_ / "python") if peer.registry == "pip" else ""
    return Installed(name, peer.title, versions, folder, python, command)


def split_version(package: str) -> tuple[str, str]:
    """Return the name and the version of `name==1.2` or `@scope/name@1.2`."""
    name, _, version = package.rpartition("==" if "==" in package else "@")
    return name, version


def _install_with_pip(folder: Path, packages: tuple[str, ...]) -> None:
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-input"]
    _run_installer([sys.executable, "-m", "venv", str(folder)])
    _run_installer([*pip, "--disable-pip-version-check", *packages])


def _install_with_npm(folder: Path, packages: tuple[str, ...]) -> None:
    if not shutil.which("npm"):
        raise Missing("npm is not installed")
    _run_installer(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *packages])


def _run_installer(argv: list[str]) -> None:
    environment = {name: os.environ[name] for name in PASSED if name in os.environ} | {"LANG": "C.UTF-8"}
    try:
        done = subprocess.run(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=INSTALLING,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Missing(f"{_name_installer(argv)} took longer than {INSTALLING:g} seconds") from None
    if done.returncode:
        raise Missing(f"{_name_installer(argv)} failed: {choose_reason(done.stderr)}")


def _name_installer(argv: list[str]) -> str:
    return next((name for name in ("pip", "venv") if name in argv), argv[0])


def choose_reason(errors: str) -> str:
    """The line of an installer's output that says most: its last error, or its last line."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    marked = [line for line in lines if line.lower().startswith(("error", "npm err"))]
    return (marked or lines or ["no message"])[-1][:200]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that choose peers, for every program that compares with them."""
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS), metavar="NAME")
    parser.add_argument("--place", type=Path, default=PLACE, help="where peers are installed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    options = parser.parse_args()
    rows: list[list[object]] = [["peer", "versions", ""]]
    for name, peer in install_peers(options.peers, options.place).items():
        rows.append(
            [name, peer.versions, str(peer.command or peer.python)]
            if isinstance(peer, Installed)
            else [name, "not installed", str(peer)]
        )
    table(rows)


if __name__ == "__main__":
    main()
