"""Logist on an emulated Mac: its modules, and whole tasks with scripted agents."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from tests.cli.desk import answer
from tests.macos.mac import Mac
from tests.support import Ran, git, make_repository

IMPORT_ALL = """
import importlib, pkgutil, logist
skipped = ("logist.__main__", "logist.agents.courier.__main__", "logist.agents.remote.dask")
failed = []
for module in pkgutil.walk_packages(logist.__path__, "logist."):
    if not module.name.startswith(skipped):
        try:
            importlib.import_module(module.name)
        except ImportError as error:  # a library of the cluster has a part in C for each system
            if "_psutil_osx" not in str(error):
                failed.append(f"{module.name}: {error!r}")
        except (AttributeError, OSError, AssertionError) as error:
            failed.append(f"{module.name}: {error!r}")
print("\\n".join(failed))
"""


def expect(mac: Mac, code: int, command: str, **more: Any) -> Ran:
    """Run Logist, and check its exit code."""
    done = mac.run(*command.split(), **more)
    assert done.code == code, (command, done.out, done.err)
    return done


def test_every_module_can_be_imported(mac: Mac) -> None:
    done = mac.run_python("-c", IMPORT_ALL)
    assert (done.code, done.out.strip(), done.err) == (0, "", "")


def test_output_that_nobody_reads(mac: Mac) -> None:
    for unbuffered in ("", "1"):
        read, write = os.pipe()
        os.close(read)
        shown = mac.start(
            "--version", env={"PYTHONUNBUFFERED": unbuffered}, stdout=write, stderr=subprocess.PIPE
        )
        os.close(write)
        _, errors = shown.communicate(timeout=60)
        assert (shown.returncode, errors) == (0, b"")


def test_the_disguise_names_what_only_linux_has(mac: Mac) -> None:
    done = mac.run_python("-c", "import os; os.pidfd_open(1)")
    assert done.err.endswith("AttributeError: module 'os' has no attribute 'pidfd_open'\n")
    done = mac.run_python("-c", "import ctypes; ctypes.CDLL(None).syncfs(0)")
    assert "syncfs" in done.err.splitlines()[-1]
    done = mac.run_python("-c", "open('/proc/locks')")
    assert done.err.splitlines()[-1].startswith("FileNotFoundError")
    printed = mac.run_python("-c", "import platform, sys; print(sys.platform, platform.system())")
    assert printed.out == "darwin Darwin\n"


@pytest.mark.parametrize("module", ["agents.tools.matching", "jobs.erasure.matching_texts"])
def test_a_process_that_matches_patterns_can_limit_itself(mac: Mac, module: str) -> None:
    """It runs without `site`, so it doesn't wear the disguise."""
    done = mac.run_python("-c", f"import logist.{module} as module; module._limit_resources()")
    assert (done.code, done.err) == (0, "")


def test_an_id_in_another_case_is_not_that_of_a_job(mac: Mac) -> None:
    """Most file systems of macOS would open the directory of `j1`."""
    mac.script(answer(), answer())
    expect(mac, 0, "init")
    expect(mac, 0, "job create --id j1 --no-repo --prompt change")
    for command in ("job step J1", "job cancel J1 --note No.", "job history J1"):
        assert "job 'J1' not found" in expect(mac, 2, command).err
    expect(mac, 0, "job step j1")


def test_a_job_runs_and_is_merged(mac: Mac) -> None:
    mac.project.rmdir()
    make_repository(mac.project)
    mac.script(answer(files={"src/app.py": "ANSWER = 43\n", "new.txt": "new\n"}), answer())
    expect(mac, 0, "init")
    expect(mac, 0, "job create --id j1 --prompt change")
    expect(mac, 11, "run")
    for command in ("approve", "verify", "replay", "diff", "status", "history", "merge"):
        expect(mac, 0, f"job {command} j1")
    expect(mac, 0, "job list")
    assert (mac.project / "src/app.py").read_text("utf-8") == "ANSWER = 43\n"
    assert (mac.project / "new.txt").exists()
    assert git(mac.project, "status", "--porcelain", "src") == ""


def test_the_demo_and_exports(mac: Mac) -> None:
    expect(mac, 0, "demo")
    mac.script(*[answer()] * 4)
    expect(mac, 0, "init")
    expect(mac, 0, "job create --id j1 --no-repo --prompt change")
    expect(mac, 11, "run")
    expect(mac, 0, "job export j1 --fixture fixture")
    expect(mac, 0, "stats")
    expect(mac, 0, "replay fixture .logist/jobs/j1 --jobs 2")
    expect(mac, 11, "inbox")
    expect(mac, 0, "job restep j1 --to 2")
    expect(mac, 11, "job run j1")
    expect(mac, 0, "job fork j1 --id j2")
    expect(mac, 0, "gc --older-than 1d --dry-run")
