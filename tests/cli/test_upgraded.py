"""Logist is upgraded while a command works: nothing else begins, no answer is lost, and the command says so.

The commands run from a copy of the package. While the model works, each of its files is replaced by one that can't be
imported, as if every module of the new version were different.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from logist import __version__
from logist.installed_files import LOOK_SECONDS, InstalledFiles
from tests import support
from tests.cli.desk import Desk
from tests.cli.test_interrupted import paid
from tests.cli.test_progress import DONE, SETTINGS, WRITES
from tests.loopback import Loopback

DIFFERENT = "raise RuntimeError('a module of another version')\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory with an installed copy of Logist."""
    package = tmp_path / "site" / "logist"
    shutil.copytree(support.ROOT / "logist", package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("roles", "schemas"):
        shutil.copytree(support.ROOT / name, package / "_data" / name)
    return package.parent


def start(desk: Desk, site: Path, *args: str) -> subprocess.Popen[bytes]:
    env = support.process_environment() | desk.env | paid(desk)
    env["PYTHONPATH"] = os.pathsep.join([str(support.GUARDED), str(site)])
    command = [sys.executable, "-m", "logist", *args]
    return subprocess.Popen(command, cwd=desk.place, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_until_loaded(process: subprocess.Popen[bytes]) -> str:
    """Wait until the command shows what the agent does: it has loaded its modules then. Returns what it has printed."""
    assert process.stderr
    lines = []
    while b"waiting for the answer" not in (line := process.stderr.readline()) and line:
        lines.append(line)
    return b"".join(lines).decode()


def upgrade(site: Path) -> None:
    """Replace every file, as package managers do: the new one gets the name of the old one."""
    for path in sorted((site / "logist").rglob("*"), key=lambda path: (path.name != "version.py", path)):
        if path.suffix == ".py":
            new = path.with_suffix(".new")
            new.write_text('__version__ = "9.8.7"\n' if path.name == "version.py" else DIFFERENT, "utf-8")
            new.rename(path)
        elif path.suffix in (".pyc", ".json", ".yaml", ".md"):
            path.unlink()


COMMANDS = [
    ["run", "--watch", "--parallel", "1"],
    ["run", "--parallel", "1"],
    ["job", "run", "j1"],
    ["job", "step", "j1"],
]


@pytest.mark.deep_beyond(2)
@pytest.mark.parametrize("answered", [True, False], ids=["at once", "later"])
@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_the_answer_is_kept_and_no_other_step_begins(
    desk: Desk, site: Path, args: list[str], answered: bool
) -> None:
    gate = threading.Event()
    with Loopback(WRITES, DONE | {"gate": gate}) as server:
        desk.settings(SETTINGS.replace("{url}", server.url))
        desk.create("j1")
        desk.create("j2")
        process = start(desk, site, *args)
        server.wait_for(2)
        shown = wait_until_loaded(process)
        upgrade(site)
        if answered:
            gate.set()
        out, err = (each.decode() for each in process.communicate(timeout=support.CRASHED))
        err = shown + err
        gate.set()
        recorded = desk.process("job", "step", "j1", "--wait", "60", env=paid(desk))
    assert process.returncode == 8, (out, err)
    assert f"Logist was upgraded from {__version__} to 9.8.7 while this command worked" in err
    assert ("run the command again" in err) is (args[0] == "run")
    assert "to continue, run: logist job step --job j1" in err
    assert "another version" not in out + err
    assert "Traceback" not in err
    assert len(server.requests) == 2
    assert recorded.code == 11, recorded
    assert [entry["kind"] for entry in desk.history("j1")] == ["create", "ask"]
    assert desk.history("j1")[-1]["response"]["status"] == "SUCCESS"
    assert not (desk.job("j1") / "inflight").exists()
    assert [desk("job", "verify", job).code for job in ("j1", "j2")] == [0, 0]


def test_a_watch_without_work_ends_too(desk: Desk, site: Path) -> None:
    desk.settings("poll_interval_seconds: 0.2\n")
    heartbeat = desk.place / "heartbeat"
    process = start(desk, site, "run", "--watch", "--heartbeat", str(heartbeat))
    rounds: set[str] = set()
    while len(rounds) < 2:  # it has loaded everything before it waits for the second one
        assert process.poll() is None
        time.sleep(0.05)
        if heartbeat.exists():
            rounds.update(re.findall(r"last_round_timestamp_seconds ([1-9]\S+)", heartbeat.read_text()))
    upgrade(site)
    _, err = process.communicate(timeout=support.CRASHED)
    assert (process.returncode, b"was upgraded from" in err) == (8, True), err


class TestInstalledFiles:
    def make(self, folder: Path) -> InstalledFiles:
        (folder / "below").mkdir()
        (folder / "below" / "a.py").write_text("1", "utf-8")
        (folder / "version.py").write_text(f'__version__ = "{__version__}"\n', "utf-8")
        return InstalledFiles(str(folder))

    def wait_and_look(self, installed: InstalledFiles) -> bool:
        installed._looked_at -= LOOK_SECONDS
        return installed.have_changed()

    def test_what_python_writes_is_no_change(self, tmp_path: Path) -> None:
        installed = self.make(tmp_path)
        (tmp_path / "below" / "__pycache__").mkdir()
        (tmp_path / "below" / "__pycache__" / "a.pyc").write_text("1", "utf-8")
        assert not self.wait_and_look(installed)

    def test_a_changed_a_new_and_a_removed_file_are(self, tmp_path: Path) -> None:
        installed = self.make(tmp_path)
        file = tmp_path / "below" / "a.py"
        file.write_text("22", "utf-8")
        assert not installed.have_changed()  # not more often than once a second
        assert self.wait_and_look(installed)
        assert (
            installed.describe_change()
            == f"the files of Logist {__version__} were changed while this command worked"
        )
        other = InstalledFiles(str(tmp_path))
        file.unlink()
        assert self.wait_and_look(other)
        assert installed.have_changed()

    def test_an_uninstalled_logist_is_a_change(self, tmp_path: Path) -> None:
        folder = tmp_path / "package"
        folder.mkdir()
        installed = self.make(folder)
        shutil.rmtree(folder)
        assert self.wait_and_look(installed)
        assert "were changed" in installed.describe_change()
