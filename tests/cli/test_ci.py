"""As in CI: no HOME, no account, a read-only checkout, and trust that the environment gives."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.desk import Desk
from tests.support import CRASHED, git, logist_command, make_repository, process_environment

SCRIPT = r"""
set -e
export LOGIST_TRUST=$("$@" trust --print)
"$@" job create --id j1 --prompt x --approval none >&2
"$@" run --log-file "$LOGIST_JOBS_DIR/../log" --heartbeat "$LOGIST_JOBS_DIR/../prom" >&2
"$@" doctor | grep -E '^(error|warning) +(home|jobs|config|roles)' >&2 || true
"$@" job status j1
"$@" inbox >&2
"$@" job delete j1 --yes >&2
"""


def has_namespaces() -> bool:
    command = [
        "bwrap",
        "--dev-bind",
        "/",
        "/",
        "--unshare-user",
        "--uid",
        "4711",
        "--gid",
        "4711",
        "--",
        "true",
    ]
    return shutil.which("bwrap") is not None and subprocess.run(command, check=False).returncode == 0


@pytest.fixture
def checkout(desk: Desk) -> Path:
    place = make_repository(desk.place / "checkout")
    (place / ".logist").mkdir()
    (place / ".logist" / "config.yaml").write_text(
        "on_stuck: touch told\nworkspace: {setup: 'true'}\n", "utf-8"
    )
    git(place, "add", ".")
    git(place, "commit", "--quiet", "--message", "config")
    return place


@pytest.mark.skipif(not has_namespaces(), reason="bubblewrap can't make namespaces here")
@pytest.mark.parametrize("user", [None, "4711"])
def test_everything_works_in_a_read_only_checkout_without_home_and_account(
    desk: Desk, checkout: Path, user: str | None
) -> None:
    jobs = desk.place / "there" / "jobs"
    jobs.mkdir(parents=True)
    given = process_environment() | desk.env | {"LOGIST_JOBS_DIR": str(jobs), "LOGIST_NO_INPUT": "1"}
    environment = {
        name: value for name, value in given.items() if name not in ("HOME", "XDG_CONFIG_HOME", "USER")
    }
    before = sorted(os.listdir(checkout / ".logist"))
    identity = ["--unshare-user", "--uid", user, "--gid", user] if user else []
    done = subprocess.run(
        [
            *("bwrap", "--dev-bind", "/", "/", "--ro-bind", str(checkout), str(checkout), *identity, "--"),
            *("sh", "-c", SCRIPT, "sh", *logist_command()),
        ],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=CRASHED,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("j1 is SUCCESS")
    assert "error" not in done.stderr
    assert sorted(os.listdir(checkout / ".logist")) == before
    assert (desk.place / "there" / "log").exists()
    assert (desk.place / "there" / "prom").exists()
    assert [name for name in os.listdir(jobs) if not name.startswith(".")] == []


def test_without_the_right_digest_nothing_runs(desk: Desk, checkout: Path) -> None:
    env = desk.env | {"LOGIST_JOBS_DIR": str(desk.jobs), "LOGIST_TRUST": "sha256:0"}
    refused = subprocess.run(
        [*logist_command(), "run"],
        cwd=checkout,
        env=process_environment() | env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 5
    assert "LOGIST_TRUST is set, but for other settings" in refused.stderr
