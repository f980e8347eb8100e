"""Setups and checks of `logist run --on` in real worker processes."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.cli.desk import Desk, answer
from tests.cli.test_setup import TOOL, config, create
from tests.dask_bench import wait_until

WORK = answer(files={"a.txt": "made\n"})


def test_setup_and_checks_run_in_worker_processes(desk: Desk) -> None:
    config(desk, {"commands": [TOOL], "environment": ["MINE"]}, "tool; cat a.txt; echo x > a.txt")
    desk.script(WORK)
    for job_id in ("j1", "j2", "j3"):
        create(desk, job_id)
    ran = desk.process("run", "--on", "dask:2", "--max-jobs", "2", env={"MINE": "x"})
    assert "ready jobs left (to continue: logist run --on dask:2)" in ran.err
    assert "running the check ours" in ran.err
    for job_id in ("j1", "j2"):
        (check,) = desk.state(job_id)["checks"]
        assert (check["outcome"], check["output"]) == ("passed", "hi\nmade"), ran.err
        assert not (desk.job(job_id) / "workspace" / ".venv").exists()
        assert desk("job", "verify", job_id).code == 0
        assert desk("job", "replay", job_id).code == 0


def test_ctrl_c_ends_a_check_and_the_next_run_repeats_only_that(desk: Desk, tmp_path: Path) -> None:
    began, ended = tmp_path / "began", tmp_path / "ended"
    line = f"test -e {began} || {{ touch {began}; sleep 60; touch {ended}; }}"
    config(desk, [], line)
    desk.settings((desk.home / "config.yaml").read_text()[:-1] + ', "sandbox": {"mode": "off"}}')
    assert desk("trust", "--yes").code == 0
    desk.script(WORK)
    create(desk)
    run = desk.started("run", "--on", "dask:1", stderr=-1, stdout=-1)
    wait_until(began.exists)
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=120)
    assert run.returncode == 130, err
    assert b"Traceback" not in err
    assert not ended.exists()
    ran = desk.process("run", "--on", "dask:1", "--max-jobs", "1")
    assert desk.state("j1")["checks"][0]["outcome"] == "passed", ran.err
