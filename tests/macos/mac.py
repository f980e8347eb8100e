"""A Mac, as far as Linux can emulate one: an environment of Python whose processes, and those that they start, wear the disguise."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support import CRASHED, ROOT, Ran, process_environment

HERE = Path(__file__).parent


class Mac:
    """The environment `place`, and a project in it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.python = place / "bin" / "python"
        self.project = place / "project"
        self.jobs = self.project / ".logist" / "jobs"
        self.env: dict[str, str] = {"LOGIST_STEWARD": "ada"}
        self._build()

    def _build(self) -> None:
        packages = self.place / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
        packages.mkdir(parents=True)
        self.python.parent.mkdir()
        self.python.symlink_to(os.path.realpath(sys.executable))
        home = Path(sys.base_prefix, "bin")
        (self.place / "pyvenv.cfg").write_text(
            f"home = {home}\ninclude-system-site-packages = false\n", "utf-8"
        )
        shutil.copy(HERE / "disguise.py", packages / "mac_disguise.py")
        shutil.copy(HERE / "linux_only.txt", packages)
        # First: what notes which tests reach which code (`scripts/test --near --record`) needs /proc.
        own = [sysconfig.get_paths()["purelib"], str(ROOT)]
        (packages / "mac.pth").write_text(
            f"import site; list(map(site.addsitedir, {own!r}))\nimport mac_disguise\n", encoding="utf-8"
        )
        self.project.mkdir()

    def run(self, *args: str, stdin: str = "", env: Mapping[str, str] | None = None) -> Ran:
        """Run Logist in the project."""
        return self.run_python("-m", "logist", *args, stdin=stdin, env=env)

    def run_python(self, *args: str, stdin: str = "", env: Mapping[str, str] | None = None) -> Ran:
        """Run Python in the project."""
        done = subprocess.run(
            [self.python, *args],
            input=stdin.encode(),
            capture_output=True,
            env=self._environment(env),
            cwd=self.project,
            timeout=CRASHED,
            check=False,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *args: str, env: Mapping[str, str] | None = None, **more: Any) -> subprocess.Popen[bytes]:
        """Start Logist in the project, as a process that goes on by itself."""
        return subprocess.Popen(
            [self.python, "-m", "logist", *args], cwd=self.project, env=self._environment(env), **more
        )

    def _environment(self, env: Mapping[str, str] | None) -> dict[str, str]:
        return process_environment() | self.env | dict(env or {})

    def script(self, *answers: dict[str, Any]) -> None:
        """What the scripted agent says, to every job from its first ask on."""
        (self.place / "answers.json").write_text(json.dumps({"answers": list(answers)}), "utf-8")
        self.env["LOGIST_AGENT"] = f"scripted:{self.place / 'answers.json'}"

    def settings(self, text: str) -> None:
        """Write the config of the project."""
        (self.project / ".logist" / "config.yaml").write_text(text, "utf-8")

    def use_model(self, url: str, settings: str = "") -> None:
        """Use a model at this address; more settings are lines of YAML."""
        lines = ["models:"]
        for name in ("grok-code-fast-1", "gemini-2.5-flash"):
            lines += [f"  {name}:", "    provider_model: openai/some-model", f"    endpoint: {url}"]
            lines += ["    api_key_env: MY_MODEL", "    input_price: 0.5", "    output_price: 2.0"]
        self.settings("\n".join(lines) + "\n" + settings)
        self.env["MY_MODEL"] = "dummy-key-for-tests-0001"

    def state(self, job_id: str = "j1") -> dict[str, Any]:
        """The state of a job."""
        loaded: dict[str, Any] = json.loads((self.jobs / job_id / "state.json").read_bytes())
        return loaded

    def trace(self) -> Path:
        """Begin to record the emulated calls; returns the file."""
        trace = self.place / "trace"
        trace.write_text("", "utf-8")
        return trace

    def history(self, job_id: str = "j1") -> list[dict[str, Any]]:
        """The entries of the history of a job."""
        loaded: dict[str, Any] = json.loads((self.jobs / job_id / "jobHistory.json").read_bytes())
        entries: list[dict[str, Any]] = loaded["interactions"]
        return entries

    def courier_log(self, job_id: str = "j1") -> str:
        """What the couriers of a job wrote to their log."""
        log = self.jobs / job_id / "logs" / "courier.log"
        return log.read_text("utf-8") if log.exists() else ""

    def kill_courier(self, job_id: str = "j1") -> None:
        """Kill the courier that works on a job."""
        signers = json.loads((self.jobs / job_id / "lock").read_bytes())
        os.kill(signers["courier"]["pid"], signal.SIGKILL)
